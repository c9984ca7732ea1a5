"""The console program `fivesup`: play in the terminal, evaluate and ask agents, record matches, read records.

Exit status: 0; 1 when a well-formed record disagrees with the rules; 2 for bad arguments and for files
that cannot be used; 130 after Ctrl-C; 141 when the reader of the output has gone.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from fivesup_env import __version__
from fivesup_env._jit import cache_folder
from fivesup_env.cli import evaluate, play, predict, record, replay, show
from fivesup_env.cli.arguments import CommandError
from fivesup_env.records import RecordError, ReplayError

_DESCRIPTION = """\
Exact 61 Five-Up, a game of dominoes: play it, evaluate and ask agents, record matches, check and read the records."""

_EPILOG = """\
examples:
  fivesup play --against greedy
  fivesup evaluate greedy random --matches 1000
  fivesup predict pimc:200 'fivesup view=0 players=2 ...'
  fivesup record --players 4 --matches 100 --agents random --seed 1 --out matches.jsonl
  fivesup replay matches.jsonl
  fivesup show matches.jsonl --match 3

'fivesup COMMAND --help' tells more about a command."""


class _Parser(argparse.ArgumentParser):
    """Names the program, not the command, in front of every error."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"fivesup: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for all of the commands."""
    parser = _Parser(
        prog="fivesup",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fivesup {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for command in (play, evaluate, predict, record, replay, show):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; the arguments default to the command line's."""
    arguments = build_parser().parse_args(argv)
    if sys.stdin is None or sys.stdout is None:
        print("fivesup: error: standard input and output have to be open", file=sys.stderr)
        return 2
    _tell_of_compiling()
    try:
        status: int = arguments.run(arguments)
        print(end="", flush=True)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _flush_or_drop()
        return 141
    except (CommandError, RecordError, OSError) as error:
        _flush_or_drop()
        print(f"fivesup: error: {_text_of(error, arguments)}", file=sys.stderr)
        return 1 if isinstance(error, ReplayError) else 2
    return status


def _tell_of_compiling() -> None:
    """Say why nothing happens for a while, to a person who runs this version for the first time."""
    folder = cache_folder("fivesup_env")
    if sys.stderr.isatty() and (folder is None or not any(Path(folder).rglob("*.nbi"))):
        print("fivesup: compiling the rules, half a minute or so ...", file=sys.stderr)


def _text_of(error: Exception, arguments: argparse.Namespace) -> str:
    if isinstance(error, RecordError):
        name = "standard input" if arguments.file == "-" else arguments.file
        return f"{name}: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _flush_or_drop() -> None:
    """Write what is still buffered; if that fails, let it go nowhere, or Python would complain on exit."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
