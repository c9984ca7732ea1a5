"""The observation: what a seat sees, as numbers in named sections.

An observation is int8[D] with every entry within 0 .. 127, a pure function of the seat's view, and made for any seat at
any time. Its parts are the rows of `SECTIONS`, in that order; `OBS_VERSION` changes whenever they do. The float32 form
divides every section by its scale. Seats count clockwise from the observer, who is 0; sides likewise, its own first.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import ENDS_ID, NUM_ENDS_ACTIONS
from fivesup_env.rules.layout import lowest_tile, open_count, opening_total, points, total_after
from fivesup_env.rules.play import drawer, playable
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import FULL, MAX_SEATS, MAX_SIDES, RUNNING, State, States
from fivesup_env.rules.tiles import ALL_TILES, HIGH, LOW, NUM_KINDS, NUM_TILES, NUM_VALUES, tile_name

OBS_VERSION: Final = 1
HIGHEST: Final = 127
NEAR: Final = 12  # "near_target" tells the points needed apart up to this many fives


class Section(NamedTuple):
    """One named part of the observation."""

    name: str
    size: int
    scale: int  # the float32 form is the entry divided by this
    meaning: str


SECTIONS: Final = (
    Section("hand", NUM_TILES, 1, "per tile: 1 if in the observer's hand"),
    Section(
        "unseen", NUM_TILES, 1, "per tile: 1 if in the set but neither on the table nor in a hand the observer sees"
    ),
    Section(
        "can_hold", 3 * NUM_TILES, 1, "per other seat and tile: 1 if the seat can hold it, by its draws and passes"
    ),
    Section("placed_by", 4 * NUM_TILES, 1, "per seat and tile: 1 if the seat placed it in this round"),
    Section("last_placed", NUM_TILES, 1, "per tile: 1 if it was placed last"),
    Section("ends", NUM_KINDS * NUM_VALUES, 2, "per kind (half, line, branch) and value: open ports"),
    Section("total", 1, 40, "sum of the counted ends, in pips"),
    Section("total_remainder", 5, 1, "one-hot: that sum modulo five"),
    Section("hand_sizes", MAX_SEATS, 8, "per seat: tiles in its hand"),
    Section("drawn_by", MAX_SEATS, 8, "per seat: tiles it has drawn in this round"),
    Section("boneyard", 1, 18, "tiles that can still be drawn"),
    Section("needs", MAX_SIDES, 61, "per side: fives needed to reach the target, at most 127; 0 for no such side"),
    Section("near_target", MAX_SIDES * NEAR, 1, "per side, one-hot: exactly 1 .. 12 fives needed"),
    Section("to_move", MAX_SEATS, 1, "one-hot: seat to move; all 0 when the round is over"),
    Section("turn_draws", 1, 8, "tiles that the seat to move has drawn in this turn"),
    Section("starter", MAX_SEATS, 1, "one-hot: seat that opens the round"),
    Section("num_players", 3, 1, "one-hot: 2, 3 or 4 seats"),
    Section("action_points", NUM_ENDS_ACTIONS, 8, "per `ends` id: fives its placement would count, if it is legal now"),
    Section(
        "action_fits", NUM_ENDS_ACTIONS, 1, "per `ends` id: 1 if it is legal and those points fit the exact target"
    ),
)

_START = dict(zip((s.name for s in SECTIONS), np.cumsum([0, *(s.size for s in SECTIONS[:-1])]).tolist(), strict=True))
#: D, the length of an observation.
OBS_SIZE: Final = sum(section.size for section in SECTIONS)
#: float32[D]: the scale of every entry.
SCALES: NDArray[np.float32] = np.repeat(
    np.array([section.scale for section in SECTIONS], np.float32), [section.size for section in SECTIONS]
)

_HAND, _UNSEEN, _CAN_HOLD = _START["hand"], _START["unseen"], _START["can_hold"]
_PLACED_BY, _LAST, _ENDS = _START["placed_by"], _START["last_placed"], _START["ends"]
_TOTAL, _REMAINDER = _START["total"], _START["total_remainder"]
_HAND_SIZES, _DRAWN_BY, _BONEYARD = _START["hand_sizes"], _START["drawn_by"], _START["boneyard"]
_NEEDS, _NEAR_TARGET = _START["needs"], _START["near_target"]
_TO_MOVE, _TURN_DRAWS, _STARTER, _PLAYERS = (
    _START["to_move"],
    _START["turn_draws"],
    _START["starter"],
    _START["num_players"],
)
_POINTS, _FITS = _START["action_points"], _START["action_fits"]


def section(name: str) -> slice:
    """Return where a section lies in the observation."""
    sizes = {part.name: part.size for part in SECTIONS}
    return slice(_START[name], _START[name] + sizes[name])


def observation_space(obs_dtype: str = "int8") -> spaces.Box:
    """Return the space of observations: int8[D] within 0 .. 127, or float32[D] within 0 .. 127 / scale."""
    if obs_dtype == "int8":
        return spaces.Box(0, HIGHEST, (OBS_SIZE,), np.int8)
    if obs_dtype == "float32":
        return spaces.Box(np.zeros(OBS_SIZE, np.float32), HIGHEST / SCALES, dtype=np.float32)
    raise ValueError(f'obs_dtype must be "int8" or "float32", not {obs_dtype!r}')


def encode(view: State) -> NDArray[np.int8]:
    """Return the observation of the seat whose view this is, int8[D].

    Raises:
        ValueError: `view` is a full state, not a view.
    """
    if view.observer == FULL:
        raise ValueError("encode takes a view, as made by view(state, seat), not a full state")
    observation = np.zeros(OBS_SIZE, np.int8)
    write_observation(view, int(view.observer), observation)
    return observation


def scaled(observation: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the float32 form of int8 observations [..., D]."""
    return observation.astype(np.float32) / SCALES


def describe(observation: NDArray[Any]) -> str:
    """Return an int8 observation in words, one line a section; sections that are all 0 are left out."""
    if observation.shape != (OBS_SIZE,):
        raise ValueError(f"an observation has shape ({OBS_SIZE},), not {observation.shape}")
    lines = []
    for part in SECTIONS:
        values = observation[section(part.name)]
        if values.any():
            lines.append(f"{part.name:16} {_describe(part, values)}")
    return "\n".join(lines)


def _describe(part: Section, values: NDArray[Any]) -> str:
    if part.size % NUM_TILES == 0:
        groups = values.reshape(-1, NUM_TILES)
        return " / ".join(" ".join(tile_name(int(tile)) for tile in np.flatnonzero(group)) or "-" for group in groups)
    if part.size > MAX_SEATS:
        return " ".join(f"{index}:{values[index]}" for index in np.flatnonzero(values))
    return " ".join(str(value) for value in values)


@kernel
def write_observation(state: State, seat: int, out: NDArray[np.int8]) -> None:
    """Write what `seat` observes into ``out``, int8[D]; from the full state and from the seat's view the same bytes."""
    out[:] = 0
    _write_tiles(state, seat, out)
    _write_course(state, seat, out)
    _write_table(state, out)
    _write_scores(state, seat, out)
    if state.result == RUNNING and state.turn == seat:
        _write_actions(state, seat, out)


@kernel
def write_observations(views: States, out: NDArray[np.int8]) -> None:
    """Write the observation of every view of ``views`` [N] into ``out``, int8[N, D]."""
    for row in range(len(views)):
        write_observation(views[row], np.int64(views[row].observer), out[row])


@kernel
def _write_mask(mask: int, out: NDArray[np.int8], start: int) -> None:
    while mask:
        out[start + lowest_tile(mask)] = 1
        mask &= mask - 1


@kernel
def _write_tiles(state: State, seat: int, out: NDArray[np.int8]) -> None:
    """Own hand, unseen tiles, and what the others can hold."""
    num_players = np.int64(state.num_players)
    hand = np.int64(state.hands[seat])
    unseen = ALL_TILES & ~(np.int64(state.placed) | hand | np.int64(state.without))
    if state.shown:
        for other in range(num_players):
            unseen &= ~np.int64(state.hands[other])
    for tile in range(NUM_TILES):
        if HIGH[tile] <= state.max_pip and unseen >> tile & 1:
            out[_UNSEEN + tile] = 1
        else:
            unseen &= ~(1 << tile)
    _write_mask(hand, out, _HAND)
    for offset in range(1, num_players):
        other = (seat + offset) % num_players
        held = unseen & ~np.int64(state.cannot_hold[other])
        if state.shown:
            held = np.int64(state.hands[other])
        elif other == state.turn and state.draws and other == drawer(state):
            held = unseen  # it is drawing: nobody knows yet whether the last tile fits
        _write_mask(held, out, _CAN_HOLD + NUM_TILES * (offset - 1))


@kernel
def _write_course(state: State, seat: int, out: NDArray[np.int8]) -> None:
    """Who placed what and drew how often, whose turn it is, who began."""
    num_players, count = np.int64(state.num_players), np.int64(state.num_placed)
    next_seat = np.int64(state.starter)
    for index in range(count):
        tile = np.int64(state.history_tile[index])
        placer, draws = np.int64(state.history_turn[index]) % 4, np.int64(state.history_turn[index]) // 4
        out[_PLACED_BY + NUM_TILES * ((placer - seat) % num_players) + tile] = 1
        out[_DRAWN_BY + (next_seat - seat) % num_players] += np.int8(draws)
        next_seat = (placer + 1) % num_players
    out[_DRAWN_BY + (next_seat - seat) % num_players] += np.int8(state.draws)
    if count:
        out[_LAST + np.int64(state.history_tile[count - 1])] = 1
    for offset in range(num_players):
        out[_HAND_SIZES + offset] = state.hand_sizes[(seat + offset) % num_players]
    out[_BONEYARD] = np.int64(state.boneyard_size) - np.int64(state.drawn)
    out[_STARTER + (np.int64(state.starter) - seat) % num_players] = 1
    out[_PLAYERS + num_players - 2] = 1
    if state.result == RUNNING:
        out[_TO_MOVE + (np.int64(state.turn) - seat) % num_players] = 1
        if state.turn == drawer(state):
            out[_TURN_DRAWS] = state.draws


@kernel
def _write_table(state: State, out: NDArray[np.int8]) -> None:
    """The open ends and their sum."""
    for kind in range(NUM_KINDS):
        for value in range(NUM_VALUES):
            if state.open_values[kind] >> value & 1:
                out[_ENDS + NUM_VALUES * kind + value] = open_count(state, kind, value)
    total = np.int64(state.total)
    out[_TOTAL] = min(total, HIGHEST)
    out[_REMAINDER + total % 5] = 1


@kernel
def _write_scores(state: State, seat: int, out: NDArray[np.int8]) -> None:
    """What every side still needs."""
    num_players = np.int64(state.num_players)
    for offset in range(2 if num_players == 4 else num_players):
        side = side_of(num_players, (seat + offset) % num_players)
        needs = (np.int64(state.target) - np.int64(state.scores[side])) // 5
        out[_NEEDS + offset] = min(needs, HIGHEST)
        if 1 <= needs <= NEAR:
            out[_NEAR_TARGET + NEAR * offset + needs - 1] = 1


@kernel
def _write_actions(state: State, seat: int, out: NDArray[np.int8]) -> None:
    """What every legal action would count, and whether the exact target takes it (R10, R22)."""
    tiles = playable(state)
    room = np.int64(state.target) - np.int64(state.scores[side_of(np.int64(state.num_players), seat)])
    while tiles:
        tile = lowest_tile(tiles)
        tiles &= tiles - 1
        if state.num_placed == 0:
            _write_action(tile, points(opening_total(tile)), room, out)
            continue
        for half in range(2 if LOW[tile] != HIGH[tile] else 1):
            value = LOW[tile] if half == 0 else HIGH[tile]
            for kind in range(NUM_KINDS):
                if state.open_values[kind] >> value & 1:
                    counted = points(total_after(state, tile, kind, value))
                    _write_action(ENDS_ID[tile, value] + kind, counted, room, out)


@kernel
def _write_action(action: int, counted: int, room: int, out: NDArray[np.int8]) -> None:
    out[_POINTS + action] = counted // 5
    out[_FITS + action] = counted <= room
