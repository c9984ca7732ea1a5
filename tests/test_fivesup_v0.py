"""The PettingZoo environment: its interface, options, observations, masks and rewards.

The course of the game is held against a `Match` that is played by texts beside it; `run_on` and `earned` say in a few
plain lines what the specification promises of rounds, skipped steps and rewards.
"""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, render_test, seed_test
from pettingzoo.test.render_test import collect_render_results
from pettingzoo.test.state_test import test_state as check_state
from pettingzoo.test.state_test import test_state_space as check_state_space

from fivesup_env import Match
from fivesup_env.observation import OBS_SIZE, SECTIONS
from tests.conftest import lay
from tests.playing import (
    CODECS,
    MAKERS,
    NEAR,
    REWARDS,
    SEATS,
    act,
    legal,
    play_random,
    put,
    raw_env,
    snapshot,
    table,
    text_of,
    win_table,
    wrapped_env,
)

# What PettingZoo's own test remarks on every environment whose observation is a dict, as a masked one has to be.
API_REMARKS = {
    "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
    "Observation is not a NumPy array",
}


def forced(texts: list[str]) -> bool:
    """Whether all legal texts are the same tile on an end of the same value and kind (D6)."""
    classes = set()
    for text in texts:
        tile, _, port = text.partition("@")
        host, _, name = port.partition(".")
        value = host[2:] if name == "high" else host[:1]
        classes.add((tile, value, name.replace("low", "half").replace("high", "half").split("_")[0]))
    return len(classes) == 1


def run_on(match: Match, skip: bool, episode: str = "match", max_rounds: int | None = None) -> str:
    """Play a `Match` on to the next decision, and say how the episode stands."""
    while True:
        if match.winner is not None or (match.round_over and episode == "round"):
            return "terminated"
        if match.round_over and match.round == max_rounds:
            return "truncated"
        if match.round_over:
            match.next_round()
        if not (skip and forced(match.legal())):
            return "playing"
        match.play(match.legal()[0])


def earned(reward: str, before: Sequence[int], match: Match) -> list[float]:
    """What each side earned since its scores were `before`."""
    if reward == "win" and match.winner is None:
        return [0.0 for _ in before]
    if reward == "win":
        return [1.0 if side == match.winner else -1 / (len(before) - 1) for side in range(len(before))]
    gains = [now - then for now, then in zip(match.scores, before, strict=True)]
    if reward == "points":
        return [float(gain) for gain in gains]
    return [gain - sum(gains[:side] + gains[side + 1 :]) / (len(gains) - 1) for side, gain in enumerate(gains)]


def start(env: Any, seed: int, scores: Sequence[int] | None = None, **rules: Any) -> Match:
    """Reset the environment, and return the same match; its forced steps are not skipped yet."""
    env.reset(seed=seed, options={"scores": scores})
    match = Match(len(env.possible_agents), seed=seed, **rules)
    if scores is not None:
        match.state.scores[: len(scores)] = match.state.round_scores[: len(scores)] = scores
    return match


# PettingZoo's own tests


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("seats", SEATS)
def test_pettingzoo_api(seats: int, actions: str, make: Callable[..., Any]) -> None:
    env = make(num_players=seats, actions=actions)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api_test(env, num_cycles=50)
        api_test(make(num_players=seats, actions=actions, obs_dtype="float32", skip_forced=True), num_cycles=50)
    assert {str(warning.message) for warning in caught} == API_REMARKS


@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("seats", SEATS)
def test_pettingzoo_seeds_and_states(seats: int, actions: str, recwarn: pytest.WarningsRecorder) -> None:
    def make() -> Any:
        return wrapped_env(num_players=seats, actions=actions)

    seed_test(make, num_cycles=100)
    check_state_space(make())
    check_state(make(), num_cycles=20)
    assert not recwarn.list


@pytest.mark.parametrize("actions", ["ends", pytest.param("ports", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seats", SEATS)
def test_pettingzoo_render(seats: int, actions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    make: Any = functools.partial(wrapped_env, num_players=seats, actions=actions)
    render_test(make)


@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("seats", SEATS)
def test_ansi_needs_no_drawing_library(seats: int, actions: str) -> None:
    texts = collect_render_results(wrapped_env(num_players=seats, actions=actions, render_mode="ansi"))
    assert len(texts) == 5
    assert all(isinstance(text, str) and text for text in texts)


def test_render_needs_a_mode() -> None:
    env = raw_env()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="render_mode"):
        env.render()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_players", 5),
        ("num_players", "2"),
        ("actions", "end"),
        ("reward", "wins"),
        ("episode", "game"),
        ("obs_dtype", "float64"),
        ("render_mode", "svg"),
        ("render_seat", 2),
        ("max_rounds", 0),
        ("max_rounds", 1.5),
        ("hand_size", 15),
        ("target", 7),
        ("max_pip", 7),
        ("without", ["6|7"]),
    ],
)
def test_impossible_options(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option if option != "without" else r"6\|7"):
        raw_env(**{option: value})


# Observations and masks


@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("seats", SEATS)
def test_observations_lie_in_their_space_and_float32_is_int8_by_scale(seats: int, actions: str) -> None:
    scales = np.concatenate([np.full(section.size, section.scale, np.float32) for section in SECTIONS])
    env = raw_env(seats, actions)
    scaled = raw_env(seats, actions, obs_dtype="float32")
    for each in (env, scaled):
        each.reset(seed=5, options={"scores": NEAR[seats]})
    for action in [*play_random(copy.deepcopy(env), 1), "end"]:
        for agent in env.possible_agents:
            seen, seen_scaled = env.observe(agent), scaled.observe(agent)
            assert env.observation_space(agent).contains(seen)
            assert scaled.observation_space(agent).contains(seen_scaled)
            assert seen["observation"].shape == (OBS_SIZE,)
            np.testing.assert_array_equal(seen_scaled["observation"], seen["observation"].astype(np.float32) / scales)
        if action != "end":
            env.step(action)
            scaled.step(action)
    assert not env.agents


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("actions", "size"), [("ends", 163), ("ports", 450)])
@pytest.mark.parametrize("seats", SEATS)
def test_only_the_mover_has_legal_actions(seats: int, actions: str, size: int, skip: bool) -> None:
    env = raw_env(seats, actions, skip_forced=skip)
    env.reset(seed=6, options={"scores": NEAR[seats]})
    rng = np.random.default_rng(0)
    while env.agents:
        over = env.terminations[env.agent_selection]
        for agent in env.agents:
            mask = env.observe(agent)["action_mask"]
            assert mask.dtype == np.int8
            assert mask.shape == (size,)
            assert mask.any() == (agent == env.agent_selection and not over)
            np.testing.assert_array_equal(env.infos[agent]["action_mask"], mask)
        for agent in set(env.possible_agents) - set(env.agents):
            assert not env.observe(agent)["action_mask"].any()
        env.step(None if over else int(rng.choice(legal(env))))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seats", SEATS)
def test_the_mask_is_what_match_calls_legal(seats: int, skip: bool) -> None:
    env = raw_env(seats, "ports", skip_forced=skip)
    env.reset(seed=8)
    rng = np.random.default_rng(2)
    for _ in range(60):
        texts = Match.from_bytes(env.state().tobytes()).legal()
        assert sorted(text_of(env, action, "ports") for action in legal(env)) == sorted(texts)
        assert not (skip and forced(texts))
        env.step(int(rng.choice(legal(env))))


@pytest.mark.parametrize("copied", [lambda env: env, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("fill", [0, 1])
def test_what_agents_were_given_can_be_overwritten(
    fill: int, make: Callable[..., Any], copied: Callable[[Any], Any]
) -> None:
    twin, env = make(), make()
    twin.reset(seed=4)
    env.reset(seed=4)
    env = copied(env)
    for action in play_random(copy.deepcopy(twin), 3, limit=25):
        observation, *_, info = env.last()
        given = [*observation.values(), info["action_mask"], env.state()]
        given += [env.infos[agent]["action_mask"] for agent in env.agents]
        given += [array for agent in env.agents for array in env.observe(agent).values()]
        for array in given:
            if array.flags.writeable:
                array[:] = fill
        env.step(action)
        twin.step(action)
        assert snapshot(env) == snapshot(twin)


# Rewards


def check_rewards(env: Any, match: Match, reward: str, skip: bool, actions: str, **episode: Any) -> dict[str, float]:
    """Play a random match to its end beside `match`, check every reward, and return each agent's sum."""
    rng = np.random.default_rng(7)
    sides = len(match.scores)
    before = list(match.scores)
    standing = run_on(match, skip, **episode)
    owed = {agent: earned(reward, before, match)[seat % sides] for seat, agent in enumerate(env.possible_agents)}
    total = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        agent = env.agent_selection
        _, paid, terminated, truncated, _ = env.last()
        assert env.state().tobytes() == match.to_bytes()
        assert (terminated, truncated) == (standing == "terminated", standing == "truncated")
        assert paid == owed[agent]
        total[agent] += paid
        if standing != "playing":
            env.step(None)
            continue
        assert agent == f"player_{match.turn}"
        action, before, owed[agent] = int(rng.choice(legal(env))), list(match.scores), 0.0
        match.play(text_of(env, action, actions))
        standing = run_on(match, skip, **episode)
        env.step(action)
        gains = earned(reward, before, match)
        assert env.rewards == {name: gains[seat % sides] for seat, name in enumerate(env.possible_agents)}
        owed = {name: owed[name] + env.rewards[name] for name in owed}
    return total


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("seats", SEATS)
def test_every_agent_is_paid_what_its_side_earned_once(seats: int, reward: str, actions: str, skip: bool) -> None:
    env = raw_env(seats, actions, reward, skip_forced=skip)
    match = start(env, 20 + seats, NEAR[seats])
    total = check_rewards(env, match, reward, skip, actions)
    assert match.winner is not None
    assert match.scores[match.winner] == 305
    whole = earned(reward, NEAR[seats], match)
    assert list(total.values()) == [whole[seat % len(whole)] for seat in range(seats)]
    if reward != "points":
        assert sum(whole) == 0
    if reward == "win":
        losers = {2: -1.0, 3: -0.5, 4: -1.0}[seats]
        assert sorted(whole) == sorted([1.0] + [losers] * (len(whole) - 1))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("reward", ["points", "margin"])
@pytest.mark.parametrize("seats", SEATS)
def test_an_episode_of_one_round(seats: int, reward: str, skip: bool) -> None:
    env = raw_env(seats, reward=reward, episode="round", skip_forced=skip)
    for seed in range(5):
        match = start(env, seed)
        total = check_rewards(env, match, reward, skip, "ends", episode="round")
        assert match.round_over
        assert match.round == 1
        whole = earned(reward, [0] * len(match.scores), match)
        assert list(total.values()) == [whole[seat % len(whole)] for seat in range(seats)]


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seats", SEATS)
def test_max_rounds_truncates(seats: int, skip: bool, reward: str) -> None:
    env = raw_env(seats, reward=reward, max_rounds=3, skip_forced=skip)
    match = start(env, 9)
    total = check_rewards(env, match, reward, skip, "ends", max_rounds=3)
    assert match.round_over
    assert (match.round, match.winner) == (3, None)
    if reward == "win":
        assert set(total.values()) == {0.0}


def test_a_match_won_in_its_last_round_is_terminated_not_truncated() -> None:
    # 5 for 1+4, and 11+12 = 23 pips left, rounded to 25: 275 + 30 = 305.
    env = put(raw_env(max_rounds=1), lay(Match, "1|4", "6|6 5|6", scores=[275, 0]))
    act(env, "1|4")
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert set(env.terminations.values()) == {True}
    assert set(env.truncations.values()) == {False}
    told = {"winner": 0, "scores": [305, 0], "round_result": {"won": 0}, "rounds": 1}
    for agent in env.agents:
        assert {key: value for key, value in env.infos[agent].items() if key != "action_mask"} == told


def test_infos_of_a_truncated_match() -> None:
    # As before, but 30 points do not make 305.
    env = put(raw_env(max_rounds=1), lay(Match, "1|4", "6|6 5|6", scores=[0, 100]))
    act(env, "1|4")
    assert set(env.truncations.values()) == {True}
    assert set(env.terminations.values()) == {False}
    told = {"winner": None, "scores": [30, 100], "round_result": {"out": 0}, "rounds": 1}
    assert {key: value for key, value in env.infos["player_1"].items() if key != "action_mask"} == told


@pytest.mark.parametrize("seats", SEATS)
def test_forced_steps_by_hand_lead_to_the_same_game(seats: int) -> None:
    skipping = raw_env(seats, reward="margin", skip_forced=True)
    by_hand = raw_env(seats, reward="margin")
    sums = [dict.fromkeys(skipping.possible_agents, 0.0) for _ in range(2)]
    rng = np.random.default_rng(1)
    skipped = 0

    def step(env: Any, action: int | None) -> None:
        sums[env is by_hand][env.agent_selection] += env.last()[1]
        env.step(action)

    for env in (skipping, by_hand):
        env.reset(seed=31, options={"scores": NEAR[seats]})
    while not any(skipping.terminations.values()):
        while len(legal(by_hand)) == 1:
            step(by_hand, legal(by_hand)[0])
            skipped += 1
        assert skipping.state().tobytes() == by_hand.state().tobytes()
        assert snapshot(skipping)[:-4] == snapshot(by_hand)[:-4]  # all but reward, its end, and infos
        action = int(rng.choice(legal(skipping)))
        step(skipping, action)
        step(by_hand, action)
    while len(legal(by_hand)) == 1:
        step(by_hand, legal(by_hand)[0])
    for env in (skipping, by_hand):
        while env.agents:
            step(env, None)
    assert skipped > 0
    assert sums[0] == sums[1]
    assert skipping.state().tobytes() == by_hand.state().tobytes()


# Small games, which can be over before anybody has a choice


@pytest.mark.parametrize(
    ("reward", "episode"),
    [
        *((reward, episode) for reward in REWARDS for episode in ({}, {"max_rounds": 2})),
        *((reward, {"episode": "round"}) for reward in ("points", "margin")),
    ],
)
@pytest.mark.parametrize("seats", SEATS)
def test_an_episode_without_a_decision_is_over_after_reset(seats: int, reward: str, episode: dict[str, Any]) -> None:
    env = raw_env(seats, reward=reward, skip_forced=True, hand_size=1, target=20, **episode)
    for seed in range(4):
        match = start(env, seed, hand_size=1, target=20)
        assert all(env.terminations.values()) != all(env.truncations.values())
        total = check_rewards(env, match, reward, True, "ends", **episode)
        whole = earned(reward, [0] * len(match.scores), match)
        assert list(total.values()) == [whole[seat % len(whole)] for seat in range(seats)]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(
    "rules", [{"hand_size": 2, "max_pip": 3, "target": 20, "without": ("0|0", "2|3")}, {"target": 5}]
)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("seats", SEATS)
def test_rewards_of_small_games(seats: int, reward: str, rules: dict[str, Any], skip: bool) -> None:
    env = raw_env(seats, reward=reward, skip_forced=skip, **rules)
    for seed in range(3):
        match = start(env, seed, **rules)
        total = check_rewards(env, match, reward, skip, "ends")
        whole = earned(reward, [0] * len(match.scores), match)
        assert list(total.values()) == [whole[seat % len(whole)] for seat in range(seats)]


# A round as an episode, paid by the change of the chance to win


@pytest.mark.parametrize(
    ("hands", "scores", "change"),
    [
        # Out: 5 + 25. Before, starting at 0:0: 0.6; after, starting at 30:0: 0.63.
        (("1|4", "6|6 5|6"), [0, 0], 0.03),
        # Out, refused: 300 + 30 is too much. Before, starting at 300:0: 0.9; after the same.
        (("1|4", "6|6 5|6"), [300, 0], 0.0),
        # Blocked: 5, then 12 - 4 = 8 pips, rounded to 10, for the other. Before 0.6; after, by lot at 5:10: 0.495.
        (("1|4 6|6", "2|2"), [0, 0], -0.105),
        # Won: 275 + 30. Before, starting at 275:0: 0.875; after: 1.
        (("1|4", "6|6 5|6"), [275, 0], 0.125),
    ],
)
def test_a_round_is_paid_by_the_change_of_chances(hands: tuple[str, str], scores: list[int], change: float) -> None:
    env = put(raw_env(episode="round", win_table=win_table), lay(Match, *hands, scores=scores))
    act(env, "1|4")
    assert env.rewards == {"player_0": pytest.approx(change), "player_1": pytest.approx(-change)}
    assert set(env.terminations.values()) == {True}
    assert [env._cumulative_rewards[agent] for agent in env.agents] == list(env.rewards.values())


def test_a_round_is_paid_at_its_end_alone_and_anew_after_every_reset() -> None:
    env = raw_env(episode="round", win_table=win_table, skip_forced=True)
    for seed in range(6):
        env.reset(seed=seed, options={"scores": [40, 100], "starter": 1})
        while not any(env.terminations.values()):
            assert set(env.rewards.values()) == {0.0}
            env.step(legal(env)[-1])
        match = Match.from_bytes(env.state().tobytes())
        change = table(match.scores, match.next_starter)[0] - (0.5 - 0.06 - 0.1)
        assert env.last()[1] == pytest.approx(change if env.agent_selection == "player_0" else -change)


def test_a_round_paid_by_winning_needs_a_table() -> None:
    with pytest.raises(ValueError, match="win_table"):
        raw_env(episode="round")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        0.5,
        [0.5, 0.5],
        [[0.5, 0.5, 0.0]],
        [[float("nan"), 1.0]],
        [[2.0, -1.0]],
        [["a", "b"]],
        [[None, None]],
        [[0.9, 0.9]],
    ],
)
def test_a_table_that_returns_no_chances(answer: Any) -> None:
    env = raw_env(episode="round", win_table=lambda scores, starter: answer)
    with pytest.raises(ValueError, match="win_table"):
        env.reset(seed=1)
