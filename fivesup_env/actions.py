"""Action ids and what they mean: two codecs over the same rules.

`ends` (163 ids, the default): what an agent can tell apart. By D6, ports of one value and kind are equivalent, so a
placement names the tile, the value it joins by, and the kind of end it joins; the engine takes the first such port.

    0 - 27     open the round with tile t
    28 - 153   28 + 6 n + 3 h + k: place the n-th non-double by its low (h = 0) or high half (h = 1), on an open half
               (k = 0), a double's line (k = 1) or a double's branch (k = 2)
    154 - 160  154 + v: place the double of value v (it fits an open half only)
    161, 162   draw, pass

`ports` (450 ids): what a person does with tiles on a table.

    0 - 27     open the round with tile t
    28 - 447   28 + 6 p + i: place at port p the i-th of the six tiles that fit it
    448, 449   draw, pass

An id means the same for every seat, number of seats and state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fivesup_env._bits import WIDTH, lowest_bit, popcount, store_bits
from fivesup_env._jit import inlined_kernel, kernel
from fivesup_env.notation import IllegalAction, illegal_action
from fivesup_env.rules.layout import first_port, is_open, opening_total, total_after
from fivesup_env.rules.legality import describe_end_move, describe_move, why_illegal, why_illegal_end
from fivesup_env.rules.play import DRAW, PASS, boneyard_left, may_act, must_draw, must_pass, playable, step
from fivesup_env.rules.state import State
from fivesup_env.rules.tiles import (
    BOTH_LINES,
    BRANCH,
    FIRST_PORT,
    HALF,
    HIGH,
    LINE,
    LOW,
    NUM_DOUBLES,
    NUM_KINDS,
    NUM_PORTS,
    NUM_TILES,
    OPENING,
    PIPS,
    PORT_KIND,
    PORT_TILE,
    PORT_VALUE,
    TILE_OF,
    VALUE_MASK,
    tile_ids,
)

TILES_PER_PORT = 6

NUM_ENDS_ACTIONS = 163
ENDS_DRAW, ENDS_PASS = 161, 162
NUM_WORDS = 3  # of 64 bits, that hold a set of `ends` ids
_ENDS_DOUBLES = 154

NUM_PORTS_ACTIONS = NUM_TILES + NUM_PORTS * TILES_PER_PORT + 2
PORTS_DRAW, PORTS_PASS = 448, 449

#: int64[163] each: the tile of an `ends` id (DRAW and PASS for those), and a placement's value and kind of end.
ENDS_TILE: NDArray[np.int64] = np.zeros(NUM_ENDS_ACTIONS, np.int64)
ENDS_VALUE: NDArray[np.int64] = np.zeros(NUM_ENDS_ACTIONS, np.int64)
ENDS_KIND: NDArray[np.int64] = np.zeros(NUM_ENDS_ACTIONS, np.int64)

#: int64[28, 7]: the `ends` id that places a tile by this value on an open half; add the kind for a line or branch.
ENDS_ID: NDArray[np.int64] = np.full((NUM_TILES, NUM_DOUBLES), -1)

#: int64[70, 6]: the tiles that fit each port; int64[70, 28]: the place of a tile among them, else -1.
PORT_FITS: NDArray[np.int64] = np.zeros((NUM_PORTS, TILES_PER_PORT), np.int64)
PORT_RANK: NDArray[np.int64] = np.full((NUM_PORTS, NUM_TILES), -1)


def _fill_tables() -> None:
    ENDS_TILE[:NUM_TILES] = np.arange(NUM_TILES)
    ENDS_TILE[[ENDS_DRAW, ENDS_PASS]] = DRAW, PASS
    for number, tile in enumerate(np.flatnonzero(LOW != HIGH)):
        for half, value in enumerate((LOW[tile], HIGH[tile])):
            ENDS_ID[tile, value] = first = NUM_TILES + 6 * number + NUM_KINDS * half
            ENDS_TILE[first : first + NUM_KINDS] = tile
            ENDS_VALUE[first : first + NUM_KINDS] = value
            ENDS_KIND[first : first + NUM_KINDS] = np.arange(NUM_KINDS)
    for value in range(NUM_DOUBLES):
        tile = TILE_OF[value, value]
        ENDS_ID[tile, value] = action = _ENDS_DOUBLES + value
        ENDS_TILE[action], ENDS_VALUE[action], ENDS_KIND[action] = tile, value, HALF
    for port in range(NUM_PORTS):
        fits = [tile for tile in tile_ids(int(VALUE_MASK[PORT_VALUE[port]])) if tile != PORT_TILE[port]]
        PORT_FITS[port] = fits
        PORT_RANK[port, fits] = np.arange(TILES_PER_PORT)


_fill_tables()


def _set_of(ids: Iterable[int]) -> int:
    return sum(1 << int(action) for action in ids)


def _words(sets: Iterable[int]) -> NDArray[np.int64]:
    """Return sets of `ends` ids as int64[..., 3], see `legal_ends`."""
    words = [[bits >> WIDTH * word & (1 << WIDTH) - 1 for word in range(NUM_WORDS)] for bits in sets]
    return np.array(words, np.uint64).view(np.int64)


def _unions(parts: Sequence[int]) -> NDArray[np.int64]:
    """Return for every set of up to seven parts, as bits, the union of these parts: int64[128, 3]."""
    unions = [0]
    for part in parts:
        unions += [union | part for union in unions]
    return _words(unions)


def _residue(action: int, second_line: bool) -> int:
    """Return what must be left of the sum of the ends, modulo five, for this placement to score (R9, R10)."""
    tile, value = ENDS_TILE[action], ENDS_VALUE[action]
    joins = action >= NUM_TILES
    change = PIPS[tile] - value * joins
    if joins and ENDS_KIND[action] == HALF and LOW[tile] != HIGH[tile]:
        change -= value
    if second_line and ENDS_KIND[action] == LINE:
        change -= 2 * value
    return int(-change % 5)


_PLACEMENTS = range(NUM_TILES, ENDS_DRAW)
_GROUP = 7  # tiles, or values, that one look-up takes

#: int64[4, 128, 3]: by group of seven tiles and set of tiles in it, their placements after the opening.
_TILE_IDS: NDArray[np.int64] = np.array(
    [
        _unions([_set_of(a for a in _PLACEMENTS if ENDS_TILE[a] == tile) for tile in range(first, first + _GROUP)])
        for first in range(0, NUM_TILES, _GROUP)
    ]
)
#: int64[3, 128, 3]: by kind of end and set of values, the placements on such ends.
_OPEN_IDS: NDArray[np.int64] = np.array(
    [
        _unions(
            [
                _set_of(a for a in _PLACEMENTS if ENDS_KIND[a] == kind and ENDS_VALUE[a] == value)
                for value in range(NUM_DOUBLES)
            ]
        )
        for kind in range(NUM_KINDS)
    ]
)
#: int64[2, 5, 3]: by the sum of the ends modulo five, openings and placements that score; second: where the line that
#: they join is a double's second.
_SCORING_IDS: NDArray[np.int64] = np.array(
    [
        _words(_set_of(a for a in range(ENDS_DRAW) if _residue(a, second) == left) for left in range(5))
        for second in (False, True)
    ]
)


@inlined_kernel
def legal_ends(state: State) -> Any:
    """Return the legal `ends` ids of the seat to move as a set: three int64; id k is bit k % 64 of number k // 64."""
    if not may_act(state):
        return np.int64(0), np.int64(0), np.int64(0)
    hand = np.int64(state.hands[state.turn])
    if state.num_placed == 0:
        return hand, np.int64(0), np.int64(0)
    first = _fitting_ids(state, hand, 0)
    second = _fitting_ids(state, hand, 1)
    third = _fitting_ids(state, hand, 2)
    forced = np.int64(first | second | third == 0)  # nothing fits: it draws or passes (R12, R13)
    third |= forced << (ENDS_DRAW if boneyard_left(state) else ENDS_PASS) - 2 * WIDTH
    return first, second, third


@inlined_kernel
def _fitting_ids(state: State, hand: int, word: int) -> Any:
    """Return one word of the ids that place a tile of `hand` at an open end."""
    values = state.open_values
    of_hand = _TILE_IDS[0, hand & 127, word] | _TILE_IDS[1, hand >> 7 & 127, word]
    of_hand |= _TILE_IDS[2, hand >> 14 & 127, word] | _TILE_IDS[3, hand >> 21, word]
    at_ends = _OPEN_IDS[HALF, values[HALF], word] | _OPEN_IDS[LINE, values[LINE], word]
    return of_hand & (at_ends | _OPEN_IDS[BRANCH, values[BRANCH], word])


@inlined_kernel
def scoring_ends(state: State, first: int, second: int, third: int) -> Any:
    """Return those of a set of legal ids whose placements make the sum of the ends a multiple of five (R9, R10)."""
    begun = np.int64(0)  # values whose double has a line taken: its other line is the second
    for value in range(NUM_DOUBLES):
        begun |= np.int64(state.taken[value] & BOTH_LINES != 0) << value
    left = np.int64(state.total) % 5
    return (
        first & _scoring_ids(left, begun, 0),
        second & _scoring_ids(left, begun, 1),
        third & _scoring_ids(left, begun, 2),
    )


@inlined_kernel
def _scoring_ids(left: int, begun: int, word: int) -> Any:
    seconds = _OPEN_IDS[LINE, begun, word]
    return _SCORING_IDS[0, left, word] & ~seconds | _SCORING_IDS[1, left, word] & seconds


@kernel
def ends_total(state: State, action: int) -> Any:
    """Return the sum of the ends (R9) after a legal placement or opening."""
    if action < NUM_TILES:
        return opening_total(action)
    return total_after(state, ENDS_TILE[action], ENDS_KIND[action], ENDS_VALUE[action])


@inlined_kernel
def store_ends(out: NDArray[np.int8], start: int, first: int, second: int, third: int) -> None:
    """Write a set of ids to ``out[start : start + 163]``, int8: 1 for those in it, 0 for the others."""
    store_bits(out, start, first)
    store_bits(out, start + WIDTH, second)
    last = NUM_ENDS_ACTIONS - WIDTH  # the third store overlaps the second, to end with the last id
    again = 2 * WIDTH - last
    store_bits(out, start + last, second >> WIDTH - again & (1 << again) - 1 | third << again)


@kernel
def ends_port(state: State, action: int) -> Any:
    """Return the port that a legal `ends` action joins in this state; `OPENING` for an opening, a draw and a pass."""
    if NUM_TILES <= action < ENDS_DRAW:
        return first_port(state, ENDS_KIND[action], ENDS_VALUE[action])
    return np.int64(OPENING)


def ends_id(tile: int, port: int) -> int:
    """Return the `ends` id of a placement (`port` is `OPENING` for an opening), or of DRAW or PASS as `tile`."""
    if tile >= DRAW:
        return ENDS_DRAW if tile == DRAW else ENDS_PASS
    if port == OPENING:
        return tile
    return int(ENDS_ID[tile, PORT_VALUE[port]] + PORT_KIND[port])


@kernel
def ends_step(state: State, action: int) -> None:
    """`step` by a legal `ends` id."""
    step(state, ENDS_TILE[action], ends_port(state, action))


@kernel
def ends_mask(state: State, mask: NDArray[np.int8], start: int) -> None:
    """Write the legal `ends` ids of the seat to move into ``mask[start : start + 163]``; all 0 after the round."""
    first, second, third = legal_ends(state)
    store_ends(mask, start, first, second, third)


@kernel
def ends_is_legal(state: State, action: int) -> Any:
    """Tell whether the seat to move may take this `ends` id, which may be any int."""
    if action < 0 or action >= NUM_ENDS_ACTIONS or not may_act(state):
        return False
    if action >= ENDS_DRAW:
        return must_draw(state) if action == ENDS_DRAW else must_pass(state)
    holds = np.int64(state.hands[state.turn]) >> ENDS_TILE[action] & 1
    if action < NUM_TILES or state.num_placed == 0:
        return holds == 1 and action < NUM_TILES and state.num_placed == 0
    return holds & np.int64(state.open_values[ENDS_KIND[action]]) >> ENDS_VALUE[action] == 1


@kernel
def only_action(state: State) -> Any:
    """Return the one legal `ends` id if there is exactly one, else -1: then the seat to move has a choice, or none.

    Two ports that are equivalent (D6) are one id, so such a step is forced under both codecs.
    """
    first, second, third = legal_ends(state)
    if popcount(first) + popcount(second) + popcount(third) != 1:
        return np.int64(-1)
    return first_id(first, second, third)


@kernel
def first_id(first: int, second: int, third: int) -> Any:
    """Return the lowest id of a set that is not empty."""
    if first:
        return lowest_bit(first)
    if second:
        return WIDTH + lowest_bit(second)
    return 2 * WIDTH + lowest_bit(third)


@kernel
def without_id(first: int, second: int, third: int, action: int) -> Any:
    """Return a set of ids without this one, which it may hold."""
    bit = ~(np.int64(1) << action % WIDTH)
    if action < WIDTH:
        return first & bit, second, third
    if action < 2 * WIDTH:
        return first, second & bit, third
    return first, second, third & bit


@kernel
def list_ends(state: State, out: NDArray[np.int64]) -> Any:
    """Write the legal `ends` ids of the seat to move into ``out``, int64[163], ascending; return how many there are."""
    first, second, third = legal_ends(state)
    count = np.int64(0)
    while first | second | third:
        out[count] = first_id(first, second, third)
        first, second, third = without_id(first, second, third, out[count])
        count += 1
    return count


@kernel
def ports_step(state: State, action: int) -> None:
    """`step` by a legal `ports` id."""
    tile, port = np.int64(action), np.int64(OPENING)
    if action >= PORTS_DRAW:
        tile = np.int64(DRAW) if action == PORTS_DRAW else np.int64(PASS)
    elif action >= NUM_TILES:
        port, rank = divmod(action - NUM_TILES, TILES_PER_PORT)
        tile = PORT_FITS[port, rank]
    step(state, tile, port)  # one call: numba compiles a function anew for each constant that it is given


@kernel
def ports_mask(state: State, mask: NDArray[np.int8], start: int) -> None:
    """Write the legal `ports` ids of the seat to move into ``mask[start : start + 450]``; all 0 after the round."""
    for action in range(NUM_PORTS_ACTIONS):
        mask[start + action] = 0
    tiles = playable(state)
    if tiles == 0:
        mask[start + PORTS_DRAW] = must_draw(state)
        mask[start + PORTS_PASS] = must_pass(state)
    elif state.num_placed == 0:
        while tiles:
            mask[start + lowest_bit(tiles)] = 1
            tiles &= tiles - 1
    else:
        for index in range(np.int64(state.num_placed)):
            host = np.int64(state.history_tile[index])
            first = FIRST_PORT[host]
            for port in range(first, first + (4 if LOW[host] == HIGH[host] else 2)):
                if is_open(state, port):
                    for rank in range(TILES_PER_PORT):
                        mask[start + NUM_TILES + TILES_PER_PORT * port + rank] = tiles >> PORT_FITS[port, rank] & 1


@kernel
def ports_is_legal(state: State, action: int) -> Any:
    """Tell whether the seat to move may take this `ports` id, which may be any int."""
    if action < 0 or action >= NUM_PORTS_ACTIONS:
        return False
    if action >= PORTS_DRAW:
        return must_draw(state) if action == PORTS_DRAW else must_pass(state)
    if action < NUM_TILES:
        return state.num_placed == 0 and playable(state) >> action & 1 == 1
    port, rank = divmod(action - NUM_TILES, TILES_PER_PORT)
    return playable(state) >> PORT_FITS[port, rank] & 1 == 1 and state.num_placed > 0 and is_open(state, port)


def ports_id(tile: int, port: int) -> int:
    """Return the `ports` id of a placement (`port` is `OPENING` for an opening), or of DRAW or PASS as `tile`."""
    if tile >= DRAW:
        return PORTS_DRAW if tile == DRAW else PORTS_PASS
    if port == OPENING:
        return tile
    return NUM_TILES + TILES_PER_PORT * port + int(PORT_RANK[port, tile])


def ports_move(action: int) -> tuple[int, int]:
    """Return the (tile, port) of a `ports` id, as `step` takes them."""
    if action >= PORTS_DRAW:
        return (DRAW if action == PORTS_DRAW else PASS), OPENING
    if action < NUM_TILES:
        return action, OPENING
    port, rank = divmod(action - NUM_TILES, TILES_PER_PORT)
    return int(PORT_FITS[port, rank]), port


class Codec(NamedTuple):
    """One way to number actions."""

    name: str
    num_actions: int
    draw: int
    pass_: int
    step: Callable[[State, int], None]  # by a legal id
    write_mask: Callable[[State, NDArray[np.int8], int], None]


CODECS = {
    "ends": Codec("ends", NUM_ENDS_ACTIONS, ENDS_DRAW, ENDS_PASS, ends_step, ends_mask),
    "ports": Codec("ports", NUM_PORTS_ACTIONS, PORTS_DRAW, PORTS_PASS, ports_step, ports_mask),
}


def action_mask(state: State, codec: str = "ends") -> NDArray[np.int8]:
    """Return the legal ids of the seat to move, int8[163] (`ends`) or int8[450] (`ports`); all 0 after the round.

    Works on states, and on the view of the seat to move.
    """
    mask = np.zeros(CODECS[codec].num_actions, np.int8)
    CODECS[codec].write_mask(state, mask, 0)
    return mask


def action_move(state: State, action: int, codec: str = "ends") -> tuple[int, int]:
    """Return the (tile, port) that a legal id stands for in this state, as `step` takes them."""
    if codec == "ports":
        return ports_move(action)
    return int(ENDS_TILE[action]), int(ends_port(state, action))


def explain_illegal(state: State, action: int, codec: str = "ends") -> tuple[str, str]:
    """Return in words what an illegal id wants to do, and why the rules do not allow it to the seat to move."""
    if codec == "ends" and NUM_TILES <= action < ENDS_DRAW:
        end = int(ENDS_TILE[action]), int(ENDS_KIND[action]), int(ENDS_VALUE[action])
        return describe_end_move(*end), str(why_illegal_end(state, *end))
    tile, port = ports_move(action) if codec == "ports" else (int(ENDS_TILE[action]), OPENING)
    return describe_move(tile, port), str(why_illegal(state, tile, port))


def illegal_id(state: State, action: object, codec: str = "ends") -> IllegalAction:
    """Return the error for what is no legal id of the seat to move; for an agent's eyes, pass its view as `state`."""
    count = CODECS[codec].num_actions
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < count:
        return illegal_action(state, f"take action {action!r}", f"ids are 0 .. {count - 1}")
    return illegal_action(state, *explain_illegal(state, int(action), codec))
