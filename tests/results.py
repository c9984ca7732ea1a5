"""Results of evaluations for the tests of what people get to see of them."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import DATA

Results = dict[str, Any]


def example() -> Results:
    """The stored results: a round robin of five agents, and a sixth that met three of them."""
    results: Results = json.loads((DATA / "results_example.json").read_text(encoding="utf-8"))
    return results


def estimate(mean: float, half: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def pair_of(a: str, b: str, win_rate: float | None = 0.625, **changed: Any) -> Results:
    """A pair of which everything is known that two seats can have."""
    points = {"placements": estimate(15, 1), "going_out": estimate(6, 1), "blocked": estimate(0.5, 0.25)}
    return {
        **{"a": a, "b": b, "matches": 200, "win_rate": win_rate, "low": 0.5625, "high": 0.6875},
        **{"seconds_per_decision_a": 0.002, "seconds_per_decision_b": 5e-7},
        **{"blocks": 100, "even": 0.5, "decided": None},
        **{"margin_per_round": estimate(1.5, 0.25), "rounds_per_match": estimate(15.5, 0.5)},
        **{"going_out_rate_a": estimate(0.5, 0.125), "going_out_rate_b": estimate(0.375, 0.125)},
        **{"blocked_rate": estimate(0.125, 0.0625)},
        **{"refused_rate_a": estimate(0.03125, 0.015625), "refused_rate_b": estimate(0.0625, 0.03125)},
        **{"points_a": {**points, "partner": None}, "points_b": {**points, "partner": None}},
        **{"margins": [[-5, 1], [0, 2], [10, 5]], "course": [[100, 0.75, 0.5, 1.0], [200, 0.625, 0.5625, 0.6875]]},
        **{"forfeits_a": 0, "forfeits_b": 0},
        **changed,
    }


def results_of(*pairs: Results, cheats: tuple[str, ...] = (), **changed: Any) -> Results:
    """The results of these pairs, with ratings 100 apart for all agents that do not cheat."""
    names = list(dict.fromkeys(name for pair in pairs for name in (pair["a"], pair["b"])))
    rated = [name for name in names if name not in cheats]
    elos = [50.0 * (len(rated) - 1) - 100 * place for place in range(len(rated))]
    agent = {"forfeits": 0, "forfeit_reasons": [], "seconds_per_decision": estimate(0.0125, 0.0025)}
    return {
        **{"version": 1, "players": 2, "seed": 7, "command": names, "versions": {"fivesup": "0.1.0"}},
        "agents": [{"name": name, "sees_all": name in cheats, **agent} for name in names],
        "pairs": list(pairs),
        "ratings": [
            {"agent": name, "elo": elo, "low": elo - 20, "high": elo + 20}
            for name, elo in zip(rated, elos, strict=True)
        ],
        "nash": [{"agent": name, "weight": float(place == 0), "skill": -place / 8} for place, name in enumerate(rated)],
        **changed,
    }


def without_estimates() -> Results:
    """One pair that has not played: null wherever there can be one."""
    pair = pair_of("greedy", "random", None, matches=0, blocks=0, margins=[], course=[])
    for key, value in pair.items():
        if (isinstance(value, dict) and "mean" in value) or key in ("low", "high") or key.startswith("seconds"):
            pair[key] = None
    pair["points_a"] = pair["points_b"] = dict.fromkeys(pair["points_a"])
    results = results_of(pair, ratings=[], nash=[])
    for agent in results["agents"]:
        agent["seconds_per_decision"] = None
    return results


def three_seats() -> Results:
    """Both orientations of a pair, in each of which one plays two; margins are halves of fives."""
    first = pair_of("greedy", "random", 0.5, even=1 / 3, margins=[[-7.5, 1], [-2.5, 2], [0, 4]])
    return results_of(first, pair_of("random", "greedy", 0.125, even=1 / 3), players=3)
