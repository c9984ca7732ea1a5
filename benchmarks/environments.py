"""This project's environments, playouts and memory, measured."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pettingzoo.test.performance_benchmark import performance_benchmark

from agents.baselines import random_actions
from benchmarks.kernel import BATCH, SEATS, dealt, random_rows, threads_available
from benchmarks.measure import Measure, Play, Played, Result, Scale
from fivesup_env import fivesup_v0
from fivesup_env.options import EpisodeName
from fivesup_env.search import PolicyName, playouts
from fivesup_env.vector_env import FivesUpVectorEnv

_MIXING_STEPS = 64  # of every match before the first measurement, as in the kernel loop
_PLAYOUTS = 1024  # at once
_POLICIES: tuple[PolicyName, ...] = ("random", "greedy")
_UNTIL: tuple[EpisodeName, ...] = ("round", "match")


def vector_name(copy: bool = False, threads: int = 1, num_players: int = 2) -> str:
    """Return the name of a measurement of `vector_measures`."""
    return f"make_vec, {num_players} seats, N={BATCH}, copy={copy}, threads={threads}"


def vector_measures(scale: Scale) -> list[Measure]:
    """Return `gymnasium.make_vec` with and without copies, on one thread and all, and with more seats."""
    cases = [(copy, threads, 2) for copy in (False, True) for threads in sorted({1, threads_available()})]
    cases += [(False, 1, num_players) for num_players in SEATS[1:]]
    found = [Measure("vector", vector_name(*case), _vector(*case)) for case in cases]
    skipping = f"make_vec, 2 seats, skip_forced, N={BATCH}, copy=False, threads=1"
    return [*found, Measure("vector", skipping, _vector(False, 1, 2, skip_forced=True), unit="decisions")]


def _vector(copy: bool, threads: int, num_players: int, **options: Any) -> Callable[[], Play]:
    """Random play as in the kernel loop, the choice of the actions included and shared between the threads as well."""

    def prepare() -> Play:
        env = gymnasium.make_vec(
            "FivesUp-v0", num_envs=BATCH, num_players=num_players, copy=copy, threads=threads, **options
        )
        env.reset(seed=1)
        choose = _chooser(env.unwrapped, threads)

        def play(steps: int) -> Played:
            calls, decisions = -(-steps // BATCH), 0
            for _ in range(calls):
                actions, choices = choose()
                decisions += choices
                env.step(actions)
            return Played(calls * BATCH, decisions)

        play(_MIXING_STEPS * BATCH)
        return play

    return prepare


def _chooser(env: Any, threads: int) -> Callable[[], tuple[NDArray[np.int64], int]]:
    """Return a function that draws an action for every match of `env`, and tells how many had a choice."""
    assert isinstance(env, FivesUpVectorEnv)
    keys, actions = np.arange(env.num_envs, dtype=np.uint64), np.zeros(env.num_envs, np.int64)
    parts = [np.array_split(array, threads) for array in (env.states, keys, actions)]
    pool = ThreadPoolExecutor(threads)

    def choose() -> tuple[NDArray[np.int64], int]:
        if threads == 1:
            return actions, int(random_rows(env.states, keys, actions))
        return actions, sum(pool.map(random_rows, *parts))

    return choose


AEC_NAME = "env(), last() and step()"


def aec_measures(scale: Scale) -> list[Measure]:
    """Return the AEC environment, wrapped and raw, in the loop that PettingZoo's games are measured in."""
    skipping: dict[str, Any] = {"unit": "decisions"}
    return [
        Measure("aec", AEC_NAME, lambda: aec_play(fivesup_v0.env())),
        Measure("aec", "raw_env(), last() and step()", lambda: aec_play(fivesup_v0.raw_env())),
        Measure("aec", "env(skip_forced=True)", lambda: aec_play(fivesup_v0.env(skip_forced=True)), **skipping),
    ]


def aec_play(env: Any) -> Play:
    """Return random play with an AEC environment; a new game begins once all agents are done."""
    env.reset(seed=1)

    def play(steps: int) -> Played:
        decisions = 0
        for _ in range(steps):
            legal = _step_aec(env)
            decisions += legal > 1
            if all(env.terminations.values()) or all(env.truncations.values()):
                env.reset()
        return Played(steps, decisions)

    return play


def _step_aec(env: Any) -> int:
    """Take a random legal action; return how many there were."""
    observation, _, terminated, truncated, info = env.last()
    if terminated or truncated:
        env.step(None)
        return 0
    mask = observation.get("action_mask") if isinstance(observation, dict) else info.get("action_mask")
    if mask is None:
        space = env.action_space(env.agent_selection)
        env.step(space.sample())
        return int(space.n)
    legal = np.flatnonzero(mask).tolist()
    env.step(random.choice(legal))
    return len(legal)


def performance_benchmark_result() -> Result:
    """Return what PettingZoo's own benchmark says, which takes five seconds."""
    random.seed(1)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        performance_benchmark(fivesup_v0.env())
    turns = next(line for line in printed.getvalue().splitlines() if line.endswith("turns per second"))
    rate = float(turns.split()[0])
    return Result("aec", "PettingZoo's performance_benchmark", "steps", [rate], played=round(5 * rate))


def sb3_measures(scale: Scale) -> list[Measure]:
    """Return the Stable-Baselines3 form, every seat the caller's and with opponents; actions are drawn from its masks.

    Raises:
        ImportError: Stable-Baselines3 is not there.
    """
    from agents.sb3 import FivesUpSb3VecEnv

    def prepare(opponent: str | None) -> Play:
        env = FivesUpSb3VecEnv(BATCH, opponent=opponent)
        env.reset()
        keys, actions = np.arange(BATCH, dtype=np.uint64), np.zeros(BATCH, np.int64)

        def play(steps: int) -> Played:
            calls = -(-steps // BATCH)
            for _ in range(calls):
                masks = np.stack(env.env_method("action_masks")).reshape(BATCH, -1)
                keys[:] += np.uint64(BATCH)
                random_actions(masks.view(np.int8), keys, actions)
                env.step(actions)
            return Played(calls * BATCH)

        return play

    return [
        Measure("sb3", f"FivesUpSb3VecEnv, N={BATCH}, opponent={opponent!r}", partial(prepare, opponent))
        for opponent in (None, "greedy")
    ]


def playout_name(policy: PolicyName = "greedy", until: EpisodeName = "round") -> str:
    """Return the name of a measurement of `playout_measures`."""
    return f"{policy}, from the deal to the end of the {until}, threads=1"


def playout_measures(scale: Scale) -> list[Measure]:
    """Return playouts of fresh two-seat deals."""
    return [
        Measure("playouts", playout_name(policy, until), partial(_playouts, policy, until), unit="playouts")
        for policy in _POLICIES
        for until in _UNTIL
    ]


def _playouts(policy: PolicyName, until: EpisodeName) -> Play:
    start, keys = dealt(2, _PLAYOUTS), np.arange(_PLAYOUTS, dtype=np.uint64)

    def play(count: int) -> Played:
        calls = -(-count // _PLAYOUTS)
        for _ in range(calls):
            keys[:] += np.uint64(_PLAYOUTS)
            playouts(start.copy(), keys, policy=policy, until=until)
        return Played(calls * _PLAYOUTS)

    return play


def memory_per_match() -> dict[str, float]:
    """Return the bytes of a vector environment's arrays per match, by number of seats, and of their largest parts."""
    found = {}
    for num_players in SEATS:
        env = FivesUpVectorEnv(BATCH, num_players=num_players, copy=False)
        env.reset(seed=1)
        arrays = {id(array): array for array in vars(env).values() if isinstance(array, np.ndarray)}
        found[f"{num_players} seats"] = sum(array.nbytes for array in arrays.values()) / BATCH
    observations, infos = env.reset(seed=1)
    found |= {"state": env.states.nbytes / BATCH, "observation": observations.nbytes / BATCH}
    return {**found, "mask": infos["action_mask"].nbytes / BATCH}
