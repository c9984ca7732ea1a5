"""What a run shows beside its curves: the example match, read back through the rules, and ratings over the pool."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from stable_baselines3.common.logger import Image, Logger  # noqa: E402

from agents.agent import Agent, make_agent  # noqa: E402
from agents.arena.blocks import block_scores, play_blocks  # noqa: E402
from agents.arena.statistics import bradley_terry  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.training import board  # noqa: E402
from agents.training.board import Ratings, example_text, log_example  # noqa: E402
from agents.training.pool import Pool  # noqa: E402
from fivesup_env.drawing import to_rgb_array  # noqa: E402
from fivesup_env.drawing.table import scene_of  # noqa: E402
from fivesup_env.match import Match  # noqa: E402
from fivesup_env.records import Recorder  # noqa: E402

SEED = 2**63

# An example match


@pytest.mark.parametrize(
    ("left", "scored", "end"),
    [
        ("2|3", "side 0 +5", "side 0 has won, scores 15 10"),
        ("4|6", "side 0 +10, refused", "nobody has won, scores 10 10"),  # 20 would be beyond 15
    ],
)
def test_the_text_of_a_match(left: str, scored: str, end: str) -> None:
    """5|5 counts 10; with 0|5 at it, 10 and 0; with 0|1 at that, 10 and 1. What seat 1 has left is seat 0's (R15)."""
    recorder = Recorder(Match.from_setup({"num_players": 2, "hands": [["0|1", "5|5"], ["0|5", left]], "target": 15}))
    for move in ("5|5", "0|5@5|5.line_a", "0|1@0|5.low"):
        recorder.play(move)
    assert example_text(recorder.record(), recorder.match.state, "pimc:5") == "\n".join(
        [
            "```",
            "match seed 0, raw points",
            "seat 0: learner",
            "seat 1: pimc:5",
            "",
            "the fullest table",
            str(recorder.match).strip("\n"),
            "",
            "round 1: seat 0 starts, scores 0 0",
            "  seat 0 holds 0|1 5|5",
            f"  seat 1 holds 0|5 {left}",
            "  0 5|5                  side 0 +10",
            "  1 0|5@5|5.line_a       side 1 +10",
            f"  0 0|1@0|5.low          {scored}",
            "",
            end,
            "```",
        ]
    )


def logged(num_players: int, learner: Agent, opponent: Agent, seed: int) -> dict[str, Any]:
    """What is logged of two blocks, the first of which has this seed."""
    logger = Logger(None, [])
    log_example(
        logger, play_blocks(learner, opponent, num_players, first=0, count=2, seed=seed), num_players, seed, "X"
    )
    return dict(logger.name_to_value)


def played_again(text: str, num_players: int, seed: int) -> tuple[Match, Match]:
    """Play the moves of a text; return the match and, of its positions, the first with the most tiles on the table."""
    match = fullest = Match(num_players, seed)
    placed, rounds = 0, re.split(r"\n\nround \d+: ", text)[1:]
    for number, told in enumerate(rounds):
        if number:
            match.next_round()
        assert told.startswith(f"seat {match.starter} starts, scores {' '.join(map(str, match.scores))}\n")
        assert re.findall(r"seat \d holds (.*)", told) == [" ".join(hand) for hand in match.hands]
        for seat, move in re.findall(r"^  (\d) (\S+)", told, re.MULTILINE):
            assert int(seat) == match.turn
            match.play(move)
            if match.state.num_placed > placed:
                placed, fullest = int(match.state.num_placed), match.clone()
        assert match.round_over
    return match, fullest


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_the_text_and_the_picture_are_those_of_the_first_match(num_players: int) -> None:
    pytest.importorskip("pygame")
    found = logged(num_players, make_agent("greedy"), make_agent("random"), SEED)
    assert list(found) == ["example/match", "example/table"]
    match, fullest = played_again(found["example/match"], num_players, SEED)
    assert match.winner is not None
    assert found["example/match"].endswith(
        f"\nside {match.winner} has won, scores {' '.join(map(str, match.scores))}\n```"
    )
    names = {2: ["learner", "X"], 3: ["learner", "X", "X"], 4: ["learner", "X", "learner", "X"]}[num_players]
    assert re.findall(r"^seat \d: (.*)", found["example/match"], re.MULTILINE) == names
    assert f"the fullest table\n{str(fullest).strip(chr(10))}\n\nround 1" in found["example/match"]
    picture = found["example/table"]
    assert isinstance(picture, Image) and picture.dataformats == "HWC"
    np.testing.assert_array_equal(picture.image, to_rgb_array(scene_of(fullest.state)))


def test_without_pygame_there_is_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert list(logged(2, make_agent("greedy"), make_agent("greedy"), 3)) == ["example/match"]


class Failing:
    """An agent that raises an error at every decision from the one of this number on."""

    def __init__(self, decisions: int) -> None:
        self.left = decisions

    def reset(self, seed: int) -> None:
        pass

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("lost")
        return masks.argmax(axis=1)


def test_a_match_that_a_forfeit_broke_off() -> None:
    assert logged(2, make_agent("greedy"), Failing(0), 3) == {}
    text = logged(2, make_agent("greedy"), Failing(20), 3)["example/match"]
    match, _ = played_again(text, 2, 3)
    assert match.winner is None and match.round > 1
    assert text.endswith(f"\nnobody has won, scores {' '.join(map(str, match.scores))}\n```")


# Ratings


def join(pool: Pool, seed: int) -> None:
    """Let a copy of a learner join."""
    torch.manual_seed(seed)
    save_checkpoint(pool.path_of_next(), make_policy((8,)), (8,))
    pool.add()


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_ratings_are_those_of_all_pairs_played_block_by_block(num_players: int, tmp_path: Path) -> None:
    pool = Pool(["random", "greedy"], tmp_path, 3)
    join(pool, 1)
    matches, blocks = (9, 5) if num_players != 3 else (13, 5)  # rounded up
    learner = NetworkAgent(make_policy((8,)), deterministic=False)
    found = Ratings(pool, num_players, matches, SEED).rate(learner)
    agents = {"learner": learner, **{name: make_agent(name) for name in ("random", "greedy")}}
    agents["00002"] = make_agent(str(tmp_path / "00002"))
    pairs = [
        ("learner", "random"),
        ("learner", "greedy"),
        ("learner", "00002"),
        ("random", "greedy"),
        ("00002", "greedy"),
    ]
    scores = {
        (a, b): np.concatenate(
            [
                block_scores(
                    play_blocks(agents[a], agents[b], num_players, first=0, count=1, seed=SEED + k), num_players
                )
                for k in range(blocks)
            ]
        )
        for a, b in pairs
    }
    elo = {each.agent: each.elo for each in bradley_terry(list(agents), scores, 1 / 3 if num_players == 3 else 1 / 2)}
    assert found == pytest.approx({name: elo[name] - elo["greedy"] for name in agents}, abs=1e-3)
    assert found["greedy"] == 0


def test_a_learner_that_plays_like_greedy_is_rated_like_it(tmp_path: Path) -> None:
    found = Ratings(Pool(["random", "greedy"], tmp_path, 1), 2, 40, SEED).rate(make_agent("greedy"))
    assert abs(found["learner"]) < 50
    assert found["random"] < -200


@pytest.mark.parametrize(
    ("fixed", "zero"), [(["random", "net-2p", "greedy"], "greedy"), (["random", "net-2p"], "random"), ([], "00000")]
)
def test_who_has_the_rating_0(fixed: list[str], zero: str, tmp_path: Path) -> None:
    pool = Pool(fixed, tmp_path, 2)
    join(pool, 1)
    join(pool, 2)
    found = Ratings(pool, 2, 2, SEED).rate(make_agent("random"))
    assert set(found) == {"learner", *pool.names().values()}
    assert [name for name, elo in found.items() if elo == 0] == [zero]


def test_an_empty_pool_has_no_ratings(tmp_path: Path) -> None:
    assert Ratings(Pool([], tmp_path, 2), 2, 2, SEED).rate(make_agent("greedy")) == {}


def test_members_meet_once_and_the_learner_meets_them_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[tuple[Agent, Agent]] = []

    def watched(a: Agent, b: Agent, *arguments: Any, **options: Any) -> Any:
        played.append((a, b))
        return play_blocks(a, b, *arguments, **options)

    monkeypatch.setattr(board, "play_blocks", watched)
    pool, learner = Pool(["greedy"], tmp_path, 2), make_agent("random")
    ratings = Ratings(pool, 2, 2, SEED)
    for joining, of_learner, of_others in ((False, 1, 0), (True, 2, 1), (False, 2, 0), (True, 3, 1), (True, 3, 1)):
        if joining:
            join(pool, len(played))
        played.clear()
        ratings.rate(learner)
        assert [a is learner for a, _ in played].count(True) == of_learner
        assert len(played) == of_learner + of_others


def test_rating_touches_no_generator(tmp_path: Path) -> None:
    pool = Pool(["greedy"], tmp_path, 2)
    join(pool, 1)
    before = torch.get_rng_state(), np.random.get_state(legacy=True)
    first = Ratings(pool, 2, 4, SEED).rate(pool.agent(1))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_equal(np.random.get_state(legacy=True), before[1])
    torch.manual_seed(9)
    assert Ratings(pool, 2, 4, SEED).rate(pool.agent(1)) == first
