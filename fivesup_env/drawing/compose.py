"""The picture of a scene: scores above, the table in the middle, the hands below.

Everything is designed on a sheet of at least 1200 by 900 and scaled to the size asked for, so the
proportions of text and tiles are the same in every size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, sqrt
from typing import TypeVar

from fivesup_env.drawing.geometry import Box
from fivesup_env.drawing.layout import Layout, Marker, lay_out
from fivesup_env.drawing.picture import Circle, Line, Picture, Rect, Shape, Text, fitted, scaled, text_width
from fivesup_env.drawing.scene import Hand, Scene, Side, score_text, tile_halves

DEFAULT_SIZE = (1200, 900)

T = TypeVar("T")

# Orange and blue stay apart for colour-blind eyes, and as light and dark on paper.
GROUND = "#ffffff"
TABLE = "#eef2ee"
TABLE_EDGE = "#c3ccc4"
TILE = "#fffdf7"
INK = "#1d2430"
MUTED = "#5a6472"
FRAME = "#e08a00"
COUNTED = "#0b5fa5"
BACK = "#8b95a3"
BACK_LIGHT = "#aab3be"
BAR = "#d9dee5"
ON_DARK = "#ffffff"

# The sheet, from the outside in.
MARGIN = 24.0
GAP = 14.0
HEADER = 40.0
SCORES = 64.0
HANDS = 116.0
LEGEND = 34.0
PADDING = 12.0
# Pixels per unit of the table at most: a lone tile should not fill the sheet.
LARGEST_UNIT = 36.0
# The area, in square units, of the table that the layout tries to keep to.
TABLE_AREA = 1350
LARGEST_HAND_TILE = 32.0
MOST_HAND_ROWS = 3

# Where the pips of a half lie in an upright tile, in parts of its side from the middle.
PIP = 0.085
_O = 0.235
PIPS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((0, 0),),
    ((-_O, -_O), (_O, _O)),
    ((-_O, -_O), (0, 0), (_O, _O)),
    ((-_O, -_O), (_O, -_O), (-_O, _O), (_O, _O)),
    ((-_O, -_O), (_O, -_O), (0, 0), (-_O, _O), (_O, _O)),
    ((-_O, -_O), (_O, -_O), (-_O, 0), (_O, 0), (-_O, _O), (_O, _O)),
)


def picture_of(scene: Scene, size: tuple[int, int] = DEFAULT_SIZE) -> Picture:
    """Draw a scene as a picture of that width and height."""
    width, height = size
    if width < 1 or height < 1:
        raise ValueError(f"a picture cannot have the size {width} x {height}")
    scale = min(width / DEFAULT_SIZE[0], height / DEFAULT_SIZE[1])
    shapes = _sheet(scene, width / scale, height / scale)
    return Picture(
        width,
        height,
        GROUND,
        tuple(scaled(shape, scale) for shape in shapes),
        title=scene.caption or "Five-Up",
        description=_description(scene),
    )


def _description(scene: Scene) -> str:
    """The position in a few sentences."""
    tiles = " ".join(f"[{tile}]" for tile in scene.placed) or "none"
    counted = sum(points is not None for _, points in scene.markers)
    parts = [
        f"Tiles on the table, in order of placement: {tiles}.",
        f"The ends count {scene.total}: {counted} counted, {len(scene.markers) - counted} not.",
        *(f"{side.label}: {score_text(side, scene.target)}." for side in scene.sides),
        *(f"{hand.label} is to move." for hand in scene.hands if hand.to_move),
        f"Boneyard: {scene.boneyard}.",
    ]
    return " ".join(parts)


def _sheet(scene: Scene, width: float, height: float) -> Iterator[Shape]:
    """All shapes, from top to bottom."""
    left, right = MARGIN, width - MARGIN
    top, bottom = MARGIN, height - MARGIN
    yield from _header(scene, Box(left, top, right, top + HEADER))
    top += HEADER + GAP
    if scene.sides:
        for side, box in _columns(scene.sides, Box(left, top, right, top + SCORES)):
            yield from _side(side, scene.target, box)
        top += SCORES + GAP
    if scene.hands:
        for hand, box in _columns(scene.hands, Box(left, bottom - HANDS, right, bottom)):
            yield from _hand(hand, box)
        bottom -= HANDS + GAP
    yield from _table(scene, Box(left, top, right, bottom))


def _columns(items: Sequence[T], box: Box) -> Iterator[tuple[T, Box]]:
    """Share a box among the items, side by side."""
    width = (box.right - box.left + GAP) / len(items)
    for number, item in enumerate(items):
        left = box.left + number * width
        yield item, Box(left, box.top, left + width - GAP, box.bottom)


def _header(scene: Scene, box: Box) -> Iterator[Shape]:
    """The caption, and on the right what is left to draw and what the ends count."""
    middle = (box.top + box.bottom) / 2
    x = box.right
    total = str(scene.total)
    width = max(44.0, text_width(total, 22) + 20)
    yield Rect("total", x - width, box.top, width, HEADER, COUNTED, radius=HEADER / 2)
    yield Text("total", x - width / 2, middle, total, 22, ON_DARK, "middle")
    x -= width + 10
    for role, words in (("total", "Ends total"), ("boneyard", f"Boneyard {scene.boneyard}")):
        yield Text(role, x, middle, words, 18, INK, "end")
        x -= text_width(words, 18) + 20
    yield from _back(Box(x - 3, middle - 15, x + 12, middle + 15))
    room = x - 30 - box.left
    yield Text("caption", box.left, middle, fitted(scene.caption, 24, room), 24, INK)


def _side(side: Side, target: int, box: Box) -> Iterator[Shape]:
    """The score of a side, in words and as a bar that is full at the target."""
    left, right = box.left + PADDING, box.right - PADDING
    yield _panel("side", box)
    label = fitted(side.label, 15, right - left)
    yield Text("side", left, box.top + 16, label, 15, MUTED)
    score = fitted(score_text(side, target), 18, right - left)
    yield Text("score", left, box.top + 37, score, 18, INK)
    top = box.bottom - 13
    yield Rect("bar", left, top, right - left, 5, BAR, radius=2.5)
    part = min(1.0, max(0.0, side.raw / target)) * (right - left)
    if part >= 5:
        yield Rect("bar", left, top, part, 5, COUNTED, radius=2.5)


def _panel(role: str, box: Box, strong: bool = False) -> Rect:
    """The ground of a part of the sheet."""
    stroke, width = (INK, 3.0) if strong else (TABLE_EDGE, 1.5)
    wide, high = box.right - box.left, box.bottom - box.top
    return Rect(role, box.left, box.top, wide, high, GROUND, stroke, width, radius=10)


# Hands


def _hand(hand: Hand, box: Box) -> Iterator[Shape]:
    """The tiles of one seat, face down where they are hidden."""
    left, right, line = box.left + PADDING, box.right - PADDING, box.top + 19
    yield _panel("to_move" if hand.to_move else "hand", box, strong=hand.to_move)
    count = f"{len(hand.tiles)} tile" + "s" * (len(hand.tiles) != 1)
    if hand.to_move:
        width = text_width("to move", 14) + 22
        yield Rect("to_move", right - width, line - 11, width, 22, INK, radius=11)
        yield Text("to_move", right - width / 2, line, "to move", 14, ON_DARK, "middle")
        right -= width + 10
    label = fitted(hand.label, 16, right - left - text_width(count, 14) - 12)
    yield Text("hand", left, line, label, 16, INK)
    yield Text("hand", left + text_width(label, 16) + 12, line, count, 14, MUTED)
    tiles = Box(left, box.top + 38, box.right - PADDING, box.bottom - 10)
    for tile, place in zip(hand.tiles, _rows(len(hand.tiles), tiles), strict=True):
        yield from _back(place) if tile is None else _upright(tile, place)


def _rows(count: int, box: Box) -> Iterator[Box]:
    """Places for upright tiles, in as many rows as make them largest."""
    wide, high, gap = box.right - box.left, box.bottom - box.top, 5.0

    def side(rows: int) -> float:
        columns = max(1, ceil(count / rows))
        across, down = (wide + gap) / columns - gap, ((high + gap) / rows - gap) / 2
        return min(across, down, LARGEST_HAND_TILE)

    rows = max(range(1, MOST_HAND_ROWS + 1), key=side)
    columns = max(1, ceil(count / rows))
    for number in range(count):
        row, column = divmod(number, columns)
        left = box.left + column * (side(rows) + gap)
        top = box.top + row * (2 * side(rows) + gap)
        yield Box(left, top, left + side(rows), top + 2 * side(rows))


def _upright(tile: str, place: Box) -> Iterator[Shape]:
    """A tile of a hand."""
    side = place.right - place.left
    x = place.left + side / 2
    halves = ((x, place.top + side / 2), (x, place.bottom - side / 2))
    yield from _tile("hand_tile", place, tile_halves(tile), halves, side)


def _back(place: Box) -> Iterator[Shape]:
    """A tile that lies face down."""
    side = place.right - place.left
    edge = side * 0.16
    wide, high = side, place.bottom - place.top
    yield Rect("back", place.left, place.top, wide, high, BACK, radius=side * 0.16)
    yield Rect(
        "back_line", place.left + edge, place.top + edge, wide - 2 * edge, high - 2 * edge,
        None, BACK_LIGHT, side * 0.06, radius=side * 0.08,
    )  # fmt: skip


# The table


def _table(scene: Scene, box: Box) -> Iterator[Shape]:
    """Everything that lies on the table, as large as it fits, and what the signs mean."""
    wide, high = box.right - box.left, box.bottom - box.top
    yield Rect("table", box.left, box.top, wide, high, TABLE, TABLE_EDGE, 1.5, radius=14)
    yield from _legend(box.left + PADDING, box.bottom - LEGEND / 2)
    wide, high = wide - 2 * PADDING, high - LEGEND - PADDING
    size = sqrt(TABLE_AREA / (wide * high))
    layout = lay_out(scene, (round(wide * size), round(high * size)))
    bounds = layout.bounds
    unit = min(
        LARGEST_UNIT,
        wide / (bounds.right - bounds.left + 1),
        high / (bounds.bottom - bounds.top + 1),
    )
    x = (box.left + box.right - unit * (bounds.left + bounds.right)) / 2
    y = box.top + (PADDING + high - unit * (bounds.top + bounds.bottom)) / 2
    for shape in _on_table(scene, layout):
        yield scaled(shape, unit, x, y)


def _on_table(scene: Scene, layout: Layout) -> Iterator[Shape]:
    """Links, tiles and markers, in units of the layout."""
    for link in layout.links:
        yield Line("link", link.points, MUTED, 0.18)
    for tile, spot in zip(scene.placed, layout.spots, strict=True):
        yield from _tile("tile", spot.box, (tile.low, tile.high), spot.halves, 2.0, tile.is_double)
    for marker in layout.markers:
        yield from _marker(marker)


def _tile(
    role: str,
    box: Box,
    values: tuple[int, int],
    halves: Sequence[tuple[float, float]],
    side: float,
    spinner: bool = False,
) -> Iterator[Shape]:
    """A tile face up, with the spinner's frame where wanted."""
    yield _inset(role, box, 0.03 * side, TILE, INK, 0.035 * side, 0.16 * side)
    if spinner:
        yield _inset("frame", box, 0.08 * side, None, FRAME, 0.08 * side, 0.12 * side)
    (x0, y0), (x1, y1) = halves
    x, y, reach = (x0 + x1) / 2, (y0 + y1) / 2, 0.32 * side
    upright = x0 == x1
    ends = ((x - reach, y), (x + reach, y)) if upright else ((x, y - reach), (x, y + reach))
    yield Line("middle", ends, MUTED, 0.03 * side)
    for value, (cx, cy) in zip(values, halves, strict=True):
        for dx, dy in PIPS[value]:
            across, along = (dx, dy) if upright else (dy, dx)
            yield Circle("pip", cx + across * side, cy + along * side, PIP * side, INK)


def _inset(role: str, box: Box, by: float, fill: str | None, stroke: str, width: float, radius: float) -> Rect:
    """A rounded rectangle so far inside a box."""
    wide, high = box.right - box.left - 2 * by, box.bottom - box.top - 2 * by
    return Rect(role, box.left + by, box.top + by, wide, high, fill, stroke, width, radius)


def _marker(marker: Marker) -> Iterator[Shape]:
    """A filled number where something is counted, else a hollow dot."""
    x, y, radius = marker.x, marker.y, marker.radius
    if marker.points is None:
        yield Circle("dot", x, y, radius - 0.07, GROUND, COUNTED, 0.14)
        return
    yield Circle("badge", x, y, radius, COUNTED)
    size = radius * (1.3 if marker.points < 10 else 1.1)
    yield Text("badge", x, y, str(marker.points), size, ON_DARK, "middle")


def _legend(x: float, y: float) -> Iterator[Shape]:
    """What the signs on the table mean."""
    yield Circle("key", x + 9, y, 9, COUNTED)
    yield Text("key", x + 9, y, "n", 12, ON_DARK, "middle")
    yield Text("key", x + 25, y, "counted", 14, MUTED)
    x += 125
    yield Circle("key", x + 6, y, 5, GROUND, COUNTED, 2)
    yield Text("key", x + 19, y, "open, not counted", 14, MUTED)
    x += 195
    yield Rect("key", x, y - 9, 10, 18, TILE, FRAME, 2.5, radius=2)
    yield Text("key", x + 19, y, "double, a spinner", 14, MUTED)
