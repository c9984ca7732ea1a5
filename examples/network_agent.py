"""A network of any library as an agent: what the examples for TorchRL and Tianshou share. It is no program.

A `ScoringAgent` plays by a network, `share_won` tells how strong an agent is, `train_and_measure` is the command line
of a training, and `load` reads the file that this writes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent, make_agent
from agents.arena.blocks import block_scores, block_size, play_blocks
from agents.arena.statistics import Estimate, estimate
from fivesup_env.cli.arguments import whole
from fivesup_env.files import check_writable, replacing
from fivesup_env.observation import OBS_SIZE, SCALES, write_observations
from fivesup_env.rules.state import States

NetworkT = TypeVar("NetworkT", bound=torch.nn.Module)


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


def share_won(agent: Agent, opponent: str, num_players: int, matches: int, seed: int = 0) -> tuple[Estimate, int]:
    """Play duplicate matches (docs/evaluation.md).

    Args:
        agent: who is measured.
        opponent: the text of an agent, as "random", that has all other sides.
        num_players: seats.
        matches: rounded up to whole blocks.
        seed: match seed of the first block.

    Returns:
        The share of the matches that `agent` won, with its 95 % interval, and how many matches were played.

    Raises:
        RuntimeError: the agent lost a match by forfeit; says why.
    """
    count = -(-matches // block_size(num_players))
    other = make_agent(opponent)
    other.reset(seed)
    blocks = play_blocks(agent, other, num_players, first=0, count=count, seed=seed)
    if reasons := blocks.forfeit_reasons[0]:
        raise RuntimeError(f"the agent forfeited matches: {reasons[0]}")
    return estimate(block_scores(blocks, num_players)), count * block_size(num_players)


def train_and_measure(
    train: Callable[[int, int, int], NetworkT],
    make_agent: Callable[[NetworkT], Agent],
    *,
    description: str,
    steps: int,
    weights: Path,
    argv: Sequence[str] | None = None,
) -> Estimate:
    """Read the command line, train, save the weights, and print how many matches the network wins against `random`.

    Args:
        train: takes steps, seats and a seed, and returns the network.
        make_agent: returns the network as an agent.
        description: what `--help` says first.
        steps: the default of `--steps`.
        weights: the default of `--out`.
        argv: the arguments, by default those of the program.

    Returns:
        The share of the matches that the network won.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=whole(1), default=steps, help=f"steps to play and to learn from ({steps})")
    parser.add_argument("--players", type=whole(2, 4), default=2, help="seats (2)")
    parser.add_argument("--seed", type=whole(0, 2**32 - 1), default=1, help="of the training (1)")
    parser.add_argument("--matches", type=whole(1), default=1000, help="against random, at the end (1000)")
    parser.add_argument("--out", type=Path, default=weights, help=f"file for the weights ({weights})")
    args = parser.parse_args(argv)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        check_writable(args.out)  # or the training would be lost
    except OSError as error:
        parser.error(f"--out {args.out}: {error.strerror}")
    network = train(args.steps, args.players, args.seed)
    with replacing(args.out, binary=True) as file:
        torch.save(network.state_dict(), file)
    won, matches = share_won(make_agent(network), "random", args.players, args.matches)
    print(f"won {won.mean:.3f} [{won.low:.3f}, {won.high:.3f}] of {matches} matches against random")
    return won


def load(network: NetworkT, weights: Path) -> NetworkT:
    """Give a network the weights of the file that FIVESUP_WEIGHTS names, else of `weights`; return it."""
    network.load_state_dict(torch.load(os.environ.get("FIVESUP_WEIGHTS", weights), weights_only=True))
    return network
