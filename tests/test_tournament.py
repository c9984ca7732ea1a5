"""Tournaments: the same results from any number of processes, from stopped and killed runs, and from larger plans."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents.agent import Agent
from agents.arena import crew, tournament
from agents.arena.blocks import TALLY, Blocks, Side, block_scores, joined, no_blocks, play_blocks, scores_of_a
from agents.arena.chunks import claim, load_chunk, save_chunk
from agents.arena.crew import Crew
from agents.arena.match_lines import line_ups, record_lines
from agents.arena.statistics import SequentialTest
from agents.arena.tournament import CHUNK, Plan, Played, run, who_sees_all
from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env.records import read_records, replay
from tests.processes import next_line, rest_after_kill, script

PLAN = Plan(("greedy", "random"), ((0, 1),), 2, 70, seed=3)
MIXED = Plan(("random", "greedy", "random"), ((0, 1), (2, 0), (1, 2)), 3, 70, seed=5)


def facts(played: Played) -> tuple[Any, ...]:
    """Everything of a pair's results but the time that it took."""
    blocks = played.blocks
    return (
        (played.a, played.b, played.decided, played.finished),
        blocks.num_sides,
        blocks.tallies.tobytes(),
        blocks.a_sides.tolist(),
        blocks.margins.tolist(),
        blocks.decisions.tolist(),
        blocks.seconds.shape,
        blocks.forfeit_reasons,
        blocks.actions,
    )


def same(results: list[Played], expected: list[Played]) -> bool:
    return [facts(played) for played in results] == [facts(played) for played in expected]


@pytest.fixture(autouse=True)
def _no_child_stays() -> Iterator[None]:
    before = set(active_children())
    yield
    assert set(active_children()) <= before


@pytest.fixture
def chunks_played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(first, count) of every chunk that this process plays from now on."""
    played: list[tuple[int, int]] = []
    play_chunk = crew.play_chunk

    def watched(plan: Plan, sides: Sequence[Side], chunk: crew.Chunk) -> Blocks:
        played.append((chunk.first, chunk.num_blocks))
        return play_chunk(plan, sides, chunk)

    monkeypatch.setattr(crew, "play_chunk", watched)
    return played


def stop_after(count: int) -> Callable[[int, Played], None]:
    """A `watch` that is interrupted when it is told for the count-th time."""
    told: list[int] = []

    def watch(pair: int, played: Played) -> None:
        told.append(pair)
        if len(told) == count:
            raise KeyboardInterrupt

    return watch


# What is played


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_each_pair_plays_its_blocks_from_the_seed_on(seats: int) -> None:
    agents: dict[str, Agent] = {"random": RandomAgent(), "greedy": GreedyAgent()}
    plan = dataclasses.replace(MIXED, num_players=seats)
    for (a, b), played in zip(plan.pairs, run(plan), strict=True):
        expected = play_blocks(agents[plan.agents[a]], agents[plan.agents[b]], seats, first=0, count=70, seed=5)
        assert (played.a, played.b, played.decided, played.finished) == (a, b, None, True)
        assert played.blocks.tallies.tobytes() == expected.tallies.tobytes()
        assert played.blocks.a_sides.tolist() == expected.a_sides.tolist()
        assert played.blocks.margins.tolist() == expected.margins.tolist()
        assert played.blocks.decisions.shape == played.blocks.seconds.shape == (3, 2)  # a row for each chunk
        assert played.blocks.decisions.sum(axis=0).tolist() == expected.decisions[0].tolist()
        assert played.blocks.actions == []


def test_those_who_watch_see_every_chunk() -> None:
    seen = []

    def watch(pair: int, played: Played) -> None:
        seen.append((pair, len(played.blocks.tallies), played.finished))

    run(MIXED, watch=watch)
    assert seen == [(pair, 3 * blocks, False) for pair in range(3) for blocks in (32, 64, 70)]


def test_blocks_are_joined_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a long run takes no more than linear time; the running mean is there without them."""
    joins: list[int] = []

    def watched(parts: Sequence[Blocks]) -> Blocks:
        joins.append(len(parts))
        return joined(parts)

    monkeypatch.setattr(tournament, "joined", watched)
    told: list[tuple[int, float]] = []
    (played,) = run(PLAN, watch=lambda _, so_far: told.append((so_far.won.blocks, so_far.won.estimate().mean)))
    assert joins == []
    assert played.blocks is played.blocks
    assert joins == [4]  # three chunks, and the empty part before them
    scores = block_scores(played.blocks, 2)
    assert [count for count, _ in told] == [32, 64, 70]
    assert [mean for _, mean in told] == pytest.approx([scores[:count].mean() for count in (32, 64, 70)])


#: The second pair takes more than one chunk to decide.
TESTED = Plan(("greedy", "random", "random"), ((0, 1), (1, 2), (1, 0)), 2, 130, seed=4, elo_bounds=(0, 100))


def test_workers_change_nothing() -> None:
    """Neither the matches nor when a sequential test decides."""
    expected = run(TESTED)
    assert same(run(TESTED, hire=partial(Crew, workers=2)), expected)


def test_an_agent_that_can_no_longer_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fleeting.py").write_text("from tests.guest_agents import Keyed")
    plan = dataclasses.replace(PLAN, agents=("fleeting:Keyed", "greedy"))
    with crew.Crew(plan, 2) as workers:
        (tmp_path / "fleeting.py").unlink()
        workers.ask(crew.Chunk(0, 0, 1))
        with pytest.raises(RuntimeError, match=r"(?s)a worker failed.*No module named 'fleeting'"):
            workers.result(crew.Chunk(0, 0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLAN, MIXED, TESTED])
def test_many_workers_change_nothing(plan: Plan, tmp_path: Path) -> None:
    expected = run(plan)
    for workers in (2, 3, 5):
        folder = tmp_path / str(workers)
        assert same(run(plan, hire=partial(Crew, workers=workers), folder=folder), expected)
        assert same(run(plan, hire=partial(Crew, workers=1), folder=folder), expected)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (130, [("better", 32), ("not better", 96), ("not better", 32)]),
        (70, [("better", 32), (None, 70), ("not better", 32)]),
    ],
)
def test_a_sequential_test_stops_a_pair_after_the_chunk_that_decides_it(
    most: int, expected: list[tuple[str | None, int]]
) -> None:
    plan, decided = dataclasses.replace(TESTED, blocks=most), []
    for played in run(plan):
        pair = (played.a, played.b)
        whole = run(dataclasses.replace(plan, pairs=(pair,), elo_bounds=None))[0].blocks
        scores = scores_of_a(whole, 2).reshape(-1, 2).mean(axis=1)
        test = SequentialTest(0.5, 0, 100)
        blocks = 0
        while blocks < most and test.decision is None:
            test.add(scores[blocks])
            blocks += 1
        if test.decision:
            blocks = -(-blocks // CHUNK) * CHUNK
        assert played.decided == test.decision
        assert played.finished
        assert played.blocks.tallies.tobytes() == whole.tallies[: 2 * blocks].tobytes()
        decided.append((played.decided, blocks))
    assert decided == expected


def test_a_sequential_test_measures_by_the_even_share_of_three_seats() -> None:
    """One against two of its kind wins a third, which is as good as even; a half is not, and would be out of reach."""
    plan = Plan(("random", "greedy"), ((0, 0), (1, 0), (0, 1)), 3, 96, seed=1, elo_bounds=(-100, 0))
    equal, better, worse = run(plan)
    scores = scores_of_a(equal.blocks, 3).reshape(-1, 3).mean(axis=1)
    tests = SequentialTest(1 / 3, -100, 0), SequentialTest(1 / 2, -100, 0)
    for test in tests:
        test.add(scores)
    assert equal.decided == tests[0].decision == "better"
    assert tests[1].decision == "not better"
    assert better.decided == "better"
    assert worse.decided == "not better"


# Runs that stop, and go on


@pytest.mark.parametrize(
    ("after", "blocks", "finished"),
    [
        (1, [32, 0, 0], [False, False, False]),
        (3, [70, 0, 0], [False, False, False]),
        (4, [70, 32, 0], [True, False, False]),
        (8, [70, 70, 64], [True, True, False]),
    ],
)
def test_a_stopped_run_goes_on_where_it_was(
    tmp_path: Path, chunks_played: list[Any], after: int, blocks: list[int], finished: list[bool]
) -> None:
    expected = run(MIXED)
    stopped = run(MIXED, folder=tmp_path, watch=stop_after(after))
    assert [len(played.blocks.tallies) for played in stopped] == [3 * count for count in blocks]
    assert [played.finished for played in stopped] == finished
    chunks_played.clear()
    assert same(run(MIXED, folder=tmp_path), expected)
    chunks = [(0, 32), (32, 32), (64, 6)] * 3
    assert chunks_played == chunks[after:]
    chunks_played.clear()
    assert same(run(MIXED, folder=tmp_path), expected)
    assert chunks_played == []


def test_a_stopped_run_of_several_processes_goes_on(tmp_path: Path) -> None:
    stopped = run(PLAN, folder=tmp_path, hire=partial(Crew, workers=2), watch=stop_after(1))
    assert len(stopped[0].blocks.tallies) == 64
    assert not stopped[0].finished
    assert same(run(PLAN, folder=tmp_path), run(PLAN))


KILLED = Plan(("greedy", "random"), ((0, 1), (1, 0)), 2, 320, seed=8)

SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from agents.arena.crew import Crew
from agents.arena.tournament import run
from tests.test_tournament import KILLED

def watch(pair, played):
    print(pair, len(played.blocks.tallies), flush=True)
    if pair == 1:
        sys.stdin.read()  # never so far as to be done before it is killed

if __name__ == "__main__":
    run(KILLED, folder=Path(sys.argv[1]), hire=partial(Crew, workers=int(sys.argv[2])), watch=watch)
"""


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_and_leaves_no_process(tmp_path: Path, chunks_played: list[Any], workers: int) -> None:
    path = tmp_path / "killed.py"
    path.write_text(SCRIPT)
    with script(path, str(tmp_path / "run"), str(workers)) as process:
        assert next_line(process) == "0 64\n"
        rest = rest_after_kill(process)
    assert "1 128" not in rest
    kept = len(list((tmp_path / "run" / "chunks").glob("*.npz")))
    assert 1 <= kept <= 12
    resumed = run(KILLED, folder=tmp_path / "run")
    assert len(chunks_played) == 20 - kept
    assert same(resumed, run(KILLED))


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_a_folder_takes_one_run_at_a_time(tmp_path: Path) -> None:
    folder, path = tmp_path / "run", tmp_path / "killed.py"
    path.write_text(SCRIPT.replace("pair == 1", "True"))
    with script(path, str(folder), "1") as process:
        assert next_line(process) == "0 64\n"  # and it waits
        with pytest.raises(ValueError, match=f"^another run is at work in {folder}: "):
            run(KILLED, folder=folder)
        assert rest_after_kill(process) == ""
    short = dataclasses.replace(KILLED, blocks=32)
    assert same(run(short, folder=folder), run(short))
    assert same(run(short, folder=folder), run(short))


@pytest.mark.slow
def test_workers_that_wait_for_guests_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "killed.py"
    path.write_text(
        "from functools import partial\n"
        "from agents.arena.crew import Crew\n"
        "from agents.arena.tournament import Plan, run\n"
        "if __name__ == '__main__':\n"
        "    plan = Plan(('tests.guest_agents:loops_rarely', 'greedy'), ((0, 1),), 2, 64, seed=53)\n"
        "    run(plan, hire=partial(Crew, workers=2))\n"
    )
    with script(path) as process:
        assert [next_line(process), next_line(process)] == 2 * ["looping\n"]  # the guests of both workers
        assert rest_after_kill(process) == ""


def test_what_a_kill_leaves_half_written_is_not_read(tmp_path: Path) -> None:
    run(PLAN, folder=tmp_path, watch=stop_after(1))
    for name in ("0-32.npz.77.part", "0-0.npz.77.part"):
        (tmp_path / "chunks" / name).write_bytes(b"PK half")
    (tmp_path / "plan.json.77.part").write_text("{")
    assert same(run(PLAN, folder=tmp_path), run(PLAN))


def test_more_blocks_can_be_played_later(tmp_path: Path, chunks_played: list[Any]) -> None:
    for blocks, played in ((40, [(0, 32), (32, 8)]), (100, [(32, 32), (64, 32), (96, 4)]), (128, [(96, 32)])):
        chunks_played.clear()
        plan = dataclasses.replace(PLAN, blocks=blocks)
        results = run(plan, folder=tmp_path)
        assert chunks_played == played
        assert same(results, run(plan))
    assert json.loads((tmp_path / "plan.json").read_text())["blocks"] == 128


def test_a_test_goes_on_with_more_blocks(tmp_path: Path) -> None:
    short = dataclasses.replace(TESTED, blocks=40)
    run(short, folder=tmp_path)
    assert same(run(TESTED, folder=tmp_path), run(TESTED))


# What is kept


def test_a_chunk_is_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    blocks = play_blocks(RandomAgent(), GreedyAgent(), 3, first=64, count=4)
    blocks.forfeit_reasons = ["ValueError: \ud800 « é"], []
    save_chunk(tmp_path, 5, 64, blocks)
    plan = dataclasses.replace(PLAN, num_players=3, pairs=7 * ((0, 1),))
    found = load_chunk(tmp_path, plan, 5, 64, 4)
    assert found is not None
    assert facts(Played(0, 1, [found])) == facts(Played(0, 1, [blocks]))
    assert found.tallies.dtype == blocks.tallies.dtype
    assert found.seconds.tolist() == blocks.seconds.tolist()
    for pair, first, count in ((5, 64, 3), (5, 64, 5), (4, 64, 4), (5, 32, 4), (6, 4, 4)):
        assert load_chunk(tmp_path, plan, pair, first, count) is None


def test_a_chunk_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(tmp_path, PLAN)
    before, after = (play_blocks(RandomAgent(), GreedyAgent(), 2, first=first, count=1) for first in (0, 1))
    save_chunk(tmp_path, 0, 0, before)

    def full(file: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("fivesup_env.files.os.fsync", full)
    for first in (0, 32):
        with pytest.raises(OSError, match="no space left"):
            save_chunk(tmp_path, 0, first, after)
    found = load_chunk(tmp_path, PLAN, 0, 0, 1)
    assert found is not None
    assert found.tallies.tobytes() == before.tallies.tobytes() != after.tallies.tobytes()
    assert load_chunk(tmp_path, PLAN, 0, 32, 1) is None


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no file that is open")
def test_a_chunk_is_replaced_and_not_written_over(tmp_path: Path) -> None:
    claim(tmp_path, PLAN)
    save_chunk(tmp_path, 0, 0, play_blocks(RandomAgent(), GreedyAgent(), 2, first=0, count=1))
    path = tmp_path / "chunks" / "0-0.npz"
    before = path.read_bytes()
    with path.open("rb") as file:
        save_chunk(tmp_path, 0, 0, play_blocks(RandomAgent(), GreedyAgent(), 2, first=1, count=1))
        assert file.read() == before != path.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == ["0-0.npz"]


def test_damaged_chunks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    save_chunk(tmp_path, 0, 0, play_blocks(RandomAgent(), GreedyAgent(), 2, first=0, count=1))
    expected = load_chunk(tmp_path, PLAN, 0, 0, 1)
    assert expected is not None
    path = tmp_path / "chunks" / "0-0.npz"
    sound, rng = path.read_bytes(), random.Random(1)
    damaged = [sound[:length] for length in range(0, len(sound), 37)]
    for place in range(0, len(sound), 3):
        damaged.append(sound[:place] + bytes([sound[place] ^ 1 << rng.randrange(8)]) + sound[place + 1 :])
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            found = load_chunk(tmp_path, PLAN, 0, 0, 1)
        except ValueError as error:
            assert str(error).startswith(f"{path} is damaged: ")
            refused += 1
        else:  # in what says nothing, such as a time of day
            assert found is not None
            assert facts(Played(0, 1, [found])) == facts(Played(0, 1, [expected]))
    assert refused > len(damaged) / 2


def test_a_run_names_the_chunk_that_is_damaged(tmp_path: Path) -> None:
    expected = run(PLAN, folder=tmp_path)
    path = tmp_path / "chunks" / "0-32.npz"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"0-32\.npz is damaged: .*; delete it, and its matches are played again"):
        run(PLAN, folder=tmp_path)
    path.unlink()
    assert same(run(PLAN, folder=tmp_path), expected)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("agents", ("greedy", "greedy"), r"\['greedy', 'random'\] there, and is \['greedy', 'greedy'\] now"),
        ("pairs", ((1, 0),), r"\[\[0, 1\]\] there, and is \[\[1, 0\]\] now"),
        ("num_players", 4, "2 there, and is 4 now"),
        ("seed", 4, "3 there, and is 4 now"),
        ("elo_bounds", (0.0, 5.0), r"None there, and is \[0.0, 5.0\] now"),
        ("sample", True, "False there, and is True now"),
        ("move_timeout", 2.5, "None there, and is 2.5 now"),
        ("keep_matches", True, "False there, and is True now"),
    ],
)
def test_a_folder_holds_one_run(tmp_path: Path, field: str, value: Any, told: str) -> None:
    claim(tmp_path / "run", PLAN)
    claim(tmp_path / "run", PLAN)
    before = (tmp_path / "run" / "plan.json").read_bytes()
    with pytest.raises(ValueError, match=f"run holds another run: {field} was {told}"):
        run(dataclasses.replace(PLAN, **{field: value}), folder=tmp_path / "run")
    assert (tmp_path / "run" / "plan.json").read_bytes() == before


def test_every_field_of_a_plan_but_the_blocks_tells_runs_apart(tmp_path: Path) -> None:
    claim(tmp_path, PLAN)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan.keys() == {"fivesup"} | {field.name for field in dataclasses.fields(Plan)}
    for field in plan.keys() - {"blocks"}:
        for changed in ({**plan, field: "?"}, {name: value for name, value in plan.items() if name != field}):
            (tmp_path / "plan.json").write_text(json.dumps(changed))
            if changed.get(field) == plan[field] or (field not in changed and plan[field] is None):
                continue
            with pytest.raises(ValueError, match=f"holds another run: {field} was"):
                claim(tmp_path, PLAN)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"plan"', b"\xff"])
def test_a_damaged_plan_is_refused(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "plan.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"plan.json is damaged"):
        run(PLAN, folder=tmp_path)


def test_chunks_without_a_plan_are_refused(tmp_path: Path) -> None:
    run(PLAN, folder=tmp_path, watch=stop_after(1))
    (tmp_path / "plan.json").unlink()
    with pytest.raises(ValueError, match=r"plan.json is missing, but .* has matches of a run"):
        run(PLAN, folder=tmp_path)


def test_an_agent_that_cannot_be_made_claims_no_folder(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, agents=("greedy", "grady"))
    with pytest.raises(ValueError, match="no agent 'grady'"):
        run(plan, folder=tmp_path)
    run(dataclasses.replace(PLAN, blocks=1), folder=tmp_path)


def test_guests_are_closed_when_another_agent_cannot_be_made() -> None:
    plan = dataclasses.replace(PLAN, agents=("tests.guest_agents:Clairvoyant", "grady"))
    with pytest.raises(ValueError, match="no agent 'grady'"):
        run(plan)
    assert active_children() == []


def test_a_guest_that_cannot_be_reset_is_an_error_of_the_plan() -> None:
    plan = dataclasses.replace(PLAN, agents=("greedy", "tests.guest_agents:Stubborn"))
    with pytest.raises(ValueError, match="Stubborn' cannot be reset: LookupError: not 3"):
        run(plan)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, 1025])
def test_impossible_numbers_of_workers(workers: Any) -> None:
    with pytest.raises(ValueError, match="workers must be"):
        run(PLAN, hire=partial(Crew, workers=workers))


# Guests and records in a run


def test_a_run_with_a_guest(tmp_path: Path) -> None:
    """A guest that dies in block 53 of seed 0: that costs it one match there, and all else is as without it."""
    from tests import guest_agents as guests

    plan = Plan(("tests.guest_agents:dies_rarely", "greedy"), ((0, 1),), 2, 1, seed=53, keep_matches=True)
    result = run(plan, folder=tmp_path)[0]
    sound = play_blocks(guests.Keyed(), GreedyAgent(), 2, first=53, count=1)
    assert result.blocks.tallies["forfeit"].tolist()[1] == -1
    assert result.blocks.forfeits_of_a().tolist() == [True, False]
    assert result.blocks.tallies[1].tobytes() == sound.tallies[1].tobytes()
    assert result.blocks.forfeit_reasons == (["GuestError: its process died"], [])
    assert result.blocks.actions[1] == sound.actions[1]
    assert same(run(plan, folder=tmp_path), [result])


def test_who_sees_all() -> None:
    plan = dataclasses.replace(PLAN, agents=("tests.guest_agents:Clairvoyant", "greedy"), blocks=1)
    assert who_sees_all(plan, run(plan)) == [True, False]


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_matches_are_kept_as_records_with_their_line_ups(tmp_path: Path, seats: int) -> None:
    plan = Plan(("greedy", "random", "greedy"), ((0, 1), (1, 2)), seats, 2, seed=6, keep_matches=True)
    played = run(plan, folder=tmp_path)
    lines = [line for result in played for line in record_lines(result.blocks, seats, 6)]
    told = [json.loads(line) for line in line_ups(plan, played)]
    size = 3 if seats == 3 else 2
    assert len(lines) == len(told) == 2 * 2 * size
    for number, (record, line_up) in enumerate(zip(read_records(lines), told, strict=True), 1):
        pair, match = divmod(number - 1, 2 * size)
        a, b = [("greedy", "random"), ("random", "greedy #2")][pair]
        own = [(seat % 2 if seats == 4 else seat) == match % size for seat in range(seats)]
        assert record["seed"] == 6 + match // size
        assert replay(record).winner == played[pair].blocks.tallies["winner"][match] == line_up["winner"]
        assert line_up == {
            "record": number,
            "pair": [a, b],
            "block": match // size,
            "rotation": match % size,
            "seats": [a if mine else b for mine in own],
            "winner": record["winner"],
            "forfeit": None,
        }


def test_line_ups_number_the_records_that_there_are() -> None:
    blocks = no_blocks(2)
    blocks.tallies = np.zeros(4, TALLY)
    blocks.tallies["winner"] = [1, -1, -1, 0]
    blocks.tallies["forfeit"] = [-1, 1, 0, -1]
    blocks.tallies["rounds"] = [20, 0, 1, 20]
    told = [json.loads(line) for line in line_ups(PLAN, [Played(0, 1, [blocks]), Played(0, 1, [blocks])])]
    assert [line["record"] for line in told] == [1, None, 2, 3, 4, None, 5, 6]
    assert [line["winner"] for line in told] == 2 * [1, None, None, 0]
    assert [line["forfeit"] for line in told] == 2 * [None, 1, 0, None]
    assert [(line["block"], line["rotation"]) for line in told] == 2 * [(0, 0), (0, 1), (1, 0), (1, 1)]
