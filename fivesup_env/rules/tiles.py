"""The 28 tiles, their ports, and the look-up tables over them (R1, R6).

A *tile* is an id 0-27, in the order 0|0, 0|1, ..., 0|6, 1|1, ..., 6|6. A *tile mask* is a bit set over those ids.
A *port* is an id 0-69: the four of the double of value v are ``4 * v + slot`` (`line_a`, `line_b`, `branch_a`,
`branch_b`), then come two for each of the 21 non-doubles, in the order of their tiles (`low`, `high`). Ports of one
tile therefore stand in the order of R6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NUM_VALUES = 7  # halves 0-6
NUM_TILES = 28
NUM_DOUBLES = 7
NUM_PORTS = 70
ALL_TILES = (1 << NUM_TILES) - 1

NO_TILE = 255  # a hidden tile, or none
OPENING = 255  # the "port" of the first tile of a round, which joins nothing

# Kinds of ends: what a port is, as far as the game can tell ports of one value apart (D6).
HALF, LINE, BRANCH = 0, 1, 2
NUM_KINDS = 3
KIND_NAMES = ("half", "line", "branch")

# Slots of a double's four ports; `taken` bits of a double are 1 << slot.
LINE_A, LINE_B, BRANCH_A, BRANCH_B = 0, 1, 2, 3
BOTH_LINES = (1 << LINE_A) | (1 << LINE_B)
BOTH_BRANCHES = (1 << BRANCH_A) | (1 << BRANCH_B)
DOUBLE_PORT_NAMES = ("line_a", "line_b", "branch_a", "branch_b")
HALF_PORT_NAMES = ("low", "high")

_TILES = [(low, high) for low in range(NUM_VALUES) for high in range(low, NUM_VALUES)]
_TILE_NAMES = [f"{low}|{high}" for low, high in _TILES]
_NON_DOUBLES = [tile for tile, (low, high) in enumerate(_TILES) if low != high]
_FIRST_HALF_PORT = 4 * NUM_DOUBLES

#: int64[28] each: the smaller half, the larger half, their sum.
LOW: NDArray[np.int64] = np.array([low for low, _ in _TILES])
HIGH: NDArray[np.int64] = np.array([high for _, high in _TILES])
PIPS: NDArray[np.int64] = LOW + HIGH

#: int64[28]: the id of a tile's first port.
FIRST_PORT: NDArray[np.int64] = np.array(
    [
        4 * low if low == high else _FIRST_HALF_PORT + 2 * _NON_DOUBLES.index(tile)
        for tile, (low, high) in enumerate(_TILES)
    ]
)

#: int64[7, 7]: the tile with these two halves, in either order.
TILE_OF: NDArray[np.int64] = np.array(
    [[_TILES.index((min(a, b), max(a, b))) for b in range(NUM_VALUES)] for a in range(NUM_VALUES)]
)

#: int64[7] each: mask of the tiles that show a value; that have it as their low or high half (doubles left out).
VALUE_MASK: NDArray[np.int64] = np.array(
    [sum(1 << tile for tile, halves in enumerate(_TILES) if value in halves) for value in range(NUM_VALUES)]
)
LOW_MASK: NDArray[np.int64] = np.array(
    [sum(1 << tile for tile in _NON_DOUBLES if _TILES[tile][0] == value) for value in range(NUM_VALUES)]
)
HIGH_MASK: NDArray[np.int64] = np.array(
    [sum(1 << tile for tile in _NON_DOUBLES if _TILES[tile][1] == value) for value in range(NUM_VALUES)]
)

#: int64[128]: mask of the tiles that fit when the values of this 7-bit set are open.
FITTING: NDArray[np.int64] = np.array(
    [
        sum(1 << tile for tile, (low, high) in enumerate(_TILES) if values >> low & 1 or values >> high & 1)
        for values in range(1 << NUM_VALUES)
    ]
)

#: int64[70] each: the tile a port belongs to, its place among that tile's ports, its value and its kind.
PORT_TILE: NDArray[np.int64] = np.array(
    [TILE_OF[value, value] for value in range(NUM_DOUBLES) for _ in range(4)]
    + [tile for tile in _NON_DOUBLES for _ in range(2)]
)
PORT_SLOT: NDArray[np.int64] = np.arange(NUM_PORTS) - FIRST_PORT[PORT_TILE]
PORT_VALUE: NDArray[np.int64] = np.where((LOW == HIGH)[PORT_TILE] | (PORT_SLOT == 0), LOW[PORT_TILE], HIGH[PORT_TILE])
PORT_KIND: NDArray[np.int64] = np.where((LOW != HIGH)[PORT_TILE], HALF, np.where(PORT_SLOT <= LINE_B, LINE, BRANCH))

_PORT_NAMES = [
    f"{_TILE_NAMES[tile]}.{(HALF_PORT_NAMES if kind == HALF else DOUBLE_PORT_NAMES)[slot]}"
    for tile, slot, kind in zip(PORT_TILE, PORT_SLOT, PORT_KIND, strict=True)
]


def tiles_up_to(max_pip: int) -> int:
    """Return the mask of the tiles of a double-`max_pip` set (R1 is ``max_pip=6``)."""
    return sum(1 << tile for tile, (_, high) in enumerate(_TILES) if high <= max_pip)


def tile_ids(mask: int) -> list[int]:
    """Return the tiles of a mask in ascending order."""
    return [tile for tile in range(NUM_TILES) if mask >> tile & 1]


def tile_name(tile: int) -> str:
    """Return the text of a tile, its smaller half first: "1|4"."""
    return _TILE_NAMES[tile]


def port_name(port: int) -> str:
    """Return the text of a port with its tile: "1|4.low", "1|1.branch_a" (R6)."""
    return _PORT_NAMES[port]
