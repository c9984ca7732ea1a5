"""Where everything on the table lies: tiles, links between joined tiles, and markers at open ports.

A tile is laid against its host where there is room, straight on or round a corner; otherwise it is
laid elsewhere and a thin link shows what it joins. Nothing overlaps, whatever was played: `growing`
lays tiles only where they are clear of everything, and `boxes` can lay out any table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fivesup_env.drawing.boxes import boxed
from fivesup_env.drawing.geometry import Box, Link, Spot
from fivesup_env.drawing.growing import grown
from fivesup_env.drawing.scene import Scene

DEFAULT_TABLE = (52, 26)
# Growing is tried again with more room and care before the whole table is laid out in boxes.
GROWING = ((1.0, 1.0), (1.2, 4.0), (1.6, 10.0))
BADGE_RADIUS = 0.8
DOT_RADIUS = 0.36


@dataclass(frozen=True)
class Marker:
    """The sign at an open port: its points, or None for a port where nothing is counted."""

    tile: int
    port: str
    x: int
    y: int
    points: int | None

    @property
    def radius(self) -> float:
        """The badge of a counted port is larger than the dot of one that is not."""
        return DOT_RADIUS if self.points is None else BADGE_RADIUS

    @property
    def box(self) -> Box:
        """The box around the sign."""
        r = self.radius
        return Box(self.x - r, self.y - r, self.x + r, self.y + r)


@dataclass(frozen=True)
class Layout:
    """The whole table; `spots` has one entry per placed tile, in the same order."""

    spots: tuple[Spot, ...]
    links: tuple[Link, ...]
    markers: tuple[Marker, ...]
    bounds: Box


def lay_out(scene: Scene, table: tuple[int, int] = DEFAULT_TABLE) -> Layout:
    """Lay the scene's tiles on a table of about that width and height.

    The layout of the first tiles stays as it is while more are placed, unless growing comes to a
    dead end; then the whole table is laid out afresh.
    """
    tries = (grown(scene.placed, (round(table[0] * size), round(table[1] * size)), care) for size, care in GROWING)
    spots, links = next(filter(None, tries), None) or boxed(scene.placed)
    markers = tuple(
        Marker(port.tile, port.port, *spots[port.tile].ports[port.port].ahead(1), points)
        for port, points in scene.markers
    )
    return Layout(tuple(spots), tuple(links), markers, _bounds(spots, links, markers))


def _bounds(spots: Sequence[Spot], links: Sequence[Link], markers: Sequence[Marker]) -> Box:
    """The box around everything that is drawn."""
    boxes = [spot.box for spot in spots] + [marker.box for marker in markers]
    boxes += [Box(x, y, x, y) for link in links for x, y in link.points]
    bounds = boxes[0] if boxes else Box(-1, -1, 1, 1)
    for box in boxes[1:]:
        bounds = bounds.joined(box)
    return bounds
