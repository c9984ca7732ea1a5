"""Kernels over rows of states: what the environments and the arena do to many matches at once, or to one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env._bits import prefetch
from fivesup_env._jit import kernel
from fivesup_env.actions import (
    NUM_ENDS_ACTIONS,
    NUM_PORTS_ACTIONS,
    ends_is_legal,
    ends_mask,
    ends_step,
    ports_is_legal,
    ports_mask,
    ports_step,
)
from fivesup_env.episode import PLAYING, WIN, pay, play_on, seed_of_match
from fivesup_env.observation import OBS_SIZE, write_decision, write_observation
from fivesup_env.rules.play import start_match
from fivesup_env.rules.state import MAX_SIDES, WON, States
from fivesup_env.rules.view import hide

#: Writing an observation waits for memory once all of them exceed the caches: its lines are fetched so many rows ahead.
AHEAD: Final = 2
CACHE_LINE: Final = 64  # bytes


@kernel
def deal_rows(states: States, rows: NDArray[np.int64], seeds: NDArray[np.uint64], indices: NDArray[np.uint64]) -> None:
    """Deal the first round of the match that each row's seed and index stand for."""
    for index in range(len(rows)):
        row = rows[index]
        states[row].seed = seed_of_match(seeds[row], indices[row])
        start_match(states[row])


@kernel
def enter_rows(
    states: States,
    rows: NDArray[np.int64],
    match_episode: bool,
    skip_forced: bool,
    max_rounds: int,
    status: NDArray[np.int8],
) -> Any:
    """Go to the first decision from where these rows stand; tell whether all of them have one."""
    all_play = True
    for index in range(len(rows)):
        row = rows[index]
        status[row] = play_on(states[row], match_episode, skip_forced, max_rounds)
        all_play = all_play and status[row] == PLAYING
    return all_play


@kernel
def first_illegal(states: States, rows: NDArray[np.int64], actions: NDArray[np.int64], ports: bool) -> Any:
    """Return the first index whose action is illegal in its row, or -1."""
    for index in range(len(rows)):
        state = states[rows[index]]
        legal = ports_is_legal(state, actions[index]) if ports else ends_is_legal(state, actions[index])
        if not legal:
            return index
    return -1


@kernel
def step_rows(
    states: States,
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    ports: bool,
    match_episode: bool,
    skip_forced: bool,
    max_rounds: int,
    reward: int,
    look: bool,
    observations: NDArray[np.int8],
    masks: NDArray[np.int8],
    to_play: NDArray[np.int64],
    actor_rewards: NDArray[np.float64],
    rewards: NDArray[np.float32],
    status: NDArray[np.int8],
) -> None:
    """Take the actions, pay them, and write observation, mask and seat to move of the rows that go on.

    Long on purpose: numba counts references where an array is handed to another function, which takes some 5 ns each.
    """
    before = np.empty(MAX_SIDES, np.int64)
    flat_observations, flat_masks = observations.reshape(-1), masks.reshape(-1)
    num_players = rewards.shape[1]
    for index in range(len(rows)):
        row = rows[index]
        for line in range(0, OBS_SIZE, CACHE_LINE):
            prefetch(flat_observations, (row + AHEAD) * OBS_SIZE + line)
        state = states[row]
        seat = np.int64(state.turn)
        for side in range(MAX_SIDES):
            before[side] = state.scores[side]
        if ports:
            ports_step(state, actions[index])
        else:
            ends_step(state, actions[index])
        goes_on = play_on(state, match_episode, skip_forced, max_rounds)
        status[row] = goes_on
        for other in range(num_players):
            rewards[row, other] = 0
        if reward != WIN or state.result == WON:
            pay(state, before, reward, rewards, row)
        actor_rewards[row] = rewards[row, seat]
        if not look or goes_on != PLAYING:
            continue
        to_play[row] = state.turn
        if ports:
            write_observation(state, np.int64(state.turn), flat_observations, row * OBS_SIZE)
            ports_mask(state, flat_masks, row * NUM_PORTS_ACTIONS)
        else:
            write_decision(state, flat_observations, row * OBS_SIZE, flat_masks, row * NUM_ENDS_ACTIONS)


@kernel
def look_rows(
    states: States,
    rows: NDArray[np.int64],
    ports: bool,
    observations: NDArray[np.int8],
    masks: NDArray[np.int8],
    to_play: NDArray[np.int64],
) -> None:
    """Write observation, mask and seat to move of these rows, whose rounds go on."""
    flat_observations, flat_masks = observations.reshape(-1), masks.reshape(-1)
    for index in range(len(rows)):
        row = rows[index]
        state = states[row]
        to_play[row] = state.turn
        if ports:
            write_observation(state, np.int64(state.turn), flat_observations, row * OBS_SIZE)
            ports_mask(state, flat_masks, row * NUM_PORTS_ACTIONS)
        else:
            write_decision(state, flat_observations, row * OBS_SIZE, flat_masks, row * NUM_ENDS_ACTIONS)


@kernel
def look_at_ends(states: States, rows: NDArray[np.int64], observations: NDArray[np.int8]) -> None:
    """Write the observation of every seat in these rows into ``observations``, int8[K, P, D]."""
    flat, num_players = observations.reshape(-1), observations.shape[1]
    for index in range(len(rows)):
        for seat in range(num_players):
            write_observation(states[rows[index]], seat, flat, (index * num_players + seat) * OBS_SIZE)


@kernel
def write_outcomes(
    states: States,
    rows: NDArray[np.int64],
    winners: NDArray[np.int64],
    scores: NDArray[np.int64],
    rounds: NDArray[np.int64],
) -> None:
    """Write how the matches of these rows ended: winning side [K], -1 for none, scores [K, sides], rounds [K]."""
    for index in range(len(rows)):
        state = states[rows[index]]
        winners[index] = state.result_of if state.result == WON else -1
        rounds[index] = state.round_number
        for side in range(scores.shape[1]):
            scores[index, side] = state.scores[side]


@kernel
def hide_rows(states: States, masks: NDArray[np.int8]) -> None:
    """Turn every state into the view of its seat to move; write its legal `ends` ids into ``masks``, int8[K, 163]."""
    flat = masks.reshape(-1)
    for row in range(len(states)):
        ends_mask(states[row], flat, row * NUM_ENDS_ACTIONS)
        hide(states[row], np.int64(states[row].turn))
