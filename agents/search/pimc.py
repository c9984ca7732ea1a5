"""`pimc:K`: search in worlds sampled from what a seat knows; `clairvoyant:K`: the same with every tile seen.

Perfect-information Monte Carlo (Ginsberg, "GIB: imperfect information in a computationally challenging game", 2001):
K worlds are drawn uniformly from those that agree with the view (`fivesup_env.belief`), every legal action is tried in
each of them, the round is played out by greedy, and the action with the best mean chance to win the match is taken. All
actions meet the same worlds and the same luck. Endgames in which nothing is hidden are solved instead.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.search.endgame import NODE_LIMIT, NOTES, NUM_LEVELS, is_endgame, solve_actions
from agents.search.winning_chances import chance_table, value_of_end
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_step, list_ends
from fivesup_env.belief import EVIDENCE, MAX_ENTRIES, count_ways, draw_world, gather_evidence
from fivesup_env.policies import GREEDY
from fivesup_env.rules.chance import mix
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import FULL, STATE, States, check_int
from fivesup_env.search import play_out

MAX_WORLDS: Final = 1_000_000


class ActionValues(NamedTuple):
    """What a search found, for every `ends` id of every position; NaN where it is not legal."""

    mean: NDArray[np.float64]  #: [N, 163]: mean chance of the mover's side to win the match
    spread: NDArray[np.float64]  #: [N, 163]: standard deviation of that chance over the worlds; 0 in solved endgames
    solved: NDArray[np.bool_]  #: [N]: whether the position is an endgame whose values are exact


class PimcAgent:
    """Takes the action with the best mean chance to win the match over sampled worlds; the lowest id among equals.

    Args:
        worlds: K, how many worlds are drawn for each decision.
        sees_all: take the true state for the only world there is: an upper bound for reports, not a fair player. Then
            `act` takes full states, and K changes nothing, since greedy plays a known world out in one way.

    Raises:
        ValueError: `worlds` is no positive int.
    """

    def __init__(self, worlds: int, *, sees_all: bool = False) -> None:
        self.worlds = check_int("worlds", worlds, 1, MAX_WORLDS)
        self.sees_all = sees_all

    def reset(self, seed: int) -> None:
        """Do nothing: all randomness comes with the keys."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        actions: NDArray[np.int64] = masks.argmax(axis=1)
        choices = np.flatnonzero(masks.sum(axis=1) > 1)
        if len(choices):
            means = self.action_values(views[choices], keys[choices]).mean
            actions[choices] = np.nanargmax(means, axis=1)
        return actions

    def action_values(self, views: States, keys: NDArray[np.uint64]) -> ActionValues:
        """Search N positions and return the values of all their legal actions, whatever would be taken.

        Args:
            views: STATE[N], each the view of the seat to move, or with `sees_all` the full state.
            keys: uint64[N], the only randomness.

        Raises:
            ValueError: a full state without `sees_all`, a view with it, or the view of a seat that is not to move.
        """
        if ((views["observer"] == FULL) != self.sees_all).any():
            raise ValueError("this agent takes full states" if self.sees_all else "this agent takes views, not states")
        if not self.sees_all and (views["observer"] != views["turn"]).any():
            row = int(np.flatnonzero(views["observer"] != views["turn"])[0])
            raise ValueError(
                f"row {row}: seat {views['turn'][row]} is to move, not {views['observer'][row]}, who looks"
            )
        means = np.full((len(views), NUM_ENDS_ACTIONS), np.nan)
        spreads = np.full((len(views), NUM_ENDS_ACTIONS), np.nan)
        solved = np.zeros(len(views), np.bool_)
        scratch = np.zeros(1, EVIDENCE), np.empty(MAX_ENTRIES), np.zeros(NUM_LEVELS, STATE), np.zeros(NUM_LEVELS, NOTES)
        for num_players in np.unique(views["num_players"]):
            rows = np.flatnonzero(views["num_players"] == num_players)
            table = chance_table(int(num_players))
            out = means.reshape(-1), spreads.reshape(-1), solved
            _search_rows(views, rows, keys, self.worlds, table, *scratch, *out)
        return ActionValues(means, spreads, solved)


@kernel
def _search_rows(
    views: States,
    rows: NDArray[np.int64],
    keys: NDArray[np.uint64],
    num_worlds: int,
    table: NDArray[np.float32],
    evidence: NDArray[Any],
    ways: NDArray[np.float64],
    levels: States,
    notes: NDArray[Any],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    solved: NDArray[np.bool_],
) -> None:
    legal = np.empty(NUM_ENDS_ACTIONS, np.int64)
    for row in rows:
        seen, start = views[row], row * NUM_ENDS_ACTIONS
        count, sees_all = list_ends(seen, legal), seen.observer == FULL
        for index in range(count):
            means[start + legal[index]] = spreads[start + legal[index]] = 0.0
        if sees_all:
            levels[0] = seen
        else:
            gather_evidence(seen, evidence[0])
            count_ways(evidence[0], ways)
        if is_endgame(seen):
            if not sees_all:  # whichever world it is, the hands are the same
                draw_world(seen, evidence[0], ways, keys[row], levels, 0)
            solved[row] = solve_actions(levels, notes, table, NODE_LIMIT, means, start)
            if solved[row]:
                continue
            for index in range(count):
                means[start + legal[index]] = 0.0
        draws = 1 if sees_all else num_worlds
        for world in range(draws):
            key = mix(keys[row], np.uint64(world))
            if not sees_all:
                draw_world(seen, evidence[0], ways, key, levels, 0)
            _try_actions(levels, legal, count, key, table, means, spreads, start)
        for index in range(count):
            place = start + legal[index]
            means[place] /= draws
            spreads[place] = np.sqrt(max(spreads[place] / draws - means[place] * means[place], 0.0))


@kernel
def _try_actions(
    levels: States,
    legal: NDArray[np.int64],
    count: int,
    key: np.uint64,
    table: NDArray[np.float32],
    sums: NDArray[np.float64],
    squares: NDArray[np.float64],
    start: int,
) -> None:
    """Add the value, and its square, of each of the legal actions in the world ``levels[0]``."""
    side = side_of(np.int64(levels[0].num_players), np.int64(levels[0].turn))
    for index in range(count):
        levels[1] = levels[0]
        ends_step(levels[1], legal[index])
        play_out(levels[1], key, GREEDY, False, 0)
        value = value_of_end(levels[1], table, side)
        sums[start + legal[index]] += value
        squares[start + legal[index]] += value * value
