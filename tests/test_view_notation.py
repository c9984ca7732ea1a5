"""Texts of views: what is valid goes there and back to the last byte, what no seat can see is refused by name."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fivesup_env import Match
from fivesup_env.belief import sample_worlds
from fivesup_env.match import View
from fivesup_env.rules.state import BLOCKED, OUT, WON
from tests.conftest import TILES, lay, play, random_mini, random_setup


def matches(count: int) -> Iterator[Match]:
    """Real deals, small games and rounds laid out by hand, for 2, 3 and 4 seats."""
    for number in range(count):
        rng = random.Random(f"views {number}")
        seats = 2 + number % 3
        if number // 3 % 3 == 0:
            yield Match(seats, seed=rng.getrandbits(64))
        elif number // 3 % 3 == 1:
            yield Match(**random_mini(rng, seats))
        else:
            yield Match.from_setup({**random_setup(rng, seats), "seed": rng.getrandbits(64)})


def moments(count: int) -> Iterator[Match]:
    """Every position of the first round of each match, in random play."""
    for number, match in enumerate(matches(count)):
        rng = random.Random(f"moves {number}")
        yield match
        while not match.round_over:
            match.play(rng.choice(match.legal()))
            yield match


@cache
def some_views() -> list[str]:
    """Texts of a few views of every sort."""
    rng = random.Random(1)
    texts = [repr(match.view(rng.randrange(match.num_players))) for match in moments(90)]
    return texts[::5]


def assert_seen_in_a_world(view: View) -> None:
    """A full position that plays by the rules looks like this to the seat."""
    world = sample_worlds(view.state, np.zeros(1, np.uint64))[0]
    match = Match.from_text(repr(Match.from_state(world)))
    assert match.view(view.seat).state.tobytes() == view.state.tobytes()


def assert_goes_there_and_back(match: Match) -> None:
    for seat in range(match.num_players):
        view = match.view(seat)
        read = View.from_text(repr(view))
        assert read.state.tobytes() == view.state.tobytes()
        assert repr(read) == repr(view)


def test_views_go_there_and_back_to_the_last_byte() -> None:
    met: Counter[str] = Counter()
    for match in moments(45):
        assert_goes_there_and_back(match)
        moves = [move.split()[1] for move in match.history]
        met["over"] += match.round_over
        met["passed"] += "pass" in moves
        met["kept a draw"] += any(a == b == "draw" for a, b in itertools.pairwise(moves))
        met["refused"] += not all(event["accepted"] for event in match.events)
    assert met["over"] == 45
    assert met["passed"] >= 10 and met["kept a draw"] >= 100 and met["refused"] >= 3, met


def test_rounds_that_end_in_every_way_go_there_and_back() -> None:
    met: Counter[str] = Counter()
    for match in moments(900):
        if match.round_over:
            drew = match.history[-1].endswith("draw")
            ending = f"{match.state.result}{' hidden' * (not match.state.shown)}{' by a draw' * drew}"
            if met[ending] < 8:
                assert_goes_there_and_back(match)
            met[ending] += 1
    by_placement, by_a_draw = {str(OUT), str(BLOCKED), str(WON), f"{WON} hidden"}, {f"{BLOCKED} by a draw"}
    assert by_placement | by_a_draw <= set(met) <= by_placement | by_a_draw | {f"{WON} by a draw"}
    assert min(met.values()) >= 3, met


def test_what_follows_from_the_moves_can_be_left_out() -> None:
    for text in some_views():
        assert repr(View.from_text(text.partition(" turn=")[0])) == text


def test_hands_can_be_told_in_any_order() -> None:
    view = Match(2, seed=1).view(0)
    hand = ",".join(view.hand)
    assert View.from_text(repr(view).replace(hand, ",".join(view.hand[::-1]))) == view


def test_a_position_is_no_view() -> None:
    with pytest.raises(ValueError, match=r"not the text of a view: .* has no view="):
        View.from_text(repr(Match(2, seed=1)))


@pytest.mark.parametrize("value", [None, 7, b"fivesup", ""])
def test_what_is_no_text_is_no_view(value: object) -> None:
    with pytest.raises(ValueError, match="a position"):
        View.from_text(value)  # type: ignore[arg-type]


TOLD = ("hands_now", "drawn", "boneyard_left", "moves", "round_scores", "starter", "view", "without", "max_pip")


def changed(name: str, value: str, how: str, at: int, tile: str, other: str) -> str:
    """The value of a word with a tile or a part of it changed, lost, doubled or put in."""
    if value.isdigit():
        return str(int(value) + at % 7 - 3)
    if how in ("exchange", "rename"):
        value = value.replace(tile, "new").replace(other, tile if how == "exchange" else other)
        return value.replace("new", other)
    parts = value.replace("/", ",/,").split(",")
    at %= len(parts)
    part = parts[at]
    new = {"lose": [], "double": [part] * 2, "cut": [part], "hide": ["?"], "draw": [part, "draw"], "put": [part, tile]}
    rest = [] if how == "cut" and name != "hands_now" else parts[at + 1 :]
    return ",".join(parts[:at] + new[how] + rest).replace(",/,", "/") or "-"


@st.composite
def changed_words(draw: st.DrawFn) -> str:
    """The text of a view in which one or two words are changed, mostly without those that follow from the moves.

    In every fourth a draw is put in at the end.
    """
    text = draw(some_text)
    if draw(st.integers(0, 4)):
        text = text.partition(" turn=")[0]
    words = dict(word.partition("=")[::2] for word in text.split(" "))
    changes = ["exchange", "rename", "lose", "double", "cut", "hide", "draw", "put"]
    for _ in range(draw(st.integers(1, 2))):
        how, at = draw(st.sampled_from(changes)), draw(st.integers(0, 40))
        tile, other = draw(st.sampled_from(TILES)), draw(st.sampled_from(TILES))
        names = TOLD if how == "exchange" else (draw(st.sampled_from(TOLD)),)
        for name in names:
            if name in words and (how != "exchange" or not words[name].isdigit()):
                words[name] = changed(name, words[name], how, at, tile, other)
    if draw(st.integers(0, 3)) == 3:
        for name, part in (("moves", "draw"), ("drawn", "?")):
            words[name] = part if words[name] == "-" else f"{words[name]},{part}"
    return " ".join(f"{name}={value}" if name != "fivesup" else name for name, value in words.items())


some_text = st.integers(0, 10**6).map(lambda number: some_views()[number % len(some_views())])


@settings(max_examples=800)
@given(changed_words())
def test_a_changed_view_can_be_seen_or_is_refused(text: str) -> None:
    try:
        view = View.from_text(text)
    except ValueError as error:
        assert str(error)
        return
    assert_seen_in_a_world(view)
    assert View.from_text(repr(view)) == view


def lain() -> Match:
    """Seat 1 draws [3|3] in vain, then [4|4], which it has to place; seat 0 is to move."""
    match: Match = lay(Match, "1|4 1|2 5|5", "0|6 0|3", boneyard="3|3 4|4 0|5 2|2 1|3")
    play(match, "1|4", "draw", "draw", "4|4@1|4.high")
    return match


LAIN = (
    "fivesup view=0 players=2 round=1 starter=0 round_scores=0,0 hands_now=1|2,5|5/?,?,? drawn=?,4|4 boneyard_left=3 "
    "moves=1|4,draw,draw,4|4@1|4.high turn=0 scores=5,0 total=9"
)


def test_the_view_that_the_faults_are_made_in() -> None:
    assert repr(lain().view(0)) == LAIN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # words
        (("view=0 ", "view=2 "), "view must be within 0 .. 1, not 2"),
        (("view=0 ", "view=x "), "view=x in a position cannot be read"),
        (("view=0 ", ""), "has no view="),
        (("players=2", "players=5"), "num_players must be within 2 .. 4, not 5"),
        (("round_scores=0,0", "round_scores=0,3"), r"scores\[1\] must be a multiple of five \(R10\), not 3"),
        (("boneyard_left=3", "boneyard_left=-3"), "boneyard_left=-3 makes"),
        (("boneyard_left=3", "boneyard_left=030"), "boneyard_left=030 in a position cannot be read"),
        (("boneyard_left=3 ", ""), "has no boneyard_left="),
        (("boneyard_left=3", "boneyard_left=22"), "boneyard_left=22 makes 29 tiles in all, and the set has 28"),
        (("round=1", "round=1 seed=7"), "unknown word seed=7"),
        (("round=1", "round=1 boneyard=3|3"), r"unknown word boneyard=3\|3"),
        # hands
        (("/?,?,?", ""), "hands_now: 2 seats need 2 hands, not 1"),
        (("1|2,5|5/", "?,?/"), "hands_now hides the hand of seat 0"),
        (("1|2,5|5/", "1|2,?/"), r"hands_now: unknown tile '\?'"),
        (("1|2,5|5/", "1|2,1|2/"), r"hands_now: \[1\|2\] stands twice"),
        (("1|2,5|5/", "1|2,4|4/"), r"hands_now: \[4\|4\] stands twice, or is on the table too \(R1\)"),
        (("players=2", "players=2 without=5|5"), r"hands_now: \[5\|5\] is not in the set"),
        (("/?,?,?", "/?"), "leave seat 1 no tile to begin with"),
        (
            ("/?,?,?", "/0|6,0|3,3|3"),
            r"hands_now=1\|2,5\|5/0\|3,0\|6,3\|3 disagrees with the moves.* 1\|2,5\|5/\?,\?,\?",
        ),
        # draws
        (("drawn=?,4|4", "drawn=?,?"), r"drawn=\?,\? disagrees with the moves, which give \?,4\|4"),
        (("drawn=?,4|4", "drawn=3|3,4|4"), r"disagrees with the moves, which give \?,4\|4"),
        (("drawn=?,4|4", "drawn=?"), "drawn= has 1 tiles, and moves= has 2 draws"),
        # moves
        (("draw,draw", "draw,fall"), "move 3: unknown tile 'fall'"),
        (
            ("draw,draw,4|4@1|4.high", "draw,draw,4|4@1|4.low"),
            r"move 4: player_1 cannot place .*\(R7\), in \"fivesup view=0",
        ),
        (("draw,draw,4|4@1|4.high", "draw,draw,1|2@1|4.low"), r"hands_now: \[1\|2\] stands twice"),
        (("4|4@1|4.high", "4|4@1|4.high,5|5@4|4.line_b"), r"hands_now: \[5\|5\] stands twice"),
        (
            ("4|4@1|4.high", "4|4@1|4.high,3|6@1|4.low"),
            r"move 5: player_0 cannot .*: neither half .* is a 1 \(R7\)",
        ),
        (("4|4@1|4.high", "4|4@1|4.high,draw"), "drawn= has 2 tiles, and moves= has 3 draws"),
        (("4|4@1|4.high", "1|4@1|4.high"), r"move 4: player_1 cannot .*: it does not hold \[1\|4\] \(R11\)"),
        (("4|4@1|4.high", "pass"), r"move 4: player_1 cannot pass: it must draw: the boneyard holds 3 \(R13\)"),
        # what follows
        (("turn=0", "turn=1"), "turn=1 disagrees with the moves, which give 0"),
        (("scores=5,0", "scores=5,5"), "scores=5,5 disagrees with the moves, which give 5,0"),
        (("total=9", "total=9 over=out:1"), "over=out:1 disagrees with the moves, which give none"),
    ],
)
def test_the_fault_of_a_view_is_named(change: tuple[str, str], message: str) -> None:
    assert change[0] in LAIN
    with pytest.raises(ValueError, match=message):
        View.from_text(LAIN.replace(*change, 1))


def test_a_seat_that_can_place_does_not_draw_itself() -> None:
    text = LAIN.replace("4|4@1|4.high turn=0", "4|4@1|4.high,draw turn=0").replace("drawn=?,4|4", "drawn=?,4|4,2|2")
    text = text.replace("1|2,5|5/", "1|2,2|2,5|5/").replace("boneyard_left=3", "boneyard_left=2")
    with pytest.raises(ValueError, match=r"move 5: player_0 cannot draw: it must place a tile that fits: \[1\|2\]"):
        View.from_text(text)


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ("?", r"drawn= does not tell what seat 1 drew, whose view it is"),
        ("2|2", r"drawn= has \[2\|2\], which seat 1 neither holds nor placed, or drew twice"),
        ("3|3,3|3", r"drawn= has \[3\|3\], which seat 1 neither holds nor placed, or drew twice"),
    ],
)
def test_a_seat_knows_what_it_drew(drawn: str, message: str) -> None:
    text = repr(play(lay(Match, "1|4 1|2", "0|6 0|3", boneyard="3|3 4|4 0|5 2|2"), "1|4", "draw").view(1))
    draws = ",".join("draw" for _ in drawn.split(","))
    with pytest.raises(ValueError, match=message):
        View.from_text(text.replace("drawn=3|3", f"drawn={drawn}").replace("draw turn", f"{draws} turn"))


def test_a_settlement_shows_the_hands() -> None:
    match = play(lay(Match, "1|4", "4|6 0|0"), "1|4")
    text = repr(match.view(0))
    assert " hands_now=-/0|0,4|6 " in text and text.endswith("over=out:0")
    with pytest.raises(ValueError, match=r"move 1: a seat goes out \(R15\), but hands_now hides hands"):
        View.from_text(text.replace("0|0,4|6", "?,?"))
    with pytest.raises(ValueError, match=r"scores=15,0 disagrees with the moves, which give 10,0"):
        View.from_text(text.replace("0|0,4|6", "0|0,3|4"))
    with pytest.raises(ValueError, match=r"move 1: a seat goes out \(R15\), but more moves follow"):
        View.from_text(text.replace("moves=1|4", "moves=1|4,4|6@1|4.high").replace("0|0,4|6", "0|0"))


def test_a_round_that_is_blocked_as_far_as_a_seat_can_know() -> None:
    match = play(lay(Match, "0|0 1|3", "3|6 2|2"), "0|0")
    text = repr(match.view(1))
    assert text.endswith("over=blocked:0")
    without = ",".join(tile for tile in TILES if tile not in ("0|0", "1|3", "3|6", "2|2"))
    told = f"fivesup view=1 players=2 hand_size=2 without={without} hands_now=?/2|2,3|6 boneyard_left=0 moves=0|0"
    with pytest.raises(ValueError, match=r"move 1: the round is blocked \(R14\), but hands_now hides hands"):
        View.from_text(told)
    assert View.from_text(told.replace("=?/", "=1|3/")).round_result == match.round_result
    # With [0|6] in the set, seat 0 can hold it, for all that seat 1 knows: then it is the only deal.
    going_on = told.replace("0|6,", "").replace(",,", ",")
    assert View.from_text(going_on).turn == 1


def test_a_view_that_no_deal_agrees_with() -> None:
    # Seat 1 was dealt two of 0|1, 1|2 and 2|2, and could place neither on [1|1].
    text = (
        "fivesup view=0 players=2 hand_size=2 max_pip=2 hands_now=0|0,0|2/?,?,? boneyard_left=0 drawn=? moves=1|1,draw"
    )
    with pytest.raises(ValueError, match='no deal agrees with the view "fivesup view=0'):
        View.from_text(text)
