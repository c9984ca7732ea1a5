"""Agents of people's own, each in a process of its own.

An agent of unknown origin may crash its interpreter or never return. `GuestAgent` keeps it in a child process, asks it
through a pipe, and starts the child anew when it has died or was too slow; what happened becomes a `GuestError`, which
the arena turns into a forfeit.
"""

from __future__ import annotations

import contextlib
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.agent import make_guest
from agents.processes import begin_child, interrupt_held, new_child
from fivesup_env.rules.state import States

#: Seconds that a child may take to import and make its agent, and to reset it.
START_TIMEOUT: Final = 120.0


class GuestError(RuntimeError):
    """A guest raised an error, died, or took too long; says which."""


class GuestAgent:
    """An agent in a child process.

    Args:
        text: ``package.module:factory``.
        move_timeout: seconds for each decision; None for any time.

    Raises:
        ValueError: the child could not make the agent; says why.
    """

    def __init__(self, text: str, move_timeout: float | None = None) -> None:
        self.text, self.move_timeout = text, move_timeout
        self._process: Any = None
        self._pipe: Connection
        self._seed: int | None = None
        self.sees_all: bool = self._start()

    def reset(self, seed: int) -> None:
        """Reset the agent; again whenever its process is started anew."""
        self._seed = seed
        self._ask(("reset", seed), START_TIMEOUT)

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`; a batch of N may take N times the timeout.

        Raises:
            GuestError: no answer came.
        """
        timeout = None if self.move_timeout is None else self.move_timeout * len(views)
        return self._ask(("act", views, masks, keys), timeout)  # type: ignore[no-any-return]  # checked by the arena

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None

    def _ask(self, request: tuple[Any, ...], timeout: float | None) -> Any:
        if self._process is None:
            self._start()
            if self._seed is not None and request[0] != "reset":
                self._ask(("reset", self._seed), START_TIMEOUT)
        try:
            self._pipe.send(request)
            if not self._pipe.poll(timeout):
                raise GuestError(f"no answer to {request[0]} within {timeout} s")
            worked, answer = self._pipe.recv()
        except BaseException as error:  # Ctrl-C as well: a late answer would be taken for that to the next request
            self.close()
            if isinstance(error, EOFError | OSError):
                raise GuestError("its process died") from None
            raise
        if not worked:
            raise GuestError(answer)
        return answer

    def _start(self) -> Any:
        """Start the child; return whether its agent sees all."""
        try:
            with interrupt_held():
                self._process, self._pipe = new_child(_serve, self.text, daemon=True)
            worked, answer = self._pipe.recv() if self._pipe.poll(START_TIMEOUT) else (False, "it took too long")
        except (EOFError, OSError):
            worked, answer = False, "its process died"
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if not worked:
            self.close()
            raise ValueError(f"agent {self.text!r} does not start: {answer}")
        return answer


def _serve(text: str, pipe: Connection) -> None:
    """Make the agent and answer until the pipe is closed: pairs of whether it worked, and the answer."""
    begin_child()
    with contextlib.suppress(EOFError, OSError):
        try:
            agent = make_guest(text)
        except ValueError as error:
            pipe.send((False, str(error)))
            return
        pipe.send((True, bool(getattr(agent, "sees_all", False))))
        while True:
            name, *arguments = pipe.recv()
            try:
                answer = True, getattr(agent, name)(*arguments)
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}"
            pipe.send(answer)
