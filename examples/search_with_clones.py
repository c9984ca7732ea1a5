"""A search by cloned matches: what each action of a position is worth in worlds that agree with what a seat sees.

    python examples/search_with_clones.py
    python examples/search_with_clones.py --worlds 200 --policy random --seed 3 --plies 6
    python examples/search_with_clones.py --position 'fivesup players=2 seed=7 ...'

For each of some sampled worlds and each legal action, a copy of the world takes the action and is played to the end of
its round; an action is worth what its side then gained over the mean of the others. The search gets a view, so it never
knows what the seat does not see. It is written to be read: `fivesup_env.search` does the same in compiled code, and
the agent `pimc:K` goes on from there to the chance to win the match.

Prints the position as the seat to move sees it, how many worlds agree with that, and the actions, the best first, with
their worth in points and its standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fivesup_env import Match, View
from fivesup_env.actions import action_mask, action_move
from fivesup_env.belief import count_worlds, sample_worlds
from fivesup_env.cli.arguments import whole
from fivesup_env.match import Position
from fivesup_env.notation import move_text
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import MAX_SEED

#: Takes a match and a generator, and returns a move of the seat to move, as `Match.play` takes it.
Policy = Callable[[Match, np.random.Generator], str]


class Worth(NamedTuple):
    """What an action was worth in every world: points of its side over the mean of the others, float64[K]."""

    move: str
    margins: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The mean over the worlds."""
        return float(self.margins.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean; 0 for a single world."""
        return float(self.margins.std(ddof=1) / len(self.margins) ** 0.5) if len(self.margins) > 1 else 0.0


def search(view: View, num_worlds: int, policy: Policy, seed: int) -> list[Worth]:
    """Return the worth of each legal action of the seat to move, the best first.

    Args:
        view: what that seat sees, in a round that goes on.
        num_worlds: K.
        policy: who plays all seats after the action.
        seed: of the worlds, and of what the policy draws. Every action meets the same worlds and the same luck.
    """
    keys = np.random.default_rng(seed).integers(2**64, size=num_worlds, dtype=np.uint64)
    worlds = [Match.from_state(state) for state in sample_worlds(view.state, keys)]
    values = []
    for move in moves(view):
        margins = []
        for key, world in zip(keys, worlds, strict=True):
            trial = world.clone()
            trial.play(move)
            play_round(trial, policy, np.random.default_rng(key))
            margins.append(margin(trial, view.seat) - margin(world, view.seat))
        values.append(Worth(move, np.array(margins)))
    return sorted(values, key=lambda worth: -worth.mean)


def moves(position: Position) -> list[str]:
    """Return the legal moves by ascending `ends` id; of ports that lead to the same game (D6), only the first."""
    state = position.state
    return [move_text(*action_move(state, action)) for action in np.flatnonzero(action_mask(state)).tolist()]


def play_round(match: Match, policy: Policy, rng: np.random.Generator) -> None:
    """Play a match to the end of its round, all seats by one policy."""
    while not match.round_over:
        match.play(policy(match, rng))


def margin(match: Match, seat: int) -> float:
    """Return the points of a seat's side over the mean of the other sides."""
    own = side_of(match.num_players, seat)
    others = [score for side, score in enumerate(match.scores) if side != own]
    return float(match.scores[own] - sum(others) / len(others))


def random_move(match: Match, rng: np.random.Generator) -> str:
    """Return any legal move, each equally likely."""
    legal = moves(match)
    return legal[rng.integers(len(legal))]


def greedy_move(match: Match, rng: np.random.Generator) -> str:
    """Return what the agent `greedy` does: most points now that fit the exact target, then most pips."""
    legal = moves(match)
    return legal[0] if len(legal) == 1 else max(legal, key=lambda move: _greed(match, move))


def _greed(match: Match, move: str) -> tuple[int, int]:
    """Return the points that a placement counts, if they fit (R22), and the pips of its tile."""
    trial = match.clone()
    trial.play(move)
    points = sum(event["placement"] for event in trial.events)
    room = int(match.state.target) - match.scores[side_of(match.num_players, match.turn)]
    return points if points <= room else 0, int(move[0]) + int(move[2])


POLICIES: dict[str, Policy] = {"greedy": greedy_move, "random": random_move}


def main(argv: Sequence[str] | None = None) -> None:
    """Read the command line, search one position, and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--position", metavar="TEXT", help="a match or a view, as repr() writes it (one is dealt)")
    parser.add_argument("--players", type=whole(2, 4), default=2, help="seats of the match that is dealt (2)")
    parser.add_argument(
        "--plies",
        type=whole(0),
        default=4,
        help="greedy moves in it before the search (4), and more until there is a choice",
    )
    parser.add_argument("--worlds", type=whole(1), default=50, help="worlds to try each action in (50)")
    parser.add_argument("--policy", choices=POLICIES, default="greedy", help="who plays after the action (greedy)")
    parser.add_argument("--seed", type=whole(0, MAX_SEED), default=1, help="of the deal and of the search (1)")
    args = parser.parse_args(argv)
    dealt = args.position is None
    try:
        view = dealt_view(args.players, args.seed, args.plies) if dealt else read_view(args.position)
        found = search(view, args.worlds, POLICIES[args.policy], args.seed)
    except ValueError as error:
        parser.error(f"--plies {args.plies}: {error}" if dealt else f"--position: {error}")
    print(f"{view}\n{count_worlds(view.state):,} worlds agree with this; {args.worlds} were tried")
    print("worth, in points of this round over the others, and its standard error:")
    for worth in found:
        print(f"  {worth.mean:+7.2f}  {worth.error:5.2f}  {worth.move}")


def read_view(text: str) -> View:
    """Return the view of the seat to move that a text tells of.

    Raises:
        ValueError: it is no text of a match or view, or no seat is to move there, or not the one whose view it is.
    """
    view = View.from_text(text) if " view=" in text else _view_to_move(Match.from_text(text))
    if view.round_over or view.seat != view.turn:
        raise ValueError("the seat whose view it is has to be to move")
    return view


def dealt_view(num_players: int, seed: int, plies: int) -> View:
    """Return what the seat to move sees after so many greedy moves of a match, and those up to the next real choice.

    Raises:
        ValueError: the seats or the seed are impossible, or the first round is over by then.
    """
    match, rng = Match(num_players, seed), np.random.default_rng(seed)
    while len(match.history) < plies or len(moves(match)) == 1:
        match.play(greedy_move(match, rng))
        if match.round_over:
            raise ValueError(f"the first round is over after {len(match.history)} moves")
    return _view_to_move(match)


def _view_to_move(match: Match) -> View:
    return match.view(match.turn)


if __name__ == "__main__":
    main()
