"""Match: one match over the exact rules, as an object for people, tools and tests; View: what one seat sees of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fivesup_env.notation import (
    agent_name,
    checked_move,
    lay_out,
    move_text,
    parse_position,
    parse_tile,
    position_text,
    result_of,
    tile_texts,
    visible_hands,
)
from fivesup_env.rules.layout import contributions, open_count, open_ports
from fivesup_env.rules.legality import legal_moves
from fivesup_env.rules.play import start_match, start_next_round, step
from fivesup_env.rules.state import (
    FULL,
    HAND_SIZE,
    MAX_BONEYARD,
    MAX_SEATS,
    MIN_SEATS,
    OUT,
    RUNNING,
    STATE,
    TARGET,
    WON,
    State,
    new_state,
    num_sides,
)
from fivesup_env.rules.tiles import KIND_NAMES, NO_TILE, NUM_KINDS, NUM_TILES, NUM_VALUES, port_name, tile_name
from fivesup_env.rules.view import history, view
from fivesup_env.view_notation import parse_view

_SETUP_KEYS = (
    "num_players",
    "hands",
    "boneyard",
    "starter",
    "scores",
    "seed",
    "hand_size",
    "target",
    "max_pip",
    "without",
)


class Position:
    """What a `Match` and a `View` have in common: everything that is public, read from a STATE record."""

    def __init__(self, state: State) -> None:
        self.state = state  #: the STATE record; see fivesup_env/rules/state.py

    @property
    def num_players(self) -> int:
        """Number of seats, 2-4."""
        return int(self.state.num_players)

    @property
    def turn(self) -> int:
        """Seat to move; means nothing once the round is over."""
        return int(self.state.turn)

    @property
    def starter(self) -> int:
        """Seat that opens, or opened, this round."""
        return int(self.state.starter)

    @property
    def round(self) -> int:
        """Number of this round in its match, from 1."""
        return int(self.state.round_number)

    @property
    def scores(self) -> list[int]:
        """Raw points per side."""
        scores: list[int] = self.state.scores[: num_sides(self.num_players)].tolist()
        return scores

    @property
    def hands(self) -> list[list[str]]:
        """Hand per seat as tile texts in ascending order; "?" for each tile that is hidden."""
        return visible_hands(self.state)

    @property
    def boneyard(self) -> list[str]:
        """Tiles that can still be drawn, the next one first; "?" where hidden."""
        left = self.state.boneyard[self.state.drawn : self.state.boneyard_size].tolist()
        return ["?" if tile == NO_TILE else tile_name(tile) for tile in left]

    @property
    def winner(self) -> int | None:
        """Side that won the match, or None (R23)."""
        return int(self.state.result_of) if self.state.result == WON else None

    @property
    def round_over(self) -> bool:
        """Whether this round has ended."""
        return bool(self.state.result != RUNNING)

    @property
    def round_result(self) -> dict[str, Any] | None:
        """How the round ended: {"out": seat}, {"blocked": [lowest seats]} or {"won": side}; None while it goes on."""
        return result_of(self.state)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Events of the last action in order (R21): `side, placement, settlement, partner, accepted`; partner <= 0."""
        return told_events(self.state.events[: self.state.num_events].tolist(), int(self.state.accepted))

    @property
    def history(self) -> list[str]:
        """All actions of this round so far, as "seat move" texts."""
        return [f"{seat} {move_text(tile, port)}" for seat, tile, port in history(self.state)]

    @property
    def ends(self) -> list[str]:
        """Open ends by kind and value, such as "half 4", "line 1", "branch 1": one text for each open port (D6)."""
        return [
            f"{KIND_NAMES[kind]} {value}"
            for kind in range(NUM_KINDS)
            for value in range(NUM_VALUES)
            for _ in range(open_count(self.state, kind, value))
        ]

    def legal(self) -> list[str]:
        """Return the texts of all legal actions of the seat to move, as `Match.play` takes them; [] after the round."""
        return [move_text(tile, port) for tile, port in legal_moves(self.state)]

    def open_ports(self) -> list[str]:
        """Return the open ports, such as "1|1.line_b": by the tile placed earliest, then in R6's order."""
        return [port_name(port) for port in open_ports(self.state)]

    def contributions(self) -> list[tuple[str, int]]:
        """Return what counts (R9) as (tile, pips), in the order of `open_ports`; an open non-double may stand twice."""
        return [(tile_name(tile), pips) for tile, _, pips in contributions(self.state)]

    def total(self) -> int:
        """Return the sum of the contributions (R9)."""
        return int(self.state.total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return type(self) is type(other) and self.state.tobytes() == other.state.tobytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return position_text(self.state)

    def __str__(self) -> str:
        from fivesup_env.drawing import to_text
        from fivesup_env.drawing.table import scene_of

        return to_text(scene_of(self.state))

    def _repr_svg_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Return a picture of the position as a self-contained SVG text (R26)."""
        from fivesup_env.drawing import to_svg
        from fivesup_env.drawing.table import scene_of

        return to_svg(scene_of(self.state))


class View(Position):
    """What one seat sees: the other hands and the boneyard are hidden until a settlement shows the hands (R3).

    All of `Position` works on a view; `legal()` is empty unless the observer is to move. Agents get
    views, never matches.
    """

    @classmethod
    def from_text(cls, text: str) -> View:
        """Return the view of a text, as `repr` writes it.

        Raises:
            ValueError: the text is no view, or what a seat cannot come to see; names the fault.
        """
        return cls(parse_view(text))

    @property
    def seat(self) -> int:
        """Seat whose view this is."""
        return int(self.state.observer)

    @property
    def hand(self) -> list[str]:
        """The observer's own tiles as texts, in ascending order."""
        return tile_texts(int(self.state.hands[self.seat]))

    @property
    def name(self) -> str:
        """Name of the observer's agent, "player_0" to "player_3"."""
        return agent_name(self.seat)


class Match(Position):
    """One match of Exact 61 Five-Up: plays by texts, checks every move, and can be copied, saved and printed.

    Args:
        num_players: seats, 2, 3 or 4 (R2).
        seed: match seed, 0 <= seed < 2**64: every deal and lot follows from it and the round number; None for a
            random one.
        hand_size: tiles dealt to each seat (R3).
        target: raw points that win, a positive multiple of five (R20).
        max_pip: largest half in the set.
        without: texts of the tiles left out of the set.

    Raises:
        ValueError: an argument is impossible; names it.
    """

    def __init__(
        self,
        num_players: int = 2,
        seed: int | None = None,
        *,
        hand_size: int = HAND_SIZE,
        target: int = TARGET,
        max_pip: int = 6,
        without: Iterable[str] = (),
    ) -> None:
        state = new_state(
            num_players,
            hand_size=hand_size,
            target=target,
            max_pip=max_pip,
            without=sum({1 << parse_tile(tile) for tile in without}),
            seed=secrets.randbits(64) if seed is None else seed,
        )
        start_match(state)
        super().__init__(state)

    @classmethod
    def from_state(cls, state: State) -> Match:
        """Return a match that plays on `state` itself, which the caller vouches for."""
        match = cls.__new__(cls)
        Position.__init__(match, state)
        return match

    @classmethod
    def from_setup(cls, setup: Mapping[str, Any]) -> Match:
        """Return a match at the start of a round laid out by hand.

        Args:
            setup: `num_players` and `hands` (tile texts per seat); optional `boneyard` (in draw order, default none),
                `starter` (default 0), `scores` (raw, per side, default 0), `seed` (default 0), `hand_size`, `target`,
                `max_pip`, `without`. Hands may hold any number of tiles from one on; tiles may be missing.

        Raises:
            ValueError: the setup is impossible; names the fault.
        """
        if not isinstance(setup, Mapping):
            raise ValueError(f"a setup is a mapping, not {setup!r}")
        for key in setup:
            if key not in _SETUP_KEYS:
                raise ValueError(f"unknown key {key!r} in a setup: the keys are {', '.join(_SETUP_KEYS)}")
        for key in ("num_players", "hands"):
            if key not in setup:
                raise ValueError(f"a setup needs the key {key!r}")
        return cls.from_state(lay_out(**setup))

    @classmethod
    def from_text(cls, text: str) -> Match:
        """Return the match of a position text, as `repr` writes it.

        Raises:
            ValueError: the text is no position, or the position cannot come about; names the fault.
        """
        return cls.from_state(parse_position(text))

    @classmethod
    def from_bytes(cls, data: bytes) -> Match:
        """Return the match of `to_bytes`.

        Raises:
            ValueError: the bytes are no state of a match.
        """
        return cls.from_state(checked_state(data))

    def play(self, text: str) -> None:
        """Let the seat to move do this: "1|4" opens, "1|1@1|4.low" places, "draw", "pass".

        Raises:
            IllegalAction: it is illegal or unreadable; names seat, action, rule and position. Nothing has changed then.
        """
        step(self.state, *checked_move(self.state, text))

    def next_round(self) -> None:
        """Deal the next round (R3, R4).

        Raises:
            ValueError: the round is not over, or the match is.
        """
        if not self.round_over:
            raise ValueError(f'round {self.round} is not over, in "{self!r}"')
        if self.winner is not None:
            raise ValueError(f'the match is over: side {self.winner} has won (R23), in "{self!r}"')
        start_next_round(self.state)

    @property
    def next_starter(self) -> int | None:
        """Seat that starts the next round; None where the lot decides, while the round goes on, and after the match."""
        return int(self.state.result_of) if self.state.result == OUT else None

    def view(self, seat: int) -> View:
        """Return what `seat` sees now."""
        return View(view(self.state, seat))

    def clone(self) -> Match:
        """Return an independent copy."""
        return Match.from_state(self.state.copy())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Match:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        return Match.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return the STATE record's bytes: a save-game."""
        return self.state.tobytes()


def told_events(events: Iterable[Sequence[int]], accepted: int) -> list[dict[str, Any]]:
    """Return events as `Position.events` does: from the rows of the field `events` that are in use, and `accepted`."""
    return [
        {
            "side": side,
            "placement": placement,
            "settlement": settlement,
            "partner": -deduction,
            "accepted": bool(accepted >> index & 1),
        }
        for index, (side, placement, settlement, deduction) in enumerate(events)
    ]


def checked_state(data: bytes) -> State:
    """Return the state of `data`, after rebuilding it from its deal and moves.

    Raises:
        ValueError: the bytes are no state that play can reach.
    """
    if len(data) != STATE.itemsize:
        raise ValueError(f"a state has {STATE.itemsize} bytes, not {len(data)}")
    state: State = np.frombuffer(bytearray(data), STATE)[0]
    try:
        _check_counts(state)
        rebuilt = parse_position(position_text(state))
    except (ValueError, IndexError, RuntimeError) as error:
        raise ValueError(f"these bytes are no state of a match: {error}") from None
    if rebuilt.tobytes() != state.tobytes():
        raise ValueError("these bytes are no state of a match: their moves lead to another one")
    return state


def _check_counts(state: State) -> None:
    """Check what the moves of a record are read by: its seats, and how many entries are in use."""
    if not MIN_SEATS <= state.num_players <= MAX_SEATS:
        raise ValueError(f"num_players={state.num_players}")
    if state.observer != FULL:
        raise ValueError(f"it is the view of seat {state.observer}")
    turns = state.history_turn[: state.num_placed].astype(int)
    if max(state.turn, state.starter, *(turns % 4)) >= state.num_players:
        raise ValueError(f"it names a seat beyond its {state.num_players}")
    if state.num_placed > NUM_TILES or not state.drawn <= state.boneyard_size <= MAX_BONEYARD:
        raise ValueError("it has more tiles than there are")
    if (state.history_tile >= NUM_TILES).any():
        raise ValueError("it places a tile that does not exist")
    if sum(turns // 4) + state.draws != state.drawn:
        raise ValueError("its draws do not add up")
