"""A match as a game in extensive form: chance events and the seats' actions, one after another.

Elsewhere chance is settled in advance, by the seed of a match. Here every chance event is a node of its own, in the
order in which the table comes to know of it:

    lot     which seat opens the round, where no rule says so (R4); the event is the seat
    deal    the hands, seat after seat (R3): one event for a whole hand, or one for each of its tiles in ascending
            order. Either way one path leads to each hand, and all hands are equally likely
    draw    after each action `draw`: the tile, each one left in the boneyard being equally likely (R12)

The rules are those of `fivesup_env.rules`. A record of STATE holds the boneyard in order; here the order of the tiles
that are left means nothing, and a tile drawn changes places with the one that is next. While a new round is dealt, the
record still holds the round before, and the hands that its settlement showed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.actions import (
    ENDS_DRAW,
    ENDS_KIND,
    ENDS_TILE,
    ENDS_VALUE,
    NUM_ENDS_ACTIONS,
    ends_id,
    ends_step,
    illegal_id,
    legal_ends,
)
from fivesup_env.belief import sample_worlds
from fivesup_env.episode import REWARD_NUMBERS, pay
from fivesup_env.notation import checked_scores, tile_texts
from fivesup_env.options import Options, check_choice
from fivesup_env.rules.play import DRAW, hand_out, next_starter, record_draw
from fivesup_env.rules.state import MAX_SEATS, RUNNING, STATE, WON, State, States, check_int, deck
from fivesup_env.rules.tiles import KIND_NAMES, NUM_TILES, tile_ids, tile_name
from fivesup_env.rules.view import drawn_tiles, history, initial_hands, view

# Stages: what comes next.
LOT, DEAL, DRAWS, ACTS, OVER = range(5)

BY_LOT: Final = -1  # in place of a seat that starts

DEALS: Final = ("auto", "hand", "tile")
#: With `deal="auto"`, a hand is one chance event where the first one dealt has at most so many outcomes.
MOST_HANDS: Final = 1000

_WORD: Final = (1 << 64) - 1


def _ends_text(action: int) -> str:
    if action >= ENDS_DRAW:
        return "draw" if action == ENDS_DRAW else "pass"
    tile = tile_name(int(ENDS_TILE[action]))
    return tile if action < NUM_TILES else f"{tile}@{KIND_NAMES[ENDS_KIND[action]]} {ENDS_VALUE[action]}"


#: The text of each `ends` id: "1|4" opens, "0|1@half 1" places, "draw", "pass".
ENDS_TEXTS: Final = tuple(_ends_text(action) for action in range(NUM_ENDS_ACTIONS))


@dataclass(frozen=True)
class Setup:
    """What is given before the first chance event.

    Args:
        options: rule parameters, episode, reward and `max_rounds`, as an environment takes them.
        scores: raw points per side to begin with; None for zeros.
        starter: the seat that opens the first round; None for the lot.
        deal: what one chance event deals: a "hand", a "tile", or "auto" (see `MOST_HANDS`).

    Raises:
        ValueError: an argument is impossible; names it.
    """

    options: Options
    scores: tuple[int, ...] | None = None
    starter: int | None = None
    deal: str = "auto"

    def __post_init__(self) -> None:
        """Check what `Options` has not checked."""
        check_choice("deal", self.deal, DEALS)
        if self.starter is not None:
            check_int("starter", self.starter, 0, self.num_players - 1)
        checked_scores(self.options.new_state(), self.scores)

    @property
    def num_players(self) -> int:
        """Number of seats."""
        return self.options.num_players

    @cached_property
    def start_scores(self) -> tuple[int, ...]:
        """Raw points per side to begin with."""
        return tuple(checked_scores(self.options.new_state(), self.scores))

    @cached_property
    def first_starter(self) -> int:
        """The seat that opens the first round, or -1 for the lot."""
        return BY_LOT if self.starter is None else self.starter

    @cached_property
    def tiles(self) -> int:
        """Mask of the tiles in the set."""
        return deck(self.options.new_state())

    @cached_property
    def num_tiles(self) -> int:
        """Number of tiles in the set."""
        return self.tiles.bit_count()

    @cached_property
    def boneyard_size(self) -> int:
        """Tiles left after the deal."""
        return self.num_tiles - self.num_players * self.options.hand_size

    @cached_property
    def deals_hands(self) -> bool:
        """Whether a chance event deals a whole hand."""
        few = math.comb(self.num_tiles, self.options.hand_size) <= MOST_HANDS
        return self.deal == "hand" or (self.deal == "auto" and few)

    @cached_property
    def round_limit(self) -> int:
        """Rounds in an episode at most; 0 if there is no limit."""
        return self.options.round_limit if self.options.plays_match else 1

    @cached_property
    def reward(self) -> int:
        """The reward by its number in `fivesup_env.episode`."""
        return REWARD_NUMBERS[self.options.reward]

    @cached_property
    def deal_events(self) -> int:
        """Chance events that deal one round."""
        return self.num_players * (1 if self.deals_hands else self.options.hand_size)

    @cached_property
    def most_outcomes(self) -> int:
        """Bound of the ids of chance events."""
        hands = math.comb(self.num_tiles, self.options.hand_size) if self.deals_hands else 0
        return max(hands, NUM_TILES)

    @cached_property
    def most_actions(self) -> int:
        """Bound of the seats' actions in one round: all tiles placed, all of the boneyard drawn, and passes.

        After a placement at most all seats but one pass, for the round is blocked where none can place (R14).
        """
        return self.num_players * self.num_tiles + self.boneyard_size

    @cached_property
    def most_events(self) -> int:
        """Bound of the chance events in one round."""
        return 1 + self.deal_events + self.boneyard_size

    @cached_property
    def blank(self) -> bytes:
        """The record with nothing dealt, in round 0."""
        state = self.options.new_state()
        state.scores[: len(self.start_scores)] = self.start_scores
        return state.tobytes()


class Course:
    """One course of the game: where it is, how it came there, and what every seat has seen of it.

    `apply` takes it further. What `seen` holds for a seat is its information state: all that it was told, in order,
    from the first event on; nothing is ever taken away from it. A copy shares nothing that changes.
    """

    __slots__ = (
        "_before",
        "_dealing_to",
        "_ids",
        "_legal",
        "_missing",
        "_rest",
        "hands",
        "rounds",
        "scores",
        "seen",
        "setup",
        "stage",
        "starter",
        "states",
        "turn",
    )

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.states = states_of(setup.blank)  #: STATE[1]: the round in play; while one is dealt, the one before
        self.stage = LOT
        self.turn = BY_LOT  #: seat to act at stage ACTS, that draws at stage DRAWS
        self.starter = BY_LOT  #: seat that opens the round, -1 before the lot
        self.hands: tuple[int, ...] = ()  #: mask per seat of what was dealt to it, while a round is dealt
        self.rounds: tuple[bytes, ...] = ()  #: the records of the rounds before this one, as they ended
        self.seen = tuple(f"seat={seat}" for seat in range(setup.num_players))
        self.scores = setup.start_scores  #: raw points per side
        self._before = self.scores  # raw points per side before the last action of a seat
        self._dealing_to, self._rest, self._missing = 0, 0, 0  # seat, tiles that it can get next, how many it lacks
        self._legal = 0  # bit per legal action
        self._ids: list[int] | None = None  # the same as a list, once asked for
        self._begin_round(setup.first_starter)

    def __copy__(self) -> Course:
        course = Course.__new__(Course)
        course.setup, course.stage, course.turn, course.starter = self.setup, self.stage, self.turn, self.starter
        course.states = states_of(self.states.tobytes())
        course.hands, course.rounds, course.seen = self.hands, self.rounds, self.seen
        course._dealing_to, course._rest, course._missing = self._dealing_to, self._rest, self._missing
        course.scores, course._before, course._legal, course._ids = self.scores, self._before, self._legal, self._ids
        return course

    def __deepcopy__(self, memo: object) -> Course:
        return self.__copy__()

    def apply(self, event: int) -> None:
        """Let this happen next: an `ends` id of the seat to move, or the id of a chance event.

        Raises:
            ValueError: it cannot happen now. Nothing has changed then.
        """
        if self.stage == ACTS:
            self._act(event)
        elif self.stage == DRAWS:
            self._draw(event)
        elif self.stage == DEAL:
            self._deal(event)
        else:
            self._cast_lot(event)

    @property
    def is_dealt(self) -> bool:
        """Whether a round was dealt yet: before, the record has nothing to see."""
        return self.stage > DEAL or bool(self.rounds)

    def view(self, seat: int) -> State:
        """Return the view of a seat of the record."""
        return view(self.states[0], seat)

    def legal(self) -> list[int]:
        """Return the legal `ends` ids of the seat to move, ascending."""
        if self._ids is None:
            self._ids = _bits(self._legal)
        return self._ids.copy()

    def chances(self) -> list[tuple[int, float]]:
        """Return the ids of the chance events that can come next, ascending, with their probabilities."""
        if self.stage == LOT:
            return _even(tuple(range(self.setup.num_players)))
        if self.stage == DRAWS:
            return _even(tuple(_bits(left_to_draw(self.states))))
        if self.setup.deals_hands:
            return _even(range(math.comb(self._rest.bit_count(), self._missing)))
        return list(zip(_bits(self._rest), lowest_chances(self._rest.bit_count(), self._missing), strict=False))

    def chance_text(self, event: int) -> str:
        """Return a chance event in words."""
        if self.stage == LOT:
            return f"seat {event} starts"
        if self.stage == DRAWS:
            return f"seat {self.turn} draws {tile_name(event)}"
        return f"seat {self._dealing_to} gets {' '.join(tile_texts(self._dealt_by(event)))}"

    def rewards(self) -> list[float]:
        """Return what every seat earned since the last action of a seat began, chance events after it included."""
        return self._paid(self._before)

    def returns(self) -> list[float]:
        """Return what every seat has earned so far."""
        return self._paid(self.setup.start_scores)

    def _paid(self, before: tuple[int, ...]) -> list[float]:
        if before == self.scores:
            return [0.0] * self.setup.num_players
        earned: list[float] = pay_since(self.states, np.array(before), self.setup.reward).tolist()
        return earned[: self.setup.num_players]

    def _tell(self, text: str) -> None:
        """Let every seat know."""
        self.seen = tuple([seen + text for seen in self.seen])

    def _tell_one(self, seat: int, text: str, others: str) -> None:
        """Let a seat know, and the others that it does."""
        self.seen = tuple([seen + (text if other == seat else others) for other, seen in enumerate(self.seen)])

    def _act(self, action: int) -> None:
        if action < 0 or not self._legal >> action & 1:
            raise illegal_id(self.view(self.turn), action)
        self._tell(f"; {self.turn} {ENDS_TEXTS[action]}")
        self._before = self.scores
        if action == ENDS_DRAW:
            self.stage = DRAWS
        else:
            self._look(act(self.states, action))

    def _draw(self, tile: int) -> None:
        self._check(0 <= tile < NUM_TILES and left_to_draw(self.states) >> tile & 1 == 1, tile)
        self._tell_one(self.turn, f" {tile_name(tile)}", " ?")
        self._look(draw(self.states, tile))

    def _look(self, found: tuple[int, ...]) -> None:
        """Take from what `act` or `draw` returned where the course is now."""
        result, self.turn, first, second, third, *scores = found
        self.scores = tuple(scores[: self.setup.options.num_sides])
        if result == RUNNING:
            self.stage, self._ids = ACTS, None
            self._legal = first & _WORD | (second & _WORD) << 64 | (third & _WORD) << 128
        else:
            self._end_round()

    def _end_round(self) -> None:
        record = self.states[0]
        if record.shown:
            hands = [",".join(tile_texts(hand)) or "-" for hand in record.hands[: self.setup.num_players].tolist()]
            self._tell(f"; shown {'/'.join(hands)}")
        if record.result == WON or record.round_number == self.setup.round_limit:
            self.stage = OVER
        else:
            self.rounds += (self.states.tobytes(),)
            self._begin_round(next_starter_of(self.states))

    def _begin_round(self, starter: int) -> None:
        """Begin the next round: with the deal if it is known who starts, else with the lot (R4)."""
        self._tell(f" round={len(self.rounds) + 1} scores={','.join(map(str, self.scores))}")
        self.stage, self.hands = LOT, (0,) * self.setup.num_players
        if starter != BY_LOT:
            self._set_starter(starter)

    def _cast_lot(self, seat: int) -> None:
        self._check(self.stage == LOT and 0 <= seat < self.setup.num_players, seat)
        self._set_starter(seat)

    def _set_starter(self, seat: int) -> None:
        self.stage, self.starter = DEAL, seat
        self._deal_to(0)
        self._tell(f" starter={seat} hand=")

    def _deal(self, event: int) -> None:
        self._check(event >= 0 and self._can_deal(event), event)
        seat, hands, tiles = self._dealing_to, list(self.hands), self._dealt_by(event)
        comma = "," if hands[seat] else ""
        self._tell_one(seat, comma + ",".join(tile_texts(tiles)), "")
        hands[seat] |= tiles
        self.hands = tuple(hands)
        if self._missing > tiles.bit_count():
            self._missing -= 1
            self._rest = self._rest >> event + 1 << event + 1
        elif seat + 1 < len(hands):
            self._deal_to(seat + 1)
        else:
            self._look(begin(self.states, self.starter, np.array(self._dealt_order())))

    def _deal_to(self, seat: int) -> None:
        """Go on with the hand of this seat."""
        self._dealing_to, self._missing = seat, self.setup.options.hand_size
        self._rest = self.setup.tiles & ~sum(self.hands)

    def _can_deal(self, event: int) -> bool:
        if self.setup.deals_hands:
            return event < math.comb(self._rest.bit_count(), self._missing)
        left = self._rest >> event
        return bool(left & 1) and left.bit_count() >= self._missing  # the next tiles of the hand lie above this one

    def _dealt_by(self, event: int) -> int:
        """Return the mask of the tiles that an event deals."""
        return hand_of(self._rest, self._missing, event) if self.setup.deals_hands else 1 << event

    def _dealt_order(self) -> list[int]:
        """Return the tiles of the set: the hands one after another, then the boneyard."""
        return [tile for mask in (*self.hands, self.setup.tiles & ~sum(self.hands)) for tile in _bits(mask)]

    def _check(self, possible: bool, event: int) -> None:
        if not possible:
            raise ValueError(f"{event} is no event that can come now" + ": the episode is over" * (self.stage == OVER))


def resample(course: Course, seat: int, uniform: Callable[[], float]) -> list[int]:
    """Return the events of a course in which `seat` has seen the same.

    It is drawn from what the seat can know: all deals and draws that agree with it are equally likely, as nothing is
    assumed about how the others choose (`fivesup_env.belief`).

    Args:
        course: where the seat is, at any stage.
        seat: whose information is kept.
        uniform: returns a number in [0, 1) each time, the only randomness.
    """
    setup, events, starter = course.setup, list[int](), course.setup.first_starter
    for record in course.rounds:
        states = states_of(record)
        world = _world(states, seat, uniform)
        events += _round_events(setup, world, starter)
        starter = next_starter_of(states)
    if course.stage in (LOT, DEAL):
        return events + _deal_begun(course, seat, starter, uniform)
    states = states_of(course.states.tobytes())
    if course.stage != DRAWS:
        return events + _round_events(setup, _world(states, seat, uniform), starter)
    if seat != course.turn:  # it knows that nothing fits in the hand that draws, but not yet what is drawn
        note_draw(states)
        return events + _round_events(setup, _world(states, seat, uniform), starter)[:-1]
    return [*events, *_round_events(setup, _world(states, seat, uniform), starter), ENDS_DRAW]


def _world(states: States, seat: int, uniform: Callable[[], float]) -> Any:
    """Return a world that agrees with what `seat` sees of a round, as a STATE record."""
    halves = [int(uniform() * 2**32) & 0xFFFFFFFF for _ in range(2)]
    return sample_worlds(view(states[0], seat), np.array([halves[0] << 32 | halves[1]], np.uint64))[0]


def _round_events(setup: Setup, record: Any, starter: int) -> list[int]:
    """Return the events of a round from its record; `starter` is -1 if it began with the lot."""
    events = [int(record.starter)] if starter == BY_LOT else []
    events += _deal_events(setup, initial_hands(record))
    drawn = iter(drawn_tiles(record))
    for _, tile, port in history(record):
        events.append(ends_id(tile, port))
        if tile == DRAW:
            events.append(next(drawn))
    return events


def _deal_events(setup: Setup, hands: list[int]) -> list[int]:
    """Return the chance events that deal these hands."""
    if not setup.deals_hands:
        return [tile for hand in hands for tile in tile_ids(hand)]
    events, rest = [], setup.tiles
    for hand in hands:
        events.append(hand_number(rest, hand))
        rest &= ~hand
    return events


def _deal_begun(course: Course, seat: int, starter: int, uniform: Callable[[], float]) -> list[int]:
    """Return the events of a deal that is not done, from the lot on: `seat` has what it has, the others anything.

    A hand dealt in part is completed with tiles above those that it has, since they come in ascending order; before
    any tile is dealt, all hands of the seat are equally likely.
    """
    if course.stage == LOT:
        return []
    setup, own = course.setup, course.hands[seat]
    above = setup.tiles >> own.bit_length() << own.bit_length()
    own |= _some(above, setup.options.hand_size - own.bit_count(), uniform)
    hands, rest = [], setup.tiles & ~own
    for other in range(setup.num_players):
        hands.append(own if other == seat else _some(rest, setup.options.hand_size, uniform))
        rest &= ~hands[-1]
    dealt = sum(hand.bit_count() for hand in course.hands)
    events = _deal_events(setup, hands)[: dealt // setup.options.hand_size if setup.deals_hands else dealt]
    return [course.starter, *events] if starter == BY_LOT else events


def _some(tiles: int, count: int, uniform: Callable[[], float]) -> int:
    """Return so many of these tiles, each choice being equally likely."""
    rest, chosen = tile_ids(tiles), 0
    for _ in range(count):
        chosen |= 1 << rest.pop(min(int(uniform() * len(rest)), len(rest) - 1))
    return chosen


def states_of(record: bytes) -> States:
    """Return STATE[1] from the bytes of a record; numpy's own copy takes a hundred times as long, field by field."""
    return np.frombuffer(bytearray(record), STATE)


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        lowest = mask & -mask
        bits.append(lowest.bit_length() - 1)
        mask ^= lowest
    return bits


def _even(events: Sequence[int]) -> list[tuple[int, float]]:
    chance = 1 / len(events)
    return [(event, chance) for event in events]


@cache
def lowest_chances(tiles: int, size: int) -> list[float]:
    """Return for the tiles of a set in ascending order the chance to be the lowest of `size` tiles drawn from it."""
    ways = [math.comb(tiles - place - 1, size - 1) for place in range(tiles - size + 1)]
    return [count / math.comb(tiles, size) for count in ways]


def hand_of(rest: int, size: int, number: int) -> int:
    """Return hand `number` of all hands of `size` tiles of a mask: the combinations in lexicographic order."""
    tiles, hand = tile_ids(rest), 0
    for index, tile in enumerate(tiles):
        with_it = math.comb(len(tiles) - index - 1, size - hand.bit_count() - 1) if hand.bit_count() < size else 0
        if number < with_it:
            hand |= 1 << tile
        else:
            number -= with_it
    return hand


def hand_number(rest: int, hand: int) -> int:
    """Return the number that `hand_of` gives back."""
    tiles, number, lacking = tile_ids(rest), 0, hand.bit_count()
    for index, tile in enumerate(tiles):
        if lacking == 0:
            break
        if hand >> tile & 1:
            lacking -= 1
        else:
            number += math.comb(len(tiles) - index - 1, lacking - 1)
    return number


# Kernels take arrays of one record: numba takes ten times as long to receive a record by itself.


@kernel
def act(states: States, action: int) -> Any:
    """Take a legal `ends` id, but for draw; return what `_looked` does."""
    ends_step(states[0], action)
    return _looked(states[0])


@kernel
def draw(states: States, tile: int) -> Any:
    """Let the seat to move draw this tile, which is left in the boneyard; return what `_looked` does."""
    state = states[0]
    place = np.int64(state.drawn)
    while state.boneyard[place] != tile:
        place += 1
    state.boneyard[place] = state.boneyard[state.drawn]
    state.boneyard[state.drawn] = tile
    ends_step(state, ENDS_DRAW)
    return _looked(state)


@kernel
def begin(states: States, starter: int, tiles: NDArray[np.int64]) -> Any:
    """Begin the next round with the hands in `tiles`, one after another, then the boneyard; see `_looked`."""
    state = states[0]
    state.round_number = np.int64(state.round_number) + 1
    hand_out(state, starter, tiles, len(tiles))
    return _looked(state)


@kernel
def _looked(state: State) -> Any:
    """Return result, turn, the legal `ends` ids (three words), and three scores."""
    first, second, third = legal_ends(state)
    scores = state.scores
    return (
        np.int64(state.result),
        np.int64(state.turn),
        first,
        second,
        third,
        np.int64(scores[0]),
        np.int64(scores[1]),
        np.int64(scores[2]),
    )


@kernel
def left_to_draw(states: States) -> Any:
    """Return the mask of the tiles left in the boneyard."""
    state, left = states[0], np.int64(0)
    for place in range(np.int64(state.drawn), np.int64(state.boneyard_size)):
        left |= 1 << np.int64(state.boneyard[place])
    return left


@kernel
def note_draw(states: States) -> None:
    """Count a draw of the seat to move, without telling the tile."""
    record_draw(states[0])


@kernel
def next_starter_of(states: States) -> Any:
    """Return `next_starter`."""
    return next_starter(states[0])


@kernel
def pay_since(states: States, before: NDArray[np.int64], reward: int) -> Any:
    """Return what every seat has earned since the scores were `before`: float64[4]."""
    earned = np.zeros((1, MAX_SEATS))
    pay(states[0], before, reward, earned, 0)
    return earned[0]
