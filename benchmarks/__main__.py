"""Measure and print: python -m benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

_ONE_MATCH = """
import time
begin = time.perf_counter()
import numpy as np
from fivesup_env import fivesup_v0
env = fivesup_v0.env()
env.reset(seed=1)
rng = np.random.default_rng(1)
for agent in env.agent_iter():
    observation, _, terminated, truncated, _ = env.last()
    legal = np.flatnonzero(observation["action_mask"])
    env.step(None if terminated or truncated else int(rng.choice(legal)))
print(time.perf_counter() - begin)
"""


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each measurement (default 5)")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs must be at least 1, not {arguments.runs}")
    machine, start_seconds = _machine(), _start_times(arguments.runs)
    print(f"{machine['commit']}, Python {machine['python']}, {machine['cores']} cores, {machine['processor']}")
    print(f"{'import and one AEC match':28} {'median':>8} {'lowest':>8} {'highest':>8}   seconds")
    for name, seconds in start_seconds.items():
        print(f"{name:28} {statistics.median(seconds):8.2f} {min(seconds):8.2f} {max(seconds):8.2f}")
    print(json.dumps({**machine, "start_seconds": start_seconds}))


def _machine() -> dict[str, str | int]:
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "no commit"
    return {
        "commit": commit,
        "python": platform.python_version(),
        "cores": os.cpu_count() or 0,
        "processor": platform.processor() or platform.machine(),
    }


def _start_times(runs: int) -> dict[str, list[float]]:
    """Return the seconds for the import and one match, in fresh processes, with an empty and with a filled cache."""
    cold = []
    for _ in range(max(1, runs // 2)):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_start_time(cache))
    with tempfile.TemporaryDirectory() as cache:
        _start_time(cache)
        warm = [_start_time(cache) for _ in range(runs)]
    return {"cold start (empty cache)": cold, "warm start": warm}


def _start_time(cache: str) -> float:
    process = subprocess.run(
        [sys.executable, "-c", _ONE_MATCH],
        env={**os.environ, "FIVESUP_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(process.stdout)


if __name__ == "__main__":
    main()
