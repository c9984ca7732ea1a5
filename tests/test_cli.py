"""The console program: what each command prints, writes and returns."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fivesup_env import Match
from fivesup_env.cli import main
from fivesup_env.records import Recorder, record_line
from fivesup_env.scoresheet import figure, score_sheet, tally

Capture = pytest.CaptureFixture[str]


def line_of(setup: dict[str, Any], *moves: str) -> str:
    """The record, as a line, of a round laid out by hand and played to its end."""
    recorder = Recorder(Match.from_setup(setup))
    for move in moves:
        recorder.play(move)
    return record_line(recorder.record())


def refused_line() -> str:
    """[1|4] opens for 5 and goes out; the 10 pips left make it 15, and 300 + 15 is beyond 305 (R22)."""
    hands = [["1|4"], ["4|6"]]
    return line_of({"num_players": 2, "hands": hands, "scores": [300, 40], "seed": 9}, "1|4")


def blocked_line() -> str:
    """[0|0] blocks at once with hands of 4, 9 and 15 pips: 5 + 11 -> 15, 6 -> 5, nothing (R18)."""
    hands = [["0|0", "1|3"], ["3|6"], ["4|5", "1|5"]]
    return line_of({"num_players": 3, "hands": hands}, "0|0")


def owing_line() -> str:
    """[1|4] opens for 5 and goes out; opponents' 1 pip rounds to 0, the partner's 23 to 25 (D1)."""
    hands = [["1|4"], ["0|1"], ["6|6", "5|6"], ["0|0"]]
    return line_of({"num_players": 4, "hands": hands}, "1|4")


def drawn_line() -> str:
    """Seat 1 draws [3|3] in vain and then [4|4], which it has to place: 1 + 8 = 9 scores nothing."""
    setup = {
        "num_players": 2,
        "hands": [["1|4", "1|2"], ["0|6"]],
        "boneyard": ["3|3", "4|4"],
    }
    return line_of(setup, "1|4", "draw", "draw", "4|4@1|4.high", "1|2@1|4.low")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Four matches laid out by hand."""
    path = tmp_path / "matches.jsonl"
    path.write_text(refused_line() + blocked_line() + owing_line() + drawn_line())
    return path


def run(capsys: Capture, command: str, *more: object) -> tuple[int, str, str]:
    """The exit status, and what the program printed on stdout and stderr."""
    try:
        status = main([*command.split(), *map(str, more)])
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        status = stop.code
    return status, *capsys.readouterr()


# The score sheet


def test_r25_a_figure_stroke_by_stroke() -> None:
    assert figure(1) == ["\\    ", "  \\  ", "    \\"]
    assert figure(2) == ["\\   /", "  X  ", "/   \\"]
    assert figure(3) == ["\\ \\ /", "  X  ", "/   \\"]
    assert figure(4) == ["\\ x /", "  X  ", "/   \\"]
    assert figure(6) == ["\\ x /", "  X x", "/   \\"]
    assert figure(8) == ["\\ x /", "  X x", "/ x \\"]
    assert figure(9) == ["\\ x /", "\\ X x", "/ x \\"]
    assert figure(10) == ["\\ x /", "x X x", "/ x \\"]


def test_r25_each_stroke_adds_one() -> None:
    strokes = {"\\": 1, "/": 1, "x": 2, "X": 2, " ": 0}
    for count in range(1, 11):
        lines = figure(count)
        # The corners are the ends of the large strokes whose crossing stands in the middle.
        small = (lines[0][2], lines[1][4], lines[2][2], lines[1][0])
        assert strokes[lines[1][2]] + sum(strokes[mark] for mark in small) == count


def test_r25_the_target_is_six_figures_and_a_stroke() -> None:
    assert tally(305) == [
        "\\ x /  \\ x /  \\ x /  \\ x /  \\ x /  \\ x /  \\",
        "x X x  x X x  x X x  x X x  x X x  x X x    \\",
        "/ x \\  / x \\  / x \\  / x \\  / x \\  / x \\      \\",
    ]


def test_r25_no_strokes_and_a_second_row() -> None:
    assert tally(0) == []
    assert len(tally(500)) == 3
    assert tally(505) == [*tally(500), *tally(5)]


def test_r25_d01_strokes_that_are_owed_are_in_brackets() -> None:
    assert score_sheet(["us", "them"], [-10, 5]) == (
        "us: -10 raw, shown as -2, 2 strokes owed\n"
        "  ( \\   / )\n"
        "  (   X   )\n"
        "  ( /   \\ )\n"
        "them: 5 raw, shown as 1, 1 stroke\n"
        "  \\\n"
        "    \\\n"
        "      \\"
    )


def test_r25_a_score_that_no_strokes_make() -> None:
    with pytest.raises(ValueError, match="not 12"):
        tally(12)


# fivesup record


def test_record_writes_the_same_bytes_again(capsys: Capture) -> None:
    arguments = "record --players 3 --matches 2 --agents random,greedy,random --seed 5 --max-rounds 2"
    first = run(capsys, arguments)
    assert first == run(capsys, arguments)
    status, out, err = first
    assert (status, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["seed"] for record in records] == [5, 6]
    assert [record["num_players"] for record in records] == [3, 3]
    assert all(len(record["rounds"]) <= 2 for record in records)


def test_a_recorded_match_depends_on_its_own_seed_alone(capsys: Capture) -> None:
    _, two, _ = run(capsys, "record --matches 2 --seed 5 --max-rounds 1")
    _, second, _ = run(capsys, "record --matches 1 --seed 6 --max-rounds 1")
    assert two.splitlines()[1:] == second.splitlines()


def test_agents_sit_where_they_are_named(capsys: Capture) -> None:
    commas = run(capsys, "record --agents greedy,random --max-rounds 1")
    repeated = run(capsys, "record --agents greedy --agents random --max-rounds 1")
    swapped = run(capsys, "record --agents random,greedy --max-rounds 1")
    assert commas == repeated
    assert commas != swapped


def test_record_takes_rule_parameters(capsys: Capture) -> None:
    options = "--hand-size 2 --max-pip 3 --target 50 --without 0|0,1|1 --without 3|3 --max-rounds 1"
    _, out, _ = run(capsys, f"record {options}")
    record = json.loads(out)
    assert [record[key] for key in ("hand_size", "max_pip", "target")] == [2, 3, 50]
    assert record["without"] == ["0|0", "1|1", "3|3"]
    assert len(record["rounds"][0]["boneyard"]) == 10 - 3 - 4


def test_record_replaces_a_file_only_when_told(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    command = ("record --max-rounds 1 --out", path)
    assert run(capsys, *command) == (0, "", f"wrote 1 match to {path}\n")
    written = path.read_bytes()
    status, out, err = run(capsys, *command, "--seed", 3)
    assert (status, out) == (2, "")
    assert err == f"fivesup: error: {path} exists already: --force replaces it\n"
    assert path.read_bytes() == written
    assert run(capsys, *command, "--seed", 3, "--force")[0] == 0
    assert json.loads(path.read_bytes())["seed"] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["matches.jsonl"]


def test_ctrl_c_leaves_no_half_of_a_file(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agents.baselines.RandomAgent.act", interrupted)
    assert run(capsys, "record", "--out", tmp_path / "matches.jsonl") == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_record_writes_into_what_is_no_ordinary_file(capsys: Capture) -> None:
    assert run(capsys, "record", "--max-rounds", 1, "--out", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--players 5", "argument --players: must be within 2 .. 4, not 5"),
        ("--seed x", "argument --seed: 'x' is not a whole number"),
        ("--matches 0", "argument --matches: must be at least 1, not 0"),
        ("--agents nobody", "no agent 'nobody'"),
        ("--players 3 --agents random,greedy", "3 seats need one agent, or 3, not 2"),
        ("--target 12", "target must be a multiple of five (R10), not 12"),
        ("--without 7|7", "unknown tile '7|7'"),
        ("--hand-size 14 --players 3", "hand_size=14 need more than the 28 tiles"),
        (f"--matches 2 --seed {2**64 - 1}", "--seed: the last match would have a seed beyond"),
        ("--out /nowhere/at/all", "No such file or directory"),
    ],
)
def test_record_refuses_bad_arguments(capsys: Capture, options: str, message: str) -> None:
    status, out, err = run(capsys, f"record {options}")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("fivesup: error: ")
    assert message in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("record --players 3 --agents net-2p", "agent 'net-2p' was trained for 2 seats, and the match has 3"),
        ("play --against guided:5:net-4p", "agent 'guided:5:net-4p' was trained for 4 seats, and the match has 2"),
    ],
)
def test_a_network_for_another_number_of_seats_is_refused(capsys: Capture, command: str, message: str) -> None:
    pytest.importorskip("sb3_contrib")
    status, out, err = run(capsys, command)
    assert (status, out, err) == (2, "", f"fivesup: error: {message}\n")


# fivesup replay


def test_replay_counts(capsys: Capture, file: Path) -> None:
    # One round each, of 1, 1, 1 and 5 actions.
    expected = "matches: 4, rounds: 4, actions: 8: all agree with the rules\n"
    assert run(capsys, "replay", file) == (0, expected, "")


def test_replay_reads_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(drawn_line()))
    status, out, _ = run(capsys, "replay", "-")
    assert (status, out.split(":")[:2]) == (0, ["matches", " 1, rounds"])


def test_replay_accepts_what_agents_played(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    for options in ("--players 2 --agents greedy", "--players 4 --seed 3 --max-rounds 3"):
        assert run(capsys, f"record {options}", "--out", path, "--force")[0] == 0
        assert run(capsys, "replay", path)[0] == 0


def test_replay_names_the_first_disagreement(capsys: Capture, file: Path) -> None:
    text = file.read_text().replace('"1 4|4@1|4.high"', '"1 4|4@1|4.low"')
    file.write_text(text)
    status, out, err = run(capsys, "replay", file)
    assert (status, out) == (1, "")
    assert err.startswith(
        f"fivesup: error: {file}: line 4, round 1, action 4: player_1 cannot place [4|4] at 1|4.low: "
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", " holds no records"),
        (b"\x7fELF\x02\x01\xff\n", ": line 1: not UTF-8 text"),
        (b"name,score\n", ": line 1: not JSON at column 1"),
        (b'{"name": 1}\n', ": line 1: not a match record"),
        (refused_line().encode()[:-20], ": line 1: not JSON at column"),
        (refused_line().encode() + b"\n", ": line 2: empty"),
    ],
)
def test_replay_refuses_broken_files(capsys: Capture, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    status, out, err = run(capsys, "replay", path)
    assert (status, out) == (2, "")
    assert err.startswith(f"fivesup: error: {path}{message}")
    assert err.count("\n") == 1


def test_a_file_that_is_not_there(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    expected = f"fivesup: error: {path}: No such file or directory\n"
    assert run(capsys, "replay", path) == (2, "", expected)
    assert run(capsys, "show", path) == (2, "", expected)


# fivesup show


def test_show_tells_a_refused_event(capsys: Capture, file: Path) -> None:
    status, out, err = run(capsys, "show", file)
    assert (status, err) == (0, "")
    assert out == (
        "match 1: 2 seats, seed 9, target 305 raw (shown as 61)\n"
        "the first round was laid out by hand\n"
        "\n"
        "round 1: seat 0 starts; seat 0: 300 raw (shown as 60), seat 1: 40 raw (shown as 8)\n"
        "  seat 0 holds [1|4], 5 pips\n"
        "  seat 1 holds [4|6], 10 pips\n"
        "  boneyard, next draw first: nothing\n"
        "    1  seat 0 opens with [1|4]\n"
        "         ends: 1 of [1|4] + 4 of [1|4] = 5\n"
        "         seat 0 is out (R15)\n"
        "           seat 0 holds nothing, 0 pips\n"
        "           seat 1 holds [4|6], 10 pips\n"
        "         seat 0 would score 15 (5 for the placement, 10 for the settlement)\n"
        "           refused as a whole (R22): 300 + 15 is beyond 305,"
        " the score stays 300 raw (shown as 60)\n"
        "  after round 1: seat 0: 300 raw (shown as 60), seat 1: 40 raw (shown as 8)\n"
        "\n"
        "the match was stopped early: seat 0 leads, nobody has won (D4)\n"
        "\n"
        "seat 0: 300 raw, shown as 60, 60 strokes\n"
        "  \\ x /  \\ x /  \\ x /  \\ x /  \\ x /  \\ x /\n"
        "  x X x  x X x  x X x  x X x  x X x  x X x\n"
        "  / x \\  / x \\  / x \\  / x \\  / x \\  / x \\\n"
        "seat 1: 40 raw, shown as 8, 8 strokes\n"
        "  \\ x /\n"
        "    X x\n"
        "  / x \\\n"
    )


def test_show_tells_a_blocked_round(capsys: Capture, file: Path) -> None:
    _, out, _ = run(capsys, "show", file, "--match", 2)
    assert (
        "         ends: 0 of [0|0] = 0\n"
        "         the round is blocked (R14)\n"
        "           seat 0 holds [1|3], 4 pips\n"
        "           seat 1 holds [3|6], 9 pips\n"
        "           seat 2 holds [1|5] [4|5], 15 pips\n"
        "         seat 0 scores 15 for the settlement: 0 -> 15 raw (shown as 3)\n"
        "         seat 1 scores 5 for the settlement: 0 -> 5 raw (shown as 1)\n"
    ) in out


def test_show_tells_a_partners_deduction(capsys: Capture, file: Path) -> None:
    _, out, _ = run(capsys, "show", file, "--match", 3)
    assert "side 0 is seats 0 and 2, side 1 is seats 1 and 3\n" in out
    assert (
        "         side 0 scores -20 (5 for the placement, -25 for the partner's hand): 0 -> -20 raw (shown as -4)\n"
    ) in out
    assert "side 0: -20 raw, shown as -4, 4 strokes owed\n  ( \\ x / )\n" in out
    assert "side 1 leads" in out


def test_show_tells_draws(capsys: Capture, file: Path) -> None:
    _, out, _ = run(capsys, "show", file, "--match", 4)
    assert (
        "  boneyard, next draw first: [3|3] [4|4]\n"
        "    1  seat 0 opens with [1|4]\n"
        "         ends: 1 of [1|4] + 4 of [1|4] = 5\n"
        "         seat 0 scores 5 for the placement: 0 -> 5 raw (shown as 1)\n"
        "    2  seat 1 draws [3|3], 1 left in the boneyard\n"
        "    3  seat 1 draws [4|4], 0 left in the boneyard\n"
        "    4  seat 1 places [4|4] at 1|4.high\n"
        "         ends: 1 of [1|4] + 8 of [4|4] = 9\n"
    ) in out


def test_show_tells_a_win(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "won.jsonl"
    setup = {"num_players": 2, "hands": [["1|4", "0|0"], ["0|1"]], "scores": [300, 0]}
    path.write_text(line_of(setup, "1|4"))
    _, out, _ = run(capsys, "show", path)
    assert "         seat 0 has exactly 305 raw (shown as 61) and wins (R23)\n" in out
    assert "\nseat 0 has won the match\n" in out


def test_show_prints_one_round(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    run(capsys, "record", "--max-rounds", 3, "--out", path)
    status, out, _ = run(capsys, "show", path, "--round", 2)
    assert status == 0
    assert re.findall(r"^round (\d+):", out, re.MULTILINE) == ["2"]
    assert re.findall(r"^  after round (\d+):", out, re.MULTILINE) == ["2"]
    assert out.count("strokes") + out.count("1 stroke\n") >= 1


def test_show_draws_the_table_after_each_placement(capsys: Capture, file: Path) -> None:
    _, plain, _ = run(capsys, "show", file, "--match", 4)
    _, drawn, _ = run(capsys, "show", file, "--match", 4, "--diagram")
    match = Match.from_setup({"num_players": 2, "hands": [["1|4", "1|2"], ["0|6"]], "boneyard": ["3|3", "4|4"]})
    match.play("1|4")
    table = str(match).strip("\n")
    assert f"\n\n{table}\n\n" in drawn
    assert table not in plain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--match", "5"], "{} has no match 5"),
        (["--match", "2", "--round", "2"], "match 2 has 1 rounds, not 2"),
    ],
)
def test_show_what_is_not_there(capsys: Capture, file: Path, options: list[str], message: str) -> None:
    expected = f"fivesup: error: {message.format(file)}\n"
    assert run(capsys, "show", file, *options) == (2, "", expected)


def test_show_stops_at_a_disagreement(capsys: Capture, file: Path) -> None:
    file.write_text(file.read_text().replace('"settlement":10', '"settlement":5'))
    status, out, err = run(capsys, "show", file)
    assert status == 1
    assert "round 1: seat 0 starts" in out
    assert err.startswith(f"fivesup: error: {file}: line 1, round 1, action 1: the events of '0 1|4'")


# fivesup play


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the person types, line by line, before the end of input."""
    lines: list[str] = []

    def read(prompt: str) -> str:
        print(prompt)
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", read)
    return lines


PLAY = "play --against random --seed 3 --max-rounds 1"


def my_seat(seed: int, wanted: int) -> int:
    """The seat, of two, that starts (wanted = 0) or does not."""
    return (Match(2, seed=seed).starter + wanted) % 2


def test_play_ends_with_the_input(capsys: Capture, typed: list[str]) -> None:
    status, out, err = run(capsys, PLAY)
    assert (status, err) == (0, "")
    assert "Stopped. seat 0: " in out
    assert out.endswith("The seed was 3.\n")


def test_play_quits(capsys: Capture, typed: list[str]) -> None:
    typed[:] = ["quit", "never read"]
    assert run(capsys, PLAY)[0] == 0
    assert typed == ["never read"]


def test_play_is_quiet_about_ctrl_c(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    status, _, err = run(capsys, PLAY)
    assert (status, err) == (130, "")


def test_play_shows_no_hidden_tile(capsys: Capture, typed: list[str]) -> None:
    seat = my_seat(3, 0)
    _, out, _ = run(capsys, PLAY, "--seat", seat)
    assert set(re.findall(r"\d\|\d", out)) <= {*Match(2, seed=3).hands[seat]}


def test_play_takes_numbers_and_texts(capsys: Capture, typed: list[str]) -> None:
    seat = my_seat(3, 0)
    second = Match(2, seed=3).legal()[1]
    for text in ("2", second):
        typed[:] = [text]
        _, out, _ = run(capsys, PLAY, "--seat", seat)
        assert f"* seat {seat} opens with [{second}]\n" in out


def test_play_says_why_it_does_not_take_a_text(capsys: Capture, typed: list[str]) -> None:
    seat = my_seat(3, 0)
    hands = Match(2, seed=3).hands
    typed[:] = ["", "99", "9" * 5000, "foo", hands[1 - seat][0], "draw", "hint", "help", "sheet"]
    _, out, _ = run(capsys, PLAY, "--seat", seat)
    assert out.count("Type a number from 1 to 5, or a move") == 3
    assert "'foo' is no move" in out
    assert f"You cannot open with [{hands[1 - seat][0]}]: it does not hold" in out
    assert "You cannot draw: it must place a tile that fits" in out
    assert re.search(r"greedy would open with \[\d\|\d\]", out)
    assert "Ports: low and high of an ordinary tile" in out
    assert f"seat {seat}: 0 raw, shown as 0, 0 strokes" in out


@pytest.mark.parametrize("players", [2, 3, 4])
def test_play_a_round_to_its_end(capsys: Capture, typed: list[str], players: int) -> None:
    # Enter draws and passes; where that is refused, the first action follows.
    typed[:] = ["", "1"] * 100
    status, out, _ = run(capsys, PLAY, "--players", players, "--seat", players - 1)
    assert status == 0
    assert "is out (R15)" in out or "the round is blocked (R14)" in out
    assert "the match was stopped early" in out
    assert "Enter for the next round" not in out


def test_play_goes_on_to_the_next_round(capsys: Capture, typed: list[str]) -> None:
    typed[:] = ["", "1"] * 200
    _, out, _ = run(capsys, PLAY.replace("rounds 1", "rounds 2"))
    assert out.count("Enter for the next round") == 1
    assert re.findall(r"^Round (\d): seat", out, re.MULTILINE) == ["1", "2"]


def test_play_refuses_a_seat_that_is_not_there(capsys: Capture) -> None:
    expected = "fivesup: error: --seat: 2 seats are numbered 0 .. 1\n"
    assert run(capsys, "play", "--seat", 2) == (2, "", expected)


# The program as a whole


@pytest.mark.parametrize("command", ["", "play", "predict", "record", "replay", "show"])
def test_help_has_examples(capsys: Capture, command: str) -> None:
    status, out, _ = run(capsys, command, "--help")
    assert status == 0
    assert "examples:\n  fivesup " in out


def test_errors_begin_with_the_program(capsys: Capture) -> None:
    status, out, err = run(capsys, "dance")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("fivesup: error: ")


def test_the_program_loads_no_agents() -> None:
    code = "import sys, fivesup_env.cli; sys.exit('agents' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "fivesup_env", "record", "--matches", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline().startswith(b'{"fivesup":1,')
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 141
