"""Python processes that tests start in order to kill them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


@contextlib.contextmanager
def script(path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running script; whatever it started and left behind is killed in the end, in case the test has failed."""
    with subprocess.Popen(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def next_line(process: subprocess.Popen[str]) -> str:
    """The next line of its stdout."""
    assert process.stdout is not None
    return process.stdout.readline()


def rest_after_kill(process: subprocess.Popen[str]) -> str:
    """Kill it and return the rest of its stdout, which ends when the last process that it started has ended."""
    process.kill()
    rest, _ = process.communicate(timeout=60)
    return rest
