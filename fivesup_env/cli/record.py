"""`fivesup record`: let agents play matches, and write the records."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fivesup_env.cli.arguments import (
    CommandError,
    add_match_arguments,
    add_seed,
    new_match,
    whole,
    writing,
)
from fivesup_env.cli.seats import agent_move, make_agents
from fivesup_env.match import Match
from fivesup_env.records import Record, Recorder, record_line
from fivesup_env.rules.state import MAX_SEED

if TYPE_CHECKING:
    from agents import Agent

_EPILOG = """\
examples:
  fivesup record --players 4 --matches 100 --agents random --seed 1 --out matches.jsonl
  fivesup record --agents greedy,random --max-rounds 10 --out -
  fivesup record --players 3 --agents greedy --agents greedy --agents random

Match number i, from 0, has the seed N + i and depends on nothing else: the same command writes the
same bytes. The file appears when all matches have been played."""


def add_parser(commands: Any) -> None:
    """Add this command to the parser of `fivesup`."""
    parser = commands.add_parser(
        "record",
        help="let agents play, and write match records",
        description="Let agents play matches, and write their records, one line each.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--matches", type=whole(1), default=1, metavar="N", help="number of matches (1)")
    parser.add_argument(
        "--agents",
        action="append",
        metavar="AGENTS",
        help="one agent for all seats, or one for each: with commas, or repeated (random)",
    )
    add_seed(parser, 0, "seed of the first match (0)")
    parser.add_argument("--out", default="-", metavar="FILE", help="where to write; - for standard output (-)")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_match_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play and write the matches; return the exit status."""
    if arguments.seed + arguments.matches - 1 > MAX_SEED:
        raise CommandError(f"--seed: the last match would have a seed beyond {MAX_SEED}")
    agents = make_agents(arguments.agents or ["random"], arguments.players, arguments.players)
    with writing(arguments.out, arguments.force) as file:
        for seed in range(arguments.seed, arguments.seed + arguments.matches):
            record = play_match(new_match(arguments, seed), agents, arguments.max_rounds)
            file.write(record_line(record))
            file.flush()
    if arguments.out != "-":
        count = f"{arguments.matches} match{'' if arguments.matches == 1 else 'es'}"
        print(f"wrote {count} to {arguments.out}", file=sys.stderr)
    return 0


def play_match(match: Match, agents: list[Agent], max_rounds: int | None = None) -> Record:
    """Let agents, one for each seat, play a match to its end or for so many rounds; return the record."""
    recorder = Recorder(match)
    seed = int(match.state.seed)
    for agent in agents:
        agent.reset(seed)
    ply = 0
    while True:
        while not match.round_over:
            recorder.play(agent_move(agents[match.turn], match, seed, ply))
            ply += 1
        if match.winner is not None or match.round == max_rounds:
            return recorder.record()
        recorder.next_round()
