"""Numbers, names and sentences that the terminal's table and the page have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

Record = Mapping[str, Any]
Results = Record  # the object that results.json holds, version 1
Form = Callable[[float | None], str]

VERSION = 1  # of the results that are understood here
PAGE_NAME = 20  # characters of an agent's name at most on the page, where its full name is a tooltip


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


def html_text(text: object) -> str:
    """Return the text as it stands in HTML."""
    return escape(printable(str(text)))


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


def labels_of(results: Results, width: int) -> dict[str, str]:
    """Return the agents' short names, with a star for those that see hidden tiles."""
    shorts = short_names((agent["name"] for agent in results["agents"]), width - 1)
    return {agent["name"]: shorts[agent["name"]] + "*" * agent["sees_all"] for agent in results["agents"]}


def standings(results: Results) -> Iterator[tuple[Record, Record, Record]]:
    """Yield each agent with its rating and its part in Nash averaging, best first, those without a rating last."""
    ratings, nash = ({row["agent"]: row for row in results[key]} for key in ("ratings", "nash"))
    places = {name: place for place, name in enumerate(ratings)}
    for agent in sorted(results["agents"], key=lambda agent: places.get(agent["name"], len(places))):
        yield agent, ratings.get(agent["name"], {}), nash.get(agent["name"], {})


def summary_of(results: Results) -> str:
    """Return in a line what was played."""
    pairs, matches = len(results["pairs"]), sum(pair["matches"] for pair in results["pairs"])
    return f"{results['players']} seats, seed {results['seed']}, {pairs} pair{'s' * (pairs != 1)}, {matches:,} matches"


def forfeits_of(agent: Record) -> str:
    """Return how many matches an agent forfeited, and why."""
    count, reasons = agent["forfeits"], "; ".join(map(printable, agent["forfeit_reasons"]))
    return f"{count:,} match{'es' * (count != 1)} forfeited{': ' * bool(reasons)}{reasons}"


def check_version(results: Results) -> None:
    """Raise a ValueError if the results are of a version that is not known."""
    if results["version"] != VERSION:
        raise ValueError(f"version {results['version']} of the results is not known: this is for version {VERSION}")
