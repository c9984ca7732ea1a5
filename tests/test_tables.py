"""The tables of self-play, against matches played one by one in the AEC environment; opponents; going on."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.agent import Agent  # noqa: E402
from agents.baselines import GreedyAgent, RandomAgent  # noqa: E402
from agents.search.winning_chances import load_winning_chances  # noqa: E402
from agents.training.tables import LEARNER, SelfPlayVecEnv  # noqa: E402
from fivesup_env import IllegalAction, Match  # noqa: E402
from fivesup_env.episode import match_seed  # noqa: E402
from fivesup_env.rules.chance import mix  # noqa: E402
from fivesup_env.rules.state import STATE  # noqa: E402
from tests.playing import SEATS, raw_env  # noqa: E402

SCALE = 10.0
SEED = 600


class Opponents:
    """Two opponents, numbers 4 and 7, drawn by the key's last bit; keeps results and what the agents were shown."""

    def __init__(self) -> None:
        self.results: list[tuple[int, bool]] = []
        self.agents: dict[int, Agent] = {4: GreedyAgent(), 7: RandomAgent()}
        self.shown: list[tuple[Any, Any, Any]] = []

    def draw(self, key: np.uint64) -> int:
        return 7 if int(key) % 2 else 4

    def agent(self, number: int) -> Agent:
        watched = Watched(self.agents[number], self.shown)
        assert isinstance(watched, Agent)
        return watched

    def note(self, number: int, won: bool) -> None:
        self.results.append((number, won))


class Nobody(Opponents):
    """No opponents at all."""

    def draw(self, key: np.uint64) -> int:
        return LEARNER


class Watched:
    """An agent, and what it was asked."""

    def __init__(self, agent: Agent, shown: list[tuple[Any, Any, Any]]) -> None:
        self.agent, self.shown = agent, shown

    def reset(self, seed: int) -> None:
        self.agent.reset(seed)

    def act(self, views: Any, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        self.shown.append((views.copy(), masks.copy(), keys.copy()))
        return self.agent.act(views, masks, keys)


class Slow:
    """One table: round by round a new AEC environment, seats asked one after the other."""

    def __init__(self, row: int, num_players: int, opponents: Opponents | None) -> None:
        self.row, self.num_players, self.opponents = row, num_players, opponents
        self.sides = 2 if num_players == 4 else num_players
        self.table = load_winning_chances(num_players)
        self.rounds = self.matches = self.blocked = self.draws = self.points = 0
        self.learners: list[int] = []  # side of each match
        self.scores = [0] * self.sides
        self.starter: int | None = None
        self._deal()
        self._take_seats()
        self.play_opponents([])

    def _deal(self) -> None:
        self.seed = match_seed(SEED + self.row, self.rounds)
        self.env = raw_env(num_players=self.num_players, skip_forced=True, episode="round", reward="points")
        self.env.reset(seed=self.seed, options={"scores": self.scores, "starter": self.starter})
        started = int(self.env.record.starter)
        assert self.starter in (None, started)
        self.before = self.table(np.array([self.scores]), np.array([started]))[0]
        self.plies = 0

    def _take_seats(self) -> None:
        """Every side in turn is the learner's, from match to match."""
        if self.opponents is None:
            self.owners = [LEARNER] * self.num_players
            return
        learner = (self.row + self.matches) % self.sides
        number = self.opponents.draw(np.uint64(mix(np.uint64(0x0990), np.uint64(self.seed))))
        self.owners = [LEARNER if seat % self.sides == learner else number for seat in range(self.num_players)]
        self.learners.append(learner)

    def seat(self) -> int:
        return int(self.env.agent_selection[-1])

    def act(self, action: int, paid: list[Any]) -> None:
        """Take an action; append what every seat earned if that ends the round, and go on to the next one."""
        self.env.step(int(action))
        self.plies += 1
        match = Match.from_state(self.env.record)
        if not match.round_over:
            return
        if match.winner is None:
            starter = -1 if match.next_starter is None else match.next_starter
            after = self.table(np.array([match.scores]), np.array([starter]))[0]
        else:
            after = np.eye(self.sides)[match.winner]
        paid.append([(after - self.before)[seat % self.sides] for seat in range(self.num_players)])
        self._next_round(match)

    def _next_round(self, match: Match) -> None:
        self.rounds += 1
        won = match.winner is not None
        self.blocked += not won and match.next_starter is None
        self.draws += sum(action.endswith(" draw") for action in match.history)
        self.points += sum(match.scores) - sum(self.scores)
        self.scores, self.starter = ([0] * self.sides, None) if won else (match.scores, match.next_starter)
        if won and self.opponents is not None:
            assert match.winner is not None
            self.opponents.note(max(self.owners), self.owners[match.winner] == LEARNER)
        self.matches += won
        self._deal()
        if won:
            self._take_seats()

    def play_opponents(self, paid: list[Any]) -> None:
        while self.owners[self.seat()] != LEARNER:
            assert self.opponents is not None
            views = np.zeros(1, STATE)
            views[0] = Match.from_state(self.env.record).view(self.seat()).state
            masks = self.env.observe(self.env.agent_selection)["action_mask"][None]
            key = mix(np.uint64(mix(np.uint64(0x0770), np.uint64(self.seed))), np.uint64(self.plies))
            keys = np.array([key], np.uint64)
            number = self.owners[self.seat()]
            self.act(self.opponents.agent(number).act(views, masks, keys)[0], paid)

    def step(self, action: int) -> list[Any]:
        """Take the learner's action; return what every seat earned in the rounds that ended."""
        paid: list[Any] = []
        self.act(action, paid)
        self.play_opponents(paid)
        return paid


def chosen(masks: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random legal action at every table."""
    actions: NDArray[np.int64] = np.argmax(rng.random(masks.shape) * masks, axis=1)
    return actions


def check_position(tables: SelfPlayVecEnv, observations: Any, alone: list[Slow]) -> None:
    masks = tables.action_masks()
    for row, table in enumerate(alone):
        seen = table.env.observe(table.env.agent_selection)
        assert tables.to_play[row] == table.seat()
        assert table.owners[table.seat()] == LEARNER
        np.testing.assert_array_equal(observations[row], seen["observation"])
        np.testing.assert_array_equal(masks[row], seen["action_mask"].astype(bool))
        assert tables.owners[row].tolist() == table.owners


def order_free(shown: list[tuple[Any, Any, Any]]) -> Counter[bytes]:
    """What agents were shown, row by row, in no order."""
    return Counter(b"".join(part.tobytes() for part in row) for batch in shown for row in zip(*batch, strict=True))


@pytest.mark.parametrize(("seats", "opponent_tables", "steps"), [(2, 2, 200), (3, 3, 160), (4, 2, 240), (2, 0, 160)])
def test_tables_play_what_the_aec_environment_plays(seats: int, opponent_tables: int, steps: int) -> None:
    opponents, others = Opponents(), Opponents()
    tables = SelfPlayVecEnv(
        opponent_tables + 2, num_players=seats, seed=SEED, reward_scale=SCALE,
        opponents=opponents if opponent_tables else None, opponent_tables=opponent_tables,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    observations: Any = tables.reset()
    alone = [Slow(row, seats, others if row < opponent_tables else None) for row in range(opponent_tables + 2)]
    again = rounds = 0
    for _ in range(steps):
        check_position(tables, observations, alone)
        actions, actors = chosen(tables.action_masks(), rng), tables.to_play
        observations, rewards, dones, infos = tables.step(actions)
        for row, table in enumerate(alone):
            paid = table.step(int(actions[row]))
            wanted = np.array(paid[0]) * SCALE if paid else np.zeros(seats)
            np.testing.assert_allclose(tables.seat_rewards[row], wanted, atol=1e-4)
            assert rewards[row] == tables.seat_rewards[row, actors[row]]
            assert dones[row] == tables.ended[row] == bool(paid)
            assert tables.acted[row] == actors[row]
            rounds += len(paid)
            again += not paid and table.owners == [LEARNER] * seats and tables.to_play[row] == actors[row]
        assert infos == [{}] * len(alone)
        check_shown(opponents, others)
    counts = tables.take_statistics()
    assert counts == {
        "matches": sum(table.matches for table in alone),
        "rounds": rounds,
        "blocked": sum(table.blocked for table in alone),
        "decisions": steps * len(alone),
        "draws": sum(table.draws for table in alone),
        "points": sum(table.points for table in alone),
    }
    assert tables.take_statistics() == dict.fromkeys(counts, 0)
    assert min(counts["matches"], counts["blocked"], again) > 0  # `again`: all others passed, or had no choice
    assert Counter(opponents.results) == Counter(others.results)
    assert len(opponents.results) == sum(table.matches for table in alone[:opponent_tables])


def check_shown(opponents: Opponents, others: Opponents) -> None:
    """The opponents are shown the views of the seats to move, and no more."""
    for views, masks, _ in opponents.shown:
        assert (views["observer"] == views["turn"]).all()
        assert (masks.sum(axis=1) > 1).all()
        hands = (views["hands"] != 0).sum(axis=1)
        assert (hands == 1).all()
        assert not views["seed"].any()
    assert order_free(opponents.shown) == order_free(others.shown)
    opponents.shown.clear()
    others.shown.clear()


@pytest.mark.parametrize("seats", SEATS)
def test_the_learner_has_every_seat_equally_often(seats: int) -> None:
    sides = 2 if seats == 4 else seats
    tables = SelfPlayVecEnv(
        sides + 1, num_players=seats, seed=SEED, reward_scale=SCALE, opponents=Opponents(), opponent_tables=sides
    )
    tables.reset()
    matches: list[list[tuple[int, ...]]] = [[] for _ in range(sides)]
    rng = np.random.default_rng(1)
    while min(map(len, matches)) < sides + 1:
        owned, begun = tables.owners.copy(), tables._begun.copy()
        tables.step(chosen(tables.action_masks(), rng))
        for table in np.flatnonzero((tables._begun != begun)[:sides]).tolist():
            matches[table].append(tuple(np.flatnonzero(owned[table] == LEARNER).tolist()))
    assert (tables.owners[sides] == LEARNER).all()
    wanted = {tuple(seat for seat in range(seats) if seat % sides == side) for side in range(sides)}
    for row, found in enumerate(matches):
        assert set(found[:sides]) == wanted  # each table sees every side in turn
        assert found[0] == found[sides]
        assert row in found[0]  # and the tables begin with different ones


def test_where_nobody_is_drawn_the_learner_plays_every_seat() -> None:
    opponents = Nobody()
    tables, alone = make_tables(opponents), SelfPlayVecEnv(5, num_players=3, seed=SEED, reward_scale=SCALE)
    np.testing.assert_array_equal(tables.reset(), alone.reset())
    np.testing.assert_equal(trace(tables, 60, 1), trace(alone, 60, 1))
    assert not opponents.results


# Going on


def trace(tables: SelfPlayVecEnv, steps: int, seed: int) -> list[Any]:
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        observations, rewards, dones, _ = tables.step(chosen(tables.action_masks(), rng))
        found += [observations, rewards, dones, tables.seat_rewards, tables.to_play, tables.acted, tables.owners.copy()]
    return [*found, tables.take_statistics()]


def make_tables(opponents: Opponents, num_players: int = 3) -> SelfPlayVecEnv:
    return SelfPlayVecEnv(
        5, num_players=num_players, seed=SEED, reward_scale=SCALE, opponents=opponents, opponent_tables=3
    )


@pytest.mark.parametrize("seats", SEATS)
def test_going_on_from_a_state_is_exact(seats: int) -> None:
    opponents = Opponents()
    tables = make_tables(opponents, seats)
    tables.reset()
    for first in (0, 37):  # at the very beginning, and in the midst
        trace(tables, first, 1)
        state = tables.state_dict()
        kept, seen = copy.deepcopy(state), tables.game.observed().copy()
        opponents.results.clear()
        wanted, results = trace(tables, 120, 2), list(opponents.results)
        assert all(np.array_equal(state[name], kept[name]) for name in state)  # a copy of its own
        assert all(isinstance(array, np.ndarray) for array in state.values())
        others = Opponents()
        for each, notes in ((make_tables(others, seats), others), (tables, opponents)):
            notes.results.clear()
            np.testing.assert_array_equal(each.load_state_dict(copy.deepcopy(kept)), seen)
            np.testing.assert_equal(trace(each, 120, 2), wanted)
            assert notes.results == results
        tables.load_state_dict(kept)


def test_a_reset_deals_the_same_matches_again() -> None:
    tables = make_tables(Opponents())
    first = tables.reset()
    wanted = trace(tables, 60, 3)
    np.testing.assert_array_equal(tables.reset(), first)
    np.testing.assert_equal(trace(tables, 60, 3), wanted)


def test_an_opponent_that_retires_is_replaced_in_play() -> None:
    opponents = Opponents()
    tables = make_tables(opponents)
    tables.reset()
    before = tables.owners.copy()
    tables.retire(4, 9)
    opponents.agents[9] = GreedyAgent()
    np.testing.assert_array_equal(tables.owners, np.where(before == 4, 9, before))
    assert (before == 4).any()
    results = trace(tables, 20, 1)
    assert results[-1]["decisions"] == 100


def test_an_illegal_action_moves_no_match() -> None:
    tables, twin = make_tables(Opponents()), make_tables(Opponents())
    for each in (tables, twin):
        each.reset()
    actions = tables.action_masks().argmax(axis=1)
    actions[3] = tables.action_masks()[3].argmin()
    with pytest.raises(IllegalAction, match=r"^row 3: "):
        tables.step(actions)
    np.testing.assert_equal(trace(tables, 20, 1)[:-1], trace(twin, 20, 1)[:-1])


# What SB3 asks of an environment


def test_masks_attributes_and_methods() -> None:
    tables = make_tables(Opponents())
    tables.reset()
    assert np.stack(tables.env_method("action_masks")).shape == (1, 5, 163)
    assert tables.get_attr("reward_scale", [1, 2]) == [SCALE, SCALE]
    assert tables.env_is_wrapped(object) == [False] * 5
    with pytest.raises(AttributeError, match="'seed'"):
        tables.env_method("seed")
    with pytest.raises(AttributeError, match="reward_scale"):
        tables.set_attr("reward_scale", 1.0)
    tables.close()


def test_what_a_step_returned_stays_as_it_was() -> None:
    tables = make_tables(Opponents())
    kept: list[Any] = [tables.reset()]
    before, rng = copy.deepcopy(kept), np.random.default_rng(0)
    for _ in range(40):
        kept += [*tables.step(chosen(tables.action_masks(), rng))[:3], tables.seat_rewards, tables.to_play]
        before += copy.deepcopy(kept[len(before) :])
        if any(tables.ended):
            tables.reset()
    np.testing.assert_equal(kept, before)
