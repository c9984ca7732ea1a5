"""The checker of vector environments: it passes what follows Gymnasium's vector API, and catches each flaw alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from fivesup_env.learner_vector_env import LearnerVectorEnv
from fivesup_env.vector_checker import VectorEnvError, check_vector_env
from fivesup_env.vector_env import FivesUpVectorEnv
from tests.playing import SEATS, win_table

SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED
PARTS = ["observations", "rewards", "terminations", "truncations", "infos"]


class Race(VectorEnv[Any, Any, Any]):
    """Three runners, each to a goal of its own: observed are [place, goal]; to stay, to walk, or, once off, to run.

    An episode ends at the goal, or after `limit` steps. What a flaw changes is a method of its own.
    """

    num_envs = 3

    def __init__(self, mode: AutoresetMode = SAME_STEP, goals: tuple[int, int] = (3, 9), limit: int = 5) -> None:
        self.metadata = {"render_modes": ["ansi"], "autoreset_mode": mode}
        self.mode, self.goal_range, self.limit = mode, goals, limit
        self.single_observation_space = spaces.Box(0, 9, (2,), np.int8)
        self.single_action_space = spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, 3)
        self.action_space = batch_space(self.single_action_space, 3)
        self.generators: list[np.random.Generator] = []
        self.places, self.goals, self.ages = np.zeros((3, 3), np.int8)
        self.over = np.zeros(3, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            seeds = range(seed, seed + 3) if isinstance(seed, int) else seed
            if len(seeds) != 3:
                raise ValueError("three seeds, please")
            self.generators = self.seeded(seeds)
        rows = np.ones(3, np.bool_) if options is None else options["reset_mask"]
        self.begin(rows)
        self.over &= ~rows
        return self.observe(), self.infos()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if not self.generators:
            raise gymnasium.error.ResetNeeded("reset first")
        self.check(actions)
        new = self.over if self.mode is NEXT_STEP else np.zeros(3, np.bool_)
        self.move(actions, ~new)
        self.begin(new)
        terminated = (self.places >= self.goals) & ~new
        truncated = (self.ages >= self.limit) & ~terminated & ~new
        self.over = terminated | truncated
        infos: dict[str, Any] = {}
        if self.mode is SAME_STEP and self.over.any():
            infos = {"final_obs": self.seen(), "_final_obs": self.over.copy(), "_final_info": self.over.copy()}
            infos["final_info"] = {"age": self.ages.copy()}
            self.begin(self.over)
        return self.observe(), terminated.astype(np.float64), terminated, truncated, infos | self.infos()

    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        return [np.random.default_rng(seed) for seed in seeds]

    def begin(self, rows: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(rows):
            self.places[row] = self.ages[row] = 0
            self.goals[row] = self.generators[row].integers(*self.goal_range)

    def check(self, actions: Any) -> None:
        if not self.action_space.contains(actions):
            raise ValueError(f"no actions: {actions}")

    def move(self, actions: Any, rows: NDArray[np.bool_]) -> None:
        self.places[rows] = np.minimum(self.places[rows] + actions[rows], 9)
        self.ages[rows] += 1

    def observe(self) -> Any:
        return self.seen()

    def seen(self) -> NDArray[np.int8]:
        return np.stack([self.places, self.goals], axis=1)

    def infos(self) -> dict[str, Any]:
        masks = np.ones((3, 3), np.int8)
        masks[:, 2] = self.places > 0
        near = self.goals - self.places < 3
        return {"action_mask": masks, "left": np.where(near, self.goals - self.places, 99), "_left": near}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_environment_without_flaws_passes(mode: AutoresetMode) -> None:
    assert check_vector_env(Race(mode)) > 50


# Goals out of reach: every episode takes four steps, and with NEXT_STEP a fifth to reset.
@pytest.mark.parametrize(("mode", "ends"), [(SAME_STEP, 3 * 25), (DISABLED, 3 * 25), (NEXT_STEP, 3 * 20)])
def test_it_returns_how_many_episodes_ended(mode: AutoresetMode, ends: int) -> None:
    assert check_vector_env(Race(mode, goals=(9, 10), limit=4), steps=100, random=False) == ends
    with pytest.raises(VectorEnvError, match=r"reset\(seed=0\) and reset\(\) make the same play"):
        check_vector_env(Race(mode, goals=(9, 10), limit=4))


# SyncVectorEnv moves the rows before a wrong action.
@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasiums_own_environments_pass(mode: AutoresetMode) -> None:
    env = gymnasium.make_vec("CartPole-v1", 3, "sync", vector_kwargs={"autoreset_mode": mode})
    assert check_vector_env(env, strict=False) > 5
    if mode is NEXT_STEP:
        env = gymnasium.make_vec("CartPole-v1", 3, "vector_entry_point")
        assert check_vector_env(env, strict=False, seed_lists=False) > 5


class Parts(gymnasium.Env[Any, Any]):
    """One game whose spaces have parts, and whose info has a NaN."""

    observation_space = spaces.Dict({"place": spaces.Discrete(9), "pair": spaces.Tuple([spaces.Box(0, 1)] * 2)})
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.place += int(action.sum())
        return self.seen(), 1.0, self.place > 5, False, {"nan": np.nan}

    def seen(self) -> Any:
        return {"place": self.place, "pair": tuple(self.np_random.random((2, 1)).astype(np.float32))}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_spaces_with_parts(mode: AutoresetMode) -> None:
    assert check_vector_env(SyncVectorEnv([Parts] * 2, autoreset_mode=mode), strict=False) > 20


OPTIONS: list[dict[str, Any]] = [
    {"target": 60, "skip_forced": True, "obs_dtype": "float32"},
    {"episode": "round", "reward": "margin", "copy": False},
    {"max_rounds": 1, "reward": "points", "threads": 2},
    {"max_rounds": 1, "skip_forced": True, "copy": False, "threads": 2, "obs_dtype": "float32"},
]


@pytest.mark.parametrize("options", [*OPTIONS, {"actions": "ports", "target": 40}])
@pytest.mark.parametrize("seats", SEATS)
def test_every_seat_the_callers(seats: int, options: dict[str, Any]) -> None:
    env = FivesUpVectorEnv(4, num_players=seats, **options)
    assert check_vector_env(env, steps=60, copies=options.get("copy", True), agents=seats) > 0


@pytest.mark.parametrize("options", [OPTIONS[0], *(option | {"seat": 1} for option in OPTIONS[1:])])
@pytest.mark.parametrize("seats", SEATS)
def test_one_seat_the_learners(seats: int, options: dict[str, Any]) -> None:
    partner: dict[str, Any] = {"partner": "random"} if seats == 4 else {}
    env = LearnerVectorEnv(4, opponent="greedy", num_players=seats, **partner, **options)
    assert check_vector_env(env, steps=30, copies=options.get("copy", True)) > 0


def test_rounds_that_pay_chances() -> None:
    for opponent in (None, ["random"]):
        env: Any = gymnasium.make_vec(
            "FivesUp-v0", num_envs=3, opponent=opponent, episode="round", win_table=win_table, skip_forced=True
        )
        assert isinstance(env.unwrapped, FivesUpVectorEnv if opponent is None else LearnerVectorEnv)
        assert check_vector_env(env, steps=40, agents=None if opponent else 2) > 3


if TYPE_CHECKING:
    Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # it has no type parameters in Gymnasium 1.2
    Wrapper = VectorWrapper


class Altered(Wrapper):
    """Changes a part of what a step returns; None leaves it out."""

    def __init__(self, env: VectorEnv[Any, Any, Any], part: str, change: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(env)
        self.part, self.change = part, change

    def step(self, actions: Any) -> Any:
        parts = dict(zip(PARTS, self.env.step(actions), strict=True))
        parts[self.part] = self.change(parts)
        return tuple(part for part in parts.values() if part is not None)


def put(array: NDArray[Any], index: Any, value: Any) -> NDArray[Any]:
    changed: NDArray[Any] = array.copy()
    changed[index] = value
    return changed


def info(**changes: Callable[[dict[str, Any]], Any]) -> tuple[str, Callable[[dict[str, Any]], Any]]:
    """Infos with these keys changed, those that are there; new ones begin with "new"."""

    def change(parts: dict[str, Any]) -> dict[str, Any]:
        infos = parts["infos"]
        found = {key: value(infos) for key, value in changes.items() if key in infos or "new" in key}
        return {key: value for key, value in (infos | found).items() if value is not None}

    return "infos", change


def nothing(parts: dict[str, Any]) -> None:
    return None


def unreset(parts: dict[str, Any]) -> Any:
    """Observations that stay where an episode ended."""
    infos = parts["infos"]
    ended = infos.get("_final_obs", np.zeros(3, np.bool_))
    return np.where(ended[:, None], infos.get("final_obs", 0), parts["observations"]).astype(np.int8)


FIRST = r"^reset\(seed=0\), step 1"
RETURNED: list[tuple[tuple[str, Callable[[dict[str, Any]], Any]], str]] = [
    (("truncations", nothing), f"{FIRST} must return 5 things"),
    (
        ("observations", lambda p: p["observations"][:2]),
        rf"{FIRST}: observations must be int8\[3, 2\], not int8\[2, 2\]",
    ),
    (("observations", lambda p: p["observations"] * 1.0), r"observations must be int8\[3, 2\], not float64\[3, 2\]"),
    (
        ("observations", lambda p: put(p["observations"], (1, 0), 10)),
        rf"{FIRST}, row 1: observation is not in Box\(0, 9, \(2,\), int8\): 10 at \[0\]$",
    ),
    (("observations", unreset), r"SAME_STEP: all \d+ rows that ended and were reset look as before"),
    (("rewards", lambda p: p["rewards"].astype(np.float32)), r"rewards must be float64\[3\], not float32\[3\]"),
    (("rewards", lambda p: p["rewards"][:, None]), r"rewards must be float64\[3\], not float64\[3, 1\]"),
    (("rewards", lambda p: put(p["rewards"], 2, np.nan)), f"{FIRST}, row 2: reward nan"),
    (("terminations", lambda p: p["terminations"].astype(np.int8)), r"terminations must be bool_?\[3\], not int8\[3\]"),
    (("truncations", lambda p: p["truncations"].tolist()), r"truncations must be bool_?\[3\], not \[False, False"),
    (("infos", lambda p: [p["infos"]] * 3), f"{FIRST}: infos must be a dict, not list"),
    (info(left=nothing), f"{FIRST}: infos has the mask '_left', but no 'left'"),
    (info(_left=lambda i: i["_left"] * 1), r"infos\['_left'\] must be bool\[3\], not int64\[3\]"),
    (info(left=lambda i: i["left"][1:]), r"infos\['left'\] must be an array of 3 rows, not int8\[2\]"),
    (info(new=lambda i: {"inner": "text"}), r"infos\['new'\]\['inner'\] must be an array of 3 rows, not 'text'"),
    (
        info(action_mask=lambda i: put(i["action_mask"], 1, 0)),
        r"step 1, row 1: the action mask .* not int8\[3\] \[0 0 0\]",
    ),
    (info(action_mask=lambda i: i["action_mask"] > 0), r"the action mask must be int8\[3\] of 0 and 1"),
    (info(final_obs=nothing, _final_obs=nothing), r"step \d+, row \d: final_obs must be there, .* True.*SAME_STEP"),
    (info(final_info=nothing, _final_info=nothing), "final_info must be there"),
    (
        info(_final_obs=lambda i: np.ones(3, np.bool_)),
        r"final_obs must not be there, .* terminated False, truncated False",
    ),
    (info(_final_info=lambda i: np.ones(3, np.bool_)), "final_info must not be there"),
    (info(_final_obs=lambda i: np.roll(i["_final_obs"], 1)), "final_obs must (not )?be there"),
    (info(final_obs=lambda i: i["final_obs"] + np.int8(4)), r"final_obs is not in Box.*: 1\d at \[\d\]"),
]


@pytest.mark.parametrize(("change", "text"), RETURNED)
def test_it_catches_what_is_returned_wrongly(change: tuple[str, Callable[[dict[str, Any]], Any]], text: str) -> None:
    with pytest.raises(VectorEnvError, match=text):
        check_vector_env(Altered(Race(), *change), steps=40)


class Buffered(Race):
    """Copies promised, one buffer returned."""

    def observe(self) -> Any:
        self.buffer = getattr(self, "buffer", np.empty((3, 2), np.int8))
        self.buffer[:] = self.seen()
        return self.buffer


class Exposed(Race):
    """An array of the environment's own stands in infos; it is replaced, never changed."""

    def begin(self, rows: NDArray[np.bool_]) -> None:
        self.goals = self.goals.copy()
        super().begin(rows)

    def infos(self) -> dict[str, Any]:
        return super().infos() | {"goals": self.goals}


class Delayed(Race):
    """Moves by the actions of the step before, which it has not copied."""

    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        self.before = np.zeros(3, np.int64)
        return super().seeded(seeds)

    def move(self, actions: Any, rows: NDArray[np.bool_]) -> None:
        super().move(self.before, rows)
        self.before = actions


class Meddling(Race):
    def move(self, actions: Any, rows: NDArray[np.bool_]) -> None:
        actions[2] = min(actions[2], 1)
        super().move(actions, rows)


class Unseeded(Race):
    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        return self.generators or super().seeded(range(3))


class OneSeed(Race):
    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        return super().seeded(range(3))


class Repeating(Race):
    """A reset without a seed takes the last one again."""

    last: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.last = self.last if seed is None else seed
        return super().reset(seed=self.last, options=options)


class Moody(Race):
    """A reset without a seed depends on how many there were."""

    count = 100

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.count += 1
        return super().reset(seed=self.count if seed is None else seed, options=options)


class FirstSeed(Race):
    """Counts on from the first of a list of seeds."""

    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        return super().seeded(range(seeds[0], seeds[0] + 3))


class OneGenerator(Race):
    def seeded(self, seeds: Sequence[int]) -> list[np.random.Generator]:
        return super().seeded(seeds[:1]) * 3


class Lenient(Race):
    def check(self, actions: Any) -> None:
        pass


class Hasty(Race):
    """Looks at the actions when a row has already grown older."""

    def check(self, actions: Any) -> None:
        self.ages[0] += 1
        super().check(actions)
        self.ages[0] -= 1


class AnyOrder(Race):
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert self.generators
        return super().step(actions)


class Started(Race):
    """Needs no reset."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if not self.generators:
            self.reset(seed=0)
        return super().step(actions)


class ClosedTwice(Race):
    def close(self, **kwargs: Any) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        super().close(**kwargs)


class LeftOpen(Race):
    def close(self, **kwargs: Any) -> None:
        pass


class OneFrame(Race):
    render_mode = "ansi"

    def render(self) -> Any:
        return ("frame",)


class Obedient(Race):
    """Takes the action as well in the step that resets."""

    def begin(self, rows: NDArray[np.bool_]) -> None:
        super().begin(rows)
        if rows.sum() < 3:
            self.places[rows] += self.actions[rows].astype(np.int8)

    def check(self, actions: Any) -> None:
        super().check(actions)
        self.actions = actions


class Paying(Race):
    """Pays in the step that resets."""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, _, *rest = super().step(actions)
        return (observations, np.ones(3), *rest)


class ResetsAll(Race):
    """Deaf to reset_mask."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)


class ResetsNone(Race):
    """Lets ended rows stand where they are."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return (self.observe(), self.infos()) if options else super().reset(seed=seed)


def with_values(env: Race, **values: Any) -> Race:
    for name, value in values.items():
        setattr(env, name, value)
    return env


AUTORESET = "autoreset_mode"
FLAWED: list[tuple[Callable[[], Race], str]] = [
    (lambda: with_values(Race(), num_envs=0), "num_envs must be a positive int, not 0"),
    (lambda: with_values(Race(), single_action_space=3), "single_action_space must be a Space, not 3"),
    (
        lambda: with_values(Race(), action_space=spaces.MultiDiscrete([3, 3])),
        r"action_space must be MultiDiscrete\(\[3 3 3\]\), 3 times single_action_space, not MultiDiscrete\(\[3 3\]\)",
    ),
    (lambda: with_values(Race(), observation_space=spaces.Box(0, 8, (3, 2), np.int8)), "observation_space must be"),
    (lambda: with_values(Race(), metadata={}), 'metadata."autoreset_mode". must be an AutoresetMode, not None'),
    (lambda: with_values(Race(), metadata={AUTORESET: "SameStep"}), "must be an AutoresetMode, not 'SameStep'"),
    (lambda: with_values(Race(), render_mode="human"), r"render_mode 'human' is not one of \['ansi'\]"),
    (lambda: with_values(Race(), metadata={AUTORESET: NEXT_STEP}), "final_obs must not be there, .*NEXT_STEP"),
    (lambda: with_values(Race(), metadata={AUTORESET: DISABLED}), "final_obs must not be there, .*DISABLED"),
    (lambda: with_values(Race(NEXT_STEP), metadata={AUTORESET: SAME_STEP}), "final_obs must be there, .*SAME_STEP"),
    (lambda: with_values(Race(DISABLED), metadata={AUTORESET: NEXT_STEP}), "in a step that only resets"),
    (lambda: Obedient(NEXT_STEP), r"observations is \d, not 0, at \[0\] if .* other actions in steps that only reset"),
    (lambda: Paying(NEXT_STEP), "row \\d: reward 1.0, terminated False, truncated False in a step that only resets"),
    (
        lambda: ResetsAll(DISABLED),
        r"step \d+, reset_mask before it, row \d: observations is .* but the row is not to be reset",
    ),
    (lambda: ResetsNone(DISABLED), r"DISABLED: all \d+ rows that ended and were reset look as before"),
    (Buffered, r"observations is \d, not \d, at \[\d\] after later calls: it is no copy"),
    (Exposed, r"the caller overwrites the arrays of earlier calls"),
    (Delayed, r"the caller overwrites the arrays of earlier calls"),
    (Meddling, r"step \d+ changed the actions \[\d \d 2\] to \[\d \d 1\]"),
    (Unseeded, r"^reset\(seed=0\), row \d: observations is \d, not \d, at \[1\] if played with: the same again"),
    (OneSeed, r"^reset\(seed=0\) and reset\(seed=3\) make the same play: another seed must make another play"),
    (Repeating, r"^reset\(seed=0\) and reset\(\) make the same play: reset\(\) without a seed must go on"),
    (Moody, r"^reset\(\), row \d: observations is \d, not \d, at \[1\] if played with: the same again"),
    (FirstSeed, r"^reset\(seed=0\), row 0: .* if played with: seed=\[2, 1, 0\], rows read backwards"),
    (OneGenerator, r"if played with: seed=\[2, 1, 0\], rows read backwards"),
    (Lenient, r"then step\(\) with 3, which is not in Discrete\(3\), in the last row: must raise an error"),
    (Hasty, "if played with: wrong calls in between"),
    (AnyOrder, r"step\(\) before reset\(\) must raise ResetNeeded, not AssertionError"),
    (Started, r"step\(\) before reset\(\) must raise ResetNeeded, and raised nothing"),
    (OneFrame, r"render\(\) must return 3 frames, not 1"),
    (ClosedTwice, r"close\(\) a second time must do nothing, not raise RuntimeError\('closed already'\)"),
    (LeftOpen, r"close\(\) must set `closed`"),
]


@pytest.mark.parametrize(("make", "text"), FLAWED)
def test_it_catches_what_is_done_wrongly(make: Callable[[], Race], text: str) -> None:
    with pytest.raises(VectorEnvError, match=text):
        check_vector_env(make(), steps=40)


def test_it_catches_a_row_missing_from_a_part() -> None:
    def change(parts: dict[str, Any]) -> Any:
        return parts["observations"] | {"place": parts["observations"]["place"][:1]}

    with pytest.raises(VectorEnvError, match=f"{FIRST}: observations must have 2 rows of Dict"):
        check_vector_env(Altered(SyncVectorEnv([Parts] * 2), "observations", change), strict=False)


def test_final_observations_of_several_agents() -> None:
    with pytest.raises(AssertionError, match="final_obs must have 3 parts, not 2"):
        check_vector_env(Race(), agents=3)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Buffered, {"copies": False}),
        (Exposed, {"copies": False}),
        (AnyOrder, {"strict": False}),
        (Hasty, {"strict": False}),
        (LeftOpen, {"strict": False}),
        (FirstSeed, {"seed_lists": False}),
        (OneGenerator, {"seed_lists": False}),
        (OneSeed, {"random": False, "seed_lists": False}),
    ],
)
def test_what_an_environment_need_not_promise(make: Callable[[], Race], options: dict[str, Any]) -> None:
    assert check_vector_env(make(), steps=40, **options) > 0
