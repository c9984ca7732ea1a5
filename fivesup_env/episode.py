"""Episodes: from one decision to the next, seeds of later matches, and rewards. The environments share this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import ends_step, only_action
from fivesup_env.rules.chance import mix
from fivesup_env.rules.play import start_next_round
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import RUNNING, WON, State, num_sides

# What `play_on` returns.
PLAYING, TERMINATED, TRUNCATED = 0, 1, 2

RewardName: TypeAlias = Literal["win", "points", "margin"]
EpisodeName: TypeAlias = Literal["match", "round"]
REWARDS: Final = ("win", "points", "margin")
EPISODES: Final = ("match", "round")

#: ``win_table(scores, starter)`` returns each side's chance to win the match when the next round begins at these raw
#: scores; `starter` is the seat that will open it, or None where the lot decides. The chances sum to 1.
WinTable: TypeAlias = Callable[[tuple[int, ...], int | None], Sequence[float]]


@kernel
def play_on(state: State, match_episode: bool, skip_forced: bool, max_rounds: int) -> Any:
    """Go on from the action just taken to the next decision, or to the end of the episode.

    Args:
        state: changed in place.
        match_episode: deal the next round when one is over; else the episode ends with the round.
        skip_forced: take every step in which only one `ends` id is legal.
        max_rounds: stop the match after this many rounds; 0 for never.

    Returns:
        PLAYING, TERMINATED or TRUNCATED.
    """
    while True:
        if state.result == WON:
            return TERMINATED
        if state.result != RUNNING:
            if not match_episode:
                return TERMINATED
            if max_rounds and state.round_number >= max_rounds:
                return TRUNCATED
            start_next_round(state)
        if not skip_forced:
            return PLAYING
        action = only_action(state)
        if action < 0:
            return PLAYING
        ends_step(state, action)


def match_seed(seed: int, index: int) -> int:
    """Return the seed of the `index`-th match after a reset with `seed`: `seed` itself, then seeds mixed from both."""
    return seed if index == 0 else int(mix(np.uint64(seed), np.uint64(index)))


def side_rewards(reward: RewardName, before: NDArray[Any], state: State) -> list[float]:
    """Return what every side earned since its scores were `before`, for an episode that plays the match.

    Args:
        reward: "win": 1 for the side that has won the match, -1 shared equally by the others; else 0. "points": the
            side's change of raw points. "margin": that, less the mean change of the other sides.
        before: raw scores per side.
        state: the state now.
    """
    sides = num_sides(int(state.num_players))
    if reward == "win":
        if state.result != WON:
            return [0.0] * sides
        return [1.0 if side == state.result_of else -1.0 / (sides - 1) for side in range(sides)]
    changes = [float(state.scores[side] - before[side]) for side in range(sides)]
    if reward == "points":
        return changes
    total = sum(changes)
    return [change - (total - change) / (sides - 1) for change in changes]


def table_chances(win_table: WinTable, scores: Iterable[int], starter: int | None) -> list[float]:
    """Return each side's chance to win the match by `win_table`, checked.

    Raises:
        ValueError: the table does not return one chance within 0 .. 1 per side.
    """
    at = tuple(int(score) for score in scores)
    values = [float(value) for value in win_table(at, starter)]
    if len(values) != len(at) or not all(0.0 <= value <= 1.0 for value in values):
        raise ValueError(f"win_table({at}, {starter}) must return {len(at)} chances within 0 .. 1, not {values}")
    return values


def seat_rewards(num_players: int, by_side: Sequence[float]) -> list[float]:
    """Return each seat's reward: that of its side (R2)."""
    return [by_side[int(side_of(num_players, seat))] for seat in range(num_players)]
