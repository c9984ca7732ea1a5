"""The plots of the page, as figures in HTML: SVG whose colours the page's style sheet sets."""

from __future__ import annotations

import io
import itertools
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agents.arena.result_texts import (
    PAGE_NAME,
    Record,
    Results,
    elo,
    html_text,
    interval,
    labels_of,
    margin,
    number,
    standings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("data") / "report.mplstyle"
WIDTH = 340  # of a plot, in the pixels of a phone; larger screens enlarge it

# The colours that Okabe and Ito chose for colour-blind eyes, and greys; on the page they are variables of report.css.
INK, MUTED, LINE, BLUE, ORANGE = "#1b1d20", "#5c6168", "#d8dadd", "#0072b2", "#d55e00"
_VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", BLUE: "blue", ORANGE: "orange"}
_WORST, _EVEN, _BEST = (0.90, 0.45, 0.10), (0.96, 0.96, 0.96), (0.20, 0.55, 0.85)  # of the heat map: red, green, blue


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw in the style of the page, whatever the user's settings are."""
    from matplotlib import style

    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's fonts draw the text, not matplotlib's
        yield


def ratings_figure(results: Results) -> str:
    """Draw one line for each rated agent: its name, and beneath it the rating with its interval."""
    ratings, labels = results["ratings"], labels_of(results, 40)
    if not ratings:
        return "<p>There are no ratings.</p>"
    figure, axes = _canvas(34 * len(ratings) + 48, left=12)
    names = [f"{labels[rating['agent']]} ({elo(rating['elo'])})" for rating in ratings]
    for row, (rating, name) in enumerate(zip(ratings, names, strict=True)):
        axes.axhline(row, color=LINE, linewidth=1)
        axes.plot(rating["elo"], row, "o", color=BLUE, markersize=7)
        if None not in (rating["low"], rating["high"]):
            axes.plot([rating["low"], rating["high"]], [row, row], color=BLUE, linewidth=3, solid_capstyle="butt")
        axes.text(0, row - 0.3, name, transform=axes.get_yaxis_transform(), size=11)
    axes.set(ylim=(len(ratings) - 0.5, -0.9), yticks=[], xlabel="Elo, with 95 % interval")
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.08)
    caption = "Only differences mean something: the mean of the rated agents is 0."
    return _drawn(figure, "ratings", "Ratings of the agents", f"Elo, best first: {', '.join(names)}.", caption)


def rates_figure(results: Results) -> str:
    """Draw a box for every pair, in pixels from the upper left corner, the columns numbered as the rows are."""
    from matplotlib.patches import Rectangle

    rates, labels, left = _rates(results), labels_of(results, PAGE_NAME), 136
    if not rates:
        return "<p>There are no win rates.</p>"
    names = [agent["name"] for agent, _, _ in standings(results)]
    wide = (WIDTH - left) / len(names)
    high = min(max(wide, 26), 40)
    figure, axes = _canvas(20 + high * len(names))
    axes.set(position=(0, 0, 1, 1), xlim=(0, WIDTH), ylim=(20 + high * len(names), 0))
    axes.axis("off")
    for index, name in enumerate(names):
        axes.text(0, 20 + high * (index + 0.5), f"{index + 1}  {labels[name]}", va="center")
        axes.text(left + wide * (index + 0.5), 14, f"{index + 1}", ha="center")
    for (a, b), (rate, even) in rates.items():
        x, y = left + wide * names.index(b), 20 + high * names.index(a)
        axes.add_patch(Rectangle((x + 1, y + 1), wide - 2, high - 2, facecolor=_shade(rate, even)))
        shown = {"ha": "center", "va": "center", "color": "#101010", "size": 10 if wide > 28 else 9}
        axes.text(x + wide / 2, y + high / 2, number(rate, 2), **shown)  # type: ignore[arg-type]
    text = "How often the agent of the row beats that of the column. Blue: more than its even share; orange: less."
    text += " The row's agent sits alone against two of the column's." * (results["players"] == 3)
    text += " * sees hidden tiles (cheats)." * any(agent["sees_all"] for agent in results["agents"])
    return _drawn(figure, "rates", "Win rates of the pairs", f"{text} The table of pairs has the numbers.", text)


def margins_figure(pair: Record, key: str, names: str) -> str:
    """Draw the share of rounds by margin, what `a` lost in orange and what it won in blue."""
    points, rounds = [point for point, _ in pair["margins"]], sum(count for _, count in pair["margins"])
    if not rounds:
        return "<p>There are no rounds.</p>"
    step = min((after - before for before, after in itertools.pairwise(points)), default=5)
    figure, axes = _canvas(190)
    colours = [BLUE if point > 0 else ORANGE if point < 0 else MUTED for point in points]
    axes.bar(points, [count / rounds for _, count in pair["margins"]], 0.8 * step, color=colours)
    axes.set(xlabel="margin in a round, raw points", ylabel="share of rounds")
    axes.grid(axis="y")
    mean = margin((pair["margin_per_round"] or {}).get("mean"))
    text = f"Margins of {rounds:,} rounds, mean {mean}. Blue, right of 0: the agent named first had more points."
    return _drawn(figure, f"{key}-margins", f"Margins, {names}", text)


def course_figure(pair: Record, key: str, names: str) -> str:
    """Draw the win rate after so many matches, with its interval as a band."""
    known = [[math.nan if value is None else value for value in point] for point in pair["course"]]
    if not known:
        return "<p>There is no course of the win rate.</p>"
    matches, rate, low, high = zip(*known, strict=True)
    figure, axes = _canvas(190)
    axes.fill_between(matches, low, high, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(matches, rate, color=BLUE, linewidth=2, marker="o" if len(known) == 1 else "")
    axes.axhline(pair["even"], color=ORANGE, linestyle="--", linewidth=1.5)
    # The first few matches say so little that their band would flatten all that follows.
    late = [value for point in known if point[0] >= matches[-1] / 10 for value in point[1:] if not math.isnan(value)]
    axes.set(xlabel="matches", ylabel="win rate")
    axes.set_ylim(min([*late, pair["even"]]) - 0.02, max([*late, pair["even"]]) + 0.02)
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid()
    _, last, *ends = pair["course"][-1]
    result = f"{number(last)} {interval(dict(zip(('low', 'high'), ends, strict=True)))}".removesuffix(" -")
    text = f"Win rate after so many matches, with 95 % interval; after {matches[-1]:,}: {result}. Dashed: even share."
    return _drawn(figure, f"{key}-course", f"Win rate, {names}", text)


def _rates(results: Results) -> dict[tuple[str, str], tuple[float, float]]:
    """Return (win rate, even share) by (row, column) of the heat map; a pair of two sides fills both its cells."""
    rates: dict[tuple[str, str], tuple[float, float]] = {}
    for pair in results["pairs"]:
        if pair["win_rate"] is not None:
            rates[pair["a"], pair["b"]] = pair["win_rate"], pair["even"]
            if results["players"] != 3:
                rates[pair["b"], pair["a"]] = 1 - pair["win_rate"], 1 - pair["even"]
    return rates


def _shade(rate: float, even: float) -> tuple[float, ...]:
    """Return the colour of a win rate, from orange at 0 over nearly white at an even share to blue at 1."""
    end, share = (_BEST, (rate - even) / (1 - even)) if rate > even else (_WORST, (even - rate) / even)
    return tuple((1 - share) * middle + share * full for middle, full in zip(_EVEN, end, strict=True))


def _canvas(height: float, left: float = 44, bottom: float = 38) -> tuple[Figure, Axes]:
    """Return an empty plot; lengths are in pixels, of which an inch has 72."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72))
    box = (left / WIDTH, bottom / height, (WIDTH - left - 12) / WIDTH, (height - bottom - 10) / height)
    return figure, figure.add_axes(box)


def _drawn(figure: Figure, key: str, title: str, text: str, caption: str = "") -> str:
    """Return the plot as an HTML figure whose ids begin with `key` and whose colours the style sheet sets."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    _, size, drawing = re.split(r"<svg [^>]*viewBox=\"(.*?)\"[^>]*>", out.getvalue())
    drawing = re.sub(r"<style.*?</style>", "", drawing, count=1, flags=re.DOTALL)
    drawing = re.sub(r"<[^>]+>", lambda tag: _adapted(tag[0], key), drawing)
    return (
        f'<figure>\n<svg viewBox="{size}" role="img" aria-labelledby="{key}-title {key}-text">\n'
        f'<title id="{key}-title">{html_text(title)}</title>\n<desc id="{key}-text">{html_text(text)}</desc>'
        f"{drawing.rstrip()}\n<figcaption>{html_text(caption or text)}</figcaption>\n</figure>"
    )


def _adapted(tag: str, key: str) -> str:
    """Return a tag of matplotlib's with ids that no other plot has, and variables for colours."""
    tag = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{key}-", tag.replace("xlink:href", "href"))
    return re.sub(r"#[0-9a-f]{6}\b", lambda c: f"var(--{_VARIABLES[c[0]]})" if c[0] in _VARIABLES else c[0], tag)
