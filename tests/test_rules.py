"""The rules R1-R25 and the decisions D1-D10, one or more tests each.

Every expected number is worked out by hand from the rules; where a sum needs it, a comment
gives the terms. Tests with `game` run against engine and reference, those with `engine` need
dealing, lots or error texts.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from tests.conftest import Game, events, lay, play, starts_next

FULL_SET = sorted(f"{low}|{high}" for high in range(7) for low in range(high + 1))

# One round for two seats: action, what counts after it, points. It has a double at each half of
# the opening tile, an arm on a branch and a third double on that arm.
STAR = (
    ("1|4", [("1|4", 1), ("1|4", 4)], 5),
    ("1|1@1|4.low", [("1|1", 2), ("1|4", 4)], 0),
    ("4|4@1|4.high", [("1|1", 2), ("4|4", 8)], 10),
    ("3|4@4|4.line_b", [("1|1", 2), ("3|4", 3)], 5),
    ("1|2@1|1.line_b", [("1|2", 2), ("3|4", 3)], 5),
    ("1|5@1|1.branch_a", [("1|2", 2), ("1|5", 5), ("3|4", 3)], 10),
    ("5|5@1|5.high", [("1|2", 2), ("3|4", 3), ("5|5", 10)], 15),
    ("0|5@5|5.line_b", [("0|5", 0), ("1|2", 2), ("3|4", 3)], 5),
    ("1|3@1|1.branch_b", [("0|5", 0), ("1|2", 2), ("1|3", 3), ("3|4", 3)], 0),
)
STAR_TEXTS = [text for text, _, _ in STAR]


def lay_star(game: Game) -> Game:
    """The two hands that play `STAR`, each with a tile to spare."""
    return lay(game, "1|4 4|4 1|2 5|5 1|3 6|6", "1|1 3|4 1|5 0|5 2|6", boneyard="0|0")


# R1-R5: material, seats, deal, starter, turns


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_r01_every_tile_of_the_double_six_set_is_dealt_once(engine: Game, seats: int) -> None:
    match = engine(num_players=seats, seed=11)
    assert len(FULL_SET) == 28
    assert sorted(sum(match.hands, list(match.boneyard))) == FULL_SET


@pytest.mark.parametrize("hands", ["1|4 / 1|4", "1|4 1|4 / 2|2", "1|7 / 2|2"])
def test_r01_a_setup_has_no_tile_twice_and_none_from_outside(engine: Game, hands: str) -> None:
    with pytest.raises(ValueError):
        lay(engine, *hands.split(" / "))


@pytest.mark.parametrize(("seats", "sides"), [(2, 2), (3, 3), (4, 2)])
def test_r02_sides_for_each_number_of_seats(engine: Game, seats: int, sides: int) -> None:
    match = engine(num_players=seats, seed=1)
    assert len(match.hands) == seats
    assert list(match.scores) == [0] * sides


@pytest.mark.parametrize("hands", ["1|4", "1|4 / 2|2 / 3|3 / 4|4 / 5|5"])
def test_r02_fewer_than_two_or_more_than_four_seats(engine: Game, hands: str) -> None:
    with pytest.raises(ValueError):
        lay(engine, *hands.split(" / "))


def test_r02_three_seats_score_each_for_itself(game: Game) -> None:
    match = lay(game, "1|4 0|0", "1|1 0|6", "4|4 0|2", boneyard="5|5")
    play(match, "1|4", "1|1@1|4.low", "4|4@1|4.high")  # 1+4, 2+4, 2+8
    assert list(match.scores) == [5, 0, 10]


@pytest.mark.parametrize(("seats", "left"), [(2, 18), (3, 13), (4, 8)])
def test_r03_five_tiles_each_and_the_rest_in_the_boneyard(engine: Game, seats: int, left: int) -> None:
    match = engine(num_players=seats, seed=5)
    assert [len(hand) for hand in match.hands] == [5] * seats
    assert len(match.boneyard) == left


def test_r03_every_tile_is_as_likely_in_any_hand(engine: Game) -> None:
    held = Counter(
        (seat, tile)
        for seed in range(560)
        for seat, hand in enumerate(engine(num_players=4, seed=seed).hands)
        for tile in hand
    )
    # 560 * 5/28 = 100 expected, standard deviation 9.1.
    assert len(held) == 4 * 28
    assert all(count in range(60, 140) for count in held.values())


def test_r03_the_boneyard_can_be_drawn_to_its_last_tile(game: Game) -> None:
    match = lay(game, "0|0 0|1", "6|6", boneyard="5|6 4|6 3|6")
    play(match, "0|0", "draw", "draw", "draw")
    assert list(match.boneyard) == []
    assert sorted(match.hands[1]) == ["3|6", "4|6", "5|6", "6|6"]


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_r04_the_first_starter_is_drawn_by_lot(engine: Game, seats: int) -> None:
    starts = Counter(engine(num_players=seats, seed=seed).turn for seed in range(100 * seats))
    # 100 expected for each seat, standard deviation at most 8.7.
    assert sorted(starts) == list(range(seats))
    assert all(count in range(65, 135) for count in starts.values())


def test_r04_the_double_six_gives_no_right_to_start(engine: Game) -> None:
    deals = [engine(num_players=2, seed=seed) for seed in range(1120)]
    starts = [deal.turn for deal in deals if "6|6" in deal.hands[0]]
    # 1120 * 5/28 = 200 such deals, seat 0 starts 100 of them.
    assert 150 <= len(starts) <= 250
    assert 0.36 <= starts.count(0) / len(starts) <= 0.64


def test_r04_who_goes_out_starts_the_next_round(game: Game) -> None:
    match = play(lay(game, "0|0 6|6", "0|1", "2|2"), "0|0", "0|1@0|0.line_a")
    assert match.round_result == {"out": 1}
    assert starts_next(match) == 1


def test_r04_a_lot_decides_after_a_blocked_round(engine: Game) -> None:
    starts: Counter[int] = Counter()
    for seed in range(300):
        match = play(lay(engine, "6|6 1|2", "0|0", "1|1", seed=seed), "6|6")
        assert match.round_result == {"blocked": [1]}
        starts[starts_next(match)] += 1
    # 100 expected for each seat, standard deviation 8.2.
    assert sorted(starts) == [0, 1, 2]
    assert all(count in range(65, 135) for count in starts.values())


def test_r05_any_tile_may_open(game: Game) -> None:
    match = lay(game, "1|4 2|2 0|6", "3|3", boneyard="5|5")
    assert sorted(match.legal()) == ["0|6", "1|4", "2|2"]


def test_r05_the_turn_goes_clockwise_after_placements(game: Game) -> None:
    match = lay(game, "0|2 3|3", "0|0 4|4", "0|1 5|5", boneyard="6|6", starter=1)
    turns = [match.turn]
    for text in ("0|0", "0|1@0|0.line_a", "0|2@0|0.line_b"):
        turns.append(play(match, text).turn)
    assert turns == [1, 2, 0, 1]


def test_r05_the_turn_goes_clockwise_after_passes(game: Game) -> None:
    match = lay(game, "6|6 4|6", "0|1", "0|2")
    turns = [play(match, text).turn for text in ("6|6", "pass", "pass")]
    assert turns == [1, 2, 0]


# R6-R8: connecting


def test_r06_ports_of_an_opening_tile(game: Game) -> None:
    for tile, ports in (("1|4", ["1|4.high", "1|4.low"]), ("2|2", ["2|2.line_a", "2|2.line_b"])):
        match = play(lay(game, "1|4 2|2", "3|3", boneyard="0|0"), tile)
        assert sorted(match.open_ports()) == ports


def test_r06_four_ports_of_a_double(game: Game) -> None:
    match = lay(game, "2|2 2|4 2|6 0|0", "2|3 2|5 0|1", boneyard="1|1")
    play(match, "2|2", "2|3@2|2.line_a", "2|4@2|2.line_b", "2|5@2|2.branch_b")
    play(match, "2|6@2|2.branch_a")
    assert sorted(match.open_ports()) == ["2|3.high", "2|4.high", "2|5.high", "2|6.high"]


def test_r07_a_tile_joins_by_the_equal_half_and_opens_the_other(game: Game) -> None:
    match = play(lay(game, "1|4 0|0", "1|3 3|4 5|6", boneyard="2|2"), "1|4")
    assert sorted(match.legal()) == ["1|3@1|4.low", "3|4@1|4.high"]
    play(match, "3|4@1|4.high")
    assert sorted(match.open_ports()) == ["1|4.low", "3|4.low"]


def test_r07_a_double_joins_by_its_line_a(game: Game) -> None:
    match = play(lay(game, "1|4 0|0", "1|1 5|6", boneyard="2|2"), "1|4", "1|1@1|4.low")
    assert sorted(match.open_ports()) == ["1|1.line_b", "1|4.high"]


def test_r07_a_double_on_an_arm_is_a_spinner_too(game: Game) -> None:
    match = play(lay_star(game), *STAR_TEXTS)
    expected = ["0|5.low", "1|2.high", "1|3.high", "3|4.low", "4|4.branch_a", "4|4.branch_b"]
    assert sorted(match.open_ports()) == [*expected, "5|5.branch_a", "5|5.branch_b"]


def test_r08_branches_open_when_both_lines_are_taken(game: Game) -> None:
    match = lay(game, "2|2 2|4 2|6", "2|3 2|5 0|0", boneyard="1|1")
    play(match, "2|2", "2|3@2|2.line_a")
    assert sorted(match.legal()) == ["2|4@2|2.line_b", "2|6@2|2.line_b"]
    play(match, "2|4@2|2.line_b")
    assert sorted(match.open_ports()) == ["2|2.branch_a", "2|2.branch_b", "2|3.high", "2|4.high"]


def test_r08_either_branch_may_be_taken_first(game: Game) -> None:
    match = lay(game, "2|2 2|4 2|6", "2|3 2|5 0|0", boneyard="1|1")
    play(match, "2|2", "2|3@2|2.line_a", "2|4@2|2.line_b")
    assert sorted(match.legal()) == ["2|5@2|2.branch_a", "2|5@2|2.branch_b"]
    play(match, "2|5@2|2.branch_b")
    assert sorted(match.open_ports()) == ["2|2.branch_a", "2|3.high", "2|4.high", "2|5.high"]


def test_r08_a_joined_double_needs_only_its_second_line(game: Game) -> None:
    match = play(lay_star(game), *STAR_TEXTS[:3])
    assert sorted(match.open_ports()) == ["1|1.line_b", "4|4.line_b"]
    play(match, STAR_TEXTS[3])
    assert sorted(match.open_ports()) == ["1|1.line_b", "3|4.low", "4|4.branch_a", "4|4.branch_b"]


# R9-R10: counting


@pytest.mark.parametrize("count", range(1, len(STAR) + 1))
def test_r09_what_counts_after_every_placement(game: Game, count: int) -> None:
    match = play(lay_star(game), *STAR_TEXTS[:count])
    contributions = STAR[count - 1][1]
    assert sorted(match.contributions()) == contributions
    assert match.total() == sum(points for _, points in contributions)


@pytest.mark.parametrize(("tile", "counted"), [("0|0", [0]), ("2|2", [4]), ("0|5", [0, 5])])
def test_r09_what_counts_after_an_opening(game: Game, tile: str, counted: list[int]) -> None:
    match = play(lay(game, f"{tile} 1|3", "3|3", boneyard="4|4"), tile)
    assert sorted(match.contributions()) == [(tile, points) for points in counted]


@pytest.mark.parametrize("count", range(1, len(STAR) + 1))
def test_r10_points_of_every_placement(game: Game, count: int) -> None:
    match = play(lay_star(game), *STAR_TEXTS[:count])
    points = [step[2] for step in STAR[:count]]
    assert list(match.scores) == [sum(points[::2]), sum(points[1::2])]


@pytest.mark.parametrize(
    ("hands", "texts", "scores"),
    [
        (("0|0 1|2", "3|3"), ["0|0"], [0, 0]),  # 0 is no score, although 5 divides it
        (("2|2 0|1", "3|3"), ["2|2"], [0, 0]),  # 4
        (("3|6 0|1", "6|6 3|3"), ["3|6", "6|6@3|6.high"], [0, 15]),  # 9, 3+12
        (("4|6 6|6 0|1", "4|4 3|3"), ["4|6", "4|4@4|6.low", "6|6@4|6.high"], [30, 0]),  # 10 14 20
    ],
)
def test_r10_only_positive_multiples_of_five_score(
    game: Game, hands: tuple[str, str], texts: list[str], scores: list[int]
) -> None:
    match = play(lay(game, *hands, boneyard="1|1"), *texts)
    assert list(match.scores) == scores


# R11-R14: playing, drawing, passing, blocking


def test_r11_a_seat_chooses_among_all_its_placements_and_nothing_else(game: Game) -> None:
    match = play(lay(game, "2|2 3|3", "2|5 0|2 6|6", boneyard="4|4"), "2|2")
    expected = ["0|2@2|2.line_a", "0|2@2|2.line_b", "2|5@2|2.line_a", "2|5@2|2.line_b"]
    assert sorted(match.legal()) == expected


def test_r12_a_seat_draws_to_the_first_playable_tile_and_must_place_it(game: Game) -> None:
    match = lay(game, "6|6 5|5 2|6", "0|1 1|1", boneyard="2|3 3|6 4|6")
    play(match, "6|6")
    assert match.legal() == ["draw"]
    play(match, "draw")  # 2|3 does not fit
    assert (match.legal(), match.turn) == (["draw"], 1)
    play(match, "draw")
    assert sorted(match.legal()) == ["3|6@6|6.line_a", "3|6@6|6.line_b"]
    play(match, "3|6@6|6.line_b")
    assert (match.turn, list(match.boneyard)) == (0, ["4|6"])
    assert list(match.scores) == [0, 15]  # 12+3


def test_r13_a_pass_needs_an_empty_boneyard(game: Game) -> None:
    match = lay(game, "6|6 4|6", "0|1", boneyard="2|3")
    play(match, "6|6")
    assert match.legal() == ["draw"]
    play(match, "draw")
    assert match.legal() == ["pass"]


def test_r14_blocked_when_nobody_can_place_and_the_boneyard_is_empty(game: Game) -> None:
    match = play(lay(game, "6|6 1|2", "0|0"), "6|6")
    assert match.round_result == {"blocked": [1]}
    assert (match.round_over, match.legal()) == (True, [])
    assert list(match.scores) == [0, 5]  # 3 - 0


def test_r14_not_blocked_while_a_tile_is_left_to_draw(game: Game) -> None:
    match = play(lay(game, "6|6 1|2", "0|0", boneyard="4|4"), "6|6")
    assert (match.round_over, match.round_result) == (False, None)
    play(match, "draw")
    assert match.round_result == {"blocked": [0]}
    assert list(match.scores) == [5, 0]  # 8 - 3


@pytest.mark.parametrize(
    ("action", "rule"),
    [("6|6@2|2.line_a", "R7"), ("2|5@2|2.branch_a", "R8"), ("draw", "R1[12]"), ("pass", "R1[13]")],
)
def test_r11_an_illegal_action_names_seat_action_and_rule(
    engine: Game, illegal: type[ValueError], action: str, rule: str
) -> None:
    match = play(lay(engine, "2|2 3|3", "0|1 2|5 6|6", boneyard="4|4"), "2|2")
    before = match.clone()
    with pytest.raises(illegal) as caught:
        match.play(action)
    message = str(caught.value)
    assert re.search(r"(seat|player)[ _]1\b", message)
    assert action.partition("@")[0] in message
    assert re.search(rf"\b{rule}\b", message)
    assert match == before


@pytest.mark.parametrize(
    "text",
    ["2|6@2|2.line_a", "2|5@3|3.line_a", "2|5", "2|5@2|2", "2|5@2|2.up", "5|2@", "hello", ""],
)
def test_r11_texts_that_are_no_action_here_change_nothing(engine: Game, illegal: type[ValueError], text: str) -> None:
    match = play(lay(engine, "2|2 3|3", "0|1 2|5 6|6", boneyard="4|4"), "2|2")
    before = match.clone()
    with pytest.raises(illegal):
        match.play(text)
    assert match == before


@pytest.mark.parametrize(
    ("played", "action", "rule"), [(["6|6", "draw"], "draw", "R1[12]"), (["6|6"], "pass", "R1[23]")]
)
def test_r12_r13_draws_and_passes_out_of_place(
    engine: Game, illegal: type[ValueError], played: list[str], action: str, rule: str
) -> None:
    match = play(lay(engine, "6|6 5|5", "0|1", boneyard="3|6 4|6"), *played)
    with pytest.raises(illegal, match=rf"\b{rule}\b"):
        match.play(action)


# R15-R16: going out


def test_r15_the_finisher_takes_the_pips_of_all_opponents(game: Game) -> None:
    match = play(lay(game, "4|5", "6|6", "0|1"), "4|5")  # 12+1 = 13 -> 15
    assert match.round_result == {"out": 0}
    assert events(match) == [(0, 0, 15, 0, True)]
    assert list(match.scores) == [15, 0, 0]


def test_r15_the_opponents_sum_is_rounded_once(game: Game) -> None:
    # 2+2 = 4 -> 5, while 2 -> 0 for each alone.
    match = play(lay(game, "0|1", "1|1", "0|2"), "0|1")
    assert list(match.scores) == [5, 0, 0]


def test_r15_the_partners_hand_is_rounded_apart_and_subtracted(game: Game) -> None:
    # Opponents 12+8 = 20, partner 7 -> 5. Rounding 20-7 = 13 at once would also give 15.
    match = play(lay(game, "4|5", "6|6", "3|4", "4|4"), "4|5")
    assert events(match) == [(0, 0, 20, -5, True)]
    assert list(match.scores) == [15, 0]


@pytest.mark.parametrize(("pips", "points"), list(enumerate([0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10])))
def test_r16_rounding_to_the_nearest_multiple_of_five(game: Game, pips: int, points: int) -> None:
    held = f"{max(pips - 6, 0)}|{min(pips, 6)}"
    match = play(lay(game, "3|4", held), "3|4")  # 7: the placement itself scores nothing
    assert list(match.scores) == [points, 0]


# R17-R19: the blocked round. [6|6] opens (12, no score) and nobody holds another 6.


def test_r17_hands_are_compared_one_by_one_also_with_partners(game: Game) -> None:
    # Left: 1, 5, 20, 6. Together the partners would have 21 and 11.
    match = play(lay(game, "6|6 0|1", "0|5", "5|5 4|4 1|1", "1|5"), "6|6")
    assert match.round_result == {"blocked": [0]}


def test_r17_several_seats_may_share_the_lowest_hand(game: Game) -> None:
    match = play(lay(game, "6|6 0|3", "4|4", "1|2"), "6|6")  # left: 3, 8, 3
    assert match.round_result == {"blocked": [0, 2]}


def test_r18_differences_to_each_higher_hand(game: Game) -> None:
    # Left: 4, 9, 15. Seat 0: 5+11 = 16 -> 15; seat 1: 6 -> 5; seat 2: nothing.
    match = play(lay(game, "6|6 0|4", "4|5", "5|5 1|4"), "6|6")
    assert list(match.scores) == [15, 5, 0]


def test_r18_the_differences_are_rounded_as_one_sum(game: Game) -> None:
    # Left: 0, 2, 2. Seat 0: 2+2 = 4 -> 5.
    match = play(lay(game, "6|6 0|0", "0|2", "1|1"), "6|6")
    assert list(match.scores) == [5, 0, 0]


def test_r18_a_partners_higher_hand_does_not_count(game: Game) -> None:
    # Left: 1, 5, 20, 6. Seat 0: 4+5 = 9 -> 10 (not 19 more); seat 1: 20-5 = 15;
    # seat 3: 20-6 = 14 -> 15; seat 2 is above both opponents.
    match = play(lay(game, "6|6 0|1", "0|5", "5|5 4|4 1|1", "1|5"), "6|6")
    assert list(match.scores) == [10, 30]


def test_r19_events_go_from_the_lowest_hand_to_the_highest(game: Game) -> None:
    # Left: 9, 15, 4. Seat 2: 5+11 = 16 -> 15; seat 0: 6 -> 5.
    match = play(lay(game, "6|6 4|5", "5|5 1|4", "0|4"), "6|6")
    assert events(match) == [(2, 0, 15, 0, True), (0, 0, 5, 0, True)]


def test_r19_equal_hands_differ_by_zero_and_share_their_rank(game: Game) -> None:
    # Left: 3, 3, 8. Seats 0 and 1: 5 each; no tie is broken.
    match = play(lay(game, "6|6 0|3", "1|2", "4|4"), "6|6")
    assert match.round_result == {"blocked": [0, 1]}
    assert list(match.scores) == [5, 5, 0]


# R20-R25: target, events, record


@pytest.mark.parametrize(("before", "after"), [(290, 300), (295, 305), (300, 300)])
def test_r20_exactly_305_wins(game: Game, before: int, after: int) -> None:
    match = lay(game, "4|6 0|0", "3|3 2|2", boneyard="5|5", scores=[before, 0])
    play(match, "4|6")  # 10
    assert list(match.scores) == [after, 0]
    assert match.winner == (0 if after == 305 else None)


@pytest.mark.parametrize("score", [305, 310, 7])
def test_r20_no_round_starts_at_the_target_or_off_the_fives(engine: Game, score: int) -> None:
    with pytest.raises(ValueError):
        lay(engine, "1|4", "2|2", scores=[score, 0])


def test_r21_a_placement_is_an_event(game: Game) -> None:
    match = play(lay(game, "1|4 0|0", "1|1 2|2", boneyard="5|5"), "1|4")
    assert events(match) == [(0, 5, 0, 0, True)]
    play(match, "1|1@1|4.low")  # 2+4: no points, no event
    assert events(match) == []


def test_r21_going_out_and_its_placement_are_one_event(game: Game) -> None:
    match = play(lay(game, "1|4", "4|6"), "1|4")
    assert events(match) == [(0, 5, 10, 0, True)]
    assert list(match.scores) == [15, 0]


def test_r21_each_seat_of_a_side_has_its_own_event_in_a_block(game: Game) -> None:
    # Left: 1, 5, 20, 6; the gains are those of R18.
    match = play(lay(game, "6|6 0|1", "0|5", "5|5 4|4 1|1", "1|5"), "6|6")
    assert events(match) == [(0, 0, 10, 0, True), (1, 0, 15, 0, True), (1, 0, 15, 0, True)]


def test_r22_an_event_beyond_the_target_is_refused_whole(game: Game) -> None:
    match = play(lay(game, "1|4", "4|6", scores=[300, 0]), "1|4")  # 300+5+10 = 315
    assert events(match) == [(0, 5, 10, 0, False)]
    assert (list(match.scores), match.winner) == ([300, 0], None)
    assert match.round_result == {"out": 0}
    assert starts_next(match) == 0


def test_r22_a_refusal_touches_no_other_side(game: Game) -> None:
    match = lay(game, "4|6 0|0", "1|6 2|2", boneyard="3|3", scores=[300, 0])
    play(match, "4|6")  # 310
    assert events(match) == [(0, 10, 0, 0, False)]
    play(match, "1|6@4|6.high")  # 4+1
    assert events(match) == [(1, 5, 0, 0, True)]
    assert list(match.scores) == [300, 5]
    assert sorted(match.open_ports()) == ["1|6.low", "4|6.low"]


def test_r23_the_match_ends_at_once(game: Game) -> None:
    match = lay(game, "1|4 1|1", "4|4 2|2", boneyard="5|5", scores=[300, 300])
    play(match, "1|4")
    assert (match.winner, match.round_over, match.legal()) == (0, True, [])
    assert match.round_result == {"won": 0}


def test_r23_nothing_can_be_played_after_the_end(engine: Game, illegal: type[ValueError]) -> None:
    match = lay(engine, "1|4 1|1", "4|4 2|2", boneyard="5|5", scores=[300, 300])
    play(match, "1|4")
    with pytest.raises(illegal):
        match.play("4|4@1|4.high")


def test_r24_the_winner_is_recorded_without_differentials(game: Game) -> None:
    match = lay(game, "1|4 1|1", "4|4 2|2", "6|6", boneyard="5|5", scores=[300, 120, -15])
    play(match, "1|4")
    assert match.winner == 0
    assert list(match.scores) == [305, 120, -15]


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_r25_a_whole_match_is_kept_in_strokes(engine: Game, seats: int) -> None:
    match, choose = engine(num_players=seats, seed=seats), random.Random(seats)
    while match.winner is None:
        match.play(choose.choice(match.legal()))
        assert [score % 5 for score in match.scores] == [0] * len(match.scores)
        if match.round_over and match.winner is None:
            match.next_round()
    # Sixty-one strokes of five: six figures of ten strokes and one more.
    assert divmod(match.scores[match.winner] // 5, 10) == (6, 1)


# D1-D10: what the project decided


def test_d01_a_score_may_fall_below_zero(game: Game) -> None:
    # Opponents 2+0 = 2 -> 0, partner 12 -> 10.
    match = play(lay(game, "4|5", "1|1", "6|6", "0|0"), "4|5")
    assert events(match) == [(0, 0, 0, -10, True)]
    assert list(match.scores) == [-10, 0]


def test_d02_after_a_blocking_placement_the_seat_after_the_placer_is_first(game: Game) -> None:
    # Left: 3, 3, 8; seat 0 placed, so the order is 1, 2, 0.
    match = play(lay(game, "6|6 0|3", "1|2", "4|4"), "6|6")
    assert events(match) == [(1, 0, 5, 0, True), (0, 0, 5, 0, True)]


def test_d02_after_a_blocking_draw_the_drawer_is_first(game: Game) -> None:
    # Left: 6, 1+5 = 6, 10; seat 1 drew, so the order is 1, 2, 0. 10-6 = 4 -> 5.
    match = play(lay(game, "6|6 2|4", "0|1", "5|5", boneyard="0|5"), "6|6", "draw")
    assert events(match) == [(1, 0, 5, 0, True), (0, 0, 5, 0, True)]


def test_d03_nobody_has_to_pass_before_a_block(game: Game) -> None:
    placed = play(lay(game, "6|6 0|3", "1|2", "4|4"), "6|6")
    drawn = play(lay(game, "6|6 2|4", "0|1", "5|5", boneyard="0|5"), "6|6", "draw")
    assert (placed.round_over, placed.legal()) == (True, [])
    assert (drawn.round_over, drawn.legal()) == (True, [])


def test_d04_level_at_the_top_is_no_win_and_the_match_goes_on(engine: Game) -> None:
    match = lay(engine, "3|4", "0|0", scores=[300, 300], seed=3)
    first = match.round
    play(match, "3|4")  # 7; the opponent's 0 pips settle for nothing
    assert (match.round_over, match.winner) == (True, None)
    match.next_round()
    assert match.round == first + 1
    assert (match.round_over, list(match.scores)) == (False, [300, 300])
    assert sorted(sum(match.hands, list(match.boneyard))) == FULL_SET


def test_d05_the_lots_of_two_rounds_are_independent(engine: Game) -> None:
    pairs: Counter[tuple[int, int]] = Counter()
    for seed in range(640):
        first = engine(num_players=4, seed=seed).turn
        match = play(lay(engine, "6|6 1|2", "0|0", "1|1", "0|2", seed=seed), "6|6")
        pairs[first, starts_next(match)] += 1
    # 640/16 = 40 for each pair, standard deviation 6.1.
    assert len(pairs) == 16
    assert all(count in range(15, 65) for count in pairs.values())


@pytest.mark.parametrize("lines", ["ab", "ba"])
@pytest.mark.parametrize("branches", ["ab", "ba"])
def test_d06_equivalent_ports_lead_to_the_same_game(game: Game, lines: str, branches: str) -> None:
    match = lay(game, "2|2 2|4 2|6 0|0", "2|5 2|3 0|1", boneyard="1|1")
    texts = (
        "2|2",
        f"2|5@2|2.line_{lines[0]}",
        f"2|4@2|2.line_{lines[1]}",
        f"2|3@2|2.branch_{branches[0]}",
        f"2|6@2|2.branch_{branches[1]}",
    )
    after = [(play(match, text).total(), len(match.legal())) for text in texts]
    # Totals: 4, 4+5, 5+4, 5+4+3, 5+4+3+6. Placements: two tiles at two lines, two at one line,
    # one at two branches, one at one branch; then a draw.
    assert after == [(4, 4), (9, 2), (9, 2), (12, 1), (18, 1)]
    assert (match.legal(), list(match.scores)) == (["draw"], [0, 0])


def test_d07_the_first_handled_of_two_equal_hands_wins(game: Game) -> None:
    # Left: 3, 3, 8: 5 for seats 0 and 1, both at 300; seat 1 is handled first.
    match = play(lay(game, "6|6 0|3", "1|2", "4|4", scores=[300, 300, 0]), "6|6")
    assert (match.winner, list(match.scores)) == (1, [300, 305, 0])
    assert events(match) == [(1, 0, 5, 0, True)]


def test_d08_partners_sit_opposite(game: Game) -> None:
    match = lay(game, "1|4 1|2 0|0", "1|1 1|5 0|1", "4|4 0|2", "3|4 0|3", boneyard="6|6")
    scores = [list(play(match, text).scores) for text in STAR_TEXTS[:6]]
    # Points 5, 0, 10, 5, 5, 10 for seats 0, 1, 2, 3, 0, 1.
    assert scores == [[5, 0], [5, 0], [15, 0], [15, 5], [20, 5], [20, 15]]


def test_d09_a_blocking_placement_is_not_joined_with_the_gain(game: Game) -> None:
    # 295+5 = 300, then 10-0: 310.
    match = play(lay(game, "1|4 0|0", "5|5", scores=[295, 0]), "1|4")
    assert events(match) == [(0, 5, 0, 0, True), (0, 0, 10, 0, False)]
    assert list(match.scores) == [300, 0]


def test_d10_a_last_tile_that_blocks_goes_out(game: Game) -> None:
    # Opponents 5+9 = 14 -> 15. As a block, seat 1 would have taken 4 -> 5.
    match = play(lay(game, "6|6", "0|5", "4|5"), "6|6")
    assert match.round_result == {"out": 0}
    assert list(match.scores) == [15, 0, 0]
