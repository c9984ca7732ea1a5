"""What an agent is, how it is made from a text, and the keys that are its only randomness."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env.rules.chance import mix
from fivesup_env.rules.state import States

_DECISIONS = np.uint64(0xDEC1)  # keeps decisions apart from the deals of the same seed


@runtime_checkable
class Agent(Protocol):
    """Whoever chooses actions. Decisions depend on the arguments of `act` alone, never on how they are batched."""

    def reset(self, seed: int) -> None:
        """Begin afresh, before any match is played; the same seed means the same decisions."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Choose an action in each of N positions.

        Args:
            views: STATE[N], each the view of the seat to move there.
            masks: int8[N, 163], legal `ends` ids.
            keys: uint64[N], one for each decision: the agent's only randomness (`decision_key`).

        Returns:
            int64[N], legal `ends` ids.
        """
        ...


def make_agent(text: str) -> Agent:
    """Return the agent that a text names.

    Args:
        text: "random", "greedy", or the path of a checkpoint folder, such as "runs/smoke/checkpoints/last".

    Raises:
        ValueError: the text names no agent, or the checkpoint does not fit this version; says why.
    """
    if text == "random":
        return RandomAgent()
    if text == "greedy":
        return GreedyAgent()
    if (Path(text) / "meta.json").is_file():
        from agents.network import NetworkAgent

        return NetworkAgent.load(Path(text))
    raise ValueError(
        f'no agent {text!r}: give "random", "greedy" or the path of a checkpoint folder, as runs/smoke/checkpoints/last'
    )


def decision_key(seed: int, match: int, ply: int) -> np.uint64:
    """Return the key for the decision at `ply` (actions since the match began) of the `match`-th match under `seed`."""
    key: np.uint64 = _DECISIONS
    for number in (seed, match, ply):
        key = np.uint64(mix(key, np.uint64(number)))
    return key
