"""The two simplest policies as kernels, for playouts and for the agents `greedy` and `random`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env._bits import WIDTH, lowest_bit, popcount
from fivesup_env._jit import kernel
from fivesup_env.actions import ENDS_TILE, ends_total, legal_ends, scoring_ends
from fivesup_env.rules.chance import below
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import State
from fivesup_env.rules.tiles import PIPS

GREEDY, RANDOM = 0, 1

#: int64[163]: the pips that an `ends` id places; 0 for draw and pass.
_ENDS_PIPS: NDArray[np.int64] = np.append(PIPS, [0, 0])[ENDS_TILE]


@kernel
def policy_action(state: State, policy: int, key: np.uint64) -> Any:
    """Return the `ends` action of GREEDY or RANDOM for the seat to move, which must have one."""
    return greedy_action(state) if policy == GREEDY else random_action(state, key)


@kernel
def random_action(state: State, key: np.uint64) -> Any:
    """Return a legal `ends` action, each equally likely."""
    action, _ = random_choice(state, key)
    return action


@kernel
def random_choice(state: State, key: np.uint64) -> Any:
    """Return a legal `ends` action, each equally likely, and how many there are."""
    first, second, third = legal_ends(state)
    in_first, in_second = popcount(first), popcount(second)
    count = in_first + in_second + popcount(third)
    number, _ = below(key, count)
    if number < in_first:
        return _nth_bit(first, number), count
    if number < in_first + in_second:
        return WIDTH + _nth_bit(second, number - in_first), count
    return 2 * WIDTH + _nth_bit(third, number - in_first - in_second), count


@kernel
def _nth_bit(bits: int, number: int) -> Any:
    """Return the position of the set bit before which `number` others are set."""
    for _ in range(number):
        bits &= bits - 1
    return lowest_bit(bits)


@kernel
def greedy_action(state: State) -> Any:
    """Return the `ends` action with most points now that fit the exact target, then most pips, then the lowest id."""
    first, second, third = legal_ends(state)
    room = np.int64(state.target) - np.int64(state.scores[side_of(np.int64(state.num_players), np.int64(state.turn))])
    scoring_1, scoring_2, scoring_3 = scoring_ends(state, first, second, third)
    best, worth = np.int64(-1), np.int64(-1)
    best, worth = _best_points(state, scoring_1, 0, room, best, worth)
    best, worth = _best_points(state, scoring_2, WIDTH, room, best, worth)
    best, worth = _best_points(state, scoring_3, 2 * WIDTH, room, best, worth)
    if best >= 0:
        return best
    best, worth = _most_pips(first, 0, best, worth)
    best, worth = _most_pips(second, WIDTH, best, worth)
    best, worth = _most_pips(third, 2 * WIDTH, best, worth)
    return best


@kernel
def _best_points(state: State, scoring: int, base: int, room: int, best: int, worth: int) -> Any:
    """Return the best of `best` and the ids ``base + k``, for the bits k of `scoring`, that score and fit `room`."""
    while scoring:
        action = base + lowest_bit(scoring)
        scoring &= scoring - 1
        total = ends_total(state, action)
        if 0 < total <= room and total * 16 + _ENDS_PIPS[action] > worth:  # 12 pips at most
            best, worth = action, total * 16 + _ENDS_PIPS[action]
    return best, worth


@kernel
def _most_pips(legal: int, base: int, best: int, worth: int) -> Any:
    """Return the best of `best` and the ids ``base + k``, for the bits k of `legal`, by pips."""
    while legal:
        action = base + lowest_bit(legal)
        legal &= legal - 1
        pips = _ENDS_PIPS[action]
        if pips > worth:
            best, worth = action, pips
    return best, worth
