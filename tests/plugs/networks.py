"""What shows that an agent plays by a network that was saved; the tests of several libraries share it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from agents.agent import make_agent
from agents.arena.statistics import Estimate
from examples.network_agent import NetworkT, ScoringAgent, share_won
from fivesup_env import Match
from fivesup_env.actions import action_mask
from fivesup_env.observation import encode, scaled
from fivesup_env.rules.state import STATE

MATCHES = 400


def check_agent_of_file(
    text: str,
    weights: Path,
    won: Estimate,
    untrained: NetworkT,
    outputs: Callable[[NetworkT, torch.Tensor], torch.Tensor],
) -> None:
    """Check that the agent of a text plays by the weights of a file, and wins what the training said.

    Args:
        text: the agent, as "examples.torchrl_ppo:make".
        weights: the file.
        won: the share of `MATCHES` matches of two seats that the training printed.
        untrained: a network of the same form, with other weights.
        outputs: takes the network and observations, float32[N, D], and returns its outputs, float32[N, A].
    """
    agent = make_agent(text)
    assert isinstance(agent, ScoringAgent)
    matches = [match for seed in range(4) for match in positions(seed)]
    views = np.array([match.view(match.turn).state for match in matches], STATE)
    masks = np.array([action_mask(view) for view in views])
    observations = torch.from_numpy(np.array([scaled(encode(view)) for view in views]))
    with torch.no_grad():
        found, before = agent.score(observations), outputs(untrained, observations)
        untrained.load_state_dict(torch.load(weights, weights_only=True))
        saved = outputs(untrained, observations)
    torch.testing.assert_close(found, saved, rtol=0, atol=1e-5)
    assert (found - before).abs().max() > 0.1
    best = np.where(masks == 1, saved.numpy(), -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(agent.act(views, masks, np.zeros(len(views), np.uint64)), best)
    assert share_won(agent, "random", 2, MATCHES) == (won, MATCHES)


def positions(seed: int) -> list[Match]:
    """Positions of a round of random play between two seats, each with a seat to move."""
    match, rng, found = Match(2, seed), np.random.default_rng(seed), []
    while not match.round_over:
        found.append(match.clone())
        legal = match.legal()
        match.play(legal[rng.integers(len(legal))])
    return found
