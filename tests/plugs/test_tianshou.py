"""The example for Tianshou, and what its wrapper makes of the environment; `make test-plug-tianshou` runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.torch_utils import policy_within_training_step

from examples import tianshou_dqn
from fivesup_env import fivesup_v0
from tests.plugs.networks import MATCHES, check_agent_of_file


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_seats_masks_and_rewards_are_those_of_the_environment(num_players: int) -> None:
    wrapped = tianshou_dqn.make_env(num_players)
    env = fivesup_v0.raw_env(num_players, episode="round", reward="margin", skip_forced=True)
    seen, _ = wrapped.reset(seed=5)
    env.reset(seed=5)
    rng = np.random.default_rng(5)
    returns, told = np.zeros(num_players), dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, done, *_ = env.last()
        assert observation is not None
        told[agent] += reward
        if done:
            env.step(None)
            continue
        assert seen["agent_id"] == agent
        np.testing.assert_array_equal(seen["mask"], observation["action_mask"])
        action = rng.choice(np.flatnonzero(seen["mask"]))
        env.step(action)
        seen, rewards, ended, _, _ = wrapped.step(action)
        assert ended == env.terminations[agent]
        returns += rewards
    assert returns.tolist() == pytest.approx(list(told.values()))
    assert returns.sum() == pytest.approx(0)
    assert np.abs(returns).min() > 0


def test_a_decision_earns_what_its_seat_gets_until_the_end() -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    tables = DummyVectorEnv([tianshou_dqn.make_env])
    tables.seed([5])
    algorithm = tianshou_dqn.make_algorithm(tianshou_dqn.make_network(), tianshou_dqn.make_env())
    buffer = VectorReplayBuffer(100, 1)
    collector = Collector(algorithm, tables, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_episode=1)
    batch, rows = buffer.sample(0)
    learned = algorithm._preprocess_batch(batch, buffer, rows)
    later = buffer.rew[: len(rows)][::-1].cumsum(axis=0)[::-1]
    for seat, agent in enumerate(("player_0", "player_1")):
        own = batch.obs.agent_id == agent
        assert own.any()
        np.testing.assert_allclose(learned[agent].returns.numpy().ravel(), later[own, seat])
    assert (later[0] == -later[0][::-1]).all() and later[0, 0] != 0  # what one wins the other loses
    assert all(batch.obs.mask[row][action] for row, action in enumerate(batch.act))


def test_training_at_a_table_asks_each_seat_for_its_exploration_in_play() -> None:
    """So `make_algorithm` sets both; with a Tianshou that tells its seats of training, one would be enough."""
    algorithm = tianshou_dqn.make_algorithm(tianshou_dqn.make_network(), tianshou_dqn.make_env())
    with policy_within_training_step(algorithm.policy):
        assert not algorithm.policy.policies["player_0"].is_within_training_step


def test_training_makes_it_stronger_than_random_and_the_agent_plays_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights.pt"
    won = tianshou_dqn.main(["--steps", "5000", "--matches", str(MATCHES), "--out", str(weights)])
    assert won.low > 0.5
    monkeypatch.setenv("FIVESUP_WEIGHTS", str(weights))
    untrained = tianshou_dqn.make_network()
    check_agent_of_file("examples.tianshou_dqn:make", weights, won, untrained, lambda network, seen: network(seen)[0])
