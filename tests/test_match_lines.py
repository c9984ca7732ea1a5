"""Records made at once, from the course of a match or from its decisions: byte for byte those written move by move."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents.arena.blocks import Blocks, block_size, play_blocks
from agents.arena.match_lines import record_lines, replayed
from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env import IllegalAction, Match
from fivesup_env.actions import ENDS_DRAW, ENDS_PASS, NUM_ENDS_ACTIONS, action_mask, action_move, only_action
from fivesup_env.notation import move_text
from fivesup_env.records import Recorder, outcome, parameters, record_line, record_of
from fivesup_env.rules.state import new_state
from tests.conftest import random_mini, random_setup
from tests.playing import SEATS


def written(match: Match, choose: Callable[[Match], str | None], laid_out: bool = False) -> str:
    """The record of a match as a line, put down after every move from what `Match` tells then.

    `choose` tells each move; the match stops where it tells None, and without a whole round the line is empty.
    """
    rounds: list[Any] = []
    line = ""
    head = {"fivesup": 1, **parameters(match), "seed": int(match.state.seed)}
    if laid_out:
        head["laid_out"] = {"scores": match.scores}
    while True:
        now: Any = {"starter": match.starter, "hands": match.hands, "boneyard": match.boneyard}
        actions, events = [], []
        while not match.round_over:
            move = choose(match)
            if move is None:
                return line
            actions.append(f"{match.turn} {move}")
            match.play(move)
            events.append(match.events)
        now |= {"actions": actions, "events": events, "scores": match.scores, "result": match.round_result}
        rounds.append(now)
        winner, tied, leading = outcome(match)
        end = {"winner": winner, "tied": tied, "leading": leading, "scores": match.scores}
        line = json.dumps({**head, "rounds": rounds, **end}, separators=(",", ":")) + "\n"
        if match.winner is not None:
            return line
        match.next_round()


def by_decisions(actions: Sequence[int]) -> Callable[[Match], str | None]:
    """What `written` takes, to replay decisions."""
    left = iter(actions)

    def choose(match: Match) -> str | None:
        action = int(only_action(match.state))
        action = next(left, -1) if action < 0 else action
        return None if action < 0 else move_text(*action_move(match.state, action))

    return choose


def by_texts(moves: Iterable[str]) -> Callable[[Match], str | None]:
    """The same for texts of all moves."""
    left = iter(moves)
    return lambda _: next(left, None)


def slow_lines(blocks: Blocks, seats: int, first_seed: int) -> list[str]:
    size = block_size(seats)
    return [
        written(Match(seats, seed=first_seed + match // size), by_decisions(actions))
        for match, actions in enumerate(blocks.actions)
    ]


def random_decisions(match: Match, rng: random.Random, rounds: int) -> list[int]:
    """The decisions of random play until somebody wins or so many rounds are over; the match is played."""
    actions = []
    while True:
        action = int(only_action(match.state))
        if action < 0:
            action = int(rng.choice(np.flatnonzero(action_mask(match.state)).tolist()))
            actions.append(action)
        match.play(move_text(*action_move(match.state, action)))
        if match.round_over:
            if match.winner is not None or match.round == rounds:
                return actions
            match.next_round()


# Matches of the arena


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("max_rounds", [1000, 1, 4])
def test_the_line_of_a_match_is_that_written_move_by_move(seats: int, max_rounds: int) -> None:
    """Also with refused events, and of matches that were stopped."""
    blocks = play_blocks(RandomAgent(), GreedyAgent(), seats, first=2, count=4, seed=70, max_rounds=max_rounds)
    lines = list(record_lines(blocks, seats, 72))
    assert lines == slow_lines(blocks, seats, 72)
    assert all(lines)
    refused = sum(line.count('"accepted":false') for line in lines)
    assert refused == blocks.tallies["refused"].sum()
    assert (refused > 0) == (max_rounds == 1000)


@pytest.mark.parametrize("seats", SEATS)
def test_the_line_of_a_match_that_breaks_off_holds_its_whole_rounds(seats: int) -> None:
    blocks = play_blocks(GreedyAgent(), RandomAgent(), seats, first=0, count=1, seed=90)
    actions = blocks.actions[0]
    blocks.actions = [actions[:length] for length in range(0, len(actions), 7)]
    own = [replayed(new_state(seats, seed=90), cut) for cut in blocks.actions]
    lines = [record_line(record_of(course)) if len(course) else "" for course in own]
    assert lines == [written(Match(seats, seed=90), by_decisions(cut)) for cut in blocks.actions]
    assert lines[0] == ""
    assert len(set(lines)) > 5


def test_without_decisions_there_are_no_lines() -> None:
    blocks = play_blocks(GreedyAgent(), RandomAgent(), 2, first=0, count=1)
    blocks.actions.clear()
    assert list(record_lines(blocks, 2, 0)) == []


@pytest.mark.parametrize("wrong", [-1, 0, 28, 160, ENDS_DRAW, ENDS_PASS, NUM_ENDS_ACTIONS, 2**40])
def test_a_decision_that_is_not_legal_is_named(wrong: int) -> None:
    """The starter does not hold [0|0], and does not open with anything else of these."""
    blocks = play_blocks(GreedyAgent(), RandomAgent(), 2, first=0, count=1, seed=3)
    blocks.actions[0][0] = wrong
    with pytest.raises(IllegalAction, match=rf"player_{Match(2, seed=3).turn} cannot .* moves=- "):
        list(record_lines(blocks, 2, 3))


def test_a_decision_that_is_not_legal_is_found_after_whole_rounds() -> None:
    actions = play_blocks(GreedyAgent(), RandomAgent(), 2, first=0, count=1, seed=3).actions[0]
    middle = [*actions[: len(actions) // 2], ENDS_PASS, *actions[len(actions) // 2 :]]
    with pytest.raises(IllegalAction, match=r"cannot pass: .* round=[1-9]"):
        replayed(new_state(2, seed=3), middle)
    with pytest.raises(IllegalAction, match="cannot pass: "):
        written(Match(2, seed=3), by_decisions(middle))


# Other games


@pytest.mark.parametrize("seats", SEATS)
def test_small_games_replayed_from_their_decisions(seats: int) -> None:
    """With one tile a hand even openings are forced, and whole rounds may hold no decision."""
    for seed in range(40):
        given = random_mini(random.Random(seed), seats)
        actions = random_decisions(Match(**given), random.Random(seed), 4)
        line = record_line(record_of(replayed(Match(**given).state, actions)))
        assert line == written(Match(**given), by_decisions(actions))


@pytest.mark.parametrize("seats", SEATS)
def test_a_recorder_gives_what_is_written_move_by_move(seats: int) -> None:
    """From rounds laid out by hand, near the target and at odd places."""
    refused = 0
    for seed in range(60):
        setup = random_setup(random.Random(seed), seats) | {"seed": seed}
        recorder, rng = Recorder(Match.from_setup(setup)), random.Random(seed)
        moves: list[str] = []
        while recorder.match.winner is None and recorder.match.round <= 3:
            if recorder.match.round_over:
                line = record_line(recorder.record())
                recorder.next_round()
            moves.append(rng.choice(recorder.match.legal()))
            recorder.play(moves[-1])
        if recorder.match.winner is not None:
            line = record_line(recorder.record())
        assert line == written(Match.from_setup(setup), by_texts(moves), laid_out=True)
        refused += line.count('"accepted":false')
    assert refused > 10
