"""How long the import and one match take in a fresh process."""

from __future__ import annotations

import os
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


def start_times(runs: int) -> dict[str, list[float]]:
    """Return the seconds for the import and one match, in fresh processes, with an empty and with a filled cache."""
    cold, warm = [], []
    for _ in range(max(1, runs // 2)):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_start_time(cache))
            warm += [_start_time(cache), _start_time(cache)]
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
