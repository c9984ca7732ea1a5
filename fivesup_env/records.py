"""Match records: whole matches as lines of JSON, to be kept, read, and played again.

`record_of` makes a record of the course of a match, which a `Recorder` keeps while it is played. `record_line`
makes a line of it, `read_records` reads a file of lines, and `replay` plays one again and finds the first
thing that the rules do not bear out. The format is that of `Record`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import types
from collections.abc import Iterable, Iterator
from typing import (
    Any,
    Final,
    NamedTuple,
    TypedDict,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from fivesup_env.match import Match, told_events
from fivesup_env.notation import IllegalAction, lay_out, tile_texts
from fivesup_env.rules.state import STATE, States

RECORD_VERSION: Final = 1

_PARAMETERS: Final = ("num_players", "hand_size", "target", "max_pip", "without")
_LARGEST_INT: Final = 2**64 - 1
_LONGEST_TEXT: Final = 40  # more than any tile or action needs; keeps error texts short
_ACTION: Final = re.compile(r"([0-3]) (\S+)")


class Event(TypedDict):
    """One event (R21), in raw points, as `Match.events` gives it."""

    side: int
    placement: int
    settlement: int
    partner: int
    accepted: bool


class Result(TypedDict, total=False):
    """How a round ended, as `Match.round_result` gives it: exactly one of the keys."""

    out: int
    blocked: list[int]
    won: int


class Round(TypedDict):
    """One round."""

    starter: int
    hands: list[list[str]]
    boneyard: list[str]
    actions: list[str]
    events: list[list[Event]]
    scores: list[int]
    result: Result


class LaidOut(TypedDict):
    """What a record adds when its first round was laid out by hand."""

    scores: list[int]


class _Required(TypedDict):
    fivesup: int
    num_players: int
    hand_size: int
    target: int
    max_pip: int
    without: list[str]
    seed: int
    rounds: list[Round]
    winner: int | None
    tied: list[int]
    leading: int | None
    scores: list[int]


class Record(_Required, total=False):
    """One match. `laid_out` is there only where the first round does not follow from the seed."""

    laid_out: LaidOut


class RecordError(ValueError):
    """A text is no record, or a record is not true to the rules; says where and what is wrong."""


class ReplayError(RecordError):
    """A well-formed record says something else than the rules give."""


class Outcome(NamedTuple):
    """How a match stands when it stops (R24, D4)."""

    winner: int | None
    tied: list[int]
    leading: int | None


class Step(NamedTuple):
    """One step of a replay: the deal of a round, or one of its actions."""

    match: Match  #: just after the step; the replay goes on with it, so copy what is to be kept
    round: int  #: from 1
    action: int  #: number of the action in its round, from 1; 0 for the deal
    seat: int  #: who acted; the starter for the deal
    move: str  #: as `Match.play` takes it; empty for the deal


def outcome(match: Match) -> Outcome:
    """Return the outcome of a match that is not played on."""
    if match.winner is not None:
        return Outcome(match.winner, [], None)
    scores = match.scores
    top = [side for side, score in enumerate(scores) if score == max(scores)]
    return Outcome(None, [], top[0]) if len(top) == 1 else Outcome(None, top, None)


class Recorder:
    """Keeps the course of a match: play the match through it, then take `record()`.

    Args:
        match: a match at the start of its first round, which the recorder plays on from now on.

    Raises:
        ValueError: the match has been played on already.
    """

    def __init__(self, match: Match) -> None:
        if match.round != 1 or match.round_over or match.history:
            raise ValueError(f'a record begins with the first round, before its first action, not in "{match!r}"')
        self.match = match
        self._course = [match.state.copy()]

    def play(self, move: str) -> None:
        """Let the seat to move do this, as `Match.play` does.

        Raises:
            IllegalAction: it is not legal. Nothing has changed then.
        """
        self.match.play(move)
        self._course.append(self.match.state.copy())

    def next_round(self) -> None:
        """Deal the next round, as `Match.next_round` does.

        Raises:
            ValueError: the round is not over, or the match is.
        """
        self.match.next_round()
        self._course.append(self.match.state.copy())

    def record(self) -> Record:
        """Return the record of the match as far as it was played: whole rounds only.

        Raises:
            ValueError: the round is not over.
        """
        return record_of(np.array(self._course, STATE))


def record_of(course: States) -> Record:
    """Return the record of a match from its whole course.

    Args:
        course: STATE[T], from the first deal on: the match after every deal and every action, in order.

    Raises:
        ValueError: the last round is not over.
    """
    first, last = Match.from_state(course[0]), Match.from_state(course[-1])
    if not last.round_over:
        raise ValueError(f'a record holds whole rounds, and round {last.round} is not over, in "{last!r}"')
    deals = np.flatnonzero(np.diff(course["round_number"])) + 1
    record = {
        "fivesup": RECORD_VERSION,
        **parameters(first),
        "seed": int(first.state.seed),
        **({} if _is_dealt(first) else {"laid_out": {"scores": first.scores}}),
        "rounds": [_round_of(states) for states in np.split(course, deals)],
        **outcome(last)._asdict(),
        "scores": last.scores,
    }
    return cast("Record", record)


def _round_of(states: States) -> Round:
    """Return what a record says of a round: STATE[T], as dealt and after every action."""
    dealt, over = Match.from_state(states[0]), Match.from_state(states[-1])
    return {
        "starter": dealt.starter,
        "hands": dealt.hands,
        "boneyard": dealt.boneyard,
        "actions": over.history,
        "events": _events_of(states[1:]),
        "scores": over.scores,
        "result": cast("Result", over.round_result),
    }


def _events_of(states: States) -> list[list[Event]]:
    """Return the events of each of these actions; they are looked up for all at once, since most have none."""
    events: list[list[Event]] = [[] for _ in states]
    with_events = np.flatnonzero(states["num_events"])
    columns = (states[name][with_events].tolist() for name in ("events", "num_events", "accepted"))
    for index, rows, count, accepted in zip(with_events.tolist(), *columns, strict=True):
        events[index] = cast("list[Event]", told_events(rows[:count], accepted))
    return events


def parameters(match: Match) -> dict[str, Any]:
    """Return the rule parameters of a match, as `Match` takes them."""
    given: dict[str, Any] = {name: int(match.state[name]) for name in _PARAMETERS}
    return {**given, "without": tile_texts(given["without"])}


def _is_dealt(match: Match) -> bool:
    """Tell whether this first round is the one that the seed deals."""
    return match == Match(seed=int(match.state.seed), **parameters(match))


def record_line(record: Record) -> str:
    """Return a record as a line of a file, with its line feed."""
    return json.dumps(record, separators=(",", ":")) + "\n"


def read_records(
    source: str | os.PathLike[str] | Iterable[bytes] | Iterable[str],
) -> Iterator[Record]:
    """Yield the records of a file, line by line; line and record have the same number.

    Only the form is checked here; `replay` checks what a record says.

    Args:
        source: a path, an open file, or other lines.

    Raises:
        RecordError: a line is no record; names line and fault.
        OSError: the file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            yield from read_records(file)
        return
    # A text file would decode a block at a time, and could not tell which line is at fault.
    lines: Iterable[bytes | str] = getattr(source, "buffer", source)
    for number, line in enumerate(lines, 1):
        yield _parse_line(line, number)


def replay(record: Record, line: int | None = None) -> Match:
    """Play a record again through the rules and return the finished match.

    Args:
        record: what to play.
        line: number of its line, to be named by errors.

    Raises:
        ReplayError: a well-formed record says something else than the rules give; names the place.
        RecordError: it is not well-formed.
    """
    whole = _Replay(record, line)
    for _ in whole.steps():
        pass
    return whole.match


def replay_steps(record: Record, line: int | None = None) -> Iterator[Step]:
    """Yield each deal and each action of a record once it is checked; for the rest see `replay`."""
    return _Replay(record, line).steps()


class _Replay:
    """One replay, and the place it has come to, for error texts."""

    def __init__(self, record: Record, line: int | None) -> None:
        _check_record(record, line)
        self.record: dict[str, Any] = dict(record)
        self.line = line
        self.round = 0
        self.action = 0
        self.match = self._first_deal()

    def steps(self) -> Iterator[Step]:
        for number, written in enumerate(self.record["rounds"], 1):
            self.round, self.action = number, 0
            yield from self._replay_round(written)
        self.round = self.action = 0
        self._compare("scores", self.record["scores"], self.match.scores)
        for name, value in outcome(self.match)._asdict().items():
            self._compare(name, self.record[name], value)

    def _replay_round(self, written: Round) -> Iterator[Step]:
        match = self.match
        if self.round > 1:
            self._deal_next()
        self._compare("starter", written["starter"], match.starter)
        self._compare("hands", written["hands"], match.hands)
        self._compare("boneyard", written["boneyard"], match.boneyard)
        yield Step(match, self.round, 0, match.starter, "")
        for action, events in zip(written["actions"], written["events"], strict=True):
            self.action += 1
            yield self._play(action, events)
        if not match.round_over:
            raise self._error(f"the round stops while seat {match.turn} has to act")
        self.action = 0
        self._compare("result", written["result"], match.round_result)
        self._compare("scores", written["scores"], match.scores)

    def _first_deal(self) -> Match:
        given = {name: self.record[name] for name in (*_PARAMETERS, "seed")}
        laid_out = self.record.get("laid_out")
        try:
            match = Match(**given) if laid_out is None else self._lay_out(given, laid_out)
        except ValueError as error:
            raise RecordError(f"{_place(self.line)}{error}") from None
        if laid_out is not None and _is_dealt(match):
            raise self._error("laid_out: the first round is the one that the seed deals")
        self._compare("without", self.record["without"], parameters(match)["without"])
        return match

    def _lay_out(self, given: dict[str, Any], laid_out: LaidOut) -> Match:
        first: Round = self.record["rounds"][0]
        state = lay_out(first["hands"], first["boneyard"], first["starter"], laid_out["scores"], **given)
        return Match.from_state(state)

    def _deal_next(self) -> None:
        if self.match.winner is not None:
            raise self._error(f"the match was over before: side {self.match.winner} had won (R23)")
        self.match.next_round()

    def _play(self, action: str, events: list[Event]) -> Step:
        match = self.match
        seat_text, move = cast("re.Match[str]", _ACTION.fullmatch(action)).groups()
        seat = int(seat_text)
        if match.round_over:
            raise self._error(f"{action!r} comes after the end of the round")
        if seat != match.turn:
            raise self._error(f"{action!r} is by seat {seat}, but it is the turn of seat {match.turn}")
        try:
            match.play(move)
        except IllegalAction as error:
            raise self._error(str(error)) from None
        self._compare(f"the events of {action!r}", events, match.events)
        return Step(match, self.round, self.action, seat, move)

    def _compare(self, name: str, written: object, right: object) -> None:
        if written != right:
            raise self._error(f"{name}: the record has {json.dumps(written)}, the rules give {json.dumps(right)}")

    def _error(self, text: str) -> ReplayError:
        return ReplayError(_place(self.line, self.round, self.action) + text)


def _place(line: int | None, round_number: int = 0, action: int = 0) -> str:
    parts = [("line", line), ("round", round_number), ("action", action)]
    place = ", ".join(f"{name} {number}" for name, number in parts if number)
    return f"{place}: " if place else ""


def _parse_line(line: bytes | str, number: int) -> Record:
    try:
        text = line.decode() if isinstance(line, bytes) else line
    except UnicodeDecodeError:
        raise RecordError(f"line {number}: not UTF-8 text") from None
    if not text.strip():
        raise RecordError(f"line {number}: empty")
    try:
        record = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        cut = "" if text.endswith("\n") else ", and it has no line feed: the file may be cut off"
        raise RecordError(f"line {number}: not JSON at column {error.colno}: {error.msg}{cut}") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"line {number}: {error}") from None
    _check_record(record, number)
    return cast("Record", record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same key twice")
    return members


def _check_record(record: object, line: int | None) -> None:
    """Check form: keys and types, and what else has to hold for a record to be played at all."""
    try:
        if not isinstance(record, dict) or "fivesup" not in record:
            raise ValueError('not a match record: those are JSON objects that begin with {"fivesup":')
        if record["fivesup"] != RECORD_VERSION or type(record["fivesup"]) is not int:
            raise ValueError(f"not a record of version {RECORD_VERSION}, the one known here")
        _check(record, Record, "the record")
        _check_rounds(record["rounds"])
    except ValueError as error:
        raise RecordError(f"{_place(line)}{error}") from None


def _check_rounds(rounds: list[Round]) -> None:
    if not rounds:
        raise ValueError("rounds is empty: a record has at least one round")
    for number, written in enumerate(rounds):
        where = f"rounds[{number}]"
        actions, with_events = len(written["actions"]), len(written["events"])
        if with_events != actions:
            raise ValueError(f"{where} has {actions} actions, but events for {with_events}")
        for index, action in enumerate(written["actions"]):
            if not _ACTION.fullmatch(action):
                raise ValueError(f'{where}.actions[{index}] is no "seat move", such as "0 1|4" or "1 draw"')
        if len(written["result"]) != 1:
            raise ValueError(f"{where}.result must have one of the keys out, blocked, won")


def _check(value: object, hint: Any, where: str) -> None:
    """Check that `value`, out of JSON, has the type that `hint` tells; a bool is no int."""
    if is_typeddict(hint):
        _check_object(value, hint, where)
    elif get_origin(hint) is list:
        if type(value) is not list:
            raise ValueError(f"{where} must be a list, not {_kind(value)}")
        for index, item in enumerate(value):
            _check(item, get_args(hint)[0], f"{where}[{index}]")
    elif isinstance(hint, types.UnionType):
        if value is not None:
            _check(value, get_args(hint)[0], where)
    elif type(value) is not hint:
        raise ValueError(f"{where} must be {_KINDS[hint]}, not {_kind(value)}")
    elif hint is int and abs(cast("int", value)) > _LARGEST_INT:
        raise ValueError(f"{where} has more than 64 bits")
    elif hint is str and len(cast("str", value)) > _LONGEST_TEXT:
        raise ValueError(f"{where} is longer than {_LONGEST_TEXT} characters")


def _check_object(value: object, hint: Any, where: str) -> None:
    if type(value) is not dict:
        raise ValueError(f"{where} must be an object, not {_kind(value)}")
    hints = _hints(hint)
    inside = "" if hint is Record else f"{where}."
    for key in value:
        if key not in hints:
            raise ValueError(f"{where} has an unknown key {str(key)[:40]!r}")
    for key in hints:
        if key in hint.__required_keys__ and key not in value:
            raise ValueError(f"{where} lacks the key {key!r}")
    for key, member in value.items():
        _check(member, hints[key], f"{inside}{key}")


_hints = functools.cache(get_type_hints)

_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "an int",
    float: "a float",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)
