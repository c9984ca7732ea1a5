"""The kernel loop: random legal play with nothing of Python between two steps.

After every step int8 observation, mask, seat to move and reward are written, as a vector environment would. With
`skip_forced` they are written at decisions only, and the forced steps on the way are counted as engine steps.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Measure, Play, Played, Scale
from fivesup_env._bits import prefetch
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_step, only_action
from fivesup_env.batch import AHEAD, CACHE_LINE
from fivesup_env.episode import PLAYING, WIN, pay, play_on
from fivesup_env.observation import OBS_SIZE, write_decision
from fivesup_env.policies import random_choice
from fivesup_env.rules.chance import mix, next_key
from fivesup_env.rules.play import start_match
from fivesup_env.rules.state import MAX_SIDES, STATE, WON, State, States, new_state

SEATS = (2, 3, 4)
BATCH = 4096  # the batch size at which things are compared

_MIXING_SWEEPS = 64  # steps of every match before the first measurement: after some rounds they no longer go in step


def threads_available() -> int:
    """Return how many threads can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@kernel
def random_rows(states: States, keys: NDArray[np.uint64], actions: NDArray[np.int64]) -> Any:
    """Write a uniformly drawn legal `ends` id of every state into ``actions``; return how many had a choice."""
    choices = np.int64(0)
    for row in range(len(states)):
        keys[row] = next_key(keys[row])
        actions[row], count = random_choice(states[row], keys[row])
        choices += count > 1
    return choices


@kernel
def deal_all(states: States, first_seed: int) -> None:
    """Deal a match in every row."""
    for row in range(len(states)):
        states[row].seed = np.uint64(first_seed + row)
        start_match(states[row])


@kernel
def play_random(
    states: States,
    keys: NDArray[np.uint64],
    sweeps: int,
    skip_forced: bool,
    observations: NDArray[np.int8],
    masks: NDArray[np.int8],
    to_play: NDArray[np.int64],
    rewards: NDArray[np.float32],
) -> Any:
    """Let every match make `sweeps` random steps, dealing the next one where it ends.

    Returns:
        Engine steps, and those of them in which more than one action was legal.
    """
    before = np.empty(MAX_SIDES, np.int64)
    flat_observations, flat_masks = observations.reshape(-1), masks.reshape(-1)
    steps, decisions = np.int64(0), np.int64(0)
    for _ in range(sweeps):
        for row in range(len(states)):
            for line in range(0, OBS_SIZE, CACHE_LINE):
                prefetch(flat_observations, (row + AHEAD) * OBS_SIZE + line)
            state = states[row]
            keys[row] = next_key(keys[row])
            action, count = random_choice(state, keys[row])
            decisions += count > 1
            for side in range(MAX_SIDES):
                before[side] = state.scores[side]
            ends_step(state, action)
            status, forced = _go_on(state, skip_forced)
            steps += 1 + forced
            for seat in range(rewards.shape[1]):
                rewards[row, seat] = 0
            if state.result == WON:
                pay(state, before, WIN, rewards, row)
            if status != PLAYING:
                state.seed = mix(np.uint64(state.seed), np.uint64(1))
                start_match(state)  # whoever opens has a choice
            to_play[row] = state.turn
            write_decision(state, flat_observations, row * OBS_SIZE, flat_masks, row * NUM_ENDS_ACTIONS)
    return steps, decisions


@kernel
def _go_on(state: State, skip_forced: bool) -> Any:
    """Go on to the next decision as `play_on` does; return its status, and how many forced steps were taken."""
    forced = np.int64(0)
    status = play_on(state, True, False, 0)
    while skip_forced and status == PLAYING:
        action = only_action(state)
        if action < 0:
            break
        ends_step(state, action)
        forced += 1
        status = play_on(state, True, False, 0)
    return status, forced


@dataclass(frozen=True)
class Table:
    """Matches in play, and the arrays that a step writes."""

    states: States
    keys: NDArray[np.uint64]
    observations: NDArray[np.int8]
    masks: NDArray[np.int8]
    to_play: NDArray[np.int64]
    rewards: NDArray[np.float32]

    def parts(self, count: int) -> Iterator[Table]:
        """Return `count` tables that share these arrays between them."""
        bounds = np.linspace(0, len(self.states), count + 1).astype(int)
        for begin, end in itertools.pairwise(bounds):
            yield Table(*(array[begin:end] for array in vars(self).values()))

    def play(self, sweeps: int, skip_forced: bool) -> tuple[int, int]:
        """See `play_random`."""
        written = (self.observations, self.masks, self.to_play, self.rewards)
        steps, decisions = play_random(self.states, self.keys, sweeps, skip_forced, *written)
        return int(steps), int(decisions)


def dealt(num_players: int, count: int) -> States:
    """Return this many matches, their first rounds dealt."""
    states: States = np.repeat(np.array([new_state(num_players)], STATE), count)
    deal_all(states, 1)
    return states


@functools.cache
def _table(num_players: int, batch: int, skip_forced: bool) -> Table:
    """Return matches in the midst of play; numbers of threads share them.

    With and without `skip_forced` they are others: one stops at decisions only, and would hand those to the other.
    """
    table = Table(
        dealt(num_players, batch),
        np.arange(batch, dtype=np.uint64),
        np.zeros((batch, OBS_SIZE), np.int8),
        np.zeros((batch, NUM_ENDS_ACTIONS), np.int8),
        np.zeros(batch, np.int64),
        np.zeros((batch, num_players), np.float32),
    )
    table.play(_MIXING_SWEEPS, skip_forced)
    return table


def name(num_players: int = 2, batch: int = BATCH, threads: int = 1, skip_forced: bool = False) -> str:
    """Return the name of a measurement of this group."""
    return f"{num_players} seats{', skip_forced' if skip_forced else ''}, N={batch}, threads={threads}"


def measures(scale: Scale) -> list[Measure]:
    """Return every combination of seats, skip_forced, batch size and threads."""
    return [
        _measure(num_players, batch, threads, skip_forced)
        for num_players in SEATS
        for skip_forced in (False, True)
        for batch in scale.batches
        for threads in sorted({1, min(batch, threads_available())})
    ]


def _measure(num_players: int, batch: int, threads: int, skip_forced: bool) -> Measure:
    def prepare() -> Play:
        parts = list(_table(num_players, batch, skip_forced).parts(threads))
        pool = ThreadPoolExecutor(threads)

        def play(steps: int) -> Played:
            sweeps = -(-steps // batch)
            if threads == 1:
                return Played(*parts[0].play(sweeps, skip_forced))
            counts = list(pool.map(lambda part: part.play(sweeps, skip_forced), parts))
            return Played(sum(steps for steps, _ in counts), sum(decisions for _, decisions in counts))

        return play

    return Measure("kernel", name(num_players, batch, threads, skip_forced), prepare)
