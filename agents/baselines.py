"""Baselines: `random` and `greedy`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.policies import greedy_action
from fivesup_env.rules.chance import below
from fivesup_env.rules.state import States


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
