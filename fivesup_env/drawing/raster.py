"""A picture as pixels, and a window that shows scenes; both need pygame-ce (the `render` extra)."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env.drawing.compose import DEFAULT_SIZE, picture_of
from fivesup_env.drawing.picture import CAPITALS_MIDDLE, Circle, Line, Picture, Rect, Shape, Text, scaled
from fivesup_env.drawing.scene import Scene

if TYPE_CHECKING:
    import pygame

DEFAULT_FPS = 4.0
# Shapes are drawn so much larger and then shrunk, which smooths their edges. Shrinking keeps colours
# exactly only by powers of two; large pictures make do with less.
OVERSIZE = 4
LARGE_OVERSIZE = 2
LARGE = 2_000_000
# The font that comes with pygame is used, so that pictures look the same everywhere; pygame makes
# it smaller than asked.
PYGAME_FONT_SCALE = 0.6875


def rgb_array(picture: Picture) -> NDArray[np.uint8]:
    """Draw a picture off screen: uint8 [height, width, 3]."""
    pixels = _pygame().image.tobytes(_surface(picture), "RGB")
    array = np.empty((picture.height, picture.width, 3), np.uint8)
    array.data.cast("B")[:] = pixels
    return array


class Window:
    """A window on the screen; it opens with the first scene."""

    def __init__(self, size: tuple[int, int] = DEFAULT_SIZE, title: str = "Five-Up") -> None:
        self.size = size
        self.title = title
        self.closed = False
        self._screen: pygame.Surface | None = None
        self._clock: Any = None

    def show(self, scene: Scene, fps: float = DEFAULT_FPS) -> None:
        """Show a scene for a frame's time; once the user has closed the window, do nothing."""
        if self.closed:
            return
        pg = _pygame()
        if self._screen is None:
            self._open()
        assert self._screen is not None
        self._screen.blit(_surface(picture_of(scene, self.size)), (0, 0))
        pg.display.flip()
        self._clock.tick(fps)
        if any(event.type == pg.QUIT for event in pg.event.get()):
            self.close()

    def close(self) -> None:
        """Close the window, if it is open; it does not open again."""
        if self._screen is not None:
            _pygame().display.quit()
            self._screen = None
        self.closed = True

    def _open(self) -> None:
        pg = _pygame()
        pg.display.init()
        pg.display.set_caption(self.title)
        self._screen = pg.display.set_mode(self.size)
        self._clock = pg.time.Clock()


def _pygame() -> Any:
    """The pygame module, loaded when it is needed."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError as error:
        raise ImportError('drawing pixels needs pygame-ce: pip install "fivesup[render]"') from error
    return pygame


def _surface(picture: Picture) -> pygame.Surface:
    """Draw everything on a new surface."""
    pg = _pygame()
    oversize = OVERSIZE if picture.width * picture.height < LARGE else LARGE_OVERSIZE
    large = pg.Surface((picture.width * oversize, picture.height * oversize), depth=32)
    large.fill(picture.ground)
    for shape in picture.shapes:
        if not isinstance(shape, Text):
            _draw(pg, large, scaled(shape, oversize))
    surface: pygame.Surface = pg.transform.smoothscale(large, (picture.width, picture.height))
    pg.font.init()
    fonts: dict[int, pygame.font.Font] = {}
    for shape in picture.shapes:
        if isinstance(shape, Text):
            size = max(2, round(shape.size / PYGAME_FONT_SCALE))
            if size not in fonts:
                fonts[size] = pg.font.Font(None, size)
            _write(surface, shape, fonts[size])
    return surface


def _draw(pg: Any, surface: pygame.Surface, shape: Shape) -> None:
    """Draw one shape."""
    if isinstance(shape, Line):
        _polyline(pg, surface, shape)
    elif isinstance(shape, Rect | Circle):
        half = shape.stroke_width / 2 if shape.stroke else 0.0
        if shape.stroke:
            edge = 0 if shape.fill else round(2 * half)
            _fill(pg, surface, shape, shape.stroke, half, edge)
        if shape.fill:
            _fill(pg, surface, shape, shape.fill, -half, 0)


def _fill(pg: Any, surface: pygame.Surface, shape: Rect | Circle, color: str, grow: float, edge: int) -> None:
    """Fill a shape that is larger by `grow` on each side; with an `edge`, only that much of it."""
    if isinstance(shape, Circle):
        pg.draw.circle(surface, color, (shape.x, shape.y), shape.radius + grow, edge)
        return
    left, top = round(shape.x - grow), round(shape.y - grow)
    right, bottom = round(shape.x + shape.width + grow), round(shape.y + shape.height + grow)
    radius = max(0, round(shape.radius + grow)) if shape.radius else 0
    area = pg.Rect(left, top, right - left, bottom - top)
    pg.draw.rect(surface, color, area, edge, border_radius=radius)


def _polyline(pg: Any, surface: pygame.Surface, shape: Line) -> None:
    """Draw the stretches, which are all level or upright, with square corners."""
    half = shape.stroke_width / 2
    for (x0, y0), (x1, y1) in pairwise(shape.points):
        left, right = sorted((x0, x1))
        top, bottom = sorted((y0, y1))
        area = (left - half, top - half, right - left + 2 * half, bottom - top + 2 * half)
        pg.draw.rect(surface, shape.stroke, pg.Rect(*(round(side) for side in area)))


def _write(surface: pygame.Surface, text: Text, font: pygame.font.Font) -> None:
    """Write one text."""
    image = font.render(text.text, True, text.fill)
    x = text.x - {"start": 0, "middle": 0.5, "end": 1}[text.align] * image.get_width()
    y = text.y + CAPITALS_MIDDLE * text.size - font.get_ascent()
    surface.blit(image, (round(x), round(y)))
