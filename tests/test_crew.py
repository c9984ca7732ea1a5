"""Workers that die: their chunks are played again, and the results are the same."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children

import pytest

from agents import crew
from agents.crew import Chunk, Crew
from agents.tournament import Plan

PLAN = Plan(("greedy", "random"), ((0, 1),), 2, 60, seed=11)
CHUNKS = [Chunk(0, first, 10) for first in range(0, 60, 10)]


def outcome(crew_: Crew, chunk: Chunk) -> bytes:
    return crew_.result(chunk).tallies.tobytes()


def test_a_worker_that_is_killed_costs_nothing_but_time() -> None:
    with Crew(PLAN, 1) as alone:
        for chunk in CHUNKS:
            alone.ask(chunk)
        expected = [outcome(alone, chunk) for chunk in CHUNKS]
    before = set(active_children())
    with Crew(PLAN, 2) as crew_:
        workers = set(active_children()) - before
        for chunk in CHUNKS:
            crew_.ask(chunk)
        found = [outcome(crew_, CHUNKS[0])]
        for worker in workers:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
        found += [outcome(crew_, chunk) for chunk in CHUNKS[1:]]
    assert found == expected
    assert set(active_children()) == before


def test_blocks_that_kill_every_worker_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_MOST_DEATHS", 1)
    before = set(active_children())
    with Crew(PLAN, 2) as crew_:
        for worker in set(active_children()) - before:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        crew_.ask(CHUNKS[1])
        with pytest.raises(RuntimeError, match="1 workers died while playing blocks 10 and on of pair 0"):
            crew_.result(CHUNKS[1])
    assert set(active_children()) == before


def test_what_was_forgotten_is_not_played() -> None:
    with Crew(PLAN, 1) as alone:
        alone.ask(CHUNKS[0])
        alone.forget()
        alone.ask(CHUNKS[1])
        assert len(alone.result(CHUNKS[1]).tallies) == 20
        with pytest.raises(ValueError, match="not in deque"):
            alone.result(CHUNKS[0])


def test_an_agent_that_does_not_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no table")

    monkeypatch.setattr("agents.baselines.GreedyAgent.act", fail)
    with pytest.raises(ValueError, match="agent 'greedy' does not work: OSError: no table"):
        Crew(PLAN, 1)
