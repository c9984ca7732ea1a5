"""Agents of people's own, in processes of their own: they play as here, and whatever they do costs only them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import Agent, make_agent
from agents.agent import is_guest, make_guest
from agents.arena.blocks import Blocks, play_blocks, scores_of_a
from agents.baselines import GreedyAgent, RandomAgent
from agents.guests import GuestAgent, GuestError
from fivesup_env.rules.state import STATE
from tests import guest_agents as guests
from tests.processes import next_line, rest_after_kill, script

MODULE = "tests.guest_agents"
IDS = [3, 28, 77, 160]  # legal in the position that guests are asked about here


def ask(agent: Agent, key: int) -> Any:
    """What an agent answers in one position."""
    masks = np.zeros((1, 163), np.int8)
    masks[0, IDS] = 1
    return agent.act(np.zeros(1, STATE), masks, np.array([key], np.uint64))


@pytest.fixture(autouse=True)
def _no_child_stays() -> Iterator[None]:
    before = set(active_children())
    yield
    assert set(active_children()) <= before


@pytest.fixture
def invite() -> Iterator[Callable[..., GuestAgent]]:
    """Start guests by factory, and close them in the end."""
    invited = []

    def start(factory: str, move_timeout: float | None = None) -> GuestAgent:
        invited.append(GuestAgent(factory if ":" in factory else f"{MODULE}:{factory}", move_timeout))
        return invited[-1]

    yield start
    for guest in invited:
        guest.close()


def same(blocks: Blocks, expected: Blocks) -> bool:
    return blocks.tallies.tobytes() == expected.tallies.tobytes() and blocks.actions == expected.actions


# Guests that behave


def test_a_guest_plays_as_it_would_here(invite: Callable[..., GuestAgent]) -> None:
    for factory, agent in (("agents.baselines:RandomAgent", RandomAgent()), ("Clairvoyant", guests.Clairvoyant())):
        guest = invite(factory)
        assert guest.sees_all == (factory == "Clairvoyant")
        blocks = play_blocks(guest, GreedyAgent(), 3, first=0, count=2)
        assert same(blocks, play_blocks(agent, GreedyAgent(), 3, first=0, count=2))
        assert blocks.decisions.sum() > 200
        assert not (blocks.tallies["forfeit"] >= 0).any()
    # What the clairvoyant goes by is there: as a `Keyed`, it plays otherwise.
    assert not same(blocks, play_blocks(guests.Keyed(), GreedyAgent(), 3, first=0, count=2))


@pytest.mark.parametrize(
    ("text", "guest"),
    [
        ("module:factory", True),
        ("package.module:factory", True),
        ("pimc:50", False),
        ("pimc:x", False),
        ("clairvoyant:1", False),
        ("greedy", False),
        ("runs/smoke/checkpoints/last", False),
        ("module:", False),
        (":factory", False),
        ("module:a.b", False),
        ("pack age:factory", False),
        ("", False),
    ],
)
def test_texts_that_name_guests(text: str, guest: bool) -> None:
    assert is_guest(text) is guest


# Guests that misbehave


def test_a_guest_that_misbehaves_loses_an_answer_and_goes_on(invite: Callable[..., GuestAgent]) -> None:
    guest = invite("Moody", move_timeout=1.0)
    guest.reset(61)
    first = ask(guest, guests.WHO)
    assert first != os.getpid()
    for mood, alive, error in (
        (guests.RAISE, True, "IndexError: list index out of range"),
        (guests.DIE, False, "its process died"),
        (guests.LOOP, False, r"no answer to act within 1.0 s"),
    ):
        with pytest.raises(GuestError, match=f"^{error}$"):
            ask(guest, mood)
        # It answers as before, by the same process or by one that has been reset in the same way.
        assert ask(guest, guests.SEED) == 61
        assert [ask(guest, key)[0] for key in range(8)] == 2 * IDS
        now = ask(guest, guests.WHO)
        assert (now == first) == alive
        first = now
    assert ask(guest, guests.PRINT).tolist() == [IDS[guests.PRINT % 4]]


@pytest.mark.slow
def test_more_ways_to_misbehave(invite: Callable[..., GuestAgent]) -> None:
    guest = invite("Moody")
    for mood, error, text in (
        (guests.EXIT, GuestError, "its process died"),
        (guests.UNSENDABLE, GuestError, "its process died"),
        (guests.UNREADABLE, ValueError, "no number"),
    ):
        with pytest.raises(error, match=text):
            ask(guest, mood)
        assert [ask(guest, key)[0] for key in range(8)] == 2 * IDS
    guest.close()
    guest.close()
    assert ask(guest, 0) == IDS[0]  # it is started anew


@pytest.mark.parametrize(
    ("factory", "timeout", "reason"),
    [
        ("dies_rarely", None, "GuestError: its process died"),
        ("loops_rarely", 1.0, "GuestError: no answer to act within 1.0 s"),
    ],
)
def test_a_guest_forfeits_only_the_matches_in_which_it_misbehaves(
    invite: Callable[..., GuestAgent], factory: str, timeout: float | None, reason: str
) -> None:
    def raises(key: int) -> Any:
        return [][0] if key % guests.RARE == 0 else None

    blocks = play_blocks(invite(factory, timeout), GreedyAgent(), 2, first=53, count=1)
    expected = play_blocks(guests.Keyed(raises), GreedyAgent(), 2, first=53, count=1)
    assert same(blocks, expected)
    assert blocks.forfeit_reasons == ([reason], [])
    assert scores_of_a(blocks, 2).tolist() == [0, 1]
    assert blocks.forfeits_of_a().tolist() == [True, False]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_answer_that_was_not_waited_for_is_never_taken_for_the_next(invite: Callable[..., GuestAgent]) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    guest = invite("Moody")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            ask(guest, guests.LOOP)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [ask(guest, key)[0] for key in range(8)] == 2 * IDS


def test_a_guest_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "killed.py"
    path.write_text(
        "from tests.test_guests import ask, GuestAgent\n"
        "if __name__ == '__main__':\n"
        "    ask(GuestAgent('tests.guest_agents:loops'), 0)\n"
    )
    with script(path) as process:
        assert next_line(process) == "looping\n"
        assert rest_after_kill(process) == ""


# Guests that cannot be had

NO_AGENTS = [
    ("no_such_module:make", "No module named 'no_such_module'"),
    (f"{MODULE}:no_such_factory", "no attribute 'no_such_factory'"),
    (f"{MODULE}:house_number", "not callable"),
    (f"{MODULE}:fails", "LookupError: no cards today"),
    (f"{MODULE}:leaves", "SystemExit: not at home"),
    (f"{MODULE}:nothing", r"nothing\(\) returned a NoneType without `act` and `reset`"),
]


@pytest.mark.parametrize(("text", "reason"), NO_AGENTS)
def test_factories_that_give_no_agent(text: str, reason: str) -> None:
    for make in (make_guest, make_agent):
        with pytest.raises(ValueError, match=f"{text}.*{reason}"):
            make(text)


@pytest.mark.parametrize(
    ("factory", "reason"),
    [("fails", "LookupError: no cards today"), ("crashes", "its process died")],
)
def test_guests_that_do_not_start(factory: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{MODULE}:{factory}' does not start: .*{reason}"):
        GuestAgent(f"{MODULE}:{factory}")


def test_guests_that_take_too_long_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.guests.START_TIMEOUT", 0.01)
    with pytest.raises(ValueError, match="does not start: it took too long"):
        GuestAgent(f"{MODULE}:loop")
