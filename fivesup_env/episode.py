"""Episodes: from one decision to the next, seeds of later matches, and rewards. The environments share this."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import ends_step, only_action
from fivesup_env.rules.chance import mix
from fivesup_env.rules.play import start_next_round
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import OUT, RUNNING, WON, State, States

# What `play_on` returns.
PLAYING, TERMINATED, TRUNCATED = 0, 1, 2

#: Rewards by number, as kernels take them. `chances` is "win" with an episode of one round, which a table pays.
WIN, POINTS, MARGIN, CHANCES = 0, 1, 2, 3
REWARD_NUMBERS: Final = {"win": WIN, "points": POINTS, "margin": MARGIN}


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
    return int(seed_of_match(np.uint64(seed), np.uint64(index)))


@kernel
def seed_of_match(seed: np.uint64, index: np.uint64) -> Any:
    """`match_seed` for kernels."""
    return seed if index == np.uint64(0) else mix(seed, index)


def next_rounds(states: States, sides: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return with what scores, and by whom, the rounds begin that follow those which are over.

    Args:
        states: STATE[K], rounds that are over.
        sides: S, how many sides there are.

    Returns:
        int64[K, S], raw scores, and int64[K], the seats that start, -1 for the lot (R4). After a match that is won, a
        new one begins.
    """
    won = states["result"] == WON
    scores = np.where(won[:, None], 0, states["scores"][:, :sides].astype(np.int64))
    starters = np.where(states["result"] == OUT, states["result_of"].astype(np.int64), -1)
    return scores, starters


@kernel
def pay(state: State, before: NDArray[Any], reward: int, out: NDArray[Any], row: int) -> None:
    """Add what every seat earned since the scores were `before` to ``out[row]`` [seats].

    Args:
        state: the state now.
        before: raw scores per side, int[3].
        reward: WIN: 1 for the seats of the side that has won the match, -1 shared equally by the others; else 0.
            POINTS: the side's change of raw points. MARGIN: that, less the mean change of the other sides. CHANCES: 0,
            since the win table is asked elsewhere.
        out: added to, [rows, seats].
        row: which row of `out`.
    """
    if reward == WIN:
        if state.result == WON:
            _pay_win(state, out, row)
    elif reward != CHANCES:
        _pay_points(state, before, reward == MARGIN, out, row)


@kernel
def _pay_win(state: State, out: NDArray[Any], row: int) -> None:
    num_players = np.int64(state.num_players)
    others = np.int64(1) if num_players == 4 else num_players - 1
    for seat in range(num_players):
        out[row, seat] += 1.0 if side_of(num_players, seat) == state.result_of else -1.0 / others


@kernel
def _pay_points(state: State, before: NDArray[Any], margin: bool, out: NDArray[Any], row: int) -> None:
    num_players = np.int64(state.num_players)
    sides = np.int64(2) if num_players == 4 else num_players
    total = np.int64(0)
    for side in range(sides):
        total += np.int64(state.scores[side]) - np.int64(before[side])
    for seat in range(num_players):
        side = side_of(num_players, seat)
        change = np.int64(state.scores[side]) - np.int64(before[side])
        out[row, seat] += change - (total - change) / (sides - 1) if margin else change
