"""Texts, setups and bytes: what is valid goes there and back, what is not is refused by a ValueError that names it."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fivesup_env import IllegalAction, Match
from fivesup_env.notation import move_text, parse_move, parse_position, parse_tile, position_text
from fivesup_env.rules.play import DRAW, PASS
from fivesup_env.rules.state import STATE
from fivesup_env.rules.tiles import NUM_PORTS, NUM_TILES, OPENING, port_name, tile_name
from tests.conftest import TILES, random_mini, random_setup

MOVES = [
    *TILES,
    *(f"{tile}@{port_name(port)}" for tile in TILES for port in range(NUM_PORTS)),
    "draw",
    "pass",
]

#: What people may pass by mistake, and what nobody would.
odd_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.just(math.nan),
    st.just(10**40),
    st.builds(object),
    st.lists(st.one_of(st.integers(-1, 6), st.sampled_from(TILES), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
#: Texts made of the letters that notation uses.
near_texts = st.text("0123456|@._-,/=? drawpsline_bchg", max_size=16)


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with up to three letters changed, lost or put in."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        kept = at + draw(st.integers(0, 1))
        text = (
            text[:at]
            + draw(st.sampled_from(["", "0", "1", "6", "7", "|", ",", "@", "?", " ", "-", "=", "a"]))
            + text[kept:]
        )
    return text


@cache
def moments() -> list[Match]:
    """Random moments of random rounds and matches of all sorts."""
    found = []
    for number in range(40):
        rng = random.Random(f"notation {number}")
        seats = 2 + number % 3
        match = Match.from_setup({**random_setup(rng, seats), "seed": rng.getrandbits(64)})
        if number % 3 == 0:
            match = Match(seats, seed=rng.getrandbits(64))
        elif number % 3 == 1:
            match = Match(**random_mini(rng, seats))
        for _ in range(rng.randrange(25)):
            if match.winner is not None:
                break
            if match.round_over:
                match.next_round()
            else:
                match.play(rng.choice(match.legal()))
        found.append(match)
    return found


some_match = st.integers(0, 39).map(lambda number: moments()[number].clone())


# Tiles and moves


def test_every_tile_goes_there_and_back() -> None:
    assert [tile_name(parse_tile(text)) for text in TILES] == TILES
    assert [parse_tile(text) for text in TILES] == list(range(NUM_TILES))


def test_every_move_goes_there_and_back() -> None:
    assert [move_text(*parse_move(text)) for text in MOVES] == MOVES
    assert len({parse_move(text) for text in MOVES}) == len(MOVES) == 28 + 28 * 70 + 2
    assert (parse_move("draw"), parse_move("pass")) == ((DRAW, OPENING), (PASS, OPENING))
    assert parse_move("1|1@1|4.low") == (TILES.index("1|1"), 28 + 2 * 8)  # [1|4] is the ninth non-double


@given(st.one_of(odd_values, near_texts, damaged(st.sampled_from(TILES))))
@example("4|1")
@example("1|4 ")
@example("\uff11|4")  # a digit too, in Unicode
@example("7|7")
def test_what_is_no_tile_is_refused_by_name(value: object) -> None:
    if value in TILES:
        return
    with pytest.raises(ValueError, match="unknown tile") as caught:
        parse_tile(value)
    assert repr(value) in str(caught.value)


@given(st.one_of(odd_values, near_texts, damaged(st.sampled_from(MOVES))))
@example("1|1@")
@example("@1|4.low")
@example("1|1@1|4")
@example("1|1@1|1.low")
@example("1|1@1|4.line_a")
@example("1|1@1|4.low@1|4.low")
@example("Draw")
@example("draw ")
def test_what_is_no_move_is_refused_by_name(value: object) -> None:
    if value in MOVES:
        return
    with pytest.raises(ValueError, match=r"unknown|a move is a text") as caught:
        parse_move(value)
    parts = value.partition("@")[::2] if isinstance(value, str) else (value,)
    assert any(repr(part) in str(caught.value) for part in parts)


@given(some_match, st.one_of(odd_values, near_texts, st.sampled_from(MOVES), damaged(st.sampled_from(MOVES))))
def test_a_match_refuses_all_but_its_legal_moves_and_stays_as_it_is(match: Match, value: Any) -> None:
    before, turn = match.to_bytes(), match.turn
    if value in match.legal():
        return
    with pytest.raises(IllegalAction) as caught:
        match.play(value)
    assert match.to_bytes() == before
    told = str(caught.value)
    assert told.startswith(f"player_{turn} cannot ")
    assert told.endswith(f', in "{match!r}"')
    known = value if isinstance(value, str) and value in MOVES else None
    tile, _, port = (known or "").partition("@")
    assert (tile in told and port in told) if known else repr(value) in told


@given(some_match)
def test_a_match_takes_each_of_its_legal_moves(match: Match) -> None:
    for text in match.legal():
        after = match.clone()
        after.play(text)
        assert after.to_bytes() != match.to_bytes()


# Positions


def test_positions_go_there_and_back() -> None:
    for match in moments():
        text = repr(match)
        assert "\n" not in text
        assert position_text(parse_position(text)) == text
        assert Match.from_text(text) == match
        # What follows from the rest can be left out.
        short = text.partition(" turn=")[0]
        assert Match.from_text(short) == match


def test_the_text_of_a_real_deal_says_nothing_that_goes_without_saying() -> None:
    text = repr(Match(2, seed=1))
    names = [word.partition("=")[0] for word in text.split(" ")]
    assert " ".join(names) == "fivesup players seed round starter round_scores hands boneyard moves turn scores total"


def test_a_view_is_no_position_of_a_match() -> None:
    for match in moments():
        with pytest.raises(ValueError, match="not the position of a full state"):
            Match.from_text(repr(match.view(0)))


DEFAULTS = {"hand_size": "5", "target": "305", "max_pip": "6", "without": "-"}


def assert_means(text: str, match: Match) -> None:
    """Every word of the text is one of the match's own text, but for the order of tiles in a hand, and defaults."""
    ours = dict(word.partition("=")[::2] for word in repr(match).split(" "))
    for word in text.split(" "):
        name, _, value = word.partition("=")
        wanted = ours.get(name, DEFAULTS.get(name))
        if name in ("hands", "without"):
            assert wanted is not None
            assert [sorted(set(hand.split(","))) for hand in value.split("/")] == [
                sorted(hand.split(",")) for hand in wanted.split("/")
            ]
        else:
            assert value == wanted, word


some_text = some_match.map(repr)


@st.composite
def changed_words(draw: st.DrawFn) -> str:
    """A position with words dropped, moved, doubled, or given the value of another position."""
    words, others = draw(some_text).split(" "), draw(some_text).split(" ")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        name = words[at].partition("=")[0]
        same = [word for word in others if word.startswith(f"{name}=")]
        how = draw(st.sampled_from(["drop", "move", "double", "swap", "insert"]))
        if how == "swap" and same:
            words[at] = same[0]
        elif how == "double":
            words.insert(at, words[at])
        elif how == "insert":
            words.insert(at, draw(st.sampled_from(others)))
        elif len(words) > 1:
            word = words.pop(at)
            if how == "move":
                words.insert(draw(st.integers(0, len(words))), word)
    return " ".join(words)


@settings(max_examples=400)
@given(st.one_of(changed_words(), damaged(some_text), near_texts.map("fivesup ".__add__), st.text(max_size=20)))
def test_a_changed_position_means_what_it_says_or_is_refused(text: str) -> None:
    try:
        match = Match.from_text(text)
    except ValueError as error:
        assert str(error)
        return
    assert_means(text, match)
    assert Match.from_text(repr(match)) == match


@given(odd_values)
def test_what_is_no_text_is_no_position(value: object) -> None:
    with pytest.raises(ValueError, match="a position") as caught:
        Match.from_text(value)  # type: ignore[arg-type]
    assert repr(value)[:20] in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("players=2", "players=5"), "num_players must be within 2 .. 4, not 5"),
        (("players=2", "players=two"), "players=two in a position cannot be read"),
        (("seed=1 ", "seed=-1 "), "seed must be within"),
        (("seed=1 ", "seed=01 "), "seed=01 in a position cannot be read"),
        (("starter=1", "starter=2"), "starter must be within 0 .. 1, not 2"),
        (
            ("round_scores=0,0", "round_scores=0,305"),
            r"scores\[1\], with target=305, must be within -1000000 .. 300, not 305",
        ),
        (("round_scores=0,0", "round_scores=0,3"), r"scores\[1\] must be a multiple of five \(R10\), not 3"),
        (("round_scores=0,0", "round_scores=0,0,0"), r"2 seats make 2 sides \(R2\), not 3"),
        (("0|2", "2|0"), "unknown tile '2|0'"),
        (("0|2", "6|6"), r"\[6\|6\] is in hands\[0\] already"),
        (("moves=-", "moves=0|0"), r"move 1: player_1 cannot open with \[0\|0\]: it does not hold \[0\|0\] \(R11\)"),
        (("moves=-", "moves=0|6"), "turn=1 disagrees with the moves, which give 0"),
        (("total=0", "total=5"), "total=5 disagrees with the moves, which give 0"),
        (("total=0", "total=0 over=out:0"), "over=out:0 disagrees with the moves, which give none"),
        (("total=0", "total=0 total=0"), "total= stands twice"),
        (("total=0", "total=0 wind=3"), "unknown word wind=3"),
        (("total=0", "total"), "'total' is not a key=value word"),
        (("fivesup", "muggins"), 'a position begins with "fivesup ", not \'muggins'),
    ],
)
def test_the_fault_of_a_position_is_named(change: tuple[str, str], message: str) -> None:
    text = repr(Match(2, seed=1))
    assert change[0] in text
    with pytest.raises(ValueError, match=message):
        Match.from_text(text.replace(*change, 1))


# Setups


def some_setup(number: int) -> dict[str, Any]:
    rng = random.Random(f"setup {number}")
    return {**random_setup(rng, 2 + number % 3), "seed": number}


def test_setups_are_what_is_laid_out() -> None:
    for number in range(30):
        assert_laid_out(some_setup(number))


def assert_laid_out(setup: dict[str, Any]) -> None:
    """The round is the one that the setup describes."""
    match = Match.from_setup(setup)
    assert match.num_players == setup["num_players"]
    assert match.hands == [sorted(hand) for hand in setup["hands"]]
    assert match.boneyard == list(setup.get("boneyard", []))
    assert match.starter == match.turn == setup.get("starter", 0)
    assert match.scores == list(setup.get("scores") or [0] * len(match.scores))
    for key, default in (("seed", 0), ("hand_size", 5), ("target", 305), ("max_pip", 6)):
        assert int(match.state[key]) == setup.get(key, default)
    assert match.round == 1
    assert match.history == []
    assert Match.from_text(repr(match)) == match


tile_lists = st.lists(st.one_of(st.sampled_from(TILES), near_texts, odd_values), max_size=4)
new_values = st.one_of(
    odd_values,
    st.integers(-10, 400),
    tile_lists,
    st.lists(tile_lists, max_size=5),
    st.lists(st.integers(-20, 310), max_size=4),
)
setup_keys = st.sampled_from(
    ["num_players", "hands", "boneyard", "starter", "scores", "seed", "hand_size", "target", "max_pip", "without"]
)


@settings(max_examples=500)
@example(0, "target", 55)
@given(st.integers(0, 29), setup_keys, new_values)
def test_a_changed_setup_is_laid_out_or_refused_by_name(number: int, key: str, value: Any) -> None:
    setup = {**some_setup(number), key: value}
    try:
        Match.from_setup(setup)
    except ValueError as error:
        assert key in str(error) or str(value) in str(error), error
        return
    assert_laid_out(setup)


@settings(max_examples=300)
@given(st.integers(0, 29), st.data())
def test_a_setup_with_an_impossible_tile_is_refused_by_name(number: int, data: st.DataObject) -> None:
    setup = some_setup(number)
    hands = [list(hand) for hand in setup["hands"]]
    seat = data.draw(st.integers(0, len(hands) - 1))
    at = data.draw(st.integers(0, len(hands[seat])))
    used = [tile for hand in [*hands, setup["boneyard"]] for tile in hand]
    tile = data.draw(st.one_of(st.sampled_from(used), odd_values.filter(lambda value: value not in TILES)))
    hands[seat].insert(at, tile)
    with pytest.raises(ValueError, match=r"hands\[\d\]|boneyard") as caught:
        Match.from_setup({**setup, "hands": hands})
    assert (f"[{tile}]" if tile in used else repr(tile)) in str(caught.value)


@given(odd_values)
@example({"num_players": 2})
@example({"hands": [["1|1"], ["2|2"]]})
def test_what_is_no_setup_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="setup"):
        Match.from_setup(value)


@pytest.mark.parametrize(
    "setup",
    [
        {"hands": [["1|1"], iter(["2|2"])]},  # any iterable of tiles
        {"hands": (("1|1",), ("2|2",)), "boneyard": ("3|3",)},
        {"hands": [["1|1"], ["2|2"]], "scores": (5, np.int64(10)), "starter": np.int8(1)},
    ],
)
def test_sequences_and_numpy_ints_will_do(setup: dict[str, Any]) -> None:
    match = Match.from_setup({"num_players": 2, **setup})
    assert match.hands == [["1|1"], ["2|2"]]


# Bytes


def assert_same_or_refused(data: bytes) -> bool:
    """The bytes are refused, or are a state with exactly these bytes, from which play can go on."""
    try:
        match = Match.from_bytes(data)
    except ValueError as error:
        assert str(error)
        return False
    assert match.to_bytes() == data
    assert Match.from_text(repr(match)) == match
    for text in match.legal()[:1]:
        match.play(text)
    return True


def test_bytes_go_there_and_back() -> None:
    for match in moments():
        assert assert_same_or_refused(match.to_bytes())


@given(st.binary(max_size=600))
def test_bytes_of_another_length_are_refused(data: bytes) -> None:
    if len(data) != STATE.itemsize:
        with pytest.raises(ValueError, match=f"a state has {STATE.itemsize} bytes, not {len(data)}"):
            Match.from_bytes(data)


@given(st.binary(min_size=STATE.itemsize, max_size=STATE.itemsize))
@example(bytes(STATE.itemsize))
@example(b"\xff" * STATE.itemsize)
def test_bytes_at_random_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="these bytes are no state of a match"):
        Match.from_bytes(data)


@settings(max_examples=600)
@given(some_match, st.data())
def test_damaged_bytes_are_a_state_or_refused(match: Match, data: st.DataObject) -> None:
    damaged_bytes = bytearray(match.to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged_bytes[data.draw(st.integers(0, STATE.itemsize - 1))] = data.draw(st.integers(0, 255))
    assert_same_or_refused(bytes(damaged_bytes))


@settings(max_examples=600)
@given(some_match, some_match, st.sampled_from(STATE.names or ()), st.data())
def test_changed_fields_are_a_state_or_refused(match: Match, other: Match, name: str, data: st.DataObject) -> None:
    field = match.state[name]
    if data.draw(st.booleans()):
        match.state[name] = other.state[name]
    else:
        limits = np.iinfo(np.asarray(field).dtype)
        value = data.draw(st.one_of(st.integers(0, 30), st.integers(int(limits.min), int(limits.max))))
        if np.ndim(field):
            field.reshape(-1)[data.draw(st.integers(0, field.size - 1))] = value
        else:
            match.state[name] = value
    assert_same_or_refused(match.to_bytes())


#: Fields that can be others with the same moves. All the rest follows from these, the deal and the moves.
FREE = ("seed", "round_number", "target", "hand_size", "max_pip", "without")


@pytest.mark.parametrize("name", STATE.names or ())
@pytest.mark.parametrize(("factor", "term"), [(1, 1), (3, 0)])
def test_no_field_can_be_changed_alone(name: str, factor: int, term: int) -> None:
    for match in moments():
        if match.history:
            state = match.state.copy()
            values = np.atleast_1d(state[name])  # arrays wrap around silently
            changed = values * values.dtype.type(factor) + values.dtype.type(term)
            state[name] = changed.reshape(np.shape(state[name]))
            if state.tobytes() != match.to_bytes():
                assert not assert_same_or_refused(state.tobytes()) or name in FREE, match
