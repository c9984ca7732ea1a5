"""Baselines: `random` and `greedy`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import ENDS_ID, only_action
from fivesup_env.rules.chance import below
from fivesup_env.rules.layout import lowest_tile, opening_total, points, total_after
from fivesup_env.rules.play import playable
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import State, States
from fivesup_env.rules.tiles import HIGH, LOW, NUM_KINDS, PIPS


class RandomAgent:
    """Every legal action is equally likely."""

    def reset(self, seed: int) -> None:
        """Do nothing: all randomness comes with the keys."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        actions = np.empty(len(masks), np.int64)
        random_actions(masks, keys, actions)
        return actions


class GreedyAgent:
    """Most points now that fit the exact target (R10, R22); among those most pips, then the lowest id."""

    def reset(self, seed: int) -> None:
        """Do nothing: there is no randomness."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        actions = np.empty(len(views), np.int64)
        greedy_actions(views, actions)
        return actions


@kernel
def random_actions(masks: NDArray[np.int8], keys: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
    """Write a uniformly drawn legal action of every row of masks int8[N, A] into ``out``, int64[N]."""
    for row in range(len(masks)):
        count = np.int64(0)
        for action in range(masks.shape[1]):
            count += masks[row, action]
        chosen, _ = below(keys[row], count)
        for action in range(masks.shape[1]):
            if masks[row, action]:
                if chosen == 0:
                    out[row] = action
                    break
                chosen -= 1


@kernel
def greedy_actions(states: States, out: NDArray[np.int64]) -> None:
    """Write the greedy `ends` action of every state or view into ``out``, int64[N]."""
    for row in range(len(states)):
        out[row] = greedy_action(states[row])


@kernel
def greedy_action(state: State) -> Any:
    """Return the greedy `ends` action of the seat to move, which must have one."""
    forced = only_action(state)
    if forced >= 0:
        return forced
    best, best_worth = np.int64(-1), np.int64(-1)
    room = np.int64(state.target) - np.int64(state.scores[side_of(np.int64(state.num_players), np.int64(state.turn))])
    tiles = playable(state)
    while tiles:
        tile = lowest_tile(tiles)
        tiles &= tiles - 1
        if state.num_placed == 0:
            worth = _worth(opening_total(tile), room, PIPS[tile])
            if worth > best_worth:
                best, best_worth = tile, worth
            continue
        for half in range(2 if LOW[tile] != HIGH[tile] else 1):
            value = LOW[tile] if half == 0 else HIGH[tile]
            for kind in range(NUM_KINDS):
                if state.open_values[kind] >> value & 1:
                    worth = _worth(total_after(state, tile, kind, value), room, PIPS[tile])
                    if worth > best_worth:
                        best, best_worth = ENDS_ID[tile, value] + kind, worth
    return best


@kernel
def _worth(total: int, room: int, pips: int) -> Any:
    """Return a number that orders actions by the points they would bring, then by pips (at most 12)."""
    scored = points(total)
    return (scored if scored <= room else 0) * 16 + pips
