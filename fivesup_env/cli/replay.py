"""`fivesup replay`: play recorded matches again through the rules."""

from __future__ import annotations

import argparse
from typing import Any

from fivesup_env.cli.arguments import CommandError, add_file, records_of
from fivesup_env.records import replay

_EPILOG = """\
examples:
  fivesup replay matches.jsonl
  fivesup record --matches 10 | fivesup replay -

The exit status is 1 when a record says something else than the rules give, and 2 when the file is
broken, cut off, empty, or no file of records at all."""


def add_parser(commands: Any) -> None:
    """Add this command to the parser of `fivesup`."""
    parser = commands.add_parser(
        "replay",
        help="check match records against the rules",
        description="Play each recorded match again through the rules, and report the first line and\n"
        "action that disagrees: deal, legality, events, scores, results, outcome.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_file(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay the file; return the exit status."""
    matches = rounds = actions = 0
    for matches, record in enumerate(records_of(arguments.file), 1):
        replay(record, matches)
        rounds += len(record["rounds"])
        actions += sum(len(played["actions"]) for played in record["rounds"])
    if not matches:
        raise CommandError(f"{arguments.file} holds no records")
    print(f"matches: {matches}, rounds: {rounds}, actions: {actions}: all agree with the rules")
    return 0
