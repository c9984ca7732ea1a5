"""What the commands of `fivesup` share on the command line: rule parameters, seats, and files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from fivesup_env.files import replacing
from fivesup_env.match import Match
from fivesup_env.records import Record, read_records
from fivesup_env.rules.state import HAND_SIZE, MAX_SEED, TARGET


class CommandError(Exception):
    """A command cannot do what it was asked; its text is for the person who asked."""


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for the ints from `low` to `high`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if number < low or (high is not None and number > high):
            limits = f"at least {low}" if high is None else f"within {low} .. {high}"
            raise argparse.ArgumentTypeError(f"must be {limits}, not {number}")
        return number

    return read


def add_match_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a match: seats, length, and rule parameters."""
    parser.add_argument("--players", type=whole(2, 4), default=2, metavar="N", help="number of seats, 2 to 4 (2)")
    parser.add_argument("--max-rounds", type=whole(1), metavar="N", help="stop a match after N rounds (no limit)")
    rules = parser.add_argument_group("rule parameters", "The defaults are the real game.")
    rules.add_argument("--hand-size", type=whole(1), default=HAND_SIZE, metavar="N", help="tiles dealt to a seat (5)")
    rules.add_argument("--target", type=whole(5), default=TARGET, metavar="N", help="raw points that win (305)")
    rules.add_argument("--max-pip", type=whole(1, 6), default=6, metavar="N", help="largest half in the set (6)")
    rules.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="TILES",
        help="tiles left out of the set, such as '0|0,1|4' (none)",
    )


def new_match(arguments: argparse.Namespace, seed: int | None) -> Match:
    """Return the match that the arguments describe.

    Raises:
        CommandError: they do not go together.
    """
    try:
        return Match(
            arguments.players,
            seed,
            hand_size=arguments.hand_size,
            target=arguments.target,
            max_pip=arguments.max_pip,
            without=split(arguments.without),
        )
    except ValueError as error:
        raise CommandError(error) from None


def add_seed(parser: argparse.ArgumentParser, default: int | None, text: str) -> None:
    """Add `--seed`."""
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=default, metavar="N", help=text)


def split(texts: list[str]) -> list[str]:
    """Return the parts of an argument that can be given more than once, and with commas."""
    return [part.strip() for text in texts for part in text.split(",")]


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the record file that a command reads."""
    parser.add_argument("file", metavar="FILE", help="match records; - for standard input")


def records_of(file: str) -> Iterator[Record]:
    """Yield the records of the file that an argument names."""
    source: Any = sys.stdin if file == "-" else file
    return read_records(source)


@contextmanager
def writing(out: str, force: bool) -> Iterator[IO[str]]:
    """Open the file that an argument names; it comes to be when all has been written, or not at all.

    Raises:
        CommandError: the file exists, and `force` is not set.
    """
    if out == "-":
        yield sys.stdout
        return
    path = os.path.realpath(out)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device; replacing it would be wrong
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    if os.path.exists(path) and not force:
        raise CommandError(f"{out} exists already: --force replaces it")
    with replacing(path) as file:
        yield file
