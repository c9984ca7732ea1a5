"""Watch a network play, move by move, with what it thinks of its moves.

    python examples/watch_checkpoint.py net-2p
    python examples/watch_checkpoint.py runs/smoke/checkpoints/last --against pimc:20 --seed 3 --rounds 2 --delay 1
    python examples/watch_checkpoint.py net-4p --against greedy --delay 0 --gif round.gif

The network has seat 0, and the agent of `--against`, or else the network itself, has the others. Every hand lies open.
Prints every move and the table after it; where the network had a choice, also the moves it thought most of, with their
probabilities and an arrow at the one it took. Ctrl-C ends the show, as does a reader such as `head` that has enough; a
GIF then has the moves up to there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agents import Agent, decision_key, make_agent, make_player
from agents.agent import check_seats
from agents.network import NetworkAgent
from fivesup_env import Match
from fivesup_env.actions import action_mask, action_move
from fivesup_env.cli.arguments import whole
from fivesup_env.drawing import to_rgb_array
from fivesup_env.drawing.table import scene_of
from fivesup_env.files import check_writable, replacing
from fivesup_env.notation import agent_name, move_text
from fivesup_env.rules.state import MAX_SEED, STATE


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line and show a match; return the exit status: 0, 130 after Ctrl-C, 141 without a reader."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        agents = seated(args.checkpoint, args.against, args.players, args.sample)
        if args.gif:
            check_gif(args.gif)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    frames: list[NDArray[np.uint8]] = []
    status = show(Match(len(agents), args.seed), agents, args, frames)
    if frames:
        write_gif(args.gif, frames, args.delay or 0.5)
        print(f"wrote {len(frames)} pictures to {args.gif}")
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkpoint", help="the folder of a checkpoint, or net-2p, net-3p, net-4p")
    parser.add_argument("--against", metavar="AGENT", help="who has the other seats, such as greedy (the network)")
    parser.add_argument("--players", type=whole(2, 4), help="seats (as many as the network is for)")
    parser.add_argument("--rounds", type=whole(1), default=1, help="rounds to show (1)")
    parser.add_argument("--top", type=whole(1), default=3, help="moves of the network to tell of at each choice (3)")
    parser.add_argument("--sample", action="store_true", help="draw moves from the network's policy")
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=1, help="match seed (1)")
    parser.add_argument("--delay", type=seconds, default=0.5, help="seconds between moves, at most 60 (0.5)")
    parser.add_argument("--gif", metavar="FILE", help="write the moves as pictures, too: *.gif")
    return parser


def seconds(text: str) -> float:
    """Return the seconds of a delay; an argparse type."""
    delay = float(text)
    if not 0 <= delay <= 60:
        raise argparse.ArgumentTypeError(f"must be within 0 .. 60, not {text}")
    return delay


def check_gif(path: str) -> None:
    """Check before the show that its pictures can be drawn, and written there.

    Raises:
        ValueError: the file is no GIF, or cannot be written.
        ImportError: pygame-ce or Pillow is not installed.
    """
    if not path.lower().endswith(".gif"):
        raise ValueError(f"--gif must end with .gif, not be {path}")
    to_rgb_array(scene_of(Match(2, 0).state))  # says what to install
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ImportError("a GIF needs Pillow: pip install pillow") from error
    try:
        check_writable(path)
    except OSError as error:
        raise ValueError(f"--gif {path}: {error.strerror}") from error


def show(match: Match, agents: Sequence[Agent], args: argparse.Namespace, frames: list[NDArray[np.uint8]]) -> int:
    """Print a match as it is played, with `args` of the command line; return the exit status.

    With `--gif`, a picture of each move is appended to `frames`, uint8[height, width, 3].
    """
    try:
        print(match, flush=True)
        for told in play(match, agents, args.rounds, args.top):
            if args.gif:
                frames.append(to_rgb_array(scene_of(match.state)))
            print(told, flush=True)  # a reader sees it now
            time.sleep(args.delay)
        print("scores:", *match.scores, flush=True)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain of the rest on exit
        return 141
    return 0


def seated(checkpoint: str, against: str | None, num_players: int | None, sample: bool) -> list[Agent]:
    """Return who sits in each seat: the network in seat 0.

    Raises:
        ValueError: a text names no agent, `checkpoint` no network, or an agent is for another number of seats.
    """
    network = make_agent(checkpoint, sample=sample)
    if not isinstance(network, NetworkAgent):
        raise ValueError(f"{checkpoint!r} is no network: give the folder of a checkpoint, or net-2p")
    num_players = num_players or network.num_players or 2
    check_seats(checkpoint, network, num_players)
    others = network if against is None else make_player(against, num_players)
    return [network, *[others] * (num_players - 1)]


def play(match: Match, agents: Sequence[Agent], rounds: int, top: int) -> Iterator[str]:
    """Play a match for some rounds, and yield after each move what there is to tell of it.

    Args:
        match: is played on.
        agents: one for each seat.
        rounds: where the match is not won before.
        top: how many moves to tell of, at most, where a network had a choice.
    """
    seed, ply = int(match.state.seed), 0
    for agent in agents:
        agent.reset(seed)
    while True:
        while not match.round_over:
            move, thoughts = decide(agents[match.turn], match, decision_key(seed, 0, ply), top)
            lines = [f"{agent_name(match.turn)}: {move}", *thoughts]
            match.play(move)
            ply += 1
            yield "\n".join([*lines, str(match)])
        if match.winner is not None or match.round >= rounds:
            return
        match.next_round()


def decide(agent: Agent, match: Match, key: np.uint64, top: int) -> tuple[str, list[str]]:
    """Return the move of the seat to move, and a line for each of the `top` moves that a network thinks most of."""
    seen = match.view(match.turn).state
    views, masks = np.array([seen], STATE), action_mask(seen)[None]
    taken = int(agent.act(views, masks, np.array([key]))[0])
    if not isinstance(agent, NetworkAgent) or masks.sum() == 1:
        return move_text(*action_move(seen, taken)), []
    probabilities = agent.probabilities(views, masks)[0]
    best = np.argsort(-probabilities, kind="stable")[: min(top, int(masks.sum()))].tolist()
    thoughts = [
        f"  {probabilities[action]:.3f}  {move_text(*action_move(seen, action))}{'  <-' if action == taken else ''}"
        for action in best
    ]
    return move_text(*action_move(seen, taken)), thoughts


def write_gif(path: str, frames: Sequence[NDArray[np.uint8]], delay: float) -> None:
    """Write pictures uint8[height, width, 3] as a GIF that shows each for so many seconds."""
    from PIL import Image

    first, *rest = (Image.fromarray(frame) for frame in frames)
    with replacing(path, binary=True) as file:
        first.save(file, format="GIF", save_all=True, append_images=rest, duration=round(1000 * delay), loop=0)


if __name__ == "__main__":
    sys.exit(main())
