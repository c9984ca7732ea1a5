"""The example for TorchRL, and what its wrapper makes of the environment; `make test-plug-torchrl` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import MarlGroupMapType, check_env_specs

from examples import torchrl_ppo
from fivesup_env import fivesup_v0
from fivesup_env.actions import NUM_ENDS_ACTIONS
from tests.plugs.networks import MATCHES, check_agent_of_file

pytestmark = [
    pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested using version:UserWarning"),
    # The wrapper looks at the masks in infos, which are read-only, once.
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning"),
]


def played_round(num_players: int, seed: int) -> TensorDictBase:
    """Return a round of random play through the example's environment, [T]; illegal actions would raise."""
    torch.manual_seed(seed)
    actor = torchrl_ppo.make_actor(torchrl_ppo.make_network(NUM_ENDS_ACTIONS))
    with torch.no_grad():
        return torchrl_ppo.make_env(num_players, seed).rollout(200, actor)


def by_hand(num_players: int, seed: int, actions: list[int]) -> Iterator[tuple[str, float, Any, bool]]:
    """Step the environment itself; yield agent, the reward that it is told, its mask, and whether it is done."""
    env = fivesup_v0.raw_env(num_players, episode="round", reward="margin", skip_forced=True)
    env.reset(seed=seed)
    env.reset()  # TorchRL sets a seed by a reset of its own, and the rollout begins with the next
    script = iter(actions)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        assert observation is not None
        done = terminated or truncated
        yield agent, reward, observation["action_mask"], done
        env.step(None if done else next(script))


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_specs_hold(num_players: int) -> None:
    """In whole matches: the checker draws an action also after its last step, when a round could be over."""
    matches = fivesup_v0.raw_env(num_players, skip_forced=True, obs_dtype="float32")
    groups = MarlGroupMapType.ALL_IN_ONE_GROUP
    check_env_specs(PettingZooWrapper(matches, use_mask=True, categorical_actions=True, group_map=groups))


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_seats_masks_and_rewards_are_those_of_the_environment(num_players: int) -> None:
    steps = played_round(num_players, seed=5)["agents"], played_round(num_players, seed=5)["next", "agents"]
    seats = steps[0]["mask"].int().argmax(dim=1)
    assert (steps[0]["mask"].sum(dim=1) == 1).all()
    actions = steps[0]["action"].gather(1, seats[:, None])[:, 0].tolist()
    turns = list(by_hand(num_players, 5, actions))
    for step, (agent, _, mask, _) in enumerate(turns[: len(actions)]):
        assert agent == f"player_{seats[step]}"
        np.testing.assert_array_equal(steps[0]["action_mask"][step, seats[step]].numpy(), mask)
        assert mask[actions[step]]
    assert [done for *_, done in turns] == [False] * len(actions) + [True] * num_players
    returns = (steps[1]["reward"].sum(dim=0)[:, 0]).tolist()
    told = [sum(reward for agent, reward, *_ in turns if agent == f"player_{seat}") for seat in range(num_players)]
    assert returns == pytest.approx(told, abs=1e-3)
    assert sum(map(abs, told)) > 0


def test_a_decision_earns_what_its_seat_gets_until_the_end() -> None:
    """With values of 0 and lambda 1, the advantage is the sum of the seat's later rewards; the loser's is negative."""
    steps = played_round(2, seed=5)
    critic = TensorDictModule(
        lambda seen: torch.zeros(*seen.shape[:-1], 1),
        in_keys=[torchrl_ppo.OBSERVATION],
        out_keys=[("agents", "state_value")],
    )
    advantages = torchrl_ppo.make_advantages(critic)
    advantages.lmbda.fill_(1.0)
    advantages(steps)
    rewards = steps["next", "agents", "reward"]
    later = rewards.flip(0).cumsum(0).flip(0)
    torch.testing.assert_close(steps["agents", "advantage"], later)
    assert later[0].sum().item() == pytest.approx(0, abs=1e-5)  # margins sum to 0: one side's gain is the other's loss
    assert later[0].abs().min() > 0


def test_training_makes_it_stronger_than_random_and_the_agent_plays_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights.pt"
    won = torchrl_ppo.main(["--steps", "6000", "--matches", str(MATCHES), "--out", str(weights)])
    assert won.low > 0.5
    monkeypatch.setenv("FIVESUP_WEIGHTS", str(weights))
    untrained = torchrl_ppo.make_network(NUM_ENDS_ACTIONS)
    check_agent_of_file("examples.torchrl_ppo:make", weights, won, untrained, lambda network, seen: network(seen))
