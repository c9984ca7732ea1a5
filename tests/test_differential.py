"""The engine against the reference, step by step: real deals, rounds laid out at random, and small games."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from fivesup_env import Match
from tests.conftest import deal_of, random_mini, random_setup
from tests.reference import Reference

# Per test: matches or rounds in the default run. The slow run plays other games, and twenty times as many.
RUNS = [pytest.param(1, id="short"), pytest.param(20, id="long", marks=pytest.mark.slow)]
SEATS = [2, 3, 4]
MAX_ROUNDS = 40  # of one match; two sides that need five each may go on for long

STEP = ("scores", "hands", "boneyard", "events", "round_over", "round_result", "winner", "next_starter")
TABLE = ("legal", "open_ports", "contributions", "total")

Tally = Counter[str]


def assert_equal(match: Match, reference: Reference) -> None:
    """Both implementations say the same about this moment."""
    names = STEP if match.round_over else ("turn", *STEP)
    for name in names:
        ours, theirs = getattr(match, name), getattr(reference, name)
        assert ours == theirs, f'{name}: engine {ours}, reference {theirs}, in "{match!r}"'
    for name in TABLE:
        ours, theirs = getattr(match, name)(), getattr(reference, name)()
        assert ours == theirs, f'{name}(): engine {ours}, reference {theirs}, in "{match!r}"'
    if not match.round_over:
        assert len(match.legal()) == len(set(match.legal())) > 0, match


def play_round(match: Match, rng: random.Random, tally: Tally) -> None:
    """Play the round that lies before us with both, by random legal actions."""
    reference = Reference.from_setup(deal_of(match))
    assert_equal(match, reference)
    passes = 0
    while not match.round_over:
        mover, text = match.turn, rng.choice(match.legal())
        match.play(text)
        reference.play(text)
        assert_equal(match, reference)
        passes = passes + 1 if text == "pass" else 0
        note_action(tally, match, text, mover, passes)
    if match.next_starter is not None:
        tally["round whose last placer starts the next"] += 1
    tally["rounds"] += 1


def note_action(tally: Tally, match: Match, text: str, mover: int, passes: int) -> None:
    """Count what this action was an example of."""
    tally["actions"] += 1
    tally[f"{min(passes, 3)} passes in a row"] += 1
    tally["draw"] += text == "draw"
    tally["negative score"] += min(match.scores) < 0
    tally["last tile drawn"] += text == "draw" and not match.boneyard
    went_out = not match.hands[mover]
    for event in match.events:
        note_event(tally, event, went_out)
    if match.winner is not None:
        note_win(tally, match, went_out)
    elif match.round_over and not went_out:
        tally["blocked by a draw" if text == "draw" else "blocked by a placement"] += 1
        tally["lowest hand shared"] += len((match.round_result or {})["blocked"]) > 1


def note_event(tally: Tally, event: dict[str, Any], went_out: bool) -> None:
    if went_out:
        kind = "going out with a partner" if event["partner"] else "going out"
    else:
        kind = "blocked gain" if event["settlement"] else "placement"
    tally[f"{kind} {'accepted' if event['accepted'] else 'refused'}"] += 1
    tally["side that loses points"] += (
        event["accepted"] and event["placement"] + event["settlement"] < -event["partner"]
    )


def note_win(tally: Tally, match: Match, went_out: bool) -> None:
    if went_out:
        tally["won by going out"] += 1
    elif match.events[-1]["settlement"]:
        tally["won in a blocked settlement"] += 1
    else:
        tally["won by an opening" if len(match.history) == 1 else "won in the middle of a round"] += 1


def assert_seen(tally: Tally, *names: str) -> None:
    """Each of these happened: the test has tested what it is for."""
    assert [name for name in names if not tally[name]] == [], tally


LAID_OUT = (
    "draw",
    "last tile drawn",
    "1 passes in a row",
    "placement accepted",
    "placement refused",
    "going out accepted",
    "going out refused",
    "blocked gain accepted",
    "blocked gain refused",
    "blocked by a draw",
    "blocked by a placement",
    "lowest hand shared",
    "round whose last placer starts the next",
    "won by an opening",
    "won in the middle of a round",
    "won by going out",
    "won in a blocked settlement",
)
PARTNERS = (
    "going out with a partner accepted",
    "going out with a partner refused",
    "side that loses points",
    "negative score",
)


@pytest.mark.parametrize("times", RUNS)
@pytest.mark.parametrize("seats", SEATS)
def test_whole_matches_from_real_deals(seats: int, times: int) -> None:
    tally: Tally = Counter()
    for seed in range(10 * times):
        rng = random.Random(f"real {seats} {seed} {times}")
        match = Match(seats, seed=rng.getrandbits(64))
        play_match(match, rng, tally)
    assert_seen(tally, "draw", "1 passes in a row", "placement refused", "going out accepted", "going out refused")


def play_match(match: Match, rng: random.Random, tally: Tally) -> None:
    """Play to the end of the match, and check what goes from one round to the next."""
    while True:
        play_round(match, rng, tally)
        if match.winner is not None or match.round == MAX_ROUNDS:
            return
        scores, starter, number = match.scores, match.next_starter, match.round
        match.next_round()
        assert (match.scores, match.round) == (scores, number + 1)
        assert match.turn == match.starter < match.num_players
        assert starter in (None, match.starter)


@pytest.mark.parametrize("times", RUNS)
@pytest.mark.parametrize("seats", SEATS)
def test_rounds_laid_out_at_random(seats: int, times: int) -> None:
    tally: Tally = Counter()
    for number in range(1500 * times):
        rng = random.Random(f"laid out {seats} {number} {times}")
        setup = random_setup(rng, seats, rng.choice([305, 305, 305, 100, 30]))
        play_round(Match.from_setup(setup), rng, tally)
    assert_seen(tally, *LAID_OUT, "negative score")
    if seats > 2:
        assert_seen(tally, "2 passes in a row")
    if seats == 4:
        assert_seen(tally, *PARTNERS, "3 passes in a row")


@pytest.mark.parametrize("times", RUNS)
@pytest.mark.parametrize("seats", SEATS)
def test_matches_of_small_games(seats: int, times: int) -> None:
    tally: Tally = Counter()
    for number in range(140 * times):
        rng = random.Random(f"small {seats} {number} {times}")
        play_match(Match(**random_mini(rng, seats)), rng, tally)
    assert_seen(tally, "draw", "1 passes in a row", "placement refused", "going out refused", "blocked gain accepted")
    assert_seen(tally, "won by an opening", "won by going out", "won in a blocked settlement")
    if seats == 4:
        assert_seen(tally, *PARTNERS)
