"""A picture as a list of shapes, whatever draws them.

Lengths are pixels, x to the right and y downwards. Shapes are drawn in order, later ones on top;
texts come on top of all other shapes. `role` says what a shape stands for ("pip", "badge", …).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

# Half the height of capitals, in parts of the font size.
CAPITALS_MIDDLE = 0.36

Align: TypeAlias = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Rect:
    """An upright rectangle, with rounded corners where `radius` is not zero."""

    role: str
    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 0.0
    radius: float = 0.0


@dataclass(frozen=True)
class Circle:
    """A circle around (x, y)."""

    role: str
    x: float
    y: float
    radius: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 0.0


@dataclass(frozen=True)
class Line:
    """A line through two or more points."""

    role: str
    points: tuple[tuple[float, float], ...]
    stroke: str
    stroke_width: float


@dataclass(frozen=True)
class Text:
    """One line of text; (x, y) is its start, middle or end at half the height of its capitals."""

    role: str
    x: float
    y: float
    text: str
    size: float
    fill: str
    align: Align = "start"


Shape: TypeAlias = Rect | Circle | Line | Text


@dataclass(frozen=True)
class Picture:
    """Shapes on a ground of that size, with words for those who cannot see it."""

    width: int
    height: int
    ground: str
    shapes: tuple[Shape, ...]
    title: str
    description: str


def text_width(text: str, size: float) -> float:
    """About the width of a text, rather too much than too little: fonts differ."""
    return size * sum(_advance(char) for char in text)


def fitted(text: str, size: float, width: float) -> str:
    """The text, cut short with dots where it would be wider."""
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "...", size) > width:
        text = text[:-1]
    return text.rstrip() + "..."


def _advance(char: str) -> float:
    """The width of a letter in a wide bold font, in parts of its size."""
    if ord(char) >= 0x1100:
        return 1.1
    if char in "mwMW@%_":
        return 0.98
    if char in " .,:;|!'iIjlft()[]":
        return 0.42
    return 0.76 if char.isupper() else 0.66


def scaled(shape: Shape, scale: float, x: float = 0.0, y: float = 0.0) -> Shape:
    """The shape scaled from the origin, then moved so that the origin comes to (x, y)."""
    if isinstance(shape, Line):
        points = tuple((x + scale * px, y + scale * py) for px, py in shape.points)
        return replace(shape, points=points, stroke_width=scale * shape.stroke_width)
    x, y = x + scale * shape.x, y + scale * shape.y
    if isinstance(shape, Text):
        return replace(shape, x=x, y=y, size=scale * shape.size)
    radius, stroke_width = scale * shape.radius, scale * shape.stroke_width
    if isinstance(shape, Circle):
        return replace(shape, x=x, y=y, radius=radius, stroke_width=stroke_width)
    width, height = scale * shape.width, scale * shape.height
    return replace(shape, x=x, y=y, width=width, height=height, radius=radius, stroke_width=stroke_width)
