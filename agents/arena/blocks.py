"""Duplicate matches: blocks in which every agent meets the same deals, and what is counted in them.

A pair (a, b) plays each match seed once per rotation of the line-up over the seats: two matches with two seats (a
first, b first), three with three (one a against two b, in every seat), two with four (a is one partnership, then the
other). Deals, boneyard order and lots follow from the match seed alone, so the matches of a block differ only in who
sits where. A block is the unit of all statistics: its matches are not independent, blocks are.

With four seats a side may also be a *named pair* of two partners, (x, y). The line-up x, b, y, b then has four
rotations, so a block has four matches. If both sides are named pairs, x always sits before the first partner of b, and
y before the second.

An agent that raises an error, or returns no legal action, loses that match by forfeit, and so does its partner. A batch
that fails is tried again row by row, so that one position costs one match. The round that a forfeit breaks off counts
nowhere: what is counted belongs to rounds that are over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, decision_keys
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_mask, ends_step, only_action
from fivesup_env.batch import hide_rows
from fivesup_env.options import Options
from fivesup_env.rules.play import start_match, start_next_round
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import (
    MAX_SEED,
    MAX_SIDES,
    RUNNING,
    STATE,
    WON,
    State,
    States,
    check_int,
    num_sides,
)

#: Rounds after which a match stops without a winner (D4); play of any skill needs some twenty.
MAX_ROUNDS: Final = 1000

# Sources of accepted points.
PLACEMENTS, GOING_OUT, BLOCKED_HANDS, PARTNER = 0, 1, 2, 3
NUM_SOURCES: Final = 4

#: What is counted in a match: one record each. Points are raw; `partner` are deductions, counted as positive.
TALLY: Final[np.dtype[Any]] = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("winner", "i8"),  # side that won, or -1
                ("forfeit", "i8"),  # seat that lost by forfeit, or -1
                ("rounds", "i8"),  # rounds that are over
                ("blocked", "i8"),  # rounds that ended blocked
                ("out", "i8", (MAX_SIDES,)),  # per side: rounds that it ended by going out
                ("refused", "i8", (MAX_SIDES,)),  # per side: events refused (R22)
                ("points", "i8", (MAX_SIDES, NUM_SOURCES)),  # per side and source: accepted points
            ]
        ),
    )
)

#: Margins of a round are counted in bins of 2.5 points, since the mean of two other sides can lie between fives.
MARGIN_BIN: Final = 2.5
_MARGIN_BINS: Final = 801  # the middle one is 0
_MIDDLE: Final = _MARGIN_BINS // 2
_LONGEST_REASON: Final = 200

#: Distinct reasons for forfeits that are kept of each side, the first that came.
MOST_REASONS: Final = 5

#: Who has a side: an agent, with as many copies as seats, or two partners. A sequence of one is that agent.
Side: TypeAlias = Agent | Sequence[Agent]

_T = TypeVar("_T")


@dataclass
class Blocks:
    """Consecutive blocks of a pair, played: M matches, block by block, within a block by rotation.

    Attributes:
        num_sides: sides at a table.
        block_size: matches of a block.
        tallies: TALLY[M].
        a_sides: int64[M], the side of `a`; with three seats every other side is one of `b`.
        margins: int64[801], rounds by margin of `a` over the mean of the other sides, in bins of `MARGIN_BIN` points.
        decisions: int64[C, 2], decisions of `a` and `b` in each of the C calls that played these blocks.
        seconds: float64[C, 2], time that they took.
        forfeit_reasons: the first `MOST_REASONS` distinct reasons of `a` and of `b`; of a named pair, each begins with
            "partner 1: " or "partner 2: ".
        actions: per match, the decisions taken, in order: with seed and rules, they are the whole match. Empty in a run
            that keeps no matches.
    """

    num_sides: int
    block_size: int
    tallies: NDArray[Any]
    a_sides: NDArray[np.int64]
    margins: NDArray[np.int64]
    decisions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 2), np.int64))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 2)))
    forfeit_reasons: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    actions: list[list[int]] = field(default_factory=list)

    def forfeits_of_a(self) -> NDArray[np.bool_]:
        """Return bool[M]: whether `a` lost by forfeit."""
        seats = self.tallies["forfeit"]
        by_a: NDArray[np.bool_] = (seats >= 0) & (seats % self.num_sides == self.a_sides)
        return by_a


def no_blocks(num_players: int, size: int | None = None) -> Blocks:
    """Return what a pair has played before its first block, of `size` matches or as many as without named pairs."""
    tallies: NDArray[Any] = np.zeros(0, TALLY)
    none = np.zeros(0, np.int64), np.zeros(_MARGIN_BINS, np.int64), np.zeros((0, 2), np.int64), np.zeros((0, 2))
    return Blocks(num_sides(num_players), size or block_size(num_players), tallies, *none)


def joined(parts: Sequence[Blocks]) -> Blocks:
    """Return as one the blocks of a pair that were played in parts, one or more, in order."""
    return Blocks(
        parts[0].num_sides,
        parts[0].block_size,
        np.concatenate([part.tallies for part in parts]),
        np.concatenate([part.a_sides for part in parts]),
        np.sum([part.margins for part in parts], axis=0),
        np.concatenate([part.decisions for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        (
            first_reasons(part.forfeit_reasons[0] for part in parts),
            first_reasons(part.forfeit_reasons[1] for part in parts),
        ),
        list(chain.from_iterable(part.actions for part in parts)),
    )


def first_reasons(lists: Iterable[Iterable[str]]) -> list[str]:
    """Return the first `MOST_REASONS` distinct reasons of several lists.

    They are also the first of whatever the lists were cut from in this way.
    """
    return list(islice(dict.fromkeys(chain.from_iterable(lists)), MOST_REASONS))


def block_size(num_players: int, *, named: bool = False) -> int:
    """Return the matches of a block: one for each rotation of the line-up.

    Args:
        num_players: seats.
        named: whether one of the sides, or both, are named pairs, which takes four seats.
    """
    return 4 if named else num_sides(num_players)


def even_share(num_players: int) -> float:
    """Return what `a` wins of its matches if all agents are equal."""
    return 1 / num_sides(num_players)


def seated(num_players: int, rotation: int, a: Sequence[_T], b: Sequence[_T]) -> list[_T]:
    """Return who sits in each seat.

    Args:
        num_players: seats.
        rotation: how far the line-up is moved: its first, who is of `a`, has this seat.
        a: the partners of the one side; one if they are copies.
        b: those of the other sides.
    """
    line_up = [a[0], b[0], a[-1], b[-1]] if num_players == 4 else [a[0], *[b[0]] * (num_players - 1)]
    return [line_up[(seat - rotation) % num_players] for seat in range(num_players)]


def play_blocks(
    a: Side,
    b: Side,
    num_players: int,
    *,
    first: int,
    count: int,
    seed: int = 0,
    max_rounds: int = MAX_ROUNDS,
    **rules: Any,
) -> Blocks:
    """Play blocks `first` to ``first + count - 1`` of the pair (a, b).

    Block k is that of match seed ``seed + k``, and depends on nothing else. The agents are not reset.

    Args:
        a: has one side: an agent, or with four seats two partners, (x, y), also if they are the same.
        b: has the other sides. It may be the same object as `a`.
        num_players: seats.
        first: number of the first block.
        count: how many blocks.
        seed: match seed of block 0.
        max_rounds: rounds after which a match stops without a winner.
        rules: the rule parameters `hand_size, target, max_pip, without`, as for `Match`.

    Raises:
        ValueError: an argument is impossible, or a side is two partners without four seats.
    """
    check_int("count", count, 1, 2**31)
    check_int("first", first, 0, 2**62)
    check_int("seed", seed, 0, MAX_SEED - first - count)
    check_int("max_rounds", max_rounds, 1, 2**31)
    empty = Options(num_players, **rules).new_state()
    players = _players("a", a, num_players), _players("b", b, num_players)
    size = block_size(num_players, named=len(players[0]) + len(players[1]) > 2)
    states: States = np.repeat(np.array([empty], STATE), count * size)
    states["seed"] = np.uint64(seed + first) + np.repeat(np.arange(count, dtype=np.uint64), size)
    table = _Table(states, size, players, max_rounds)
    while len(table.waiting):
        for player in (*players[0], *players[1]):
            table.ask(player)
    return table.blocks


class _Player(NamedTuple):
    """An agent at the table."""

    number: int  # 0 and 1 of a, 2 and 3 of b
    agent: Agent
    told: str  # before the reasons for its forfeits

    @property
    def side(self) -> int:
        return self.number // 2


def _players(name: str, side: Side, num_players: int) -> list[_Player]:
    """Return the players of `a` or `b`: one if it is an agent, two if it is a named pair."""
    first = 0 if name == "a" else 2
    agents = (side,) if isinstance(side, Agent) else tuple(side)
    if len(agents) == 1:
        return [_Player(first, agents[0], "")]
    if len(agents) != 2:
        raise ValueError(f"{name} must be an agent or two partners, not {len(agents)}")
    if num_players != 4:
        raise ValueError(
            f"{name} is a pair of partners, and only with four seats has anyone a partner, not {num_players}"
        )
    return [_Player(first + index, agent, f"partner {index + 1}: ") for index, agent in enumerate(agents)]


class _Table:
    """Matches in play between two sides, block by block."""

    def __init__(
        self, states: States, size: int, players: tuple[list[_Player], list[_Player]], max_rounds: int
    ) -> None:
        count, num_players = len(states), int(states[0].num_players)
        self.states, self.max_rounds = states, max_rounds
        self.rotations = np.tile(np.arange(size), count // size)
        self.seeds = states["seed"].copy()
        self.waiting = np.arange(count)
        self.plies = np.zeros(count, np.int64)
        self.over = np.zeros(count, np.bool_)
        a, b = ([player.number for player in side] for side in players)
        seats = np.array([seated(num_players, rotation, a, b) for rotation in range(size)])
        self.owners = seats[self.rotations]  # [M, P]: the number of the player in each seat
        sides, tallies = num_sides(num_players), np.zeros(count, TALLY)
        self.round_tallies: NDArray[Any] = np.zeros(count, TALLY)  # of the rounds in play
        self.blocks = Blocks(sides, size, tallies, self.rotations % sides, np.zeros(_MARGIN_BINS, np.int64))
        self.blocks.actions = [[] for _ in range(count)]
        _begin(states, tallies)

    def ask(self, player: _Player) -> None:
        """Let a player decide wherever it is to move, and go on to the next decisions."""
        rows = self.waiting[self.owners[self.waiting, self.states["turn"][self.waiting]] == player.number]
        if not len(rows):
            return
        seen, masks = self._shown(player.agent, rows)
        keys = decision_keys(self.seeds[rows], self.rotations[rows], self.plies[rows])
        begin = time.perf_counter()
        actions, errors = decide(player.agent, seen, masks, keys)
        self.blocks.seconds[0, player.side] += time.perf_counter() - begin
        self.blocks.decisions[0, player.side] += len(rows)
        for index, error in errors.items():
            self._forfeit(int(rows[index]), player.side, player.told + error)
        self._take(rows[actions >= 0], actions[actions >= 0])
        self.plies[rows] += 1
        self.waiting = self.waiting[~self.over[self.waiting]]

    def _take(self, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        blocks = self.blocks
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            blocks.actions[row].append(action)
        counts = blocks.tallies, self.round_tallies, blocks.margins
        _advance(self.states, rows, actions, blocks.a_sides, self.max_rounds, *counts, self.over)

    def _shown(self, agent: Agent, rows: NDArray[np.int64]) -> tuple[States, NDArray[np.int8]]:
        """Return what the agent sees in these rows: views of the seats to move, or with `sees_all` the states."""
        seen: States = self.states[rows]
        masks = np.zeros((len(rows), NUM_ENDS_ACTIONS), np.int8)
        if getattr(agent, "sees_all", False):
            _write_masks(seen, masks)
        else:
            hide_rows(seen, masks)
        return seen, masks

    def _forfeit(self, row: int, side: int, reason: str) -> None:
        self.blocks.tallies[row].forfeit = self.states[row].turn
        self.over[row] = True
        reasons = self.blocks.forfeit_reasons[side]
        if reason not in reasons and len(reasons) < MOST_REASONS:
            reasons.append(reason)


def scores_of_a(blocks: Blocks, num_players: int) -> NDArray[np.float64]:
    """Return the score of `a` in every match, float64[M]: 1 for a win, 0 for a loss, its even share if nobody won.

    Whoever forfeits loses, and the other agent wins.
    """
    tallies, a_sides = blocks.tallies, blocks.a_sides
    won = (tallies["winner"] == a_sides).astype(np.float64)
    scores = np.where(tallies["winner"] < 0, even_share(num_players), won)
    scores[tallies["forfeit"] >= 0] = 1.0
    scores[blocks.forfeits_of_a()] = 0.0
    return scores


def block_scores(blocks: Blocks, num_players: int) -> NDArray[np.float64]:
    """Return the score of `a` in every block, float64[N]: the mean of those in its matches."""
    scores: NDArray[np.float64] = scores_of_a(blocks, num_players).reshape(-1, blocks.block_size).mean(axis=1)
    return scores


def decide(
    agent: Agent, seen: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], dict[int, str]]:
    """Ask an agent that may fail.

    Returns:
        Actions int64[N], -1 where there is none, and why there is none, by row.
    """
    try:
        return _checked(agent.act(seen.copy(), masks.copy(), keys.copy()), masks), {}
    except (Exception, SystemExit) as error:  # whatever an agent of unknown origin does
        if len(seen) == 1:
            return np.array([-1]), {0: _reason(error)}
    actions, errors = np.empty(len(seen), np.int64), {}
    for row in range(len(seen)):
        one = slice(row, row + 1)
        actions[one], error_of_row = decide(agent, seen[one], masks[one], keys[one])
        if error_of_row:
            errors[row] = error_of_row[0]
    return actions, errors


def _reason(error: BaseException) -> str:
    """Return what is said of an error; its text may fail, too."""
    try:
        text = str(error)
    except Exception:
        text = "it has no text"
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON]


def _checked(actions: Any, masks: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return what `act` returned if it is a legal id for every row."""
    taken = np.asarray(actions)
    if taken.shape != (len(masks),) or not np.issubdtype(taken.dtype, np.integer):
        raise ValueError(f"act must return {len(masks)} integers, not {taken.dtype}{list(taken.shape)}")
    inside = (taken >= 0) & (taken < masks.shape[1])
    wrong = np.flatnonzero(~inside | (masks[np.arange(len(masks)), np.where(inside, taken, 0)] == 0))
    if len(wrong):
        raise ValueError(f"action {taken[wrong[0]]} is not legal")
    return taken.astype(np.int64)


@kernel
def _write_masks(states: States, masks: NDArray[np.int8]) -> None:
    flat = masks.reshape(-1)
    for row in range(len(states)):
        ends_mask(states[row], flat, row * NUM_ENDS_ACTIONS)


@kernel
def _begin(states: States, tallies: NDArray[Any]) -> None:
    """Deal every match. Whoever opens a round has a choice."""
    for row in range(len(states)):
        start_match(states[row])
        tallies[row].winner = tallies[row].forfeit = -1


@kernel
def _advance(
    states: States,
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    a_sides: NDArray[np.int64],
    max_rounds: int,
    tallies: NDArray[Any],
    round_tallies: NDArray[Any],
    margins: NDArray[np.int64],
    over: NDArray[np.bool_],
) -> None:
    """Take an action in each of these rows, count what it does, and go on to the next decision."""
    for index in range(len(rows)):
        row, action = rows[index], actions[index]
        state = states[row]
        while action >= 0 and not over[row]:
            ends_step(state, action)
            _count_events(state, round_tallies[row])
            if state.result != RUNNING:
                _count_round(state, tallies[row], round_tallies[row])
                margins[_margin_bin(state, a_sides[row])] += 1
                over[row] = state.result == WON or state.round_number >= max_rounds
                if not over[row]:
                    start_next_round(state)
            action = only_action(state)


@kernel
def _count_events(state: State, tally: Any) -> None:
    for index in range(np.int64(state.num_events)):
        event = state.events[index]
        side = np.int64(event[0])
        if np.int64(state.accepted) >> index & 1 == 0:
            tally.refused[side] += 1
            continue
        tally.points[side, PLACEMENTS] += event[1]
        tally.points[side, GOING_OUT if _went_out(state) else BLOCKED_HANDS] += event[2]
        tally.points[side, PARTNER] += event[3]


@kernel
def _went_out(state: State) -> Any:
    """Tell whether the seat whose turn it is has placed its last tile."""
    return state.hand_sizes[state.turn] == 0


@kernel
def _count_round(state: State, tally: Any, round_tally: Any) -> None:
    """Count a round that is over, with what its events gave."""
    for side in range(MAX_SIDES):
        tally.refused[side] += round_tally.refused[side]
        round_tally.refused[side] = 0
        for source in range(NUM_SOURCES):
            tally.points[side, source] += round_tally.points[side, source]
            round_tally.points[side, source] = 0
    tally.rounds += 1
    if _went_out(state):
        tally.out[side_of(np.int64(state.num_players), np.int64(state.turn))] += 1
    elif state.shown:
        tally.blocked += 1
    if state.result == WON:
        tally.winner = state.result_of


@kernel
def _margin_bin(state: State, side: int) -> Any:
    """Return the bin of what `side` gained in this round over the mean of the other sides."""
    sides = np.int64(3) if state.num_players == 3 else np.int64(2)
    own = others = np.int64(0)
    for other in range(sides):
        gain = np.int64(state.scores[other]) - np.int64(state.round_scores[other])
        if other == side:
            own = gain
        else:
            others += gain
    halves = (2 * own - 2 * others // (sides - 1)) // 5
    return min(max(_MIDDLE + halves, 0), _MARGIN_BINS - 1)
