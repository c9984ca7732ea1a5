"""The command line of the arena: ``python evaluate.py`` and ``fivesup evaluate``."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from agents.arena.tournament import Hire, Plan, Played

DESCRIPTION: Final = """\
Play agents against each other in duplicate: every match seed once per rotation of the seats, so that all meet the same
deals. Prints win rates with 95 % intervals, a table, and ratings."""

EPILOG: Final = """\
agents: random, greedy, pimc:K (search in K worlds), clairvoyant:K (sees all tiles, not rated), net-2p, net-3p or net-4p
(networks for so many seats), the folder of a checkpoint, guided:K:NETWORK (pimc:K joined with either), or
package.module:factory, a function of yours that returns an agent.
With four seats also x+y, a side of two partners, as greedy+pimc:50; otherwise partners are copies of one agent.
With three seats one agent plays two copies of the other, so both line-ups are played.

With --best-response, a network is trained against one agent, and then plays it: how far can it be exploited?

examples:
  evaluate.py greedy random --matches 1000 --seed 1
  evaluate.py runs/smoke/checkpoints/last greedy pimc:50 --players 2 --workers 2 --out runs/arena
  evaluate.py greedy+pimc:50 greedy pimc:50 --players 4
  evaluate.py my.agent:make pimc:50 --until-decided --matches 20000
  evaluate.py pimc:200 greedy --backend ray --address 10.0.0.1:6379 --out runs/arena
  evaluate.py net-2p --best-response --steps 2000000 --matches 4000 --out runs/response"""

_MOST_SEED: Final = 2**63
_ELO_BOUNDS: Final = (0.0, 20.0)
_FOR_RESPONSES: Final = ("steps", "start", "selection_matches")
_NOT_FOR_RESPONSES: Final = (
    "gauntlet",
    "until_decided",
    "elo",
    "sample",
    "move_timeout",
    "rate_all",
    "backend",
    "address",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add texts and arguments to a parser for this command."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "agents", nargs="+", metavar="AGENT", help="at least two, or one with --best-response; see below"
    )
    parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4), help="seats (default 2)")
    parser.add_argument(
        "--matches", type=int, default=1000, help="of each pair, rounded up to whole blocks (default 1000)"
    )
    parser.add_argument("--gauntlet", action="store_true", help="only the first agent against each of the others")
    parser.add_argument(
        "--until-decided", action="store_true", help="stop a pair when a sequential test tells; --matches is the most"
    )
    parser.add_argument(
        "--elo",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="what the test tells apart, in Elo over the even share (default 0 20)",
    )
    parser.add_argument("--seed", type=int, default=0, help="match seed of the first block (default 0)")
    parser.add_argument(
        "--workers",
        type=int,
        help="processes; they do not change results (default 1, with --backend ray the CPUs of the cluster). With "
        "--best-response, threads of the training, too",
    )
    parser.add_argument("--backend", choices=("local", "ray"), help="play on this machine (default) or a Ray cluster")
    parser.add_argument(
        "--address", help="of the Ray cluster (default: RAY_ADDRESS, one on this machine, or a new one)"
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--deterministic", action="store_true", help="networks take their best action (default)")
    choice.add_argument("--sample", action="store_true", help="networks draw from their policy")
    parser.add_argument("--move-timeout", type=float, metavar="SECONDS", help="for each decision of an agent of yours")
    parser.add_argument("--rate-all", action="store_true", help="rate agents that see hidden tiles, too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write results.json, report.html, matches.jsonl there")
    parser.add_argument("--resume", action="store_true", help="go on with what --out holds")
    response = parser.add_argument_group("a lower bound on the exploitability of one agent")
    response.add_argument(
        "--best-response", action="store_true", help="train a network against the agent, then play the agent with it"
    )
    response.add_argument("--steps", type=int, metavar="N", help="decisions to train for (default 2097152)")
    response.add_argument(
        "--start",
        metavar="NETWORK",
        help='where training begins; "none": random weights (default: the agent if it is a network, else net-2p etc.)',
    )
    response.add_argument(
        "--selection-matches",
        type=int,
        metavar="N",
        help="after each update, to select the network that is measured, on deals of their own (default 1000)",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line, play, print, and write; return the exit status: 0, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        return evaluate(parser.parse_args(given), given)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # while there is nothing to tell yet
        return 130


def evaluate(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit status.

    Raises:
        ValueError: something does not fit; says what.
    """
    if arguments.best_response:
        return _respond(arguments, command)
    _refuse(arguments, _FOR_RESPONSES, "needs --best-response")
    plan = plan_of(arguments)
    if arguments.out:
        check_folder(arguments.out)
    if arguments.out and (arguments.out / "plan.json").exists() and not arguments.resume:
        raise ValueError(f"{arguments.out} holds a run already: give --resume to go on with it, or another --out")
    from agents.arena.terminal import terminal_table

    played, results = play(plan, hire_of(arguments), arguments.out, command, rate_all=arguments.rate_all)
    if results["pairs"]:
        print(terminal_table(results))
    if arguments.out and results["pairs"]:
        write_all(arguments.out, plan, played, results)
        print(f"written to {arguments.out}: results.json, report.html, matches.jsonl, line_ups.jsonl")
    return 0 if all(result.finished for result in played) else 130


def play(
    plan: Plan, hire: Hire, folder: Path | None, command: Sequence[str], *, rate_all: bool = False
) -> tuple[list[Played], dict[str, Any]]:
    """Play what is planned and show how it goes; say so where Ctrl-C stopped it.

    Args:
        plan: what to play.
        hire: what hires those who play.
        folder: where finished chunks are kept.
        command: the arguments of the command line.
        rate_all: rate also agents that see hidden tiles.

    Returns:
        What was played, see `tournament.run`, and its `results_of`.

    Raises:
        ValueError: as `tournament.run`.
    """
    from agents.arena.results import results_of
    from agents.arena.tournament import run, who_sees_all

    with _Progress(plan) as progress:
        played = run(plan, folder=folder, watch=progress.show, hire=hire)
    results = results_of(plan, played, who_sees_all(plan, played), command=command, rate_all=rate_all)
    if not all(result.finished for result in played):
        told = "what follows is of the blocks that were finished" if results["pairs"] else "no block was finished"
        print(f"stopped: {told}", file=sys.stderr)
    return played, results


def _respond(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    """Do what the command line asks for with --best-response; return the exit status."""
    _refuse(arguments, _NOT_FOR_RESPONSES, "does not go with --best-response")
    if len(arguments.agents) != 1:
        raise ValueError(f"--best-response takes one agent, not {len(arguments.agents)}")
    _check_numbers(arguments)
    # Before torch is loaded: its idle threads sleep, and leave the cores to the environment's own work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from agents.training.best_response import Attempt, respond

    given = {name: value for name in _FOR_RESPONSES if (value := getattr(arguments, name)) is not None}
    attempt = Attempt(
        agent=arguments.agents[0],
        num_players=arguments.players,
        matches=arguments.matches,
        seed=arguments.seed,
        workers=arguments.workers or 1,
        **given,
    )
    return respond(attempt, arguments.out, command, go_on=arguments.resume)


def _refuse(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise an error that names the first of these flags that was given."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            raise ValueError(f"--{name.replace('_', '-')} {why}")


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return the plan that the command line asks for.

    Raises:
        ValueError: something does not fit; says what.
    """
    from agents.arena.blocks import block_size
    from agents.arena.tournament import Plan

    count = len(arguments.agents)
    if count < 2:
        raise ValueError("give at least two agents")
    _check_numbers(arguments)
    if arguments.move_timeout is not None and not 0 < arguments.move_timeout < float("inf"):
        raise ValueError(f"--move-timeout must be more than 0 seconds, not {arguments.move_timeout}")
    low, high = arguments.elo or _ELO_BOUNDS
    if not low < high:
        raise ValueError(f"--elo needs two numbers, the lower one first, not {low} {high}")
    if arguments.address is not None and arguments.backend != "ray":
        raise ValueError("--address needs --backend ray")
    order = itertools.permutations if arguments.players == 3 else itertools.combinations
    pairs = [pair for pair in order(range(count), 2) if not arguments.gauntlet or 0 in pair]
    return Plan(
        agents=tuple(arguments.agents),
        pairs=tuple(sorted(pairs)),
        num_players=arguments.players,
        blocks=-(-arguments.matches // block_size(arguments.players)),
        seed=arguments.seed,
        elo_bounds=(low, high) if arguments.until_decided else None,
        sample=arguments.sample,
        move_timeout=arguments.move_timeout,
        keep_matches=arguments.out is not None,
    )


def _check_numbers(arguments: argparse.Namespace) -> None:
    """Check what holds with and without --best-response."""
    if arguments.matches < 1:
        raise ValueError(f"--matches must be at least 1, not {arguments.matches}")
    if not 0 <= arguments.seed < _MOST_SEED:
        raise ValueError(f"--seed must be within 0 .. 2**63 - 1, not {arguments.seed}")
    if arguments.workers is not None and not 1 <= arguments.workers <= 1024:
        raise ValueError(f"--workers must be within 1 .. 1024, not {arguments.workers}")
    if arguments.resume and arguments.out is None:
        raise ValueError("--resume needs --out")


def check_folder(out: Path) -> None:
    """Check that there is a folder at the path of --out, or can be.

    Raises:
        ValueError: something else is there or above it; names it.
    """
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise ValueError(f"--out must be a folder, and {place} is none")


def hire_of(arguments: argparse.Namespace) -> Hire:
    """Return what hires those who play, as the command line asks for.

    Raises:
        ValueError: Ray is not installed.
    """
    if arguments.backend != "ray":
        from agents.arena.crew import Crew

        return partial(Crew, workers=arguments.workers or 1)
    try:
        from agents.arena.ray_crew import RayCrew
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ValueError("--backend ray needs Ray, which is not installed: pip install 'fivesup[ray]'") from None
    return partial(RayCrew, workers=arguments.workers, address=arguments.address)


def write_all(folder: Path, plan: Plan, played: Sequence[Played], results: dict[str, Any]) -> None:
    """Write results, report, records, and who sat where in them."""
    from agents.arena.chunks import write_whole
    from agents.arena.match_lines import line_ups, record_lines
    from agents.arena.report import write_report
    from fivesup_env.files import replacing

    with replacing(folder / "matches.jsonl") as file:
        for result in played:
            file.writelines(record_lines(result.blocks, plan.num_players, plan.seed))
    write_whole(folder / "line_ups.jsonl", "".join(line_ups(plan, played)).encode())
    write_whole(folder / "results.json", (json.dumps(results, indent=1) + "\n").encode())
    write_report(results, folder / "report.html")


class _Progress:
    """A bar with the running estimate of the pair that is played."""

    def __init__(self, plan: Plan) -> None:
        from tqdm import tqdm

        from agents.arena.results import unique_names

        self._plan = plan
        self._names = unique_names(plan.agents)
        self._bar = tqdm(total=sum(map(plan.num_blocks, range(len(plan.pairs)))), unit="block", disable=None)
        self._done = [0] * len(plan.pairs)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, pair: int, played: Played) -> None:
        """Show how a pair stands."""
        won = played.won.estimate()
        told = f"{won.mean:.3f} [{won.low:.3f}, {won.high:.3f}]"
        self._bar.set_description(f"{self._names[played.a]} - {self._names[played.b]} {told}", refresh=False)
        done = self._plan.num_blocks(pair) if played.decided else played.won.blocks
        self._bar.update(done - self._done[pair])
        self._done[pair] = done
