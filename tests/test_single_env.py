"""The Gymnasium environment: one seat that learns among given opponents, held against the PettingZoo environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import gymnasium.utils.env_checker
import numpy as np
import pytest
from numpy.typing import NDArray

from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env import IllegalAction, Match
from fivesup_env.episode import match_seed
from fivesup_env.observation import encode
from fivesup_env.rules.state import States
from fivesup_env.rules.view import view
from fivesup_env.single_env import FivesUpEnv
from tests.playing import NEAR, SEATS, legal, raw_env, table, win_table

OPTIONS = [
    {"reward": "margin", "episode": "round", "skip_forced": True, "obs_dtype": "float32"},
    {"reward": "points"},
    {"reward": "win", "skip_forced": True, "target": 60},
    {"reward": "margin", "max_rounds": 2},
]


class Recorder:
    """Plays the lowest legal id, and keeps what it was asked."""

    def __init__(self) -> None:
        self.views: list[Any] = []
        self.keys: list[int] = []

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        assert len(views) == len(masks) == len(keys) == 1
        self.views.append(views[0].copy())
        self.keys.append(int(keys[0]))
        return np.array([np.flatnonzero(masks[0])[0]])


def seated(opponents: list[Any], **options: Any) -> FivesUpEnv:
    """An environment with these opponents, clockwise after the learner; of three, the second is the partner."""
    if len(opponents) == 3:
        return FivesUpEnv(opponents[::2], partner=opponents[1], num_players=4, **options)
    return FivesUpEnv(opponents, num_players=len(opponents) + 1, **options)


def episode(env: FivesUpEnv, choose: int, **reset: Any) -> list[Any]:
    """One episode with random actions of the learner: everything that it is given, and its actions."""
    rng = np.random.default_rng(choose)
    observation, info = env.reset(**reset)
    given: list[Any] = [observation.tobytes(), info["seat"]]
    over = False
    while not over:
        action = rng.choice(np.flatnonzero(env.action_masks()))
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        given += [int(action), observation.tobytes(), reward, terminated, truncated]
    return given


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seats", SEATS)
def test_an_episode_is_that_of_the_learners_agent(seats: int, options: dict[str, Any]) -> None:
    greedy = GreedyAgent()
    env = FivesUpEnv(greedy, num_players=seats, **options)
    slow = raw_env(seats, **options)
    rng = np.random.default_rng(3)
    for number in range(3 * seats):
        env.reset(seed=11 if number == 0 else None)
        slow.reset(seed=11 if number == 0 else None)
        learner = f"player_{(11 + number) % seats}"
        action, reward, owed, paid = None, 0.0, 0.0, []
        while not slow.terminations[slow.agent_selection] and not slow.truncations[slow.agent_selection]:
            if slow.agent_selection != learner:
                seen = view(slow.record, slow.possible_agents.index(slow.agent_selection))
                keys = np.zeros(1, np.uint64)
                slow.step(int(greedy.act(np.array([seen]).view(seen.dtype), np.zeros((1, 163), np.int8), keys)[0]))
                continue
            observation, reward, *_ = slow.last()
            if action is None:
                owed = reward  # for what came before the first decision
            else:
                assert owed + reward == paid[-1]
                owed = 0.0
            np.testing.assert_array_equal(env.action_masks(), observation["action_mask"].astype(bool))
            action = np.int64(rng.choice(legal(slow)))
            seen_now, now, terminated, truncated, info = env.step(action)
            paid.append(now)
            assert info["seat"] == slow.possible_agents.index(learner)
            slow.step(action)
        if action is None:
            continue
        assert owed + slow._cumulative_rewards[learner] == paid[-1]
        assert (terminated, truncated) == (slow.terminations[learner], slow.truncations[learner])
        np.testing.assert_array_equal(seen_now, slow.observe(learner)["observation"])
        assert not env.action_masks().any()


@pytest.mark.parametrize("seats", SEATS)
def test_rewards_add_up_to_the_margin_of_the_whole_round(seats: int) -> None:
    env = FivesUpEnv(RandomAgent(), num_players=seats, reward="margin", episode="round")
    rng = np.random.default_rng(0)
    lost = 0
    for number in range(12):
        env.reset(seed=5 if number == 0 else None)
        over, rewards = False, []
        while not over:
            action = rng.choice(np.flatnonzero(env.action_masks()))
            _, reward, over, _, _ = env.step(action)
            rewards.append(reward)
        match = Match.from_bytes(env.game.state().tobytes())
        gains = match.scores
        own = gains.pop(env.seat % len(gains))
        assert sum(rewards) == own - sum(gains) / len(gains)
        lost += sum(rewards) < 0 and match.round_result is not None and match.round_result.get("out") != env.seat
    assert lost > 0


def test_a_round_can_be_paid_by_the_change_of_chances() -> None:
    env = FivesUpEnv(GreedyAgent(), seat=1, episode="round", win_table=win_table)
    given = episode(env, 0, seed=4, options={"scores": [100, 60], "starter": 1})
    match = Match.from_bytes(env.game.state().tobytes())
    # 0.6 for the other before: 40 points ahead, but the learner starts.
    assert given[-3] == pytest.approx((0.5 + 0.04 - 0.1) - table(match.scores, match.next_starter)[0])


@pytest.mark.parametrize("make", [RandomAgent, Recorder])
@pytest.mark.parametrize("seats", SEATS)
def test_the_same_seed_is_the_same_trajectory(seats: int, make: Callable[[], Any]) -> None:
    def three(seed: int) -> list[Any]:
        env = seated([make() for _ in range(seats - 1)], target=60)
        return [episode(env, 1, seed=seed), episode(env, 2), episode(env, 3)]

    first = three(8)
    assert three(8) == first
    assert three(9) != first
    env = seated([make() for _ in range(seats - 1)], target=60)
    episode(env, 0, seed=1)
    assert [episode(env, 1, seed=8), episode(env, 2), episode(env, 3)] == first


def test_every_decision_of_an_opponent_has_a_key_of_its_own() -> None:
    opponents = [Recorder(), Recorder()]
    env = FivesUpEnv(opponents, num_players=3, target=60)
    for number in range(5):
        episode(env, number, seed=8 if number == 0 else None)
    keys = opponents[0].keys + opponents[1].keys
    assert len(keys) > 100
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("seats", SEATS)
def test_opponents_sit_clockwise_after_the_learner_and_see_their_own_hands(seats: int) -> None:
    opponents = [Recorder() for _ in range(seats - 1)]
    env = seated(opponents, episode="round", reward="points")
    for number in range(2 * seats):
        episode(env, number, seed=0 if number == 0 else None)
        assert env.seat == number % seats
        for index, opponent in enumerate(opponents):
            seat = (env.seat + 1 + index) % seats  # with four seats, the second one is the partner
            assert {int(seen.observer) for seen in opponent.views} <= {seat}
            for seen in opponent.views:
                assert seen.turn == seat
                assert [bool(seen.hands[other]) for other in range(seats)] == [other == seat for other in range(seats)]
            opponent.views.clear()


def test_the_partner_with_four_seats() -> None:
    opponents = [Recorder() for _ in range(3)]
    env = seated(opponents, seat=1, reward="points", episode="round")
    given = episode(env, 1, seed=2)
    assert {int(seen.observer) for seen in opponents[1].views} == {3}
    assert env.game._cumulative_rewards["player_1"] == given[-3]
    assert env.game.rewards["player_1"] == env.game.rewards["player_3"]


def test_the_seat_rotates_or_stays() -> None:
    env = FivesUpEnv([RandomAgent()] * 2, num_players=3)
    assert [env.reset(seed=seed)[1]["seat"] for seed in (4, None, None, None, 8, None)] == [1, 2, 0, 1, 2, 0]
    env = FivesUpEnv([RandomAgent()] * 2, num_players=3, seat=2)
    assert [env.reset(seed=seed)[1]["seat"] for seed in (4, None, None)] == [2, 2, 2]


@pytest.mark.parametrize("seats", SEATS)
def test_a_seed_names_the_match_and_options_its_start(seats: int) -> None:
    env = FivesUpEnv(RandomAgent(), num_players=seats, seat=0)
    for index in range(3):
        env.reset(seed=7 if index == 0 else None, options={"scores": NEAR[seats], "starter": 0})
        match, dealt = Match.from_bytes(env.game.state().tobytes()), Match(seats, seed=match_seed(7, index))
        assert (match.hands, match.scores, match.turn) == (dealt.hands, NEAR[seats], 0)
    with pytest.raises(ValueError, match="starter"):
        env.reset(options={"starter": seats})


@pytest.mark.parametrize("obs_dtype", ["int8", "float32"])
def test_observations_are_the_learners_own_and_lie_in_the_space(obs_dtype: str) -> None:
    env = FivesUpEnv([RandomAgent()], target=60, obs_dtype=obs_dtype)
    observation, info = env.reset(seed=2)
    rng = np.random.default_rng(0)
    over = False
    while not over:
        assert observation.dtype == obs_dtype
        assert env.observation_space.contains(observation)
        if obs_dtype == "int8":
            np.testing.assert_array_equal(observation, encode(view(env.game.record, env.seat)))
        masks = env.action_masks()
        assert masks.dtype == np.bool_
        assert masks.shape == (163,)
        np.testing.assert_array_equal(masks, info["action_mask"].astype(bool))
        action = rng.choice(np.flatnonzero(masks))
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert env.observation_space.contains(observation)
    assert info["winner"] in (0, 1)


def test_what_the_learner_was_given_can_be_overwritten() -> None:
    env = FivesUpEnv([RandomAgent()], target=60)
    env.reset(seed=3)
    twin = copy.deepcopy(env)
    over = False
    while not over:
        action = np.flatnonzero(env.action_masks())[-1]
        observation, reward, over, _, info = env.step(action)
        same_observation, same_reward, *_ = twin.step(action)
        assert (observation.tobytes(), reward) == (same_observation.tobytes(), same_reward)
        for array in (observation, info["action_mask"], env.action_masks()):
            if array.flags.writeable:
                array[:] = 1
        info.clear()


def test_an_illegal_action_ends_the_episode_by_default() -> None:
    env = FivesUpEnv("greedy")
    env.reset(seed=3)
    observation, reward, terminated, truncated, info = env.step(np.int64(162))
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert "cannot pass" in info["illegal_action"]
    assert not info["action_mask"].any() and not env.action_masks().any()
    assert env.observation_space.contains(observation)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    assert env.reset(seed=3)[1]["action_mask"].any()


@pytest.mark.parametrize("seats", SEATS)
def test_without_opponents_the_caller_plays_every_seat(seats: int) -> None:
    env, slow = FivesUpEnv(num_players=seats, reward="margin", target=60), raw_env(seats, reward="margin", target=60)
    rng = np.random.default_rng(1)
    _, info = env.reset(seed=6)
    slow.reset(seed=6)
    over = False
    while not over:
        agent = slow.agent_selection
        assert info["seat"] == slow.possible_agents.index(agent)
        np.testing.assert_array_equal(info["action_mask"], slow.observe(agent)["action_mask"])
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, reward, over, _, info = env.step(action)
        slow.step(action)
        assert reward == slow.rewards[agent]
        np.testing.assert_array_equal(observation, slow.observe(slow.agent_selection)["observation"])
    assert over == slow.terminations["player_0"]


def test_an_illegal_action_changes_nothing() -> None:
    env = FivesUpEnv([RandomAgent()], illegal="raise")
    env.reset(seed=3)
    before = env.game.state().tobytes()
    for action in (-1, 163, int(np.flatnonzero(~env.action_masks())[0])):
        with pytest.raises(IllegalAction):
            env.step(np.int64(action))
        assert env.game.state().tobytes() == before


@pytest.mark.parametrize(
    ("opponents", "options", "named"),
    [
        (1, {"num_players": 3}, "2 opposing ones, not 1"),
        (3, {"num_players": 3}, "2 opposing ones, not 3"),
        (1, {"actions": "ports"}, "ends"),
        (1, {"partner": "greedy"}, "partner"),
        (1, {"illegal": "ignore"}, "illegal"),
        (1, {"seat": 2}, "seat"),
        (1, {"seat": -1}, "seat"),
        (1, {"reward": "score"}, "reward"),
        (1, {"num_players": 1}, "num_players"),
    ],
)
def test_impossible_arguments(opponents: int, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FivesUpEnv([RandomAgent()] * opponents, **options)


def test_options_that_leave_no_decision_are_refused_at_reset() -> None:
    env = FivesUpEnv([RandomAgent()], hand_size=1, skip_forced=True, episode="round", reward="points")
    with pytest.raises(RuntimeError, match="decision"):
        env.reset(seed=1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "options",
    [{"opponent": "greedy"}, {}, {"opponent": "random", "partner": "greedy", "num_players": 4, "obs_dtype": "float32"}],
)
def test_the_checkers_of_gymnasium_and_stable_baselines_find_nothing(options: dict[str, Any]) -> None:
    gymnasium.utils.env_checker.check_env(FivesUpEnv(**options), skip_render_check=True)
    pytest.importorskip("stable_baselines3.common.env_checker").check_env(FivesUpEnv(**options))
