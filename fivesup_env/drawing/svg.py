"""A picture as SVG text that stands alone: no scripts, no fonts or images from elsewhere."""

from __future__ import annotations

from html import escape

from fivesup_env.drawing.picture import CAPITALS_MIDDLE, Circle, Line, Picture, Rect, Shape, Text

FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def svg_text(picture: Picture) -> str:
    """Write a picture as SVG."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" '
        f'height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}" role="img" '
        f'aria-labelledby="title desc" font-family="{FONTS}" font-weight="bold">',
        f'<title id="title">{_plain(picture.title)}</title>',
        f'<desc id="desc">{_plain(picture.description)}</desc>',
        f'<rect class="ground" width="{picture.width}" height="{picture.height}" fill="{picture.ground}"/>',
    ]
    # Texts lie above the other shapes.
    shapes = sorted(picture.shapes, key=lambda shape: isinstance(shape, Text))
    lines += [_element(shape) for shape in shapes]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _element(shape: Shape) -> str:
    """One shape as an element."""
    if isinstance(shape, Rect):
        place = _attributes(x=shape.x, y=shape.y, width=shape.width, height=shape.height)
        corners = _attributes(rx=shape.radius) if shape.radius else ""
        return f'<rect class="{shape.role}"{place}{corners}{_paint(shape)}/>'
    if isinstance(shape, Circle):
        place = _attributes(cx=shape.x, cy=shape.y, r=shape.radius)
        return f'<circle class="{shape.role}"{place}{_paint(shape)}/>'
    if isinstance(shape, Line):
        points = " ".join(f"{_number(x)},{_number(y)}" for x, y in shape.points)
        return (
            f'<polyline class="{shape.role}" points="{points}" fill="none" '
            f'stroke="{shape.stroke}" stroke-width="{_number(shape.stroke_width)}" '
            f'stroke-linejoin="round"/>'
        )
    base = shape.y + CAPITALS_MIDDLE * shape.size
    place = _attributes(x=shape.x, y=base, font_size=shape.size)
    return (
        f'<text class="{shape.role}"{place} text-anchor="{shape.align}" fill="{shape.fill}">{_plain(shape.text)}</text>'
    )


def _paint(shape: Rect | Circle) -> str:
    """The fill and the outline."""
    fill = f' fill="{shape.fill or "none"}"'
    if shape.stroke is None:
        return fill
    return f'{fill} stroke="{shape.stroke}" stroke-width="{_number(shape.stroke_width)}"'


def _attributes(**values: float) -> str:
    return "".join(f' {name.replace("_", "-")}="{_number(v)}"' for name, v in values.items())


def _number(value: float) -> str:
    """A length with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _plain(text: str) -> str:
    """Text that is safe inside an element: escaped, without what XML cannot hold."""
    return escape("".join(char if _in_xml(char) else "?" for char in text))


def _in_xml(char: str) -> bool:
    code = ord(char)
    return code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF
