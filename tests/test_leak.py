"""What is hidden stays hidden, and what is seen is right: views, observations, texts, pictures, environment, errors.

Most tests here compare *twins*: states that differ only in what is hidden from one seat. A twin is made from the deal:
two tiles in places that the seat never saw are exchanged, and the same public actions are played again. Where all of
them are legal and forced as they were, the seat has seen the same round.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fivesup_env import IllegalAction, Match, View
from fivesup_env.actions import ENDS_TILE, NUM_ENDS_ACTIONS, action_mask, ends_step, explain_illegal
from fivesup_env.fivesup_v0 import raw_env
from fivesup_env.notation import illegal_action, lay_out, tile_texts
from fivesup_env.observation import (
    NEAR,
    OBS_SIZE,
    SECTIONS,
    describe,
    encode,
    observation_space,
    scaled,
    section,
    write_observation,
)
from fivesup_env.rules.legality import why_illegal
from fivesup_env.rules.play import DRAW, PASS, step
from fivesup_env.rules.state import FIELDS, State
from fivesup_env.rules.tiles import NO_TILE, tile_name
from fivesup_env.rules.view import Move, history, initial_hands, view
from tests.conftest import TILES, deal_of, random_mini, random_setup
from tests.reference import Reference

KINDS = ("half", "line", "branch")

# Twins


def random_round(number: int) -> Match:
    """A round at its beginning: dealt, laid out, or of a small game; some with little to draw, so that seats pass."""
    rng = random.Random(f"leak {number}")
    seats = 2 + number % 3
    if number % 4 == 0:
        return Match(**random_mini(rng, seats))
    if number % 4 == 1:
        return Match(seats, seed=number)
    setup = random_setup(rng, seats)
    if number % 4 == 2:
        setup = {**setup, "boneyard": setup["boneyard"][:2]}
    return Match.from_setup(setup)


def passed_after_a_draw(state: State) -> bool:
    """Whether some seat drew and passed, and another placed after that: its last draw is as hidden as the others."""
    moves = history(state)
    pairs = [(one.tile, two.tile) for one, two in pairwise(moves)]
    return (DRAW, PASS) in pairs and moves[-1].tile not in (DRAW, PASS)


def unseen_places(hands: list[int], boneyard: list[int], moves: list[Move], seat: int) -> list[tuple[int, int]]:
    """Where the deal put tiles that `seat` was not dealt and did not draw: (seat, tile), or (-1, boneyard index)."""
    places = [
        (other, tile) for other, hand in enumerate(hands) for tile in range(28) if other != seat and hand >> tile & 1
    ]
    drawers = [move.seat for move in moves if move.tile == DRAW]
    return places + [(-1, index) for index in range(len(boneyard)) if index >= len(drawers) or drawers[index] != seat]


def dealt_anew(state: State, hands: list[int], boneyard: list[int], seed: int) -> State:
    """The beginning of the same round with other tiles in places."""
    return lay_out(
        [tile_texts(hand) for hand in hands],
        [tile_name(tile) for tile in boneyard],
        int(state.starter),
        [int(score) for score in state.round_scores[: 2 if state.num_players == 4 else state.num_players]],
        round_number=int(state.round_number),
        without=tile_texts(int(state.without)),
        num_players=int(state.num_players),
        hand_size=int(state.hand_size),
        target=int(state.target),
        max_pip=int(state.max_pip),
        seed=seed,
    )


def replayed(state: State, moves: list[Move]) -> bool:
    """Play these moves; tell whether all were legal, and taken by the seats that took them."""
    for seat, tile, port in moves:
        if state.turn != seat or why_illegal(state, tile, port) is not None:
            return False
        step(state, tile, port)
    return True


def twin(state: State, moves: list[Move], seat: int, rng: random.Random) -> State | None:
    """A state that differs from this one in what is hidden from `seat`; None if the exchange tried makes none."""
    hands = initial_hands(state)
    # What is drawn stays in the record's boneyard: its entries are still those of the deal.
    boneyard = state.boneyard[: state.boneyard_size].tolist()
    places = unseen_places(hands, boneyard, moves, seat)
    if len(places) < 2:
        return None
    one, two = rng.sample(places, 2)
    if one[0] == two[0] >= 0:
        return None  # both in one hand
    tiles = [place if holder >= 0 else boneyard[place] for holder, place in (one, two)]
    for (holder, place), old, new in zip((one, two), tiles, tiles[::-1], strict=True):
        if holder >= 0:
            hands[holder] = hands[holder] & ~(1 << old) | 1 << new
        else:
            boneyard[place] = new
    other = dealt_anew(state, hands, boneyard, rng.getrandbits(64))
    if not replayed(other, moves) or other.result != state.result:
        return None
    # A settlement shows the hands: then only the boneyard is hidden still.
    return None if state.shown and other.hands.tolist() != state.hands.tolist() else other


@cache
def twins() -> list[tuple[State, int, tuple[State, ...]]]:
    """States of many rounds, each with a seat and with twins that differ from it for the others only."""
    found = []
    for number in range(95):
        rng = random.Random(f"twins {number}")
        match = random_round(number)
        moments = [match.state.copy()]
        while not match.round_over:
            match.play(rng.choice(match.legal()))
            moments.append(match.state.copy())
        rare = [state for state in moments if passed_after_a_draw(state) and not state.shown]
        for state in (moments[-1], *rng.sample(moments, min(3, len(moments))), *rare[:3]):
            seat = rng.choice([rng.randrange(match.num_players), int(state.turn)])
            group = distinct_twins(state, seat, rng)
            if group:
                found.append((state, seat, group))
    return found


def distinct_twins(state: State, seat: int, rng: random.Random) -> tuple[State, ...]:
    """Up to four twins, each made from the one before, so that more and more tiles have changed places."""
    group: list[State] = []
    last, moves = state, history(state)
    for _ in range(16):
        changed = twin(last, moves, seat, rng)
        if changed is not None:
            group.append(changed)
            last = changed
        if len(group) == 4:
            break
    return tuple(group)


def test_twins_are_many_and_differ_in_all_that_is_hidden() -> None:
    seen: Counter[str] = Counter()
    for state, seat, group in twins():
        for other in group:
            drawn = slice(0, int(state.drawn))
            seen["hands"] += state.hands.tolist() != other.hands.tolist()
            seen["drawn tiles"] += state.boneyard[drawn].tolist() != other.boneyard[drawn].tolist()
            seen["boneyard"] += state.boneyard[state.drawn :].tolist() != other.boneyard[other.drawn :].tolist()
            seen["to move"] += state.turn == seat and not state.result
            seen["in the middle of a draw"] += bool(state.draws) and not state.result
            seen["over, hands shown"] += bool(state.shown)
            seen["drawn, passed, placed"] += passed_after_a_draw(state) and not state.shown
            seen["over, hands hidden"] += bool(state.result) and not state.shown
            seen[f"{state.num_players} seats"] += 1
    assert len(twins()) > 200
    assert min(seen.values()) > 5, seen
    assert len(seen) == 11


@pytest.mark.parametrize("what", ["view", "observation", "observation of the full state", "mask"])
def test_twins_give_equal_bytes(what: str) -> None:
    for state, seat, group in twins():
        wanted = seen_bytes(state, seat, what)
        for other in group:
            assert seen_bytes(other, seat, what) == wanted, position(state, seat, other)


def seen_bytes(state: State, seat: int, what: str) -> bytes:
    """What the seat gets of a state, as bytes."""
    seen = view(state, seat)
    if what == "view":
        return bytes(seen.tobytes())
    if what == "observation":
        return encode(seen).tobytes()
    if what == "mask":
        return action_mask(seen).tobytes() + action_mask(seen, "ports").tobytes()
    out = np.full(OBS_SIZE, 99, np.int8)
    write_observation(state, seat, out, 0)
    return out.tobytes()


def position(state: State, seat: int, other: State) -> str:
    return f"seat {seat}: {Match.from_state(state)!r} and {Match.from_state(other)!r}"


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(repr, id="repr"),
        pytest.param(lambda seen: (seen.hands, seen.hand, seen.boneyard, seen.name), id="tiles"),
        pytest.param(lambda seen: (seen.legal(), seen.history, seen.ends, seen.open_ports()), id="moves"),
        pytest.param(lambda seen: (seen.contributions(), seen.total(), seen.events, seen.round_result), id="points"),
        pytest.param(lambda seen: describe(encode(seen.state)), id="description"),
    ],
)
def test_twins_give_equal_texts(read: Any) -> None:
    for state, seat, group in twins():
        wanted = read(View(view(state, seat)))
        for other in group:
            assert read(View(view(other, seat))) == wanted, position(state, seat, other)


@pytest.mark.parametrize(
    "draw",
    [pytest.param(str, id="text"), pytest.param(View.svg, id="svg"), pytest.param(View._repr_svg_, id="notebook")],
)
def test_twins_give_equal_pictures(draw: Any) -> None:
    for state, seat, group in twins()[::4]:
        wanted = draw(View(view(state, seat)))
        assert draw(View(view(group[-1], seat))) == wanted, position(state, seat, group[-1])


def test_a_hidden_tile_is_in_no_text_of_a_view() -> None:
    for state, seat, _ in twins():
        if not state.shown:
            hidden = {tile for other in range(int(state.num_players)) if other != seat for tile in held(state, other)}
            assert not hidden & words(repr(View(view(state, seat)))), position(state, seat, state)


def held(state: State, seat: int) -> list[str]:
    return tile_texts(int(state.hands[seat]))


def words(text: str) -> set[str]:
    """The tile texts in a text."""
    return {text[at - 1 : at + 2] for at, letter in enumerate(text) if letter == "|"}


# The environment


def env_with(state: State, seat: int, codec: str) -> raw_env:
    """An environment at this state that draws what the seat sees."""
    env = raw_env(
        int(state.num_players),
        actions="ends" if codec == "ends" else "ports",
        episode="round",
        reward="points",
        render_mode="ansi",
        render_seat=seat,
        hand_size=int(state.hand_size),
        target=int(state.target),
        max_pip=int(state.max_pip),
        without=tile_texts(int(state.without)),
    )
    env.reset(seed=1)
    env.set_state(np.frombuffer(state.tobytes(), np.uint8))
    return env


def seen_in(env: raw_env, seat: int) -> list[Any]:
    """All that the environment tells the agent of a seat, in a form that `==` compares."""
    agent = env.possible_agents[seat]
    told: list[Any] = [plain(env.observe(agent)), plain(env.infos[agent]), env.rewards[agent], env.agent_selection]
    told += [env.terminations[agent], env.truncations[agent], env._cumulative_rewards[agent], env.agents]
    if env.agent_selection == agent:
        told += [plain(part) for part in env.last()]
    return told


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value.tobytes() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("codec", ["ends", "ports"])
def test_twins_are_one_to_an_agent(codec: str) -> None:
    for state, seat, group in twins()[::3]:
        wanted = seen_in(env_with(state, seat, codec), seat)
        assert seen_in(env_with(group[-1], seat, codec), seat) == wanted, position(state, seat, group[-1])


def test_twins_are_drawn_alike_by_the_environment() -> None:
    for state, seat, group in twins()[::12]:
        assert env_with(state, seat, "ends").render() == env_with(group[-1], seat, "ends").render()


@pytest.mark.parametrize("codec", ["ends", "ports"])
def test_twins_refuse_alike(codec: str) -> None:
    compared = 0
    for state, seat, group in twins():
        if state.turn != seat or state.result:
            continue
        wanted, other = (refusals(env_with(twin_state, seat, codec), codec) for twin_state in (state, group[-1]))
        assert wanted == other, position(state, seat, group[-1])
        compared += len(wanted)
    assert compared > 1000


def refusals(env: raw_env, codec: str) -> list[str]:
    """The texts of the errors for some illegal actions, and for what is no action."""
    illegal = np.flatnonzero(action_mask(env.record, codec) == 0)[::23].tolist()
    texts = []
    for action in [*illegal, -1, 10_000, "draw"]:
        before = env.state().tobytes()
        with pytest.raises(IllegalAction) as caught:
            env.step(action)
        assert env.state().tobytes() == before
        texts.append(str(caught.value))
    return texts


def test_errors_made_from_a_view_say_what_those_of_the_state_say() -> None:
    # The words before the position depend on nothing hidden; only the position is the view's.
    for state, seat, _ in twins()[::9]:
        if state.turn == seat and not state.result:
            for action in np.flatnonzero(action_mask(state) == 0)[::29].tolist():
                seen = view(state, seat)
                ours, theirs = explain_illegal(seen, action), explain_illegal(state, action)
                assert ours == theirs
                assert str(illegal_action(seen, *ours)).endswith(f'"{View(seen)!r}"')


# Views


def test_a_view_is_the_state_without_what_is_hidden() -> None:
    hidden = {field.name for field in FIELDS if field.hidden} | {"observer"}
    assert hidden == {"seed", "hands", "boneyard", "observer"}
    passed = 0
    for match, seat, _, _ in observed()[::2]:
        state, seen = match.state, view(match.state, seat)
        for field in FIELDS:
            if field.name not in hidden:
                assert seen[field.name].tobytes() == state[field.name].tobytes(), field.name
        assert (seen.seed, seen.observer) == (0, seat)
        assert seen.hands.tolist() == [
            hand if state.shown or owner == seat else 0 for owner, hand in enumerate(state.hands.tolist())
        ]
        assert seen.boneyard.tolist() == known_boneyard(state, seat), (seat, match)
        assert view(seen, seat).tobytes() == seen.tobytes()
        passed += passed_after_a_draw(state)
    assert passed > 10


def known_boneyard(state: State, seat: int) -> list[int]:
    """The boneyard as the seat knows it: what it drew itself, and what was placed at once when drawn."""
    known = [NO_TILE] * len(state.boneyard)
    drawn = 0
    moves = history(state)
    for number, move in enumerate(moves):
        if move.tile == DRAW:
            after = moves[number + 1] if number + 1 < len(moves) else None
            placed_at_once = after is not None and after.tile not in (DRAW, PASS)
            if move.seat == seat or placed_at_once:
                known[drawn] = int(state.boneyard[drawn])
            if placed_at_once and after is not None:
                assert (after.seat, after.tile) == (move.seat, state.boneyard[drawn])
            drawn += 1
    assert drawn == state.drawn
    return known


def test_a_view_of_another_seats_view_cannot_be_made() -> None:
    state = Match(3, seed=1).state
    with pytest.raises(ValueError, match="seat 1's view cannot be made"):
        view(view(state, 0), 1)
    with pytest.raises(ValueError, match=r"within 0 \.\. 2, not 3"):
        view(state, 3)
    with pytest.raises(ValueError, match="not a full state"):
        encode(state)


# Observations


def test_sections_add_up() -> None:
    assert sum(part.size for part in SECTIONS) == OBS_SIZE
    slices = [section(part.name) for part in SECTIONS]
    assert [(part.start, part.stop) for part in slices] == list(
        zip([0, *(part.stop for part in slices[:-1])], [part.stop for part in slices], strict=True)
    )
    assert slices[-1].stop == OBS_SIZE
    assert len({part.name for part in SECTIONS}) == len(SECTIONS)


class Moment(NamedTuple):
    """A moment of a round, and the observation of a seat, written from the full state."""

    match: Match
    seat: int
    written: NDArray[np.int8]
    deal: dict[str, Any]  # how the round began


@cache
def observed() -> list[Moment]:
    """All moments of random rounds, for every seat."""
    moments = []
    for number in range(120):
        rng = random.Random(f"observed {number}")
        match = random_round(number)
        deal = deal_of(match)
        while True:
            for seat in range(match.num_players):
                out = np.full(OBS_SIZE, 99, np.int8)
                write_observation(match.state, seat, out, 0)
                moments.append(Moment(match.clone(), seat, out, deal))
            if match.round_over:
                break
            match.play(rng.choice(match.legal()))
    return moments


def test_the_observation_of_a_state_is_that_of_the_view() -> None:
    for match, seat, written, _ in observed():
        assert encode(match.view(seat).state).tobytes() == written.tobytes(), match


def test_every_entry_is_in_its_range() -> None:
    space, float_space = observation_space(), observation_space("float32")
    highest = np.zeros(OBS_SIZE, np.int8)
    for moment in observed():
        assert moment.written.min() >= 0
        highest = np.maximum(highest, moment.written)
        assert space.contains(moment.written)
        assert float_space.contains(scaled(moment.written))
    # 0/1 sections hold nothing else.
    flags = [part.name for part in SECTIONS if part.scale == 1]
    assert {name: int(highest[section(name)].max()) for name in flags} == dict.fromkeys(flags, 1)


def test_far_scores_saturate() -> None:
    setup = {"num_players": 2, "hands": [["0|5"], ["1|1"]], "scores": [-100_000, 300]}
    values = encode(view(Match.from_setup(setup).state, 0))
    assert values[section("needs")].tolist() == [127, 1, 0]
    assert values[section("near_target")].tolist() == [0] * NEAR + [1] + [0] * (2 * NEAR - 1)


def test_every_section_worked_out_anew() -> None:
    # Passes are rare, and tell most about what seats lack.
    passed = [moment for moment in observed() if "".join(moment.match.history[-1:]).endswith("pass")]
    for match, seat, written, deal in observed()[::10] + passed:
        slow = slow_observation(match, seat, deal)
        assert list(slow) == [part.name for part in SECTIONS]
        for name, wanted in slow.items():
            assert written[section(name)].tolist() == wanted, (name, seat, match)


def slow_observation(match: Match, seat: int, deal: dict[str, Any]) -> dict[str, list[int]]:
    """The sections from the texts of a match alone, by the meaning that each of them has in its table."""
    seats = [(seat + offset) % match.num_players for offset in range(match.num_players)]
    running = not match.round_over
    moves = [(int(line[0]), line[2:]) for line in match.history]
    placed = {text.partition("@")[0]: mover for mover, text in moves if text not in ("draw", "pass")}
    unseen = unseen_tiles(match, seat)
    turn_draws = [text for mover, text in moves if mover == match.turn][::-1]
    count = next((number for number, text in enumerate(turn_draws) if text != "draw"), len(turn_draws))
    sides = list(dict.fromkeys(other % 2 if match.num_players == 4 else other for other in seats))
    needs = [(int(match.state.target) - match.scores[side]) // 5 for side in sides]
    points, fits = slow_actions(match, seat)
    return {
        "hand": marks(match.hands[seat]),
        "unseen": marks(unseen),
        "can_hold": padded([flag for other in seats[1:] for flag in marks(can_hold(match, seat, other, deal))], 84),
        "placed_by": padded(
            [flag for other in seats for flag in marks(tile for tile in placed if placed[tile] == other)], 112
        ),
        "last_placed": marks(list(placed)[-1:]),
        "ends": [match.ends.count(f"{kind} {value}") for kind in KINDS for value in range(7)],
        "total": [match.total()],
        "total_remainder": one_hot(match.total() % 5, 5),
        "hand_sizes": padded([len(match.hands[other]) for other in seats], 4),
        "placements": padded([list(placed.values()).count(other) for other in seats], 4),
        "boneyard": [len(match.boneyard)],
        "needs": padded([min(need, 127) for need in needs], 3),
        "near_target": padded([flag for need in needs for flag in one_hot(need - 1, NEAR)], 3 * NEAR),
        "to_move": one_hot(seats.index(match.turn), 4) if running else [0] * 4,
        "turn_draws": [count if running and (not moves or moves[-1][0] == match.turn) else 0],
        "passes": [passes(moves) if running else 0],
        "starter": one_hot(seats.index(match.starter), 4),
        "num_players": one_hot(match.num_players - 2, 3),
        "over": [int(not running)],
        "shown": [int(match.state.shown)],
        "action_points": points,
        "action_fits": fits,
    }


def passes(moves: list[tuple[int, str]]) -> int:
    """The passes at the end of a list of moves."""
    return next((number for number, (_, text) in enumerate(reversed(moves)) if text != "pass"), len(moves))


def marks(tiles: Any) -> list[int]:
    found = set(tiles)
    return [int(tile in found) for tile in TILES]


def one_hot(index: int, size: int) -> list[int]:
    return [int(place == index) for place in range(size)]


def padded(values: list[int], size: int) -> list[int]:
    return values + [0] * (size - len(values))


def placed_tiles(match: Match) -> set[str]:
    return {line[2:].partition("@")[0] for line in match.history} - {"draw", "pass"}


def unseen_tiles(match: Match, seat: int) -> set[str]:
    """The tiles of the set that are neither on the table nor in a hand that the seat sees."""
    without = tile_texts(int(match.state.without))
    tiles = {tile for tile in TILES if int(tile[2]) <= match.state.max_pip} - set(without) - placed_tiles(match)
    shown = match.hands if match.state.shown else [match.hands[seat]]
    return tiles - {tile for hand in shown for tile in hand}


class Turn(NamedTuple):
    """What everybody saw of one turn of a seat."""

    values: set[str]  # the values that were open
    lacked_a_fit: bool  # it drew or passed
    kept: int  # tiles it drew, but for one that it placed at once
    ended: bool


def turns_of(match: Match, seat: int, deal: dict[str, Any]) -> list[Turn]:
    """The turns of a seat so far, but for an opening, on a table that the reference builds."""
    table = Reference.from_setup(deal)
    turns, draws = [], 0
    values: set[str] = set()
    for line in match.history:
        mover, text = int(line[0]), line[2:]
        # R6: a port has the value of its half; a double's ports that of the double.
        values = {port[2] if port.endswith("high") else port[0] for port in table.open_ports()}
        draws += text == "draw"
        if text != "draw":
            if mover == seat and values:
                turns.append(Turn(values, draws > 0 or text == "pass", max(draws - (text != "pass"), 0), True))
            draws = 0
        table.play(text)
    if draws and int(match.history[-1][0]) == seat:
        turns.append(Turn(values, True, draws, False))
    return turns


def can_hold(match: Match, seat: int, other: int, deal: dict[str, Any]) -> set[str]:
    """The tiles that another seat can hold as far as `seat` knows: there was a time to get them, and no proof since."""
    if match.state.shown:
        return set(match.hands[other])
    turns = turns_of(match, other, deal)
    return {tile for tile in unseen_tiles(match, seat) if not lacked(tile, turns)}


def lacked(tile: str, turns: list[Turn]) -> bool:
    """Whether these turns of a seat prove that it does not hold the tile now."""
    proved = False  # it can have been dealt
    for values, lacked_a_fit, kept, ended in turns:
        if not ended:
            proved = False  # the tile just drawn can be any
        elif lacked_a_fit and (tile[0] in values or tile[2] in values):
            proved = True
        elif kept:
            proved = False  # it can be one of those drawn and kept, none of which fitted
    return proved


def slow_actions(match: Match, seat: int) -> tuple[list[int], list[int]]:
    """Sections action_points and action_fits, by playing every legal `ends` id on a copy."""
    points, fits = [0] * NUM_ENDS_ACTIONS, [0] * NUM_ENDS_ACTIONS
    if match.round_over or match.turn != seat:
        return points, fits
    side = seat % 2 if match.num_players == 4 else seat
    for action in np.flatnonzero(action_mask(match.state)).tolist():
        if ENDS_TILE[action] in (DRAW, PASS):
            fits[action] = 1
            continue
        after = match.clone()
        ends_step(after.state, action)
        placement = sum(event["placement"] for event in after.events)
        points[action] = placement // 5
        fits[action] = int(match.scores[side] + placement <= match.state.target)
        if after.hands[seat] and placement:
            assert after.events[0]["side"] == side
            assert after.events[0]["accepted"] is bool(fits[action])
    return points, fits


def test_the_true_hands_are_always_among_what_can_be_held() -> None:
    narrowed = 0
    for match, seat, written, _ in observed():
        flags = written[section("can_hold")].reshape(3, 28)
        for offset in range(1, match.num_players):
            other = (seat + offset) % match.num_players
            possible = {TILES[tile] for tile in np.flatnonzero(flags[offset - 1])}
            assert set(match.hands[other]) <= possible, (seat, other, match)
            narrowed += len(possible) < written[section("unseen")].sum()
    assert narrowed > 500


def test_so_are_the_hands_of_all_twins() -> None:
    for state, seat, group in twins():
        flags = encode(view(state, seat))[section("can_hold")].reshape(3, 28)
        for offset in range(1, int(state.num_players)):
            other = (seat + offset) % int(state.num_players)
            possible = {TILES[tile] for tile in np.flatnonzero(flags[offset - 1])}
            for changed in group:
                assert set(held(changed, other)) <= possible, position(state, seat, changed)
