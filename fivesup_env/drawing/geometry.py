"""Places on the table: boxes, the edges of tiles where others join, and how a tile lies.

Lengths are in units of half a tile half: a half is a square of 2 by 2, a tile 4 by 2, and all edges
and middles have whole coordinates, x to the right and y downwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fivesup_env.drawing.scene import Placed

EAST, SOUTH, WEST, NORTH = range(4)
STEP = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Anchor(NamedTuple):
    """The middle of a tile's edge and the way that leads out of the tile there."""

    x: int
    y: int
    way: int

    def ahead(self, distance: int) -> tuple[int, int]:
        """The point so far out of the tile."""
        dx, dy = STEP[self.way]
        return self.x + distance * dx, self.y + distance * dy


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def joined(self, other: Box) -> Box:
        """The smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def widened(self, by: float) -> Box:
        """The box larger by so much on every side."""
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)


@dataclass(frozen=True)
class Spot:
    """Where a tile lies: its box, the middles of its halves (low first) and its ports."""

    box: Box
    halves: tuple[tuple[int, int], tuple[int, int]]
    ports: Mapping[str, Anchor]

    @property
    def upright(self) -> bool:
        """Whether the halves lie one above the other."""
        return self.halves[0][0] == self.halves[1][0]


@dataclass(frozen=True)
class Link:
    """A thin line from the host's edge to the edge of a tile that lies away from it."""

    tile: int
    points: tuple[tuple[int, int], ...]


def opening_spot(tile: Placed) -> Spot:
    """The opening tile in the middle: a non-double from left to right, a double upright."""
    if not tile.is_double:
        spot = spot_from(tile, Anchor(-2, 0, EAST), near_low=True)
        return Spot(spot.box, spot.halves, {"low": Anchor(-2, 0, WEST), **spot.ports})
    spot = spot_from(tile, Anchor(-1, 0, EAST), near_low=True)
    return Spot(spot.box, spot.halves, {"line_a": Anchor(-1, 0, WEST), **spot.ports})


def spot_from(tile: Placed, entry: Anchor, near_low: bool) -> Spot:
    """Lay a tile that is entered at the middle of its edge, going `entry.way`.

    A non-double lies along the way, a double across it. The port that it joins by is left out.
    """
    if tile.is_double:
        return _across(entry)
    near, far, end = entry.ahead(1), entry.ahead(3), entry.ahead(4)
    port = "high" if near_low else "low"
    halves = (near, far) if near_low else (far, near)
    return Spot(_box_around(near, far), halves, {port: Anchor(*end, entry.way)})


def _across(entry: Anchor) -> Spot:
    """Lay a double across the way; its branches leave at right angles, its line goes on."""
    x, y = entry.ahead(1)
    left, right = (entry.way + 3) % 4, (entry.way + 1) % 4
    (lx, ly), (rx, ry) = STEP[left], STEP[right]
    ports = {
        "line_b": Anchor(*entry.ahead(2), entry.way),
        "branch_a": Anchor(x + 2 * lx, y + 2 * ly, left),
        "branch_b": Anchor(x + 2 * rx, y + 2 * ry, right),
    }
    halves = ((x + lx, y + ly), (x + rx, y + ry))
    return Spot(_box_around(*halves), halves, ports)


def _box_around(first: tuple[int, int], second: tuple[int, int]) -> Box:
    """The box of a tile with these two middles of its halves."""
    (x0, y0), (x1, y1) = min(first, second), max(first, second)
    return Box(min(x0, x1) - 1, min(y0, y1) - 1, max(x0, x1) + 1, max(y0, y1) + 1)
