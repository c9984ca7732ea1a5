"""Reproducible chance: keys mixed from integers, and bounded draws from them (R3, R4).

A *key* is a uint64. `mix` derives a key from a key and a number; `next_key` walks the sequence that starts at a key
(SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). Nothing here keeps a state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel
def scramble(key: np.uint64) -> Any:
    """Return `key` with its bits mixed: a bijection of uint64 in which every input bit affects every output bit."""
    key = (key ^ (key >> _SHIFT_1)) * _MULTIPLIER_1
    key = (key ^ (key >> _SHIFT_2)) * _MULTIPLIER_2
    return key ^ (key >> _SHIFT_3)


@kernel
def next_key(key: np.uint64) -> Any:
    """Return the key that follows `key` in its sequence; its `scramble` is the random number there."""
    return key + _GAMMA


@kernel
def mix(key: np.uint64, number: np.uint64) -> Any:
    """Return a key for `number` under `key`: different numbers give unrelated sequences."""
    return scramble(scramble(key + _GAMMA) ^ scramble(number * _GAMMA + _MULTIPLIER_1))


@kernel
def below(key: np.uint64, bound: int) -> Any:
    """Draw uniformly from 0 .. bound - 1 (1 <= bound <= 2**31).

    Returns:
        The number drawn (int64), and the key to go on with. Candidates that are too large are rejected, so that every
        number is equally likely; a remainder would favour the small ones.
    """
    bits = np.int64(bound - 1)
    bits |= bits >> 1
    bits |= bits >> 2
    bits |= bits >> 4
    bits |= bits >> 8
    bits |= bits >> 16
    while True:
        key = next_key(key)
        candidate = np.int64(scramble(key) >> np.uint64(32)) & bits
        if candidate < bound:
            return candidate, key


@kernel
def shuffle(items: NDArray[Any], count: int, key: np.uint64) -> Any:
    """Permute ``items[:count]`` in place, all orders equally likely (Fisher-Yates); return the key to go on with."""
    for last in range(count - 1, 0, -1):
        other, key = below(key, last + 1)
        item = items[last]
        items[last] = items[other]
        items[other] = item
    return key
