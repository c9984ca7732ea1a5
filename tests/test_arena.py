"""The arena: which matches a block has, what agents get to see, what is counted, and what forfeits cost."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("scipy")

from agents import Agent, decision_key
from agents.arena.blocks import (
    BLOCKED_HANDS,
    GOING_OUT,
    PARTNER,
    PLACEMENTS,
    Blocks,
    block_size,
    even_share,
    joined,
    no_blocks,
    play_blocks,
    scores_of_a,
    seated,
)
from agents.arena.match_lines import record_lines
from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env import Match
from fivesup_env.records import Record, read_records, replay
from fivesup_env.rules.state import STATE, States
from fivesup_env.rules.view import view
from tests.playing import SEATS, legal, raw_env

SIDES = {2: 2, 3: 3, 4: 2}
ROTATIONS = {2: 2, 3: 3, 4: 2}
EVEN = {2: 1 / 2, 3: 1 / 3, 4: 1 / 2}


def side(seats: int, seat: int) -> int:
    """The side of a seat: partners sit opposite (D8)."""
    return {2: [0, 1], 3: [0, 1, 2], 4: [0, 1, 0, 1]}[seats][seat]


def choice(ids: list[int], key: int, offset: int) -> int:
    """What a `Keyed` agent takes among these legal ids."""
    return ids[(key + offset) % len(ids)]


class Keyed:
    """Chooses by key, so it plays the same match only if it gets the same keys; keeps what it was given."""

    def __init__(self, offset: int = 0, *, sees_all: bool = False) -> None:
        self.offset, self.sees_all = offset, sees_all
        self.seen: dict[int, tuple[bytes, bytes]] = {}  # position and mask by key
        self.calls = 0

    def reset(self, seed: int) -> None:
        raise AssertionError("whoever calls the arena resets the agents")

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> Any:
        self.calls += 1
        for row, key in enumerate(keys.tolist()):
            self.seen[key] = views[row].tobytes(), masks[row].tobytes()
        chosen = [
            choice(np.flatnonzero(mask).tolist(), key, self.offset)
            for mask, key in zip(masks, keys.tolist(), strict=True)
        ]
        return np.array(chosen)


class Slow(NamedTuple):
    """A match that was played through the AEC environment."""

    actions: list[int]
    winner: int
    scores: list[int]
    seen: tuple[dict[int, tuple[bytes, bytes]], dict[int, tuple[bytes, bytes]]]  # of both agents, as `Keyed.seen`


def slow_match(
    seats: int, seed: int, rotation: int, offsets: tuple[int, int], all_seen: tuple[bool, bool], **rules: Any
) -> Slow:
    """The match of a seed between two `Keyed` agents, the first of which sits where the rotation says."""
    env = raw_env(seats, skip_forced=True, **rules)
    env.reset(seed=seed)
    actions: list[int] = []
    seen: Any = ({}, {})
    while not any(env.terminations.values()):
        seat = int(env.record.turn)
        agent = 0 if side(seats, seat) == rotation else 1
        key = int(decision_key(seed, rotation, len(actions)))
        shown = env.record if all_seen[agent] else view(env.record, seat)
        seen[agent][key] = shown.tobytes(), env.observe(env.agent_selection)["action_mask"].tobytes()
        actions.append(choice(legal(env), key, offsets[agent]))
        env.step(actions[-1])
    told = env.infos[env.agent_selection]
    return Slow(actions, told["winner"], list(told["scores"]), seen)


def final_scores(tally: Any, sides: int) -> list[int]:
    """What a tally's accepted points come to."""
    points = tally["points"]
    gained = points[:, PLACEMENTS] + points[:, GOING_OUT] + points[:, BLOCKED_HANDS] - points[:, PARTNER]
    assert not gained[sides:].any()
    return [int(gain) for gain in gained[:sides]]


def records_of(blocks: Blocks, seats: int, first_seed: int) -> list[Record | None]:
    """The record of every match, None where there is none."""
    return [next(read_records([line])) if line else None for line in record_lines(blocks, seats, first_seed)]


# Which matches


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("all_seen", [(False, False), (True, False), (False, True)])
def test_every_match_is_that_of_its_seed_and_rotation(seats: int, all_seen: tuple[bool, bool]) -> None:
    a, b = Keyed(0, sees_all=all_seen[0]), Keyed(1, sees_all=all_seen[1])
    blocks = play_blocks(a, b, seats, first=4, count=2, seed=50)
    slow = [
        slow_match(seats, seed, rotation, (0, 1), all_seen) for seed in (54, 55) for rotation in range(ROTATIONS[seats])
    ]
    assert blocks.actions == [match.actions for match in slow]
    assert blocks.tallies["winner"].tolist() == [match.winner for match in slow]
    assert [final_scores(tally, SIDES[seats]) for tally in blocks.tallies] == [match.scores for match in slow]
    assert blocks.num_sides == SIDES[seats]
    assert blocks.a_sides.tolist() == 2 * list(range(ROTATIONS[seats]))
    assert scores_of_a(blocks, seats).tolist() == [
        match.winner == rotation for match, rotation in zip(slow, 2 * list(range(ROTATIONS[seats])), strict=True)
    ]
    assert (blocks.tallies["forfeit"] == -1).all()
    # Every decision with the key of its seed, rotation and ply, and with that position and mask.
    for number, agent in enumerate((a, b)):
        assert agent.seen == {key: seen for match in slow for key, seen in match.seen[number].items()}
    assert len(a.seen.keys() | b.seen.keys()) == sum(map(len, blocks.actions)) > 300
    assert blocks.decisions.tolist() == [[len(a.seen), len(b.seen)]]


@pytest.mark.parametrize("seats", SEATS)
def test_a_mini_game_is_played_by_its_rules(seats: int) -> None:
    rules: dict[str, Any] = {"hand_size": 2, "target": 60, "max_pip": 3, "without": ("0|0", "0|3")}
    blocks = play_blocks(Keyed(), Keyed(1), seats, first=4, count=2, seed=50, **rules)
    slow = [
        slow_match(seats, seed, rotation, (0, 1), (False, False), **rules)
        for seed in (54, 55)
        for rotation in range(ROTATIONS[seats])
    ]
    assert blocks.actions == [match.actions for match in slow]
    assert blocks.tallies["winner"].tolist() == [match.winner for match in slow]
    assert [match.scores[match.winner] for match in slow] == [60] * len(slow)
    assert [final_scores(tally, SIDES[seats]) for tally in blocks.tallies] == [match.scores for match in slow]


@pytest.mark.parametrize("seats", SEATS)
def test_agents_see_their_own_hand_and_are_asked_where_there_is_a_choice(seats: int) -> None:
    a, b = Keyed(), Keyed(sees_all=True)
    play_blocks(a, b, seats, first=0, count=2)
    for position, mask in [*a.seen.values(), *b.seen.values()]:
        state = np.frombuffer(position, STATE)[0]
        seat = int(state["turn"])
        others = [other for other in range(seats) if other != seat]
        assert sum(mask) > 1
        assert state["hands"][seat] != 0
        if state["observer"] == 255:
            assert (position, mask) in b.seen.values()
            assert (state["hands"][others] != 0).all()
        else:
            assert state["observer"] == seat
            assert state["seed"] == 0
            assert not state["hands"][others].any()
            assert (position, mask) in a.seen.values()


def test_seats_of_the_line_ups() -> None:
    line_ups = {seats: ["".join(seated(seats, turn, "a", "b")) for turn in range(block_size(seats))] for seats in SEATS}
    assert line_ups == {2: ["ab", "ba"], 3: ["abb", "bab", "bba"], 4: ["abab", "baba"]}
    assert [even_share(seats) for seats in SEATS] == [1 / 2, 1 / 3, 1 / 2]


@pytest.mark.parametrize("seats", SEATS)
def test_a_block_depends_on_its_seed_alone(seats: int) -> None:
    def played(first: int, count: int, seed: int) -> tuple[list[bytes], list[list[int]]]:
        blocks = play_blocks(RandomAgent(), GreedyAgent(), seats, first=first, count=count, seed=seed)
        return [tally.tobytes() for tally in blocks.tallies], blocks.actions

    size = ROTATIONS[seats]
    tallies, actions = played(0, 11, 7)
    part = tallies[5 * size : 9 * size], actions[5 * size : 9 * size]
    assert played(5, 4, 7) == played(0, 4, 12) == played(12, 4, 0) == part
    assert len(set(map(tuple, actions))) == 11 * size


def test_seeds_beyond_32_bits() -> None:
    seed = 2**64 - 100
    blocks = play_blocks(Keyed(), Keyed(1), 2, first=3, count=1, seed=seed)
    assert blocks.actions == [slow_match(2, seed + 3, turn, (0, 1), (False, False)).actions for turn in (0, 1)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("count", 0),
        ("count", True),
        ("first", -1),
        ("first", 0.0),
        ("seed", -1),
        ("seed", 2**64 - 1),
        ("max_rounds", 0),
        ("num_players", 1),
        ("num_players", 5),
    ],
)
def test_impossible_arguments(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"num_players": 2, "first": 0, "count": 1, argument: value}
    with pytest.raises(ValueError, match=argument):
        play_blocks(GreedyAgent(), GreedyAgent(), **arguments)


@pytest.mark.parametrize("seats", SEATS)
def test_a_deterministic_agent_against_itself_wins_once_in_every_block(seats: int) -> None:
    """All matches of a block are the same match then, and each side has its turn at being a's."""
    agent = GreedyAgent()
    blocks = play_blocks(agent, agent, seats, first=0, count=200, seed=1)
    assert (scores_of_a(blocks, seats).reshape(200, -1).sum(axis=1) == 1).all()
    assert len(set(blocks.tallies["winner"].tolist())) == SIDES[seats]


@pytest.mark.parametrize("seats", SEATS)
def test_random_against_random_wins_its_share(seats: int) -> None:
    scores = scores_of_a(play_blocks(RandomAgent(), RandomAgent(), seats, first=0, count=400, seed=1), seats)
    # Matches of a block share their deal, which makes their mean vary less than that of independent ones, if at all.
    sigma = (EVEN[seats] * (1 - EVEN[seats]) / len(scores)) ** 0.5
    assert abs(scores.mean() - EVEN[seats]) < 4 * sigma


class Vandal(Keyed):
    """Scribbles over whatever it can reach, also afterwards."""

    kept: tuple[Any, ...] = ()

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> Any:
        for array in self.kept:
            array.fill(0)
        actions = super().act(views, masks, keys)
        views[:] = np.ones(len(views), STATE)
        masks[:] = 1
        keys[:] = 0
        self.kept = views, masks, keys, actions
        return actions


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("sees_all", [False, True])
def test_what_agents_write_into_what_they_are_given_changes_nothing(seats: int, sees_all: bool) -> None:
    def played(kind: type[Keyed]) -> tuple[bytes, list[list[int]]]:
        agents = kind(0, sees_all=sees_all), kind(1, sees_all=sees_all)
        blocks = play_blocks(*agents, seats, first=0, count=3, seed=9)
        return blocks.tallies.tobytes(), blocks.actions

    assert played(Vandal) == played(Keyed)


# What is counted


def counted(record: Record) -> dict[str, Any]:
    """A tally by the record's texts and events alone; under "gains", what each side gained in each round."""
    seats, sides = record["num_players"], SIDES[record["num_players"]]
    tally: dict[str, Any] = {"winner": -1 if record["winner"] is None else record["winner"]}
    tally |= {"rounds": len(record["rounds"]), "blocked": 0, "out": [0] * 3, "refused": [0] * 3}
    tally |= {"points": [[0] * 4 for _ in range(3)], "gains": []}
    before = [0] * sides
    for written in record["rounds"]:
        held, settled = [5] * seats, False
        for action, events in zip(written["actions"], written["events"], strict=True):
            seat, move = int(action[0]), action[2:]
            held[seat] += {"draw": 1, "pass": 0}.get(move, -1)
            settlement = "out" if held[seat] == 0 else "blocked"
            settled = bool(events) and any(event["settlement"] for event in events)
            for event in events:
                if not event["accepted"]:
                    tally["refused"][event["side"]] += 1
                    continue
                points = tally["points"][event["side"]]
                points[PLACEMENTS] += event["placement"]
                points[GOING_OUT if settlement == "out" else BLOCKED_HANDS] += event["settlement"]
                points[PARTNER] -= event["partner"]
        if held[seat] == 0:
            tally["out"][side(seats, seat)] += 1
        elif "blocked" in written["result"] or settled:  # or settled up to an event that won the match
            tally["blocked"] += 1
        tally["gains"].append([now - then for now, then in zip(written["scores"], before, strict=True)])
        before = written["scores"]
    return tally


# Blocks (first, count) between greedy and random, found by a search: everything that is counted occurs in them, and in
# the last of them a match is won within the settlement of a blocked round.
EVENTFUL = {2: [(739, 4), (436, 1)], 3: [(265, 4), (749, 1)], 4: [(626, 4), (324, 1)]}


@pytest.mark.parametrize("seats", SEATS)
def test_counts_agree_with_the_records(seats: int) -> None:
    parts, margins, blocked_wins = [no_blocks(seats)], Counter[float](), 0
    for first, count in EVENTFUL[seats]:
        blocks = play_blocks(GreedyAgent(), RandomAgent(), seats, first=first, count=count)
        parts.append(blocks)
        for record, tally, a_side in zip(records_of(blocks, seats, first), blocks.tallies, blocks.a_sides, strict=True):
            assert record is not None
            match = replay(record)
            expected = counted(record)
            for gains in expected.pop("gains"):
                others = [gain for other, gain in enumerate(gains) if other != a_side]
                margins[gains[a_side] - sum(others) / len(others)] += 1
            assert {name: tally[name].tolist() for name in expected} == expected
            assert match.winner == tally["winner"]
            assert match.scores == final_scores(tally, SIDES[seats])
            assert match.winner is not None and match.scores[match.winner] == 305
            blocked_wins += any(event["settlement"] for event in match.events) and bool(match.hands[match.turn])
    all_blocks = joined(parts)
    assert {(number - 400) * 2.5: count for number, count in enumerate(all_blocks.margins) if count} == margins
    # What is to be told apart does occur.
    totals = all_blocks.tallies["points"].sum(axis=0)[: SIDES[seats]]
    assert (totals[:, [PLACEMENTS, GOING_OUT, BLOCKED_HANDS]] > 0).all()
    assert (totals[:, PARTNER] > 0).all() == (seats == 4)
    assert (all_blocks.tallies["refused"].sum(axis=0)[: SIDES[seats]] > 0).all()
    assert all_blocks.tallies["blocked"].sum() > 3
    assert any(margin % 5 for margin in margins) == (seats == 3)
    assert blocked_wins > 0


def test_margins_by_hand() -> None:
    """Of seed 0: what greedy gains in a round over random, from the scores after it."""
    blocks = play_blocks(GreedyAgent(), RandomAgent(), 2, first=0, count=1)
    expected: Counter[int] = Counter()
    for record, a_side in zip(records_of(blocks, 2, 0), (0, 1), strict=True):
        assert record is not None
        leads = [0, *(written["scores"][a_side] - written["scores"][1 - a_side] for written in record["rounds"])]
        expected.update(now - then for then, now in itertools.pairwise(leads))
    assert {lead: int(blocks.margins[400 + lead * 2 // 5]) for lead in expected} == expected
    assert blocks.margins.sum() == expected.total()


@pytest.mark.parametrize("seats", SEATS)
def test_a_match_that_is_stopped_has_no_winner(seats: int) -> None:
    whole = play_blocks(Keyed(), Keyed(1), seats, first=0, count=2)
    rounds = whole.tallies["rounds"]
    stopped = play_blocks(Keyed(), Keyed(1), seats, first=0, count=2, max_rounds=2)
    assert (rounds > 2).all()
    assert (stopped.tallies["winner"] == -1).all()
    assert (stopped.tallies["forfeit"] == -1).all()
    assert (stopped.tallies["rounds"] == 2).all()
    assert stopped.margins.sum() == 2 * len(rounds)
    assert scores_of_a(stopped, seats).tolist() == [EVEN[seats]] * len(rounds)
    for short, long in zip(stopped.actions, whole.actions, strict=True):
        assert short == long[: len(short)]
    for record, long_record in zip(records_of(stopped, seats, 0), records_of(whole, seats, 0), strict=True):
        assert record is not None and long_record is not None
        assert replay(record).winner is None
        assert record["rounds"] == long_record["rounds"][:2]


@pytest.mark.parametrize("seats", SEATS)
def test_a_match_may_be_won_in_the_last_round(seats: int) -> None:
    whole = play_blocks(Keyed(), Keyed(1), seats, first=0, count=4)
    limit = int(sorted(whole.tallies["rounds"])[2])
    stopped = play_blocks(Keyed(), Keyed(1), seats, first=0, count=4, max_rounds=limit)
    won = whole.tallies["rounds"] <= limit
    assert 0 < won.sum() < len(won)
    assert stopped.tallies["winner"].tolist() == np.where(won, whole.tallies["winner"], -1).tolist()
    assert stopped.tallies[won].tobytes() == whole.tallies[won].tobytes()


def test_joined_blocks_are_the_blocks_of_both() -> None:
    def faulty() -> Agent:
        return Faulty(lambda actions, masks, bad: 1 // 0)

    whole = play_blocks(faulty(), RandomAgent(), 3, first=0, count=5)
    parts = [
        play_blocks(faulty(), RandomAgent(), 3, first=first, count=count) for first, count in ((0, 2), (2, 1), (3, 2))
    ]
    together = joined([no_blocks(3), *parts])
    assert (together.num_sides, together.block_size) == (3, 3)
    assert together.tallies.tobytes() == whole.tallies.tobytes()
    assert together.a_sides.tolist() == whole.a_sides.tolist()
    assert together.margins.tolist() == whole.margins.tolist()
    assert together.actions == whole.actions
    assert together.decisions.shape == together.seconds.shape == (3, 2)
    assert together.forfeits_of_a().tolist() == whole.forfeits_of_a().tolist()
    assert together.forfeit_reasons == whole.forfeit_reasons
    assert len(whole.forfeit_reasons[0]) == 1


# Forfeits

RARE = 150  # of how many keys one makes a `Faulty` agent fail

Fault = Callable[[NDArray[np.int64], NDArray[np.int8], NDArray[np.bool_]], Any]


class Faulty(Keyed):
    """Plays as `Keyed`, but whenever one of the keys is such, returns what `fault(actions, masks, bad rows)` does."""

    def __init__(self, fault: Fault, rare: int = RARE) -> None:
        super().__init__()
        self.fault, self.rare = fault, rare

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> Any:
        actions = super().act(views, masks, keys)
        bad = keys % np.uint64(self.rare) == 0
        return self.fault(actions, masks, bad) if bad.any() else actions


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Fault:
    def fault(*_: Any) -> None:
        raise error

    return fault


def draw_and_allow(actions: NDArray[np.int64], masks: NDArray[np.int8], bad: NDArray[np.bool_]) -> Any:
    masks[:] = 1
    return np.where(bad, 161, actions)


#: What a faulty agent does, and the reason that is given.
FAULTS: dict[str, tuple[Fault, str]] = {
    "raises": (raising(ZeroDivisionError("no idea")), "ZeroDivisionError: no idea"),
    "raises at length": (raising(RuntimeError("x" * 1000)), "RuntimeError: " + "x" * 186),
    "raises what cannot be printed": (raising(Unprintable()), "Unprintable: it has no text"),
    "exits": (lambda *_: sys.exit(3), "SystemExit: 3"),
    "None": (lambda *_: None, "ValueError: act must return 1 integers, not object[]"),
    "a number": (lambda actions, *_: actions[0], "ValueError: act must return 1 integers, not int64[]"),
    "one too many": (lambda actions, *_: np.append(actions, 0), "ValueError: act must return 1 integers, not int64[2]"),
    "none at all": (lambda actions, *_: actions[:0], "ValueError: act must return 1 integers, not int64[0]"),
    "a column": (lambda actions, *_: actions[:, None], "ValueError: act must return 1 integers, not int64[1, 1]"),
    "floats": (lambda actions, *_: actions * 1.0, "ValueError: act must return 1 integers, not float64[1]"),
    "bools": (lambda actions, *_: actions > 80, "ValueError: act must return 1 integers, not bool[1]"),
    "texts": (lambda actions, *_: ["28"] * len(actions), "ValueError: act must return 1 integers, not <U2[1]"),
    "large ints": (lambda actions, *_: [2**70] * len(actions), "ValueError: act must return 1 integers, not object[1]"),
    "-1": (lambda actions, _, bad: np.where(bad, -1, actions), "ValueError: action -1 is not legal"),
    "163": (lambda actions, _, bad: np.where(bad, 163, actions), "ValueError: action 163 is not legal"),
    "2**64 - 1": (
        lambda actions, _, bad: np.where(bad, 2**64 - 1, actions.astype(np.uint64)),
        f"ValueError: action {2**64 - 1} is not legal",
    ),
    # A draw is never one of several legal actions (R11, R12).
    "an illegal draw": (lambda actions, _, bad: np.where(bad, 161, actions), "ValueError: action 161 is not legal"),
    "an illegal draw that it writes into the mask": (draw_and_allow, "ValueError: action 161 is not legal"),
}


def check_forfeits(seats: int, number: int, fault: Fault, reason: str) -> None:
    """Play blocks with a faulty agent 0 or 1 and compare them with the same blocks without faults."""

    def played(agent: Agent) -> Blocks:
        a, b = (agent, Keyed(1)) if number == 0 else (Keyed(1), agent)
        return play_blocks(a, b, seats, first=3, count=4, seed=20)

    sound = Keyed()
    undisturbed, blocks = played(sound), played(Faulty(fault))
    failed = []
    for match, actions in enumerate(undisturbed.actions):
        seed, rotation = 23 + match // ROTATIONS[seats], match % ROTATIONS[seats]
        keys = [int(decision_key(seed, rotation, ply)) for ply in range(len(actions))]
        stop = next((ply for ply, key in enumerate(keys) if key in sound.seen and key % RARE == 0), None)
        failed.append(stop is not None)
        assert blocks.actions[match] == actions[:stop]
        if stop is None:
            assert blocks.tallies[match].tobytes() == undisturbed.tallies[match].tobytes()
        else:
            assert blocks.tallies["winner"][match] == -1
            assert (side(seats, blocks.tallies["forfeit"][match]) == rotation) == (number == 0)
            last = np.frombuffer(sound.seen[keys[stop]][0], STATE)[0]
            assert blocks.tallies["forfeit"][match] == last["turn"]
            assert blocks.tallies["rounds"][match] == last["round_number"] - 1
    assert 0 < sum(failed) < len(failed)
    assert (blocks.tallies["forfeit"] >= 0).tolist() == failed
    assert blocks.forfeits_of_a().tolist() == [number == 0 and fail for fail in failed]
    lost = 1.0 if number else 0.0
    assert scores_of_a(blocks, seats).tolist() == np.where(failed, lost, scores_of_a(undisturbed, seats)).tolist()
    assert blocks.forfeit_reasons[number] == [reason]
    assert blocks.forfeit_reasons[1 - number] == []


@pytest.mark.parametrize("name", FAULTS)
def test_whoever_gives_no_legal_action_forfeits_that_match(name: str) -> None:
    check_forfeits(2, 0, *FAULTS[name])


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_forfeit_is_a_loss_of_the_whole_side(seats: int, number: int) -> None:
    check_forfeits(seats, number, *FAULTS["raises"])


@pytest.mark.parametrize("seats", SEATS)
def test_agents_that_always_fail_lose_with_their_first_turn(seats: int) -> None:
    agents = Faulty(raising(ValueError("first")), rare=1), Faulty(raising(ValueError("second")), rare=1)
    blocks = play_blocks(*agents, seats, first=0, count=20)
    starters = [Match(seats, seed=seed).turn for seed in range(20) for _ in range(ROTATIONS[seats])]
    assert blocks.tallies["forfeit"].tolist() == starters
    assert set(starters) == set(range(seats))
    own = [side(seats, seat) == match % ROTATIONS[seats] for match, seat in enumerate(starters)]
    assert scores_of_a(blocks, seats).tolist() == [0.0 if mine else 1.0 for mine in own]
    assert blocks.forfeit_reasons == (["ValueError: first"], ["ValueError: second"])
    assert blocks.actions == [[]] * len(starters)
    assert not blocks.tallies["rounds"].any()
    assert not blocks.tallies["points"].any()
    assert not blocks.margins.any()
    assert list(record_lines(blocks, seats, 0)) == [""] * len(starters)


@pytest.mark.parametrize("seats", SEATS)
def test_the_record_of_a_forfeited_match_holds_whole_rounds(seats: int) -> None:
    blocks = play_blocks(Faulty(raising(ValueError())), Keyed(1), seats, first=3, count=4, seed=20)
    whole = records_of(play_blocks(Keyed(), Keyed(1), seats, first=3, count=4, seed=20), seats, 23)
    ended = 0
    for record, complete, tally in zip(records_of(blocks, seats, 23), whole, blocks.tallies, strict=True):
        assert complete is not None
        if record is None:
            assert tally["rounds"] == 0
            continue
        assert record["rounds"] == complete["rounds"][: int(tally["rounds"])]
        match = replay(record)
        ended += match.winner is not None
        assert (match.winner is None) == (tally["forfeit"] >= 0)
        expected = counted(record)
        for name in ("rounds", "blocked", "out", "refused", "points"):  # nothing of the round that was broken off
            assert tally[name].tolist() == expected[name]
    assert 0 < ended < len(whole)


def test_negative_ids_are_not_counted_from_the_end() -> None:
    blocks = play_blocks(Faulty(lambda actions, *_: actions - 163, rare=1), Keyed(1), 2, first=0, count=2)
    assert blocks.forfeits_of_a().all()
    assert all(reason.startswith("ValueError: action -") for reason in blocks.forfeit_reasons[0])


class OneAtATime(Keyed):
    """Cannot take more than one position at once, and scribbles over them when it tries."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> Any:
        if len(views) > 1:
            views[:], masks[:], keys[:] = np.ones(1, STATE), 1, 0
            raise NotImplementedError
        return super().act(views, masks, keys)


@pytest.mark.parametrize(
    "agent",
    [
        OneAtATime(),
        Faulty(lambda actions, *_: actions.tolist(), rare=1),
        Faulty(lambda actions, *_: tuple(actions), rare=1),
        Faulty(lambda actions, *_: actions.astype(np.uint8), rare=1),
        Faulty(lambda actions, *_: actions.astype(np.uint64), rare=1),
        Faulty(lambda actions, *_: actions.astype(">i4"), rare=1),
    ],
)
def test_what_is_no_reason_to_forfeit(agent: Agent) -> None:
    blocks = play_blocks(agent, Keyed(1), 2, first=0, count=2)
    expected = play_blocks(Keyed(), Keyed(1), 2, first=0, count=2)
    assert blocks.tallies.tobytes() == expected.tallies.tobytes()
    assert blocks.actions == expected.actions
    assert blocks.forfeit_reasons == ([], [])


def test_only_the_first_reasons_are_kept() -> None:
    calls = itertools.count()

    def fault(*_: Any) -> None:
        raise ValueError(next(calls))  # 0 for the batch, and then once for each match

    blocks = play_blocks(Faulty(fault, rare=1), Keyed(1), 2, first=0, count=20)
    assert blocks.forfeits_of_a().sum() > 5
    assert blocks.forfeit_reasons == ([f"ValueError: {number}" for number in range(1, 6)], [])


def test_joined_blocks_have_the_first_reasons_of_all() -> None:
    parts = [no_blocks(2) for _ in range(3)]
    parts[0].forfeit_reasons = ["p", "q"], []
    parts[1].forfeit_reasons = ["q", "r", "p", "s"], ["v"]
    parts[2].forfeit_reasons = ["r", "t", "u", "w", "x"], ["v", "p"]
    assert joined(parts).forfeit_reasons == (["p", "q", "r", "s", "t"], ["v", "p"])


def test_an_interruption_is_no_forfeit() -> None:
    with pytest.raises(KeyboardInterrupt):
        play_blocks(Faulty(raising(KeyboardInterrupt()), rare=1), RandomAgent(), 2, first=0, count=1)
