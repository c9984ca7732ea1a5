"""The game in OpenSpiel: its own checks and algorithms, the engine move by move, beliefs by enumeration."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")

import fivesup_env.openspiel  # noqa: E402, F401  (registers the game; needs pyspiel)
from fivesup_env import Match, fivesup_v0  # noqa: E402
from fivesup_env.actions import ENDS_DRAW, NUM_ENDS_ACTIONS, action_move, ends_id  # noqa: E402
from fivesup_env.extensive import ENDS_TEXTS, hand_number, hand_of, lowest_chances, resample  # noqa: E402
from fivesup_env.notation import tile_texts  # noqa: E402
from fivesup_env.observation import encode  # noqa: E402
from fivesup_env.openspiel import PARAMETERS, setup_of  # noqa: E402

#: 828 histories when the lot decides; six tiles, two in hand, two to draw.
TINY = "fivesup(max_pip=2,hand_size=2,episode=round,reward=margin,target=20)"
#: With a side that needs 5 and one that needs 10, so that events are refused.
EXACT = "fivesup(max_pip=2,hand_size=2,episode=round,reward=margin,target=20,scores=15 10)"
TILEWISE = "fivesup(max_pip=2,hand_size=2,episode=round,reward=points,deal=tile,starter=1)"
#: Nothing to draw, so that seats pass.
THREE = "fivesup(num_players=3,max_pip=2,hand_size=2,episode=round,reward=margin,target=20,starter=2)"
SMALL = "num_players={},max_pip=3,hand_size=2,target=20,max_rounds=30"


class Node(NamedTuple):
    """A place in the tree of a game."""

    state: Any
    chance: float  # the product of all chance probabilities on the way
    own: tuple[tuple[tuple[str, int], ...], ...]  # per seat: what it knew and did, decision by decision


def nodes(state: Any, chance: float = 1.0, own: Any = None) -> Iterator[Node]:
    """This node and all below it."""
    own = own or ((),) * state.num_players()
    yield Node(state, chance, own)
    if state.is_chance_node():
        for event, probability in state.chance_outcomes():
            yield from nodes(state.child(event), chance * probability, own)
    elif not state.is_terminal():
        seat = state.current_player()
        for action in state.legal_actions():
            after = (*own[seat], (state.information_state_string(seat), action))
            yield from nodes(state.child(action), chance, (*own[:seat], after, *own[seat + 1 :]))


@cache
def tree(name: str) -> list[Node]:
    """All nodes of a game."""
    return list(nodes(pyspiel.load_game(name).new_initial_state()))


def played(name: str, seed: int, until: Callable[[Any], bool] = lambda state: False) -> list[Any]:
    """The states of a random game from its first to its last, or to the first in which `until` holds."""
    rng = random.Random(seed)
    state = pyspiel.load_game(name).new_initial_state()
    states = [state.clone()]
    while not state.is_terminal() and not until(state):
        if state.is_chance_node():
            events, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(rng.choices(events, chances)[0])
        else:
            state.apply_action(rng.choice(state.legal_actions()))
        states.append(state.clone())
    return states


# OpenSpiel's own checks


@pytest.mark.parametrize("seats", (2, 3, 4))
@pytest.mark.parametrize(
    "form", ("episode=match", "episode=match,reward=points,deal=tile", "episode=round,reward=margin")
)
def test_openspiels_random_simulations_pass(seats: int, form: str) -> None:
    game = pyspiel.load_game(f"fivesup({SMALL.format(seats)},{form})")
    pyspiel.random_sim_test(game, num_sims=2, serialize=True, verbose=False)


@pytest.mark.parametrize("name", ("fivesup", "fivesup(num_players=4,episode=round,reward=points)"))
def test_openspiels_random_simulations_pass_with_all_tiles(name: str) -> None:
    pyspiel.random_sim_test(pyspiel.load_game(name), num_sims=1, serialize=False, verbose=False)


def test_a_copy_a_text_and_a_pickle_of_a_state_go_on_alike() -> None:
    for state in played(f"fivesup({SMALL.format(3)})", 1)[::7]:
        game, read = pyspiel.deserialize_game_and_state(pyspiel.serialize_game_and_state(state.get_game(), state))
        assert game.get_parameters() == state.get_game().get_parameters()
        for other in (state.clone(), read, pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
            assert other.history() == state.history()
            assert other.course.states.tobytes() == state.course.states.tobytes()
            assert str(other) == str(state)
            assert other.legal_actions() == state.legal_actions()
            assert (other.rewards(), other.returns()) == (state.rewards(), state.returns())


def test_a_clone_shares_nothing_that_changes() -> None:
    state = played(TINY, 1, lambda state: not state.is_chance_node())[-1]
    before = str(state), state.course.states.tobytes(), state.history()
    other = state.clone()
    other.apply_action(other.legal_actions()[0])
    assert (str(state), state.course.states.tobytes(), state.history()) == before


# Parameters


def test_defaults_are_the_real_game() -> None:
    game = pyspiel.load_game("fivesup")
    assert game.num_players() == 2
    assert game.num_distinct_actions() == NUM_ENDS_ACTIONS == 163
    assert (game.min_utility(), game.max_utility(), game.utility_sum()) == (-1, 1, 0)
    assert game.max_chance_outcomes() == 28
    # Two seats place 28 tiles, draw 18 and pass 28 times at most, a hundred times over.
    assert game.max_game_length() == 100 * (28 + 18 + 28)
    assert game.max_chance_nodes_in_history() == 100 * (1 + 10 + 18)
    assert not game.get_type().provides_information_state_tensor


@pytest.mark.parametrize(
    ("parameters", "named"),
    (
        ("episode=round", "win_table"),
        ("episode=half", "'half'"),
        ("reward=gold", "'gold'"),
        ("num_players=5", "5"),
        ("hand_size=15", "15"),
        ("target=12", "12"),
        ("max_pip=7", "7"),
        ("without=0|9", "'0|9'"),
        ("max_rounds=0", "0"),
        ("starter=2", "2"),
        ("deal=all", "'all'"),
        ("scores=5", "scores"),
        ("scores=5 305", "305"),
        ("scores=5 x", "'5 x'"),
    ),
)
def test_an_impossible_parameter_is_refused_by_its_name_and_value(parameters: str, named: str) -> None:
    with pytest.raises((ValueError, pyspiel.SpielError), match=parameters.partition("=")[0]) as caught:
        pyspiel.load_game(f"fivesup({parameters})")
    assert named in str(caught.value)


@pytest.mark.parametrize("reward", ("win", "points", "margin"))
@pytest.mark.parametrize("episode", ("match", "round"))
def test_the_same_combinations_are_refused_as_by_the_environment(episode: str, reward: str) -> None:
    def refused(make: Callable[[], object]) -> str | None:
        try:
            make()
        except ValueError as error:
            return str(error)
        return None

    ours = refused(lambda: setup_of({**PARAMETERS, "episode": episode, "reward": reward}))
    assert ours == refused(lambda: fivesup_v0.raw_env(episode=episode, reward=reward))  # type: ignore[arg-type]
    assert (ours is not None) == (episode == "round" and reward == "win")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    (
        ("fivesup(reward=points)", 0, 305),
        ("fivesup(reward=points,scores=300 -20)", 0, 325),
        ("fivesup(num_players=3,reward=margin)", -305, 305),
        # Goes out and pays for the partner's tiles, of 168 pips at most: 170 a round.
        ("fivesup(num_players=4,episode=round,reward=points)", -170, 305),
    ),
)
def test_utility_bounds(name: str, low: int, high: int) -> None:
    game = pyspiel.load_game(name)
    assert (game.min_utility(), game.max_utility()) == (low, high)
    zero_sum = game.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM
    assert zero_sum == ("margin" in name)


# Actions


def test_an_action_means_the_same_everywhere_and_has_one_text() -> None:
    assert len(set(ENDS_TEXTS)) == NUM_ENDS_ACTIONS
    assert [ENDS_TEXTS[action] for action in (8, 28, 45, 154, 161, 162)] == [
        *("1|2", "0|1@half 0", "0|3@branch 3", "0|0@half 0", "draw", "pass")
    ]
    state = pyspiel.load_game("fivesup").new_initial_state()
    assert state.action_to_string(1, 45) == "0|3@branch 3"


def test_the_id_of_a_move_is_the_one_that_makes_it() -> None:
    for seed in range(5):
        for state in played("fivesup(num_players=3,episode=round,reward=margin)", seed):
            for action in state.legal_actions() if state.is_player_node() else ():
                assert ends_id(*action_move(state.course.states[0], action)) == action


def test_what_cannot_happen_is_refused_and_changes_nothing() -> None:
    state = pyspiel.load_game(TINY).new_initial_state()
    for event in (-2, 2, 99):
        with pytest.raises(ValueError, match=f"{event} is no event"):
            state.apply_action(event)
    state.apply_action(1)
    with pytest.raises(ValueError, match="15 is no event"):
        state.apply_action(15)  # two of six tiles: the hands are 0 to 14
    state.apply_action(0)  # the first hand, 0|0 0|1
    state.apply_action(5)  # the last one of the other four tiles, 1|2 2|2
    assert state.legal_actions() == [8, 13]
    before = str(state), state.course.states.tobytes(), state.history()
    with pytest.raises(ValueError, match="player_1 cannot draw: it must place a tile"):
        state.apply_action(ENDS_DRAW)
    assert (str(state), state.course.states.tobytes(), state.history()) == before


# Chance


def test_a_hand_and_its_number_are_one_to_one() -> None:
    tiles = [0, 3, 4, 9, 20, 27]
    mask = sum(1 << tile for tile in tiles)
    hands = [sum(1 << tile for tile in hand) for hand in itertools.combinations(tiles, 3)]
    assert [hand_of(mask, 3, number) for number in range(20)] == hands
    assert [hand_number(mask, hand) for hand in hands] == list(range(20))
    assert hand_of((1 << 28) - 1, 5, 98279) == 0b11111 << 23


def test_the_lowest_of_two_among_four_is_the_first_in_three_of_six_hands() -> None:
    assert lowest_chances(4, 2) == [3 / 6, 2 / 6, 1 / 6]


@pytest.mark.parametrize("name", (TINY, TILEWISE, THREE))
def test_chances_sum_to_one_at_every_node_and_so_do_all_deals(name: str) -> None:
    for node in tree(name):
        if node.state.is_chance_node():
            events, chances = zip(*node.state.chance_outcomes(), strict=True)
            assert sum(chances) == pytest.approx(1, abs=1e-12)
            assert list(events) == sorted(set(events)) == node.state.legal_actions()
            assert max(events) < node.state.get_game().max_chance_outcomes()


def test_hand_by_hand_and_tile_by_tile_all_deals_are_equally_likely() -> None:
    def deals(deal: str) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = defaultdict(float)
        name = f"fivesup(max_pip=2,hand_size=2,episode=round,reward=margin,starter=0,deal={deal})"
        for node in tree(name):
            if node.state.is_player_node() and not any(node.own):
                found[tuple(node.state.course.hands)] += node.chance
        return found

    by_hand, by_tile = deals("hand"), deals("tile")
    assert len(by_hand) == 15 * 6
    assert set(by_hand) == set(by_tile)
    assert list(by_hand.values()) == pytest.approx([1 / 90] * 90)
    assert list(by_tile.values()) == pytest.approx([1 / 90] * 90)


def test_draws_are_uniform_over_the_boneyard_and_the_lot_over_seats() -> None:
    root = pyspiel.load_game("fivesup(num_players=3)").new_initial_state()
    assert root.chance_outcomes() == [(0, 1 / 3), (1, 1 / 3), (2, 1 / 3)]
    for node in tree(TINY):
        state = node.state
        if state.is_chance_node() and state.history() and state.history()[-1] == ENDS_DRAW:
            left = [tile_texts(1 << event)[0] for event, _ in state.chance_outcomes()]
            assert sorted(left) == sorted(Match.from_state(state.course.states[0]).boneyard)
            assert {chance for _, chance in state.chance_outcomes()} == {1 / len(left)}


def test_after_a_blocked_round_there_is_a_lot_and_after_going_out_the_seat_that_did_starts() -> None:
    found = Counter[str]()
    for seed in range(3):
        states = played("fivesup(max_pip=2,hand_size=2,max_rounds=30,reward=points)", seed)
        for before, state in itertools.pairwise(states):
            if len(state.course.rounds) > len(before.course.rounds):
                result = Match.from_state(state.course.states[0]).round_result
                assert result is not None
                found[next(iter(result))] += 1
                if "blocked" in result:
                    assert state.chance_outcomes() == [(0, 1 / 2), (1, 1 / 2)]
                    assert state.action_to_string(1) == "seat 1 starts"
                else:
                    assert state.course.starter == result["out"]
                    assert state.action_to_string(0).startswith("seat 0 gets ")
    assert min(found["blocked"], found["out"]) > 0


# The engine


def test_a_stored_game_is_played_again_line_by_line(stored: Callable[[str, str], str]) -> None:
    """One with a draw and a refused event. Observations are left out: they are the project's, and long."""
    from open_spiel.python.algorithms.generate_playthrough import playthrough

    def lines(actions: list[int]) -> list[str]:
        return [line for line in playthrough(EXACT, actions).splitlines() if "ObservationTensor(" not in line]

    wanted = stored(
        "playthroughs/openspiel.txt", "\n".join(lines(played(EXACT, 175)[-1].history())) + "\n"
    ).splitlines()
    actions = [int(line.split()[1]) for line in wanted if line.startswith("action: ")]
    for number, (line, expected) in enumerate(zip(lines(actions), wanted, strict=True), 1):
        assert line == expected, f"line {number} of playthroughs/openspiel.txt"


@pytest.mark.parametrize("seats", (2, 3, 4))
@pytest.mark.parametrize("reward", ("win", "points", "margin"))
def test_a_match_with_the_same_deal_and_moves_has_the_same_scores(seats: int, reward: str) -> None:
    """`Match` reads each round as the text of its deal and moves, and plays it again, checking every move."""
    for seed in range(3):
        states = played(f"fivesup({SMALL.format(seats)},reward={reward})", seed)
        last = states[-1].course
        records = [*last.rounds, last.states.tobytes()]
        scores = [0] * (2 if seats == 4 else seats)
        for record in records:
            ended = Match.from_bytes(record)
            again = Match.from_text(repr(ended))
            assert again.scores == ended.scores
            assert int(again.state.round_scores[0]) == scores[0]
            scores = again.scores
        assert list(last.scores) == scores
        mean = [(sum(scores) - score) / (len(scores) - 1) for score in scores]
        winner = Match.from_bytes(records[-1]).winner
        expected: dict[str, Any] = {
            "points": scores,
            "margin": [score - other for score, other in zip(scores, mean, strict=True)],
            "win": [
                0.0 if winner is None else 1.0 if side == winner else -1 / (len(scores) - 1)
                for side in range(len(scores))
            ],
        }
        returns = states[-1].returns()
        assert returns == pytest.approx([expected[reward][seat % len(scores)] for seat in range(seats)])


@pytest.mark.parametrize("name", (EXACT, THREE))
def test_a_round_pays_what_its_scores_say(name: str) -> None:
    start = np.array(pyspiel.load_game(name).new_initial_state().course.scores)
    for node in tree(name):
        if node.state.is_terminal():
            gains = np.array(node.state.course.scores) - start
            margins = gains - (gains.sum() - gains) / (len(gains) - 1)
            assert node.state.returns() == margins.tolist()


def test_an_event_that_would_pass_the_target_is_refused_and_one_that_reaches_it_wins() -> None:
    ways = Counter[str]()
    states: dict[tuple[int, ...], Any] = {tuple(node.state.history()): node.state for node in tree(EXACT)}
    for history, state in states.items():
        if not history or history[-1] == ENDS_DRAW:
            continue
        scores, match = list(states[history[:-1]].course.scores), Match.from_state(state.course.states[0])
        for event in match.events:
            score = scores[event["side"]] + event["placement"] + event["settlement"]
            assert event["accepted"] == (score <= 20)
            scores[event["side"]] = score if event["accepted"] else scores[event["side"]]
            ways["refused" if score > 20 else "won" if score == 20 else "less"] += 1
        assert list(state.course.scores) == scores
        assert (match.winner is not None) == (20 in scores)
        assert not match.round_over or state.is_terminal()
    assert min(ways["refused"], ways["won"], ways["less"]) > 0


# Information


def test_an_information_state_is_what_the_seat_was_told_in_order() -> None:
    state = pyspiel.load_game(TINY).new_initial_state()
    assert state.information_state_string(1) == "seat=1 round=1 scores=0,0"
    state.apply_action(1)
    state.apply_action(0)
    assert state.information_state_string(0) == "seat=0 round=1 scores=0,0 starter=1 hand=0|0,0|1"
    assert state.information_state_string(1) == "seat=1 round=1 scores=0,0 starter=1 hand="
    state.apply_action(5)
    for action in (13, 161):  # seat 1 opens with 2|2, and seat 0 draws
        state.apply_action(action)
    assert state.information_state_string(0).endswith("; 1 2|2; 0 draw")
    assert [state.action_to_string(tile) for tile, _ in state.chance_outcomes()] == [
        "seat 0 draws 0|2",
        "seat 0 draws 1|1",
    ]
    state.apply_action(7)
    assert state.information_state_string(0).endswith("hand=0|0,0|1; 1 2|2; 0 draw 1|1")
    assert state.information_state_string(1).endswith("hand=1|2,2|2; 1 2|2; 0 draw ?")
    for action in (161, 2, ENDS_TEXTS.index("0|2@line 2"), ENDS_TEXTS.index("1|2@line 2")):
        state.apply_action(action)
    assert state.information_state_string(0).endswith("0 draw 0|2; 0 0|2@line 2; 1 1|2@line 2; shown 0|0,0|1,1|1/-")
    assert state.returns() == [-5, 5]  # 0|0, 0|1 and 1|1 are 3 pips, which is 5 (R16)


@pytest.mark.parametrize("name", (TINY, EXACT, TILEWISE, THREE))
def test_recall_is_perfect(name: str) -> None:
    """Who is told the same has known and done the same before, and can do the same."""
    for seat in range(tree(name)[0].state.num_players()):
        known: dict[str, Any] = {}
        for node in tree(name):
            text = node.state.information_state_string(seat)
            to_move = node.state.is_player_node() and node.state.current_player() == seat
            assert known.setdefault(text, node.own[seat]) == node.own[seat]
            if to_move:
                assert known.setdefault(f"{text} moves", node.state.legal_actions()) == node.state.legal_actions()


@pytest.mark.parametrize("name", (TINY, EXACT, TILEWISE, THREE))
def test_tensor_and_string_are_one_to_one(name: str) -> None:
    by_text: dict[str, bytes] = {}
    by_tensor: dict[bytes, str] = {}
    for node in tree(name):
        for seat in range(node.state.num_players()):
            text = node.state.information_state_string(seat)
            tensor = np.array(node.state.information_state_tensor(seat), np.float32).tobytes()
            assert by_text.setdefault(text, tensor) == tensor
            assert by_tensor.setdefault(tensor, text) == text


def test_over_several_rounds_recall_is_perfect_along_each_game() -> None:
    for seed in range(3):
        for before, after in itertools.pairwise(played(f"fivesup({SMALL.format(4)})", seed)):
            for seat in range(4):
                told = before.information_state_string(seat)
                assert after.information_state_string(seat).startswith(told)
            if before.is_player_node():
                seat = before.current_player()
                text = ENDS_TEXTS[after.history()[-1]]
                told = before.information_state_string(seat)
                assert after.information_state_string(seat)[len(told) :].startswith(f"; {seat} {text}")


@pytest.mark.parametrize("name", (TINY, THREE))
def test_what_is_hidden_changes_nothing_that_a_seat_is_given(name: str) -> None:
    """States with one information state differ in what is hidden only: all that the seat is given is the same."""
    given: dict[str, Any] = {}
    hidden: dict[str, set[bytes]] = defaultdict(set)
    for node in tree(name):
        for seat in range(node.state.num_players()):
            text = node.state.information_state_string(seat)
            seen = (node.state.observation_string(seat), tuple(node.state.observation_tensor(seat)))
            if node.state.is_player_node():
                assert given.setdefault(text, seen) == seen
                hidden[text].add(node.state.course.states.tobytes())
    assert max(len(states) for states in hidden.values()) >= 6


def test_the_observation_is_the_projects_own() -> None:
    for state in played("fivesup(num_players=3,episode=round,reward=points)", 2):
        for seat in range(3):
            if state.course.is_dealt:
                seen = Match.from_state(state.course.states[0]).view(seat)
                assert state.observation_tensor(seat) == encode(seen.state).tolist()
                assert state.observation_string(seat) == repr(seen)
            else:
                assert not any(state.observation_tensor(seat))
                assert state.observation_string(seat) == ""


# Resampling


@pytest.mark.parametrize("name", (TINY, TILEWISE, THREE))
def test_resampled_histories_are_those_with_the_same_information_and_as_likely(name: str) -> None:
    """Against enumeration: the chance of a history, given what the seat was told and nothing of how others choose."""
    rng = random.Random(1)
    alike: dict[tuple[int, str], dict[tuple[int, ...], float]] = defaultdict(dict)
    for node in tree(name):
        for seat in range(node.state.num_players()):
            key = seat, node.state.information_state_string(seat)
            alike[key][tuple(node.state.history())] = node.chance
    states = {tuple(node.state.history()): node.state for node in tree(name)}
    # While others are dealt to, a seat is told nothing: histories of several lengths have the same text then.
    several = [
        (key, found) for key, found in sorted(alike.items()) if len(found) > 1 and len(set(map(len, found))) == 1
    ]
    for (seat, _), found in rng.sample(several, 20):
        first = next(iter(found))
        drawn = Counter(tuple(resample(states[first].course, seat, rng.random)) for _ in range(300))
        assert set(drawn) <= set(found)
        total = sum(found.values())
        for history, chance in found.items():
            expected = 300 * chance / total
            assert abs(drawn[history] - expected) <= 5 * (expected + 1) ** 0.5, (history, drawn)


@pytest.mark.parametrize(
    "name", (f"fivesup({SMALL.format(2)})", f"fivesup({SMALL.format(4)},deal=tile)", "fivesup(num_players=3)")
)
def test_a_resampled_state_replays_and_tells_the_seat_the_same(name: str) -> None:
    rng = random.Random(3)
    states = played(name, 5)
    for state in rng.sample(states, 12) + states[-1:]:
        for seat in range(state.num_players()):
            other = state.resample_from_infostate(seat, rng.random)
            again = state.get_game().new_initial_state()
            for event in other.history():
                again.apply_action(event)
            assert str(again) == str(other)
            assert again.course.states.tobytes() == other.course.states.tobytes()
            assert other.information_state_string(seat) == state.information_state_string(seat)
            assert other.current_player() == state.current_player()


# OpenSpiel's algorithms


def test_is_mcts_runs_unchanged() -> None:
    from open_spiel.python.algorithms import ismcts, mcts

    game = pyspiel.load_game("fivesup(max_pip=3,hand_size=2,target=20,max_rounds=5)")
    evaluator = mcts.RandomRolloutEvaluator(1, np.random.RandomState(1))
    bot = ismcts.ISMCTSBot(game, evaluator, 2.0, 20, random_state=np.random.RandomState(2))
    state = played(str(game), 4, lambda state: state.is_player_node() and len(state.legal_actions()) > 1)[-1]
    policy = bot.get_policy(state)
    assert sorted(action for action, _ in policy) == state.legal_actions()
    assert sum(chance for _, chance in policy) == pytest.approx(1)


def test_cfr_approaches_equilibrium_in_python_and_in_cpp() -> None:
    from open_spiel.python import policy
    from open_spiel.python.algorithms import cfr, exploitability

    game = pyspiel.load_game(f"{TINY[:-1]},starter=0)")
    uniform = exploitability.nash_conv(game, policy.UniformRandomPolicy(game))
    solver = cfr.CFRPlusSolver(game)
    compiled = pyspiel.CFRPlusSolver(game)
    for _ in range(5):
        solver.evaluate_and_update_policy()
        compiled.evaluate_and_update_policy()
    reached = exploitability.nash_conv(game, solver.average_policy())
    assert 0 <= reached < uniform / 2
    assert pyspiel.nash_conv(game, compiled.average_policy()) == pytest.approx(reached, abs=1e-9)


def test_the_example_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "plugs" / "openspiel.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], {})
    uniform, learned = map(float, capsys.readouterr().out.split())
    assert 0 < learned < uniform
