"""`fivesup evaluate`: agents against each other, which is `python evaluate.py` by another name."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from fivesup_env.cli.arguments import CommandError


def add_parser(commands: Any) -> None:
    """Add the command to those of `fivesup`."""
    from agents.arena.evaluation import add_arguments

    parser = commands.add_parser("evaluate", help="play agents against each other, with win rates and ratings")
    add_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from agents.arena.evaluation import evaluate

    try:
        return evaluate(arguments, sys.argv[2:])
    except ValueError as error:
        raise CommandError(str(error)) from error
