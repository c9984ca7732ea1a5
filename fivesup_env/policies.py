"""The two simplest policies as kernels, for playouts and for the agents `greedy` and `random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fivesup_env._bits import lowest_bit, popcount
from fivesup_env._jit import kernel
from fivesup_env.actions import ENDS_ID, only_action
from fivesup_env.rules.chance import below
from fivesup_env.rules.layout import opening_total, points, total_after
from fivesup_env.rules.play import playable
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import State
from fivesup_env.rules.tiles import HIGH, LOW, NUM_KINDS, PIPS

GREEDY, RANDOM = 0, 1


@kernel
def policy_action(state: State, policy: int, key: np.uint64) -> Any:
    """Return the `ends` action of GREEDY or RANDOM for the seat to move, which must have one."""
    return greedy_action(state) if policy == GREEDY else random_action(state, key)


@kernel
def random_action(state: State, key: np.uint64) -> Any:
    """Return a legal `ends` action, each equally likely."""
    tiles = playable(state)
    if tiles == 0:
        return only_action(state)
    if state.num_placed == 0:
        chosen, _ = below(key, popcount(tiles))
        while chosen:
            tiles &= tiles - 1
            chosen -= 1
        return lowest_bit(tiles)
    count, left = np.int64(0), tiles
    while left:
        tile = lowest_bit(left)
        left &= left - 1
        count += _kinds_open(state, LOW[tile])
        if LOW[tile] != HIGH[tile]:
            count += _kinds_open(state, HIGH[tile])
    chosen, _ = below(key, count)
    return _legal_placement(state, tiles, chosen)


@kernel
def _kinds_open(state: State, value: int) -> Any:
    """Return how many kinds of ends of this value are open."""
    values = state.open_values
    return np.int64((values[0] >> value & 1) + (values[1] >> value & 1) + (values[2] >> value & 1))


@kernel
def _legal_placement(state: State, tiles: int, number: int) -> Any:
    """Return the placement with this number, counted by tile, half and kind."""
    while tiles:
        tile = lowest_bit(tiles)
        tiles &= tiles - 1
        for half in range(2 if LOW[tile] != HIGH[tile] else 1):
            value = LOW[tile] if half == 0 else HIGH[tile]
            for kind in range(NUM_KINDS):
                if np.int64(state.open_values[kind]) >> value & 1:
                    if number == 0:
                        return ENDS_ID[tile, value] + kind
                    number -= 1
    return np.int64(-1)


@kernel
def greedy_action(state: State) -> Any:
    """Return the `ends` action with most points now that fit the exact target, then most pips, then the lowest id."""
    tiles = playable(state)
    if tiles == 0:
        return only_action(state)
    best, best_worth = np.int64(-1), np.int64(-1)
    room = np.int64(state.target) - np.int64(state.scores[side_of(np.int64(state.num_players), np.int64(state.turn))])
    while tiles:
        tile = lowest_bit(tiles)
        tiles &= tiles - 1
        if state.num_placed == 0:
            worth = _worth(opening_total(tile), room, PIPS[tile])
            if worth > best_worth:
                best, best_worth = tile, worth
            continue
        for half in range(2 if LOW[tile] != HIGH[tile] else 1):
            value = LOW[tile] if half == 0 else HIGH[tile]
            for kind in range(NUM_KINDS):
                if np.int64(state.open_values[kind]) >> value & 1:
                    worth = _worth(total_after(state, tile, kind, value), room, PIPS[tile])
                    if worth > best_worth:
                        best, best_worth = ENDS_ID[tile, value] + kind, worth
    return best


@kernel
def _worth(total: int, room: int, pips: int) -> Any:
    """Return a number that orders actions by the points they would bring, then by pips (at most 12)."""
    scored = points(total)
    return (scored if scored <= room else 0) * 16 + pips
