"""Connecting tiles and counting the ends (R6-R10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fivesup_env._bits import lowest_bit, popcount
from fivesup_env._jit import kernel
from fivesup_env.rules.state import State
from fivesup_env.rules.tiles import (
    BOTH_BRANCHES,
    BOTH_LINES,
    BRANCH,
    BRANCH_A,
    FIRST_PORT,
    FITTING,
    HALF,
    HIGH,
    HIGH_MASK,
    LINE,
    LINE_A,
    LINE_B,
    LOW,
    LOW_MASK,
    OPENING,
    PORT_KIND,
    PORT_SLOT,
    PORT_TILE,
    PORT_VALUE,
    TILE_OF,
)


@kernel
def placed(state: State) -> Any:
    """Return the mask of the tiles on the table."""
    by = state.placed_by
    return np.int64(by[0] | by[1] | by[2] | by[3])


@kernel
def fitting(state: State) -> Any:
    """Return the mask of the tiles, in any hand or none, that fit an open port now (R7); all of them to open (R5)."""
    if state.num_placed == 0:
        return np.int64(FITTING[127])
    values = state.open_values[HALF] | state.open_values[LINE] | state.open_values[BRANCH]
    return np.int64(FITTING[values])


@kernel
def open_halves(state: State, value: int) -> Any:
    """Return the mask of the non-doubles that have an open half of `value`."""
    return np.int64(state.open_low) & LOW_MASK[value] | np.int64(state.open_high) & HIGH_MASK[value]


@kernel
def open_count(state: State, kind: int, value: int) -> Any:
    """Return how many ports of this kind and value are open: 0-6 halves, 0-2 lines or branches (R8)."""
    if kind == HALF:
        return popcount(open_halves(state, value))
    if state.open_values[kind] >> value & 1 == 0:
        return np.int64(0)
    taken = np.int64(state.taken[value])
    return 2 - popcount(taken & (BOTH_LINES if kind == LINE else BOTH_BRANCHES))


@kernel
def is_open(state: State, port: int) -> Any:
    """Tell whether a port is on the table and open (R6-R8)."""
    tile, value, kind = PORT_TILE[port], PORT_VALUE[port], PORT_KIND[port]
    if kind == HALF:
        mask = np.int64(state.open_low) if PORT_SLOT[port] == 0 else np.int64(state.open_high)
        return mask >> tile & 1 == 1
    kind_is_open = state.open_values[kind] >> value & 1 == 1
    return kind_is_open and state.taken[value] >> PORT_SLOT[port] & 1 == 0


@kernel
def first_port(state: State, kind: int, value: int) -> Any:
    """Return the first open port of this kind and value: of the tile placed earliest, then in R6's order.

    Ports of one kind and value are equivalent (D6), so this loses nothing. One such port must be open.
    """
    if kind == HALF:
        mask = open_halves(state, value)
        tile = lowest_bit(mask)
        if mask & (mask - 1):
            for index in range(state.num_placed):
                tile = np.int64(state.history_tile[index])
                if mask >> tile & 1:
                    break
        return FIRST_PORT[tile] + (0 if LOW[tile] == value else 1)
    slot = LINE_A if kind == LINE else BRANCH_A
    if state.taken[value] >> slot & 1:
        slot += 1
    return FIRST_PORT[TILE_OF[value, value]] + slot


@kernel
def total_after(state: State, tile: int, kind: int, value: int) -> Any:
    """Return the sum of the ends (R9) after `tile` is joined to an open port of this kind and value."""
    total = np.int64(state.total)
    if kind == HALF:
        total -= value
    elif kind == LINE and np.int64(state.taken[value]) & BOTH_LINES:
        total -= 2 * value  # its second line goes, and with it the double's own count
    if LOW[tile] == HIGH[tile]:
        return total + 2 * value
    return total + LOW[tile] + HIGH[tile] - value


@kernel
def opening_total(tile: int) -> Any:
    """Return the sum of the ends when `tile` opens the round: both halves count, of a double too (R9)."""
    return LOW[tile] + HIGH[tile]


@kernel
def points(total: int) -> Any:
    """Return the raw points that a placement with this sum of the ends scores (R10)."""
    return total if total > 0 and total % 5 == 0 else np.int64(0)


@kernel
def join(state: State, tile: int, port: int) -> None:
    """Put `tile` on the table at `port` (`OPENING` for the first tile) and update the ends and their sum (R7-R9)."""
    low, high = LOW[tile], HIGH[tile]
    if port == OPENING:
        state.total = opening_total(tile)
        _open_new_ends(state, tile, -1)
        return
    value, kind = PORT_VALUE[port], PORT_KIND[port]
    state.total = total_after(state, tile, kind, value)
    _take(state, port)
    if low == high:
        state.taken[value] = 1 << LINE_A
    _open_new_ends(state, tile, value)


@kernel
def _open_new_ends(state: State, tile: int, joined: int) -> None:
    """Open the ends of a tile just placed, but for its half of value `joined` (-1: the opening, which joins none)."""
    bit = 1 << np.int64(tile)
    low, high = LOW[tile], HIGH[tile]
    if low == high:
        state.open_values[LINE] |= np.uint8(1 << low)
        return
    if low != joined:
        state.open_low = np.int64(state.open_low) | bit
        state.open_values[HALF] |= np.uint8(1 << low)
    if high != joined:
        state.open_high = np.int64(state.open_high) | bit
        state.open_values[HALF] |= np.uint8(1 << high)


@kernel
def _take(state: State, port: int) -> None:
    """Close an open port, and open what that opens: a double's branches, once both its lines are taken (R8)."""
    tile, slot, value, kind = PORT_TILE[port], PORT_SLOT[port], PORT_VALUE[port], PORT_KIND[port]
    closed = np.uint8(255 - (1 << value))
    if kind == HALF:
        bit = 1 << tile
        if slot == 0:
            state.open_low = np.int64(state.open_low) & ~bit
        else:
            state.open_high = np.int64(state.open_high) & ~bit
        if open_halves(state, value) == 0:
            state.open_values[HALF] &= closed
        return
    taken = np.int64(state.taken[value]) | 1 << slot
    state.taken[value] = taken
    if slot <= LINE_B:
        if taken & BOTH_LINES == BOTH_LINES:
            state.open_values[LINE] &= closed
            state.open_values[BRANCH] |= np.uint8(1 << value)
    elif taken & BOTH_BRANCHES == BOTH_BRANCHES:
        state.open_values[BRANCH] &= closed


def open_ports(state: State) -> list[int]:
    """Return the open ports, by the tile placed earliest, then in R6's order."""
    tiles = [int(tile) for tile in state.history_tile[: state.num_placed]]
    ports = [port for tile in tiles for port in _ports_of(tile)]
    return [port for port in ports if is_open(state, port)]


def contributions(state: State) -> list[tuple[int, int, int]]:
    """Return what counts (R9): (tile, first port counted, pips), in the order of `open_ports`.

    A double with an open line counts once, with twice its value, at its first open line.
    """
    counted: list[tuple[int, int, int]] = []
    for port in open_ports(state):
        tile, value, kind = int(PORT_TILE[port]), int(PORT_VALUE[port]), int(PORT_KIND[port])
        if kind == HALF:
            counted.append((tile, port, value))
        elif kind == LINE and (not counted or counted[-1][0] != tile):
            counted.append((tile, port, 2 * value))
    return counted


def _ports_of(tile: int) -> range:
    first = int(FIRST_PORT[tile])
    return range(first, first + (4 if LOW[tile] == HIGH[tile] else 2))
