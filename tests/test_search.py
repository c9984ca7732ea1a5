"""The search interface: playouts and tried actions against the same done move by move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.baselines import GreedyAgent
from fivesup_env import IllegalAction, Match
from fivesup_env.actions import action_mask, action_move
from fivesup_env.notation import move_text
from fivesup_env.policies import random_action
from fivesup_env.rules.state import STATE, States
from fivesup_env.rules.view import view
from fivesup_env.search import gains, play_out, playouts, step_states, try_actions, views_of
from tests.playing import SEATS


def states_of(*matches: Match) -> States:
    return np.array([match.state for match in matches], STATE)


def greedy_text(match: Match) -> str:
    masks = action_mask(match.state)[None]
    action = GreedyAgent().act(states_of(match), masks, np.zeros(1, np.uint64))[0]
    return move_text(*action_move(match.state, int(action)))


@pytest.mark.parametrize("seats", SEATS)
def test_greedy_playouts_to_the_end_of_the_round(seats: int) -> None:
    matches = [Match(seats, seed=seed) for seed in range(40)]
    states = states_of(*matches)
    playouts(states, np.zeros(40, np.uint64))
    for match, state in zip(matches, states, strict=True):
        while not match.round_over:
            match.play(greedy_text(match))
        assert state.tobytes() == match.to_bytes()


@pytest.mark.parametrize("policy", ["greedy", "random"])
@pytest.mark.parametrize("seats", SEATS)
def test_playouts_to_the_end_of_the_match(seats: int, policy: Any) -> None:
    states = states_of(*(Match(seats, seed=seed, target=60) for seed in range(30)))
    keys = np.arange(30, dtype=np.uint64)
    whole, stopped, again = states.copy(), states.copy(), states[::-1].copy()
    playouts(whole, keys, policy=policy, until="match")
    won = [Match.from_bytes(state.tobytes()) for state in whole]
    assert all(match.scores[match.winner] == 60 for match in won if match.winner is not None)
    assert {match.winner for match in won} == set(range(len(won[0].scores)))
    playouts(stopped, keys, policy=policy, until="match", max_rounds=2)
    assert stopped["round_number"].max() == 2
    # A row's result depends on its own state and key alone.
    playouts(again, keys[::-1], policy=policy, until="match")
    assert again[::-1].tobytes() == whole.tobytes()
    for index in range(5):
        alone = states[index].copy()
        play_out(alone, np.uint64(keys[index]), {"greedy": 0, "random": 1}[policy], True, 0)
        assert alone.tobytes() == whole[index].tobytes()


def test_what_is_over_stays_as_it_is() -> None:
    states = states_of(*(Match(seed=seed) for seed in range(5)))
    playouts(states, np.zeros(5, np.uint64), policy="random")
    over = states.copy()
    playouts(states, np.ones(5, np.uint64), policy="random")
    assert states.tobytes() == over.tobytes()


@pytest.mark.parametrize("seats", SEATS)
def test_random_playouts_choose_every_legal_action_equally_often(seats: int) -> None:
    match, draws = Match(seats, seed=5), 4000
    match.play(match.legal()[-1])
    while len(match.legal()) < 3:
        match.play(match.legal()[0])
    for position in (Match(seats, seed=5), match):
        legal = np.flatnonzero(action_mask(position.state))
        assert len(legal) > 1
        chosen = [int(random_action(position.state, np.uint64(key))) for key in range(draws)]
        found = np.array([chosen.count(int(action)) for action in legal])
        assert found.sum() == draws
        expected = draws / len(legal)
        assert (abs(found - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("seats", SEATS)
def test_actions_tried_in_worlds(seats: int) -> None:
    worlds = states_of(*(Match(seats, seed=9) for _ in range(3)))
    actions = np.flatnonzero(action_mask(worlds[0]))
    ends = try_actions(worlds, actions, np.arange(3, dtype=np.uint64))
    assert ends.shape == (len(actions), 3)
    for index, action in enumerate(actions):
        match = Match(seats, seed=9)
        match.play(move_text(*action_move(match.state, int(action))))
        while not match.round_over:
            match.play(greedy_text(match))
        for world in range(3):
            assert ends[index, world].tobytes() == match.to_bytes()
            assert gains(ends)[index, world].tolist() == match.scores + [0] * (3 - len(match.scores))
    assert worlds.tobytes() == states_of(*(Match(seats, seed=9) for _ in range(3))).tobytes()


def test_states_are_stepped_in_place_or_not_at_all() -> None:
    match = Match(seed=3)
    states = states_of(match, match, match)
    legal = int(np.flatnonzero(action_mask(match.state))[0])
    before = states.tobytes()
    for wrong in (162, -1, 163):
        with pytest.raises(IllegalAction, match="row 1: player_"):
            step_states(states, np.array([legal, wrong, wrong]))
        assert states.tobytes() == before
    with pytest.raises(ValueError, match="3 integers"):
        step_states(states, np.array([legal, legal]))
    step_states(states, np.array([legal] * 3))
    match.play(move_text(*action_move(match.state, legal)))
    assert all(state.tobytes() == match.to_bytes() for state in states)


def test_views_of_many_states() -> None:
    match = Match(3, seed=4)
    seen = views_of(states_of(match, match, match), np.arange(3))
    assert [row.tobytes() for row in seen] == [view(match.state, seat).tobytes() for seat in range(3)]


@pytest.mark.parametrize("wrong", [{"policy": "best"}, {"until": "noon"}, {"keys": np.zeros(2, np.uint64)}])
def test_impossible_playouts(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"policy|until|keys"):
        playouts(states_of(Match(seed=1)), **{"keys": np.zeros(1, np.uint64), **wrong})
