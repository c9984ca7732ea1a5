"""Play agents against each other: python evaluate.py greedy random --matches 1000 --seed 1."""

from __future__ import annotations

import argparse
import itertools
import sys


def main() -> int:
    """Read the command line, play every pair, and print the win rates with 95 % intervals."""
    parser = argparse.ArgumentParser(
        description="Play agents against each other, every pair, and print win rates with 95 % intervals.",
        epilog="With three seats one agent plays two copies of the other, so both orders are played.",
    )
    parser.add_argument("agents", nargs="+", metavar="AGENT", help='"random", "greedy" or a checkpoint folder')
    parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4), help="seats (default 2)")
    parser.add_argument("--matches", type=int, default=1000, help="matches of each pair (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first match (default 0)")
    arguments = parser.parse_args()
    if len(arguments.agents) < 2:
        parser.error("give at least two agents")
    if arguments.matches < 1:
        parser.error(f"--matches must be at least 1, not {arguments.matches}")
    if not 0 <= arguments.seed < 2**63:
        parser.error(f"--seed must be within 0 .. 2**63 - 1, not {arguments.seed}")

    from agents import make_agent
    from agents.arena import play_pair

    try:
        agents = [make_agent(text) for text in arguments.agents]
    except ValueError as error:
        parser.error(str(error))
    orders = itertools.permutations if arguments.players == 3 else itertools.combinations
    print(f"{arguments.players} seats, {arguments.matches} matches a pair, seeds from {arguments.seed}")
    for i, j in orders(range(len(agents)), 2):
        result = play_pair(
            agents[i],
            agents[j],
            arguments.matches,
            names=(arguments.agents[i], arguments.agents[j]),
            num_players=arguments.players,
            seed=arguments.seed,
        )
        low, high = result.interval
        print(f"{result.a} beats {result.b}: {result.win_rate:.3f}  [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
