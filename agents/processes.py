"""Child processes of which neither Ctrl-C nor the death of their parent leaves anything behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final

_CONTEXT: Final = multiprocessing.get_context("spawn")


def new_child(target: Callable[..., None], argument: Any, *, daemon: bool = False) -> tuple[Any, Connection]:
    """Start a process that calls ``target(argument, pipe)``; return it, and this end of the pipe.

    Call it where `interrupt_held`, until somebody knows of the process; its target calls `begin_child`.
    """
    mine, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=target, args=(argument, theirs), daemon=daemon)
    process.start()
    theirs.close()
    return process, mine


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block, for what must be done whole.

    The terminal sends Ctrl-C to all processes. Those that are started within the block do not receive it, either.
    """
    if threading.current_thread() is not threading.main_thread():  # no KeyboardInterrupt is raised there
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        with _interrupt_blocked():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread and, as they inherit that, in the processes that it starts."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, and that ends the blocking
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child() -> None:
    """Leave Ctrl-C to the parent, which ends this process, and end as soon as the parent is gone, killed or not."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)  # nobody waits for what it does any more
