"""The layout that always succeeds: every branch in a box of its own, held apart by straight links.

The box of a tile holds the tile and all that hangs on it. Whatever continues a line begins beyond
its host, with a link as long as its box reaches back. A branch begins beyond everything that the
double's line carries on either side. So boxes never meet, and a link runs only where nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fivesup_env.drawing.geometry import Anchor, Link, Spot, opening_spot, spot_from
from fivesup_env.drawing.scene import Placed

# A free end needs this much for its marker, boxes keep this far apart, and a link is this long at
# least, so that it can be seen.
MARKER_ROOM = 2
GAP = 1
SHORTEST_LINK = 2


class _Reach(NamedTuple):
    """How far a box reaches from its entry: backwards, ahead, to the left and to the right."""

    back: int
    ahead: int
    left: int
    right: int


class _Boxes:
    """The sizes of the boxes, worked out from the last tile placed to the first."""

    def __init__(self, placed: Sequence[Placed]) -> None:
        self.children: list[dict[str, int]] = [{} for _ in placed]
        for index, tile in enumerate(placed[1:], start=1):
            if tile.host is not None and tile.host_port is not None:
                self.children[tile.host][tile.host_port] = index
        self.placed = placed
        self.reach: list[_Reach] = [_Reach(0, 0, 0, 0)] * len(placed)
        for index in reversed(range(len(placed))):
            self.reach[index] = self._measure(index)

    def link(self, index: int, port: str) -> int:
        """How long the link from a port to the tile joined there must be."""
        return self._length(self.children[index][port], self._shoulder(index, port))

    def _shoulder(self, index: int, port: str) -> int:
        """How far the lines of a double reach to the side on which a branch leaves."""
        if not port.startswith("branch"):
            return 0
        children, reach = self.children[index], self.reach
        # line_a of an opening double looks the other way, so its left is the branch_b side.
        left_of = {"line_b": port == "branch_a", "line_a": port == "branch_b"}
        sides = [
            reach[children[line]].left if left else reach[children[line]].right
            for line, left in left_of.items()
            if line in children
        ]
        # A branch begins two units away from the line; a non-double there reaches out only one.
        return max([0, *(side - 2 + GAP for side in sides)])

    def _length(self, child: int, shoulder: int) -> int:
        """Beside the host where nothing is in the way, else a link with room for the box."""
        back = self.reach[child].back
        need = shoulder + (back and back + GAP)
        return need and max(need, SHORTEST_LINK)

    def _measure(self, index: int) -> _Reach:
        """The reach of a tile's box, given those of all that hangs on it."""
        tile = self.placed[index]
        length, side = (2, 2) if tile.is_double else (4, 1)
        end = side + MARKER_ROOM if tile.is_double else side
        back, ahead, left, right = 0, length + MARKER_ROOM, end, end
        for port, child in self.children[index].items():
            out, reach = self.link(index, port), self.reach[child]
            if port == "branch_a":
                left = max(left, side + out + reach.ahead)
                back, ahead = max(back, reach.left - 1), max(ahead, 1 + reach.right)
            elif port == "branch_b":
                right = max(right, side + out + reach.ahead)
                back, ahead = max(back, reach.right - 1), max(ahead, 1 + reach.left)
            else:
                ahead = max(ahead, length + out + reach.ahead)
                left, right = max(left, reach.left), max(right, reach.right)
        return _Reach(back, ahead, left, right)


def boxed(placed: Sequence[Placed]) -> tuple[list[Spot], list[Link]]:
    """Lay out any table; the links are straight."""
    boxes = _Boxes(placed)
    spots: list[Spot] = []
    links: list[Link] = []
    for index, tile in enumerate(placed):
        if tile.host is None or tile.host_port is None:
            spots.append(opening_spot(tile))
            continue
        anchor = spots[tile.host].ports[tile.host_port]
        length = boxes.link(tile.host, tile.host_port)
        entry = Anchor(*anchor.ahead(length), anchor.way)
        near_low = tile.low == placed[tile.host].value(tile.host_port)
        spots.append(spot_from(tile, entry, near_low))
        if length:
            links.append(Link(index, ((anchor.x, anchor.y), (entry.x, entry.y))))
    return spots, links
