"""Observations with what is hidden from the seat to move: for a critic in training, never for anyone who plays."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.observation import HIGHEST, OBS_SIZE
from fivesup_env.rules.play import seat_after
from fivesup_env.rules.state import States
from fivesup_env.rules.tiles import NUM_TILES


def hands_size(num_players: int) -> int:
    """Return how many numbers the other hands take: 28 for each other seat."""
    return NUM_TILES * (num_players - 1)


def full_space(num_players: int) -> spaces.Box:
    """Return the space of what `with_hands` returns: int8[696 + 28 (P - 1)] within 0 .. 127."""
    return spaces.Box(0, HIGHEST, (OBS_SIZE + hands_size(num_players),), np.int8)


def with_hands(states: States, observations: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the observations of the seats to move, each with the hands of the other seats behind it.

    The hands come in turn order from the next seat on, per tile 1 if it is in that hand. What is still to be drawn
    follows from them, but for its order.

    Args:
        states: STATE[N], full states with the same number of seats P.
        observations: int8[N, 696], of the seats to move.

    Returns:
        int8[N, 696 + 28 (P - 1)], a new array.
    """
    full = np.empty((len(states), OBS_SIZE + hands_size(int(states[0]["num_players"]))), np.int8)
    full[:, :OBS_SIZE] = observations
    _write_hands(states, full)
    return full


@kernel
def _write_hands(states: States, out: NDArray[np.int8]) -> None:
    """Write the hands of the seats after the one to move into ``out``, int8[N, 696 + 28 (P - 1)], behind column 695."""
    for row in range(len(states)):
        state = states[row]
        num_players, seat = np.int64(state.num_players), np.int64(state.turn)
        for offset in range(1, num_players):
            hand = np.int64(state.hands[seat_after(num_players, seat, offset)])
            start = OBS_SIZE + NUM_TILES * (offset - 1)
            for tile in range(NUM_TILES):
                out[row, start + tile] = hand >> tile & 1
