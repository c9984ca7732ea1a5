"""The vector environments: slot by slot the same as one match alone, whatever the batch; buffers, errors, autoreset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from fivesup_env import IllegalAction, fivesup_v0
from fivesup_env.actions import action_mask, ends_step
from fivesup_env.learner_vector_env import LearnerVectorEnv
from fivesup_env.observation import OBS_SIZE
from fivesup_env.rules.state import RUNNING, STATE
from fivesup_env.rules.view import view
from fivesup_env.single_env import FivesUpEnv
from fivesup_env.vector_env import FivesUpVectorEnv
from tests.playing import SEATS, win_table

OPTIONS: list[dict[str, Any]] = [
    {"target": 60},
    {"skip_forced": True, "reward": "margin", "target": 60, "obs_dtype": "float32"},
    {"actions": "ports", "reward": "points", "target": 100},
    {"episode": "round", "reward": "margin"},
    {"max_rounds": 2, "reward": "points", "skip_forced": True},
    {"hand_size": 2, "max_pip": 3, "target": 20, "reward": "points", "skip_forced": True},
]


def random_actions(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seats", SEATS)
def test_every_slot_plays_what_the_aec_environment_plays(seats: int, options: dict[str, Any]) -> None:
    env = FivesUpVectorEnv(5, num_players=seats, **options)
    alone = [fivesup_v0.raw_env(num_players=seats, **options) for _ in range(5)]
    observations, infos = env.reset(seed=40)
    for slot, match in enumerate(alone):
        match.reset(seed=40 + slot)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(400):
        actions, acting = random_actions(infos["action_mask"], rng), infos["to_play"]
        for slot, match in enumerate(alone):
            seen = match.observe(match.agent_selection)
            assert match.agent_selection == f"player_{acting[slot]}"
            np.testing.assert_array_equal(seen["observation"], observations[slot])
            np.testing.assert_array_equal(seen["action_mask"], infos["action_mask"][slot])
        observations, rewards, terminated, truncated, infos = env.step(actions)
        for slot, match in enumerate(alone):
            match.step(int(actions[slot]))
            assert infos["rewards"][slot].tolist() == list(match.rewards.values())
            assert rewards[slot] == infos["rewards"][slot, acting[slot]]
            assert terminated[slot] == all(match.terminations.values())
            assert truncated[slot] == all(match.truncations.values())
            if terminated[slot] or truncated[slot]:
                ends += 1
                check_finals(infos, slot, match)
                match.reset()
    assert ends > 5


def check_finals(infos: dict[str, Any], slot: int, match: Any) -> None:
    info = match.infos["player_0"]
    assert infos["_final_obs"][slot] and infos["_final_info"][slot]
    for seat, agent in enumerate(match.possible_agents):
        np.testing.assert_array_equal(infos["final_obs"][slot, seat], match.observe(agent)["observation"])
    assert infos["final_info"]["winner"][slot] == (-1 if info["winner"] is None else info["winner"])
    assert infos["final_info"]["scores"][slot].tolist() == info["scores"]
    assert infos["final_info"]["rounds"][slot] == info["rounds"]


def trace(env: FivesUpVectorEnv, rows: slice, steps: int, choose: Callable[[Any], NDArray[np.int64]]) -> list[bytes]:
    """The bytes of these rows at every step; `choose` maps masks to actions row by row."""
    _, infos = env.reset(seed=7)
    found = []
    for _ in range(steps):
        observations, rewards, terminated, _, infos = env.step(choose(infos["action_mask"]))
        found += [part[rows].tobytes() for part in (env.states, observations, rewards, terminated, infos["rewards"])]
    return found


def last_legal(masks: NDArray[np.int8]) -> NDArray[np.int64]:
    actions: NDArray[np.int64] = masks.shape[1] - 1 - np.argmax(masks[:, ::-1], axis=1)
    return actions


@pytest.mark.parametrize("seats", SEATS)
def test_neither_batch_size_nor_threads_change_a_slot(seats: int) -> None:
    wanted = trace(FivesUpVectorEnv(3, num_players=seats, target=60), slice(3), 300, last_legal)
    batches: list[dict[str, Any]] = [{"num_envs": 64}, {"num_envs": 64, "threads": 3}, {"num_envs": 17, "copy": False}]
    for options in batches:
        env = FivesUpVectorEnv(num_players=seats, target=60, **options)
        assert trace(env, slice(3), 300, last_legal) == wanted
        env.close()


def test_an_illegal_action_moves_no_match_and_names_its_row() -> None:
    env = FivesUpVectorEnv(6)
    _, infos = env.reset(seed=1)
    before = env.states.tobytes()
    for wrong in (162, -1, 163):
        actions = last_legal(infos["action_mask"])
        actions[4] = actions[5] = wrong
        with pytest.raises(IllegalAction, match=r"row 4: player_\d cannot"):
            env.step(actions)
        assert env.states.tobytes() == before
    env.step(last_legal(infos["action_mask"]))


@pytest.mark.parametrize("actions", [np.zeros(5, np.int64), np.zeros((6, 1), np.int64), np.zeros(6), [True] * 6, None])
def test_actions_of_a_wrong_form(actions: Any) -> None:
    env = FivesUpVectorEnv(6)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="6 integers"):
        env.step(actions)


def test_buffers_are_reused() -> None:
    env, fresh = FivesUpVectorEnv(4, copy=False), FivesUpVectorEnv(4)
    first, infos = env.reset(seed=2)
    mask = infos["action_mask"]
    fresh.reset(seed=2)
    actions = last_legal(mask)
    stepped, *_, later = env.step(actions)
    assert stepped is first and later["action_mask"] is mask
    np.testing.assert_array_equal(stepped, fresh.step(actions)[0])


@pytest.mark.parametrize("obs_dtype", ["int8", "float32"])
def test_the_callers_buffers_are_written(obs_dtype: str) -> None:
    given = np.full((4, OBS_SIZE), 9, obs_dtype)
    # One byte off: too crooked for words, so it is copied into.
    crooked = np.full(4 * OBS_SIZE + 1, 9, np.int8)[1:].reshape(4, OBS_SIZE)
    masks = np.zeros((4, 163), np.int8)
    wanted, infos = FivesUpVectorEnv(4, obs_dtype=obs_dtype).reset(seed=2)
    for buffer in (given, crooked) if obs_dtype == "int8" else (given,):
        buffers = {"observations": buffer, "action_mask": masks}
        env = FivesUpVectorEnv(4, copy=False, obs_dtype=obs_dtype, buffers=buffers)
        observations, _ = env.reset(seed=2)
        assert observations is buffer
        np.testing.assert_array_equal(buffer, wanted)
        np.testing.assert_array_equal(masks, infos["action_mask"])


@pytest.mark.parametrize(
    ("buffers", "copy", "named"),
    [
        ({"observations": np.zeros((4, OBS_SIZE), np.int8)}, True, "copy=False"),
        ({"masks": np.zeros((4, 163), np.int8)}, False, "masks"),
        ({"action_mask": np.zeros((4, 162), np.int8)}, False, "action_mask"),
        ({"observations": np.zeros((4, OBS_SIZE), np.float32)}, False, "observations"),
        ({"observations": np.zeros((4, 2 * OBS_SIZE), np.int8)[:, ::2]}, False, "contiguous"),
        ({"observations": [0]}, False, "observations"),
    ],
)
def test_buffers_that_do_not_fit(buffers: Any, copy: bool, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FivesUpVectorEnv(4, copy=copy, buffers=buffers)


def test_seeds_and_resets() -> None:
    env = FivesUpVectorEnv(3)
    env.reset(seed=5)
    first = env.states.copy()
    env.reset()
    second = env.states.copy()
    env.reset(seed=[6, 5, 9])
    assert env.states[:2].tobytes() == first[[1, 0]].tobytes()
    env.reset()
    assert env.states[:2].tobytes() == second[[1, 0]].tobytes()
    for wrong in (-1, [1, 2], 2**64 - 2, [1, 2, -3]):
        with pytest.raises(ValueError, match="seed"):
            env.reset(seed=wrong)


def test_where_matches_begin() -> None:
    env = FivesUpVectorEnv(3, target=100)
    env.reset(seed=5, options={"scores": [95, 20], "starter": [1, 0, -1], "other": 3})
    assert env.states["scores"][:, :2].tolist() == [[95, 20]] * 3
    assert env.states["turn"][:2].tolist() == [1, 0]
    for options in (
        {"scores": [100, 0]},
        {"scores": [1, 0]},
        {"scores": [0, 0, 0]},
        {"starter": 2},
        {"starter": [0, 1]},
    ):
        with pytest.raises(ValueError, match=r"scores|starter|shape"):
            env.reset(seed=5, options=options)


def test_a_sampler_says_where_every_match_begins() -> None:
    asked: list[int] = []

    def sampler(seeds: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        asked.extend(seeds.tolist())
        scores = np.stack([(seeds % np.uint64(10)).astype(np.int64) * 5, np.full(len(seeds), 40)], axis=1)
        return scores, np.zeros(len(seeds), np.int64)

    env = FivesUpVectorEnv(4, episode="round", reward="points")
    _, infos = env.reset(seed=11, options={"sampler": sampler})
    assert asked == [11, 12, 13, 14]
    for _ in range(200):
        _, _, terminated, _, infos = env.step(last_legal(infos["action_mask"]))
        begun = env.states[terminated]
        np.testing.assert_array_equal(begun["scores"][:, 0], (begun["seed"] % np.uint64(10)).astype(np.int64) * 5)
        assert (begun["starter"] == 0).all() and (begun["scores"][:, 1] == 40).all()
    assert len(asked) > 10
    env.reset(seed=11, options={"sampler": None})
    assert not env.states["scores"].any()


def test_rounds_paid_by_the_change_of_chances() -> None:
    env = FivesUpVectorEnv(5, episode="round", win_table=win_table, skip_forced=True)
    alone = [fivesup_v0.raw_env(episode="round", win_table=win_table, skip_forced=True) for _ in range(5)]
    _, infos = env.reset(seed=3, options={"scores": [280, 300]})
    for slot, match in enumerate(alone):
        match.reset(seed=3 + slot, options={"scores": [280, 300]})
    running = set(range(5))
    while running:
        actions = last_legal(infos["action_mask"])
        _, rewards, terminated, _, infos = env.step(actions)
        for slot in sorted(running):
            actor = alone[slot].agent_selection
            alone[slot].step(int(actions[slot]))
            assert rewards[slot] == pytest.approx(alone[slot].rewards[actor])
            assert infos["rewards"][slot].tolist() == pytest.approx(list(alone[slot].rewards.values()))
            if terminated[slot]:
                running.discard(slot)


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[1], OPTIONS[3], OPTIONS[4], {"target": 60, "seat": 1}])
@pytest.mark.parametrize("seats", SEATS)
def test_every_learner_plays_what_the_single_environment_plays(seats: int, options: dict[str, Any]) -> None:
    partner: dict[str, Any] = {"partner": "random"} if seats == 4 else {}
    env = LearnerVectorEnv(4, opponent="greedy", num_players=seats, **partner, **options)
    alone = [FivesUpEnv("greedy", num_players=seats, **partner, **options) for _ in range(4)]
    observations, infos = env.reset(seed=20)
    rng, ends = np.random.default_rng(0), 0
    for slot, match in enumerate(alone):
        observation, info = match.reset(seed=20 + slot)
        np.testing.assert_array_equal(observation, observations[slot])
        np.testing.assert_array_equal(info["action_mask"], infos["action_mask"][slot])
    for _ in range(150):
        actions = random_actions(infos["action_mask"], rng)
        observations, rewards, terminated, truncated, infos = env.step(actions)
        for slot, match in enumerate(alone):
            observation, reward, over, stopped, info = match.step(actions[slot])
            assert reward == pytest.approx(rewards[slot])
            assert (over, stopped) == (terminated[slot], truncated[slot])
            if over or stopped:
                ends += 1
                np.testing.assert_array_equal(infos["final_obs"][slot], observation)
                assert infos["final_info"]["scores"][slot].tolist() == info["scores"]
                observation, info = match.reset()
            np.testing.assert_array_equal(observation, observations[slot])
            np.testing.assert_array_equal(info["action_mask"], infos["action_mask"][slot])
            assert infos["seat"][slot] == match.seat
    assert ends > 5


def test_what_gymnasium_makes() -> None:
    every_seat = gymnasium.make_vec("FivesUp-v0", num_envs=3, num_players=3)
    learner = gymnasium.make_vec("FivesUp-v0", num_envs=3, num_players=3, opponent=["greedy", "random"])
    assert isinstance(every_seat.unwrapped, FivesUpVectorEnv) and isinstance(learner.unwrapped, LearnerVectorEnv)
    for env in (every_seat, learner):
        assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.SAME_STEP
    for options in ({"partner": "greedy"}, {"seat": 0}, {"opponent": "greedy", "seat": 2}, {"opponent": "nobody"}):
        with pytest.raises(ValueError, match=r"partner|seat|nobody"):
            gymnasium.make_vec("FivesUp-v0", num_envs=2, **options)


def test_options_that_leave_no_decision_are_refused() -> None:
    env = FivesUpVectorEnv(2, hand_size=1, skip_forced=True)
    with pytest.raises(ValueError, match="decision"):
        env.reset(seed=1)


# Going on


def told(env: FivesUpVectorEnv, seed: int, steps: int) -> list[Any]:
    """What random steps return, and the matches after each."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        step = env.step(random_actions(env.action_masks(), rng))
        found.append((env.get_state(), *step))
    return found


@pytest.mark.parametrize("options", [*OPTIONS, {"episode": "round", "win_table": win_table, "skip_forced": True}])
def test_going_on_from_a_state_is_exact(options: dict[str, Any]) -> None:
    env = FivesUpVectorEnv(4, **options)
    env.reset(seed=9, options={"scores": [15, 5]})
    for first in (0, 45):  # at the very beginning; then in the midst of matches, some of them later ones
        told(env, 1, first)
        state = env.get_state()
        kept = {name: array.copy() for name, array in state.items()}
        seen = env.observed(), env.action_masks()
        wanted = told(env, 2, 90)
        np.testing.assert_equal(state, kept)  # copies
        fresh = FivesUpVectorEnv(4, threads=2, **options)
        for other in (fresh, env):
            other.set_state(state)
            np.testing.assert_array_equal(other.observed(), seen[0])
            np.testing.assert_array_equal(other.action_masks(), seen[1])
            np.testing.assert_equal(told(other, 2, 90), wanted)
            other.set_state(state)
        np.testing.assert_equal(state, kept)
        fresh.reset()  # every slot goes on to its next match
        env.reset()
        np.testing.assert_equal(fresh.get_state(), env.get_state())
        fresh.close()
    assert any(step[3].any() or step[4].any() for step in wanted)


def test_a_round_is_paid_from_where_it_began_also_after_a_state_was_set() -> None:
    env = FivesUpVectorEnv(3, episode="round", win_table=win_table, skip_forced=True)
    env.reset(seed=6, options={"scores": [280, 250], "starter": [0, 1, 0]})
    rng = np.random.default_rng(0)
    for _ in range(2):
        assert not env.step(random_actions(env.action_masks(), rng))[2].any()
    assert (env.states["scores"][:, :2] != [280, 250]).any()  # points made in the round: it did not begin with them
    state, other = env.get_state(), FivesUpVectorEnv(3, episode="round", win_table=win_table, skip_forced=True)
    other.reset(seed=50)
    other.set_state(state)
    begun = np.array([win_table([[280, 250]], [starter])[0] for starter in (0, 1, 0)])
    running = set(range(3))
    while running:
        _, _, terminated, _, infos = other.step(random_actions(other.action_masks(), rng))
        for slot in sorted(running & set(np.flatnonzero(terminated).tolist())):
            final = infos["final_info"]
            now, winner = infos["rewards"][slot] + begun[slot], final["winner"][slot]
            # The next round is started by the lot, or by whoever went out.
            chances = win_table([final["scores"][slot]] * 3, [-1, 0, 1]) if winner < 0 else [np.eye(2)[winner]]
            assert any(now == pytest.approx(each, abs=1e-6) for each in chances)
            running.discard(slot)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("states", lambda array: array[:3]),
        ("states", lambda array: array.view(np.uint8)),
        ("states", lambda array: array[:, None]),
        ("states", lambda _: None),
        ("seeds", lambda array: array.astype(np.int64)),
        ("seeds", lambda array: array[:-1]),
        ("seeds", lambda array: array[0]),
        ("indices", lambda array: np.append(array, array)),
        ("indices", lambda array: array.astype(np.float64)),
        ("indices", lambda _: None),
    ],
)
def test_arrays_that_are_no_state_are_refused_by_name(name: str, change: Callable[[Any], Any]) -> None:
    env = FivesUpVectorEnv(4)
    env.reset(seed=1)
    state = env.get_state()
    before = env.get_state()
    state[name] = change(state[name])
    with pytest.raises(ValueError, match=f"state: {name} must be"):
        env.set_state(state)
    del state[name]
    with pytest.raises(ValueError, match=f"state: {name} must be"):
        env.set_state(state)
    np.testing.assert_equal(env.get_state(), before)


def test_views_and_rounds_that_are_over_are_refused_by_row() -> None:
    env = FivesUpVectorEnv(4)
    env.reset(seed=1)
    state, before = env.get_state(), env.get_state()
    state["states"][2] = view(state["states"][2], 0)
    with pytest.raises(ValueError, match=r"states\[2\] must be a round in play, not a view"):
        env.set_state(state)
    state = env.get_state()
    while state["states"]["result"][3] == RUNNING:
        mask = action_mask(state["states"][3])
        ends_step(state["states"][3], int(np.flatnonzero(mask)[0]))
    with pytest.raises(ValueError, match=r"states\[3\] must be a round in play, not a round that is over"):
        env.set_state(state)
    np.testing.assert_equal(env.get_state(), before)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"num_players": 3}, "num_players"), ({"target": 60}, "target"), ({"hand_size": 4}, "hand_size"),
     ({"max_pip": 5}, "max_pip"), ({"without": ["0|0"]}, "without")],
)  # fmt: skip
def test_matches_of_other_options_are_refused_by_name(options: dict[str, Any], named: str) -> None:
    env, other = FivesUpVectorEnv(2), FivesUpVectorEnv(2, **options)
    other.reset(seed=1)
    with pytest.raises(ValueError, match=f"state: {named} must be"):
        env.set_state(other.get_state())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2, np.int64))


def test_a_state_can_be_set_before_any_reset_and_keeps_a_sampler() -> None:
    env, other = FivesUpVectorEnv(2, episode="round", reward="points"), FivesUpVectorEnv(2)
    other.reset(seed=1)
    env.set_state(other.get_state())
    np.testing.assert_array_equal(env.action_masks(), other.action_masks())
    env.reset(options={"sampler": lambda seeds: (np.full((len(seeds), 2), 45), np.zeros(len(seeds), np.int64))})
    env.set_state(other.get_state())
    rng, ended = np.random.default_rng(0), np.zeros(2, np.bool_)
    while not ended.any():
        ended = env.step(random_actions(env.action_masks(), rng))[2]
    assert (env.states["round_scores"][ended, :2] == 45).all()


def test_memory_of_a_match() -> None:
    env = FivesUpVectorEnv(64, copy=False)
    env.reset(seed=0)
    arrays = [value for value in vars(env).values() if isinstance(value, np.ndarray)]
    unique = {array.ctypes.data: array.nbytes for array in arrays}
    assert STATE.itemsize == 256
    assert sum(unique.values()) / 64 <= 1500
