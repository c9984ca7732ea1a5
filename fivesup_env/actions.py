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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fivesup_env._bits import WIDTH, lowest_bit, store_bits
from fivesup_env._jit import kernel
from fivesup_env.notation import IllegalAction, illegal_action
from fivesup_env.rules.layout import first_port, is_open
from fivesup_env.rules.legality import describe_end_move, describe_move, why_illegal, why_illegal_end
from fivesup_env.rules.play import DRAW, PASS, must_draw, must_pass, playable, step
from fivesup_env.rules.state import State
from fivesup_env.rules.tiles import (
    FIRST_PORT,
    HALF,
    HIGH,
    LOW,
    NUM_DOUBLES,
    NUM_KINDS,
    NUM_PORTS,
    NUM_TILES,
    OPENING,
    PORT_TILE,
    PORT_VALUE,
    TILE_OF,
    VALUE_MASK,
    tile_ids,
)

TILES_PER_PORT = 6

NUM_ENDS_ACTIONS = 163
ENDS_DRAW, ENDS_PASS = 161, 162
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


@kernel
def ends_port(state: State, action: int) -> Any:
    """Return the port that a legal `ends` action joins in this state; `OPENING` for an opening, a draw and a pass."""
    if NUM_TILES <= action < ENDS_DRAW:
        return first_port(state, ENDS_KIND[action], ENDS_VALUE[action])
    return np.int64(OPENING)


@kernel
def ends_step(state: State, action: int) -> None:
    """`step` by a legal `ends` id."""
    step(state, ENDS_TILE[action], ends_port(state, action))


@kernel
def ends_mask(state: State, mask: NDArray[np.int8]) -> None:
    """Write the legal `ends` ids of the seat to move into ``mask``, int8[163]; all 0 when the round is over."""
    clear_ends_mask(mask)
    tiles = playable(state)
    if tiles == 0:
        mask[ENDS_DRAW] = must_draw(state)
        mask[ENDS_PASS] = must_pass(state)
    while tiles:
        tile = lowest_bit(tiles)
        tiles &= tiles - 1
        low, high = LOW[tile], HIGH[tile]
        if state.num_placed == 0:
            mask[tile] = 1
        elif low == high:
            mask[ENDS_ID[tile, low]] = 1  # a double fits an open half only
        else:
            _mark_ends(state, ENDS_ID[tile, low], low, mask)
            _mark_ends(state, ENDS_ID[tile, high], high, mask)


@kernel
def clear_ends_mask(mask: NDArray[np.int8]) -> None:
    """Set all of ``mask``, int8[163], to 0."""
    store_bits(mask, 0, np.int64(0))
    store_bits(mask, WIDTH, np.int64(0))
    store_bits(mask, NUM_ENDS_ACTIONS - WIDTH, np.int64(0))


@kernel
def _mark_ends(state: State, first: int, value: int, mask: NDArray[np.int8]) -> None:
    for kind in range(NUM_KINDS):
        mask[first + kind] = np.int64(state.open_values[kind]) >> value & 1


@kernel
def ends_is_legal(state: State, action: int) -> Any:
    """Tell whether the seat to move may take this `ends` id, which may be any int."""
    if action < 0 or action >= NUM_ENDS_ACTIONS:
        return False
    if action >= ENDS_DRAW:
        return must_draw(state) if action == ENDS_DRAW else must_pass(state)
    if playable(state) >> ENDS_TILE[action] & 1 == 0:
        return False
    if action < NUM_TILES or state.num_placed == 0:
        return action < NUM_TILES and state.num_placed == 0
    return np.int64(state.open_values[ENDS_KIND[action]]) >> ENDS_VALUE[action] & 1 == 1


@kernel
def only_action(state: State) -> Any:
    """Return the one legal `ends` id if there is exactly one, else -1: then the seat to move has a choice, or none.

    Two ports that are equivalent (D6) are one id, so such a step is forced under both codecs.
    """
    tiles = playable(state)
    if tiles == 0:
        if must_draw(state):
            return np.int64(ENDS_DRAW)
        return np.int64(ENDS_PASS) if must_pass(state) else np.int64(-1)
    if tiles & (tiles - 1):
        return np.int64(-1)
    tile = lowest_bit(tiles)
    if state.num_placed == 0:
        return tile
    only = np.int64(-1)
    for half in range(2 if LOW[tile] != HIGH[tile] else 1):
        value = LOW[tile] if half == 0 else HIGH[tile]
        for kind in range(NUM_KINDS):
            if state.open_values[kind] >> value & 1:
                if only >= 0:
                    return np.int64(-1)
                only = ENDS_ID[tile, value] + kind
    return only


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
def ports_mask(state: State, mask: NDArray[np.int8]) -> None:
    """Write the legal `ports` ids of the seat to move into ``mask``, int8[450]; all 0 when the round is over."""
    mask[:] = 0
    tiles = playable(state)
    if tiles == 0:
        mask[PORTS_DRAW] = must_draw(state)
        mask[PORTS_PASS] = must_pass(state)
    elif state.num_placed == 0:
        while tiles:
            mask[lowest_bit(tiles)] = 1
            tiles &= tiles - 1
    else:
        for index in range(np.int64(state.num_placed)):
            host = np.int64(state.history_tile[index])
            first = FIRST_PORT[host]
            for port in range(first, first + (4 if LOW[host] == HIGH[host] else 2)):
                if is_open(state, port):
                    for rank in range(TILES_PER_PORT):
                        mask[NUM_TILES + TILES_PER_PORT * port + rank] = tiles >> PORT_FITS[port, rank] & 1


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
    write_mask: Callable[[State, NDArray[np.int8]], None]


CODECS = {
    "ends": Codec("ends", NUM_ENDS_ACTIONS, ENDS_DRAW, ENDS_PASS, ends_step, ends_mask),
    "ports": Codec("ports", NUM_PORTS_ACTIONS, PORTS_DRAW, PORTS_PASS, ports_step, ports_mask),
}


def action_mask(state: State, codec: str = "ends") -> NDArray[np.int8]:
    """Return the legal ids of the seat to move, int8[163] (`ends`) or int8[450] (`ports`); all 0 after the round.

    Works on states, and on the view of the seat to move.
    """
    mask = np.zeros(CODECS[codec].num_actions, np.int8)
    CODECS[codec].write_mask(state, mask)
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
