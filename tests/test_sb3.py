"""The Stable-Baselines3 form: held against the vector environments, and used as SB3 and sb3-contrib use it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

import gymnasium  # noqa: E402
from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.evaluation import evaluate_policy  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv, VecMonitor  # noqa: E402

from agents.sb3 import FivesUpSb3VecEnv  # noqa: E402
from fivesup_env import IllegalAction  # noqa: E402
from fivesup_env.learner_vector_env import make_vec  # noqa: E402
from tests.playing import NEAR, SEATS  # noqa: E402

FORMS: list[Any] = [None, "random"]
OPTIONS: list[dict[str, Any]] = [
    {"reward": "margin", "episode": "round", "skip_forced": True, "obs_dtype": "float32"},
    {"reward": "win", "target": 60},
    {"reward": "points", "max_rounds": 2, "actions": "ends"},
]
ROUNDS: dict[str, Any] = {"episode": "round", "reward": "margin", "skip_forced": True}


def chosen(masks: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random legal action for every row of masks."""
    actions: NDArray[np.int64] = np.argmax(rng.random(masks.shape) * (masks != 0), axis=1)
    return actions


def played(env: VecEnv, steps: int, seed: int = 0) -> Iterator[tuple[Any, ...]]:
    """What random steps return."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield env.step(chosen(get_action_masks(env)[0], rng))


# Equal to the vector environments


@pytest.mark.parametrize("opponent", FORMS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seats", SEATS)
def test_steps_are_those_of_the_vector_environment(seats: int, options: dict[str, Any], opponent: Any) -> None:
    count = 6
    env = FivesUpSb3VecEnv(count, opponent=opponent, num_players=seats, **options)
    native = make_vec(count, opponent, num_players=seats, **options)
    key = "seat" if opponent else "to_play"
    env.seed(40)
    observations: Any = env.reset()
    native_observations, told = native.reset(seed=40)
    rng = np.random.default_rng(1)
    ended = 0
    for _ in range(150):
        assert observations.dtype == options.get("obs_dtype", "int8")
        np.testing.assert_array_equal(observations, native_observations)
        np.testing.assert_array_equal(env.action_masks(), told["action_mask"].astype(bool))
        np.testing.assert_array_equal(env.to_play, told[key])
        actors, actions = told[key], chosen(told["action_mask"], rng)
        observations, rewards, dones, infos = env.step(actions)
        native_observations, native_rewards, terminated, truncated, told = native.step(actions)
        np.testing.assert_array_equal(rewards, native_rewards.astype(np.float32))
        np.testing.assert_array_equal(dones, terminated | truncated)
        np.testing.assert_array_equal(env.acted, actors)
        if opponent is None:
            np.testing.assert_array_equal(env.seat_rewards, told["rewards"])
            np.testing.assert_array_equal(env.seat_rewards[np.arange(count), actors], rewards)
        for row in range(count):
            assert bool(infos[row]) == dones[row]
            if dones[row]:
                check_end(row, infos[row], told, int(actors[row]), bool(truncated[row]), opponent is None)
                assert env.reset_infos[row] == {"seat": told[key][row]}
                ended += 1
    assert ended > 5


def check_end(row: int, info: dict[str, Any], told: dict[str, Any], seat: int, truncated: bool, every: bool) -> None:
    """The info of a row that ended, against the vector environment's."""
    final = told["final_obs"][row]
    np.testing.assert_array_equal(info["terminal_observation"], final[seat] if every else final)
    assert ("final_obs" in info) == every
    if every:
        np.testing.assert_array_equal(info["final_obs"], final)
    assert (info["seat"], info["TimeLimit.truncated"]) == (seat, truncated)
    outcome = {name: values[row].tolist() for name, values in told["final_info"].items()}
    assert {name: info[name] for name in outcome} == outcome
    assert set(outcome) == {"winner", "scores", "rounds"}


@pytest.mark.parametrize("opponent", FORMS)
def test_what_was_returned_stays_as_it_was(opponent: Any) -> None:
    env = FivesUpSb3VecEnv(4, opponent=opponent, **ROUNDS)
    twin = FivesUpSb3VecEnv(4, opponent=opponent, **ROUNDS)
    for each in (env, twin):
        each.seed(3)
    kept: list[Any] = [env.reset(), env.action_masks(), env.to_play]
    before = copy.deepcopy(kept)
    twin.reset()[:] = 1
    for (*arrays, infos), (*same, twins_infos) in zip(played(env, 60), played(twin, 60), strict=True):
        for first, second in zip(arrays, same, strict=True):
            np.testing.assert_array_equal(first, second)
            second[:] = 1
        kept += [*arrays, env.action_masks(), env.to_play, env.acted, infos]
        before += copy.deepcopy(kept[len(before) :])
        twin.action_masks()[:] = True
        for info in twins_infos:
            if info:
                info["terminal_observation"][:] = 1
    for now, then in zip(kept, before, strict=True):
        np.testing.assert_equal(now, then)


def test_rewards_are_scaled() -> None:
    env, scaled = (FivesUpSb3VecEnv(5, num_players=3, reward_scale=scale, **ROUNDS) for scale in (1.0, 0.25))
    for each in (env, scaled):
        each.seed(3)
        each.reset()
    total = 0.0
    for (_, rewards, *_), (_, quarter, *_) in zip(played(env, 40), played(scaled, 40), strict=True):
        assert (rewards * 0.25).tolist() == quarter.tolist()
        assert (env.seat_rewards * 0.25).tolist() == scaled.seat_rewards.tolist()
        total += float(np.abs(rewards).sum())
    assert total > 0


# Infos


def test_a_truncated_match() -> None:
    env = FivesUpSb3VecEnv(3, opponent="greedy", max_rounds=1, reward="points")
    env.seed(0)
    env.reset()
    ends = [info for *_, infos in played(env, 60) for info in infos if info]
    assert len(ends) > 5
    for info in ends:
        assert info["TimeLimit.truncated"] is True
        assert (info["winner"], info["rounds"]) == (-1, 1)
        assert env.observation_space.contains(info["terminal_observation"])


def test_matches_that_go_on_share_an_info_that_cannot_be_written() -> None:
    env = VecMonitor(FivesUpSb3VecEnv(4, opponent="random", **ROUNDS))
    env.reset()
    for *_, dones, infos in played(env, 40):
        assert [sorted(info) for info in infos if info] == [
            ["TimeLimit.truncated", "episode", "rounds", "scores", "seat", "terminal_observation", "winner"]
        ] * int(dones.sum())
    *_, infos = next(info for info in played(env, 40, 1) if not info[2].any())
    assert infos == [{}] * 4
    for write in ("info['a'] = 1", "info.update(a=1)", "info.setdefault('a', 1)", "info |= {'a': 1}"):
        with pytest.raises(TypeError, match="share"):
            exec(write, {"info": infos[0]})
    own = infos[0].copy()
    own["a"] = 1
    assert infos == [{}] * 4


@pytest.mark.parametrize("seats", SEATS)
def test_the_monitored_reward_is_the_learners_return(seats: int) -> None:
    env = VecMonitor(FivesUpSb3VecEnv(4, opponent="greedy", num_players=seats, reward="points", target=60))
    env.seed(2)
    env.reset()
    ends = [info for *_, infos in played(env, 200) for info in infos if info]
    assert len(ends) > 8
    assert {info["seat"] for info in ends} == set(range(seats))
    for info in ends:
        assert info["episode"]["r"] == info["scores"][info["seat"] % len(info["scores"])]
        assert info["scores"][info["winner"]] == 60


# What SB3 asks of an environment


@pytest.mark.parametrize("opponent", FORMS)
def test_masks_come_in_one_array(opponent: Any) -> None:
    env = VecMonitor(FivesUpSb3VecEnv(7, opponent=opponent))
    env.reset()
    assert is_masking_supported(env)
    masks = get_action_masks(env)
    assert masks.shape == (1, 7, 163)
    assert masks.dtype == np.bool_
    np.testing.assert_array_equal(np.stack(env.env_method("action_masks", indices=[5, 2])), masks[0, [5, 2]])
    np.testing.assert_array_equal(env.env_method("action_masks", indices=3), masks[:, 3])
    with pytest.raises(AttributeError, match="'render'"):
        env.env_method("render")


def test_an_illegal_action_names_its_row() -> None:
    env = FivesUpSb3VecEnv(4, opponent="greedy")
    env.seed(1)
    env.reset()
    masks = env.action_masks()
    actions = masks.argmax(axis=1)
    actions[2] = masks[2].argmin()
    with pytest.raises(IllegalAction, match=r"^row 2: "):
        env.step(actions)
    np.testing.assert_array_equal(env.action_masks(), masks)


def test_attributes() -> None:
    env = FivesUpSb3VecEnv(3, num_players=4)
    env.seed(8)
    env.reset()
    assert env.get_attr("to_play", [2, 0]) == env.to_play[[2, 0]].tolist()
    assert [each.shape for each in env.get_attr("seat_rewards")] == [(4,)] * 3
    assert [each.num_players for each in env.get_attr("options", 1)] == [4]
    assert env.get_attr("render_mode") == [None] * 3
    assert (env.has_attr("acted"), env.has_attr("nothing")) == (True, False)
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False] * 3
    assert env.env_is_wrapped(gymnasium.Wrapper, [1]) == [False]
    env.close()


def test_setting_attributes() -> None:
    env = FivesUpSb3VecEnv(3, opponent="random")
    assert not env.has_attr("seat_rewards")
    opponents = [object()]
    env.set_attr("opponents", opponents)
    env.set_attr("reward_scale", 3.0)
    assert env.get_attr("opponents", 0) == [opponents]
    assert env.reward_scale == 3.0
    with pytest.raises(ValueError, match="reward_scale"):
        env.set_attr("reward_scale", 1.0, indices=[1])


def test_seeds_count_up_and_are_used_once() -> None:
    env = FivesUpSb3VecEnv(3)
    assert env.seed(5) == [5, 6, 7]
    first = env.reset()
    assert env.reset_infos == [{"seat": seat} for seat in env.to_play]
    assert (env.reset() != first).any()
    env.seed(5)
    np.testing.assert_array_equal(env.reset(), first)
    env.seed(6)
    np.testing.assert_array_equal(env.reset()[:2], first[1:])


@pytest.mark.parametrize("opponent", FORMS)
def test_options_hold_for_one_reset(opponent: Any) -> None:
    env = FivesUpSb3VecEnv(2, opponent=opponent)
    game = env.env.states if opponent is None else env.env.game.states  # type: ignore[union-attr]
    env.set_options({"scores": NEAR[2], "starter": 1})
    env.seed(1)
    env.reset()
    assert game["round_scores"][:, :2].tolist() == [NEAR[2]] * 2
    assert game["starter"].tolist() == [1, 1]
    env.set_options([{"scores": [10, 20], "starter": 0}, {"scores": [5, 0], "starter": 1}])
    env.reset()
    assert game["round_scores"][:, :2].tolist() == [[10, 20], [5, 0]]
    assert game["starter"].tolist() == [0, 1]
    env.reset()
    assert game["round_scores"][:, :2].tolist() == [[0, 0]] * 2


@pytest.mark.parametrize(
    "options", [[{}], [{"starter": 1}, {}], [{"scores": [0, 0]}, {"starter": 1}], [{"sampler": None}] * 2, []]
)
def test_options_of_slots_have_to_fit(options: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="one dict, or 2"):
        FivesUpSb3VecEnv(2).set_options(options)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"seat": 1}, "opponent="), ({"partner": "greedy"}, "opponent="), ({"reward": "score"}, "reward")],
)
def test_impossible_arguments(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FivesUpSb3VecEnv(2, **arguments)


# Learning


def learned(opponent: Any, seats: int, seed: int = 0) -> MaskablePPO:
    """A learner after two updates."""
    env = FivesUpSb3VecEnv(8, opponent=opponent, num_players=seats, obs_dtype="float32", **ROUNDS)
    sizes: dict[str, Any] = {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "policy_kwargs": {"net_arch": [16]}}
    model = MaskablePPO("MlpPolicy", VecMonitor(env), seed=seed, device="cpu", **sizes)
    return model.learn(512)


def weights(model: MaskablePPO) -> Any:
    return torch.cat([each.flatten() for each in model.policy.parameters()])


@pytest.mark.parametrize("opponent", FORMS)
@pytest.mark.parametrize("seats", [2, 4])
def test_maskable_ppo_learns(seats: int, opponent: Any) -> None:
    model = learned(opponent, seats)
    buffer: Any = model.rollout_buffer
    actions = buffer.actions.reshape(-1).astype(int)  # training has flattened both in the same way
    assert buffer.action_masks[np.arange(256), actions].all()
    assert (buffer.action_masks.sum(axis=1) > 1).all()  # skip_forced leaves no forced decisions
    assert buffer.rewards.any()
    assert len(model.ep_info_buffer or ()) > 20
    assert torch.equal(weights(learned(opponent, seats)), weights(model))
    assert not torch.equal(weights(learned(opponent, seats, seed=1)), weights(model))


def test_sb3_contrib_evaluates() -> None:
    model = learned("random", 2)
    env = VecMonitor(FivesUpSb3VecEnv(3, opponent="random", obs_dtype="float32", **ROUNDS))
    env.seed(9)
    rewards, lengths = evaluate_policy(model, env, n_eval_episodes=7, return_episode_rewards=True)
    assert isinstance(rewards, list)
    assert isinstance(lengths, list)
    assert (len(rewards), len(lengths)) == (7, 7)
    assert min(lengths) > 0
