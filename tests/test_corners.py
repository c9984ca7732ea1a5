"""Corners of the rules: rounds laid out by hand, with the arithmetic beside them.

A setup lists every seat's hand; pips that are "left" are those in the hands when the round
closes. Many rounds are blocked by an opening [6|6] that nobody can follow: it counts 12 and
scores nothing, so that the settlement stands alone.
"""

from __future__ import annotations

import pytest

from tests.conftest import Game, events, lay, play, starts_next

# Left after 6|6: 10, 2, 6, 5. Seat 1: (10-2)+(6-2) = 12 -> 10; seat 3: (10-5)+(6-5) = 6 -> 5;
# seats 0 and 2 are above both opponents. So side 1 gets 10, then 5.
SIDE_1_GAINS_TWICE = ("6|6 5|5", "1|1", "2|4", "0|5")
# Left after 6|6: 1, 5, 20, 6. Seat 0: 4+5 = 9 -> 10; seat 1: 20-5 = 15; seat 3: 20-6 = 14 -> 15.
BOTH_SIDES_GAIN = ("6|6 0|1", "0|5", "5|5 4|4 1|1", "1|5")
# Left after 6|6: 4, 9, 15. Seat 0: 5+11 = 16 -> 15; seat 1: 15-9 = 6 -> 5.
THREE_SEATS = ("6|6 0|4", "4|5", "5|5 1|4")


# Refusals in blocked rounds


def test_blocked_first_event_refused_and_another_sides_accepted(game: Game) -> None:
    match = play(lay(game, *THREE_SEATS, scores=[295, 100, 0]), "6|6")  # 295+15 = 310
    assert events(match) == [(0, 0, 15, 0, False), (1, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([295, 105, 0], None)
    assert match.round_result == {"blocked": [0]}


def test_blocked_first_event_accepted_and_another_sides_refused(game: Game) -> None:
    # Left: 2, 5, 13. Seat 0: 3+11 = 14 -> 15; seat 1: 13-5 = 8 -> 10.
    match = lay(game, "6|6 1|1", "0|5", "5|5 1|2", scores=[100, 300, 0])
    play(match, "6|6")  # 300+10 = 310
    assert events(match) == [(0, 0, 15, 0, True), (1, 0, 10, 0, False)]
    assert list(match.scores) == [115, 300, 0]


def test_blocked_two_events_of_one_side_the_second_refused(game: Game) -> None:
    match = play(lay(game, *BOTH_SIDES_GAIN, scores=[0, 285]), "6|6")  # 285+15 = 300, 300+15
    assert events(match) == [(0, 0, 10, 0, True), (1, 0, 15, 0, True), (1, 0, 15, 0, False)]
    assert (list(match.scores), match.winner) == ([10, 300], None)


def test_blocked_two_events_of_one_side_the_first_refused(game: Game) -> None:
    match = play(lay(game, *SIDE_1_GAINS_TWICE, scores=[0, 300]), "6|6")  # 310, then 305
    assert events(match) == [(1, 0, 10, 0, False), (1, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([0, 305], 1)
    assert match.round_result == {"won": 1}


def test_blocked_two_events_of_one_side_are_not_added_before_the_test(game: Game) -> None:
    match = play(lay(game, *SIDE_1_GAINS_TWICE, scores=[0, 290]), "6|6")  # 290+10+5 = 305
    assert events(match) == [(1, 0, 10, 0, True), (1, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([0, 305], 1)


# The match won within a settlement


def test_blocked_win_by_the_first_event_leaves_the_partners_out(game: Game) -> None:
    match = play(lay(game, *SIDE_1_GAINS_TWICE, scores=[0, 295]), "6|6")
    assert events(match) == [(1, 0, 10, 0, True)]
    assert (list(match.scores), match.winner) == ([0, 305], 1)


def test_blocked_win_leaves_a_later_sides_event_out(game: Game) -> None:
    match = play(lay(game, *THREE_SEATS, scores=[290, 100, 0]), "6|6")
    assert events(match) == [(0, 0, 15, 0, True)]
    assert list(match.scores) == [305, 100, 0]
    assert match.round_result == {"won": 0}


def test_blocked_win_in_the_middle_of_four_seats(game: Game) -> None:
    # Seat 0 takes 10, seat 1 reaches 290+15 = 305, seat 3 gets nothing any more.
    match = play(lay(game, *BOTH_SIDES_GAIN, scores=[0, 290]), "6|6")
    assert events(match) == [(0, 0, 10, 0, True), (1, 0, 15, 0, True)]
    assert (list(match.scores), match.winner) == ([10, 305], 1)
    assert (match.round_result, match.round_over, match.legal()) == ({"won": 1}, True, [])


def test_blocked_partners_share_the_lowest_hand_and_win_with_the_second_event(game: Game) -> None:
    # Left: 3, 8, 3, 5. Seats 0 and 2: 5+2 = 7 -> 5 each; seat 3 is above both opponents.
    match = lay(game, "6|6 0|3", "4|4", "1|2", "0|5", scores=[295, 0])
    play(match, "6|6")
    assert events(match) == [(0, 0, 5, 0, True), (0, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)


def test_blocked_partners_share_the_lowest_hand(game: Game) -> None:
    match = play(lay(game, "6|6 0|3", "4|4", "1|2", "0|5", scores=[20, 0]), "6|6")
    assert match.round_result == {"blocked": [0, 2]}
    assert list(match.scores) == [30, 0]


# Equal hands and the order among them


def test_equal_hands_at_the_target_after_a_placement(game: Game) -> None:
    # Left: 3, 8, 3; seat 2 placed, so the order is 0, 1, 2: seat 0 wins with 5.
    match = lay(game, "1|2", "4|4", "6|6 0|3", starter=2, scores=[300, 0, 300])
    play(match, "6|6")
    assert events(match) == [(0, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([305, 0, 300], 0)


def test_equal_hands_at_the_target_after_a_draw(game: Game) -> None:
    # Left: 6, 1+5 = 6, 10; seat 1 drew, so it is handled before seat 0: 10-6 = 4 -> 5.
    match = lay(game, "6|6 2|4", "0|1", "5|5", boneyard="0|5", scores=[300, 300, 0])
    play(match, "6|6", "draw")
    assert events(match) == [(1, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([300, 305, 0], 1)


def test_order_after_a_placement_that_follows_passes(game: Game) -> None:
    # Seat 0 opens, seats 1 and 2 pass, seat 0 places 4|6: 12+4 = 16. Then 6 and 4 are open and
    # nobody has one. Left: 3, 3, 8: the order is 1, 2, 0.
    match = lay(game, "6|6 4|6 0|3", "1|2", "3|5")
    play(match, "6|6", "pass", "pass", "4|6@6|6.line_a")
    assert events(match) == [(1, 0, 5, 0, True), (0, 0, 5, 0, True)]
    assert match.round_result == {"blocked": [0, 1]}


def test_order_ranks_before_it_goes_round(game: Game) -> None:
    # Left: 8, 5, 0, 5; seat 0 placed, so the order is 1, 2, 3, 0. Seat 2 is lowest and first:
    # 5+5 = 10; seats 1 and 3 follow: 8-5 = 3 -> 5 each; seat 0 is above both opponents.
    match = play(lay(game, "6|6 4|4", "0|5", "0|0", "1|4"), "6|6")
    assert events(match) == [(0, 0, 10, 0, True), (1, 0, 5, 0, True), (1, 0, 5, 0, True)]
    assert match.round_result == {"blocked": [2]}


def test_all_hands_equal(game: Game) -> None:
    match = play(lay(game, "6|6 0|4", "1|3", "2|2"), "6|6")  # left: 4, 4, 4
    assert match.round_result == {"blocked": [0, 1, 2]}
    assert (events(match), list(match.scores)) == ([], [0, 0, 0])


# Placement and settlement of a blocked round


def test_blocking_placement_accepted_and_the_gain_refused(game: Game) -> None:
    # [1|4] scores 5 and nobody has a 1 or a 4. Left: 0, 10. 295+5 = 300, 300+10 = 310.
    match = play(lay(game, "1|4 0|0", "5|5", scores=[295, 0]), "1|4")
    assert events(match) == [(0, 5, 0, 0, True), (0, 0, 10, 0, False)]
    assert (list(match.scores), match.winner) == ([300, 0], None)
    assert match.round_result == {"blocked": [0]}


def test_blocking_placement_refused_and_the_gain_wins(game: Game) -> None:
    # [4|6] would make 310. Left: 0, 5: 300+5 = 305.
    match = play(lay(game, "4|6 0|0", "0|5", scores=[300, 0]), "4|6")
    assert events(match) == [(0, 10, 0, 0, False), (0, 0, 5, 0, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)


def test_blocking_placement_wins_before_any_settlement(game: Game) -> None:
    # [4|6] makes 305. Left: 1, 10: without the win seat 0 would gain 9 -> 10.
    match = play(lay(game, "4|6 0|1", "5|5", scores=[295, 0]), "4|6")
    assert events(match) == [(0, 10, 0, 0, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)
    assert match.round_result == {"won": 0}


def test_blocking_placement_of_one_side_and_the_gain_of_the_other(game: Game) -> None:
    # [4|6] brings 10 to side 0. Left: 10, 1: 9 -> 10 for side 1.
    match = play(lay(game, "4|6 5|5", "0|1", scores=[0, 295]), "4|6")
    assert events(match) == [(0, 10, 0, 0, True), (1, 0, 10, 0, True)]
    assert (list(match.scores), match.winner) == ([10, 305], 1)


# 305 by other ways


def test_won_by_an_opening(game: Game) -> None:
    match = lay(game, "5|5 0|1", "0|5 2|2", boneyard="3|3", scores=[295, 300])
    play(match, "5|5")  # 10
    assert (list(match.scores), match.winner) == ([305, 300], 0)
    assert (match.round_result, match.legal()) == ({"won": 0}, [])
    assert list(match.hands[0]) == ["0|1"]


def test_won_in_the_middle_of_a_round(game: Game) -> None:
    match = lay(game, "2|2 2|5", "2|6 1|1", boneyard="3|3", scores=[300, 295])
    play(match, "2|2", "2|6@2|2.line_a")  # 4, then 4+6
    assert (list(match.scores), match.winner) == ([300, 305], 1)
    assert (match.round_result, match.legal()) == ({"won": 1}, [])


def test_won_by_a_tile_just_drawn(game: Game) -> None:
    match = lay(game, "6|6 5|6", "0|1 1|1", boneyard="3|6 2|2", scores=[0, 290])
    play(match, "6|6", "draw", "3|6@6|6.line_a")  # 12+3 = 15
    assert (list(match.scores), match.winner) == ([0, 305], 1)
    assert list(match.boneyard) == ["2|2"]


def test_won_by_going_out(game: Game) -> None:
    match = play(lay(game, "4|5", "4|6", scores=[295, 0]), "4|5")  # 9 scores nothing; 10
    assert events(match) == [(0, 0, 10, 0, True)]
    assert (match.winner, match.round_result) == (0, {"won": 0})


def test_won_by_the_sum_of_last_placement_and_settlement(game: Game) -> None:
    match = play(lay(game, "1|4", "4|6", scores=[290, 0]), "1|4")  # 5+10
    assert events(match) == [(0, 5, 10, 0, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)


def test_not_won_by_the_last_placement_alone(game: Game) -> None:
    # The placement makes 305 on paper, but it is one event with +5: 310.
    match = play(lay(game, "1|4", "0|6", scores=[300, 0]), "1|4")
    assert events(match) == [(0, 5, 5, 0, False)]
    assert (list(match.scores), match.winner) == ([300, 0], None)


def test_a_round_may_start_below_zero(game: Game) -> None:
    match = lay(game, "1|4 0|0", "2|2", boneyard="5|5", scores=[-10, 0])
    assert list(play(match, "1|4").scores) == [-5, 0]


# The partner's deduction: opponents 12+8 = 20, partner 7 -> 5


def test_partners_deduction_makes_305_exactly(game: Game) -> None:
    match = play(lay(game, "4|5", "6|6", "3|4", "4|4", scores=[290, 0]), "4|5")  # 290+20-5
    assert events(match) == [(0, 0, 20, -5, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)


def test_partners_deduction_joins_the_placement_too(game: Game) -> None:
    match = play(lay(game, "1|4", "6|6", "3|4", "4|4", scores=[285, 0]), "1|4")  # 5+20-5
    assert events(match) == [(0, 5, 20, -5, True)]
    assert (list(match.scores), match.winner) == ([305, 0], 0)


def test_partners_deduction_is_refused_with_the_rest(game: Game) -> None:
    match = play(lay(game, "1|4", "6|6", "3|4", "4|4", scores=[290, 0]), "1|4")  # 310
    assert events(match) == [(0, 5, 20, -5, False)]
    assert (list(match.scores), match.winner) == ([290, 0], None)


def test_partners_deduction_that_outweighs_the_gain(game: Game) -> None:
    # Seat 1 goes out with 5; opponents 1+0 -> 0; partner 12+11 = 23 -> 25: 10+5-25 = -10.
    match = lay(game, "0|1", "1|4", "0|0", "6|6 5|6", starter=1, scores=[0, 10])
    play(match, "1|4")
    assert events(match) == [(1, 5, 0, -25, True)]
    assert list(match.scores) == [0, -10]


def test_partners_deduction_from_300_is_accepted(game: Game) -> None:
    match = lay(game, "0|1", "1|4", "0|0", "6|6 5|6", starter=1, scores=[0, 300])
    play(match, "1|4")
    assert (list(match.scores), match.winner) == ([0, 280], None)


def test_partners_deduction_that_levels_the_gain_is_still_an_event(game: Game) -> None:
    # Opponents 2+3 = 5, partner 6 -> 5.
    match = play(lay(game, "4|5", "1|1", "0|6", "0|3", scores=[300, 0]), "4|5")
    assert events(match) == [(0, 0, 5, -5, True)]
    assert (list(match.scores), match.winner) == ([300, 0], None)


def test_partners_hand_is_rounded_apart_from_the_opponents(game: Game) -> None:
    # Opponents 5+3 = 8 -> 10, partner 2 -> 0: +10, although 8-2 = 6 -> 5.
    match = play(lay(game, "4|5", "0|5", "1|1", "1|2"), "4|5")
    assert events(match) == [(0, 0, 10, 0, True)]
    assert list(match.scores) == [10, 0]


# Refused placements


def test_refused_placement_stays_on_the_table(game: Game) -> None:
    match = lay(game, "4|6 0|0", "1|6 2|2", boneyard="3|3", scores=[300, 0])
    play(match, "4|6")
    assert events(match) == [(0, 10, 0, 0, False)]
    assert (match.total(), match.turn, match.round_over) == (10, 1, False)
    assert sorted(match.open_ports()) == ["4|6.high", "4|6.low"]
    assert list(match.hands[0]) == ["0|0"]


def test_refused_placement_is_legal_beside_a_fitting_one(game: Game) -> None:
    # After [2|2]: 2|6 counts 4+6 = 10 (310), 1|2 counts 4+1 = 5 (305).
    match = lay(game, "2|2 3|3", "2|6 1|2", boneyard="5|5", scores=[0, 300])
    play(match, "2|2")
    expected = ["1|2@2|2.line_a", "1|2@2|2.line_b", "2|6@2|2.line_a", "2|6@2|2.line_b"]
    assert sorted(match.legal()) == expected
    play(match, "2|6@2|2.line_a")
    assert (events(match), list(match.scores)) == ([(1, 10, 0, 0, False)], [0, 300])


def test_refused_placement_is_forced_when_it_is_the_only_one(game: Game) -> None:
    # [5|5] scores 10; 0|5 counts 10+0 = 10 at either line: 310.
    match = lay(game, "5|5 0|0", "0|5 1|2", boneyard="3|3", scores=[0, 300])
    play(match, "5|5")
    assert sorted(match.legal()) == ["0|5@5|5.line_a", "0|5@5|5.line_b"]
    play(match, "0|5@5|5.line_a")
    assert events(match) == [(1, 10, 0, 0, False)]
    assert (list(match.scores), match.turn) == ([10, 300], 0)
    assert sorted(match.open_ports()) == ["0|5.low", "5|5.line_b"]


def test_refused_going_out_ends_the_round_and_starts_the_next(game: Game) -> None:
    # Seat 2: 5 for the placement, opponents 10+0 = 10: 300+15.
    match = lay(game, "4|6", "0|0", "1|4", starter=2, scores=[0, 0, 300])
    play(match, "1|4")
    assert events(match) == [(2, 5, 10, 0, False)]
    assert (list(match.scores), match.winner) == ([0, 0, 300], None)
    assert (match.round_result, match.legal()) == ({"out": 2}, [])
    assert starts_next(match) == 2


# Going out


def test_going_out_without_any_points_is_no_event(game: Game) -> None:
    match = play(lay(game, "3|4", "0|0", "0|2"), "3|4")  # 7; 0+2 -> 0
    assert (events(match), list(match.scores)) == ([], [0, 0, 0])
    assert match.round_result == {"out": 0}


def test_going_out_and_leaving_nobody_a_placement(game: Game) -> None:
    # Left: 0, 5, 15, 9. Opponents 5+9 = 14 -> 15, partner 15. As a block, side 0 would have got
    # 14 -> 15 without a deduction, and side 1 10 for seat 1 and 6 -> 5 for seat 3.
    match = play(lay(game, "6|6", "0|5", "5|5 1|4", "4|5"), "6|6")
    assert match.round_result == {"out": 0}
    assert events(match) == [(0, 0, 15, -15, True)]
    assert list(match.scores) == [0, 0]
    assert starts_next(match) == 0


def test_going_out_settles_also_after_draws(game: Game) -> None:
    # Seat 1 draws 2|3 and passes; seat 0 places 4|6: 12+4 = 16. Opponent: 1+5 = 6 -> 5.
    match = lay(game, "6|6 4|6", "0|1", boneyard="2|3")
    play(match, "6|6", "draw", "pass", "4|6@6|6.line_b")
    assert events(match) == [(0, 0, 5, 0, True)]
    assert starts_next(match) == 0


# Drawing and passing


def test_drawing_the_boneyard_empty_and_then_placing(game: Game) -> None:
    match = lay(game, "6|6 1|1", "0|1", boneyard="2|3 3|6")
    play(match, "6|6", "draw", "draw")
    assert list(match.boneyard) == []
    assert sorted(match.legal()) == ["3|6@6|6.line_a", "3|6@6|6.line_b"]
    play(match, "3|6@6|6.line_a")  # 12+3 = 15
    assert (list(match.scores), match.turn) == ([0, 15], 0)
    # Open are 6 and 3: seat 0 has 1|1, seat 1 has 2|3.
    assert match.legal() == ["pass"]
    play(match, "pass", "2|3@3|6.low")  # 12+2 = 14
    # Open are 6 and 2; left: 2, 1. The difference 1 rounds to nothing.
    assert match.round_result == {"blocked": [1]}
    assert (events(match), list(match.scores)) == ([], [0, 15])


def test_drawing_the_boneyard_empty_and_then_passing(game: Game) -> None:
    match = lay(game, "6|6 4|6 0|0", "0|1", "2|2", boneyard="2|3")
    play(match, "6|6", "draw")
    assert (match.turn, match.legal(), list(match.boneyard)) == (1, ["pass"], [])
    play(match, "pass")
    assert (match.turn, match.legal()) == (2, ["pass"])  # nothing left to draw
    play(match, "pass")
    assert sorted(match.legal()) == ["4|6@6|6.line_a", "4|6@6|6.line_b"]


def test_drawing_the_boneyard_empty_and_blocking(game: Game) -> None:
    # Seat 1 draws 2|3, then 5|5. Left: 2, 1+5+10 = 16: 14 -> 15.
    match = lay(game, "6|6 1|1", "0|1", boneyard="2|3 5|5")
    play(match, "6|6", "draw")
    assert (match.round_over, match.legal()) == (False, ["draw"])
    play(match, "draw")
    assert (match.round_over, match.round_result) == (True, {"blocked": [0]})
    assert events(match) == [(0, 0, 15, 0, True)]


def test_drawn_tile_that_fits_two_ports(game: Game) -> None:
    # 1|4 scores 5, 3|4 leaves 1+3; seat 0 draws 5|5 and then 1|3, which fits at both ends.
    match = lay(game, "1|4 0|0", "3|4 2|2", boneyard="5|5 1|3 6|6")
    play(match, "1|4", "3|4@1|4.high", "draw", "draw")
    assert sorted(match.legal()) == ["1|3@1|4.low", "1|3@3|4.low"]
    play(match, "1|3@3|4.low")
    assert sorted(match.open_ports()) == ["1|3.low", "1|4.low"]
    assert (match.total(), list(match.scores)) == (2, [5, 0])


def test_drawn_tiles_of_earlier_turns_are_free_again(game: Game) -> None:
    # Seat 1 keeps 2|3 when it has to place 3|6; at its next turn 2|3 fits there.
    match = lay(game, "6|6 5|6 1|1", "0|1", boneyard="2|3 3|6 4|4")
    play(match, "6|6", "draw", "draw", "3|6@6|6.line_a", "5|6@6|6.line_b")  # 12, 15, 3+5 = 8
    assert match.legal() == ["2|3@3|6.low"]


@pytest.mark.parametrize("boneyard", ["", "3|3 4|4"])
def test_seat_with_a_placement_may_neither_draw_nor_pass(game: Game, boneyard: str) -> None:
    match = play(lay(game, "2|2 1|1", "2|5 0|1", boneyard=boneyard), "2|2")
    assert sorted(match.legal()) == ["2|5@2|2.line_a", "2|5@2|2.line_b"]


@pytest.mark.parametrize("boneyard", ["", "3|3 4|4"])
def test_seat_on_an_empty_table_may_neither_draw_nor_pass(game: Game, boneyard: str) -> None:
    match = lay(game, "2|2 1|1", "2|5 0|1", boneyard=boneyard)
    assert sorted(match.legal()) == ["1|1", "2|2"]


def test_not_blocked_while_any_seat_has_a_placement(game: Game) -> None:
    match = play(lay(game, "6|6 1|2", "0|0", "4|6"), "6|6")
    assert (match.round_over, match.legal()) == (False, ["pass"])


# The widest table


def test_all_seven_doubles_down_with_sixteen_open_ports(game: Game) -> None:
    # One line from 0|2 through every double to 4|6. Each sum is the 2 at its left end and what
    # the right end counts.
    line = (
        ("0|0", 0),
        ("0|2@0|0.line_a", 2),
        ("0|1@0|0.line_b", 2 + 1),
        ("1|1@0|1.high", 2 + 2),
        ("1|2@1|1.line_b", 2 + 2),
        ("2|2@1|2.high", 2 + 4),
        ("2|3@2|2.line_b", 2 + 3),
        ("3|3@2|3.high", 2 + 6),
        ("3|4@3|3.line_b", 2 + 4),
        ("4|4@3|4.high", 2 + 8),
        ("4|5@4|4.line_b", 2 + 5),
        ("5|5@4|5.high", 2 + 10),
        ("5|6@5|5.line_b", 2 + 6),
        ("6|6@5|6.high", 2 + 12),
        ("4|6@6|6.line_b", 2 + 4),
    )
    match = lay(
        game,
        "0|0 0|1 1|2 2|3 3|4 4|5 5|6 4|6 3|5",
        "0|2 1|1 2|2 3|3 4|4 5|5 6|6 2|4",
        boneyard="0|6",
    )
    assert [play(match, text).total() for text, _ in line] == [total for _, total in line]
    assert list(match.scores) == [5, 10]  # 2|3 by seat 0, 4|4 by seat 1
    branches = [f"{pip}|{pip}.branch_{side}" for pip in range(7) for side in "ab"]
    assert sorted(match.open_ports()) == sorted([*branches, "0|2.high", "4|6.low"])
    assert len(match.open_ports()) == 16
    assert sorted(match.contributions()) == [("0|2", 2), ("4|6", 4)]
    twos = ["2|4@0|2.high", "2|4@2|2.branch_a", "2|4@2|2.branch_b"]
    fours = ["2|4@4|4.branch_a", "2|4@4|4.branch_b", "2|4@4|6.low"]
    assert sorted(match.legal()) == twos + fours
