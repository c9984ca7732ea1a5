"""Winning chances: how likely each side is to win the match, by what every side still needs and by who starts.

A search that stops at the end of a round asks a table of these chances what the position is worth; a learner whose
episodes are single rounds is paid by it (`win_table=`). The stored tables come from play of `greedy`;
`docs/winning_chances.md` tells how they are made, and how exact they are.

    python -m agents.winning_chances --players 2 --rounds 1000000 --seed 1 --out chances.npz

**Needs.** Scores matter only through what a side *needs* to reach the target exactly (R20-R22). Tables are by needs,
so that a table for 305 points serves every lower target, too. A *level* is a need in strokes of five points, less one.

**Frame.** While a table is fitted, sides are counted from the one that starts the round: frame side 0 starts, frame
side 1 sits after it. Tables of rotated seats are then one table, and symmetric in every digit.

**Boxes.** Of a round, a *box* says: from all levels within these bounds, it leads there. One playout of `greedy` holds
for many scores at once, so some twenty to sixty playouts of a deal are exact for every score there is. The chances are
the fixed point of: the mean, over the rounds, of the chances where they lead to.

Shape letters: P seats, S sides, L levels, B boxes, K samples.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import inlined_kernel, kernel
from fivesup_env.actions import ends_step
from fivesup_env.cli.arguments import whole
from fivesup_env.files import replacing
from fivesup_env.options import check_choice
from fivesup_env.policies import GREEDY, RANDOM, policy_action
from fivesup_env.rules.chance import mix, next_key, scramble
from fivesup_env.rules.play import deal
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import (
    MAX_SEATS,
    MAX_SEED,
    MAX_SIDES,
    MIN_SEATS,
    OUT,
    RUNNING,
    STATE,
    TARGET,
    WON,
    State,
    States,
    check_int,
    new_state,
    num_sides,
)

STROKE: Final = 5  # raw points (R25)
POLICIES: Final = {"greedy": GREEDY, "random": RANDOM}
BELOW_ZERO: Final = {2: 0, 3: 0, 4: 10}  # strokes below 0 that a table reaches down to: only partners fall there (D1)
BATCHES: Final = 16  # fixed points whose mean is the table, and whose spread tells its error
FEWEST_ROUNDS: Final = 1000  # of a batch: with very few, a match might not end from everywhere
TOLERANCE: Final = 1e-6  # a fixed point is found when a sweep changes no chance by more
MAX_SWEEPS: Final = 2000
HIGHEST_TARGET: Final = 1000  # raw points: with three sides a table grows with the cube
_STEPS: Final = 65536  # a stored chance is a multiple of 1 / 65536
_VERSION: Final = 1  # of the files

# Columns of a box, int16[B, 10]. Three axes each: lowest level, highest level, strokes gained; then what follows: the
# frame side that starts the next round, or S for the lot, or S + 1 + i where frame side i has won. With two sides the
# first axis is idle, and the sides are the other two. A box of a won match gains nothing.
_LOW, _HIGH, _GAIN, _NEXT, _COLUMNS = 0, 3, 6, 9, 10
_AXES = MAX_SIDES


@dataclass(frozen=True, eq=False)
class WinningChances:
    """Chances to win the match when a round begins: a `WinTable` for environments, and an array for kernels."""

    num_players: int
    table: NDArray[np.float32]
    """float32[P + 1, L, L, L or 1, S]: by starter + 1 (0: the lot decides), the level of each side (with two sides,
    the third has length 1), and the side whose chance it is. `chance_of` and `value_of_end` read it."""
    source: str  #: who played the rounds
    rounds: int  #: rounds played
    seed: int  #: their seed
    error_rms: float  #: standard error of a chance, root of the mean square over the table; nan where unknown
    error_max: float  #: the largest standard error
    target: int = TARGET  #: raw points that win, for calls by scores

    @property
    def lowest(self) -> int:
        """Lowest score in the table; lower ones count as this."""
        return self.target - STROKE * int(self.table.shape[1])

    def __call__(self, scores: NDArray[Any], starters: NDArray[Any]) -> NDArray[np.float64]:
        """Return each side's chance to win, float64[K, S], when a round begins.

        Args:
            scores: int[K, S], raw points, multiples of five below the target. Those below `lowest` count as it.
            starters: int[K], the seat that starts the round, or -1 where the lot decides.

        Raises:
            ValueError: a score or starter is impossible; names it and its row.
        """
        at, by = np.asarray(scores), np.asarray(starters)
        self._check(at, by)
        levels = np.zeros((_AXES, len(at)), np.int64)
        levels[: at.shape[1]] = np.minimum((self.target - at.astype(np.int64).T) // STROKE, self.table.shape[1]) - 1
        x, y, z = levels
        chances: NDArray[np.float64] = self.table[by.astype(np.int64) + 1, x, y, z].astype(np.float64)
        return chances

    def _check(self, scores: NDArray[Any], starters: NDArray[Any]) -> None:
        sides = self.table.shape[-1]
        if scores.ndim != 2 or scores.shape[1] != sides or not np.issubdtype(scores.dtype, np.integer):
            raise ValueError(f"scores must be ints [K, {sides}], not {scores.dtype}{list(scores.shape)}")
        if starters.shape != scores.shape[:1] or not np.issubdtype(starters.dtype, np.integer):
            raise ValueError(f"starters must be {len(scores)} ints, not {starters.dtype}{list(starters.shape)}")
        wrong = ((scores % STROKE != 0) | (scores >= self.target)).any(axis=1)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"scores[{row}] must be multiples of five below {self.target} (R10, R20), not {scores[row].tolist()}"
            )
        wrong = (starters < -1) | (starters >= self.num_players)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"starters[{row}] must be a seat within 0 .. {self.num_players - 1}, or -1 for the lot, "
                f"not {starters[row]}"
            )


@inlined_kernel
def chance_of(table: NDArray[np.float32], need_0: int, need_1: int, need_2: int, starter: int, side: int) -> Any:
    """Return the chance of `side` to win the match when a round begins: one look-up in `WinningChances.table`.

    Nothing is checked.

    Args:
        table: float32[P + 1, L, L, L or 1, S].
        need_0: raw points that side 0 needs, a positive multiple of five; beyond the table, its edge counts.
        need_1: of side 1.
        need_2: of side 2; with two sides, anything positive.
        starter: seat that starts the round; -1 where the lot decides.
        side: whose chance.
    """
    x, y, z = _level(need_0, table.shape[1]), _level(need_1, table.shape[2]), _level(need_2, table.shape[3])
    return np.float64(table[starter + 1, x, y, z, side])


@inlined_kernel
def _level(need: int, levels: int) -> Any:
    return min(need // STROKE, levels) - 1


@inlined_kernel
def value_of_end(state: State, table: NDArray[np.float32], side: int) -> Any:
    """Return the chance of `side` to win the match where a round has ended: 1 or 0 if the match is won (R23).

    The next round is started by the seat that went out, or by lot (R4).
    """
    if state.result == WON:
        return np.float64(state.result_of == side)
    starter = np.int64(state.result_of) if state.result == OUT else np.int64(-1)
    target = np.int64(state.target)
    need_0, need_1 = target - np.int64(state.scores[0]), target - np.int64(state.scores[1])
    return chance_of(table, need_0, need_1, target - np.int64(state.scores[2]), starter, side)


# ---------------------------------------------------------------------------------------------------------- files


def load_winning_chances(
    num_players: int, *, target: int | None = None, path: str | os.PathLike[str] | None = None
) -> WinningChances:
    """Return the table for this number of seats.

    Args:
        num_players: 2, 3 or 4.
        target: raw points that win, a multiple of five; None for that of the table, 305 unless it was fitted for
            another. It cannot be higher, but lower.
        path: a file of `save_winning_chances` or of the command; None for the table that comes with the package.

    Raises:
        ValueError: an argument is impossible, or the file is no such table.
        OSError: the file cannot be read.
    """
    check_int("num_players", num_players, MIN_SEATS, MAX_SEATS)
    chances = _stored(num_players) if path is None else _read(Path(path))
    if chances.num_players != num_players:
        raise ValueError(f"{path} holds a table for num_players={chances.num_players}, not {num_players}")
    if target is None:
        return chances
    check_int("target", target, STROKE, chances.target)
    if target % STROKE:
        raise ValueError(f"target must be a multiple of five (R10), not {target}")
    return replace(chances, target=target)


def save_winning_chances(chances: WinningChances, path: str | os.PathLike[str]) -> None:
    """Write a table to a file that comes to be when all has been written; one of that name is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path, binary=True) as file:
        np.savez_compressed(
            file,
            version=_VERSION,
            num_players=chances.num_players,
            target=chances.target,
            source=chances.source,
            rounds=chances.rounds,
            seed=np.uint64(chances.seed),
            errors=np.array([chances.error_rms, chances.error_max]),
            steps=_differences(np.rint(_frame(chances.table)[..., :-1] * _STEPS).astype(np.uint16)),
        )


def chance_table(num_players: int) -> NDArray[Any]:
    """Return `WinningChances.table` of the stored table for this number of seats, as kernels take it."""
    return load_winning_chances(num_players).table


@functools.cache
def _stored(num_players: int) -> WinningChances:
    return _read(Path(__file__).parent / "data" / f"winning_chances_{num_players}.npz")


def _read(path: Path) -> WinningChances:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            if int(found["version"]) != _VERSION:
                raise ValueError(f"it is of version {int(found['version'])}, not {_VERSION}")
            first = _sums(found["steps"]) / _STEPS
            frame = np.concatenate([first, 1 - first.sum(axis=-1, keepdims=True)], axis=-1)
            num_players, target, rounds, seed = (
                int(found[name]) for name in ("num_players", "target", "rounds", "seed")
            )
            error_rms, error_max = found["errors"].tolist()
            return _chances(frame, num_players, target, str(found["source"]), rounds, seed, (error_rms, error_max))
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} holds no winning chances: {error}") from None


def _differences(steps: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return the differences of neighbours along all axes of levels, modulo 2**16: they pack four times as tight."""
    for axis in range(_AXES):
        steps = np.diff(steps, axis=axis, prepend=np.zeros_like(steps.take([0], axis)))
    return steps


def _sums(differences: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Undo `_differences`."""
    for axis in range(_AXES):
        differences = np.cumsum(differences, axis=axis, dtype=np.uint16)
    return differences


def _chances(
    frame: NDArray[np.float64],
    num_players: int,
    target: int,
    source: str,
    rounds: int,
    seed: int,
    errors: tuple[float, float],
) -> WinningChances:
    """Return the table of chances in the frame, float64[L or 1, L, L, S], rounded to multiples of 1 / 65536."""
    sides = frame.shape[-1]
    sums = np.rint(np.cumsum(frame[..., :-1], axis=-1) * _STEPS).clip(0, _STEPS - 1)  # so that none gets negative
    chances = _by_starter(np.diff(sums, axis=-1, prepend=0, append=_STEPS) / _STEPS)
    if sides < _AXES:
        chances = np.moveaxis(chances, 1, _AXES)  # the idle axis is the first in fitting, and the last in the table
    starters = [sides] + [seat % sides for seat in range(num_players)]
    table = np.ascontiguousarray(chances[starters], np.float32)
    return WinningChances(num_players, table, source, rounds, seed, *errors, target)


def _frame(table: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the chances in the frame of a table: those where seat 0 starts."""
    frame = table[1].astype(np.float64)
    return frame if frame.shape[-1] == _AXES else np.moveaxis(frame, _AXES - 1, 0)


# -------------------------------------------------------------------------------------------------- the fixed point


def _num_levels(num_players: int, target: int) -> int:
    """Return L for matches to this target."""
    return check_int("target", target, STROKE, HIGHEST_TARGET) // STROKE + BELOW_ZERO[num_players]


def _by_starter(frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the chances in the frame of the next starter are in the frame of this one.

    Args:
        frame: float64[L or 1, L, L, S].

    Returns:
        float64[S + 1, L or 1, L, L, S]: by the frame side that starts next, or S for the lot, the mean of all.
    """
    sides = frame.shape[-1]
    first = _AXES - sides  # of the axes that are sides
    turned = [
        np.roll(frame, j, axis=-1).transpose(
            *range(first), *(first + (side - j) % sides for side in range(sides)), _AXES
        )
        for j in range(sides)
    ]
    return np.stack([*turned, np.mean(turned, axis=0)])


def _solve(
    boxes: NDArray[np.int16],
    weights: NDArray[np.float64],
    sides: int,
    levels: int,
    start: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the fixed point of the rounds in `boxes`: the chances in the frame, float64[L or 1, L, L, S].

    Args:
        boxes: int16[B, 10]; every combination of levels must lie in at least one.
        weights: float64[B]: how many rounds a box counts for.
        sides: S.
        levels: L.
        start: where the iteration begins, such as a fixed point of like rounds; None for even chances.

    Raises:
        ValueError: there is none: from some needs the rounds never end the match.
    """
    shape = (levels if sides == _AXES else 1, levels, levels, sides - 1)  # the last side has what is left
    after, count = np.ones((2 * sides + 1, *shape)), np.zeros(shape)
    _add(boxes, weights, after, count)
    after[sides + 1 :] = np.eye(sides)[:, None, None, None, :-1]
    frame = np.full((*shape[:-1], sides), 1 / sides) if start is None else start
    for _ in range(MAX_SWEEPS):
        after[: sides + 1] = _by_starter(frame)[..., :-1]
        chances = np.zeros(shape)
        _add(boxes, weights, after, chances)
        chances /= count
        before, frame = frame, np.concatenate([chances, 1 - chances.sum(axis=-1, keepdims=True)], axis=-1)
        if np.abs(frame - before).max() < TOLERANCE:
            return frame
    raise ValueError(f"no fixed point within {MAX_SWEEPS} sweeps: from some scores these rounds hardly end the match")


def _add(
    boxes: NDArray[np.int16], weights: NDArray[np.float64], after: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Add to `out` [L or 1, L, L, k], for every cell of every box, what `after` [N, L or 1, L, L, k] has there."""
    _add_flat(boxes, weights, after.reshape(-1), out.reshape(-1), *(np.int64(length) for length in out.shape))


@kernel
def _add_flat(
    boxes: NDArray[np.int16],
    weights: NDArray[np.float64],
    after: NDArray[np.float64],
    out: NDArray[np.float64],
    width_0: int,
    width_1: int,
    width_2: int,
    chances: int,
) -> None:
    """See `_add`. Goes along the first axis outside of the boxes, so that the cells in use stay in the caches."""
    for x in range(width_0):
        for row in range(len(boxes)):
            box = boxes[row]
            if x < box[_LOW] or x > box[_HIGH]:
                continue
            from_x = box[_NEXT] * width_0 + x - box[_GAIN]
            run = np.uint64((box[_HIGH + 2] + 1 - box[_LOW + 2]) * chances)
            for y in range(box[_LOW + 1], box[_HIGH + 1] + 1):
                to = np.uint64(((x * width_1 + y) * width_2 + box[_LOW + 2]) * chances)
                origin = np.uint64(
                    ((from_x * width_1 + y - box[_GAIN + 1]) * width_2 + box[_LOW + 2] - box[_GAIN + 2]) * chances
                )
                for offset in range(run):  # unsigned: numba need not look for negative indices, and adds many at once
                    out[to + offset] += weights[row] * after[origin + offset]


# ------------------------------------------------------------------------------------ play from all scores at once


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
        boxes = _play_boxes(states, POLICIES[policy], first + 1, last + 1, levels, sides)
        frames.append(_solve(boxes, np.ones(len(boxes)), sides, levels, frames[-1] if frames else None))
        if progress is not None:
            progress(len(frames))
    errors = np.std(frames, axis=0, ddof=1) / np.sqrt(batches) if batches > 1 else np.full(1, np.nan)
    root_mean_square = float(np.sqrt(np.mean(errors**2)))
    mean = np.mean(frames, axis=0)
    return _chances(mean, num_players, target, policy, rounds, seed, (root_mean_square, float(errors.max())))


@kernel
def _play_boxes(states: States, policy: int, first: int, end: int, levels: int, sides: int) -> NDArray[np.int16]:
    """Play the rounds ``first .. end - 1`` of a match from all levels; return their boxes, int16[B, 10].

    Whatever levels are left of a round are played once from the corner that needs most. That playout tells which
    smaller needs would have made no difference: they are its box. The rest is cut up into at most S regions.

    Args:
        states: STATE[2]: with seed and rules in the first; both are overwritten.
        policy: GREEDY or RANDOM.
        first: round number.
        end: round number.
        levels: L.
        sides: S.
    """
    boxes, count = np.empty((1024, _COLUMNS), np.int16), 0
    # A region's parts, at most S, are each shorter along an axis: at most S L regions lie within each other.
    regions = np.zeros((sides * sides * levels + 1, 2, _AXES), np.int64)
    reach, idle = np.empty(sides, np.int64), _AXES - sides
    for number in range(first, end):
        states[0].round_number = number
        deal(states[0], 0)
        regions[0, 0, :] = 0
        regions[0, 1, idle:] = levels - 1
        waiting = 1
        while waiting:
            waiting -= 1
            if count == len(boxes):
                boxes = _doubled(boxes)
            low, high = regions[waiting, 0].copy(), regions[waiting, 1].copy()
            states[1] = states[0]
            _play_from(states[1], policy, high[idle:], reach)
            _write_box(states[1], low, high, reach, levels, boxes[count])
            for axis in range(idle, _AXES):
                if boxes[count, _LOW + axis] > low[axis]:
                    regions[waiting, 0] = low
                    regions[waiting, 1] = high
                    regions[waiting, 1, axis] = boxes[count, _LOW + axis] - 1
                    waiting += 1
                low[axis] = boxes[count, _LOW + axis]
            count += 1
    return boxes[:count]


@kernel
def _doubled(boxes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return a copy with room for twice as many."""
    larger = np.empty((2 * len(boxes), boxes.shape[1]), boxes.dtype)
    larger[: len(boxes)] = boxes
    return larger


@kernel
def _play_from(state: State, policy: int, levels: NDArray[np.int64], reach: NDArray[np.int64]) -> None:
    """Play a round that has been dealt, from these levels of the sides, to its end.

    Writes into `reach` [S] by how many raw points each side might need less at the beginning with all choices and
    events still the same. GREEDY compares nothing with what its side needs but the placement's points; RANDOM nothing.
    """
    target = np.int64(state.target)
    needs = np.empty_like(levels)
    for side in range(len(levels)):
        needs[side] = STROKE * (levels[side] + 1)
        reach[side] = needs[side] - STROKE
        state.scores[side] = state.round_scores[side] = target - needs[side]
    key = mix(np.uint64(state.seed), np.uint64(state.round_number))
    while state.result == RUNNING:
        key = next_key(key)
        ends_step(state, policy_action(state, policy, scramble(key)))
        for index in range(state.num_events):
            side, placement = np.int64(state.events[index, 0]), np.int64(state.events[index, 1])
            points = placement + np.int64(state.events[index, 2]) - np.int64(state.events[index, 3])
            if policy == GREEDY and placement <= needs[side]:
                reach[side] = min(reach[side], needs[side] - placement)
            if points <= needs[side]:  # accepted; it wins at that need alone (R22, R23)
                reach[side] = min(reach[side], max(needs[side] - points - STROKE, 0))
                needs[side] -= points


@kernel
def _write_box(
    state: State,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    reach: NDArray[np.int64],
    levels: int,
    box: NDArray[np.int16],
) -> None:
    """Write the box of a round played from the levels `high`: within the region ``low .. high``."""
    sides = len(reach)
    box[:] = 0
    for side in range(sides):
        axis = _AXES - sides + side
        gain = (np.int64(state.scores[side]) - np.int64(state.round_scores[side])) // STROKE
        lowest = max(low[axis], high[axis] - reach[side] // STROKE)
        if high[axis] - gain >= levels:  # it falls below the table, to its edge
            lowest, gain = high[axis], high[axis] - (levels - 1)
        box[_LOW + axis], box[_HIGH + axis], box[_GAIN + axis] = lowest, high[axis], gain
    if state.result == WON:
        box[_GAIN : _GAIN + _AXES] = 0
        box[_NEXT] = sides + 1 + np.int64(state.result_of)
    elif state.result == OUT:
        box[_NEXT] = side_of(np.int64(state.num_players), np.int64(state.result_of))
    else:
        box[_NEXT] = sides


# ---------------------------------------------------------------------------------------------- rounds from anywhere

_ZONES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30)  # needs in strokes at which a zone begins
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
    of = states["result_of"].astype(np.int64)
    return RoundSamples(
        states["round_scores"][:, :sides].astype(np.int64),
        states["starter"].astype(np.int64),
        states["scores"][:, :sides].astype(np.int64),
        np.where(states["result"] == OUT, of, -1),
        np.where(states["result"] == WON, of, -1),
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
    zones = np.searchsorted(_ZONES, np.arange(levels) + 1, side="right")
    edges = np.stack([np.searchsorted(zones, zones), np.searchsorted(zones, zones, side="right") - 1], axis=1)
    seen = _spread(*_in_frame(checked, sides, target, levels), edges, sides)
    assumed = _play_boxes(states, GREEDY, 1, _PRIOR_ROUNDS[num_players] + 1, levels, sides)
    weights = np.repeat([1.0, prior / _PRIOR_ROUNDS[num_players]], [len(seen), len(assumed)])
    frame = _solve(np.concatenate([seen, assumed]), weights, sides, levels, None)
    return _chances(frame, num_players, target, source, len(checked.starters), 0, (np.nan, np.nan))


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
    idle, first = _AXES - sides, samples.starters % sides  # partners sit opposite (D8)
    frame_sides = (first[:, None] + np.arange(sides)) % sides
    before, after = (np.take_along_axis(scores, frame_sides, axis=1) for scores in (samples.before, samples.after))
    starts, gains = np.zeros((2, len(first), _AXES), np.int64)
    starts[:, idle:] = np.minimum((target - before) // STROKE, levels) - 1
    gains[:, idle:] = (after - before) // STROKE
    return starts, gains, np.where(samples.next_starters < 0, sides, (samples.next_starters - first) % sides)


@kernel
def _spread(
    starts: NDArray[np.int64],
    gains: NDArray[np.int64],
    follows: NDArray[np.int64],
    edges: NDArray[np.int64],
    sides: int,
) -> NDArray[np.int16]:
    """Return the boxes, int16[B, 10], of samples `_in_frame` applied to all levels of their zones.

    ``edges``, int64[L, 2], has for each level the lowest and the highest one of its zone. Level 0 is a zone of its own,
    as the idle axis needs it.
    """
    boxes, count = np.empty((1024, _COLUMNS), np.int16), 0
    parts, counts = np.zeros((_AXES, len(edges), 4), np.int64), np.zeros(_AXES, np.int64)
    for row in range(len(starts)):
        for axis in range(_AXES):
            level = starts[row, axis]
            counts[axis] = _split(edges[level, 0], edges[level, 1], gains[row, axis], len(edges), parts[axis])
        for x in range(counts[0]):
            for y in range(counts[1]):
                for z in range(counts[2]):
                    if count == len(boxes):
                        boxes = _doubled(boxes)
                    box = boxes[count]
                    box[_NEXT] = follows[row]
                    for axis, part in ((2, z), (1, y), (0, x)):
                        box[_LOW + axis] = parts[axis, part, 0]
                        box[_HIGH + axis] = parts[axis, part, 1]
                        box[_GAIN + axis] = parts[axis, part, 2]
                        if parts[axis, part, 3]:
                            box[_NEXT] = sides + 1 + axis - (_AXES - sides)
                    if box[_NEXT] > sides:
                        box[_GAIN : _GAIN + _AXES] = 0
                    count += 1
    return boxes[:count]


@kernel
def _split(low: int, high: int, gain: int, levels: int, parts: NDArray[np.int64]) -> Any:
    """Split the levels ``low .. high`` of a side by how it fares with a gain; return the number of parts."""
    count = 0
    while high >= low:
        lowest, strokes, wins = low, gain, 0
        if high - gain >= levels:  # below the table: its edge
            lowest, strokes = high, high - (levels - 1)
        elif high >= gain:
            lowest = max(low, gain)
        elif high == gain - 1:
            lowest, wins = high, 1
        else:
            strokes = 0  # refused (R22)
        parts[count, 0], parts[count, 1], parts[count, 2], parts[count, 3] = lowest, high, strokes, wins
        count, high = count + 1, lowest - 1
    return count


# ------------------------------------------------------------------------------------------------------ the command


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, fit a table and write it; return the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.out.exists() and not given.force:
        parser.error(f"{given.out} exists already: --force replaces it")
    if given.out.is_dir() or not os.access(given.out.parent, os.W_OK):
        parser.error(f"--out: {given.out} cannot be written")
    began = time.perf_counter()

    def progress(done: int) -> None:
        seconds = time.perf_counter() - began
        print(f"{done} of {BATCHES} batches, {seconds:.0f} s", file=sys.stderr, flush=True)

    chances = fit_winning_chances(given.players, given.rounds, given.seed, policy=given.policy, progress=progress)
    try:
        save_winning_chances(chances, given.out)
    except OSError as error:
        parser.error(f"--out: {error}")
    print(
        f"{given.out}: {given.players} seats, {given.rounds:,} rounds of {given.policy}, seed {given.seed}; "
        f"standard error {chances.error_rms:.5f} (root mean square), {chances.error_max:.5f} at most; "
        f"{given.out.stat().st_size / 1000:.0f} kB"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agents.winning_chances",
        description="Fit the chances to win a match, by scores and starter, to rounds of one policy; write a table.",
    )
    parser.add_argument("--players", type=whole(2, 4), default=2, metavar="N", help="number of seats, 2 to 4 (2)")
    parser.add_argument(
        "--rounds",
        type=whole(BATCHES * FEWEST_ROUNDS, 2**32 - 1),
        default=100_000,
        metavar="N",
        help="deals to play, each from all scores (100000)",
    )
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=0, metavar="N", help="seed of the deals (0)")
    parser.add_argument("--policy", choices=tuple(POLICIES), default="greedy", help="who plays all seats (greedy)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    return parser


if __name__ == "__main__":
    sys.exit(main())
