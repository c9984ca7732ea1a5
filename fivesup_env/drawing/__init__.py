"""Pictures of a position: SVG, pixels, a window and plain text, all from one `Scene`.

Importing this loads neither pygame nor the rest of the package; only drawing pixels needs pygame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fivesup_env.drawing.compose import DEFAULT_SIZE, picture_of
from fivesup_env.drawing.diagram import DEFAULT_WIDTH, text_diagram
from fivesup_env.drawing.scene import Contribution, Hand, OpenPort, Placed, Scene, Side
from fivesup_env.drawing.svg import svg_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fivesup_env.drawing.raster import Window

__all__ = [
    "DEFAULT_SIZE",
    "DEFAULT_WIDTH",
    "Contribution",
    "Hand",
    "OpenPort",
    "Placed",
    "Scene",
    "Side",
    "Window",
    "to_rgb_array",
    "to_svg",
    "to_text",
]


def to_svg(scene: Scene, size: tuple[int, int] = DEFAULT_SIZE) -> str:
    """Draw a scene as an SVG document that stands alone."""
    return svg_text(picture_of(scene, size))


def to_rgb_array(scene: Scene, size: tuple[int, int] = DEFAULT_SIZE) -> NDArray[np.uint8]:
    """Draw a scene off screen as uint8 [height, width, 3] for a size of (width, height)."""
    from fivesup_env.drawing.raster import rgb_array

    return rgb_array(picture_of(scene, size))


def to_text(scene: Scene, width: int = DEFAULT_WIDTH) -> str:
    """Draw a scene in characters, with no line longer than `width`."""
    return text_diagram(scene, width)


def __getattr__(name: str) -> Any:
    """Load `Window`, and numpy with it, when it is first asked for."""
    if name == "Window":
        from fivesup_env.drawing.raster import Window

        return Window
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
