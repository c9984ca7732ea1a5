"""`fivesup play`: a person plays in the terminal against agents, and sees what its seat sees."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fivesup_env.cli.arguments import CommandError, add_match_arguments, add_seed, new_match, whole
from fivesup_env.cli.narrate import (
    action_lines,
    outcome_text,
    scores_text,
    side_names,
    table_text,
)
from fivesup_env.cli.seats import agent_move, make_agents, make_one
from fivesup_env.match import Match, View
from fivesup_env.notation import parse_move
from fivesup_env.records import outcome
from fivesup_env.rules.legality import describe_move, why_illegal
from fivesup_env.scoresheet import score_sheet

if TYPE_CHECKING:
    from agents import Agent

_EPILOG = """\
examples:
  fivesup play
  fivesup play --players 4 --against greedy --seat 1
  fivesup play --players 3 --against greedy,random --seed 7 --max-rounds 3

With four seats, seats 0 and 2 are partners, and so are seats 1 and 3."""

_HELP = """\
  a number     do what the list has under that number
  a move       such as 1|4 (opens), 1|1@1|4.low (places [1|1] at the low half of [1|4]), draw, pass
  Enter        draw or pass, where that is all that can be done
  hint         what the agent "greedy" would do
  table        draw the table again
  sheet        the score sheet
  quit         stop playing
Tiles are written low|high. Ports: low and high of an ordinary tile; line_a, line_b and, once both are
taken, branch_a, branch_b of a double. After each placement the ends are summed; a multiple of five
scores that many points. Exactly the target wins; what goes beyond it is refused."""


def add_parser(commands: Any) -> None:
    """Add this command to the parser of `fivesup`."""
    parser = commands.add_parser(
        "play",
        help="play in the terminal",
        description="Play against agents in the terminal. You see what your seat sees.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--against",
        action="append",
        metavar="AGENTS",
        help="one agent for all other seats, or one for each, clockwise from yours (greedy)",
    )
    parser.add_argument("--seat", type=whole(0, 3), default=0, metavar="N", help="your seat (0)")
    add_seed(parser, None, "seed of the match (random; told at the end)")
    add_match_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play one match; return the exit status."""
    if arguments.seat >= arguments.players:
        raise CommandError(f"--seat: {arguments.players} seats are numbered 0 .. {arguments.players - 1}")
    others = make_agents(arguments.against or ["greedy"], arguments.players - 1, arguments.players)
    game = _Game(new_match(arguments, arguments.seed), arguments.seat, others)
    try:
        game.play(arguments.max_rounds)
    except (_Quit, EOFError) as stopped:
        if isinstance(stopped, EOFError):
            print()
        print(f"Stopped. {scores_text(game.match)}.")
    print(f"The seed was {game.seed}.")
    return 0


class _Quit(Exception):
    """The person wants to stop."""


class _Game:
    """One match between a person and agents. Only views are ever printed."""

    def __init__(self, match: Match, seat: int, others: list[Agent]) -> None:
        self.match = match
        self.seat = seat
        self.seed = int(match.state.seed)
        self.ply = 0
        seats = match.num_players
        self.agents = {(seat + 1 + index) % seats: agent for index, agent in enumerate(others)}
        for agent in others:
            agent.reset(self.seed)

    def play(self, max_rounds: int | None) -> None:
        match = self.match
        print(f"You are seat {self.seat} of {match.num_players}. 'help' tells what you can type.")
        if match.num_players == 4:
            print("Seats 0 and 2 are side 0, seats 1 and 3 are side 1.")
        while True:
            self._play_round()
            if match.winner is not None or match.round == max_rounds:
                break
            self._ask("Enter for the next round: ")
            match.next_round()
        print(f"\n{outcome_text(match.num_players, *outcome(match))}.")

    def _play_round(self) -> None:
        match = self.match
        print(f"\nRound {match.round}: seat {match.starter} starts. {scores_text(match)}.")
        while not match.round_over:
            seat, before = match.turn, match.scores
            move = self._persons_move() if seat == self.seat else self._agents_move(seat)
            match.play(move)
            self.ply += 1
            first, *rest = action_lines(match.view(self.seat), seat, move, before)
            print(f"* {first}")
            for line in rest:
                print(f"    {line}")
        view = match.view(self.seat)
        print(f"\n{table_text(view)}\n")
        print(_sheet(view))

    def _agents_move(self, seat: int) -> str:
        return agent_move(self.agents[seat], self.match, self.seed, self.ply)

    def _persons_move(self) -> str:
        view = self.match.view(self.seat)
        _print_turn(view)
        legal = view.legal()
        while True:
            text = self._ask("Your move: ")
            if not text and legal[0] in ("draw", "pass"):
                return legal[0]
            if text.isdecimal() and len(text) < 4 and 1 <= int(text) <= len(legal):
                return legal[int(text) - 1]
            if text in legal:
                return text
            print(_why_not(view, text))

    def _ask(self, prompt: str) -> str:
        """Return what the person types, after doing what is no move."""
        view = self.match.view(self.seat)
        while True:
            text = _typed(prompt)
            if text == "quit":
                raise _Quit
            if text == "help":
                print(_HELP)
            elif text == "table":
                print(table_text(view))
            elif text == "sheet":
                print(_sheet(view))
            elif text == "hint":
                print(_hint(view))
            else:
                return text


def _typed(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except UnicodeDecodeError as error:
        raise CommandError(f"what was typed is not {error.encoding} text") from None


def _print_turn(view: View) -> None:
    print(f"\n{table_text(view)}\n")
    legal = view.legal()
    if legal[0] in ("draw", "pass"):
        print(f"Nothing fits: you have to {legal[0]}. Press Enter.")
        return
    for number, move in enumerate(legal, 1):
        print(f"{number:4}  {_describe(move)}")


def _describe(move: str) -> str:
    return describe_move(*parse_move(move))


def _hint(view: View) -> str:
    if view.round_over:
        return "The round is over."
    return f"greedy would {_describe(agent_move(make_one('greedy', view.num_players), view, 0, 0))}"


def _sheet(view: View) -> str:
    return score_sheet(side_names(view.num_players), view.scores)


def _why_not(view: View, text: str) -> str:
    """Return why a text is not accepted as a move."""
    if not text or text.isdecimal():
        return f"Type a number from 1 to {len(view.legal())}, or a move; 'help' tells more."
    try:
        tile, port = parse_move(text)
    except ValueError:
        return f"{text[:40]!a} is no move; 'help' tells what you can type."
    return f"You cannot {describe_move(tile, port)}: {why_illegal(view.state, tile, port)}."
