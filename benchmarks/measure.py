"""What a measurement is, and how it is timed.

Every measurement is a function that plays at least so many steps and tells how many it really played. It is called
until it is warm, off the clock; that also finds how many steps fill the wanted time. Then all measurements take turns,
one run each per round, so that what else the machine does meets all of them, and the ratios of one round are fair.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias


class Played(NamedTuple):
    """What a run really did."""

    steps: int  # in the measurement's unit
    decisions: int = 0  # those of the steps in which more than one action was legal; 0 where nobody counts


#: ``play(steps)`` plays at least so many steps, on from where the last call left off.
Play: TypeAlias = Callable[[int], Played]


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    runs: int
    seconds: float  # of one run
    batches: tuple[int, ...]
    rollout: int  # decisions between two updates of PPO


FULL = Scale(runs=5, seconds=0.3, batches=(1, 64, 1024, 4096, 16384, 65536), rollout=16384)
QUICK = Scale(runs=3, seconds=0.05, batches=(64, 4096), rollout=2048)


@dataclass(frozen=True)
class Measure:
    """Something to measure, not begun yet."""

    group: str
    name: str
    prepare: Callable[[], Play]
    unit: str = "steps"
    peer: bool = False  # others' code: if it fails, that is a result
    close: Callable[[], None] | None = None  # ends what it has begun, after all runs of all measurements


@dataclass
class Result:
    """What was measured: one entry per run."""

    group: str
    name: str
    unit: str
    rates: list[float] = field(default_factory=list)  # units per second
    decision_rates: list[float] = field(default_factory=list)  # decisions per second; empty where nobody counts
    played: int = 0  # units in all runs together

    @property
    def median(self) -> float:
        """Units per second."""
        return statistics.median(self.rates)

    def as_json(self) -> dict[str, Any]:
        """Return the entry of "results" in the JSON line."""
        return {
            "group": self.group,
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "lowest": min(self.rates),
            "highest": max(self.rates),
            "rates": self.rates,
            "decision_rates": self.decision_rates,
            "played": self.played,
        }


def measure_all(measures: Sequence[Measure], scale: Scale) -> tuple[list[Result], dict[str, str]]:
    """Measure everything; return the results, and the peers that failed with their errors."""
    with ExitStack() as ends:
        for measure in measures:
            if measure.close:
                ends.callback(measure.close)
        return _measure_in_turns(measures, scale)


def _measure_in_turns(measures: Sequence[Measure], scale: Scale) -> tuple[list[Result], dict[str, str]]:
    ready: list[tuple[Measure, Play, int, Result]] = []
    failed: dict[str, str] = {}
    for measure in measures:
        try:
            play = measure.prepare()
            ready.append((measure, play, _warm_up(play, scale.seconds), _empty(measure)))
        except Exception as error:
            if not measure.peer:
                raise
            failed[f"{measure.group}: {measure.name}"] = f"{type(error).__name__}: {error}"
    for _ in range(scale.runs):
        for _, play, steps, result in ready:
            _run(play, steps, result)
    return [result for *_, result in ready], failed


def _empty(measure: Measure) -> Result:
    return Result(measure.group, measure.name, measure.unit)


def _warm_up(play: Play, seconds: float) -> int:
    """Play until a run is long enough to tell the speed; return the steps that fill `seconds`."""
    play(1)  # compiles, fills tables
    steps = 1
    while True:
        begin = time.perf_counter()
        played = play(steps)
        elapsed = time.perf_counter() - begin
        if elapsed >= seconds / 4:
            return max(1, round(played.steps * seconds / elapsed))
        steps *= 4


def _run(play: Play, steps: int, result: Result) -> None:
    begin = time.perf_counter()
    played = play(steps)
    elapsed = time.perf_counter() - begin
    result.rates.append(played.steps / elapsed)
    result.played += played.steps
    if played.decisions:
        result.decision_rates.append(played.decisions / elapsed)
