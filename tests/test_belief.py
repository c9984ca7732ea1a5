"""Worlds of a view: against all deals of small games, and replayed move by move in games of all sizes."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from fivesup_env import Match
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_step, ports_id, ports_is_legal
from fivesup_env.batch import hide_rows
from fivesup_env.belief import (
    EVIDENCE,
    MAX_ENTRIES,
    MAX_REAL_ENTRIES,
    count_ways,
    count_worlds,
    draw_world,
    gather_evidence,
    holding_chances,
    sample_worlds,
)
from fivesup_env.notation import lay_out, tile_texts
from fivesup_env.policies import GREEDY, RANDOM, policy_action
from fivesup_env.rules.layout import fitting
from fivesup_env.rules.play import DRAW, PASS, boneyard_left, clear_round, playable, step
from fivesup_env.rules.state import BLOCKED, OUT, RUNNING, STATE, WON, State, States, deck
from fivesup_env.rules.tiles import OPENING
from fivesup_env.rules.view import history, initial_hands, view
from fivesup_env.search import WorldSampler, playouts, step_states
from tests.conftest import TILES, lay, play, random_mini, random_setup
from tests.playing import SEATS
from tests.test_determinism import run_python


def keys(count: int, first: int = 0) -> Any:
    return np.arange(first, first + count, dtype=np.uint64)


# Small games: all deals, all ways to play them, and what each seat sees of every position


class Small(NamedTuple):
    """A round of a game with few tiles."""

    hands: tuple[int, ...]  # tiles dealt to each seat
    boneyard: int  # what the set has beyond that is missing from the round
    tiles: str
    starter: int = 0
    target: int = 305


DOUBLE_TWO = "0|0 0|1 0|2 1|1 1|2 2|2"
SEVEN = "0|1 0|2 0|3 1|2 1|3 2|3 3|3"
DOUBLES = "0|0 1|1 2|2 3|3 0|1 1|2 2|3 0|3"
EIGHT = SEVEN + " 0|0"
GAMES = {
    "2 seats, double two": Small((2, 2), 2, DOUBLE_TWO, starter=1),
    "2 seats, more to draw": Small((2, 1), 5, EIGHT),
    "2 seats, seven tiles": Small((2, 2), 3, SEVEN),
    "2 seats, eight tiles": Small((3, 2), 3, EIGHT, starter=1),
    "2 seats, a few points win": Small((3, 2), 2, SEVEN, target=5),
    "2 seats, tiles missing": Small((2, 2), 1, SEVEN),
    "2 seats, nothing to draw, tiles missing": Small((3, 2), 0, SEVEN),
    "2 seats, many doubles": Small((3, 1), 4, DOUBLES),
    "3 seats, many doubles": Small((2, 1, 1), 3, DOUBLES[:27]),
    "3 seats, double two": Small((2, 1, 2), 1, DOUBLE_TWO, starter=2),
    "3 seats, seven tiles": Small((1, 2, 1), 3, SEVEN, starter=1),
    "3 seats, tiles missing": Small((2, 2, 1), 1, SEVEN),
    "4 seats, seven tiles": Small((2, 1, 1, 1), 2, SEVEN),
    "4 seats, nothing to draw": Small((2, 2, 2, 1), 0, SEVEN, starter=3),
    "4 seats, tiles missing": Small((2, 2, 1, 1), 0, SEVEN, starter=1),
}
LARGER = {
    "2 seats, eight tiles, longer": Small((2, 2), 4, EIGHT),
    "2 seats, many doubles, longer": Small((2, 1), 5, DOUBLES),
    "3 seats, eight tiles": Small((2, 2, 1), 3, EIGHT),
    "4 seats, eight tiles": Small((2, 2, 1, 1), 2, EIGHT),
}


class Seen(NamedTuple):
    """What a seat sees, and every full state of which it sees this."""

    view: State
    worlds: States


def deals(game: Small) -> States:
    """All ways to deal a game: hands as sets, the boneyard in order."""
    tiles = [TILES.index(text) for text in game.tiles.split()]
    cuts = [0, *itertools.accumulate(game.hands)]
    hands = list(itertools.pairwise(cuts))
    dealt = cuts[-1] + game.boneyard
    rows = np.array(
        [
            row
            for row in itertools.permutations(tiles, dealt)
            if all(list(row[start:stop]) == sorted(row[start:stop]) for start, stop in hands)
        ]
    )
    texts = game.tiles.split()
    without = [text for text in TILES if text not in texts]
    first = lay_out(
        [texts[start:stop] for start, stop in hands],
        texts[cuts[-1] : dealt],
        game.starter,
        num_players=len(hands),
        hand_size=1,
        without=without,
        target=game.target,
    )
    states = np.repeat(np.array([first], STATE), len(rows))
    for seat, (start, stop) in enumerate(hands):
        states["hands"][:, seat] = (1 << rows[:, start:stop]).sum(axis=1)
    states["boneyard"][:, : game.boneyard] = rows[:, cuts[-1] :]
    return states


def all_states(game: Small) -> States:
    """Every state of a game: all deals, and all ways to play them."""
    states = deals(game)
    found = [states]
    while len(states):
        masks = np.zeros((len(states), NUM_ENDS_ACTIONS), np.int8)
        hide_rows(states.copy(), masks)
        rows, actions = np.nonzero(masks)
        states = states[rows]
        step_states(states, actions)
        found.append(states)
    return np.concatenate(found)


def seen_by(states: States, seat: int) -> States:
    """The view that a seat has of every state."""
    views: States = states.copy()
    views["turn"] = seat  # `hide_rows` makes the view of the seat to move
    hide_rows(views, np.zeros((len(views), NUM_ENDS_ACTIONS), np.int8))
    views["turn"] = states["turn"]
    return views


def all_seen(game: Small, most: int) -> list[Seen]:
    """What the seats can see in a game: up to so many views for each, fewer of rounds that are over; evenly spread."""
    states = all_states(game)
    found = []
    for seat in range(len(game.hands)):
        views = seen_by(states, seat)
        _, index = np.unique(views.view(f"V{STATE.itemsize}"), return_inverse=True)
        groups = np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])
        going_on, over = (
            [rows for rows in groups if bool(states[rows[0]]["result"]) is wanted] for wanted in (False, True)
        )
        chosen = going_on[:: len(going_on) // most + 1] + over[:: 2 * len(over) // most + 1]
        found += [Seen(views[rows[0]], states[rows]) for rows in chosen]
    return found


@cache
def some_seen(name: str) -> list[Seen]:
    return all_seen(GAMES[name], 400)


def test_views_made_in_batches_are_those_of_view() -> None:
    states = all_states(GAMES["3 seats, tiles missing"])[::97]
    for seat in range(3):
        for state, seen in zip(states, seen_by(states, seat), strict=True):
            assert view(state, seat).tobytes() == seen.tobytes()


def kinds(seen: Seen) -> Iterator[str]:
    """The kinds of evidence in a view that a sampler could get wrong."""
    state, worlds = seen
    observer, moves = int(state.observer), history(state)
    others = [move for move in moves if move.seat != observer]
    running, left = state.result == RUNNING, boneyard_left(state)
    drawers = Counter(seat for seat, kept in kept_draws(state) if seat != observer and kept)
    if max(drawers.values(), default=0) > 1:
        yield "another seat kept draws in several turns"
    if max((kept for seat, kept in kept_draws(state) if seat != observer), default=0) > 1:
        yield "another seat kept several draws of one turn"
    if any(move.tile == PASS for move in others):
        yield "another seat passed"
    if any(one.tile == DRAW and two.tile == PASS and one.seat != observer for one, two in itertools.pairwise(moves)):
        yield "another seat drew, then passed"
    if some_arrival_unknown(seen):
        yield (
            "a placed tile was dealt or drawn" if running else "a placed tile was dealt or drawn, and the round is over"
        )
    if running and moves and moves[-1].tile == DRAW and moves[-1].seat != observer:
        yield "another seat is drawing" if left else "another seat has just drawn the last tile"
    if running and not left and not int(state.hands[observer]) & fitting(state):
        yield "some other seat can place"
        hidden = deck(state) & ~int(state.hands[observer]) & ~int(np.bitwise_or.reduce(state.placed_by))
        missing = len(tile_texts(hidden)) - int(state.hand_sizes.sum() - state.hand_sizes[observer])
        if missing and len(tile_texts(hidden & int(fitting(state)))) <= missing:
            yield "all tiles that fit could be missing"
    if state.result in (OUT, BLOCKED):
        ended = "a draw" if state.draws else "a placement"
        yield f"shown after {ended}, {'blocked' if state.result == BLOCKED else 'out'}"
    if state.result == WON and not state.shown:
        yield "over, with the hands hidden"
    if running and state.turn != observer:
        yield "another seat is to move"
    if len(worlds) == 1:
        yield "a single world"


def kept_draws(state: State) -> list[tuple[int, int]]:
    """Seat and number of kept draws of every turn with draws that is over."""
    found, draws = [], 0
    for seat, tile, _ in history(state):
        if tile != DRAW and draws:
            found.append((seat, draws - (tile != PASS)))
        draws = draws + 1 if tile == DRAW else 0
    return found


def some_arrival_unknown(seen: Seen) -> bool:
    """Whether a tile on the table was dealt in some worlds, and in others drawn and kept."""
    drawn = seen.worlds["boneyard"][:, : int(seen.view.drawn)]
    tiles = seen.view.history_tile[: seen.view.num_placed]
    return any(0 < (drawn == tile).any(axis=1).sum() < len(drawn) for tile in tiles)


def test_every_kind_of_evidence_occurs() -> None:
    found = Counter(kind for name in GAMES for seen in some_seen(name) for kind in kinds(seen))
    assert set(found) == {
        "another seat kept draws in several turns",
        "another seat kept several draws of one turn",
        "another seat passed",
        "another seat drew, then passed",
        "a placed tile was dealt or drawn",
        "a placed tile was dealt or drawn, and the round is over",
        "another seat is drawing",
        "another seat has just drawn the last tile",
        "some other seat can place",
        "all tiles that fit could be missing",
        "shown after a placement, out",
        "shown after a placement, blocked",
        "shown after a draw, blocked",
        "over, with the hands hidden",
        "another seat is to move",
        "a single world",
    }
    assert min(found.values()) >= 10, found


@pytest.mark.parametrize("name", GAMES)
def test_against_all_deals(name: str) -> None:
    compare_all(some_seen(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER)
def test_against_all_deals_of_larger_games(name: str) -> None:
    compare_all(all_seen(LARGER[name], 25_000))


def compare_all(found: list[Seen]) -> None:
    """Compare number, chances, support and frequencies of the worlds of many views."""
    draws, excess, variance = 60, 0.0, 0.0
    for number, seen in enumerate(found):
        worlds = len(seen.worlds)
        assert count_worlds(seen.view) == worlds, where(seen)
        np.testing.assert_allclose(holding_chances(seen.view), held_shares(seen.worlds), atol=1e-12)
        excess += chi_square(frequencies(seen, keys(draws, draws * number))) - (worlds - 1)
        variance += 2 * (worlds - 1) * (1 - 1 / draws)  # of a multinomial with equal chances
    assert abs(excess) < 4 * math.sqrt(variance)


def held_shares(worlds: States) -> Any:
    """The share of these states in which each seat holds each tile."""
    return (worlds["hands"][:, :, None] >> np.arange(28) & 1).mean(axis=0)


def frequencies(seen: Seen, draws: Any) -> Any:
    """How often each world of a view is drawn; anything else drawn fails."""
    index = {world.tobytes(): number for number, world in enumerate(seen.worlds)}
    drawn = sample_worlds(seen.view, draws)
    drawn["seed"] = 0
    numbers = [index.get(world.tobytes(), -1) for world in drawn]
    assert min(numbers) >= 0, where(seen)
    return np.bincount(numbers, minlength=len(index))


def chi_square(found: Any) -> float:
    """Pearson's statistic against equal chances."""
    expected = found.sum() / len(found)
    return float(((found - expected) ** 2 / expected).sum())


def where(seen: Seen) -> str:
    return f"seat {seen.view.observer}, one of {len(seen.worlds)} worlds: {Match.from_state(seen.worlds[0])!r}"


@pytest.mark.parametrize("name", GAMES)
def test_every_world_is_drawn_equally_often(name: str) -> None:
    # The views with most worlds, out of those with few enough to draw each about 50 times, one for each kind.
    chosen = {kind: seen for seen in by_worlds(name, 600) for kind in kinds(seen)}
    assert len(chosen) >= 3
    for number, seen in enumerate({id(seen): seen for seen in chosen.values()}.values()):
        worlds = len(seen.worlds)
        found = frequencies(seen, keys(50 * worlds, 10**6 * (number + 1)))
        assert found.min() > 0
        assert abs(chi_square(found) - (worlds - 1)) < 4.5 * math.sqrt(2 * worlds), where(seen)


def by_worlds(name: str, most: int) -> list[Seen]:
    return sorted((seen for seen in some_seen(name) if len(seen.worlds) <= most), key=lambda seen: len(seen.worlds))


# Games of all sizes


def some_round(number: int) -> Match:
    """A round at its beginning: of the real game, of a small one, or laid out, with tiles missing."""
    rng = random.Random(f"belief {number}")
    seats = 2 + number % 3
    if number % 5 == 3:
        return Match(**random_mini(rng, seats))
    if number % 5 == 4:
        return Match.from_setup(random_setup(rng, seats))
    return Match(seats, seed=number)


def moments(number: int) -> list[State]:
    """The states of a round, played by random or greedy seats."""
    state, policy = some_round(number).state, (GREEDY, RANDOM)[number // 3 % 2]
    found = [state.copy()]
    while state.result == RUNNING:
        ends_step(state, policy_action(state, policy, np.uint64(1000 * number + len(found))))
        found.append(state.copy())
    return found


def replay(world: State) -> bytes:
    """Play the moves of a world from its deal; every one has to be legal. Return the state they lead to."""
    hands, moves, state = initial_hands(world), history(world), world.copy()
    state.scores[:] = state.round_scores
    clear_round(state, int(world.starter))
    state.hands[: len(hands)] = hands
    state.hand_sizes[: len(hands)] = [len(tile_texts(hand)) for hand in hands]
    state.boneyard, state.boneyard_size = world.boneyard, world.boneyard_size
    for number, (seat, tile, port) in enumerate(moves):
        assert (state.turn, state.result) == (seat, RUNNING)
        assert ports_is_legal(state, ports_id(tile, port)), (number, Match.from_state(world))
        step(state, tile, port)
    return bytes(state.tobytes())


def check_worlds_of_rounds(numbers: range) -> Counter[str]:
    """Check that worlds agree with their views and with the rules; return how many were checked."""
    checked: Counter[str] = Counter()
    for number in numbers:
        rng = random.Random(f"worlds {number}")
        for state in moments(number)[number % 2 :: 2]:
            seat = rng.choice([int(state.turn), rng.randrange(int(state.num_players))])
            seen = view(state, seat)
            assert count_worlds(seen) >= 1
            chances = holding_chances(seen)
            np.testing.assert_allclose(chances.sum(axis=1), state.hand_sizes, atol=1e-9)
            assert chances.sum(axis=0).max() < 1 + 1e-9
            for world in sample_worlds(seen, keys(2, rng.getrandbits(60))):
                assert view(world, seat).tobytes() == seen.tobytes()
                assert replay(world) == world.tobytes()
            checked[f"{state.num_players} seats, result {state.result}"] += 1
    return checked


def test_worlds_agree_with_views_and_rules() -> None:
    checked = check_worlds_of_rounds(range(320))
    assert sum(checked.values()) > 2000
    assert min(checked[f"{seats} seats, result {result}"] for seats in SEATS for result in (RUNNING, OUT)) > 30
    assert sum(checked[f"{seats} seats, result {result}"] for seats in SEATS for result in (BLOCKED, WON)) > 10


@pytest.mark.slow
def test_worlds_of_many_rounds_agree_with_views_and_rules() -> None:
    checked = check_worlds_of_rounds(range(320, 6000))
    assert sum(checked.values()) > 40_000
    assert len(checked) == 12


@pytest.mark.parametrize("seats", SEATS)
def test_worlds_at_the_start_of_a_round(seats: int) -> None:
    # Hands are sets, the boneyard is in order: (28 - 5)! orders of the other tiles, 5! of each other hand.
    for seat in range(seats):
        seen = view(Match(seats, seed=3).state, seat)
        assert count_worlds(seen) == math.factorial(23) // math.factorial(5) ** (seats - 1)
        own = int(seen.hands[seat])
        chances = holding_chances(seen)
        for other, tile in itertools.product(range(4), range(28)):
            owned = own >> tile & 1
            wanted = 0 if other >= seats else owned if other == seat else (1 - owned) * 5 / 23
            assert chances[other, tile] == pytest.approx(wanted, abs=1e-12)


def kept_a_draw() -> Match:
    """Seat 1 draws twice for [1|1] and keeps the first; eleven tiles."""
    texts = ["0|0", "0|1", "0|2", "1|1", "1|2", "1|6", "2|2", "2|3", "2|6", "3|6", "6|6"]
    match: Match = lay(
        Match,
        "1|6 0|1 6|6",
        "0|0 0|2",
        boneyard="2|2 1|1 2|3 2|6 3|6 1|2",
        without=[tile for tile in TILES if tile not in texts],
    )
    play(match, "1|6", "draw", "draw", "1|1@1|6.low")
    return match


def test_a_turn_with_draws_worked_out() -> None:
    # With 1 and 6 open, all that seat 1 was dealt and kept is without them: three of the four such tiles among the
    # seven that seat 0 does not see. Any of the three was the first drawn, and four are left, in any order.
    seen = view(kept_a_draw().state, 0)
    assert count_worlds(seen) == 4 * 3 * math.factorial(4)
    chances = holding_chances(seen)[1]
    assert [chances[TILES.index(tile)] for tile in ("1|2", "2|6", "3|6")] == [0, 0, 0]
    assert [chances[TILES.index(tile)] for tile in ("0|0", "0|2", "2|2", "2|3")] == pytest.approx([0.75] * 4)


def test_the_tile_that_the_observer_draws_divides_its_worlds() -> None:
    # A draw tells the observer which tile was next, and nothing else: its worlds before are those after, by tile.
    divided = 0
    for number in range(30):
        for state in moments(number):
            seat = int(state.turn)
            if state.result != RUNNING or boneyard_left(state) < 3 or playable(state):
                continue
            before = view(state, seat)
            worlds = sample_worlds(before, keys(500))
            _, rows = np.unique(worlds["boneyard"][:, state.drawn], return_index=True)
            after = []
            for world in worlds[rows]:
                step(world, DRAW, OPENING)
                after.append(view(world, seat))
            counts = [count_worlds(seen) for seen in after]
            assert sum(counts) == count_worlds(before)
            chances = np.array([holding_chances(seen) for seen in after])
            mean = np.average(chances, axis=0, weights=[count / sum(counts) for count in counts])
            others = np.arange(4) != seat
            np.testing.assert_allclose(mean[others], holding_chances(before)[others], atol=1e-12)
            divided += 1
    assert divided > 30


# Lines of play in which each placement leaves the next seat with as little as possible: many turns with draws.
STARVED = {
    2: "fivesup players=2 seed=25853 round=1 starter=1 round_scores=0,0 "
    "hands=0|1,1|3,1|5,1|6,2|3/0|0,2|6,3|3,5|6,6|6 "
    "boneyard=4|6,3|6,3|5,0|6,1|1,2|2,4|4,3|4,0|5,0|4,0|3,2|4,0|2,2|5,4|5,5|5,1|2,1|4 "
    "moves=5|6,1|6@5|6.high,draw,draw,draw,3|5@5|6.low,1|3@3|5.low,draw,draw,1|1@1|6.low,1|5@1|3.low,"
    "draw,draw,draw,draw,0|5@1|5.high,0|1@0|5.low,draw,draw,draw,draw,draw",
    3: "fivesup players=3 seed=9030 round=1 starter=0 round_scores=0,0,0 "
    "hands=0|0,0|4,1|1,2|2,6|6/1|2,2|5,3|3,3|5,5|5/0|5,1|3,3|4,3|6,4|6 "
    "boneyard=1|4,5|6,0|6,2|3,2|4,0|1,1|5,2|6,0|3,1|6,4|5,0|2,4|4 "
    "moves=0|0,draw,draw,draw,0|6@0|0.line_a,4|6@0|6.high,0|4@4|6.low,draw,draw,draw,0|1@0|0.line_b,1|3@0|1.high,"
    "draw,draw,draw,0|3@1|3.high,draw,draw",
    4: "fivesup players=4 seed=129 round=1 starter=3 round_scores=0,0 "
    "hands=0|0,0|1,0|6,1|6,2|5/0|5,1|5,4|5,5|5,5|6/0|2,0|3,1|2,1|4,2|3/1|3,2|2,3|3,3|4,3|6 "
    "boneyard=2|6,0|4,3|5,6|6,1|1,2|4,4|6,4|4 "
    "moves=3|3,draw,draw,draw,3|5@3|3.line_a,5|5@3|5.high,0|3@3|3.line_b,3|4@3|3.branch_a,0|4@0|3.low,4|5@3|4.high,"
    "2|3@3|3.branch_b,2|2@2|3.low,2|5@2|2.line_b,1|5@5|5.line_b,1|2@1|5.low,draw,draw,draw",
}


@pytest.mark.parametrize(("seats", "seat", "entries"), [(2, 0, 7200), (3, 2, 11_664), (4, 1, 11_664)])
def test_the_largest_tables_found(seats: int, seat: int, entries: int) -> None:
    seen = view(Match.from_text(STARVED[seats]).state, seat)
    evidence = np.zeros(1, EVIDENCE)
    gather_evidence(seen, evidence[0])
    assert evidence[0].entries == entries <= MAX_REAL_ENTRIES
    worlds = sample_worlds(seen, keys(4000))
    for world in worlds[:50]:
        assert view(world, seat).tobytes() == seen.tobytes()
        assert replay(world) == world.tobytes()
    chances = holding_chances(seen)
    error = np.sqrt(chances * (1 - chances) / len(worlds))
    assert (abs(held_shares(worlds) - chances) <= 5 * error + 1e-12).all()
    assert error.max() > 0.3 / math.sqrt(len(worlds))  # not all chances are 0 or 1


def largest(boneyard: int) -> int:
    """The largest product of (draws kept + 1) over the turns in which seats empty a boneyard, times what is left."""

    @cache
    def finished(tiles: int) -> int:
        # Each turn that is over takes one more tile than it keeps.
        return max((finished(tiles - kept - 1) * (kept + 1) for kept in range(tiles)), default=1)

    return max(
        finished(tiles) * (kept + 1) * (newest + 1) * (boneyard - tiles - kept - newest + 1)
        for tiles in range(boneyard + 1)
        for newest in (0, 1)
        for kept in range(boneyard - tiles - newest + 1)
    )


def test_the_table_is_bounded() -> None:
    assert max(6 ** (seats - 1) * largest(28 - 5 * seats) for seats in SEATS) == MAX_REAL_ENTRIES
    # Of other games, with one tile for the observer: hands of any size, and tiles missing.
    sizes = {(0, 0): 1}
    for seats in range(1, 4):
        for tiles in range(seats, 28):
            sizes[seats, tiles] = max(
                sizes.get((seats - 1, tiles - hand), 0) * (hand + 1) for hand in range(1, tiles + 1)
            )
    products = {
        (seats, tiles, missing): sizes[seats, tiles] * (missing + 1) * largest(27 - tiles - missing)
        for seats in range(1, 4)
        for tiles in range(seats, 28)
        for missing in range(28 - tiles)
    }
    assert max(products.values()) == MAX_ENTRIES


def test_counts_of_the_real_game_are_exact_in_float64() -> None:
    # The most assignments of tiles to origins: all unseen tiles, over the factorials of the sizes.
    @cache
    def finished(tiles: int) -> dict[int, int]:
        """Of finished turns that take so many tiles: least product of factorials by the number of tiles kept."""
        least = {0: 1} if tiles == 0 else {}
        for kept in range(tiles):
            for others, product in finished(tiles - kept - 1).items():
                total, value = others + kept, product * math.factorial(kept)
                least[total] = min(least.get(total, value), value)
        return least

    most = 0
    for seats in SEATS:
        dealt, boneyard = 5 * (seats - 1), 28 - 5 * seats
        for tiles, kept, newest in itertools.product(range(boneyard + 1), range(boneyard + 1), (0, 1)):
            left = boneyard - tiles - kept - newest
            for before, product in finished(tiles).items() if left >= 0 else ():
                orders = math.factorial(5) ** (seats - 1) * product * math.factorial(kept) * math.factorial(left)
                most = max(most, math.factorial(dealt + before + kept + newest + left) // orders)
    assert 1e14 < most < 1.1e14 < 2**53


# Keys, kernels, errors


def some_view() -> State:
    """A view in a round with many draws, of which few are known."""
    return view(Match.from_text(STARVED[3]).state, 1)


def test_a_world_depends_on_its_key_and_the_view_alone() -> None:
    sampler: WorldSampler = sample_worlds
    seen = some_view()
    worlds = sampler(seen, keys(200))
    assert sampler(seen.copy(), keys(200)).tobytes() == worlds.tobytes()
    assert sampler(seen, keys(200)[::-1])[::-1].tobytes() == worlds.tobytes()
    assert sampler(seen, keys(3, 70)).tobytes() == worlds[70:73].tobytes()
    assert sampler(seen, keys(0)).shape == (0,)
    assert len(np.unique(worlds["seed"])) == 200
    assert len(np.unique(worlds["boneyard"], axis=0)) > 150


def digest_of_worlds() -> str:
    """A hash of worlds, counts and chances of some views."""
    digest = hashlib.sha256()
    for state in moments(0)[::4] + moments(1)[::4] + moments(4)[::4]:
        seen = view(state, int(state.starter))
        digest.update(sample_worlds(seen, keys(2)).tobytes() + holding_chances(seen).tobytes())
        digest.update(str(count_worlds(seen)).encode())
    return digest.hexdigest()


def test_plain_python_draws_the_same_worlds() -> None:
    code = "from tests.test_belief import digest_of_worlds; print(digest_of_worlds())"
    plain = run_python(code, "-W", "ignore::RuntimeWarning", NUMBA_DISABLE_JIT="1")
    assert plain == digest_of_worlds()


def test_worlds_play_on_to_later_rounds() -> None:
    worlds = sample_worlds(some_view(), keys(20))
    playouts(worlds, keys(20), until="match", max_rounds=2)
    second = worlds[worlds["round_number"] == 2]
    assert len(second) > 10
    assert len({Match.from_bytes(world.tobytes()).history[0] for world in second}) > 5


def test_kernels_that_others_call_do_the_same() -> None:
    evidence, worlds = np.zeros(1, EVIDENCE), np.zeros(5, STATE)
    # One record and one table, used for one view after the other.
    ways = np.full(MAX_REAL_ENTRIES, np.nan)
    for seats in SEATS:
        seen = view(Match.from_text(STARVED[seats]).state, 1)
        gather_evidence(seen, evidence[0])
        count_ways(evidence[0], ways)
        for row in range(5):
            draw_world(seen, evidence[0], ways, np.uint64(row), worlds, row)
        assert worlds.tobytes() == sample_worlds(seen, keys(5)).tobytes()


@pytest.mark.parametrize("ask", [count_worlds, holding_chances, lambda seen: sample_worlds(seen, keys(1))])
def test_a_full_state_is_no_view(ask: Any) -> None:
    with pytest.raises(ValueError, match='full state "fivesup players=3 seed=1 '):
        ask(Match(3, seed=1).state)


@pytest.mark.parametrize("ask", [count_worlds, holding_chances, lambda seen: sample_worlds(seen, keys(1))])
def test_a_view_that_contradicts_itself(ask: Any) -> None:
    seen = view(kept_a_draw().state, 0)
    # Seat 1 has three tiles without 1 and 6. If seat 0 had two of the four that it did not see, there were but two.
    seen.hands[0] = 1 << TILES.index("0|0") | 1 << TILES.index("0|2")
    with pytest.raises(ValueError, match='no deal agrees with the view "fivesup view=0 '):
        ask(seen)
    crowded = view(kept_a_draw().state, 0)
    crowded.hand_sizes[1] += 1  # more tiles than there are
    with pytest.raises(ValueError, match="no deal agrees with the view"):
        ask(crowded)


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.uint64), np.uint64(1), np.zeros(3), [0.5], ["1"]])
def test_keys_are_a_list_of_integers(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"keys must be uint64\[K\], not "):
        sample_worlds(some_view(), wrong)
