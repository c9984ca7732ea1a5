"""What was measured, compared: machines are noisy, ratios within one run less so."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import environments, kernel, peers, ray_arena, training
from benchmarks.measure import Result, Scale


@dataclass(frozen=True)
class Ratio:
    """One comparison: a value for every round in which both sides were measured, and that of their highest rates.

    A busy machine disturbs every round, and the highest rates least.
    """

    name: str
    values: list[float]
    of_highest: float
    wanted: str = ""  # the project's own aim

    def as_json(self) -> dict[str, Any]:
        """Return the entry of "ratios" in the JSON line."""
        return {**vars(self), "median": statistics.median(self.values)}


class Results:
    """Results by group and name."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = {(result.group, result.name): result for result in results}

    def rates(self, group: str, name: str) -> list[float]:
        """Return the rates of a measurement; none if it was not made."""
        result = self._results.get((group, name))
        return result.rates if result else []

    def decision_rates(self, group: str, name: str) -> list[float]:
        """Return the decisions per second of a measurement; none if it was not made."""
        result = self._results.get((group, name))
        return result.decision_rates if result else []

    def fastest(self, group: str, names: Sequence[str] | None = None) -> Result | None:
        """Return the fastest of these measurements, or of the group."""
        found = [r for r in self._results.values() if r.group == group and (names is None or r.name in names)]
        return max(found, key=lambda result: result.median, default=None)


def ratios(measured: Iterable[Result], scale: Scale) -> list[Ratio]:
    """Return the comparisons for which both sides were measured."""
    results = Results(measured)
    found: list[Ratio | None] = [
        *_within(results, scale),
        *_of_training(results),
        _of_ray(results),
        *_with_peers(results),
    ]
    return [ratio for ratio in found if ratio]


def _within(results: Results, scale: Scale) -> list[Ratio | None]:
    threads = kernel.threads_available()
    one = results.rates("kernel", kernel.name())
    at_all = results.rates("kernel", kernel.name(threads=threads))
    vector = [results.rates("vector", environments.vector_name(copy, 1)) for copy in (False, True)]
    vector_at_all = results.rates("vector", environments.vector_name(False, threads))
    at_two = "at least 1.7" if threads == 2 else ""
    found = [
        _compare("make_vec with copy=False / kernel, N=4096", vector[0], one, "at least 0.7"),
        _compare("make_vec with copy=True / kernel, N=4096", vector[1], one),
        _flatness(results, scale),
    ]
    if threads > 1:
        found.append(_compare(f"kernel, {threads} threads / 1 thread, N=4096", at_all, one, at_two))
        found.append(_compare(f"make_vec with copy=False, {threads} threads / 1 thread", vector_at_all, vector[0]))
    return found


def _of_training(results: Results) -> list[Ratio | None]:
    def rates(name: str) -> list[float]:
        return results.rates("training", name)

    found = []
    for hidden in training.NETWORKS:
        every, one, usual = (
            training.ppo_name(place, hidden) for place in (training.EVERY_SEAT, training.ONE_SIDE, training.USUAL)
        )
        coarse = training.ppo_name(training.ONE_SIDE, hidden, "bfloat16")
        found.append(_compare(f"{one} / {training.USUAL}", rates(one), rates(usual), "at least 5"))
        found.append(_compare(f"{coarse} / {training.USUAL}, in float32", rates(coarse), rates(usual)))
        alone = rates(training.alone_name(training.EVERY_SEAT))
        found.append(_compare(f"{every}: share of the tables in its time", rates(every), alone, "at most 0.05"))
    return found


def _of_ray(results: Results) -> Ratio | None:
    one, two = (results.rates("ray", ray_arena.arena_name(workers)) for workers in (1, 2))
    wanted = "at least 1.7" if kernel.threads_available() == 2 else ""
    return _compare("arena on Ray, 2 workers / 1 worker", two, one, wanted)


def _flatness(results: Results, scale: Scale) -> Ratio | None:
    """Compare the batch sizes at which a step costs most and least."""
    by_batch = [results.rates("kernel", kernel.name(batch=batch)) for batch in scale.batches if batch >= 64]
    values = [max(rates) / min(rates) for rates in zip(*by_batch, strict=False)]
    if not values:
        return None
    highest = [max(rates) for rates in by_batch]
    name = "kernel, 2 seats: fastest / slowest batch size from 64 on"
    return Ratio(name, values, max(highest) / min(highest), "at most 1.2")


def _with_peers(results: Results) -> list[Ratio | None]:
    one, aec = results.rates("kernel", kernel.name()), results.rates("aec", environments.AEC_NAME)
    decisions = results.decision_rates("kernel", kernel.name(skip_forced=True))
    found: list[Ratio | None] = []
    for with_tensor in (False, True):
        name = peers.openspiel_name(peers.OPENSPIEL_DOMINOES, with_tensor)
        rates = results.rates("openspiel", name)
        found.append(_compare(f"kernel / OpenSpiel {name}", one, rates, "at least 400"))
        found.append(_compare(f"kernel's decisions, skip_forced / OpenSpiel {name}", decisions, rates))
    dominoes = results.rates("openspiel", peers.openspiel_states_name(peers.OPENSPIEL_DOMINOES))
    for own in peers.OPENSPIEL_OWN:
        rates = results.rates("openspiel", peers.openspiel_states_name(own))
        name = f"{own} in OpenSpiel / {peers.OPENSPIEL_DOMINOES}, states a second"
        found.append(_compare(name, rates, dominoes, "at least 1"))
    cards = results.fastest("openspiel", peers.OPENSPIEL_CARDS)
    if cards:
        found.append(_compare(f"kernel / OpenSpiel {cards.name} (its fastest card game)", one, cards.rates))
        found.append(_compare(f"AEC env() / OpenSpiel {cards.name}", aec, cards.rates))
    classic = results.fastest("pettingzoo")
    if classic:
        name = f"AEC env() / PettingZoo {classic.name} (its fastest classic game)"
        found.append(_compare(name, aec, classic.rates, "above 1"))
    fastest = results.fastest("rlcard")
    if fastest:
        found.append(_compare(f"AEC env() / RLCard {fastest.name} (its fastest)", aec, fastest.rates))
    return found


def _compare(name: str, rates: Sequence[float], others: Sequence[float], wanted: str = "") -> Ratio | None:
    """Return the ratio of two measurements; None if one of them was not made."""
    if not rates or not others:
        return None
    values = [rate / other for rate, other in zip(rates, others, strict=True)]
    return Ratio(name, values, max(rates) / max(others), wanted)
