"""Kernels over rows of states: what the environments and the arena do to many matches at once, or to one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from fivesup_env.episode import PLAYING, pay, play_on, seed_of_match
from fivesup_env.observation import OBS_SIZE, write_decision, write_observation
from fivesup_env.rules.play import start_match
from fivesup_env.rules.state import MAX_SIDES, States
from fivesup_env.rules.view import hide


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
) -> None:
    """Go to the first decision from where these rows stand."""
    for index in range(len(rows)):
        row = rows[index]
        status[row] = play_on(states[row], match_episode, skip_forced, max_rounds)


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
    """Take the actions, pay them, and write observation, mask and seat to move of the rows that go on."""
    before = np.empty(MAX_SIDES, np.int64)
    flat_observations, flat_masks = observations.reshape(-1), masks.reshape(-1)
    for index in range(len(rows)):
        row = rows[index]
        state = states[row]
        seat = np.int64(state.turn)
        for side in range(MAX_SIDES):
            before[side] = state.scores[side]
        if ports:
            ports_step(state, actions[index])
        else:
            ends_step(state, actions[index])
        status[row] = play_on(state, match_episode, skip_forced, max_rounds)
        for other in range(rewards.shape[1]):
            rewards[row, other] = 0
        pay(state, before, reward, rewards, row)
        actor_rewards[row] = rewards[row, seat]
        if look and status[row] == PLAYING:
            _look_row(state, row, ports, flat_observations, flat_masks, to_play)


@kernel
def _look_row(
    state: Any,
    row: int,
    ports: bool,
    observations: NDArray[np.int8],
    masks: NDArray[np.int8],
    to_play: NDArray[np.int64],
) -> None:
    seat = np.int64(state.turn)
    to_play[row] = seat
    if ports:
        write_observation(state, seat, observations, row * OBS_SIZE)
        ports_mask(state, masks, row * NUM_PORTS_ACTIONS)
    else:
        write_decision(state, observations, row * OBS_SIZE, masks, row * NUM_ENDS_ACTIONS)


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
        _look_row(states[rows[index]], rows[index], ports, flat_observations, flat_masks, to_play)


@kernel
def look_at_ends(states: States, rows: NDArray[np.int64], observations: NDArray[np.int8]) -> None:
    """Write the observation of every seat in these rows into ``observations``, int8[K, P, D]."""
    flat, num_players = observations.reshape(-1), observations.shape[1]
    for index in range(len(rows)):
        for seat in range(num_players):
            write_observation(states[rows[index]], seat, flat, (index * num_players + seat) * OBS_SIZE)


@kernel
def hide_rows(states: States, masks: NDArray[np.int8]) -> None:
    """Turn every state into the view of its seat to move; write its legal `ends` ids into ``masks``, int8[K, 163]."""
    flat = masks.reshape(-1)
    for row in range(len(states)):
        ends_mask(states[row], flat, row * NUM_ENDS_ACTIONS)
        hide(states[row], np.int64(states[row].turn))
