"""Named pairs: two different partners as one side, from the line-up to the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents import decision_key
from agents.agent import partners
from agents.arena.blocks import Side, block_scores, play_blocks, scores_of_a, seated
from agents.arena.chunks import load_chunk
from agents.arena.crew import Crew
from agents.arena.evaluation import main
from agents.arena.match_lines import line_ups, record_lines
from agents.arena.results import results_of
from agents.arena.statistics import estimate
from agents.arena.tournament import Plan, Played, run, who_sees_all
from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env.records import read_records, replay
from fivesup_env.rules.view import view
from tests.playing import legal, raw_env
from tests.test_arena import FAULTS, RARE, Faulty, Keyed, choice, final_scores
from tests.test_tournament import facts, same, stop_after

GUESTS = "tests.guest_agents"


@pytest.fixture(autouse=True)
def _no_child_stays() -> Iterator[None]:
    before = set(active_children())
    yield
    assert set(active_children()) <= before


# Texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("greedy", ("greedy",)),
        ("greedy+pimc:50", ("greedy", "pimc:50")),
        ("greedy+greedy", ("greedy", "greedy")),
        ("my.agent:make+runs/a/last", ("my.agent:make", "runs/a/last")),
        ("", ("",)),
    ],
)
def test_texts_of_partners(text: str, expected: tuple[str, ...]) -> None:
    assert partners(text) == expected


@pytest.mark.parametrize("text", ["+", "greedy+", "+greedy", "greedy++random", "greedy+random+greedy"])
def test_texts_that_name_no_pair(text: str) -> None:
    with pytest.raises(ValueError, match=r'give two partners with a "\+" between them') as error:
        partners(text)
    assert repr(text) in str(error.value)


def test_a_plus_in_the_path_of_a_checkpoint_is_part_of_the_path(tmp_path: Path) -> None:
    one, two = (tmp_path / "a+b" / name for name in ("one", "two+"))
    for folder in (one, two):
        folder.mkdir(parents=True)
        (folder / "meta.json").touch()
    assert partners(str(two)) == (str(two),)
    assert partners(f"greedy+{two}") == ("greedy", str(two))
    assert partners(f"{two}+{one}") == (str(two), str(one))
    with pytest.raises(ValueError, match="give two partners"):
        partners(f"{tmp_path / 'a+b' / 'three'}+greedy")


# Who plays which matches


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("xy", "b", ["xbyb", "bxby", "ybxb", "bybx"]),
        ("a", "xy", ["axay", "yaxa", "ayax", "xaya"]),
        ("xy", "bc", ["xbyc", "cxby", "ycxb", "bycx"]),
    ],
)
def test_the_four_rotations(a: str, b: str, expected: list[str]) -> None:
    assert ["".join(seated(4, rotation, a, b)) for rotation in range(4)] == expected


def slow_match(seed: int, line_up: list[Keyed], rotation: int) -> tuple[list[int], int, list[int]]:
    """Play a match through the AEC environment; return its actions, winner and scores."""
    env = raw_env(4, skip_forced=True)
    env.reset(seed=seed)
    actions: list[int] = []
    while not any(env.terminations.values()):
        agent = line_up[(int(env.record.turn) - rotation) % 4]
        shown = env.record if agent.sees_all else view(env.record, int(env.record.turn))
        key = int(decision_key(seed, rotation, len(actions)))
        agent.seen[key] = shown.tobytes(), env.observe(env.agent_selection)["action_mask"].tobytes()
        actions.append(choice(legal(env), key, agent.offset))
        env.step(actions[-1])
    told = env.infos[env.agent_selection]
    return actions, told["winner"], list(told["scores"])


@pytest.mark.parametrize("named", [(True, False), (False, True), (True, True)])
def test_every_match_is_that_of_its_seed_and_rotation(named: tuple[bool, bool]) -> None:
    """Also what each partner sees: only one of the four sees all."""

    def agents() -> tuple[list[Keyed], list[Keyed]]:
        a, b = [Keyed(0), Keyed(1, sees_all=True)], [Keyed(2), Keyed(3)]
        return a[: 1 + named[0]], b[: 1 + named[1]]

    a, b = agents()
    blocks = play_blocks(a if named[0] else a[0], b if named[1] else b[0], 4, first=4, count=2, seed=50)
    slow_a, slow_b = agents()
    line_up = [slow_a[0], slow_b[0], slow_a[-1], slow_b[-1]]
    slow = [slow_match(seed, line_up, rotation) for seed in (54, 55) for rotation in range(4)]
    assert blocks.block_size == 4
    assert blocks.actions == [actions for actions, _, _ in slow]
    assert blocks.tallies["winner"].tolist() == [winner for _, winner, _ in slow]
    assert [final_scores(tally, 2) for tally in blocks.tallies] == [scores for _, _, scores in slow]
    assert blocks.a_sides.tolist() == 2 * [0, 1, 0, 1]
    wins = [winner == rotation % 2 for rotation, (_, winner, _) in zip(2 * [*range(4)], slow, strict=True)]
    assert scores_of_a(blocks, 4).tolist() == wins
    assert block_scores(blocks, 4).tolist() == [sum(wins[:4]) / 4, sum(wins[4:]) / 4]
    assert [agent.seen for agent in (*a, *b)] == [agent.seen for agent in (*slow_a, *slow_b)]
    assert blocks.decisions.tolist() == [[sum(len(agent.seen) for agent in side) for side in (a, b)]]
    assert (blocks.seconds > 0).all()


def test_a_pair_of_one_kind_plays_the_same_match_in_all_four_rotations() -> None:
    """A guest and an agent that both are greedy, against greedy: every seat plays alike, so only the deals count."""
    plan = Plan(("greedy+agents.baselines:GreedyAgent", "greedy"), ((0, 1), (1, 0)), 4, 8, seed=2)
    for played in run(plan):
        blocks = played.blocks
        alike = blocks.tallies.reshape(4, 4)
        for block in alike:
            assert len({tally.tobytes() for tally in block}) == 1
        assert len({block[0].tobytes() for block in alike}) == 4
        assert block_scores(blocks, 4).tolist() == [0.5] * 4


def test_a_pair_of_greedy_and_random_is_between_both() -> None:
    greedy, random = GreedyAgent(), RandomAgent()
    mixed, weak = (
        estimate(block_scores(play_blocks(side, greedy, 4, first=0, count=count, seed=1), 4))
        for side, count in (((greedy, random), 200), (random, 400))
    )
    # Greedy against itself wins exactly half of each block.
    assert weak.high < mixed.low
    assert mixed.high < 0.5


@pytest.mark.parametrize("seats", [2, 3])
@pytest.mark.parametrize("name", ["a", "b"])
def test_partners_need_four_seats(seats: int, name: str) -> None:
    sides: dict[str, Side] = {"a": GreedyAgent(), "b": GreedyAgent(), name: (GreedyAgent(), RandomAgent())}
    with pytest.raises(ValueError, match=f"{name} is a pair of partners, and only with four seats .* not {seats}"):
        play_blocks(**sides, num_players=seats, first=0, count=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"agent 'greedy\+random' is a pair .* four seats .* not with {seats}"):
        Plan(("greedy", "greedy+random"), ((0, 1),), seats, 1)


def test_a_side_is_one_agent_or_two() -> None:
    agent = Keyed()
    for side in ((), (agent, agent, agent)):
        with pytest.raises(ValueError, match=f"a must be an agent or two partners, not {len(side)}"):
            play_blocks(side, agent, 4, first=0, count=1)
    alone, copies = (play_blocks(side, Keyed(1), 4, first=0, count=1) for side in ((agent,), agent))
    assert alone.actions == copies.actions and alone.block_size == 2


# Forfeits


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("partner", [0, 1])
def test_the_failure_of_either_partner_loses_the_match(number: int, partner: int) -> None:
    fault, reason = FAULTS["raises"]

    def played(agent: Keyed) -> Any:
        pair = (agent, Keyed(1)) if partner == 0 else (Keyed(1), agent)
        a, b = (pair, Keyed(2)) if number == 0 else (Keyed(2), pair)
        return play_blocks(a, b, 4, first=3, count=4, seed=20)

    sound = Keyed()
    undisturbed, blocks = played(sound), played(Faulty(fault))
    failed = []
    for match, actions in enumerate(undisturbed.actions):
        keys = [int(decision_key(23 + match // 4, match % 4, ply)) for ply in range(len(actions))]
        stop = next((ply for ply, key in enumerate(keys) if key in sound.seen and key % RARE == 0), None)
        failed.append(stop is not None)
        assert blocks.actions[match] == actions[:stop]
        if stop is not None:
            place = 2 * partner + number  # of the one that fails, in the line-up
            assert blocks.tallies["forfeit"][match] == (place + match) % 4
            assert blocks.tallies["winner"][match] == -1
    assert 0 < sum(failed) < len(failed)
    assert (blocks.tallies["forfeit"] >= 0).tolist() == failed
    assert blocks.forfeits_of_a().tolist() == [number == 0 and fail for fail in failed]
    expected = np.where(failed, float(number), scores_of_a(undisturbed, 4))
    assert scores_of_a(blocks, 4).tolist() == expected.tolist()
    assert blocks.forfeit_reasons[number] == [f"partner {partner + 1}: {reason}"]
    assert blocks.forfeit_reasons[1 - number] == []


@pytest.mark.parametrize(
    ("factory", "timeout", "reason"),
    [
        ("dies_rarely", None, "partner 2: GuestError: its process died"),
        ("loops_rarely", 1.0, "partner 2: GuestError: no answer to act within 1.0 s"),
    ],
)
def test_a_guest_as_partner_that_fails(factory: str, timeout: float | None, reason: str) -> None:
    plan = Plan((f"random+{GUESTS}:{factory}", "greedy"), ((1, 0),), 4, 2, seed=5, move_timeout=timeout)
    (played,) = run(plan)
    assert played.blocks.forfeit_reasons == ([], [reason])
    results = results_of(plan, [played], [False, False], command=[])
    count = int((played.blocks.tallies["forfeit"] >= 0).sum())
    assert 0 < count < 4
    assert results["agents"][0]["name"] == f"random+{GUESTS}:{factory}"
    assert (results["agents"][0]["forfeits"], results["agents"][0]["forfeit_reasons"]) == (count, [reason])
    assert results["agents"][1]["forfeits"] == 0


# Runs

PLAN = Plan(("greedy+random", "random+greedy", "random"), ((0, 1), (2, 0), (2, 2)), 4, 70, seed=3)


def test_workers_and_interruptions_change_nothing(tmp_path: Path) -> None:
    expected = run(PLAN)
    assert [len(played.blocks.tallies) for played in expected] == [140, 140, 140]
    assert [played.blocks.block_size for played in expected] == [4, 4, 2]
    assert [PLAN.num_blocks(pair) for pair in range(3)] == [35, 35, 70]
    assert same(run(PLAN, hire=partial(Crew, workers=2), folder=tmp_path / "two"), expected)
    stopped = run(PLAN, folder=tmp_path / "one", watch=stop_after(3))
    assert [len(played.blocks.tallies) for played in stopped] == [140, 128, 0]
    assert same(run(PLAN, folder=tmp_path / "one"), expected)
    kept = load_chunk(tmp_path / "one", PLAN, 0, 32, 3)
    assert kept is not None and facts(Played(0, 1, [kept]))[2] == expected[0].blocks.tallies[128:].tobytes()
    assert load_chunk(tmp_path / "one", PLAN, 0, 32, 6) is None


def test_line_ups_name_the_partners() -> None:
    plan = Plan(("random", "greedy+random", "random"), ((1, 2),), 4, 3, seed=6, keep_matches=True)
    played = run(plan)
    lines = [line for result in played for line in record_lines(result.blocks, 4, 6)]
    told = [json.loads(line) for line in line_ups(plan, played)]
    seats = [
        ["greedy", "random #2", "random", "random #2"],
        ["random #2", "greedy", "random #2", "random"],
        ["random", "random #2", "greedy", "random #2"],
        ["random #2", "random", "random #2", "greedy"],
    ]
    assert [line["seats"] for line in told] == 2 * seats
    assert [(line["block"], line["rotation"]) for line in told] == [(k, turn) for k in (0, 1) for turn in range(4)]
    assert all(line["pair"] == ["greedy+random", "random #2"] for line in told)
    for record, line in zip(read_records(lines), told, strict=True):
        assert record["seed"] == 6 + line["block"]
        assert replay(record).winner == line["winner"]


def test_a_side_sees_all_if_a_partner_does() -> None:
    agents = ("greedy+clairvoyant:1", f"{GUESTS}:Clairvoyant+greedy", "greedy+random")
    plan = Plan(agents, ((0, 1), (1, 2)), 4, 1)
    assert who_sees_all(plan, run(plan)) == [True, True, False]


def test_matches_are_rounded_up_to_the_blocks_of_each_pair(tmp_path: Path) -> None:
    arguments = [
        "greedy+random",
        "greedy",
        "random",
        "--players",
        "4",
        "--matches",
        "9",
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(arguments) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [(pair["a"], pair["b"], pair["matches"], pair["blocks"]) for pair in results["pairs"]] == [
        ("greedy+random", "greedy", 12, 3),
        ("greedy+random", "random", 12, 3),
        ("greedy", "random", 10, 5),
    ]
    assert [pair["course"][-1][0] for pair in results["pairs"]] == [12, 12, 10]
    assert {rating["agent"] for rating in results["ratings"]} == {"greedy+random", "greedy", "random"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["greedy", "greedy+random"], "agent 'greedy+random' is a pair of partners"),
        (["greedy", "greedy+random", "--players", "3"], "not with 3"),
        (["greedy", "greedy+", "--players", "4"], "agent 'greedy+': give two partners"),
        (["greedy", "greedy+grady", "--players", "4"], "no agent 'grady'"),
        (["greedy", f"{GUESTS}:Keyed+{GUESTS}:fails", "--players", "4"], "fails' does not start"),
        (["greedy", f"greedy+{GUESTS}:Stubborn", "--players", "4"], "Stubborn' cannot be reset"),
    ],
)
def test_wrong_partners(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert told in capsys.readouterr().err
