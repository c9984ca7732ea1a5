"""Match records: what is in them, that they replay, and that whatever is wrong with one is named."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fivesup_env import IllegalAction, Match
from fivesup_env.records import (
    Outcome,
    Record,
    Recorder,
    RecordError,
    ReplayError,
    outcome,
    parameters,
    read_records,
    record_line,
    replay,
    replay_steps,
)

# [1|4] opens for 5 and goes out; the 2 pips of [1|1] round to nothing (R10, R15, R16).
OUT_AT_ONCE: dict[str, Any] = {
    "num_players": 2,
    "hands": [["1|4"], ["1|1"]],
    "boneyard": ["0|0"],
    "scores": [290, 300],
    "seed": 7,
}
OUT_AT_ONCE_RECORD = {
    "fivesup": 1,
    "num_players": 2,
    "hand_size": 5,
    "target": 305,
    "max_pip": 6,
    "without": [],
    "seed": 7,
    "laid_out": {"scores": [290, 300]},
    "rounds": [
        {
            "starter": 0,
            "hands": [["1|4"], ["1|1"]],
            "boneyard": ["0|0"],
            "actions": ["0 1|4"],
            "events": [[{"side": 0, "placement": 5, "settlement": 0, "partner": 0, "accepted": True}]],
            "scores": [295, 300],
            "result": {"out": 0},
        }
    ],
    "winner": None,
    "tied": [],
    "leading": 1,
    "scores": [295, 300],
}


def played(match: Match, rounds: int = 2, seed: int = 0) -> Record:
    """The record of a match with random moves, over so many rounds at most."""
    recorder = Recorder(match)
    moves = random.Random(seed)
    while True:
        while not match.round_over:
            recorder.play(moves.choice(match.legal()))
        if match.winner is not None or match.round == rounds:
            return recorder.record()
        recorder.next_round()


def built_again(record: Record) -> Record:
    """What a recorder makes of the deal, the seed and the actions of a record alone."""
    given: dict[str, Any] = {
        name: record[name] for name in ("num_players", "hand_size", "target", "max_pip", "without", "seed")
    }
    if "laid_out" in record:
        first = record["rounds"][0]
        laid_out = {name: first[name] for name in ("starter", "hands", "boneyard")}
        match = Match.from_setup({**given, **laid_out, "scores": record["laid_out"]["scores"]})
    else:
        match = Match(**given)
    recorder = Recorder(match)
    for number, written in enumerate(record["rounds"]):
        if number:
            recorder.next_round()
        for action in written["actions"]:
            recorder.play(action.split(" ")[1])
    return recorder.record()


@cache
def _lines() -> tuple[str, ...]:
    laid_out = {"num_players": 2, "hands": [["0|1", "4|4"], ["1|4"]], "boneyard": ["2|2"]}
    matches = (
        Match(2, seed=11),
        Match(3, seed=12, hand_size=2, max_pip=3, without=["0|0", "3|3"]),
        Match(4, seed=13, target=15),
        Match.from_setup(laid_out),
    )
    return tuple(record_line(played(match)) for match in matches)


def loaded(number: int = 0) -> Any:
    """One of a few valid records, fresh, as a file would give it."""
    return json.loads(_lines()[number])


def test_record_of_a_scripted_match() -> None:
    recorder = Recorder(Match.from_setup(OUT_AT_ONCE))
    recorder.play("1|4")
    assert recorder.record() == OUT_AT_ONCE_RECORD


def test_the_example_of_the_docs_is_that_record() -> None:
    page = Path(__file__).parents[1] / "docs" / "records.md"
    example = page.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    assert json.loads(example) == OUT_AT_ONCE_RECORD
    replay(json.loads(example))


def test_a_record_is_one_line_that_begins_with_the_format() -> None:
    line = record_line(loaded())
    assert line.startswith('{"fivesup":1,"num_players":2,')
    assert line.index("\n") == len(line) - 1


def test_the_keys_of_a_dealt_record() -> None:
    assert list(loaded()) == [
        *("fivesup", "num_players", "hand_size", "target", "max_pip", "without", "seed"),
        *("rounds", "winner", "tied", "leading", "scores"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_round_trip(number: int) -> None:
    line = _lines()[number]
    (record,) = read_records([line])
    replay(record)
    assert built_again(record) == record
    assert record_line(built_again(record)) == line


def test_replay_returns_the_finished_match() -> None:
    recorder = Recorder(Match(2, seed=11))
    moves = random.Random(0)
    while not recorder.match.round_over:
        recorder.play(moves.choice(recorder.match.legal()))
    assert replay(recorder.record()) == recorder.match


def test_a_laid_out_round_is_followed_by_the_deals_of_the_seed() -> None:
    recorder = Recorder(Match.from_setup(OUT_AT_ONCE))
    recorder.play("1|4")
    recorder.next_round()
    dealt = Match(2, seed=7).clone()
    while not dealt.round_over:
        dealt.play(dealt.legal()[0])
    dealt.next_round()
    assert recorder.match.hands == dealt.hands
    while not recorder.match.round_over:
        recorder.play(recorder.match.legal()[0])
    assert replay(recorder.record()).round == 2


def test_steps_of_a_replay() -> None:
    record: Any = copy.deepcopy(OUT_AT_ONCE_RECORD)
    steps = [(step.round, step.action, step.seat, step.move) for step in replay_steps(record)]
    assert steps == [(1, 0, 0, ""), (1, 1, 0, "1|4")]


def test_the_parameters_of_a_match() -> None:
    match = Match(3, hand_size=2, target=50, max_pip=3, without=["3|3", "0|0"])
    assert parameters(match) == {
        "num_players": 3,
        "hand_size": 2,
        "target": 50,
        "max_pip": 3,
        "without": ["0|0", "3|3"],
    }


# D4: a winner; a sole leader; the sides that are level at the top.
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([300, 0, 0], Outcome(0, [], None)),
        ([100, 110, 0], Outcome(None, [], 1)),
        ([95, 100, 100], Outcome(None, [0, 1, 2], None)),
        ([0, 100, 100], Outcome(None, [1, 2], None)),
    ],
)
def test_d04_outcome(scores: list[int], expected: Outcome) -> None:
    hands = [["1|4"], ["0|0"], ["0|1"]]
    match = Match.from_setup({"num_players": 3, "hands": hands, "scores": scores})
    match.play("1|4")  # 5 for the ends; the one pip left rounds to nothing
    assert outcome(match) == expected


def test_a_recorder_refuses_what_is_illegal_and_notes_nothing() -> None:
    recorder = Recorder(Match.from_setup(OUT_AT_ONCE))
    with pytest.raises(IllegalAction, match="does not hold"):
        recorder.play("1|1")
    recorder.play("1|4")
    assert recorder.record() == OUT_AT_ONCE_RECORD


def test_a_recorder_needs_a_match_that_has_not_begun() -> None:
    match = Match.from_setup({**OUT_AT_ONCE, "hands": [["1|4", "2|2"], ["1|1"]]})
    match.play("1|4")
    with pytest.raises(ValueError, match="before its first action"):
        Recorder(match)


def test_a_recorder_refuses_a_round_that_is_not_over() -> None:
    with pytest.raises(ValueError, match="round 1 is not over"):
        Recorder(Match(2, seed=1)).record()


def test_records_are_read_from_paths_and_files(tmp_path: Path) -> None:
    text = "".join(_lines())
    path = tmp_path / "matches.jsonl"
    path.write_text(text)
    expected = [loaded(number) for number in range(4)]
    assert list(read_records(path)) == expected
    assert list(read_records(str(path))) == expected
    assert list(read_records(io.BytesIO(text.encode()))) == expected
    assert list(read_records(io.StringIO(text))) == expected
    with path.open() as file:
        assert list(read_records(file)) == expected
    assert list(read_records(text.rstrip("\n").split("\n"))) == expected


def test_records_are_read_one_by_one() -> None:
    records = read_records([_lines()[0], "nonsense\n"])
    assert next(records)["seed"] == 11
    with pytest.raises(RecordError, match=r"^line 2: not JSON at column 1"):
        next(records)


def test_an_empty_file_has_no_records() -> None:
    assert list(read_records([])) == []


def _set(*path: Any) -> Callable[[Any], None]:
    """A change: the last of these is put where the others lead."""

    def change(record: Any) -> None:
        for step in path[:-2]:
            record = record[step]
        record[path[-2]] = path[-1]

    return change


def _drop_last(*path: Any) -> Callable[[Any], None]:
    def change(record: Any) -> None:
        for step in path:
            record = record[step]
        record.pop()

    return change


def _drop_last_action(record: Any) -> None:
    record["rounds"][1]["actions"].pop()
    record["rounds"][1]["events"].pop()


def _play_on(record: Any) -> None:
    record["rounds"][0]["actions"].append("0 pass")
    record["rounds"][0]["events"].append([])


def _repeat_the_first_round(record: Any) -> None:
    record["rounds"].append(copy.deepcopy(record["rounds"][0]))


AN_EVENT = {"side": 0, "placement": 35, "settlement": 0, "partner": 0, "accepted": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("seed", 12), r"line 5, round 1: (starter|hands): the record has"),
        (_set("rounds", 0, "starter", 2), r"line 5, round 1: starter: the record has 2, the rules"),
        (_set("rounds", 1, "hands", 0, 0, "?"), r"line 5, round 2: hands: the record has"),
        (_drop_last("rounds", 1, "boneyard"), r"line 5, round 2: boneyard: the record has"),
        (_set("rounds", 1, "actions", 0, "0 9|9"), r"line 5, round 2, action 1: .*"),
        (
            _set("rounds", 0, "events", 0, [AN_EVENT]),
            r"line 5, round 1, action 1: the events of '\d \d\|\d': the record has \[\{",
        ),
        (_drop_last_action, r"line 5, round 2, action \d+: the round stops while seat \d has to"),
        (_play_on, r"line 5, round 1, action \d+: '0 pass' comes after the end of the round"),
        (_set("rounds", 1, "scores", [5, 0]), r"line 5, round 2: scores: the record has \[5, 0\]"),
        (_set("rounds", 0, "result", {"won": 0}), r'line 5, round 1: result: .* \{"won": 0\}, the'),
        (_set("scores", [5, 0]), r"line 5: scores: the record has \[5, 0\], the rules give"),
        (_set("winner", 0), r"line 5: winner: the record has 0, the rules give null"),
        (_set("tied", [0, 1]), r"line 5: tied: the record has \[0, 1\], the rules give \[\]"),
        (_set("leading", None), r"line 5: leading: the record has null, the rules give \d"),
        (_set("without", ["0|0"]), r"line 5, round 1: "),
    ],
)
def test_a_disagreement_is_named(change: Callable[[Any], None], message: str) -> None:
    record = loaded()
    change(record)
    with pytest.raises(ReplayError, match=message):
        replay(record, 5)


def test_the_tiles_left_out_are_ascending() -> None:
    record = loaded(1)
    record["without"].reverse()
    with pytest.raises(ReplayError, match=r'^without: .* the rules give \["0\|0", "3\|3"\]'):
        replay(record)


def test_the_turn_is_checked() -> None:
    record = loaded()
    first = record["rounds"][0]["actions"][0]
    record["rounds"][0]["actions"][0] = f"{1 - int(first[0])}{first[1:]}"
    with pytest.raises(ReplayError, match=r"^round 1, action 1: .* is by seat \d, but it is the turn"):
        replay(record)


def test_an_illegal_action_is_named() -> None:
    record: Any = copy.deepcopy(OUT_AT_ONCE_RECORD)
    record["rounds"][0]["actions"] = ["0 draw"]
    with pytest.raises(ReplayError, match=r"^line 1, round 1, action 1: player_0 cannot draw: .*R11, R12"):
        replay(record, 1)


def test_a_won_match_does_not_go_on() -> None:
    setup = {**OUT_AT_ONCE, "scores": [300, 0]}
    record: Any = played(Match.from_setup(setup))
    assert record["rounds"][0]["result"] == {"won": 0}
    assert (record["winner"], record["leading"]) == (0, None)
    _repeat_the_first_round(record)
    with pytest.raises(ReplayError, match=r"^round 2: the match was over before: side 0 had won"):
        replay(record)


def test_a_dealt_round_is_not_called_laid_out() -> None:
    record = loaded()
    record["laid_out"] = {"scores": [0, 0]}
    with pytest.raises(ReplayError, match="laid_out: the first round is the one that the seed deals"):
        replay(record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.pop("seed"), "the record lacks the key 'seed'"),
        (lambda record: record.pop("fivesup"), "not a match record"),
        (_set("fivesup", 2), "not a record of version 1"),
        (_set("fivesup", True), "not a record of version 1"),
        (_set("colour", "red"), "the record has an unknown key 'colour'"),
        (_set("rounds", 1, "colour", "red"), r"rounds\[1\] has an unknown key 'colour'"),
        (_set("num_players", "2"), "num_players must be an int, not a text"),
        (_set("num_players", True), "num_players must be an int, not true or false"),
        (_set("target", 305.0), "target must be an int, not a float"),
        (_set("num_players", 5), r"num_players must be within 2 \.\. 4, not 5"),
        (_set("seed", 2**64), "seed has more than 64 bits"),
        (_set("without", ["0" * 41]), r"without\[0\] is longer than 40 characters"),
        (_set("seed", -1), "seed must be within 0"),
        (_set("without", ["7|7"]), "unknown tile '7|7'"),
        (_set("rounds", []), "rounds is empty"),
        (_set("rounds", {}), "rounds must be a list, not an object"),
        (_set("rounds", 0, "hands", 0, None), r"rounds\[0\].hands\[0\] must be a list, not null"),
        (_set("rounds", 0, "actions", 0, "1|4"), r"rounds\[0\].actions\[0\] is no \"seat move\""),
        (_set("rounds", 0, "actions", 0, 3), r"rounds\[0\].actions\[0\] must be a text, not an int"),
        (_drop_last("rounds", 0, "actions"), r"rounds\[0\] has \d+ actions, but events for \d+"),
        (_set("rounds", 0, "result", {}), r"rounds\[0\].result must have one of the keys"),
        (_set("rounds", 0, "result", {"lost": 0}), r"rounds\[0\].result has an unknown key 'lost'"),
        (_set("rounds", 0, "result", None), r"rounds\[0\].result must be an object, not null"),
        (_set("winner", "0"), "winner must be an int, not a text"),
        (_set("laid_out", {"scores": [0]}), r"scores: 2 seats make 2 sides \(R2\), not 1"),
    ],
)
def test_a_fault_of_form_is_named(change: Callable[[Any], None], message: str) -> None:
    record = loaded()
    change(record)
    with pytest.raises(RecordError, match=f"^line 3: {message}") as caught:
        replay(record, 3)
    assert not isinstance(caught.value, ReplayError)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "line 1: empty"),
        (b"[]\n", "line 1: not a match record"),
        (b"null\n", "line 1: not a match record"),
        (b'{"fivesup":1,"fivesup":1}\n', "line 1: an object has the same key twice"),
        (b"{}{}\n", "line 1: not JSON at column 3: Extra data"),
        (b'{"fivesup":1', "line 1: not JSON at column 13: .*the file may be cut off"),
        (b"\xff\xfe\n", "line 1: not UTF-8 text"),
        (b"[" * 100_000 + b"\n", "line 1: "),
        (b'{"fivesup":1,"seed":' + b"9" * 5000 + b"}\n", "line 1: "),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=f"^{message}"):
        list(read_records([line]))


def _survives(lines: list[bytes]) -> None:
    """These lines either replay, and then to just the records that they are, or raise RecordError."""
    try:
        for record in read_records(lines):
            replay(record)
            assert built_again(record) == record
    except RecordError:
        return


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["0|0", "1|4", "0 draw", "1 1|4", "0 1|1@1|4.low", -5, 5, 2**64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def changed_records(draw: st.DrawFn) -> bytes:
    """A valid record in which something has been replaced, taken away, doubled or moved."""
    record = loaded(draw(st.integers(0, 3)))
    parent: Any = {"": record}
    key: Any = ""
    node = record
    while isinstance(node, dict | list) and node and draw(st.integers(0, 3)):
        parent, key = node, draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        node = parent[key]
    how = draw(st.sampled_from(["replace", "nudge", "drop", "double", "swap"]))
    if how == "drop":
        del parent[key]
    elif how == "double" and isinstance(node, list):
        node.append(copy.deepcopy(node[-1]) if node else 0)
    elif how == "swap" and isinstance(node, list) and len(node) > 1:
        node[0], node[-1] = node[-1], node[0]
    elif how == "nudge" and type(node) is int:
        parent[key] = node + draw(st.sampled_from([-5, -1, 1, 5]))
    else:
        parent[key] = draw(json_values)
    return json.dumps(record).encode()


@settings(deadline=None, max_examples=300)
@given(changed_records())
def test_changed_records_replay_as_they_are_or_are_refused(line: bytes) -> None:
    _survives([line])


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 3), st.data())
def test_damaged_lines_replay_as_they_are_or_are_refused(number: int, data: st.DataObject) -> None:
    line = bytearray(_lines()[number].encode())
    at = data.draw(st.integers(0, len(line) - 1))
    if data.draw(st.booleans()):
        del line[at:]
    else:
        line[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    _survives(bytes(line).splitlines(keepends=True))


@settings(deadline=None)
@given(json_values)
def test_no_other_json_is_a_record(value: object) -> None:
    with pytest.raises(RecordError):
        list(read_records([json.dumps(value)]))
