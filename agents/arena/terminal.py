"""The table of an evaluation in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from agents.arena.result_texts import (
    Results,
    check_version,
    elo,
    forfeits_of,
    interval,
    labels_of,
    milliseconds,
    number,
    printable,
    skill,
    standings,
    summary_of,
)

NAME_WIDTH = 24  # characters of an agent's name at most: the notes give its full name


def terminal_table(results: Results) -> str:
    """Return the pairs, the agents and notes as lines of at most 100 characters, but for long names in the notes.

    Raises:
        ValueError: the results are of a version that is not known.
    """
    check_version(results)
    labels = labels_of(results, NAME_WIDTH)
    parts = [
        [summary_of(results)],
        _pair_lines(results, labels),
        _agent_lines(results, labels),
        _notes(results, labels),
    ]
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
    for agent, rating, nash in standings(results):
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
            notes.append(f"{label}: {forfeits_of(agent)}")
        if label != agent["name"] + "*" * agent["sees_all"]:
            notes.append(f"{label} = {printable(agent['name'])}")
    wrap = textwrap.TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line for note in notes for line in wrap.wrap(note)]
