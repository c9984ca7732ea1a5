"""The matches of the arena as records that the rules can replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agents.agent import partners
from agents.arena import Blocks, seated
from agents.results import unique_names
from fivesup_env.actions import action_move, only_action
from fivesup_env.match import Match
from fivesup_env.notation import move_text
from fivesup_env.records import Record, Recorder, record_line

if TYPE_CHECKING:
    from agents.tournament import Plan, Played


def record_lines(blocks: Blocks, num_players: int, first_seed: int) -> list[str]:
    """Return the record of every match, a line each; an empty text where a forfeit came within the first round.

    A record holds whole rounds: after a forfeit, those before the round that was broken off.
    """
    size = blocks.block_size
    return [_line(actions, num_players, first_seed + match // size) for match, actions in enumerate(blocks.actions)]


def _line(actions: list[int], num_players: int, seed: int) -> str:
    """Play a match again from the decisions taken in it; forced steps were no decisions."""
    recorder = Recorder(Match(num_players, seed=seed))
    decisions = iter(actions)
    record: Record | None = None
    while True:
        state = recorder.match.state
        action = int(only_action(state))
        if action < 0:
            action = next(decisions, -1)
        if action < 0:
            return record_line(record) if record else ""
        recorder.play(move_text(*action_move(state, action)))
        if recorder.match.round_over:
            record = recorder.record()
            if recorder.match.winner is not None:
                return record_line(record)
            recorder.next_round()


def line_ups(plan: Plan, played: Sequence[Played]) -> Iterator[str]:
    """Yield a line of JSON for every match, in the order of their records: who sat where, and who won.

    Keys: `record`, the number of its line among the records, from 1, or null; `pair`, `block` and `rotation`; `seats`,
    the agent in each, of a
    named pair the partner by its own text; `winner`, the side, or null; `forfeit`, the seat that lost so, or null.
    """
    names, number = unique_names(plan.agents), 0
    for result in played:
        blocks, size = result.blocks, result.blocks.block_size
        sides = _seat_names(plan, names, result.a), _seat_names(plan, names, result.b)
        for match, (tally, line) in enumerate(zip(blocks.tallies, blocks.lines, strict=True)):
            number += bool(line)
            told = {
                "record": number if line else None,
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
