"""Agents against each other: many matches at once, and win rates with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, decision_key
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_step
from fivesup_env.batch import hide_rows
from fivesup_env.episode import play_on
from fivesup_env.rules.play import start_match
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import STATE, WON, States, new_state

_Z95 = 1.959963984540054  # two-sided 95 % of the normal distribution


@dataclass(frozen=True)
class PairResult:
    """How `a` fared against `b`."""

    a: str
    b: str
    num_players: int
    matches: int
    wins: int

    @property
    def win_rate(self) -> float:
        """Share of matches that the side of `a` won."""
        return self.wins / self.matches

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the win rate (E. B. Wilson, JASA 22, 1927): matches are independent deals."""
        n, p, z = self.matches, self.win_rate, _Z95
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return centre - half, centre + half


def play_pair(
    a: Agent, b: Agent, matches: int, *, names: tuple[str, str], num_players: int = 2, seed: int = 0
) -> PairResult:
    """Play `a` against `b`: `a` has one seat (with four seats, one partnership), `b` all others.

    Match i is that of seed `seed + i`, and `a` sits in seat i modulo the number of seats.

    Raises:
        ValueError: `matches` is not positive.
    """
    if matches < 1:
        raise ValueError(f"matches must be at least 1, not {matches}")
    line_ups = [
        [
            a if side_of(num_players, seat) == side_of(num_players, match % num_players) else b
            for seat in range(num_players)
        ]
        for match in range(matches)
    ]
    a.reset(seed)
    b.reset(seed)
    winners = play_matches(line_ups, seed)
    wins = sum(winner == side_of(num_players, match % num_players) for match, winner in enumerate(winners))
    return PairResult(*names, num_players, matches, int(wins))


def play_matches(line_ups: Sequence[Sequence[Agent]], seed: int) -> list[int]:
    """Play match i, of seed `seed + i`, with the agents of ``line_ups[i]`` in its seats; return the winning sides."""
    states = np.zeros(len(line_ups), STATE)
    for match, line_up in enumerate(line_ups):
        states[match] = new_state(len(line_up), seed=seed + match)
    _start(states)
    plies = np.zeros(len(line_ups), np.int64)
    waiting = np.arange(len(line_ups))
    while len(waiting):
        for agent, matches in _by_agent(states, line_ups, waiting):
            views, masks = states[matches], np.zeros((len(matches), NUM_ENDS_ACTIONS), np.int8)
            hide_rows(views, masks)
            keys = np.array([decision_key(seed, int(match), int(plies[match])) for match in matches])
            _take(states, matches, agent.act(views, masks, keys))
            plies[matches] += 1
        waiting = waiting[states["result"][waiting] != WON]
    return [int(side) for side in states["result_of"]]


def _by_agent(
    states: States, line_ups: Sequence[Sequence[Agent]], waiting: NDArray[np.int64]
) -> list[tuple[Agent, NDArray[np.int64]]]:
    """Return, for each agent that is to move somewhere, the matches where it is."""
    groups: dict[int, tuple[Agent, list[int]]] = {}
    for match, turn in zip(waiting, states["turn"][waiting], strict=True):
        agent = line_ups[match][turn]
        groups.setdefault(id(agent), (agent, []))[1].append(match)
    return [(agent, np.array(matches)) for agent, matches in groups.values()]


@kernel
def _start(states: States) -> None:
    """Deal every match and go to its first decision."""
    for row in range(len(states)):
        start_match(states[row])
        play_on(states[row], True, True, 0)


@kernel
def _take(states: States, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
    """Take an action in each of these rows and go to the next decision."""
    for index in range(len(rows)):
        ends_step(states[rows[index]], actions[index])
        play_on(states[rows[index]], True, True, 0)
