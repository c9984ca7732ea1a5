"""The points of the table as the bits of one long int: one operation looks at all of them.

Bit `index(x, y)` stands for the point (x, y), with the origin in the middle. Areas are ints. The
point to the right is one bit up, the point below is `width` bits up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from fivesup_env.drawing.geometry import STEP, Anchor, Box, spot_from
from fivesup_env.drawing.scene import Placed

# How far a table may be outgrown on each side, and the free rim of the grid around that: whatever
# begins inside ends on the grid.
RIM = 12


class Grid:
    """The grid of a table of some width and height, which starts in the middle."""

    def __init__(self, table: tuple[int, int]) -> None:
        self.width, self.height = 2 * (table[0] + 2 * RIM), 2 * (table[1] + 2 * RIM)
        self.steps = tuple(dx + dy * self.width for dx, dy in STEP)
        self._rects: dict[tuple[int, int], int] = {}
        wide, high = table[0] + RIM, table[1] + RIM
        self.inside = self.rect(Box(-wide, -high, wide, high))
        self._strips: dict[tuple[int, int], int] = {}
        self._footprints = {
            (double, way): self._footprint(Placed(0, 0 if double else 1), way)
            for double in (False, True)
            for way in range(len(STEP))
        }

    def index(self, x: int, y: int) -> int:
        """The bit of a point."""
        return (y + self.height // 2) * self.width + x + self.width // 2

    def point(self, index: int) -> tuple[int, int]:
        """The point of a bit."""
        y, x = divmod(index, self.width)
        return x - self.width // 2, y - self.height // 2

    def rect(self, box: Box) -> int:
        """All points of a box, edges included."""
        size = int(box.right - box.left) + 1, int(box.bottom - box.top) + 1
        area = self._rects.get(size)
        if area is None:
            row = (1 << size[0]) - 1
            area = sum(row << line * self.width for line in range(size[1]))
            self._rects[size] = area
        return area << self.index(int(box.left), int(box.top))

    def edge(self, anchor: Anchor) -> int:
        """The three points in the middle of the edge at a port."""
        along = 1 if anchor.way % 2 else self.width
        middle = 1 << self.index(anchor.x, anchor.y)
        return middle | middle << along | middle >> along

    def strip(self, anchor: Anchor, length: int) -> int:
        """What a line of tiles as long as that would occupy ahead of a port."""
        key = (anchor.way, length)
        if key not in self._strips:
            self._strips[key] = self.rect(strip_box(Anchor(0, 0, anchor.way), length))
        return shifted(self._strips[key], anchor.x + anchor.y * self.width)

    def halo(self, area: int) -> int:
        """The area and all eight neighbours of its points."""
        rows = area | area << 1 | area >> 1
        return rows | rows << self.width | rows >> self.width

    def flooded(self, reached: int, free: int) -> int:
        """All free points connected with those reached."""
        # Without the empty rows below them the ints are shorter.
        low = max(0, ((free & -free).bit_length() - 1) - self.width)
        reached, free = reached >> low, free >> low
        while (wider := reached | self.spread(reached) & free) != reached:
            reached = wider
        return reached << low

    def spread(self, area: int) -> int:
        """The area and the four neighbours of its points."""
        return area | area << 1 | area >> 1 | area << self.width | area >> self.width

    def entries(self, double: bool, way: int, solid: int, near: int) -> int:
        """Where a tile can be entered: it meets nothing solid, and its markers nothing near."""
        tile, markers = self._footprints[double, way]
        taken = 0
        for step in tile:
            taken |= shifted(solid, -step)
        for step in markers:
            taken |= shifted(near, -step)
        return self.inside & ~taken

    def _footprint(self, tile: Placed, way: int) -> tuple[list[int], list[int]]:
        """The points of a tile entered at the origin, and those of its markers, as bit steps."""
        spot = spot_from(tile, Anchor(0, 0, way), near_low=True)
        left, top, right, bottom = (int(side) for side in spot.box)
        points = [(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)]
        markers = [port.ahead(1) for port in spot.ports.values()]
        return [self._step(*point) for point in points], [self._step(*point) for point in markers]

    def _step(self, x: int, y: int) -> int:
        return x + y * self.width


@lru_cache(maxsize=16)
def grid_for(table: tuple[int, int]) -> Grid:
    """The grid of a table of that size."""
    return Grid(table)


def strip_box(anchor: Anchor, length: int) -> Box:
    """The box of a strip as wide as a tile, from one unit ahead of a port on."""
    (x0, y0), (x1, y1) = anchor.ahead(1), anchor.ahead(length)
    wide, high = (0, 1) if anchor.way % 2 == 0 else (1, 0)
    return Box(min(x0, x1) - wide, min(y0, y1) - high, max(x0, x1) + wide, max(y0, y1) + high)


def shifted(area: int, step: int) -> int:
    """The area moved by so many bits."""
    return area << step if step >= 0 else area >> -step


def bits(area: int) -> Iterator[int]:
    """The bits that are set, lowest first."""
    while area:
        lowest = area & -area
        yield lowest.bit_length() - 1
        area ^= lowest
