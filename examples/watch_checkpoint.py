"""Watch a network play, move by move, with what it thinks of its moves.

    python examples/watch_checkpoint.py net-2p
    python examples/watch_checkpoint.py runs/smoke/checkpoints/last --against pimc:20 --seed 3 --rounds 2 --delay 1
    python examples/watch_checkpoint.py net-4p --against greedy --delay 0 --gif round.gif

The network has seat 0, and the agent of `--against`, or else the network itself, has the others. Every hand lies open.
Prints every move and the table after it; where the network had a choice, also the moves it thought most of, with their
probabilities and an arrow at the one it took. Ctrl-C ends the show; a GIF then has the moves up to there.
"""

from __future__ import annotations

import argparse
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
from fivesup_env.drawing import to_rgb_array
from fivesup_env.drawing.table import scene_of
from fivesup_env.notation import agent_name, move_text
from fivesup_env.rules.state import STATE


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line and show a match; return the exit status: 0, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkpoint", help="the folder of a checkpoint, or net-2p, net-3p, net-4p")
    parser.add_argument("--against", metavar="AGENT", help="who has the other seats, such as greedy (the network)")
    parser.add_argument("--players", type=int, choices=(2, 3, 4), help="seats (as many as the network is for)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds to show (1)")
    parser.add_argument("--top", type=int, default=3, help="moves of the network to tell of at each choice (3)")
    parser.add_argument("--sample", action="store_true", help="draw moves from the network's policy")
    parser.add_argument("--seed", type=int, default=1, help="match seed (1)")
    parser.add_argument("--delay", type=float, default=0.5, help="seconds between moves (0.5)")
    parser.add_argument("--gif", metavar="FILE", help="write the moves as pictures, too")
    args = parser.parse_args(argv)
    frames: list[NDArray[np.uint8]] = []
    status = 0
    try:
        if args.delay < 0 or args.rounds < 1 or args.top < 1:
            raise ValueError("--delay cannot be negative, and --rounds and --top have to be at least 1")
        agents = seated(args.checkpoint, args.against, args.players, args.sample)
        match = Match(len(agents), args.seed)
        print(match)
        for told in play(match, agents, args.rounds, args.top):
            print(told)
            if args.gif:
                frames.append(to_rgb_array(scene_of(match.state)))
            time.sleep(args.delay)
        print("scores:", *match.scores)
    except (ValueError, ImportError) as error:  # a GIF needs pygame-ce
        parser.error(str(error))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        status = 130
    if frames:
        write_gif(args.gif, frames, args.delay or 0.5)
        print(f"wrote {len(frames)} pictures to {args.gif}")
    return status


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


def write_gif(path: str, frames: Sequence[NDArray[np.uint8]], seconds: float) -> None:
    """Write pictures uint8[height, width, 3] as a GIF that shows each for so many seconds."""
    from PIL import Image

    first, *rest = (Image.fromarray(frame) for frame in frames)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0)


if __name__ == "__main__":
    sys.exit(main())
