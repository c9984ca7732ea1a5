"""`fivesup predict`: what an agent would do in one position, and why, from what the seat to move sees."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from fivesup_env.actions import action_mask, action_move
from fivesup_env.cli.arguments import CommandError, add_seed
from fivesup_env.cli.seats import make_one
from fivesup_env.match import Match, View
from fivesup_env.notation import move_text, split_words
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import STATE

if TYPE_CHECKING:
    from agents import Agent
    from agents.network import NetworkAgent
    from agents.search.pimc import PimcAgent

_EPILOG = """\
examples:
  fivesup predict pimc:200 'fivesup view=0 players=2 ... moves=1|4 turn=0 scores=0,5 total=5'
  python -c 'from fivesup_env import Match; print(repr(Match(2, seed=7)))' | fivesup predict greedy
  fivesup predict runs/2p/checkpoints/best --json - < position.txt

Views and positions are texts as Python's repr() writes them; of a position the agent is shown what the seat
to move sees. A network tells the probability of each action, and its value: the change that it expects
of the chance to win the match since the round began. pimc tells for each action the mean chance to win
the match over the worlds that it tried, and the standard deviation (0 where it solved an endgame);
guided the same, with the chance joined with its network's opinion.
Ports that lead to the same game are one action."""


def add_parser(commands: Any) -> None:
    """Add this command to the parser of `fivesup`."""
    parser = commands.add_parser(
        "predict",
        help="ask an agent what it would do in one position",
        description="Print what an agent makes of one position: its actions, the best first, and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("agent", metavar="AGENT", help="as for 'fivesup evaluate': pimc:200, a checkpoint folder, ...")
    parser.add_argument(
        "view", nargs="?", default="-", metavar="VIEW", help="text of a view or a position; - for standard input (-)"
    )
    add_seed(parser, 0, "seed of what the agent draws, such as the worlds of pimc (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the prediction; return the exit status."""
    seen = _read_view(sys.stdin.read() if arguments.view == "-" else arguments.view)
    told = {"agent": arguments.agent, "view": repr(seen), "seat": seen.seat, **_predict(arguments, seen)}
    print(json.dumps(told) if arguments.json else "\n".join(_lines(told)))
    return 0


def _read_view(text: str) -> View:
    """Return the view of the seat to move that a text tells of."""
    try:
        words = split_words(text.strip())
        seen = View.from_text(text.strip()) if "view" in words else _view_of(Match.from_text(text.strip()))
    except ValueError as error:
        raise CommandError(error) from None
    if seen.round_over:
        raise CommandError("the round is over: no seat is to move")
    if seen.seat != seen.turn:
        raise CommandError(f"seat {seen.turn} is to move, and this is the view of seat {seen.seat}")
    return seen


def _view_of(match: Match) -> View:
    return match.view(match.turn)


def _predict(arguments: argparse.Namespace, seen: View) -> dict[str, Any]:
    """Return what the agent tells, as it stands in the JSON object."""
    agent = make_one(arguments.agent, seen.num_players)
    from agents.agent import decision_key, is_network
    from agents.search.pimc import PimcAgent

    agent.reset(arguments.seed)
    key = decision_key(arguments.seed, 0, 0)
    if isinstance(agent, PimcAgent):
        return _search_result(agent, seen, key)
    if is_network(arguments.agent):
        from agents.network import NetworkAgent

        assert isinstance(agent, NetworkAgent)
        return _network_output(agent, seen)
    return {"action": _taken(agent, arguments.agent, seen, key)}


def _taken(agent: Agent, name: str, seen: View, key: np.uint64) -> str:
    mask = action_mask(seen.state)
    action = int(agent.act(np.array([seen.state], STATE), mask[None], np.array([key]))[0])
    if action not in np.flatnonzero(mask):
        raise CommandError(f"agent {name!r} chose action {action}, which is illegal")
    return move_text(*action_move(seen.state, action))


def _search_result(agent: PimcAgent, seen: View, key: np.uint64) -> dict[str, Any]:
    found = agent.action_values(np.array([seen.state], STATE), np.array([key]))
    actions = [
        {"action": text, "chance": float(found.mean[0, action]), "spread": float(found.spread[0, action])}
        for action, text in _ranked(seen, found.mean[0])
    ]
    weight = getattr(agent, "prior_weight", None)
    guided = {} if weight is None else {"prior_weight": weight}
    return {"action": actions[0]["action"], "actions": actions, "worlds": agent.worlds, **guided}


def _network_output(agent: NetworkAgent, seen: View) -> dict[str, Any]:
    views = np.array([seen.state], STATE)
    probabilities = agent.probabilities(views, action_mask(seen.state)[None])[0]
    actions = [
        {"action": text, "probability": float(probabilities[action])} for action, text in _ranked(seen, probabilities)
    ]
    value = float(agent.values(views)[0])
    return {"action": actions[0]["action"], "actions": actions, **_chances(seen, value, agent.reward_scale)}


def _chances(seen: View, value: float, reward_scale: float | None) -> dict[str, Any]:
    """Return a network's value, and, if its unit is known, what it means for the chance to win the match."""
    if reward_scale is None:
        return {"value": value}
    from agents.search.winning_chances import chance_table, value_of_start

    side = side_of(seen.num_players, seen.seat)
    before = float(value_of_start(seen.state, chance_table(seen.num_players), side))
    change = value / reward_scale
    return {"value": value, "change": change, "chance_before": before, "chance": before + change}


def _ranked(seen: View, worth: Any) -> list[tuple[int, str]]:
    """Return the legal actions as ids and texts, by worth [163] from the highest; the lowest id first among equals."""
    legal = np.flatnonzero(action_mask(seen.state))
    order = legal[np.argsort(-worth[legal], kind="stable")]
    return [(action, move_text(*action_move(seen.state, action))) for action in order.tolist()]


def _lines(told: dict[str, Any]) -> list[str]:
    """Return a prediction as lines for people."""
    lines = [f"seat {told['seat']} is to move; {told['agent']} takes {told['action']}"]
    if "worlds" in told:
        lines.append(f"chance to win the match, mean and spread over {told['worlds']} worlds{_guidance(told)}:")
        lines += [f"  {row['chance']:.4f}  {row['spread']:.4f}  {row['action']}" for row in told["actions"]]
    if "value" in told:
        lines.append("probability of each action:")
        lines += [f"  {row['probability']:.4f}  {row['action']}" for row in told["actions"]]
        lines += _value_lines(told)
    return lines


def _guidance(told: dict[str, Any]) -> str:
    if "prior_weight" not in told:
        return ""
    return f", the mean joined with a network's opinion that is worth {told['prior_weight']:g} worlds"


def _value_lines(told: dict[str, Any]) -> list[str]:
    if "change" not in told:
        return [f"value, in the unit of its training: {told['value']:+.4f}"]
    return [
        f"expected change of the chance to win the match since the round began: {told['change']:+.4f}",
        f"chance to win the match: {told['chance']:.4f}; when the round began, by scores: {told['chance_before']:.4f}",
    ]
