"""The layout that people make: tile after tile, straight on where there is room, else aside.

A tile may share points of the grid only with the edge that it joins; so tiles that are not joined
lie at least one unit apart, and links cross nothing. Of the places that fit, the cheapest is taken:
costs are for bends, links, outgrowing the table, and for leaving other ports without room. A tile's
place depends on the tiles before it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from fivesup_env.drawing.geometry import Anchor, Box, Link, Spot, opening_spot, spot_from
from fivesup_env.drawing.grid import Grid, bits, grid_for, shifted
from fivesup_env.drawing.scene import Placed

# Costs, by what a reader minds. One is about as bad as a table half a unit too large.
BEND = 2.0
LINK = 6.0
LINK_STEP = 1.0
LINK_CORNER = 1.7
OUTGROWN = 2.5
# A port that cannot be reached from outside: not with a link, or not with a tile beside a link.
SHUT_IN = 30.0
NARROW = 5.0
# A port with not even so many free units straight ahead, the longest first.
RUNS = ((13, 0.7), (9, 1.3), (5, 1.5), (3, 1.0))

# What a link costs at least.
SHORTEST_LINK = LINK + 2 * LINK_STEP
LONGEST_LINK = 40
# How many links are tried for one tile, and of those that are equally long and end the same way.
MOST_LINKS = 30
MOST_ALIKE = 4


def grown(placed: Sequence[Placed], table: tuple[int, int], care: float = 1.0) -> tuple[list[Spot], list[Link]] | None:
    """Lay the tiles one by one; None if there is no place left for one of them.

    The more `care`, the more is given to keep all ports within reach.
    """
    if not placed:
        return [], []
    growth = Growth(placed[0], table, care)
    for tile in placed[1:]:
        assert tile.host is not None and tile.host_port is not None
        near_low = placed[tile.host].value(tile.host_port) == tile.low
        if not growth.add(tile, (tile.host, tile.host_port), near_low):
            return None
    return growth.spots, growth.links


class Port:
    """An open port as the layout sees it: the point of its marker and the room ahead of it."""

    def __init__(self, grid: Grid, anchor: Anchor) -> None:
        self.anchor = anchor
        self.marker = 1 << grid.index(*anchor.ahead(1))
        self.longest = grid.strip(anchor, RUNS[0][0]) & ~self.marker
        self.cost = 0.0
        self._grid = grid

    def cramped(self, taken: int) -> float:
        """What it costs that the port has so little room."""
        taken &= self.longest
        cost = 0.0
        for length, price in RUNS:
            if not (taken and self._grid.strip(self.anchor, length) & taken):
                break
            cost += price
        return cost


class Path(NamedTuple):
    """A link: its ends and corners, the way it goes at its end, its cost, that of any so long."""

    corners: tuple[tuple[int, int], ...]
    way: int
    cost: float
    least_cost: float


class Place:
    """A place for a tile, with the corners of the link that leads there, if any."""

    def __init__(self, grid: Grid, spot: Spot, cost: float, corners: tuple[tuple[int, int], ...] = ()) -> None:
        self.spot = spot
        self.cost = cost
        self.corners = corners
        self.tile = grid.rect(spot.box)
        self.link = 0
        for start, end in pairwise(corners):
            self.link |= grid.rect(Box(*min(start, end), *max(start, end)))
        self.ports = [Port(grid, anchor) for anchor in spot.ports.values()]
        self.markers = 0
        for port in self.ports:
            self.markers |= port.marker
        self.bounds = self._bounds()

    def _bounds(self) -> Box:
        """The box around the tile, its link and its markers."""
        left, top, right, bottom = self.spot.box
        for x, y in (*self.corners, *(port.anchor.ahead(2) for port in self.ports)):
            left, right = min(left, x), max(right, x)
            top, bottom = min(top, y), max(bottom, y)
        return Box(left, top, right, bottom)


class Growth:
    """A table while it grows."""

    def __init__(self, opening: Placed, table: tuple[int, int], care: float) -> None:
        self.table = table
        self.care = care
        self.grid = grid_for(table)
        self.spots: list[Spot] = []
        self.links: list[Link] = []
        self.ports: dict[tuple[int, str], Port] = {}
        # The points of tiles and links, those of links alone, and those of the markers.
        self.solid = 0
        self.lines = 0
        self.markers = 0
        place = Place(self.grid, opening_spot(opening), 0.0)
        self.bounds = place.bounds
        self._lay(place)

    def add(self, tile: Placed, joined: tuple[int, str], near_low: bool) -> bool:
        """Lay the next tile; False if there is no place for it."""
        port = self.ports.pop(joined)
        self.markers &= ~port.marker
        # Branches leave a double at right angles, and its line goes straight on.
        bends = joined[1] in ("low", "high") and not tile.is_double
        choice = Choice(self, self.spots[joined[0]])
        choice.look_at(self._beside(tile, port.anchor, near_low, bends))
        if choice.cost > SHORTEST_LINK:
            self._look_further(choice, tile, port.anchor, near_low)
        if choice.best is None:
            return False
        self._lay(choice.best)
        return True

    def _look_further(self, choice: Choice, tile: Placed, anchor: Anchor, near_low: bool) -> None:
        """Look at places at the end of links, as long as one could be cheaper."""
        tries = MOST_LINKS
        for path in self._paths(anchor, tile.is_double):
            if tries == 0 or path.least_cost >= choice.cost:
                break
            if path.cost < choice.cost:
                choice.look_at(self._at_end(tile, path, near_low))
                tries -= 1

    def _lay(self, place: Place) -> None:
        """Take a tile and its link into the table."""
        index = len(self.spots)
        if place.corners:
            self.links.append(Link(index, place.corners))
        self.spots.append(place.spot)
        self.bounds = self.bounds.joined(place.bounds)
        self.solid |= place.tile | place.link
        self.lines |= place.link
        self.markers |= place.markers
        for name, port in zip(place.spot.ports, place.ports, strict=True):
            self.ports[index, name] = port
        for port in self.ports.values():
            port.cost = port.cramped(self.solid | self.markers)

    def _beside(self, tile: Placed, anchor: Anchor, near_low: bool, bends: bool) -> list[Place]:
        """The places against the host: straight on, and round a corner where that is allowed."""
        places = [Place(self.grid, spot_from(tile, anchor, near_low), 0.0)]
        for way in ((anchor.way + 1) % 4, (anchor.way + 3) % 4) if bends else ():
            middle = Anchor(*anchor.ahead(1), way)
            entry = Anchor(*middle.ahead(-1), way)
            places.append(Place(self.grid, spot_from(tile, entry, near_low), BEND))
        return [place for place in places if self._fits(place, anchor)]

    def _fits(self, place: Place, anchor: Anchor) -> bool:
        """Whether a tile against its host meets nothing but the edge that it joins."""
        tile = place.tile & ~self.grid.edge(anchor)
        clear = not (tile & (self.solid | self.markers) or place.markers & self._near())
        return clear and not tile & ~self.grid.inside

    def _near(self) -> int:
        """The points where another marker would be too near to something."""
        grid = self.grid
        return self.solid | grid.halo(self.markers) | grid.spread(self.lines)

    def _paths(self, anchor: Anchor, double: bool) -> Iterator[Path]:
        """The links from a port to where a tile has room, the shortest first."""
        grid = self.grid
        solid, near = self.solid | self.markers, self._near()
        room: dict[int, int] = {}
        free = grid.inside & ~(self.solid | grid.spread(self.markers))
        # The points that a link reaches with 0, 1, 2, … steps, but not with fewer.
        layers = [1 << grid.index(anchor.x, anchor.y), 1 << grid.index(*anchor.ahead(1)) & free]
        seen = layers[0] | layers[1]
        while layers[-1] and len(layers) <= LONGEST_LINK:
            layers.append(grid.spread(layers[-1]) & free & ~seen)
            seen |= layers[-1]
            for way in range(4):
                reached = layers[-1] & shifted(layers[-2], grid.steps[way])
                if reached and way not in room:
                    room[way] = grid.entries(double, way, solid, near)
                ends = [*bits(reached & room[way])] if reached else []
                for end in ends[:: 1 + len(ends) // MOST_ALIKE]:
                    yield self._path(layers, end, way)

    def _path(self, layers: Sequence[int], end: int, way: int) -> Path:
        """The link that ends at a point of the last layer, going that way, with few corners."""
        steps, here, on = self.grid.steps, end, way
        corners = [end]
        for layer in reversed(layers[:-1]):
            if not layer >> (here - steps[on]) & 1:
                on = next(w for w in range(4) if layer >> (here - steps[w]) & 1)
                corners.append(here)
            here -= steps[on]
        points = tuple(self.grid.point(index) for index in (here, *reversed(corners)))
        least = LINK + LINK_STEP * (len(layers) - 1)
        return Path(points, way, least + LINK_CORNER * (len(points) - 2), least)

    def _at_end(self, tile: Placed, path: Path, near_low: bool) -> list[Place]:
        """The place where a link leads, if the link keeps clear of it."""
        end = path.corners[-1]
        spot = spot_from(tile, Anchor(*end, path.way), near_low)
        place = Place(self.grid, spot, path.cost, path.corners)
        link = place.link & ~(1 << self.grid.index(*end))
        clear = not link & (place.tile | self.grid.spread(place.markers))
        return [place] if clear else []


class Choice:
    """The search for the cheapest place for one tile, all that it does to the table included."""

    def __init__(self, table: Growth, host: Spot) -> None:
        self.table = table
        self.best: Place | None = None
        self.cost = float("inf")
        self._host = table.grid.rect(host.box.widened(2))
        self._shut_in_now: float | None = None

    def look_at(self, places: Iterable[Place]) -> None:
        """Keep the cheapest of the places and the best so far; of equals, the first."""
        for place in places:
            cost = place.cost
            if cost < self.cost:
                cost += self._crowding(place)
            if cost < self.cost:
                cost += self._shutting(place)
            if cost < self.cost:
                self.best, self.cost = place, cost

    def _crowding(self, place: Place) -> float:
        """What a place costs by the room it takes: on the table and ahead of the open ports."""
        table = self.table
        outgrown = self._size(table.bounds.joined(place.bounds)) - self._size(table.bounds)
        new = place.tile | place.link | place.markers
        taken = table.solid | table.markers | new
        cost = OUTGROWN * outgrown + sum(port.cramped(taken) for port in place.ports)
        for port in table.ports.values():
            if port.longest & new:
                cost += port.cramped(taken) - port.cost
        return cost

    def _size(self, bounds: Box) -> float:
        """The width of the smallest table of the right shape that holds the bounds."""
        width, height = self.table.table
        wide, high = bounds.right - bounds.left, bounds.bottom - bounds.top
        return max(width, wide, high * width / height)

    def _shutting(self, place: Place) -> float:
        """What a place costs by shutting in ports."""
        table = self.table
        around = table.grid.rect(place.spot.box.widened(4)) & ~self._host
        if not place.corners and not around & (table.solid | table.markers):
            return 0.0
        cost = self._shut_in(place)
        if cost and self._shut_in_now is None:
            self._shut_in_now = self._shut_in(None)
        return cost and table.care * (cost - (self._shut_in_now or 0.0))

    def _shut_in(self, place: Place | None) -> float:
        """What it costs that ports cannot be reached from outside, with a tile there or without."""
        table, grid = self.table, self.table.grid
        bounds, solid, markers = table.bounds, table.solid, table.markers
        if place is not None:
            bounds = bounds.joined(place.bounds)
            solid |= place.tile | place.link
            markers |= place.markers
        room = grid.rect(bounds.widened(6))
        rim = room & ~grid.rect(bounds.widened(1))
        # Where points reach that are two units away from everything, a tile beside a link gets to.
        taken = grid.halo(grid.halo(solid | markers))
        reached = grid.halo(grid.halo(grid.flooded(rim & ~taken, room & ~taken)))
        narrow = (markers & ~grid.spread(reached)).bit_count()
        if not narrow:
            return 0.0
        # Links alone get further; they keep one unit away from markers.
        reached = grid.flooded(rim, room & ~(solid | grid.spread(markers)))
        shut = (markers & ~grid.spread(grid.spread(reached))).bit_count()
        return SHUT_IN * shut + NARROW * narrow
