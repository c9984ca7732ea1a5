"""A scene as plain text: a drawing on a grid of characters, and the rest of it in lines below.

A unit of the layout is two characters wide and one line high, which is about square in a terminal.
Where the drawing would be too wide, the tiles are listed instead, line by line of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from textwrap import wrap

from fivesup_env.drawing.geometry import Link, Spot
from fivesup_env.drawing.layout import Layout, Marker, lay_out
from fivesup_env.drawing.scene import Hand, OpenPort, Placed, Scene, joining_port, score_text

DEFAULT_WIDTH = 100
LEAST_WIDTH = 20
# The tables that are tried: the width in parts of what there is, the height in parts of the width.
# A drawing may outgrow its table, and a high one scrolls off the screen.
TABLES = ((1.0, 0.6), (0.85, 0.8), (0.7, 1.2))


def text_diagram(scene: Scene, width: int = DEFAULT_WIDTH) -> str:
    """Draw a scene in characters, with no line longer than `width`."""
    if width < LEAST_WIDTH:
        raise ValueError(f"a diagram needs a width of at least {LEAST_WIDTH}, not {width}")
    tries = (_drawn(scene, width, round(part * width / 2), shape) for part, shape in TABLES)
    table = next((lines for lines in tries if lines), None)
    if table is None:
        table = [part for line in _listed(scene) for part in _wrapped(line, width)]
    below = [part for line in _below(scene) for part in _wrapped(line, width)]
    blocks = [_wrapped(scene.caption, width), table, below]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    """A line of text, with what does not fit in indented lines below it."""
    return wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)


# The drawing


def _drawn(scene: Scene, width: int, units: int, shape: float) -> list[str] | None:
    """The table on a grid of characters; None if that would be too wide."""
    layout = lay_out(scene, (units, round(units * shape)))
    signs = dict(_signs(scene, layout))
    if not signs:
        return ["(no tiles on the table)"]
    left, right = min(x for x, _ in signs), max(x for x, _ in signs)
    top, bottom = min(y for _, y in signs), max(y for _, y in signs)
    if right - left >= width:
        return None
    rows = range(top, bottom + 1)
    lines = ["".join(signs.get((x, y), " ") for x in range(left, right + 1)) for y in rows]
    return [line.rstrip() for line in lines]


def _signs(scene: Scene, layout: Layout) -> Iterator[tuple[tuple[int, int], str]]:
    """The characters of the drawing and where they stand."""
    for link in layout.links:
        yield from _link(link)
    for tile, spot in zip(scene.placed, layout.spots, strict=True):
        yield from _tile(tile, spot)
    for marker in layout.markers:
        yield from _marker(marker)


def _at(x: int, y: int, text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """A text that begins one character left of a point of the layout."""
    for number, sign in enumerate(text, start=2 * x - 1):
        yield (number, y), sign


def _tile(tile: Placed, spot: Spot) -> Iterator[tuple[tuple[int, int], str]]:
    """A tile such as `[1 | 4]`, or the same from top to bottom."""
    (first, (x0, y0)), (second, (x1, y1)) = sorted(
        zip((tile.low, tile.high), spot.halves, strict=True), key=lambda half: half[1]
    )
    if not spot.upright:
        yield from _at(x0, y0, f"[{first} | {second}]")
        return
    yield from _at(x0, y0, f"[{first}]")
    yield from _at(x0, y0 + 1, "---")
    yield from _at(x1, y1, f"[{second}]")


def _link(link: Link) -> Iterator[tuple[tuple[int, int], str]]:
    """A dotted line."""
    for (x0, y0), (x1, y1) in pairwise(link.points):
        for x in range(2 * min(x0, x1), 2 * max(x0, x1) + 1):
            for y in range(min(y0, y1), max(y0, y1) + 1):
                yield (x, y), "." if y0 == y1 else ":"


def _marker(marker: Marker) -> Iterator[tuple[tuple[int, int], str]]:
    """A number in brackets where something is counted, else a small circle."""
    sign = " o " if marker.points is None else f"({marker.points})"
    return ((at, char) for at, char in _at(marker.x, marker.y, sign) if char != " ")


# The listing


def _listed(scene: Scene) -> list[str]:
    """Each line of the table in a text line of its own, from the tile where it begins."""
    children = {(tile.host, tile.host_port): index for index, tile in enumerate(scene.placed) if index}
    markers = {(port.tile, port.port): points for port, points in scene.markers}
    lines = [f"Opening [{scene.placed[0]}]"]
    for index, tile in enumerate(scene.placed):
        entered = () if index == 0 else (_entry(scene, index), _way_on(scene, index))
        for port in tile.ports:
            if port not in entered and (index, port) in children:
                run = _run(scene, children, markers, children[index, port])
                lines.append(f"{tile}.{port}: {run}")
    return lines


def _run(
    scene: Scene,
    children: dict[tuple[int | None, str | None], int],
    markers: dict[tuple[int, str], int | None],
    index: int,
) -> str:
    """The tiles from one on, as far as their line goes, and what its end counts."""
    tiles = []
    while True:
        tiles.append(f"[{scene.placed[index]}]")
        end = (index, _way_on(scene, index))
        if end not in children:
            break
        index = children[end]
    points = markers.get(end)
    return " ".join(tiles) + ("" if points is None else f" ({points})")


def _entry(scene: Scene, index: int) -> str:
    """The port by which a tile joins its host."""
    tile = scene.placed[index]
    assert tile.host is not None and tile.host_port is not None
    return joining_port(tile, scene.placed[tile.host].value(tile.host_port))


def _way_on(scene: Scene, index: int) -> str:
    """The port at which the line of a joined tile goes on."""
    return {"low": "high", "high": "low", "line_a": "line_b"}[_entry(scene, index)]


# The lines below


def _below(scene: Scene) -> Iterator[str]:
    """All that is not on the table itself."""
    counted = [f"{_port(scene, at)} counts {points}" for at, points in scene.markers if points is not None]
    others = [_port(scene, at) for at, points in scene.markers if points is None]
    yield f"Ends total: {scene.total}"
    if counted:
        yield f"Counted (n): {', '.join(counted)}"
    if others:
        yield f"Open, not counted o: {', '.join(others)}"
    yield f"Boneyard: {scene.boneyard}"
    for side in scene.sides:
        yield f"{side.label}: {score_text(side, scene.target)}"
    for hand in scene.hands:
        yield _hand(hand)


def _port(scene: Scene, at: OpenPort) -> str:
    """A port and its value."""
    return f"{scene.placed[at.tile]}.{at.port} of {at.value}"


def _hand(hand: Hand) -> str:
    """The tiles of a hand."""
    tiles = " ".join("[?]" if tile is None else f"[{tile}]" for tile in hand.tiles) or "no tiles"
    return f"{hand.label}{' (to move)' if hand.to_move else ''}: {tiles}"
