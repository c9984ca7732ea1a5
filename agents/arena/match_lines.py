"""The matches of the arena as records that the rules can replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agents.agent import partners
from agents.arena.blocks import Blocks, seated
from agents.arena.results import unique_names
from fivesup_env._jit import kernel
from fivesup_env.actions import ends_is_legal, ends_step, illegal_id, only_action
from fivesup_env.records import record_line, record_of
from fivesup_env.rules.play import start_match, start_next_round
from fivesup_env.rules.state import RUNNING, STATE, WON, State, States, new_state

if TYPE_CHECKING:
    from agents.arena.tournament import Plan, Played


def record_lines(blocks: Blocks, num_players: int, first_seed: int) -> Iterator[str]:
    """Yield the record of every match, a line each; an empty text where a forfeit came within the first round.

    A record holds whole rounds: after a forfeit, those before the round that was broken off.

    Raises:
        IllegalAction: a decision is not legal.
    """
    size = blocks.block_size
    for match, actions in enumerate(blocks.actions):
        course = replayed(new_state(num_players, seed=first_seed + match // size), actions)
        yield record_line(record_of(course)) if len(course) else ""


def replayed(state: State, actions: Sequence[int]) -> States:
    """Play a match again from the decisions taken in it; forced steps were no decisions.

    Args:
        state: holds seed and rule parameters; changed in place.
        actions: `ends` ids.

    Returns:
        STATE[T], the course of the whole rounds of the match, as `record_of` takes it.

    Raises:
        IllegalAction: a decision is not legal.
    """
    decisions = np.array(actions, np.int64)
    length, taken = _replay(state, decisions, np.empty(0, STATE))
    if taken < len(decisions) and state.result != WON:
        raise illegal_id(state, actions[taken])
    course: States = np.empty(length, STATE)
    _replay(state, decisions, course)
    return course


@kernel
def _replay(state: State, decisions: NDArray[np.int64], course: States) -> Any:
    """Write the course of a match, as much of it as there is room for.

    Returns:
        The length of the course of the whole rounds, and how many decisions were taken: all of them, or those until
        the match was won or one was not legal.
    """
    start_match(state)
    length = whole = taken = np.int64(0)
    while True:
        if length < len(course):
            course[length] = state
        length += 1
        if state.result != RUNNING:
            whole = length
            if state.result == WON:
                return whole, taken
            start_next_round(state)
            continue
        action = only_action(state)
        if action < 0:
            if taken == len(decisions) or not ends_is_legal(state, decisions[taken]):
                return whole, taken
            action = decisions[taken]
            taken += 1
        ends_step(state, action)


def line_ups(plan: Plan, played: Sequence[Played]) -> Iterator[str]:
    """Yield a line of JSON for every match, in the order of their records: who sat where, and who won.

    Keys: `record`, the number of its line among the records, from 1, or null; `pair`, `block` and `rotation`; `seats`,
    the agent in each, of a named pair the partner by its own text; `winner`, the side, or null; `forfeit`, the seat
    that lost so, or null.
    """
    names, number = unique_names(plan.agents), 0
    for result in played:
        blocks, size = result.blocks, result.blocks.block_size
        sides = _seat_names(plan, names, result.a), _seat_names(plan, names, result.b)
        for match, tally in enumerate(blocks.tallies):
            recorded = bool(tally["rounds"])  # whole ones: without any there is no record
            number += recorded
            told = {
                "record": number if recorded else None,
                "pair": [names[result.a], names[result.b]],
                "block": match // size,
                "rotation": match % size,
                "seats": seated(plan.num_players, match % size, *sides),
                "winner": int(tally["winner"]) if tally["winner"] >= 0 else None,
                "forfeit": int(tally["forfeit"]) if tally["forfeit"] >= 0 else None,
            }
            yield json.dumps(told) + "\n"


def _seat_names(plan: Plan, names: Sequence[str], index: int) -> Sequence[str]:
    """Return the names under which an agent sits: its own, or those of its two partners."""
    pair = partners(plan.agents[index])
    return pair if len(pair) == 2 else [names[index]]
