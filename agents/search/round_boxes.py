"""Rounds as boxes: what a round leads to from many scores at once, and the chances that follow.

A *box* of a round says: from all levels within these bounds, it leads there. One playout of `greedy` holds for many
scores at once, so some twenty to sixty playouts of a deal are exact for every score there is. The chances to win are
the fixed point of: the mean, over the rounds, of the chances where they lead to.

Levels, frame and frame sides are those of `agents.search.winning_chances`.

Shape letters: S sides, L levels, B boxes, K samples.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.search.winning_chances import STROKE, by_starter
from fivesup_env._jit import kernel
from fivesup_env.actions import ends_step
from fivesup_env.policies import GREEDY, policy_action
from fivesup_env.rules.chance import mix, next_key, scramble
from fivesup_env.rules.play import deal
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import MAX_SIDES, OUT, RUNNING, WON, State, States

TOLERANCE: Final = 1e-6  # a fixed point is found when a sweep changes no chance by more
MAX_SWEEPS: Final = 2000
ZONES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30)  # needs in strokes at which a zone begins

# Columns of a box, int16[B, 10]. Three axes each: lowest level, highest level, strokes gained; then what follows: the
# frame side that starts the next round, or S for the lot, or S + 1 + i where frame side i has won. With two sides the
# first axis is idle, and the sides are the other two. A box of a won match gains nothing.
_LOW, _HIGH, _GAIN, _NEXT, _COLUMNS = 0, 3, 6, 9, 10
_AXES = MAX_SIDES


# -------------------------------------------------------------------------------------------------- the fixed point


def solve(
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
        after[: sides + 1] = by_starter(frame)[..., :-1]
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


@kernel
def play_boxes(states: States, policy: int, first: int, end: int, levels: int, sides: int) -> NDArray[np.int16]:
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


# ------------------------------------------------------------------------------------------ samples in their zones


@kernel
def spread(
    starts: NDArray[np.int64],
    gains: NDArray[np.int64],
    follows: NDArray[np.int64],
    edges: NDArray[np.int64],
    sides: int,
) -> NDArray[np.int16]:
    """Return the boxes, int16[B, 10], of K samples applied to all levels of their zones.

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
