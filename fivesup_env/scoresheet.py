r"""The paper score sheet (R25) as text.

One stroke is five raw points. Ten strokes are a figure: a large X, then a small x in each of the
four spaces around it, in the order top, right, bottom, left. Fifty points, fifteen, and seventy:

    \ x /      \ \ /      \ x /  \ x /
    x X x        X        x X x    X
    / x \      /   \      / x \  /   \

A score below zero, which partners can have (D1), is drawn in brackets: strokes that are owed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

STROKE_POINTS: Final = 5
FIGURE_STROKES: Final = 10
_FIGURES_PER_ROW: Final = 10
_MIDDLE: Final = (1, 2)
_SPACES: Final = ((0, 2), (1, 4), (2, 2), (1, 0))  # row, column


def shown(points: int) -> int:
    """Return raw points as they are shown to people (R10); every score is a multiple of five."""
    return points // STROKE_POINTS


def figure(strokes: int) -> list[str]:
    """Draw one figure of 1 to 10 strokes as three lines of five characters."""
    canvas = [[" "] * 5 for _ in range(3)]
    canvas[0][0] = canvas[2][4] = "\\"
    if strokes >= 2:
        canvas[0][4] = canvas[2][0] = "/"
    crosses = (_MIDDLE, *_SPACES)
    for number, (row, column) in enumerate(crosses):
        if strokes > 2 * number:
            whole = "X" if number == 0 else "x"
            canvas[row][column] = whole if strokes >= 2 * number + 2 else "\\"
    return ["".join(line) for line in canvas]


def tally(score: int) -> list[str]:
    """Draw one side's score as lines of text; none for a score of zero.

    Args:
        score: raw points, a multiple of five.

    Raises:
        ValueError: it is not.
    """
    if score % STROKE_POINTS:
        raise ValueError(f"a score is a multiple of five (R10), not {score}")
    whole, rest = divmod(abs(shown(score)), FIGURE_STROKES)
    figures = [figure(FIGURE_STROKES)] * whole + [figure(rest)] * (rest > 0)
    rows = [figures[at : at + _FIGURES_PER_ROW] for at in range(0, len(figures), _FIGURES_PER_ROW)]
    lines = ["  ".join(parts) for row in rows for parts in zip(*row, strict=True)]
    if score < 0:
        return [f"( {line} )" for line in lines]
    return [line.rstrip() for line in lines]


def score_sheet(names: Sequence[str], scores: Sequence[int]) -> str:
    """Draw the whole sheet, one side under the other.

    Args:
        names: what each side is called.
        scores: raw points per side.
    """
    lines: list[str] = []
    for name, score in zip(names, scores, strict=True):
        owed = " owed" if score < 0 else ""
        count = abs(shown(score))
        strokes = f"{count} stroke{'' if count == 1 else 's'}{owed}"
        lines.append(f"{name}: {score} raw, shown as {shown(score)}, {strokes}")
        lines += [f"  {line}" for line in tally(score)]
    return "\n".join(lines)
