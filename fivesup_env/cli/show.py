"""`fivesup show`: print a recorded match as a person would follow it."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from fivesup_env.cli.arguments import CommandError, add_file, records_of, whole
from fivesup_env.cli.narrate import (
    action_lines,
    hand_lines,
    outcome_text,
    points_text,
    scores_text,
    side_names,
    table_text,
    tiles_text,
)
from fivesup_env.match import Match
from fivesup_env.records import Record, Step, replay_steps
from fivesup_env.scoresheet import score_sheet

_EPILOG = """\
examples:
  fivesup show matches.jsonl --match 3 | less
  fivesup show matches.jsonl --match 3 --round 2 --diagram

Points are raw; people see them divided by five. The score sheet at the end has a stroke for each
five points, ten strokes to a figure. The match is checked against the rules on the way, as by
'fivesup replay'."""


def add_parser(commands: Any) -> None:
    """Add this command to the parser of `fivesup`."""
    parser = commands.add_parser(
        "show",
        help="print a recorded match in words",
        description="Print a recorded match: the deal, every action with its points, settlements,\n"
        "refused events and why, scores, and the paper score sheet.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_file(parser)
    parser.add_argument("--match", type=whole(1), default=1, metavar="N", help="number of the line, from 1 (1)")
    parser.add_argument("--round", type=whole(1), metavar="N", help="print only this round, from 1 (all)")
    parser.add_argument("--diagram", action="store_true", help="draw the table after every placement")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the match; return the exit status."""
    record = next(islice(records_of(arguments.file), arguments.match - 1, None), None)
    if record is None:
        raise CommandError(f"{arguments.file} has no match {arguments.match}")
    rounds = len(record["rounds"])
    if arguments.round is not None and arguments.round > rounds:
        raise CommandError(f"match {arguments.match} has {rounds} rounds, not {arguments.round}")
    _print_head(record, arguments.match)
    scores: list[int] = []
    for step in replay_steps(record, arguments.match):
        match = step.match
        if arguments.round in (None, step.round):
            _print_step(step, scores, arguments.diagram)
        scores = match.scores
        if step.round == arguments.round and match.round_over:
            _print_sheet(match)
    if arguments.round is None:
        print()
        print(outcome_text(match.num_players, record["winner"], record["tied"], record["leading"]))
        _print_sheet(match)
    return 0


def _print_head(record: Record, number: int) -> None:
    seats = record["num_players"]
    target = points_text(record["target"])
    print(f"match {number}: {seats} seats, seed {record['seed']}, target {target}")
    if "laid_out" in record:
        print("the first round was laid out by hand")
    if seats == 4:
        print("side 0 is seats 0 and 2, side 1 is seats 1 and 3")


def _print_step(step: Step, before: list[int], diagram: bool) -> None:
    match = step.match
    if not step.action:
        _print_deal(match)
        return
    first, *rest = action_lines(match, step.seat, step.move, before)
    print(f"{step.action:5}  {first}")
    for line in rest:
        print(f"         {line}")
    if diagram and step.move not in ("draw", "pass"):
        print(f"\n{table_text(match)}\n")
    if match.round_over:
        print(f"  after round {step.round}: {scores_text(match)}")


def _print_deal(match: Match) -> None:
    print(f"\nround {match.round}: seat {match.starter} starts; {scores_text(match)}")
    for line in hand_lines(match):
        print(f"  {line}")
    print(f"  boneyard, next draw first: {tiles_text(match.boneyard)}")


def _print_sheet(match: Match) -> None:
    print()
    print(score_sheet(side_names(match.num_players), match.scores))
