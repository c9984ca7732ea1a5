"""Agents at the seats of a `Match`. The package `agents` is loaded when the first one is made, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fivesup_env.actions import action_mask, action_move
from fivesup_env.cli.arguments import CommandError, split
from fivesup_env.match import Position
from fivesup_env.notation import move_text
from fivesup_env.rules.state import STATE
from fivesup_env.rules.view import view

if TYPE_CHECKING:
    from agents import Agent


def make_agents(texts: list[str], seats: int, num_players: int) -> list[Agent]:
    """Return an agent object for each of so many seats of a match, from one text for all or one for each.

    Raises:
        CommandError: a text names no agent that can play in such a match, or there are too many or too few texts.
    """
    names = split(texts)
    if len(names) == 1:
        names *= seats
    if len(names) != seats:
        raise CommandError(f"{seats} seats need one agent, or {seats}, not {len(names)}")
    return [make_one(name, num_players) for name in names]


def make_one(text: str, num_players: int) -> Agent:
    """Return the agent of a text, for a match of so many seats.

    Raises:
        CommandError: it names none, one that sees hidden tiles, or a network for another number of seats.
    """
    from agents import make_player

    try:
        return make_player(text, num_players)
    except (ValueError, ImportError) as error:
        raise CommandError(error) from None


def agent_move(agent: Agent, position: Position, seed: int, ply: int) -> str:
    """Return what an agent does for the seat to move, from what that seat sees.

    Args:
        agent: who decides.
        position: the match, or the view of the seat to move.
        seed: match seed.
        ply: number of actions in the match so far; with the seed, all that an agent's chance depends on.
    """
    from agents import decision_key

    seen = view(position.state, position.turn)
    keys = np.array([decision_key(seed, 0, ply)], np.uint64)
    actions = agent.act(np.array([seen], STATE), action_mask(seen)[None], keys)
    return move_text(*action_move(seen, int(actions[0])))
