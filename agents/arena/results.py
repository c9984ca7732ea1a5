"""What a run of the arena gave: the object that `results.json` holds. docs/evaluation.md explains every key."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.arena.blocks import (
    BLOCKED_HANDS,
    GOING_OUT,
    MARGIN_BIN,
    PARTNER,
    PLACEMENTS,
    Blocks,
    block_scores,
    even_share,
    first_reasons,
)
from agents.arena.statistics import Estimate, bradley_terry, estimate, nash_average, ratio_estimate

if TYPE_CHECKING:
    from agents.arena.tournament import Plan, Played

RESULTS_VERSION: Final = 1

_COURSE_POINTS: Final = 50
_SOURCES: Final = {"placements": PLACEMENTS, "going_out": GOING_OUT, "blocked": BLOCKED_HANDS, "partner": PARTNER}
_PACKAGES: Final = ("fivesup", "numpy", "numba", "torch")


def results_of(
    plan: Plan, played: Sequence[Played], sees_all: Sequence[bool], *, command: Sequence[str], rate_all: bool = False
) -> dict[str, Any]:
    """Return the results of a run.

    Args:
        plan: what was planned.
        played: what was played; pairs without a block are left out.
        sees_all: per agent, whether it sees hidden tiles.
        command: the arguments of the command line.
        rate_all: rate also agents that see hidden tiles.
    """
    names = unique_names(plan.agents)
    played = [result for result in played if len(result.blocks.tallies)]
    rated = [index for index in range(len(names)) if rate_all or not sees_all[index]]
    return {
        "version": RESULTS_VERSION,
        "players": plan.num_players,
        "seed": plan.seed,
        "command": list(command),
        "versions": versions(),
        "agents": [_agent(index, names[index], sees_all[index], played) for index in range(len(names))],
        "pairs": [_pair(plan, result, names) for result in played],
        "ratings": _ratings(plan, played, names, rated),
        "nash": _nash(plan, played, names, rated),
    }


def unique_names(texts: Sequence[str]) -> list[str]:
    """Return the texts; a repeated one with its number behind it, as "greedy #2"."""
    return [
        text if texts[:index].count(text) == 0 else f"{text} #{texts[:index].count(text) + 1}"
        for index, text in enumerate(map(str, texts))
    ]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matches depend on, where they are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _agent(index: int, name: str, sees_all: bool, played: Sequence[Played]) -> dict[str, Any]:
    parts = [(result.blocks, 0) for result in played if result.a == index]
    parts += [(result.blocks, 1) for result in played if result.b == index]
    seconds = np.concatenate([np.zeros(0), *(blocks.seconds[:, number] for blocks, number in parts)])
    decisions = np.concatenate([np.zeros(0), *(blocks.decisions[:, number] for blocks, number in parts)])
    return {
        "name": name,
        "sees_all": sees_all,
        "forfeits": sum(_forfeits(blocks, number) for blocks, number in parts),
        "forfeit_reasons": first_reasons(blocks.forfeit_reasons[number] for blocks, number in parts),
        "seconds_per_decision": _no_less_than_0(ratio_estimate(seconds, decisions)) if decisions.sum() else None,
    }


def _forfeits(blocks: Blocks, number: int) -> int:
    """Return how many matches agent `number` of a pair lost by forfeit."""
    by_a = blocks.forfeits_of_a()
    return int((by_a if number == 0 else (blocks.tallies["forfeit"] >= 0) & ~by_a).sum())


def _pair(plan: Plan, result: Played, names: Sequence[str]) -> dict[str, Any]:
    blocks, scores = result.blocks, block_scores(result.blocks, plan.num_players)
    won = estimate(scores)
    times = blocks.seconds.sum(axis=0) / np.maximum(blocks.decisions.sum(axis=0), 1)
    decided = (result.decided or "open") if plan.elo_bounds else None
    return {
        "a": names[result.a],
        "b": names[result.b],
        "matches": len(blocks.tallies),
        "win_rate": won.mean,
        "low": won.low,
        "high": won.high,
        "seconds_per_decision_a": float(times[0]),
        "seconds_per_decision_b": float(times[1]),
        "blocks": len(scores),
        "even": even_share(plan.num_players),
        "decided": decided,
        **_per_round(blocks),
        "margins": [
            [float((index - len(blocks.margins) // 2) * MARGIN_BIN), int(blocks.margins[index])]
            for index in np.flatnonzero(blocks.margins)
        ],
        "course": _course(scores, blocks.block_size),
        "forfeits_a": _forfeits(blocks, 0),
        "forfeits_b": _forfeits(blocks, 1),
    }


def _per_round(blocks: Blocks) -> dict[str, Any]:
    """Return what happened per round. Points of `b` are means over its sides, the rest is of all its sides together."""
    tallies, size, sides = blocks.tallies, blocks.block_size, blocks.num_sides
    own = np.arange(sides) == blocks.a_sides[:, None]  # [M, sides]

    def of(counts: NDArray[np.int64], mine: NDArray[np.bool_]) -> NDArray[np.int64]:
        summed: NDArray[np.int64] = (counts[:, :sides] * mine).sum(axis=1)
        return summed

    def per_round(counts: NDArray[Any]) -> dict[str, float] | None:
        of_blocks, rounds = counts.reshape(-1, size).sum(axis=1), tallies["rounds"].reshape(-1, size).sum(axis=1)
        if not rounds.sum():
            return None
        found = ratio_estimate(of_blocks, rounds)
        return _json(found) if (counts < 0).any() else _no_less_than_0(found)

    def points(mine: NDArray[np.bool_], count: int) -> dict[str, NDArray[Any]]:
        return {
            name: of(tallies["points"][:, :, source], mine) / count * (-1 if source == PARTNER else 1)
            for name, source in _SOURCES.items()
        }

    mine, theirs = points(own, 1), points(~own, sides - 1)
    margin = sum(mine.values()) - sum(theirs.values())
    return {
        "margin_per_round": per_round(np.asarray(margin)),
        "rounds_per_match": _json(estimate(tallies["rounds"].reshape(-1, size).mean(axis=1), bounds=None)),
        "going_out_rate_a": per_round(of(tallies["out"], own)),
        "going_out_rate_b": per_round(of(tallies["out"], ~own)),
        "blocked_rate": per_round(tallies["blocked"]),
        "refused_rate_a": per_round(of(tallies["refused"], own)),
        "refused_rate_b": per_round(of(tallies["refused"], ~own)),
        "points_a": {name: per_round(counts) for name, counts in mine.items()},
        "points_b": {name: per_round(counts) for name, counts in theirs.items()},
    }


def _course(scores: NDArray[np.float64], size: int) -> list[list[float]]:
    """Return matches, win rate and interval after growing numbers of blocks."""
    ends = np.unique(np.linspace(1, len(scores), min(_COURSE_POINTS, len(scores))).round().astype(int))
    course: list[list[float]] = []
    for end in ends.tolist():
        so_far = estimate(scores[:end])
        course.append([end * size, so_far.mean, so_far.low, so_far.high])
    return course


def _ratings(plan: Plan, played: Sequence[Played], names: Sequence[str], rated: Sequence[int]) -> list[dict[str, Any]]:
    """Rate the agents that are linked by pairs; none if they fall apart into groups."""
    blocks = {
        (names[result.a], names[result.b]): block_scores(result.blocks, plan.num_players)
        for result in played
        if result.a in rated and result.b in rated and result.a != result.b
    }
    met = [names[index] for index in rated if any(names[index] in pair for pair in blocks)]
    if len(met) < 2:
        return []
    try:
        ratings = bradley_terry(met, blocks, even_share(plan.num_players))
    except ValueError:
        return []
    return [vars(rating) for rating in ratings]


def _nash(plan: Plan, played: Sequence[Played], names: Sequence[str], rated: Sequence[int]) -> list[dict[str, Any]]:
    """Return Nash averages, if every rated agent met every other; with three seats, in both line-ups."""
    rates = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(rates, even_share(plan.num_players))
    for result in played:
        rate = float(block_scores(result.blocks, plan.num_players).mean())
        rates[result.a, result.b] = rate
        if plan.num_players != 3:
            rates[result.b, result.a] = 1 - rate
    table = rates[np.ix_(rated, rated)]
    if len(rated) < 2 or np.isnan(table).any():
        return []
    weights, skills = nash_average(table)
    rows = zip(rated, weights.tolist(), skills.tolist(), strict=True)
    return [{"agent": names[index], "weight": weight, "skill": skill} for index, weight, skill in rows]


def _no_less_than_0(found: Estimate) -> dict[str, float] | None:
    """Return the estimate of what cannot be negative: Student's interval does not know that."""
    told = _json(found)
    return told and {**told, "low": max(told["low"], 0.0)}


def _json(found: Estimate) -> dict[str, float] | None:
    """Return an estimate as JSON has it; null where a single block tells nothing of its error."""
    return vars(found).copy() if np.isfinite([found.low, found.high]).all() else None
