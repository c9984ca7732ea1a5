"""Measure and print: python -m benchmarks."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks import environments, kernel, peers, ray_arena, report, training
from benchmarks.measure import FULL, QUICK, Measure, Scale, measure_all
from benchmarks.ratios import ratios
from benchmarks.startup import start_times

_MEASURED: dict[str, Callable[[Scale], list[Measure]]] = {
    "kernel": kernel.measures,
    "vector": environments.vector_measures,
    "aec": environments.aec_measures,
    "sb3": environments.sb3_measures,
    "playouts": environments.playout_measures,
    "network": training.network_measures,
    "training": training.training_measures,
    "ray": ray_arena.ray_measures,
    "openspiel": peers.openspiel_measures,
    "pettingzoo": peers.pettingzoo_measures,
    "rlcard": peers.rlcard_measures,
}
_GROUPS = (*_MEASURED, "memory", "startup")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("--quick", action="store_true", help="a look in under a minute: fewer, shorter runs")
    parser.add_argument("--only", action="append", choices=_GROUPS, help="measure this only; may be given again")
    parser.add_argument("--runs", type=int, help=f"runs of each measurement (default {FULL.runs})")
    arguments = parser.parse_args(argv)
    if arguments.runs is not None and arguments.runs < 1:
        parser.error(f"--runs must be at least 1, not {arguments.runs}")
    scale = QUICK if arguments.quick else FULL
    scale = replace(scale, runs=arguments.runs or scale.runs)
    _measure(scale, arguments.only or _GROUPS, arguments.quick)


def _measure(scale: Scale, groups: Sequence[str], quick: bool) -> None:
    random.seed(1)
    machine, load_before = report.machine(), report.load()
    report.print_machine(machine, load_before)
    measures, missing = _collect(scale, groups)
    results, failed = measure_all(measures, scale)
    missing |= failed
    if "aec" in groups and not quick:
        results.append(environments.performance_benchmark_result())
    compared = ratios(results, scale)
    report.print_results(results)
    report.print_ratios(compared)
    bytes_per_match = environments.memory_per_match() if "memory" in groups else {}
    start_seconds = start_times(1 if quick else scale.runs) if "startup" in groups else {}
    report.print_others(bytes_per_match, start_seconds, missing)
    print(f"load average {report.load()}\n")
    line = {
        "machine": machine,
        "load": {"before": load_before, "after": report.load()},
        "settings": {**vars(scale), "groups": groups},
        "results": [result.as_json() for result in results],
        "ratios": [ratio.as_json() for ratio in compared],
        "bytes_per_match": bytes_per_match,
        "start_seconds": start_seconds,
        "missing": missing,
    }
    print(json.dumps(line))


def _collect(scale: Scale, groups: Sequence[str]) -> tuple[list[Measure], dict[str, str]]:
    """Return what to measure, and the groups that cannot be."""
    measures: list[Measure] = []
    missing = {}
    for group in groups:
        try:
            measures += _MEASURED[group](scale) if group in _MEASURED else []
        except ImportError as error:
            missing[group] = f"not installed ({error})"
    return measures, missing


if __name__ == "__main__":
    main()
