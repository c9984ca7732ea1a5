"""The command line of the arena, and the figures it writes, counted again from the records of the matches."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents.arena.evaluation import main
from agents.arena.results import unique_names
from fivesup_env.cli import main as fivesup
from fivesup_env.records import read_records


def results_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@pytest.fixture(scope="module", params=[(2, "greedy"), (3, "greedy"), (4, "greedy"), (4, "greedy+random")])
def out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three agents with 2, 3 or 4 seats, or of a named pair and two agents."""
    folder = tmp_path_factory.mktemp("arena") / "run"
    seats, first = request.param
    arguments = [first, "random", "clairvoyant:1", "--matches", "20", "--players", str(seats), "--seed", "4"]
    assert main([*arguments, "--out", str(folder)]) == 0
    return folder


def matches_of(out: Path, pair: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """Line-up and record of every match of a pair."""
    records = list(read_records(out / "matches.jsonl"))
    line_ups = [json.loads(line) for line in (out / "line_ups.jsonl").read_text().splitlines()]
    assert [line_up["record"] for line_up in line_ups] == list(range(1, len(records) + 1))
    return [
        (line_up, records[line_up["record"] - 1]) for line_up in line_ups if line_up["pair"] == [pair["a"], pair["b"]]
    ]


def test_the_files_hold_what_is_documented(out: Path) -> None:
    results = results_in(out)
    assert list(results) == ["version", "players", "seed", "command", "versions", "agents", "pairs", "ratings", "nash"]
    first = results["command"][0]
    assert results["command"][:3] == [first, "random", "clairvoyant:1"]
    assert [(agent["name"], agent["sees_all"]) for agent in results["agents"]] == [
        (first, False),
        ("random", False),
        ("clairvoyant:1", True),
    ]
    pairs = [(pair["a"], pair["b"]) for pair in results["pairs"]]
    assert len(pairs) == (6 if results["players"] == 3 else 3) and len(set(pairs)) == len(pairs)
    assert {rating["agent"] for rating in results["ratings"]} == {first, "random"}  # who cheats is not rated
    assert sum(entry["weight"] for entry in results["nash"]) == pytest.approx(1)
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    document = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text()
    for key in (*results, *results["agents"][0], *results["pairs"][0]):
        assert f"`{key}`" in document, key


def test_figures_are_those_of_the_records(out: Path) -> None:
    results = results_in(out)
    seats = results["players"]
    sides = 3 if seats == 3 else 2
    for pair in results["pairs"]:
        matches = matches_of(out, pair)
        size = 4 if "+" in pair["a"] else sides
        assert len(matches) == pair["matches"] == pair["blocks"] * size >= 20
        wins, rounds, blocked, out_a, refused_a, margins = 0, 0, 0, 0, 0, Counter[float]()
        for line_up, record in matches:
            own = line_up["rotation"] % sides
            if size == sides:
                seated = [pair["a"] if seat % sides == own else pair["b"] for seat in range(seats)]
                assert line_up["seats"] == seated
            assert record["seed"] == 4 + line_up["block"]
            assert record["winner"] == line_up["winner"]
            wins += record["winner"] == own
            before = [0] * sides
            for round_ in record["rounds"]:
                rounds += 1
                hands_out = [event for events in round_["events"] for event in events]
                refused_a += sum(event["side"] == own and not event["accepted"] for event in hands_out)
                gains = np.subtract(round_["scores"], before)
                before = round_["scores"]
                margins[float(gains[own] - (gains.sum() - gains[own]) / (sides - 1))] += 1
                if "blocked" in round_["result"]:
                    blocked += 1
                if "out" in round_["result"]:
                    out_a += round_["result"]["out"] % sides == own
        assert pair["win_rate"] == pytest.approx(wins / len(matches))
        assert pair["low"] <= pair["win_rate"] <= pair["high"]
        assert pair["even"] == 1 / sides
        assert pair["rounds_per_match"]["mean"] == pytest.approx(rounds / len(matches))
        assert pair["refused_rate_a"]["mean"] == pytest.approx(refused_a / rounds)
        assert pair["margins"] == sorted([margin, count] for margin, count in margins.items())
        mean = sum(margin * count for margin, count in margins.items()) / rounds
        assert pair["margin_per_round"]["mean"] == pytest.approx(mean)
        points = [sum(part["mean"] for part in pair[f"points_{who}"].values()) for who in "ab"]
        assert points[0] - points[1] == pytest.approx(mean)
        # A won round is told as such in a record, however it ended, so these two are lower bounds.
        assert blocked / rounds <= pair["blocked_rate"]["mean"] <= (blocked + len(matches)) / rounds
        assert out_a / rounds <= pair["going_out_rate_a"]["mean"] <= (out_a + len(matches)) / rounds
        assert pair["course"][-1] == [len(matches), pair["win_rate"], pair["low"], pair["high"]]


def test_a_run_is_not_overwritten_but_gone_on_with(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = results_in(out)["command"]
    before = (out / "matches.jsonl").read_bytes()
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert "holds a run already: give --resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert (out / "matches.jsonl").read_bytes() == before


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert fivesup(["evaluate", "greedy", "random", "greedy", "--matches", "9", "--gauntlet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["greedy", "random"] and line.split()[-1] == "10" for line in lines)
    assert not any(line.split()[:1] == ["random"] and "[" in line and line.split()[-1] == "10" for line in lines)


def test_a_sequential_test_stops_early(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["greedy", "random", "--until-decided", "--matches", "4000", "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    (pair,) = results_in(tmp_path / "run")["pairs"]
    assert pair["decided"] == "better"
    assert 64 <= pair["matches"] < 4000 and pair["matches"] % 64 == 0  # whole chunks of 32 blocks


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["greedy"], "at least two agents"),
        (["greedy", "nobody"], "no agent 'nobody'"),
        (["greedy", "pimc:x"], "number of worlds"),
        (["greedy", "no.such:thing"], "no.such:thing"),
        (["greedy", "random", "--matches", "0"], "--matches must be at least 1"),
        (["greedy", "random", "--seed", "-1"], "--seed must be within"),
        (["greedy", "random", "--workers", "0"], "--workers must be within"),
        (["greedy", "random", "--move-timeout", "0"], "--move-timeout must be more than 0"),
        (["greedy", "random", "--move-timeout", "nan"], "--move-timeout must be more than 0"),
        (["greedy", "random", "--elo", "20", "0"], "the lower one first"),
        (["greedy", "random", "--resume"], "--resume needs --out"),
        (["greedy", "random", "--address", "10.0.0.1:6379"], "--address needs --backend ray"),
        (["greedy", "random", "--players", "5"], "invalid choice"),
    ],
)
def test_wrong_arguments(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "arena"])
def test_out_that_can_be_no_folder_is_told(below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(SystemExit) as stop:
        main(["greedy", "random", "--out", str(file / below)])
    assert stop.value.code == 2
    assert f"error: --out must be a folder, and {file} is none" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_ray_that_is_not_installed_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agents.arena.ray_crew", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not there
    with pytest.raises(SystemExit):
        main(["greedy", "random", "--backend", "ray"])
    assert (
        "error: --backend ray needs Ray, which is not installed: pip install 'fivesup[ray]'" in capsys.readouterr().err
    )


def test_repeated_agents_get_numbers() -> None:
    assert unique_names(["greedy", "random", "greedy", "greedy"]) == ["greedy", "random", "greedy #2", "greedy #3"]
