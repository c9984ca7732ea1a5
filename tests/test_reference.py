"""The reference implementation against the golden positions and the worked numbers of the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from tests.reference import (
    Event,
    Reference,
    is_double,
    nearest_five,
    parse_port,
    port_value,
    tile_text,
)

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "golden_positions.json").read_text(encoding="utf-8")
)
ALL_TILES = [tile_text(tile) for tile in combinations_with_replacement(range(7), 2)]  # R1

# The long chain of the golden positions, with what each placement scores.
CHAIN = [
    ("1|4", 5),
    ("1|1@1|4.low", 0),
    ("4|4@1|4.high", 10),
    ("3|4@4|4.line_b", 5),
    ("1|2@1|1.line_b", 5),
    ("1|5@1|1.branch_a", 10),
    ("5|5@1|5.high", 15),
    ("0|5@5|5.line_b", 5),
    ("1|3@1|1.branch_b", 0),
]


def event(side: int, placement: int = 0, settlement: int = 0, partner: int = 0, accepted: bool = True) -> Event:
    return {
        "side": side,
        "placement": placement,
        "settlement": settlement,
        "partner": partner,
        "accepted": accepted,
    }


def lay_out(*hands: str, **rest: object) -> Reference:
    """Set up a round from hands written as tiles with blanks between."""
    return Reference.from_setup({"num_players": len(hands), "hands": [hand.split() for hand in hands], **rest})


def play(game: Reference, *actions: str) -> None:
    for action in actions:
        game.play(action)


def alternating(actions: Sequence[str]) -> Reference:
    """Set up two seats that can play these placements in turn and keep a tile each."""
    tiles = [action.partition("@")[0] for action in actions]
    spare = [tile for tile in ALL_TILES if tile not in tiles]
    hands = (tiles[0::2] + spare[:1], tiles[1::2] + spare[1:2])
    return lay_out(*map(" ".join, hands), boneyard=spare[2:])


def texts(tiles: Iterable[tuple[int, int]]) -> list[str]:
    return [f"{low}|{high}" for low, high in tiles]


def joint_texts(position: dict[str, Any]) -> list[tuple[str, str]]:
    def end_text(end: dict[str, Any]) -> str:
        return f"{end['tile'][0]}|{end['tile'][1]}.{end['port']}"

    return [(end_text(old), end_text(new)) for old, new in position["connections"]]


def golden_actions(position: dict[str, Any]) -> list[str]:
    """Turn a position's connections into the placements that lead to it."""
    opening, *others = texts(position["tiles"])
    joined_to = {new.partition(".")[0]: old for old, new in joint_texts(position)}
    return [opening, *(f"{tile}@{joined_to[tile]}" for tile in others)]


@pytest.fixture(params=GOLDEN, ids=lambda position: "-".join(texts(position["tiles"])))
def golden(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Reference]:
    actions = golden_actions(request.param)
    game = alternating(actions)
    play(game, *actions)
    return request.param, game


def test_there_are_eleven_golden_positions() -> None:
    assert len(GOLDEN) == 11


def test_golden_ports(golden: tuple[dict[str, Any], Reference]) -> None:
    position, game = golden
    expected = [(*texts([port["tile"]]), port["port"], port["value"]) for port in position["open_ports"]]
    found = [(tile_text(tile), name, port_value((tile, name))) for tile, name in map(parse_port, game.open_ports())]
    assert sorted(found) == sorted(expected)


def test_golden_connections(golden: tuple[dict[str, Any], Reference]) -> None:
    position, game = golden
    assert sorted(game.connections()) == sorted(joint_texts(position))


def test_golden_count(golden: tuple[dict[str, Any], Reference]) -> None:
    position, game = golden
    expected = [(*texts([part["tile"]]), part["points"]) for part in position["contributions"]]
    assert sorted(game.contributions()) == sorted(expected)
    assert game.total() == position["total"]


def test_golden_score(golden: tuple[dict[str, Any], Reference]) -> None:
    position, game = golden
    mover = (len(position["tiles"]) - 1) % 2
    raw = position["raw"]
    assert texts([position["placed"]]) == texts(position["tiles"][-1:])
    assert game.events == ([event(mover, placement=raw)] if raw else [])
    assert raw == 5 * position["shown"]


def test_golden_spinners(golden: tuple[dict[str, Any], Reference]) -> None:
    position, _ = golden
    doubles = [tile for tile in map(tuple, position["tiles"]) if is_double(tile)]
    assert texts(doubles) == texts(position["spinners"])


def test_r10_every_step_of_the_golden_chain() -> None:
    game = alternating([action for action, _ in CHAIN])
    found = []
    for action, _ in CHAIN:
        game.play(action)
        found.append(sum(part["placement"] for part in game.events))
    assert found == [points for _, points in CHAIN]
    # Seat 0 makes 5 + 10 + 5 + 15 + 0, seat 1 makes 0 + 5 + 10 + 5.
    assert game.scores == [35, 20]


def test_r10_opening_with_nine_scores_nothing() -> None:
    game = alternating(["3|6", "6|6@3|6.high"])
    game.play("3|6")
    assert (game.total(), game.events) == (9, [])
    game.play("6|6@3|6.high")
    assert (game.total(), game.events) == (15, [event(1, placement=15)])


def test_r06_ports_and_counts_come_in_order_of_placement() -> None:
    actions = [action for action, _ in CHAIN[:8]]
    game = alternating(actions)
    assert (game.open_ports(), game.contributions(), game.total()) == ([], [], 0)
    game.play("1|4")
    assert game.open_ports() == ["1|4.low", "1|4.high"]
    assert game.contributions() == [("1|4", 1), ("1|4", 4)]
    play(game, *actions[1:])
    assert game.open_ports() == [
        "1|1.branch_b",
        "4|4.branch_a",
        "4|4.branch_b",
        "3|4.low",
        "1|2.high",
        "5|5.branch_a",
        "5|5.branch_b",
        "0|5.low",
    ]
    assert game.contributions() == [("3|4", 3), ("1|2", 2), ("0|5", 0)]


def test_r07_a_double_on_a_branch_is_a_spinner_too() -> None:
    actions = ["2|2", "2|5@2|2.line_a", "0|2@2|2.line_b", "2|3@2|2.branch_b"]
    actions += ["3|3@2|3.high", "3|6@3|3.line_b", "3|4@3|3.branch_b"]
    game = alternating(actions)
    play(game, *actions[:3])
    assert game.open_ports() == ["2|2.branch_a", "2|2.branch_b", "2|5.high", "0|2.low"]
    play(game, *actions[3:])
    assert game.open_ports() == [
        "2|2.branch_a",
        "2|5.high",
        "0|2.low",
        "3|3.branch_a",
        "3|6.high",
        "3|4.high",
    ]
    assert game.connections()[3:5] == [("2|3.high", "3|3.line_a"), ("3|3.line_b", "3|6.low")]
    # 5 + 0 + 6 + 4
    assert (game.total(), game.events) == (15, [event(0, placement=15)])


def test_r08_branches_open_with_the_second_line() -> None:
    actions = ["6|6", "1|6@6|6.line_b", "5|6@6|6.line_a"]
    game = alternating(actions)
    play(game, *actions[:2])
    assert game.open_ports() == ["6|6.line_a", "1|6.low"]
    assert game.contributions() == [("6|6", 12), ("1|6", 1)]
    game.play(actions[2])
    assert game.open_ports() == ["6|6.branch_a", "6|6.branch_b", "1|6.low", "5|6.low"]
    assert game.contributions() == [("1|6", 1), ("5|6", 5)]


def test_r05_any_tile_opens_and_turns_go_clockwise() -> None:
    game = lay_out("1|2 3|3", "2|3 5|5", "1|3 4|4", starter=2)
    assert (game.starter, game.turn, game.legal()) == (2, 2, ["1|3", "4|4"])
    game.play("1|3")
    assert (game.turn, game.legal()) == (0, ["1|2@1|3.low", "3|3@1|3.high"])
    game.play("1|2@1|3.low")
    assert (game.starter, game.turn, game.legal()) == (2, 1, ["2|3@1|3.high", "2|3@1|2.high"])


def test_r11_every_open_port_is_listed() -> None:
    game = lay_out("4|4 0|0", "2|4 5|5", boneyard=["0|1"])
    game.play("4|4")
    assert game.legal() == ["2|4@4|4.line_a", "2|4@4|4.line_b"]


def test_r12_draws_until_a_tile_fits_and_places_that_one() -> None:
    game = lay_out("1|1 1|2", "2|3 5|5", boneyard=["4|4", "1|6", "0|0"])
    game.play("1|1")
    assert game.legal() == ["draw"]
    game.play("draw")
    assert (game.turn, game.legal(), game.boneyard) == (1, ["draw"], ["1|6", "0|0"])
    game.play("draw")
    assert game.hands == [["1|2"], ["1|6", "2|3", "4|4", "5|5"]]
    assert game.legal() == ["1|6@1|1.line_a", "1|6@1|1.line_b"]
    with pytest.raises(ValueError, match="draw"):
        game.play("draw")
    game.play("1|6@1|1.line_b")
    assert (game.turn, game.boneyard, game.round_over) == (0, ["0|0"], False)


def test_r13_passes_once_the_boneyard_is_empty() -> None:
    game = lay_out("1|1 1|2", "3|3 5|5", boneyard=["4|4"])
    game.play("1|1")
    with pytest.raises(ValueError, match="pass"):
        game.play("pass")
    game.play("draw")
    # Seat 0 can still place, so the round is not blocked.
    assert (game.legal(), game.round_over) == (["pass"], False)
    game.play("pass")
    assert (game.turn, game.legal()) == (0, ["1|2@1|1.line_a", "1|2@1|1.line_b"])


@pytest.mark.parametrize("text", ["2|2", "1|2", "2|3@1|1.line_a", "1|2@1|1.branch_a", "draw", "?"])
def test_an_illegal_play_changes_nothing(text: str) -> None:
    game = lay_out("1|1 4|5", "1|2 2|3", boneyard=["6|6"])
    game.play("1|1")
    with pytest.raises(ValueError, match="seat 1"):
        game.play(text)
    assert (game.turn, game.hands, game.boneyard) == (1, [["4|5"], ["1|2", "2|3"]], ["6|6"])
    assert game.open_ports() == ["1|1.line_a", "1|1.line_b"]


def test_r15_example_with_partners() -> None:
    game = lay_out("0|1", "6|6", "3|4", "3|5")
    game.play("0|1")
    assert game.events == [event(0, settlement=20, partner=-5)]
    assert game.scores == [15, 0]
    assert (game.round_result, game.next_starter, game.winner) == ({"out": 0}, 0, None)
    assert (game.round_over, game.legal()) == (True, [])


def test_r15_the_opponents_sum_is_rounded_once() -> None:
    # 2 and 2 make 4, which goes up; each alone would go down.
    game = lay_out("3|6", "1|1", "0|2")
    game.play("3|6")
    assert game.events == [event(0, settlement=5)]


def test_r15_placement_and_settlement_are_one_event() -> None:
    game = lay_out("2|3", "4|4")
    game.play("2|3")
    assert (game.events, game.scores) == ([event(0, placement=5, settlement=10)], [15, 0])


def test_r16_rounding() -> None:
    assert [nearest_five(points) for points in range(11)] == [0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]
    assert [nearest_five(points) for points in (12, 13, 16)] == [10, 15, 15]


def test_r18_example_with_three_sides() -> None:
    game = lay_out("0|0 1|3", "4|5", "2|3 4|6")
    game.play("0|0")
    assert game.events == [event(0, settlement=15), event(1, settlement=5)]
    assert game.scores == [15, 5, 0]
    assert (game.round_result, game.next_starter) == ({"blocked": [0]}, None)


def test_r18_partners_are_neither_added_nor_compared() -> None:
    # Hands 2, 5, 20, 9. Seat 0: 3 + 7 = 10. Seat 1: 15. Seat 3: 11 -> 10. Seat 2: nothing.
    game = lay_out("0|0 1|1", "2|3", "4|6 5|5", "4|5")
    game.play("0|0")
    assert game.events == [
        event(0, settlement=10),
        event(1, settlement=15),
        event(1, settlement=10),
    ]
    assert (game.scores, game.round_result) == ([10, 25], {"blocked": [0]})


def test_r17_several_seats_may_share_the_lowest_hand() -> None:
    game = lay_out("0|0 2|4", "1|5", "6|6")
    game.play("0|0")
    assert game.round_result == {"blocked": [0, 1]}
    # 12 - 6 = 6 for both; seat 1 is handled first, being next to move (D2).
    assert game.events == [event(1, settlement=5), event(0, settlement=5)]


def test_r22_example_refuses_the_whole_event() -> None:
    game = lay_out("1|4", "4|6", scores=[300, 0])
    game.play("1|4")
    assert game.events == [event(0, placement=5, settlement=10, accepted=False)]
    assert game.scores == [300, 0]
    assert (game.round_result, game.next_starter, game.winner) == ({"out": 0}, 0, None)


def test_r22_a_refused_placement_stands() -> None:
    game = lay_out("5|5 1|2", "2|6 4|5", boneyard=["0|0"], scores=[300, 0])
    game.play("5|5")
    assert game.events == [event(0, placement=10, accepted=False)]
    assert (game.scores, game.turn, game.round_over) == ([300, 0], 1, False)
    assert game.open_ports() == ["5|5.line_a", "5|5.line_b"]


def test_r22_a_refusal_leaves_later_events_alone() -> None:
    # As in R18 with partners: seat 1's 15 would make 310; seat 3's 10 makes exactly 305.
    game = lay_out("0|0 1|1", "2|3", "4|6 5|5", "4|5", scores=[0, 295])
    game.play("0|0")
    assert game.events == [
        event(0, settlement=10),
        event(1, settlement=15, accepted=False),
        event(1, settlement=10),
    ]
    assert (game.scores, game.winner, game.round_result) == ([10, 305], 1, {"won": 1})


def test_r23_a_placement_that_makes_305_ends_the_match() -> None:
    game = lay_out("1|4 6|6", "1|1 4|4", boneyard=["0|0"], scores=[300, 0])
    game.play("1|4")
    assert (game.scores, game.winner, game.round_result) == ([305, 0], 0, {"won": 0})
    assert (game.round_over, game.legal(), game.next_starter) == (True, [], None)
    with pytest.raises(ValueError, match="seat"):
        game.play("1|1@1|4.low")


def test_r23_a_going_out_event_that_makes_305_wins() -> None:
    game = lay_out("1|4", "4|6", scores=[290, 0])
    game.play("1|4")
    assert game.events == [event(0, placement=5, settlement=10)]
    assert (game.winner, game.round_result, game.next_starter) == (0, {"won": 0}, None)


def test_r23_no_settlement_after_a_winning_block() -> None:
    game = lay_out("0|5 6|6", "1|1", scores=[300, 0])
    game.play("0|5")
    assert game.events == [event(0, placement=5)]
    assert (game.scores, game.round_result) == ([305, 0], {"won": 0})


def test_r20_the_target_may_be_lower_in_mini_games() -> None:
    game = lay_out("1|4 2|2", "1|1", boneyard=["0|0"], target=15, scores=[10, 0], max_pip=4)
    game.play("1|4")
    assert (game.winner, game.scores) == (0, [15, 0])


def test_d01_a_score_may_fall_below_zero() -> None:
    # Opponents 1 + 2 = 3 -> 5, partner 12 -> 10.
    game = lay_out("3|3", "0|1", "6|6", "0|2")
    game.play("3|3")
    assert (game.events, game.scores) == ([event(0, settlement=5, partner=-10)], [-5, 0])


def test_d01_an_event_that_cancels_out_is_still_listed() -> None:
    game = lay_out("3|3", "0|4", "1|4", "0|0")
    game.play("3|3")
    assert (game.events, game.scores) == ([event(0, settlement=5, partner=-5)], [0, 0])


def test_a_partners_deduction_can_bring_an_event_down_to_the_target() -> None:
    # 290 + 20 alone would be refused; less 5 for the partner it is exactly 305.
    game = lay_out("0|1", "6|6", "3|4", "3|5", scores=[290, 0])
    game.play("0|1")
    assert (game.scores, game.winner) == ([305, 0], 0)


def test_d02_after_a_block_by_drawing_the_drawer_is_handled_first() -> None:
    # Seat 1 draws its way to 6 pips and closes the round; seat 2 also holds 6, seat 0 holds 12.
    game = lay_out("0|0 6|6", "1|1", "2|4", boneyard=["1|3"], scores=[0, 300, 300])
    game.play("0|0")
    assert (game.turn, game.legal()) == (1, ["draw"])
    game.play("draw")
    assert game.turn == 1
    assert (game.events, game.round_result) == ([event(1, settlement=5)], {"won": 1})


def test_d03_a_draw_blocks_the_round_before_anyone_passes() -> None:
    game = lay_out("0|0 1|1", "2|2", boneyard=["3|3"])
    play(game, "0|0", "draw")
    # 2 against 4 + 6 = 10: 8 -> 10.
    assert (game.round_result, game.events) == ({"blocked": [0]}, [event(0, settlement=10)])
    assert game.legal() == []


def test_d07_of_two_equal_hands_the_first_handled_wins() -> None:
    # 4, 4 and 14: both gain 10. Seat 0 blocked, so seat 1 comes before it.
    game = lay_out("0|0 1|3", "2|2", "4|4 1|5", scores=[295, 295, 0])
    game.play("0|0")
    assert game.events == [event(1, settlement=10)]
    assert (game.scores, game.winner, game.round_result) == ([295, 305, 0], 1, {"won": 1})


def test_d09_a_blocking_placement_is_an_event_of_its_own() -> None:
    game = lay_out("0|5 1|1", "6|6", scores=[295, 0])
    game.play("0|5")
    assert game.events == [event(0, placement=5), event(0, settlement=10, accepted=False)]
    assert (game.scores, game.round_result, game.winner) == ([300, 0], {"blocked": [0]}, None)


def test_d10_going_out_comes_before_a_block() -> None:
    game = lay_out("1|2 4|4", "1|1")
    play(game, "1|2", "1|1@1|2.low")
    # Nobody could place any more, but seat 1 has gone out: 8 -> 10.
    assert (game.round_result, game.next_starter) == ({"out": 1}, 1)
    assert game.events == [event(1, settlement=10)]
