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

from fivesup_env._bits import WIDTH, lowest_bit, popcount, store_bits, store_word
from fivesup_env._jit import inlined_kernel, kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_total, legal_ends, scoring_ends, store_ends
from fivesup_env.rules.layout import placed
from fivesup_env.rules.play import boneyard_left, drawer, seat_after
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import FULL, MAX_SEATS, MAX_SIDES, RUNNING, State, States
from fivesup_env.rules.tiles import (
    BOTH_BRANCHES,
    BOTH_LINES,
    BRANCH,
    HIGH_MASK,
    LINE,
    LOW_MASK,
    NUM_KINDS,
    NUM_TILES,
    NUM_VALUES,
    tile_name,
    tiles_up_to,
)

OBS_VERSION: Final = 2
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
    Section("placements", MAX_SEATS, 8, "per seat: tiles it has placed in this round"),
    Section("boneyard", 1, 18, "tiles that can still be drawn"),
    Section("needs", MAX_SIDES, 61, "per side: fives needed to reach the target, at most 127; 0 for no such side"),
    Section("near_target", MAX_SIDES * NEAR, 1, "per side, one-hot: exactly 1 .. 12 fives needed"),
    Section("to_move", MAX_SEATS, 1, "one-hot: seat to move; all 0 when the round is over"),
    Section("turn_draws", 1, 8, "tiles that the seat to move has drawn in this turn"),
    Section("passes", 1, 3, "passes since the last placement"),
    Section("starter", MAX_SEATS, 1, "one-hot: seat that opens the round"),
    Section("num_players", 3, 1, "one-hot: 2, 3 or 4 seats"),
    Section("over", 1, 1, "1 when the round is over"),
    Section("shown", 1, 1, "1 when a settlement has shown the hands"),
    Section("action_points", NUM_ENDS_ACTIONS, 8, "per `ends` id: fives its placement would count, if it is legal now"),
    Section("action_fits", NUM_ENDS_ACTIONS, 1, "per `ends` id: 1 if it is legal and its points fit the exact target"),
)

_START = dict(zip((s.name for s in SECTIONS), np.cumsum([0, *(s.size for s in SECTIONS[:-1])]).tolist(), strict=True))
#: D, the length of an observation.
OBS_SIZE: Final = sum(section.size for section in SECTIONS)
#: float32[D]: the scale of every entry.
SCALES: NDArray[np.float32] = np.repeat(
    np.array([section.scale for section in SECTIONS], np.float32), [section.size for section in SECTIONS]
)

# The kernels know these places as constants.
_ENDS, _TOTAL, _REMAINDER = _START["ends"], _START["total"], _START["total_remainder"]
_HAND_SIZES, _PLACEMENTS, _BONEYARD = _START["hand_sizes"], _START["placements"], _START["boneyard"]
_NEEDS, _NEAR_TARGET, _TO_MOVE = _START["needs"], _START["near_target"], _START["to_move"]
_TURN_DRAWS, _PASSES, _STARTER = _START["turn_draws"], _START["passes"], _START["starter"]
_PLAYERS, _OVER, _SHOWN = _START["num_players"], _START["over"], _START["shown"]
_POINTS, _FITS = _START["action_points"], _START["action_fits"]

assert _ENDS == 10 * NUM_TILES  # the ten tile masks come first, end to end

#: int64[16] each: by the taken ports of a double, how many of them are lines, and branches.
_LINES_TAKEN: NDArray[np.int64] = np.array([bin(taken & BOTH_LINES).count("1") for taken in range(16)])
_BRANCHES_TAKEN: NDArray[np.int64] = np.array([bin(taken & BOTH_BRANCHES).count("1") for taken in range(16)])
#: int64[128]: a set of seven bits as a word whose byte k is bit k.
_SPREAD: NDArray[np.int64] = np.array([sum((bits >> k & 1) << 8 * k for k in range(7)) for bits in range(128)])
_ONES: Final = 0x0001010101010101  # a word of seven bytes 1
#: int64[7]: mask of the tiles of the set with this largest half.
_SETS: NDArray[np.int64] = np.array([tiles_up_to(max_pip) for max_pip in range(NUM_VALUES)])


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
    write_observation(view, int(view.observer), observation, 0)
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
def write_observation(state: State, seat: int, out: NDArray[np.int8], start: int) -> None:
    """Write what `seat` observes into ``out[start : start + D]``, int8; from the full state and from its view alike.

    ``out`` may hold many observations, end to end. A row of an array of two dimensions would do as well, but taking it
    counts references, and the atomic operations of that take as long as a tenth of all this.
    """
    _write_position(state, seat, out, start)
    if state.result == RUNNING and state.turn == seat:
        _write_actions(state, seat, out, start, out, start + _FITS)  # the mask is written over


@kernel
def write_decision(state: State, out: NDArray[np.int8], start: int, mask: NDArray[np.int8], mask_start: int) -> None:
    """Write observation and `ends` mask of the seat to move, to ``out[start:]`` and ``mask[mask_start:]``.

    Takes less time than one after the other.
    """
    seat = np.int64(state.turn)
    _write_position(state, seat, out, start)
    _write_actions(state, seat, out, start, mask, mask_start)


@kernel
def write_observation_of(states: States, seat: int, out: NDArray[np.int8]) -> None:
    """`write_observation` from ``states``, STATE[1], to the start of ``out``."""
    write_observation(states[0], seat, out, 0)


@inlined_kernel
def _write_position(state: State, seat: int, out: NDArray[np.int8], start: int) -> None:
    """Write every section but those of the actions."""
    _write_masks(state, seat, out, start)
    _write_ends(state, out, start)
    _write_seats(state, seat, out, start)
    _write_needs(state, seat, out, start)
    if state.result != RUNNING:
        out[start + _OVER] = 1
        out[start + _SHOWN] = state.shown


@kernel
def write_observations(views: States, out: NDArray[np.int8]) -> None:
    """Write the observation of every view of ``views`` [N] into ``out``, int8[N, D]."""
    flat = out.reshape(-1)
    for row in range(len(views)):
        write_observation(views[row], np.int64(views[row].observer), flat, row * OBS_SIZE)


@inlined_kernel
def _write_masks(state: State, seat: int, out: NDArray[np.int8], start: int) -> None:
    """Write hand, unseen, can_hold, placed_by and last_placed, ten masks of 28 bits, and zeros behind them."""
    num_players = np.int64(state.num_players)
    hand = np.int64(state.hands[seat])
    unseen = _SETS[state.max_pip] & ~(placed(state) | hand | np.int64(state.without))
    if state.shown:
        for other in range(num_players):
            unseen &= ~np.int64(state.hands[other])
    next_1 = seat_after(num_players, seat, 1)
    holds_1, placed_1 = _can_hold(state, next_1, unseen), np.int64(state.placed_by[next_1])
    holds_2 = holds_3 = placed_2 = placed_3 = np.int64(0)
    if num_players > 2:
        next_2 = seat_after(num_players, seat, 2)
        holds_2, placed_2 = _can_hold(state, next_2, unseen), np.int64(state.placed_by[next_2])
    if num_players > 3:
        next_3 = seat_after(num_players, seat, 3)
        holds_3, placed_3 = _can_hold(state, next_3, unseen), np.int64(state.placed_by[next_3])
    last = np.int64(0)
    if state.num_placed:
        last = np.int64(1) << np.int64(state.history_tile[state.num_placed - 1])
    # Mask m begins at bit 28 m, so a mask can lie across two words.
    store_bits(out, start, hand | unseen << 28 | (holds_1 & 0xFF) << 56)
    store_bits(out, start + WIDTH, holds_1 >> 8 | holds_2 << 20 | (holds_3 & 0xFFFF) << 48)
    store_bits(
        out, start + 2 * WIDTH, holds_3 >> 16 | np.int64(state.placed_by[seat]) << 12 | (placed_1 & 0xFFFFFF) << 40
    )
    store_bits(out, start + 3 * WIDTH, placed_1 >> 24 | placed_2 << 4 | placed_3 << 32 | (last & 0xF) << 60)
    store_bits(out, start + 4 * WIDTH, last >> 4)
    for word in range(5 * WIDTH, OBS_SIZE - WIDTH, WIDTH):
        store_bits(out, start + word, np.int64(0))
    store_bits(out, start + OBS_SIZE - WIDTH, np.int64(0))


@inlined_kernel
def _can_hold(state: State, other: int, unseen: int) -> Any:
    """Return the mask of the tiles that another seat can hold, as far as its draws and passes tell."""
    if state.shown:
        return np.int64(state.hands[other])
    if state.draws and other == state.turn and other == drawer(state):
        return unseen  # it is drawing: nobody knows yet whether the last tile fits
    return unseen & ~np.int64(state.cannot_hold[other])


@inlined_kernel
def _write_ends(state: State, out: NDArray[np.int8], start: int) -> None:
    """Write the open ends and their sum: per kind, the counts of the seven values as the bytes of one word."""
    low, high = np.int64(state.open_low), np.int64(state.open_high)
    halves = lines_taken = branches_taken = np.int64(0)
    for value in range(NUM_VALUES):
        taken, byte = np.int64(state.taken[value]), 8 * value
        halves |= popcount(low & LOW_MASK[value] | high & HIGH_MASK[value]) << byte
        lines_taken |= _LINES_TAKEN[taken] << byte
        branches_taken |= _BRANCHES_TAKEN[taken] << byte
    lines, branches = _SPREAD[state.open_values[LINE]], _SPREAD[state.open_values[BRANCH]]
    # Each word's eighth byte, a zero, falls on what is written next.
    store_word(out, start + _ENDS, halves)
    store_word(out, start + _ENDS + NUM_VALUES, (2 * _ONES - lines_taken) & 3 * lines)
    store_word(out, start + _ENDS + 2 * NUM_VALUES, (2 * _ONES - branches_taken) & 3 * branches)
    total = np.int64(state.total)
    out[start + _TOTAL] = min(total, HIGHEST)
    out[start + _REMAINDER + total % 5] = 1


@inlined_kernel
def _write_seats(state: State, seat: int, out: NDArray[np.int8], start: int) -> None:
    """Write what is known of every seat, whose turn it is, and who began."""
    num_players = np.int64(state.num_players)
    for offset in range(num_players):
        other = seat_after(num_players, seat, offset)
        out[start + _HAND_SIZES + offset] = state.hand_sizes[other]
        out[start + _PLACEMENTS + offset] = popcount(np.int64(state.placed_by[other]))
    out[start + _BONEYARD] = boneyard_left(state)
    out[start + _STARTER + _offset(num_players, seat, np.int64(state.starter))] = 1
    out[start + _PLAYERS + num_players - 2] = 1
    if state.result == RUNNING:
        turn = np.int64(state.turn)
        passes = _offset(num_players, drawer(state), turn)
        out[start + _TO_MOVE + _offset(num_players, seat, turn)] = 1
        out[start + _PASSES] = passes
        if passes == 0:
            out[start + _TURN_DRAWS] = state.draws


@inlined_kernel
def _write_needs(state: State, seat: int, out: NDArray[np.int8], start: int) -> None:
    """Write what every side still needs."""
    num_players = np.int64(state.num_players)
    for offset in range(2 if num_players == 4 else num_players):
        side = side_of(num_players, seat_after(num_players, seat, offset))
        needs = (np.int64(state.target) - np.int64(state.scores[side])) // 5
        near = 1 <= needs <= NEAR
        place = start + _NEEDS + offset
        out[start + _NEAR_TARGET + NEAR * offset + needs - 1 if near else place] = 1  # a branch could not be foreseen
        out[place] = min(needs, HIGHEST)


@kernel
def _offset(num_players: int, seat: int, other: int) -> Any:
    """Return how many seats `other` sits after `seat`, clockwise."""
    return other - seat if other >= seat else other - seat + num_players


@inlined_kernel
def _write_actions(
    state: State, seat: int, out: NDArray[np.int8], start: int, mask: NDArray[np.int8], mask_start: int
) -> None:
    """Write what every legal action counts, whether the exact target takes it (R10, R22), and that it is legal."""
    first, second, third = legal_ends(state)
    store_ends(mask, mask_start, first, second, third)
    room = np.int64(state.target) - np.int64(state.scores[side_of(np.int64(state.num_players), seat)])
    scoring_1, scoring_2, scoring_3 = scoring_ends(state, first, second, third)
    first = _write_points(state, scoring_1, 0, room, first, out, start)
    second = _write_points(state, scoring_2, WIDTH, room, second, out, start)
    third = _write_points(state, scoring_3, 2 * WIDTH, room, third, out, start)
    store_ends(out, start + _FITS, first, second, third)


@inlined_kernel
def _write_points(
    state: State, scoring: int, base: int, room: int, fits: int, out: NDArray[np.int8], start: int
) -> Any:
    """Write what the placements ``base + k`` count, for the bits k of `scoring`; return `fits` without the refused."""
    while scoring:
        action = base + lowest_bit(scoring)
        total = ends_total(state, action)
        out[start + _POINTS + action] = total // 5
        if total > room:
            fits &= ~(scoring & -scoring)
        scoring &= scoring - 1
    return fits
