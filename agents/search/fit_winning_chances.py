"""Fit tables of winning chances: to play of one policy from all scores at once, or to rounds played somewhere.

    python -m agents.search.fit_winning_chances --players 2 --rounds 1000000 --seed 1 --out chances.npz
    python -m agents.search.fit_winning_chances --players 2 --agent net-2p --rounds 1000000 --seed 1 --out chances.npz

The second command lets any agent play the rounds (`self_play.py`). Both ways cut rounds into boxes, whose fixed point
the table is (`round_boxes.py`). `docs/winning_chances.md` has the commands that made the stored tables.

Levels, frame and frame sides are those of `agents.search.winning_chances`.

Shape letters: S sides, L levels, K samples.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, make_player
from agents.search.progress import teller
from agents.search.round_boxes import ZONES, play_boxes, solve, spread
from agents.search.self_play import play_rounds
from agents.search.winning_chances import STROKE, WinningChances, save_winning_chances, table_of_frame
from fivesup_env.cli.arguments import whole
from fivesup_env.episode import next_rounds
from fivesup_env.options import check_choice
from fivesup_env.policies import GREEDY, RANDOM
from fivesup_env.rules.state import (
    MAX_SEED,
    MAX_SIDES,
    RUNNING,
    STATE,
    TARGET,
    WON,
    States,
    check_int,
    new_state,
    num_sides,
)

POLICIES: Final = {"greedy": GREEDY, "random": RANDOM}
BELOW_ZERO: Final = {2: 0, 3: 0, 4: 10}  # strokes below 0 that a table reaches down to: only partners fall there (D1)
BATCHES: Final = 16  # fixed points whose mean is the table, and whose spread tells its error
FEWEST_ROUNDS: Final = 1000  # of a batch: with very few, a match might not end from everywhere
HIGHEST_TARGET: Final = 1000  # raw points: with three sides a table grows with the cube


def fit_winning_chances(
    num_players: int,
    rounds: int,
    seed: int,
    *,
    policy: str = "greedy",
    batches: int = BATCHES,
    progress: Callable[[int], None] | None = None,
    **rules: Any,
) -> WinningChances:
    """Fit a table to rounds in which one policy plays all seats, each round from all scores at once.

    Args:
        num_players: 2, 3 or 4.
        rounds: deals to play, at least 1000 for each batch.
        seed: match seed of the deals: deal r is that of the match's round r, and seat 0 starts.
        policy: "greedy" or "random".
        batches: the table is the mean of so many fixed points, each of its own deals; their spread tells its error.
        progress: called with the number of batches that are done.
        rules: `target`, `hand_size`, `max_pip` and `without`, as `new_state` takes them.

    Raises:
        ValueError: an argument is impossible; names it.
    """
    check_choice("policy", policy, tuple(POLICIES))
    check_int("batches", batches, 1, 1000)
    check_int("rounds", rounds, batches * FEWEST_ROUNDS, 2**32 - 1)
    states = np.repeat(np.array([new_state(num_players, seed=seed, **rules)], STATE), 2)
    target, sides = int(states["target"][0]), num_sides(num_players)
    levels = _num_levels(num_players, target)
    ends = [rounds * batch // batches for batch in range(batches + 1)]
    frames: list[NDArray[np.float64]] = []
    for first, last in itertools.pairwise(ends):
        boxes = play_boxes(states, POLICIES[policy], first + 1, last + 1, levels, sides)
        frames.append(solve(boxes, np.ones(len(boxes)), sides, levels, frames[-1] if frames else None))
        if progress is not None:
            progress(len(frames))
    errors = np.std(frames, axis=0, ddof=1) / np.sqrt(batches) if batches > 1 else np.full(1, np.nan)
    root_mean_square = float(np.sqrt(np.mean(errors**2)))
    mean = np.mean(frames, axis=0)
    return table_of_frame(mean, num_players, target, policy, rounds, seed, (root_mean_square, float(errors.max())))


def _num_levels(num_players: int, target: int) -> int:
    """Return L for matches to this target."""
    return check_int("target", target, STROKE, HIGHEST_TARGET) // STROKE + BELOW_ZERO[num_players]


# ---------------------------------------------------------------------------------------------- rounds from anywhere

_PRIOR_ROUNDS: Final = {2: 16_000, 3: 3_000, 4: 16_000}  # of greedy, from all scores; some ten seconds


class RoundSamples(NamedTuple):
    """K rounds that somebody played: what `fit_samples` needs to know of each."""

    before: NDArray[np.int64]  #: int64[K, S], raw scores when the round began
    starters: NDArray[np.int64]  #: int64[K], the seat that started it
    after: NDArray[np.int64]  #: int64[K, S], raw scores when it was over
    next_starters: NDArray[np.int64]  #: int64[K], the seat that starts the next round; -1 for the lot, or for none
    winners: NDArray[np.int64]  #: int64[K], the side that won the match with this round; -1 for none


def samples_of(states: States) -> RoundSamples:
    """Return the samples of STATE[K] records of one game whose rounds are over, one sample from each.

    Raises:
        ValueError: a round is not over.
    """
    if (states["result"] == RUNNING).any():
        raise ValueError(f"row {int((states['result'] == RUNNING).argmax())}: the round is not over")
    sides = num_sides(int(states["num_players"][0]))
    return RoundSamples(
        states["round_scores"][:, :sides].astype(np.int64),
        states["starter"].astype(np.int64),
        states["scores"][:, :sides].astype(np.int64),
        next_rounds(states, sides)[1],
        np.where(states["result"] == WON, states["result_of"].astype(np.int64), -1),
    )


def fit_samples(
    num_players: int, samples: RoundSamples, *, target: int = TARGET, prior: float = 50.0, source: str = "samples"
) -> WinningChances:
    """Fit a table to rounds that were played somewhere, for example in matches of trained agents.

    Samples are few, so a round stands for all scores of its *zone*: needs up to 35 points are zones of their own,
    larger ones share. Its gains are applied to each of them, and refused where they would pass the target (R22): exact
    at the round's own scores, an approximation elsewhere. The standard errors of the table are unknown.

    Args:
        num_players: 2, 3 or 4.
        samples: at least 1000 rounds.
        target: raw points that win.
        prior: for every score, rounds of `greedy` count as so many samples. They decide where few were seen.
        source: who played, to be remembered in the table.

    Raises:
        ValueError: an argument is impossible, or a sample: names it.
    """
    states = np.repeat(np.array([new_state(num_players, target=target)], STATE), 2)
    if not 0.0 < prior < np.inf:
        raise ValueError(f"prior must be a positive number, not {prior!r}")
    checked = _checked(samples, num_players, target)
    sides, levels = num_sides(num_players), _num_levels(num_players, target)
    zones = np.searchsorted(ZONES, np.arange(levels) + 1, side="right")
    edges = np.stack([np.searchsorted(zones, zones), np.searchsorted(zones, zones, side="right") - 1], axis=1)
    seen = spread(*_in_frame(checked, sides, target, levels), edges, sides)
    assumed = play_boxes(states, GREEDY, 1, _PRIOR_ROUNDS[num_players] + 1, levels, sides)
    weights = np.repeat([1.0, prior / _PRIOR_ROUNDS[num_players]], [len(seen), len(assumed)])
    frame = solve(np.concatenate([seen, assumed]), weights, sides, levels, None)
    return table_of_frame(frame, num_players, target, source, len(checked.starters), 0, (np.nan, np.nan))


def fit_agent(
    num_players: int,
    agent: Agent,
    rounds: int,
    seed: int,
    *,
    source: str = "samples",
    progress: Callable[[int], None] | None = None,
) -> WinningChances:
    """Fit a table to rounds in which an agent plays all seats, by `fit_samples`.

    Args:
        num_players: 2, 3 or 4.
        agent: does not see hidden tiles.
        rounds: at least 1000.
        seed: of the deals, the scores at which matches begin, and the agent's keys.
        source: who played, to be remembered in the table.
        progress: called with the number of rounds that are over, often.

    Raises:
        ValueError: an argument is impossible, or an action that the agent takes.
    """
    check_int("rounds", rounds, FEWEST_ROUNDS, 2**32 - 1)
    parts, done = [], 0
    for states in play_rounds(agent, num_players, rounds, seed):
        parts.append(samples_of(states))
        done += len(states)
        if progress is not None:
            progress(done)
    samples = RoundSamples(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return replace(fit_samples(num_players, samples, source=source), seed=seed)


def _checked(samples: RoundSamples, num_players: int, target: int) -> RoundSamples:
    """Return the samples as int64 arrays; raise a ValueError that names what is impossible."""
    sides, count = num_sides(num_players), len(samples.starters)
    check_int("number of samples", count, FEWEST_ROUNDS, 2**62)
    for name, values in samples._asdict().items():
        shape = (count, sides) if name in ("before", "after") else (count,)
        if values.shape != shape or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} must be ints {list(shape)}, not {values.dtype}{list(values.shape)}")
    samples = RoundSamples(*(values.astype(np.int64) for values in samples))
    before, starters, after, next_starters, winners = samples
    has_won = np.arange(sides) == winners[:, None]
    for wanted, wrong in (
        (f"scores before are multiples of five below {target}", (before % STROKE != 0) | (before >= target)),
        (f"scores after are multiples of five up to {target}", (after % STROKE != 0) | (after > target)),
        (f"the winner alone has {target}", (after == target) != has_won),
        ("starters are seats", (starters < 0) | (starters >= num_players)),
        ("next starters are seats or -1", (next_starters < -1) | (next_starters >= num_players)),
        ("winners are sides or -1", (winners < -1) | (winners >= sides)),
    ):
        if wrong.any():
            row = int(wrong.reshape(count, -1).any(axis=1).argmax())
            raise ValueError(f"sample {row}: {wanted}; it is {[values[row].tolist() for values in samples]}")
    return samples


def _in_frame(
    samples: RoundSamples, sides: int, target: int, levels: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return, by axis in the frame, levels before [K, 3] and strokes gained [K, 3], and what follows [K]."""
    idle, first = MAX_SIDES - sides, samples.starters % sides  # partners sit opposite (D8)
    frame_sides = (first[:, None] + np.arange(sides)) % sides
    before, after = (np.take_along_axis(scores, frame_sides, axis=1) for scores in (samples.before, samples.after))
    starts, gains = np.zeros((2, len(first), MAX_SIDES), np.int64)
    starts[:, idle:] = np.minimum((target - before) // STROKE, levels) - 1
    gains[:, idle:] = (after - before) // STROKE
    return starts, gains, np.where(samples.next_starters < 0, sides, (samples.next_starters - first) % sides)


# ------------------------------------------------------------------------------------------------------ the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, fit a table and write it; return the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.out.exists() and not given.force:
        parser.error(f"{given.out} exists already: --force replaces it")
    if given.out.is_dir() or not os.access(given.out.parent, os.W_OK):
        parser.error(f"--out: {given.out} cannot be written")
    try:
        chances = _fitted(given)
    except ValueError as error:
        parser.error(str(error))
    try:
        save_winning_chances(chances, given.out)
    except OSError as error:
        parser.error(f"--out: {error}")
    known = f"standard error {chances.error_rms:.5f} (root mean square), {chances.error_max:.5f} at most; "
    print(
        f"{given.out}: {given.players} seats, {given.rounds:,} rounds of {chances.source}, seed {given.seed}; "
        f"{known if given.agent is None else ''}{given.out.stat().st_size / 1000:.0f} kB"
    )
    return 0


def _fitted(given: argparse.Namespace) -> WinningChances:
    """Return the table that the arguments ask for; tell on the way how much is done.

    Raises:
        ValueError: they do not go together, or the agent fails; names flag and value.
    """
    total, what = (BATCHES, "batches") if given.agent is None else (given.rounds, "rounds")
    progress = teller(total, what, BATCHES)
    if given.agent is not None:
        try:
            agent = make_player(given.agent, given.players)
            return fit_agent(given.players, agent, given.rounds, given.seed, source=given.agent, progress=progress)
        except (ImportError, ValueError) as error:
            raise ValueError(f"argument --agent: {error}") from None
    if given.rounds < BATCHES * FEWEST_ROUNDS:
        raise ValueError(
            f"argument --rounds: must be within {BATCHES * FEWEST_ROUNDS} .. {2**32 - 1} without --agent, "
            f"not {given.rounds}"
        )
    return fit_winning_chances(given.players, given.rounds, given.seed, policy=given.policy, progress=progress)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agents.search.fit_winning_chances",
        description="Fit the chances to win a match, by scores and starter, to rounds of one player; write a table.",
    )
    parser.add_argument("--players", type=whole(2, 4), default=2, metavar="N", help="number of seats, 2 to 4 (2)")
    parser.add_argument(
        "--rounds",
        type=whole(FEWEST_ROUNDS, 2**32 - 1),
        default=100_000,
        metavar="N",
        help="deals to play, each from all scores; with --agent, rounds (100000)",
    )
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=0, metavar="N", help="seed of the deals (0)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--policy", choices=tuple(POLICIES), default="greedy", help="who plays all seats (greedy)")
    who.add_argument("--agent", metavar="AGENT", help='any other agent that does, as "net-2p" or a checkpoint folder')
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    return parser


if __name__ == "__main__":
    sys.exit(main())
