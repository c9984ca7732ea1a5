"""The page of an evaluation: its tables and plots for people, in one file that needs no other."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from agents.arena.plots import course_figure, margins_figure, plot_style, rates_figure, ratings_figure
from agents.arena.result_texts import (
    PAGE_NAME,
    Form,
    Record,
    Results,
    check_version,
    elo,
    forfeits_of,
    html_text,
    hundredths,
    interval,
    labels_of,
    margin,
    milliseconds,
    number,
    skill,
    standings,
    summary_of,
)
from fivesup_env.files import replacing

DATA = Path(__file__).with_name("data")


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
    check_version(results)
    with plot_style():
        return Template((DATA / "report.html").read_text(encoding="utf-8")).substitute(
            style=(DATA / "report.css").read_text(encoding="utf-8"),
            title=f"Five-Up arena: {len(results['agents'])} agents, {results['players']} seats",
            summary=summary_of(results),
            ratings_figure=ratings_figure(results),
            agents_table=_agents_table(results),
            agents_notes=_agents_notes(results),
            rates_figure=rates_figure(results),
            pairs_table=_pairs_table(results),
            sides_table=_sides_table(results),
            pairs="\n".join(_pair(results, index) for index in range(len(results["pairs"]))),
            command=html_text(shlex.join(["python", "evaluate.py", *results["command"]])),
            versions=_table(
                "Versions", ["Package", "Version"], (map(html_text, v) for v in results["versions"].items())
            ),
        )


def _agent(results: Results, name: str, link: str = "") -> str:
    """Return an agent's short name, its full one as a tooltip, and a mark if it sees hidden tiles."""
    label = labels_of(results, PAGE_NAME)[name]
    cheats = any(agent["name"] == name and agent["sees_all"] for agent in results["agents"])
    mark = ' <span class="cheats" title="sees hidden tiles">cheats</span>' if cheats else ""
    tag, to = ("a", f' href="#{link}"') if link else ("span", "")
    return f'<{tag}{to} title="{html_text(name)}">{html_text(label[:-1] if cheats else label)}</{tag}>{mark}'


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
    for agent, rating, nash in standings(results):
        cut = labels_of(results, PAGE_NAME)[agent["name"]] != agent["name"] + "*" * agent["sees_all"]
        name = _agent(results, agent["name"]) + f" <small>{html_text(agent['name'])}</small>" * cut
        figures = [_cell({**rating, "mean": rating.get("elo")}, elo), number(nash.get("weight"))]
        figures += [skill(nash.get("skill")), _cell(agent["seconds_per_decision"], milliseconds)]
        rows.append([name, *figures, f"{agent['forfeits']:,}"])
    return _table("Agents", heads, rows)


def _agents_notes(results: Results) -> str:
    failed = [agent for agent in results["agents"] if agent["forfeits"]]
    lines = "".join(f"<li>{_agent(results, agent['name'])}: {escape(forfeits_of(agent))}</li>\n" for agent in failed)
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
    names = " against ".join(labels_of(results, PAGE_NAME)[pair[side]] for side in "ab")
    decided = f" The sequential test says: <strong>{pair['decided']}</strong>." if pair["decided"] else ""
    course = [(f"{n:,}", _cell({"mean": rate, "low": low, "high": high})) for n, rate, low, high in pair["course"]]
    margins = [(f"{points:+g}", f"{rounds:,}") for points, rounds in pair["margins"]]
    return (
        f'<article id="{key}">\n<h3>{_agent(results, pair["a"])} against {_agent(results, pair["b"])}</h3>\n'
        f"<p>Win rate {_cell({**pair, 'mean': pair['win_rate']})} in {pair['matches']:,} matches;"
        f" {number(pair['even'])} would be even.{decided}</p>\n"
        f'<div class="figures">\n{margins_figure(pair, key, names)}\n{course_figure(pair, key, names)}\n</div>\n'
        '<details><summary>The numbers behind the plots</summary>\n<div class="side-by-side">\n'
        f"{_table('Margins', ['Margin', 'Rounds'], margins, texts=0)}\n"
        f"{_table('Course', ['Matches', 'Win rate'], course, texts=0)}\n</div>\n</details>\n</article>"
    )
