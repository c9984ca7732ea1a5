"""Self-play with Tianshou: a network of action values for all seats, learned by its DQN.

    pip install --editable '.[arena,tianshou]'
    python -m examples.tianshou_dqn --steps 10000
    python evaluate.py examples.tianshou_dqn:make random greedy --gauntlet --matches 1000

The first command trains and prints how many matches the network wins against `random`; the second lets it play in the
arena. docs/plugs/tianshou.md tells more.

Tianshou stores the steps of all seats one after the other, and takes for the next observation of a step that of the
seat to move then, often another one: its value would be of the wrong seat. So returns here run to the end of the round
(`HORIZON`), without any value of a later observation. Of the rewards between, each seat's decisions are given its own,
whoever moves: they are what it gains by the end of the round.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pettingzoo.utils.wrappers import BaseWrapper
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from agents.arena.statistics import Estimate
from examples.network_agent import ScoringAgent, share_won
from fivesup_env import fivesup_v0
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import OBS_SIZE

WEIGHTS = Path("runs/tianshou_dqn.pt")
NUM_TABLES = 10
HORIZON = 100  # more steps than a round has: it has 28 tiles to place, and no other decisions
EXPLORATION = 0.1  # share of random actions in training


class WithoutInfos(BaseWrapper[str, Any, Any]):
    """Leaves out the infos: the last ones have None for no winner, which Tianshou takes for an error in its buffer."""

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return what the agent to move sees, without infos."""
        observation, reward, terminated, truncated, _ = super().last(observe)
        return observation, reward, terminated, truncated, {}


def make_env(num_players: int = 2) -> PettingZooEnv:
    """Return single rounds, paid by points: short episodes, in which seats are asked only where they have a choice."""
    rounds = fivesup_v0.raw_env(num_players, episode="round", reward="margin", skip_forced=True, obs_dtype="float32")
    return PettingZooEnv(WithoutInfos(rounds))


def make_network() -> Net:
    """Return a network from float32[N, D] to the value of every action, float32[N, A]."""
    return Net(state_shape=(OBS_SIZE,), action_shape=(NUM_ENDS_ACTIONS,), hidden_sizes=(256, 128))


def make_algorithm(network: Net, env: PettingZooEnv) -> MultiAgentOffPolicyAlgorithm:
    """Return DQN for a table at which this network has every seat."""
    policy = DiscreteQLearningPolicy(
        model=network,
        action_space=env.action_space,
        eps_training=EXPLORATION,
        eps_inference=EXPLORATION,  # at a table with several seats, training asks for this one
    )
    dqn = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=1.0,
        n_step_return_horizon=HORIZON,
        huber_loss_delta=10.0,  # points
    )
    return MultiAgentOffPolicyAlgorithm(algorithms=[dqn] * len(env.agents), env=env)


def train(steps: int, num_players: int, seed: int) -> Net:
    """Play and learn for so many steps, give or take some rounds; return the network."""
    np.random.seed(seed)
    torch.manual_seed(seed)
    tables = DummyVectorEnv([lambda: make_env(num_players)] * NUM_TABLES)
    tables.seed([seed + NUM_TABLES * table for table in range(NUM_TABLES)])
    network = make_network()
    algorithm = make_algorithm(network, make_env(num_players))
    collector = Collector(algorithm, tables, VectorReplayBuffer(20_000, NUM_TABLES), exploration_noise=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=None,
            collection_step_num_episodes=NUM_TABLES,  # whole rounds: the return of each step is known
            batch_size=256,
            update_step_num_gradient_steps_per_sample=0.05,
        )
    )
    return network


def make_agent(network: Net) -> ScoringAgent:
    """Return the agent that takes the action of highest value."""
    return ScoringAgent(lambda observations: network(observations)[0])


def make() -> ScoringAgent:
    """Return the trained network as an agent; its file is that of FIVESUP_WEIGHTS, or the one `main` writes."""
    network = make_network()
    network.load_state_dict(torch.load(os.environ.get("FIVESUP_WEIGHTS", WEIGHTS), weights_only=True))
    return make_agent(network)


def main(argv: Sequence[str] | None = None) -> Estimate:
    """Train, save the network, and return the share of matches that it wins against `random`."""
    parser = argparse.ArgumentParser(description="DQN in self-play, with Tianshou.")
    parser.add_argument("--steps", type=int, default=10_000, help="steps to play and to learn from")
    parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--matches", type=int, default=1000, help="whole matches against random, at the end")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file for the weights")
    args = parser.parse_args(argv)
    network = train(args.steps, args.players, args.seed)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), args.out)
    won = share_won(make_agent(network), "random", args.players, args.matches)
    print(f"won {won.mean:.3f} [{won.low:.3f}, {won.high:.3f}] of {args.matches} matches against random")
    return won


if __name__ == "__main__":
    main()
