"""Winning chances: how likely each side is to win the match, by what every side still needs and by who starts.

A search that stops at the end of a round asks a table of these chances what the position is worth; a learner whose
episodes are single rounds is paid by it (`win_table=`). The stored tables come from play of `greedy`;
`agents/search/fit_winning_chances.py` makes them, and those of other agents. `docs/winning_chances.md` tells how, and
how exact they are.

**Needs.** Scores matter only through what a side *needs* to reach the target exactly (R20-R22). Tables are by needs,
so that a table for 305 points serves every lower target, too. A *level* is a need in strokes of five points, less one.

**Frame.** Tables are fitted and stored in the *frame*, in which sides are counted from the one that starts the round:
frame side 0 starts, frame side 1 sits after it. Tables of rotated seats are then one table, and symmetric in every
digit.

Shape letters: P seats, S sides, L levels, K positions.
"""

from __future__ import annotations

import functools
import os
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import inlined_kernel
from fivesup_env.files import replacing
from fivesup_env.rules.state import MAX_SEATS, MAX_SIDES, MIN_SEATS, OUT, TARGET, WON, State, check_int

STROKE: Final = 5  # raw points (R25)
_STEPS: Final = 65536  # a stored chance is a multiple of 1 / 65536
_VERSION: Final = 1  # of the files
_AXES: Final = MAX_SIDES  # of levels in a table


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


@inlined_kernel
def value_of_start(state: State, table: NDArray[np.float32], side: int) -> Any:
    """Return the chance of `side` to win the match when the round of this state began, its starter known."""
    target = np.int64(state.target)
    need_0, need_1 = target - np.int64(state.round_scores[0]), target - np.int64(state.round_scores[1])
    need_2 = target - np.int64(state.round_scores[2])
    return chance_of(table, need_0, need_1, need_2, np.int64(state.starter), side)


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
    check_int("target" if path is None else f"{path}: target", target, STROKE, chances.target)
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
            return table_of_frame(
                frame, num_players, target, str(found["source"]), rounds, seed, (error_rms, error_max)
            )
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


# ------------------------------------------------------------------------------------------------------ the frame


def table_of_frame(
    frame: NDArray[np.float64],
    num_players: int,
    target: int,
    source: str,
    rounds: int,
    seed: int,
    errors: tuple[float, float],
) -> WinningChances:
    """Return the table of chances in the frame, rounded to multiples of 1 / 65536.

    Args:
        frame: float64[L or 1, L, L, S]: the chances of frame side s when frame side 0 starts.
        num_players: P.
        target: raw points that win.
        source: who played the rounds.
        rounds: rounds played.
        seed: their seed.
        errors: `error_rms` and `error_max` of the table.
    """
    sides = frame.shape[-1]
    sums = np.rint(np.cumsum(frame[..., :-1], axis=-1) * _STEPS).clip(0, _STEPS - 1)  # so that none gets negative
    chances = by_starter(np.diff(sums, axis=-1, prepend=0, append=_STEPS) / _STEPS)
    if sides < _AXES:
        chances = np.moveaxis(chances, 1, _AXES)  # the idle axis is the first in fitting, and the last in the table
    starters = [sides] + [seat % sides for seat in range(num_players)]
    table = np.ascontiguousarray(chances[starters], np.float32)
    return WinningChances(num_players, table, source, rounds, seed, *errors, target)


def _frame(table: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the chances in the frame of a table: those where seat 0 starts."""
    frame = table[1].astype(np.float64)
    return frame if frame.shape[-1] == _AXES else np.moveaxis(frame, _AXES - 1, 0)


def by_starter(frame: NDArray[np.float64]) -> NDArray[np.float64]:
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
