"""Results of an evaluation for people: a table for the terminal, and a page with plots that needs no other file."""

from __future__ import annotations

import io
import itertools
import math
import os
import re
import shlex
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fivesup_env.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
Results = Record  # the object that results.json holds, version 1
Form = Callable[[float | None], str]

VERSION = 1  # of the results that are understood here
DATA = Path(__file__).with_name("data")
TERMINAL_NAME, PAGE_NAME = 24, 20  # characters of an agent's name at most, where its full name is given elsewhere
WIDTH = 340  # of a plot, in the pixels of a phone; larger screens enlarge it

# The colours that Okabe and Ito chose for colour-blind eyes, and greys; on the page they are variables of report.css.
INK, MUTED, LINE, BLUE, ORANGE = "#1b1d20", "#5c6168", "#d8dadd", "#0072b2", "#d55e00"
_VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", BLUE: "blue", ORANGE: "orange"}
_WORST, _EVEN, _BEST = (0.90, 0.45, 0.10), (0.96, 0.96, 0.96), (0.20, 0.55, 0.85)  # of the heat map: red, green, blue


# Numbers and names as text


def number(value: float | None, decimals: int = 3, sign: bool = False) -> str:
    """Return the number with this many decimals, `-` for None, and zero without a sign."""
    if value is None:
        return "-"
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds, with three digits that count or the whole ones: 0.0123, 4,560."""
    if not seconds:
        return number(seconds, 0)
    return number(1000 * seconds, max(0, 2 - math.floor(math.log10(abs(1000 * seconds)))))


hundredths = partial(number, decimals=2)
margin = partial(number, decimals=2, sign=True)
elo = partial(number, decimals=1, sign=True)
skill = partial(number, sign=True)


def interval(estimate: Record, form: Form = number) -> str:
    """Return both ends in brackets, `-` where there are none."""
    low, high = estimate.get("low"), estimate.get("high")
    return "-" if low is None or high is None else f"[{form(low)}, {form(high)}]"


def printable(text: str) -> str:
    r"""Return the text with line breaks, control characters and the like as escapes such as `\n`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Return for each name a text of at most `width` characters, no two alike: of a path its end, else both ends.

    Those that would then be alike lose what they begin with alike, and are numbered if that does not help.
    """
    texts, half = {name: printable(name) for name in names}, (width - 3) // 2
    shorts = {name: _shortened(text, width, 0 if "/" in text else half) for name, text in texts.items()}
    for same in _alike(shorts):
        letters = enumerate(zip(*(texts[name] for name in same), strict=False))
        start = next((place for place, here in letters if len(set(here)) > 1), 0)
        shorts.update({name: _shortened(f"...{texts[name][start:]}", width, half) for name in same})
    for same in _alike(shorts):
        shorts.update({name: f"{shorts[name][: width - 4]}~{index}" for index, name in enumerate(same, 1)})
    return shorts


def _shortened(text: str, width: int, head: int) -> str:
    """Return the text, if need be cut to its first `head` characters, dots, and its end."""
    if len(text) <= width:
        return text
    tail = text[len(text) - (width - 3 - head) :]
    if head == 0 and "/" in tail:
        tail = tail[tail.index("/") :]
    return f"{text[:head]}...{tail}"


def _alike(shorts: Mapping[str, str]) -> list[list[str]]:
    """Return the names whose short ones are the same, group by group."""
    groups: dict[str, list[str]] = {}
    for name, short in shorts.items():
        groups.setdefault(short, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _labels(results: Results, width: int) -> dict[str, str]:
    """Return the agents' short names, with a star for those that see hidden tiles."""
    shorts = short_names((agent["name"] for agent in results["agents"]), width - 1)
    return {agent["name"]: shorts[agent["name"]] + "*" * agent["sees_all"] for agent in results["agents"]}


# What the terminal and the page both show


def _standings(results: Results) -> Iterator[tuple[Record, Record, Record]]:
    """Yield each agent with its rating and its part in Nash averaging, best first, those without a rating last."""
    ratings, nash = ({row["agent"]: row for row in results[key]} for key in ("ratings", "nash"))
    places = {name: place for place, name in enumerate(ratings)}
    for agent in sorted(results["agents"], key=lambda agent: places.get(agent["name"], len(places))):
        yield agent, ratings.get(agent["name"], {}), nash.get(agent["name"], {})


def _summary(results: Results) -> str:
    pairs, matches = len(results["pairs"]), sum(pair["matches"] for pair in results["pairs"])
    return f"{results['players']} seats, seed {results['seed']}, {pairs} pair{'s' * (pairs != 1)}, {matches:,} matches"


def _forfeits(agent: Record) -> str:
    count, reasons = agent["forfeits"], "; ".join(map(printable, agent["forfeit_reasons"]))
    return f"{count:,} match{'es' * (count != 1)} forfeited{': ' * bool(reasons)}{reasons}"


def _check(results: Results) -> None:
    if results["version"] != VERSION:
        raise ValueError(f"version {results['version']} of the results is not known: this is for version {VERSION}")


# The terminal


def terminal_table(results: Results) -> str:
    """Return the pairs, the agents and notes as lines of at most 100 characters, but for long names in the notes.

    Raises:
        ValueError: the results are of a version that is not known.
    """
    _check(results)
    labels = _labels(results, TERMINAL_NAME)
    parts = [[_summary(results)], _pair_lines(results, labels), _agent_lines(results, labels), _notes(results, labels)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _pair_lines(results: Results, labels: Mapping[str, str]) -> list[str]:
    rows = [["a", "b", "win rate", "95 % interval", "matches", "decided"]]
    for pair in results["pairs"]:
        figures = [number(pair["win_rate"]), interval(pair), f"{pair['matches']:,}", pair["decided"] or "-"]
        rows.append([labels[pair["a"]], labels[pair["b"]], *figures])
    if not any(pair["decided"] for pair in results["pairs"]):
        rows = [row[:-1] for row in rows]
    return _aligned(rows, "<<>>><")


def _agent_lines(results: Results, labels: Mapping[str, str]) -> list[str]:
    rows = [["agent", "Elo", "95 % interval", "Nash", "skill", "ms/decision", "forfeits"]]
    for agent, rating, nash in _standings(results):
        figures = [elo(rating.get("elo")), interval(rating, elo), number(nash.get("weight")), skill(nash.get("skill"))]
        time = milliseconds((agent["seconds_per_decision"] or {}).get("mean"))
        rows.append([labels[agent["name"]], *figures, time, f"{agent['forfeits']:,}"])
    return _aligned(rows, "<>>>>>>")


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Return lines with columns two spaces apart, each to its side, `<` or `>`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=False)] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def _notes(results: Results, labels: Mapping[str, str]) -> list[str]:
    """Return what the tables need said: the even share, cheating agents, forfeits, and the names that were cut."""
    notes = []
    if results["players"] == 3:
        notes.append("With three seats one a plays against two b: an even share is 0.333.")
    if any(agent["sees_all"] for agent in results["agents"]):
        notes.append("* sees hidden tiles: it cheats, and is not rated.")
    for agent in results["agents"]:
        label = labels[agent["name"]]
        if agent["forfeits"]:
            notes.append(f"{label}: {_forfeits(agent)}")
        if label != agent["name"] + "*" * agent["sees_all"]:
            notes.append(f"{label} = {printable(agent['name'])}")
    wrap = textwrap.TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line for note in notes for line in wrap.wrap(note)]


# The page


def write_report(results: Results, path: str | os.PathLike[str]) -> None:
    """Write the page. A file that is there is replaced when the new one is complete, and kept if anything fails.

    The same results give the same bytes, with the same version of matplotlib.

    Raises:
        ValueError: the results are of a version that is not known.
        OSError: the file cannot be written.
    """
    text = page(results)
    with replacing(path) as file:
        file.write(text)


def page(results: Results) -> str:
    """Return the page as HTML: no scripts, no links to the outside, and the plots within it."""
    _check(results)
    from matplotlib import style

    with style.context(["default", DATA / "report.mplstyle"]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's fonts draw the text, not matplotlib's
        return Template((DATA / "report.html").read_text(encoding="utf-8")).substitute(
            style=(DATA / "report.css").read_text(encoding="utf-8"),
            title=f"Five-Up arena: {len(results['agents'])} agents, {results['players']} seats",
            summary=_summary(results),
            ratings_figure=_ratings_figure(results),
            agents_table=_agents_table(results),
            agents_notes=_agents_notes(results),
            rates_figure=_rates_figure(results),
            pairs_table=_pairs_table(results),
            sides_table=_sides_table(results),
            pairs="\n".join(_pair(results, index) for index in range(len(results["pairs"]))),
            command=_text(shlex.join(["python", "evaluate.py", *results["command"]])),
            versions=_table("Versions", ["Package", "Version"], (map(_text, v) for v in results["versions"].items())),
        )


def _text(text: object) -> str:
    return escape(printable(str(text)))


def _agent(results: Results, name: str, link: str = "") -> str:
    """Return an agent's short name, its full one as a tooltip, and a mark if it sees hidden tiles."""
    label = _labels(results, PAGE_NAME)[name]
    cheats = any(agent["name"] == name and agent["sees_all"] for agent in results["agents"])
    mark = ' <span class="cheats" title="sees hidden tiles">cheats</span>' if cheats else ""
    tag, to = ("a", f' href="#{link}"') if link else ("span", "")
    return f'<{tag}{to} title="{_text(name)}">{_text(label[:-1] if cheats else label)}</{tag}>{mark}'


def _cell(estimate: Record | None, form: Form = number) -> str:
    """Return an estimate with its interval, if it has one, in small type beneath."""
    ends = interval(estimate or {}, form)
    return form((estimate or {}).get("mean")) + (f" <small>{ends}</small>" if ends != "-" else "")


def _table(label: str, heads: Sequence[str], rows: Iterable[Iterable[str]], texts: int = 1) -> str:
    """Return a table in a box that scrolls if need be; its first `texts` columns are text, the others numbers."""
    kinds = [' class="text"' if column < texts else "" for column in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(heads, kinds, strict=True))
    body = ""
    for first, *cells in rows:
        others = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(cells, kinds[1:], strict=True))
        body += f'<tr><th scope="row"{kinds[0]}>{first}</th>{others}</tr>\n'
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">\n<table aria-label="{label}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>"
    )


def _agents_table(results: Results) -> str:
    heads = ["Agent", "Elo", "Nash weight", "Nash skill", "Milliseconds a decision", "Forfeits"]
    rows = []
    for agent, rating, nash in _standings(results):
        cut = _labels(results, PAGE_NAME)[agent["name"]] != agent["name"] + "*" * agent["sees_all"]
        name = _agent(results, agent["name"]) + f" <small>{_text(agent['name'])}</small>" * cut
        figures = [_cell({**rating, "mean": rating.get("elo")}, elo), number(nash.get("weight"))]
        figures += [skill(nash.get("skill")), _cell(agent["seconds_per_decision"], milliseconds)]
        rows.append([name, *figures, f"{agent['forfeits']:,}"])
    return _table("Agents", heads, rows)


def _agents_notes(results: Results) -> str:
    failed = [agent for agent in results["agents"] if agent["forfeits"]]
    lines = "".join(f"<li>{_agent(results, agent['name'])}: {escape(_forfeits(agent))}</li>\n" for agent in failed)
    return f"<h3>Forfeits</h3>\n<ul>\n{lines}</ul>" if lines else ""


def _pairs_table(results: Results) -> str:
    heads = ["Agent", "Against", "Win rate", "Decided", "Even share", "Matches", "Blocks"]
    heads += ["Margin in a round", "Rounds in a match", "Blocked rounds"]
    rows = []
    for index, pair in enumerate(results["pairs"], 1):
        names = [_agent(results, pair["a"], f"pair-{index}"), _agent(results, pair["b"])]
        rate = [_cell({**pair, "mean": pair["win_rate"]}), pair["decided"] or "-", number(pair["even"])]
        rest = [_cell(pair["rounds_per_match"], hundredths), _cell(pair["blocked_rate"])]
        counts = [f"{pair['matches']:,}", f"{pair['blocks']:,}"]
        rows.append([*names, *rate, *counts, _cell(pair["margin_per_round"], margin), *rest])
    return _table("Pairs", heads, rows, texts=2)


def _sides_table(results: Results) -> str:
    sources = ["placements", "going_out", "blocked", "partner"][: 4 if results["players"] == 4 else 3]
    rows = []
    for pair in results["pairs"]:
        for side, other in ("ab", "ba"):
            names = [_agent(results, pair[name]) for name in (side, other)]
            points = [_cell(pair[f"points_{side}"][source], hundredths) for source in sources]
            rates = [_cell(pair[f"{event}_rate_{side}"]) for event in ("going_out", "refused")]
            time = milliseconds(pair[f"seconds_per_decision_{side}"])
            rows.append([*names, *points, *rates, time, f"{pair[f'forfeits_{side}']:,}"])
    heads = [f"Points: {source.replace('_', ' ')}" for source in sources]
    heads += ["Went out", "Refused", "Milliseconds a decision", "Forfeits"]
    return _table("Points, rates and times of each side", ["Agent", "Against", *heads], rows, texts=2)


def _pair(results: Results, index: int) -> str:
    """Return a pair's own part of the page: a sentence, two plots, and the numbers behind them."""
    pair, key = results["pairs"][index], f"pair-{index + 1}"
    names = " against ".join(_labels(results, PAGE_NAME)[pair[side]] for side in "ab")
    decided = f" The sequential test says: <strong>{pair['decided']}</strong>." if pair["decided"] else ""
    course = [(f"{n:,}", _cell({"mean": rate, "low": low, "high": high})) for n, rate, low, high in pair["course"]]
    margins = [(f"{points:+g}", f"{rounds:,}") for points, rounds in pair["margins"]]
    return (
        f'<article id="{key}">\n<h3>{_agent(results, pair["a"])} against {_agent(results, pair["b"])}</h3>\n'
        f"<p>Win rate {_cell({**pair, 'mean': pair['win_rate']})} in {pair['matches']:,} matches;"
        f" {number(pair['even'])} would be even.{decided}</p>\n"
        f'<div class="figures">\n{_margins_figure(pair, key, names)}\n{_course_figure(pair, key, names)}\n</div>\n'
        '<details><summary>The numbers behind the plots</summary>\n<div class="side-by-side">\n'
        f"{_table('Margins', ['Margin', 'Rounds'], margins, texts=0)}\n"
        f"{_table('Course', ['Matches', 'Win rate'], course, texts=0)}\n</div>\n</details>\n</article>"
    )


# Plots


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
        f'<title id="{key}-title">{_text(title)}</title>\n<desc id="{key}-text">{_text(text)}</desc>'
        f"{drawing.rstrip()}\n<figcaption>{_text(caption or text)}</figcaption>\n</figure>"
    )


def _adapted(tag: str, key: str) -> str:
    """Return a tag of matplotlib's with ids that no other plot has, and variables for colours."""
    tag = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{key}-", tag.replace("xlink:href", "href"))
    return re.sub(r"#[0-9a-f]{6}\b", lambda c: f"var(--{_VARIABLES[c[0]]})" if c[0] in _VARIABLES else c[0], tag)


def _ratings_figure(results: Results) -> str:
    """Draw one line for each rated agent: its name, and beneath it the rating with its interval."""
    ratings, labels = results["ratings"], _labels(results, 40)
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


def _rates_figure(results: Results) -> str:
    """Draw a box for every pair, in pixels from the upper left corner, the columns numbered as the rows are."""
    from matplotlib.patches import Rectangle

    rates, labels, left = _rates(results), _labels(results, PAGE_NAME), 136
    if not rates:
        return "<p>There are no win rates.</p>"
    names = [agent["name"] for agent, _, _ in _standings(results)]
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


def _margins_figure(pair: Record, key: str, names: str) -> str:
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


def _course_figure(pair: Record, key: str, names: str) -> str:
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
