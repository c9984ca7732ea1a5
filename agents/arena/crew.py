"""Who plays the chunks of a run: this process, or several workers, each at the end of a pipe of its own.

`agents/arena/ray_crew.py` has the workers of a cluster, with the same interface.

A worker that dies, also by ``kill -9``, costs the chunk that it played, and another one plays that again. A pool of the
standard library cannot be used: it shares one pipe between its workers, and one that dies while writing to it leaves
the others' results unread for ever.
"""

from __future__ import annotations

import os
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agents.agent import Agent, is_guest, make_agent, partners
from agents.arena.blocks import Blocks, Side, play_blocks
from agents.guests import GuestAgent, GuestError
from agents.processes import begin_child, interrupt_held, new_child
from fivesup_env.rules.state import check_int

if TYPE_CHECKING:
    from typing_extensions import Self

    from agents.arena.tournament import Plan

MOST_DEATHS: Final = 3  # of workers, at one chunk


class Chunk(NamedTuple):
    """Some blocks of a pair."""

    pair: int
    first: int
    num_blocks: int


class ChunkPlayers(ABC):
    """Whoever plays the chunks of a plan; a context manager, which ends all that it started.

    Attributes:
        capacity: chunks that may be asked for ahead.
        sees_all: per agent of the plan, whether it sees hidden tiles.
    """

    capacity: int
    sees_all: list[bool]

    def __init__(self) -> None:
        self._waiting: deque[Chunk] = deque()
        self._done: dict[Chunk, Blocks] = {}
        self._deaths: dict[Chunk, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End. What is still under way is no longer wanted: after an interruption, or when a test has decided."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End all that was started."""

    def ask(self, chunk: Chunk) -> None:
        """Have a chunk played; `result` waits for it."""
        self._waiting.append(chunk)

    def forget(self) -> None:
        """Drop chunks that nobody has begun."""
        self._waiting.clear()

    @abstractmethod
    def result(self, chunk: Chunk) -> Blocks:
        """Return what a chunk that was asked for gave.

        Raises:
            RuntimeError: a worker failed, or several died at it; says how.
        """

    def _count_death(self, chunk: Chunk) -> None:
        """Note that a worker died at a chunk; raise a RuntimeError if too many have."""
        self._deaths[chunk] = deaths = self._deaths.get(chunk, 0) + 1
        if deaths == MOST_DEATHS:
            raise RuntimeError(f"{deaths} workers died while playing blocks {chunk.first} and on of pair {chunk.pair}")


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    chunk: Chunk | None = None


class Crew(ChunkPlayers):
    """Plays chunks; a context manager, which ends its processes.

    Args:
        plan: what is played.
        workers: processes, 1 .. 1024; with one, this process plays.

    Raises:
        ValueError: an agent cannot be made, or does not work, or the number of workers is impossible; says which and
            why.
    """

    def __init__(self, plan: Plan, workers: int = 1) -> None:
        super().__init__()
        check_int("workers", workers, 1, 1024)
        self.capacity = 1 if workers == 1 else 2 * workers  # chunks that may be asked for ahead
        self._plan, self._count = plan, workers
        self._sides = make_sides(plan)  # here in any case, so that what fails is an error of the caller's
        self.sees_all = sides_see_all(self._sides)
        self._workers: list[_Worker] = []
        if workers > 1:
            close_sides(self._sides)
            self._hire_all(workers)

    def close(self) -> None:
        """End the processes."""
        with interrupt_held():
            close_sides(self._sides)
            for worker in self._workers:
                _dismiss(worker)

    def result(self, chunk: Chunk) -> Blocks:
        """See `ChunkPlayers.result`."""
        if not self._workers:
            self._waiting.remove(chunk)
            return play_chunk(self._plan, self._sides, chunk)
        while chunk not in self._done:
            self._hand_out()
            for pipe in wait([worker.pipe for worker in self._workers if worker.chunk]):
                self._hear(next(worker for worker in self._workers if worker.pipe is pipe))
        return self._done.pop(chunk)

    def _hand_out(self) -> None:
        for worker in self._workers:
            if worker.chunk is None and self._waiting:
                worker.chunk = self._waiting.popleft()
                try:
                    worker.pipe.send(worker.chunk)
                except OSError:
                    self._replace(worker)

    def _hear(self, worker: _Worker) -> None:
        """Take what a worker has to say: the blocks of its chunk, or what went wrong."""
        assert worker.chunk is not None
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if isinstance(answer, str):
            raise RuntimeError(f"a worker failed:\n{answer}")
        self._done[worker.chunk] = answer
        worker.chunk = None

    def _replace(self, worker: _Worker) -> None:
        """Put another worker in the place of one that died, and its chunk back."""
        chunk = worker.chunk
        assert chunk is not None
        self._count_death(chunk)
        with interrupt_held():
            _dismiss(worker)
            self._workers[self._workers.index(worker)] = self._hire()
        self._waiting.appendleft(chunk)

    def _hire_all(self, count: int) -> None:
        try:
            for _ in range(count):
                with interrupt_held():
                    self._workers.append(self._hire())
        except BaseException:  # Ctrl-C
            self.close()
            raise

    def _hire(self) -> _Worker:
        return _Worker(*new_child(_work, self._plan))


def _dismiss(worker: _Worker) -> None:
    worker.process.kill()
    worker.pipe.close()
    worker.process.join()


def _work(plan: Plan, pipe: Connection) -> None:
    """Play chunks as they come, until the pipe is closed."""
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores; more threads would wait for each other
    begin_child()
    sides = None
    while True:
        try:
            chunk = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            sides = sides or make_sides(plan)
            answer: Blocks | str = play_chunk(plan, sides, chunk)
        except Exception:
            answer = traceback.format_exc()
        pipe.send(answer)


def play_chunk(plan: Plan, sides: Sequence[Side], chunk: Chunk) -> Blocks:
    """Play a chunk in this process."""
    a, b = plan.pairs[chunk.pair]
    blocks = play_blocks(
        sides[a], sides[b], plan.num_players, first=chunk.first, count=chunk.num_blocks, seed=plan.seed
    )
    if not plan.keep_matches:
        blocks.actions.clear()
    return blocks


def make_sides(plan: Plan) -> list[list[Agent]]:
    """Return for each text of a plan its agent or two partners, reset, guests in processes of their own.

    Raises:
        ValueError: one cannot be made, or does not work; says which and why.
    """
    sides: list[list[Agent]] = []
    try:
        for text in plan.agents:
            sides.append([])
            for partner in partners(text):
                sides[-1].append(_make(partner, plan))
                _prepare(partner, sides[-1][-1], plan)
    except BaseException:
        close_sides(sides)
        raise
    return sides


def _make(text: str, plan: Plan) -> Agent:
    return GuestAgent(text, plan.move_timeout) if is_guest(text) else make_agent(text, sample=plan.sample)


def _prepare(text: str, agent: Agent, plan: Plan) -> None:
    """Reset an agent, and let one of ours play a round, off the clock: that compiles and loads what it needs.

    A guest might never answer, and might count what it is asked.
    """
    try:
        agent.reset(plan.seed)
    except GuestError as error:
        raise ValueError(f"agent {text!r} cannot be reset: {error}") from None
    if is_guest(text):
        return
    blocks = play_blocks(agent, agent, plan.num_players, first=0, count=1, max_rounds=1)
    reasons = blocks.forfeit_reasons[0] + blocks.forfeit_reasons[1]
    if reasons:
        raise ValueError(f"agent {text!r} does not work: {reasons[0]}")


def sides_see_all(sides: Sequence[Sequence[Agent]]) -> list[bool]:
    """Tell for every side whether one of its partners sees hidden tiles."""
    return [any(getattr(agent, "sees_all", False) for agent in side) for side in sides]


def close_sides(sides: Sequence[Sequence[Agent]]) -> None:
    """End the processes of guests."""
    for agent in (agent for side in sides for agent in side):
        if isinstance(agent, GuestAgent):
            agent.close()
