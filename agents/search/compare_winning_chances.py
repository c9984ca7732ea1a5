"""Compare two tables of winning chances: where they differ, and which one foresees the winners of an agent's matches.

    python -m agents.search.compare_winning_chances --players 2 --agent net-2p --matches 10000 --seed 1 chances.npz

The agent plays whole matches against itself, with deals that no fit has seen. Whenever a round begins, each table
gives the later winner a chance; its *loss* is the negative logarithm of that, in nats, and the better table loses less.
Rounds of a match depend on each other, so intervals are over matches.

Shape letters: P seats, S sides, L levels, K rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, make_player
from agents.arena.statistics import Estimate, ratio_estimate
from agents.search.fit_winning_chances import samples_of
from agents.search.progress import teller
from agents.search.self_play import MOST_MATCHES, play_matches
from agents.search.winning_chances import STROKE, WinningChances, load_winning_chances
from fivesup_env.cli.arguments import whole
from fivesup_env.rules.state import MAX_SEED

_LEAST: Final = 2.0**-17  # half a step of stored chances: what was rounded to 0 may still come
_TOLD: Final = 10  # reports of progress


class RoundStarts(NamedTuple):
    """K rounds of whole matches, as they began, and who won the matches."""

    matches: NDArray[np.int64]  #: int64[K], number of the match
    scores: NDArray[np.int64]  #: int64[K, S], raw
    starters: NDArray[np.int64]  #: int64[K]
    winners: NDArray[np.int64]  #: int64[K], the side that won the match in the end


def round_starts(
    agent: Agent, num_players: int, matches: int, seed: int, *, progress: Callable[[int], None] | None = None
) -> RoundStarts:
    """Return the rounds of whole matches that an agent plays against itself.

    Args:
        agent: does not see hidden tiles.
        num_players: 2, 3 or 4.
        matches: how many, 1 .. `MOST_MATCHES`.
        seed: of deals and keys.
        progress: called with the number of matches that are over, often.

    Raises:
        ValueError: an argument is impossible, or an action that the agent takes.
    """
    found, winners = [], np.full(matches, -1)
    for numbers, states in play_matches(agent, num_players, matches, seed):
        samples = samples_of(states)
        found.append((numbers, samples.before, samples.starters))
        winners[numbers] = samples.winners
        if progress is not None:
            progress(int(np.count_nonzero(winners >= 0)))
    of, scores, starters = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return RoundStarts(of, scores, starters, winners[of])


def losses(chances: WinningChances, starts: RoundStarts) -> NDArray[np.float64]:
    """Return what a table loses at each of K rounds, float64[K], in nats."""
    given = chances(starts.scores, starts.starters)[np.arange(len(starts.winners)), starts.winners]
    found: NDArray[np.float64] = -np.log(np.maximum(given, _LEAST))
    return found


def mean_of_rounds(values: NDArray[np.float64], starts: RoundStarts) -> Estimate:
    """Return the mean of a number per round, float64[K], with its 95 % interval over matches."""
    return ratio_estimate(np.bincount(starts.matches, values), np.bincount(starts.matches))


class Difference(NamedTuple):
    """How far a table is from another."""

    mean: float  #: mean absolute difference of a chance, over all their scores and all starters
    largest: float  #: of `other` less `chances` where it is largest in absolute value
    scores: list[int]  #: raw, where that is
    starter: int
    side: int  #: whose chance it is


def difference(chances: WinningChances, other: WinningChances) -> Difference:
    """Return how far `other` is from `chances`, where both reach; they are for the same seats and target."""
    both = tuple(slice(length) for length in chances.table.shape)
    change = (other.table[both].astype(np.float64) - chances.table)[1:]  # the lot's is their mean
    place = np.unravel_index(np.abs(change).argmax(), change.shape)
    starter, *levels, side = (int(index) for index in place)
    scores = [chances.target - STROKE * (level + 1) for level in levels[: change.shape[-1]]]
    return Difference(float(np.abs(change).mean()), float(change[place]), scores, starter, side)


def report(name: str, chances: WinningChances, other: WinningChances, starts: RoundStarts) -> str:
    """Return what is to be said of `other`, the table of the file `name`, beside `chances`: some lines."""
    found = difference(chances, other)
    at = " : ".join(map(str, found.scores))
    own, others = losses(chances, starts), losses(other, starts)
    lines = [
        f"{name}: {other.rounds:,} rounds of {other.source}, seed {other.seed}",
        f"less the stored table, of {chances.source}: mean absolute difference {found.mean:.5f}",
        f"largest difference {found.largest:+.5f}, of side {found.side} at {at}, seat {found.starter} starts",
        f"loss at the beginning of a round, {len(own):,} of them, in nats, with its 95 % interval over matches:",
    ]
    for label, values in (("stored", own), ("file", others), ("file - stored", others - own)):
        mean = mean_of_rounds(values, starts)
        lines.append(f"  {label:<14} {mean.mean:+.5f} [{mean.low:+.5f}, {mean.high:+.5f}]")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, compare a file's table with the stored one, and print what was found; return 0."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        stored = load_winning_chances(given.players)
        other = load_winning_chances(given.players, target=stored.target, path=given.file)
    except (OSError, ValueError) as error:
        parser.error(f"argument FILE: {error}")
    progress = teller(given.matches, "matches", _TOLD)
    try:
        agent = make_player(given.agent, given.players)
        starts = round_starts(agent, given.players, given.matches, given.seed, progress=progress)
    except (ImportError, ValueError) as error:
        parser.error(f"argument --agent: {error}")
    print(report(str(given.file), stored, other, starts))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agents.search.compare_winning_chances",
        description="Compare a table of winning chances with the stored one: which foresees the winners of an agent?",
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the table, as agents.search.fit_winning_chances writes"
    )
    parser.add_argument("--players", type=whole(2, 4), default=2, metavar="N", help="number of seats, 2 to 4 (2)")
    parser.add_argument("--agent", required=True, metavar="AGENT", help='who plays all seats, as "net-2p"')
    parser.add_argument("--matches", type=whole(2, MOST_MATCHES), default=1000, metavar="N", help="to play (1000)")
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=0, metavar="N", help="seed of the deals (0)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
