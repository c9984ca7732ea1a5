"""An agent of one's own in the arena: rules of thumb on what a seat sees.

    python evaluate.py examples.own_agent:make random greedy --gauntlet --matches 200 --seed 1

The arena calls `make()` in a process of its own, and asks what it returns for every decision. `docs/evaluation.md`
tells what becomes of an agent that fails. Prints the share of matches that the agent wins against each of the others,
with its 95 % interval, and ratings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env import View
from fivesup_env.actions import action_move
from fivesup_env.notation import move_text
from fivesup_env.observation import encode, section
from fivesup_env.rules.state import States

ALL_TILES: Final = [f"{low}|{high}" for low in range(7) for high in range(low, 7)]

# What a move is worth in points beside those that it scores.
PIP_GONE: Final = 0.3  # a pip less in the hand: others are paid for what is left there
FITS_NEXT: Final = 1.5  # a tile left in the hand that fits an end
FITS_OTHERS: Final = 1.0  # a tile that others may hold and that fits an end


class ThumbAgent:
    """Scores; gets rid of heavy tiles; keeps tiles that fit; leaves ends that fit few of the tiles not seen yet."""

    def reset(self, seed: int) -> None:
        """Begin afresh: this agent remembers nothing and draws no lots."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Choose an action in each of N positions.

        Args:
            views: STATE[N], each the view of the seat to move there.
            masks: int8[N, 163], 1 for the ids of legal actions.
            keys: uint64[N], for agents that draw lots.

        Returns:
            int64[N], legal ids.
        """
        return np.array([choose(View(view), np.flatnonzero(mask)) for view, mask in zip(views, masks, strict=True)])


def make() -> ThumbAgent:
    """Return the agent; the text "examples.own_agent:make" names this function."""
    return ThumbAgent()


def choose(view: View, legal: NDArray[np.int64]) -> int:
    """Return the best of the legal ids int64[L]; the lowest of equals."""
    if len(legal) == 1:
        return int(legal[0])
    observation = encode(view.state).astype(np.int64)
    fives = observation[section("action_points")] * observation[section("action_fits")]  # none that passes the target
    moves = [move_text(*action_move(view.state, action)) for action in legal.tolist()]
    return int(legal[np.argmax(5 * fives[legal] + later_worths(view, moves))])


def later_worths(view: View, moves: Sequence[str]) -> list[float]:
    """Return what each placement or opening is worth beside its points."""
    hand, hidden, ends = view.hand, unseen(view), view.ends
    worths = []
    for move in moves:
        tile = move.split("@")[0]
        values = values_after(ends, move)
        kept = [own for own in hand if own != tile]
        worths.append(
            PIP_GONE * sum(halves(tile))
            + FITS_NEXT * num_fitting(kept, values)
            - FITS_OTHERS * num_fitting(hidden, values)
        )
    return worths


def values_after(ends: Sequence[str], move: str) -> set[int]:
    """Return the values of the open ends after a placement, but for branches that it opens.

    Args:
        ends: texts such as "half 4" and "branch 1".
        move: such as "1|5@1|4.low", or "1|4" for an opening.
    """
    tile, _, port = move.partition("@")
    if not port:
        return set(halves(tile))
    host, _, place = port.partition(".")
    joined = halves(host)[place == "high"]
    values = [int(end.split()[1]) for end in ends]
    values.remove(joined)
    low, high = halves(tile)
    return {*values, high if low == joined else low}


def unseen(view: View) -> list[str]:
    """Return the tiles that are neither in the observer's hand nor on the table."""
    seen = {*view.hand, *(action.split()[1].split("@")[0] for action in view.history)}  # such as "0 1|5@1|4.low"
    return [tile for tile in ALL_TILES if tile not in seen]


def num_fitting(tiles: Iterable[str], values: set[int]) -> int:
    """Return how many of these tiles fit an end of one of these values."""
    return sum(not values.isdisjoint(halves(tile)) for tile in tiles)


def halves(tile: str) -> tuple[int, int]:
    """Return the pips of both halves of a tile such as "1|4"."""
    low, high = tile.split("|")
    return int(low), int(high)
