"""The PettingZoo environment: resets, copies, pickles and states, and actions that are illegal."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fivesup_env import IllegalAction, Match
from fivesup_env.episode import match_seed
from tests.conftest import lay, play
from tests.playing import (
    CODECS,
    MAKERS,
    NEAR,
    REWARDS,
    SEATS,
    act,
    follow,
    legal,
    play_random,
    put,
    raw_env,
    snapshot,
    win_table,
    wrapped_env,
)

# Resets


@pytest.mark.parametrize("seats", SEATS)
def test_a_seed_names_a_match(seats: int) -> None:
    env = raw_env(seats)
    for seed in (0, 1, 2**64 - 1):
        env.reset(seed=seed)
        assert env.state().tobytes() == Match(seats, seed=seed).to_bytes()
        assert env.agent_selection == f"player_{Match(seats, seed=seed).turn}"


def test_a_reset_without_a_seed_plays_the_next_match_of_the_sequence() -> None:
    env = wrapped_env()
    env.reset(seed=17)
    for index in range(1, 5):
        play_random(env, index, limit=index)
        env.reset()
        assert env.state().tobytes() == Match(seed=match_seed(17, index)).to_bytes()
    assert match_seed(17, 0) == 17
    assert len({match_seed(seed, index) for seed in range(30) for index in range(30)}) == 900


def test_without_any_seed_matches_differ() -> None:
    states = set()
    for env in (raw_env(), raw_env()):
        for _ in range(3):
            env.reset()
            states.add(env.state().tobytes())
    assert len(states) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"num_players": 4, "actions": "ports", "reward": "margin", "obs_dtype": "float32"},
        {"reward": "points", "max_rounds": 1, "skip_forced": True},
        {"episode": "round", "win_table": win_table, "target": 100},
        {"num_players": 3, "hand_size": 2, "max_pip": 4, "without": ["1|1"], "target": 25},
    ],
)
def test_resets_keep_the_options(options: dict[str, Any]) -> None:
    used, fresh = wrapped_env(**options), wrapped_env(**options)
    for seed in (None, 3, None, 12):
        used.reset(seed=seed)
        play_random(used, 0)
    fresh.reset(seed=12)
    used.reset(seed=12)
    actions = play_random(copy.deepcopy(fresh), 0)
    assert follow(used, actions) == follow(fresh, actions)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seats", SEATS)
def test_start_from_scores_and_starter(seats: int, make: Callable[..., Any]) -> None:
    env = make(num_players=seats)
    for starter in range(seats):
        env.reset(seed=2, options={"scores": NEAR[seats], "starter": starter, "unknown": 1})
        match = Match.from_bytes(env.state().tobytes())
        dealt = Match(seats, seed=2)
        assert (match.hands, match.boneyard) == (dealt.hands, dealt.boneyard)
        assert (match.scores, match.starter, match.turn) == (NEAR[seats], starter, starter)
        assert env.agent_selection == f"player_{starter}"
    env.reset(seed=2)
    assert env.state().tobytes() == Match(seats, seed=2).to_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"seed": 2**64},
        {"seed": 1.5},
        {"options": {"scores": [0, 0, 0]}},
        {"options": {"scores": [305, 0]}},
        {"options": {"scores": [0, 7]}},
        {"options": {"scores": 5}},
        {"options": {"scores": ["5", 0]}},
        {"options": {"starter": 2}},
        {"options": {"starter": -1}},
        {"options": {"starter": "player_0"}},
        {"options": {"starter": True}},
        {"seed": 5, "options": {"starter": 2}},
    ],
)
def test_an_impossible_reset_changes_nothing(wrong: dict[str, Any]) -> None:
    env = wrapped_env()
    env.reset(seed=3)
    play_random(env, 1, limit=5)
    before = snapshot(env)
    with pytest.raises(ValueError, match=r"seed|scores|starter"):
        env.reset(**wrong)
    assert snapshot(env) == before
    env.reset()
    assert env.state().tobytes() == Match(seed=match_seed(3, 1)).to_bytes()


# Copies, pickles and states


def by_state(env: Any) -> Any:
    """Another environment with the same options, which plays on from the state of this one."""
    other = copy.deepcopy(env)
    other.reset(seed=99)
    other.last()
    other.set_state(env.state())
    return other


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "set_state": by_state,
}


def moments(env: Any, actions: Sequence[int | None]) -> dict[str, int]:
    """How many of these actions lead to the first position of each kind."""
    found = {"beginning": 0, "end": len(actions) - len(env.agents)}
    for index, action in enumerate(actions):
        before = env.unwrapped.record.copy()
        if before.draws and before.turn == env.unwrapped.record.turn:
            found.setdefault("middle of a draw", index)
        env.step(action)
        if before.round_number != env.unwrapped.record.round_number:
            found.setdefault("before a settlement", index)
            found.setdefault("after a settlement", index + 1)
    return {**found, "before the end": found["end"] - 1}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("actions", CODECS)
@pytest.mark.parametrize("seats", SEATS)
def test_copies_go_on_identically(seats: int, actions: str, make: Callable[..., Any]) -> None:
    env = make(num_players=seats, actions=actions, reward="points")
    env.reset(seed=50 + seats, options={"scores": NEAR[seats]})
    taken = play_random(copy.deepcopy(env), 5)
    found = moments(copy.deepcopy(env), taken)
    assert len(found) == 6
    for at in found.values():
        original = copy.deepcopy(env)
        follow(original, taken[:at])
        copies = {name: make_copy(original) for name, make_copy in COPIES.items()}
        seen = {name: follow(copied, taken[at:]) for name, copied in copies.items()}
        expected = follow(original, taken[at:])
        assert seen["deepcopy"] == expected
        assert seen["pickle"] == expected
        # Rewards that were not delivered yet are no part of a state: the fifth thing from the end of what is seen.
        for there, here in zip(seen["set_state"], expected, strict=True):
            assert there[: 2 * seats + 2] == here[: 2 * seats + 2]
            assert there[2 * seats + 3 :] == here[2 * seats + 3 :]
        assert seen["set_state"][0][2 * seats + 2] == 0.0


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("make", MAKERS)
def test_copies_reset_like_the_original(make: Callable[..., Any], make_copy: Callable[[Any], Any]) -> None:
    env = make()
    env.reset(seed=6)
    play_random(env, 2, limit=7)
    copied = make_copy(env)
    play_random(copied, 3, limit=7)
    copied.reset(seed=8, options={"scores": [100, 50], "starter": 1})
    env.reset(seed=8, options={"scores": [100, 50], "starter": 1})
    assert snapshot(copied) == snapshot(env)
    copied.reset()
    assert copied.state().tobytes() == Match(seed=match_seed(8, 1)).to_bytes()


@pytest.mark.parametrize("episode", [{}, {"episode": "round", "win_table": win_table}])
def test_the_state_of_an_end_is_not_paid_again(episode: dict[str, Any]) -> None:
    env = put(raw_env(**episode), lay(Match, "1|4", "6|6 5|6", scores=[275, 0]))
    act(env, "1|4")
    other = raw_env(**episode)
    other.set_state(env.state())
    assert set(other.terminations.values()) == {True}
    assert [other.last()[1], other.rewards] == [0.0, {"player_0": 0.0, "player_1": 0.0}]


def test_a_state_set_where_forced_steps_are_skipped_is_played_on() -> None:
    # Seat 0 opens with its one tile: 5 points, 12 pips rounded to 10.
    env = put(raw_env(reward="points", episode="round", skip_forced=True), lay(Match, "1|4", "6|6"))
    assert env.last()[1:4] == (15.0, True, False)


def wrong_states() -> dict[str, Any]:
    """States that are none, or of another game."""
    match = play(lay(Match, "1|4 0|0", "1|1 6|6", boneyard="5|5 5|6"), "1|4", "1|1@1|4.low")
    good = np.frombuffer(match.to_bytes(), np.uint8)

    def with_byte(field: str, value: int) -> Any:
        record = match.clone().state
        record[field] = value
        return np.frombuffer(record.tobytes(), np.uint8)

    return {
        "too short": good[:-1],
        "too long": np.append(good, np.uint8(0)),
        "empty": good[:0],
        "zeros": np.zeros_like(good),
        "255": np.full_like(good, 255),
        "other seats": np.frombuffer(Match(3, seed=1).to_bytes(), np.uint8),
        "other target": np.frombuffer(Match(seed=1, target=100).to_bytes(), np.uint8),
        "other hand size": np.frombuffer(Match(seed=1, hand_size=4).to_bytes(), np.uint8),
        "other set": np.frombuffer(Match(seed=1, without=["0|0"]).to_bytes(), np.uint8),
        "a view": np.frombuffer(match.view(0).state.tobytes(), np.uint8),
        "no such seat": with_byte("turn", 2),
        "no seats": with_byte("num_players", 0),
        "one seat": with_byte("num_players", 1),
        "wrong total": with_byte("total", 7),
        "not bytes": good.astype(np.int64) + 256,
        "a list": [300] * len(good),
        "a text": "state",
        "nothing": None,
    }


@pytest.mark.parametrize("name", wrong_states())
def test_a_wrong_state_changes_nothing(name: str) -> None:
    env = raw_env(reward="points")
    env.reset(seed=3)
    play_random(env, 1, limit=6)
    before = snapshot(env)
    with pytest.raises(ValueError):
        env.set_state(wrong_states()[name])
    assert snapshot(env) == before


def test_states_with_one_byte_changed_are_refused_or_sound() -> None:
    env = raw_env()
    env.reset(seed=5)
    play_random(env, 3, limit=5)
    good = env.state()
    taken = 0
    for index in range(len(good)):
        for change in (1, 2, 128):
            state = good.copy()
            state[index] ^= change
            try:
                env.set_state(state)
            except ValueError:
                assert env.state().tobytes() == good.tobytes()
            else:
                assert env.state().tobytes() == state.tobytes()
                play_random(env, 0, limit=12)
                env.set_state(good)
                taken += 1
    # Any seed will do (eight bytes), and any round number (four) but 0; all else follows from the moves.
    assert taken == 3 * (8 + 4) - 1


# Illegal actions


WORLDS = [
    # The same to seat 0's eyes: hand and boneyard of seat 1 change places.
    lay(Match, "1|4 2|3 5|5", "1|1 3|6 0|2", boneyard="4|6 0|0"),
    lay(Match, "1|4 2|3 5|5", "1|1 0|0 4|6", boneyard="3|6 0|2", seed=1),
]


@pytest.mark.parametrize("actions", CODECS)
def test_errors_and_infos_tell_no_more_than_the_mover_sees(actions: str) -> None:
    envs = [put(raw_env(actions=actions), play(world.clone(), "1|4", "1|1@1|4.low")) for world in WORLDS]
    mask = envs[0].observe("player_0")["action_mask"]
    assert 0 < mask.sum() < 10
    texts: set[str] = set()
    for action in [*np.flatnonzero(mask == 0), -1, len(mask), None, "draw", 1.0]:
        told = set()
        for env in envs:
            before = snapshot(env)
            with pytest.raises(IllegalAction) as caught:
                env.step(action)
            assert snapshot(env) == before
            told.add(str(caught.value))
        assert len(told) == 1
        assert "hands_now=2|3,5|5/?,?" in next(iter(told))
        texts |= told
    assert len(texts) > len(mask) - mask.sum()
    assert snapshot(envs[0])[:2] == snapshot(envs[1])[:2]
    assert envs[0].infos["player_0"]["action_mask"].tolist() == envs[1].infos["player_0"]["action_mask"].tolist()


def test_pictures_tell_no_more_than_the_mover_sees() -> None:
    pictures = set()
    for world in WORLDS:
        env = put(raw_env(render_mode="ansi"), play(world.clone(), "1|4", "1|1@1|4.low"))
        pictures.add(env.render())
    assert len(pictures) == 1


@pytest.mark.parametrize("action", [-1, 163, 2**80, None, "1|4", 1.0, np.float32(1), True, [1], np.array([1, 2])])
def test_an_action_that_is_no_id(action: Any) -> None:
    raw, env = raw_env(), wrapped_env()
    for each, error in ((raw, IllegalAction), (env, AssertionError)):
        each.reset(seed=1)
        if each is env and action is True:
            continue  # to Gymnasium's Discrete space a bool is an int
        before = snapshot(each)
        with pytest.raises(error):
            each.step(action)
        assert snapshot(each) == before


def test_all_integer_types_are_ids() -> None:
    for kind in (int, np.int8, np.uint8, np.int32, np.int64):
        env = raw_env()
        env.reset(seed=1)
        action = legal(env)[0]
        env.step(kind(action))
        assert env.record.num_placed == 1


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("seats", SEATS)
def test_an_illegal_action_ends_the_wrapped_match(seats: int, reward: str, left: bool) -> None:
    env, fresh = wrapped_env(num_players=seats, reward=reward), wrapped_env(num_players=seats, reward=reward)
    env.reset(seed=12)
    play_random(env, 0, limit=4)
    offender = env.agent_selection
    unseen = {agent: env.unwrapped._cumulative_rewards[agent] for agent in env.agents}
    env.step(162)
    paid = {}
    for agent in env.agent_iter():
        _, paid[agent], terminated, truncated, _ = env.last()
        assert terminated or truncated
        if not left:
            break  # the match is left before its agents have
        env.step(None)
    assert len(paid) == (seats if left else 1)
    assert paid == {agent: -1.0 if agent == offender else unseen[agent] for agent in paid}
    env.reset(seed=13)
    fresh.reset(seed=13)
    actions = play_random(copy.deepcopy(fresh), 1, limit=40)
    assert follow(env, actions) == follow(fresh, actions)


def test_the_wrapped_environment_goes_by_the_position_not_by_what_it_showed_last() -> None:
    env = wrapped_env()
    env.reset(seed=3)
    beginning = env.state()
    env.last()
    env.step(legal(env)[0])
    env.last()
    assert beginning.tobytes() == Match(seed=3).to_bytes()  # a state is a copy
    env.set_state(beginning)
    env.step(int(np.flatnonzero(env.infos[env.agent_selection]["action_mask"])[-1]))
    assert not any(env.terminations.values())


def test_a_dead_agent_can_only_leave() -> None:
    env = put(raw_env(), lay(Match, "1|4", "6|6 5|6", scores=[275, 0]))
    act(env, "1|4")
    with pytest.raises(ValueError, match="None"):
        env.step(3)
    assert env.agents == ["player_0", "player_1"]
    env.step(None)
    env.step(None)
    assert env.agents == []


@pytest.mark.parametrize("make", [raw_env, wrapped_env])
def test_reset_options_that_are_no_mapping(make: Any) -> None:
    with pytest.raises(ValueError, match="options must be a mapping"):
        make().reset(seed=1, options=[1])
