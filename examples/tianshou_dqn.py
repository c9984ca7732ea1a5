"""Self-play with Tianshou: a network of action values for all seats, learned by its DQN.

    pip install --editable '.[tianshou]'
    python -m examples.tianshou_dqn --steps 10000
    python evaluate.py examples.tianshou_dqn:make random greedy --gauntlet --matches 1000

Training writes the network to runs/tianshou_dqn.pt, and the arena plays it. docs/plugs/tianshou.md tells more.

Tianshou stores the steps of all seats one after the other, and takes for the next observation of a step that of the
seat to move then, often another one: its value would be of the wrong seat. So returns here run to the end of the round
(`HORIZON`), without any value of a later observation. Of the rewards between, each seat's decisions are given its own,
whoever moves: they are what it gains by the end of the round.

Prints the share of matches that the trained network wins against `random`, with its 95 % interval.
"""

from __future__ import annotations

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
from examples.network_agent import ScoringAgent, load, train_and_measure
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
    return make_agent(load(make_network(), WEIGHTS))


def main(argv: Sequence[str] | None = None) -> Estimate:
    """Train, save the network, and return the share of matches that it wins against `random`."""
    description = "DQN in self-play, with Tianshou."
    return train_and_measure(train, make_agent, description=description, steps=10_000, weights=WEIGHTS, argv=argv)


if __name__ == "__main__":
    main()
