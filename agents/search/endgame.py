"""Perfect endgames: with two seats and an empty boneyard nothing is hidden, and a round can be solved.

The other seat then holds every tile that is neither on the table nor in one's own hand, and what is left is a game of
perfect information for the chance to win the match: alpha-beta search (Knuth and Moore, "An analysis of alpha-beta
pruning", 1975), placements that score first.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agents.search.winning_chances import value_of_end
from fivesup_env._jit import kernel
from fivesup_env.actions import (
    NUM_ENDS_ACTIONS,
    NUM_WORDS,
    ends_step,
    first_id,
    legal_ends,
    list_ends,
    scoring_ends,
    without_id,
)
from fivesup_env.episode import PLAYING, play_on
from fivesup_env.rules.play import boneyard_left
from fivesup_env.rules.state import RUNNING, STATE, State, States

#: Positions that the search may visit before it gives up, for all actions of a decision together.
NODE_LIMIT: Final = 30_000
#: Records that a search needs: each level places a tile, and 23 are in hands at most; forced steps take no level.
NUM_LEVELS: Final = 32


#: What the search notes about a level.
NOTES: Final[np.dtype[Any]] = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("left", "i8", (NUM_WORDS,)),  # `ends` ids still to try, as `legal_ends` gives them
                ("scoring", "i8", (NUM_WORDS,)),  # those of them that score
                ("own", "i8"),  # whether `side` is to move, and looks for the greatest value
                ("best", "f8"),  # value so far
                ("alpha", "f8"),  # only values between these two matter
                ("beta", "f8"),
            ]
        ),
    )
)


def solve_endgame(state: State, table: NDArray[np.float32], *, node_limit: int = 10_000_000) -> dict[int, float] | None:
    """Return the value of every legal action under best play of both: the mover's chance to win the match.

    Args:
        state: a full state with two seats, an empty boneyard, and a round that goes on.
        table: winning chances of two sides, see `agents.search.winning_chances`.
        node_limit: positions that may be visited.

    Returns:
        Chances by `ends` id; None if the limit was reached.

    Raises:
        ValueError: `state` is no such position.
    """
    if not is_endgame(state):
        raise ValueError("an endgame has two seats, an empty boneyard and a round that goes on")
    levels, notes, values = np.zeros(NUM_LEVELS, STATE), np.zeros(NUM_LEVELS, NOTES), np.full(NUM_ENDS_ACTIONS, np.nan)
    levels[0] = state
    if not solve_actions(levels, notes, table, node_limit, values, 0):
        return None
    return {int(action): float(values[action]) for action in np.flatnonzero(~np.isnan(values))}


@kernel
def is_endgame(state: State) -> Any:
    """Tell whether nothing is hidden: two seats, no tile left to draw, and the round goes on."""
    return state.num_players == 2 and state.result == RUNNING and boneyard_left(state) == 0


@kernel
def solve_actions(
    levels: States,
    notes: NDArray[Any],
    table: NDArray[np.float32],
    limit: int,
    values: NDArray[np.float64],
    start: int,
) -> Any:
    """Write the value of every legal action in ``levels[0]`` for its seat to move to ``values[start + action]``.

    Args:
        levels: STATE[NUM_LEVELS]; the position first, the others are scratch.
        notes: NOTES[NUM_LEVELS], scratch.
        table: winning chances of two sides.
        limit: positions that may be visited.
        values: written for legal ids only.
        start: where the ids begin in `values`.

    Returns:
        Whether the limit was kept; else the values mean nothing.
    """
    side, visited = np.int64(levels[0].turn), np.int64(0)
    legal = np.empty(NUM_ENDS_ACTIONS, np.int64)
    for index in range(list_ends(levels[0], legal)):
        levels[1] = levels[0]
        ends_step(levels[1], legal[index])
        values[start + legal[index]], visited = _value(levels, notes, table, side, visited, limit)
    return visited <= limit


@kernel
def _value(levels: States, notes: NDArray[Any], table: NDArray[np.float32], side: int, visited: int, limit: int) -> Any:
    """Return the chance of `side` in ``levels[1]``, and how many positions were visited by now.

    No recursion: numba's cache of compiled code does not bring recursive functions back whole.
    """
    level, alpha, beta = np.int64(1), 0.0, 1.0
    going_down, value = True, 0.0
    while True:
        if going_down:
            if play_on(levels[level], False, True, 0) == PLAYING:  # takes forced steps, ends with the round
                visited += 1
                if visited > limit:
                    return 0.0, visited
                _begin_level(levels[level], notes[level], alpha, beta, side)
            else:
                value, going_down = value_of_end(levels[level], table, side), False
        if not going_down:
            if level == 1:
                return value, visited
            level -= 1
            _hear(notes[level], value)
        action = _next_action(notes[level])
        going_down = action >= 0
        if going_down:
            alpha, beta = notes[level].alpha, notes[level].beta
            level += 1
            levels[level] = levels[level - 1]
            ends_step(levels[level], action)
        else:
            value = notes[level].best


@kernel
def _begin_level(state: State, note: Any, alpha: float, beta: float, side: int) -> None:
    note.own = np.int64(state.turn) == side
    note.best = 0.0 if note.own else 1.0
    note.alpha, note.beta = alpha, beta
    first, second, third = legal_ends(state)
    note.left[0], note.left[1], note.left[2] = first, second, third
    first, second, third = scoring_ends(state, first, second, third)
    note.scoring[0], note.scoring[1], note.scoring[2] = first, second, third


@kernel
def _hear(note: Any, value: float) -> None:
    """Take in the value of the action that was tried."""
    if note.own:
        note.best, note.alpha = max(note.best, value), max(note.alpha, value)
    else:
        note.best, note.beta = min(note.best, value), min(note.beta, value)


@kernel
def _next_action(note: Any) -> Any:
    """Return the next action to try and strike it off; -1 if none is left, or none can matter."""
    left, scoring = note.left, note.scoring
    if note.alpha >= note.beta or left[0] | left[1] | left[2] == 0:
        return np.int64(-1)
    if scoring[0] | scoring[1] | scoring[2]:
        action = first_id(scoring[0], scoring[1], scoring[2])
        scoring[0], scoring[1], scoring[2] = without_id(scoring[0], scoring[1], scoring[2], action)
    else:
        action = first_id(left[0], left[1], left[2])
    left[0], left[1], left[2] = without_id(left[0], left[1], left[2], action)
    return action
