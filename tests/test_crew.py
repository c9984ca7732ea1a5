"""Workers that die: their chunks are played again, and the results are the same. Agents made; Ctrl-C meanwhile."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents.agent import Agent
from agents.arena import crew
from agents.arena.crew import Chunk, Crew, close_sides, make_sides
from agents.arena.tournament import Plan
from agents.baselines import RandomAgent
from fivesup_env.rules.state import STATE
from tests.guest_agents import Diary
from tests.processes import next_line, script

DIARY = "tests.guest_agents:Diary"
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
    monkeypatch.setattr(crew, "MOST_DEATHS", 1)
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


def ask(agent: Agent) -> Any:
    """What an agent answers that gives no actions."""
    return agent.act(np.zeros(1, STATE), np.ones((1, 163), np.int8), np.zeros(1, np.uint64))


@pytest.mark.parametrize(
    ("seats", "texts", "places"),
    [
        (2, (DIARY, "greedy"), [(0, 0)]),
        (4, (f"greedy+{DIARY}", "greedy", f"{DIARY}+{DIARY}"), [(0, 1), (2, 0), (2, 1)]),
    ],
)
def test_a_guest_is_reset_and_not_asked_before_the_first_match(
    seats: int, texts: tuple[str, ...], places: list[tuple[int, int]]
) -> None:
    sides = make_sides(replace(PLAN, num_players=seats, agents=texts))
    try:
        assert [ask(sides[side][partner]) for side, partner in places] == [["reset 11", "act 1"]] * len(places)
    finally:
        close_sides(sides)


@pytest.mark.parametrize(("seats", "text"), [(2, "greedy"), (4, "random+greedy")])
def test_an_agent_of_ours_is_reset_before_it_plays_to_warm_up(
    monkeypatch: pytest.MonkeyPatch, seats: int, text: str
) -> None:
    diary = Diary()
    monkeypatch.setattr(crew, "make_agent", lambda text, sample: diary if text == "greedy" else RandomAgent())
    with pytest.raises(ValueError, match="agent 'greedy' does not work: ValueError: act must return"):
        make_sides(replace(PLAN, num_players=seats, agents=(text, "random")))
    assert diary.asked[0] == "reset 11"
    assert diary.asked[1].startswith("act")


INTERRUPTED = """
import os
import signal
import sys
from agents.arena import crew
from agents.arena.evaluation import main

def told(self, hire=crew.Crew._hire):
    worker = hire(self)
    print("hired", flush=True)
    return worker

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
    os.dup2(1, 2)  # what it and its children say of errors is seen, too
    crew.Crew._hire = told
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["greedy", "tests.guest_agents:loop"], "looping"),  # while it waits for a guest to be made
        (["greedy", "random", "--workers", "3"], "hired"),  # while the workers start
    ],
)
def test_ctrl_c_while_agents_are_made_leaves_nothing_behind(tmp_path: Path, arguments: list[str], where: str) -> None:
    path = tmp_path / "interrupted.py"
    path.write_text(INTERRUPTED)
    with script(path, *arguments, "--out", str(tmp_path / "run")) as process:
        assert next_line(process) == f"{where}\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest, _ = process.communicate(timeout=60)  # which ends when the last process has ended
    assert process.returncode == 130
    told = [line for line in rest.splitlines() if line != where]
    assert told == ["stopped: no block was finished"]
    assert not (tmp_path / "run" / "results.json").exists()
