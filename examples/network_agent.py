"""A network of any library as an agent, and how strong an agent is; what the examples of this folder share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent, make_agent
from agents.arena.blocks import block_scores, block_size, play_blocks
from agents.arena.statistics import Estimate, estimate
from fivesup_env.observation import OBS_SIZE, SCALES, write_observations
from fivesup_env.rules.state import States


class ScoringAgent:
    """Takes the legal action to which a function gives the highest score.

    Args:
        score: takes float32[N, D], observations as with `obs_dtype="float32"`, and returns float32[N, 163].
    """

    def __init__(self, score: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.score = score

    def reset(self, seed: int) -> None:
        """Begin afresh: this agent remembers nothing and draws no lots."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        observations = np.empty((len(views), OBS_SIZE), np.int8)
        write_observations(views, observations)
        with torch.no_grad():
            scores = self.score(torch.from_numpy(observations / SCALES))
        scores = scores.masked_fill(torch.from_numpy(masks == 0), -torch.inf)
        actions: NDArray[np.int64] = scores.argmax(dim=1).numpy()
        return actions


def share_won(agent: Agent, opponent: str, num_players: int, matches: int, seed: int = 0) -> Estimate:
    """Play duplicate matches (docs/evaluation.md).

    Args:
        agent: who is measured.
        opponent: the text of an agent, as "random", that has all other sides.
        num_players: seats.
        matches: rounded up to whole blocks.
        seed: match seed of the first block.

    Returns:
        The share of the matches that `agent` won, and its 95 % interval.

    Raises:
        RuntimeError: the agent lost a match by forfeit; says why.
    """
    count = -(-matches // block_size(num_players))
    other = make_agent(opponent)
    other.reset(seed)
    blocks = play_blocks(agent, other, num_players, first=0, count=count, seed=seed)
    if reasons := blocks.forfeit_reasons[0]:
        raise RuntimeError(f"the agent forfeited matches: {reasons[0]}")
    return estimate(block_scores(blocks, num_players))
