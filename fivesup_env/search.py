"""What a search needs: states stepped in place, playouts inside one kernel, actions tried in sampled worlds.

States are full: give an agent's search nothing but worlds sampled from its view (`WorldSampler`), never the true state.
All randomness comes from the caller's keys; the result of a row depends on that row's state and key alone.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import ends_step, illegal_id
from fivesup_env.batch import first_illegal
from fivesup_env.notation import IllegalAction
from fivesup_env.options import check_choice
from fivesup_env.policies import GREEDY, RANDOM, policy_action
from fivesup_env.rules.chance import next_key, scramble
from fivesup_env.rules.play import start_next_round
from fivesup_env.rules.state import MAX_SIDES, RUNNING, STATE, WON, State, States
from fivesup_env.rules.view import view

PolicyName = Literal["greedy", "random"]
_POLICIES = {"greedy": GREEDY, "random": RANDOM}


class WorldSampler(Protocol):
    """Draws full states that agree with everything that a view knows."""

    def __call__(self, seen: State, keys: NDArray[np.uint64]) -> States:
        """Return STATE[K]: one world for each key. Their seeds may differ; later rounds follow from them."""
        ...


def step_states(states: States, actions: NDArray[np.int64]) -> None:
    """Take one `ends` action in every state, in place; a round that ends stays ended.

    Args:
        states: STATE[N].
        actions: int[N].

    Raises:
        ValueError: not one action for each state.
        IllegalAction: an action is illegal; names the first such row, and no state has moved.
    """
    taken = np.asarray(actions)
    if taken.shape != states.shape or not np.issubdtype(taken.dtype, np.integer):
        raise ValueError(f"actions must be {len(states)} integers, not {taken.dtype}{list(taken.shape)}")
    taken = taken.astype(np.int64, copy=False)
    row = int(first_illegal(states, np.arange(len(states)), taken, False))
    if row >= 0:
        raise IllegalAction(f"row {row}: {illegal_id(states[row], int(taken[row]))}")
    _step_states(states, taken)


def views_of(states: States, seats: NDArray[np.int64]) -> States:
    """Return STATE[N]: what seat ``seats[i]`` sees of ``states[i]``."""
    seen = np.empty(len(states), STATE)
    for row in range(len(states)):
        seen[row] = view(states[row], int(seats[row]))
    return seen


def playouts(
    states: States,
    keys: NDArray[np.uint64],
    *,
    policy: PolicyName = "greedy",
    until: Literal["round", "match"] = "round",
    max_rounds: int = 0,
) -> None:
    """Play every state on, in place, all seats by one policy.

    Args:
        states: STATE[N]; what is over already stays as it is.
        keys: uint64[N].
        policy: "greedy" or "random".
        until: the end of the "round" or of the "match".
        max_rounds: rounds after which a match stops; 0 for never.

    Raises:
        ValueError: an argument is impossible.
    """
    check_choice("policy", policy, tuple(_POLICIES))
    check_choice("until", until, ("round", "match"))
    if np.shape(keys) != states.shape:
        raise ValueError(f"keys must be {len(states)} uint64, not of shape {list(np.shape(keys))}")
    _playouts(states, np.asarray(keys, np.uint64), _POLICIES[policy], until == "match", max_rounds)


def try_actions(
    worlds: States, actions: NDArray[np.int64], keys: NDArray[np.uint64], *, policy: PolicyName = "greedy"
) -> States:
    """Try each action in each world and play on to the end of the round.

    Args:
        worlds: STATE[K]; every action must be legal in every one.
        actions: int64[A], `ends` ids.
        keys: uint64[K]: the same for every action, so that they are compared on equal luck.
        policy: of all seats after the action.

    Returns:
        STATE[A, K]: where it led to.

    Raises:
        ValueError: an argument is impossible.
        IllegalAction: an action is illegal in a world; names action and world.
    """
    ends = np.empty((len(actions), len(worlds)), STATE)
    for index, action in enumerate(actions):
        ends[index] = worlds
        step_states(ends[index], np.full(len(worlds), action))
        playouts(ends[index], keys, policy=policy)
    return ends


def gains(ends: States) -> NDArray[np.int64]:
    """Return what every side gained in the round of each state, int64[..., 3]; 0 for sides that do not exist."""
    before, after = ends["round_scores"].astype(np.int64), ends["scores"].astype(np.int64)
    gained: NDArray[np.int64] = after - before
    assert gained.shape[-1] == MAX_SIDES
    return gained


@kernel
def _step_states(states: States, actions: NDArray[np.int64]) -> None:
    for row in range(len(states)):
        ends_step(states[row], actions[row])


@kernel
def _playouts(states: States, keys: NDArray[np.uint64], policy: int, whole_match: bool, max_rounds: int) -> None:
    for row in range(len(states)):
        play_out(states[row], keys[row], policy, whole_match, max_rounds)


@kernel
def play_out(state: State, key: np.uint64, policy: int, whole_match: bool, max_rounds: int) -> None:
    """Play one state on, in place: `playouts` for kernels."""
    while True:
        while state.result == RUNNING:
            key = next_key(key)
            ends_step(state, policy_action(state, policy, scramble(key)))
        if not whole_match or state.result == WON or (max_rounds and state.round_number >= max_rounds):
            return
        start_next_round(state)
