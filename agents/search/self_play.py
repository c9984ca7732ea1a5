"""Rounds that an agent plays against itself, many at once: to fit a table of winning chances to, or to try one on.

The agent has every seat. Deals, drawn scores and its keys follow from the seed alone, and differ between `play_rounds`
and `play_matches`: what a table was fitted to is never what it is tried on.

Shape letters: S sides, K rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, decision_keys
from agents.search.round_boxes import ZONES
from agents.search.winning_chances import STROKE
from fivesup_env._jit import kernel
from fivesup_env.episode import next_rounds
from fivesup_env.rules.chance import below, mix
from fivesup_env.rules.state import MAX_SEED, TARGET, WON, States, check_int
from fivesup_env.vector_env import FivesUpVectorEnv

MOST_MATCHES: Final = 1_000_000  # played at once: they take some gigabytes
_ROWS: Final = 2048  # in which rounds are played at once
_FROM_ZERO: Final = 4  # of so many matches one begins at 0
_ROUNDS, _MATCHES, _SCORES = np.uint64(0x0F17), np.uint64(0x07E5), np.uint64(0x05C0)  # keep deals and draws apart
#: int64[Z + 1]: the needs in strokes at which zones begin, and the first one that no score from 0 on has.
_EDGES: Final = np.array([*ZONES, TARGET // STROKE + 1])


def play_rounds(agent: Agent, num_players: int, rounds: int, seed: int) -> Iterator[States]:
    """Play rounds to fit a table to, and yield them as they end: STATE[K] each time, `rounds` in all.

    One match in four begins at 0, the others at drawn scores: for each side a zone of `fit_samples`, all equally
    likely, then a need within it. The former bring scores as they are in matches, the latter every pair of zones. The
    lot decides who starts a match; later rounds follow R4. How many rounds a row plays is fixed beforehand: to take
    those that end first would favour the short ones.

    Args:
        agent: does not see hidden tiles.
        num_players: 2, 3 or 4.
        rounds: at least 1.
        seed: 0 .. 2**64 - 1.

    Raises:
        ValueError: an argument is impossible, or an action that the agent takes.
    """
    check_int("rounds", rounds, 1, 2**62)
    count = min(rounds, _ROWS)
    numbers = np.arange(count)
    left = rounds // count + (numbers < rounds % count)
    begun = numbers.copy()  # matches of each row, counted on from other numbers
    tables = _Tables(agent, num_players, seed, _ROUNDS, begun % _FROM_ZERO != 0)
    while len(numbers):
        ended = tables.play(numbers)
        if not len(ended):
            continue
        states = tables.states(ended)
        yield states
        left[ended] -= 1
        begun[ended] += states["result"] == WON
        tables.begin(ended, begun[ended] % _FROM_ZERO != 0)
        numbers = numbers[left[numbers] > 0]


def play_matches(agent: Agent, num_players: int, matches: int, seed: int) -> Iterator[tuple[NDArray[np.int64], States]]:
    """Play whole matches from 0, and yield their rounds as they end: int64[K], the matches' numbers, and STATE[K].

    Args:
        agent: does not see hidden tiles.
        num_players: 2, 3 or 4.
        matches: 1 .. `MOST_MATCHES`, all played at once.
        seed: 0 .. 2**64 - 1.

    Raises:
        ValueError: an argument is impossible, or an action that the agent takes.
    """
    check_int("matches", matches, 1, MOST_MATCHES)
    numbers = np.arange(matches)
    tables = _Tables(agent, num_players, seed, _MATCHES, np.zeros(matches, np.bool_))
    while len(numbers):
        ended = tables.play(numbers)
        if not len(ended):
            continue
        states = tables.states(ended)
        yield ended, states
        won = states["result"] == WON
        tables.begin(ended[~won], np.zeros(np.count_nonzero(~won), np.bool_))
        numbers = np.setdiff1d(numbers, ended[won], assume_unique=True)


class _Tables:
    """N rows of rounds in play.

    Args:
        agent: who has every seat.
        num_players: seats.
        seed: of all deals and keys.
        kind: keeps them apart from those of other uses of the seed.
        draws: bool[N], whether the first match of a row begins at drawn scores rather than at 0.
    """

    def __init__(self, agent: Agent, num_players: int, seed: int, kind: np.uint64, draws: NDArray[np.bool_]) -> None:
        check_int("seed", seed, 0, MAX_SEED)
        self._agent = agent
        self._game = FivesUpVectorEnv(
            len(draws), num_players=num_players, episode="round", reward="points", skip_forced=True, copy=False
        )
        self._sides = self._game.options.num_sides
        self._plies = np.zeros(len(draws), np.int64)
        self._next = np.zeros((len(draws), self._sides), np.int64), np.full(len(draws), -1), draws
        key = np.uint64(mix(kind, np.uint64(seed)))
        seeds = [int(mix(key, np.uint64(row))) for row in range(len(draws))]
        agent.reset(seed)
        self._game.reset(seed=seeds, options={"sampler": self._sampled})

    def states(self, rows: NDArray[np.int64]) -> States:
        """Return a copy of these rows, STATE[K]."""
        found: States = self._game.states[rows]
        return found

    def play(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take a decision in each of these rows; return those whose rounds are over then."""
        views, masks = self._game.views(rows)
        keys = decision_keys(self._game.states["seed"][rows], np.zeros_like(rows), self._plies[rows])
        ended = self._game.advance(rows, self._agent.act(views, masks, keys), look=False)
        self._plies[rows] += 1
        return ended

    def begin(self, rows: NDArray[np.int64], draws: NDArray[np.bool_]) -> None:
        """Deal the next round in rows where one is over.

        Where it won the match a new one begins, at drawn scores if `draws`, bool[K], says so.
        """
        states = self._game.states[rows]
        self._next = *next_rounds(states, self._sides), draws & (states["result"] == WON)
        self._game.begin_next(rows)
        self._plies[rows] = 0

    def _sampled(self, seeds: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        scores, starters, draws = self._next
        drawn = np.zeros_like(scores)
        _draw_scores(seeds, _EDGES, drawn)
        return np.where(draws[:, None], drawn, scores), starters


@kernel
def _draw_scores(seeds: NDArray[np.uint64], edges: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Write raw scores into ``out`` [K, S]: a zone for each side, then a need within it, each equally likely."""
    for row in range(len(seeds)):
        key = mix(_SCORES, seeds[row])
        for side in range(out.shape[1]):
            zone, key = below(key, len(edges) - 1)
            above, key = below(key, edges[zone + 1] - edges[zone])
            out[row, side] = TARGET - STROKE * (edges[zone] + above)
