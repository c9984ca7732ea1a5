"""What is printed: a table for people, and as the last line one JSON object for programs.

Its keys:

    machine             commit, python, versions, cores, processor
    load                load averages (1, 5 and 15 minutes) before and after; null where the system tells none
    settings            runs, seconds (of a run), batches, groups
    results             per measurement: group, name, unit, median, lowest, highest and rates (units a second, one for
                        each run), decision_rates (empty where nobody counts), played (units in all runs)
    ratios              per comparison: name, values (one for each run), of_highest (of the rates), wanted, median
    bytes_per_match     of a vector environment's arrays at N=4096, by seats; and of the largest parts
    start_seconds       the import and one match in a fresh process, cold and warm: seconds of each run
    missing             what could not be measured, and why
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.ratios import Ratio

_PACKAGES = (
    "numpy",
    "numba",
    "gymnasium",
    "pettingzoo",
    "torch",
    "stable-baselines3",
    "open-spiel",
    "rlcard",
    "ray",
)
_CPUINFO = Path("/proc/cpuinfo")


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "cores": os.cpu_count() or 0,
        "processor": _processor(),
    }


def load() -> list[float] | None:
    """Return the load averages."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


def print_machine(found: Mapping[str, Any], load_now: list[float] | None) -> None:
    """Print the head of the report."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    print(f"{found['commit']}, Python {found['python']}, {versions}")
    print(f"{found['cores']} cores, {found['processor']}; load average {load_now}", flush=True)


def print_results(results: Sequence[Result]) -> None:
    """Print a line for each measurement."""
    if not results:
        return
    print(f"\n{'per second':72} {'median':>12} {'lowest':>12} {'highest':>12} {'decisions':>12} {'forced':>7}")
    for result in results:
        rates = (result.median, min(result.rates), max(result.rates))
        name = f"{result.group}: {result.name} [{result.unit}]"
        print(f"{name:72} {' '.join(f'{rate:12,.0f}' for rate in rates)} {_decisions(result)}")


def _decisions(result: Result) -> str:
    if not result.decision_rates or result.unit != "steps":
        return ""
    decisions = statistics.median(result.decision_rates)
    forced = 1 - sum(result.decision_rates) / sum(result.rates)
    return f"{decisions:12,.0f} {forced:6.1%}"


def print_ratios(ratios: Sequence[Ratio]) -> None:
    """Print a line for each comparison."""
    if not ratios:
        return
    print(f"\n{'ratio':72} {'median':>12} {'lowest':>12} {'highest':>12} {'of highest':>12}  wanted")
    for ratio in ratios:
        values = (statistics.median(ratio.values), min(ratio.values), max(ratio.values), ratio.of_highest)
        print(f"{ratio.name:72} {' '.join(f'{value:12,.2f}' for value in values)}  {ratio.wanted}", flush=True)


def print_others(
    bytes_per_match: Mapping[str, float], start_seconds: Mapping[str, Sequence[float]], missing: Mapping[str, str]
) -> None:
    """Print memory, start times, and what is missing."""
    if bytes_per_match:
        print(f"\n{'bytes per match':72}")
    for name, value in bytes_per_match.items():
        print(f"{name:72} {value:12,.0f}")
    if start_seconds:
        print(f"\n{'seconds for the import and one AEC match':72} {'median':>12} {'lowest':>12} {'highest':>12}")
    for name, seconds in start_seconds.items():
        print(f"{name:72} {statistics.median(seconds):12.2f} {min(seconds):12.2f} {max(seconds):12.2f}")
    if missing:
        print("\nnot measured")
    for name, why in missing.items():
        print(f"{name}: {why}")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
