"""The tables of self-play, against matches played one by one in the AEC environment; opponents; going on."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.agent import Agent  # noqa: E402
from agents.baselines import GreedyAgent, RandomAgent  # noqa: E402
from agents.search.winning_chances import WinningChances, load_winning_chances  # noqa: E402
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


class Paid(NamedTuple):
    """What an action brought."""

    by_seat: list[float]
    over: bool  # the round
    won: bool  # the match


class Slow:
    """One table: round by round a new AEC environment, seats asked one after the other."""

    def __init__(
        self,
        row: int,
        num_players: int,
        opponents: Opponents | None,
        *,
        reward: str = "win",
        shaping: bool = False,
        chances: WinningChances | None = None,
        rules: dict[str, Any] | None = None,
    ) -> None:
        self.row, self.num_players, self.opponents = row, num_players, opponents
        self.reward, self.shaping, self.rules = reward, shaping, rules or {}
        self.sides = 2 if num_players == 4 else num_players
        self.table = chances or load_winning_chances(num_players)
        self.rounds = self.matches = self.blocked = self.draws = self.points = 0
        self.learners: list[int] = []  # side of each match
        self.scores = [0] * self.sides
        self.starter: int | None = None
        self._deal()
        self._take_seats()
        self.play_opponents([])

    def _deal(self) -> None:
        self.seed = match_seed(SEED + self.row, self.rounds)
        self.env = raw_env(
            num_players=self.num_players, skip_forced=True, episode="round", reward="points", **self.rules
        )
        self.env.reset(seed=self.seed, options={"scores": self.scores, "starter": self.starter})
        started = int(self.env.record.starter)
        assert self.starter in (None, started)
        self.standing = np.array(self.scores, np.float64)  # of each side; its changes are paid
        if self.reward == "win":
            self.standing = self.table(np.array([self.scores]), np.array([started]))[0]
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

    def act(self, action: int, paid: list[Paid]) -> None:
        """Take an action; append what every seat earned by it, and go on to the next round where this one is over."""
        self.env.step(int(action))
        self.plies += 1
        match = Match.from_state(self.env.record)
        before, self.standing = self.standing, self._standing(match)
        change = self.standing - before
        if self.reward == "margin":
            change = np.array([own - np.delete(change, side).mean() for side, own in enumerate(change)])
        by_seat = [float(change[seat % self.sides]) for seat in range(self.num_players)]
        paid.append(Paid(by_seat, match.round_over, match.winner is not None))
        if match.round_over:
            self._next_round(match)

    def _standing(self, match: Match) -> Any:
        """Chances to win, which change at the end of a round alone unless they are shaped; or points."""
        if self.reward == "margin":
            return np.array(match.scores, np.float64)
        if match.winner is not None:
            return np.eye(self.sides)[match.winner]
        if match.round_over:
            starter = -1 if match.next_starter is None else match.next_starter
            return self.table(np.array([match.scores]), np.array([starter]))[0]
        if self.shaping:
            starters = np.arange(self.num_players)
            return self.table(np.array([match.scores] * self.num_players), starters).mean(axis=0)
        return self.standing

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

    def play_opponents(self, paid: list[Paid]) -> None:
        while self.owners[self.seat()] != LEARNER:
            assert self.opponents is not None
            views = np.zeros(1, STATE)
            views[0] = Match.from_state(self.env.record).view(self.seat()).state
            masks = self.env.observe(self.env.agent_selection)["action_mask"][None]
            key = mix(np.uint64(mix(np.uint64(0x0770), np.uint64(self.seed))), np.uint64(self.plies))
            keys = np.array([key], np.uint64)
            number = self.owners[self.seat()]
            self.act(self.opponents.agent(number).act(views, masks, keys)[0], paid)

    def step(self, action: int) -> list[Paid]:
        """Take the learner's action; return what it brought, and the opponents' actions after it."""
        paid: list[Paid] = []
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


def of_episode(paid: list[Paid], episode: str) -> tuple[NDArray[np.float64], bool]:
    """What every seat earned up to the episode's end, if there is one, and whether there is."""
    ends = [each.won if episode == "match" else each.over for each in paid]
    within = paid[: ends.index(True) + 1] if any(ends) else paid
    return np.sum([each.by_seat for each in within], axis=0), any(ends)


MARGIN: dict[str, Any] = {"reward": "margin"}
MATCH: dict[str, Any] = {"episode": "match"}
SHAPED: dict[str, Any] = {"shaping": True}
STORED = load_winning_chances(2)
SWAPPED: dict[str, Any] = {"chances": replace(STORED, table=STORED.table[..., ::-1].copy())}  # as the other side's
MINI: dict[str, Any] = {"rules": {"hand_size": 2, "max_pip": 3, "without": ("0|0", "0|3"), "target": 40}}


@pytest.mark.parametrize(
    ("seats", "opponent_tables", "steps", "settings"),
    [
        (2, 2, 200, {}),
        (3, 3, 160, {}),
        (4, 2, 240, {}),
        (2, 0, 160, {}),
        (2, 2, 200, MARGIN),
        (2, 2, 200, SWAPPED),
        (2, 2, 200, SWAPPED | SHAPED),
        (3, 3, 160, SHAPED | MATCH),
        (4, 2, 240, SHAPED),
        (2, 2, 200, MINI | MARGIN),
        (3, 3, 160, MINI | MARGIN | MATCH),
        (4, 2, 200, MINI | MARGIN),
    ],
)
def test_tables_play_what_the_aec_environment_plays(
    seats: int, opponent_tables: int, steps: int, settings: dict[str, Any]
) -> None:
    opponents, others = Opponents(), Opponents()
    tables = SelfPlayVecEnv(
        opponent_tables + 2, num_players=seats, seed=SEED, reward_scale=SCALE,
        opponents=opponents if opponent_tables else None, opponent_tables=opponent_tables, **settings,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    observations: Any = tables.reset()
    own = {name: value for name, value in settings.items() if name != "episode"}
    alone = [Slow(row, seats, others if row < opponent_tables else None, **own) for row in range(opponent_tables + 2)]
    again = rounds = most = 0
    for _ in range(steps):
        check_position(tables, observations, alone)
        actions, actors = chosen(tables.action_masks(), rng), tables.to_play
        observations, rewards, dones, infos = tables.step(actions)
        for row, table in enumerate(alone):
            paid = table.step(int(actions[row]))
            earned, over = of_episode(paid, settings.get("episode", "round"))
            np.testing.assert_allclose(tables.seat_rewards[row], earned * SCALE, atol=1e-4)
            assert rewards[row] == tables.seat_rewards[row, actors[row]]
            assert dones[row] == tables.ended[row] == over
            assert tables.acted[row] == actors[row]
            ends = sum(each.over for each in paid)
            rounds, most = rounds + ends, max(most, ends)
            again += not ends and table.owners == [LEARNER] * seats and tables.to_play[row] == actors[row]
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
    assert most > 1 or "rules" not in settings  # rounds without a decision of the learner's are passed over
    assert Counter(opponents.results) == Counter(others.results)
    assert len(opponents.results) == sum(table.matches for table in alone[:opponent_tables])


@pytest.mark.parametrize("seats", SEATS)
def test_shaping_changes_when_a_round_pays_and_not_what(seats: int) -> None:
    """The learner plays every seat, and the same actions are taken with and without."""
    plain, shaped = (
        SelfPlayVecEnv(6, num_players=seats, seed=SEED, reward_scale=SCALE, shaping=shaping)
        for shaping in (False, True)
    )
    np.testing.assert_array_equal(plain.reset(), shaped.reset())
    sums, rounds, sooner = np.zeros((2, 6, seats)), 0, 0
    rng = np.random.default_rng(2)
    for _ in range(200):
        actions = chosen(plain.action_masks(), rng)
        for tables, summed in zip((plain, shaped), sums, strict=True):
            tables.step(actions)
            summed += tables.seat_rewards
        ended = shaped.ended
        np.testing.assert_array_equal(ended, plain.ended)
        np.testing.assert_allclose(sums[1, ended], sums[0, ended], atol=1e-5)
        sooner += int(np.count_nonzero(shaped.seat_rewards[~ended]))
        assert not plain.seat_rewards[~ended].any()
        rounds += int(ended.sum())
        sums[:, ended] = 0
    assert rounds > 60
    assert sooner > rounds  # so it is not the same rewards at the same time


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


def make_tables(opponents: Opponents, num_players: int = 3, **settings: Any) -> SelfPlayVecEnv:
    return SelfPlayVecEnv(
        5, num_players=num_players, seed=SEED, reward_scale=SCALE, opponents=opponents, opponent_tables=3, **settings
    )


@pytest.mark.parametrize(
    ("seats", "settings"), [(2, {}), (3, {}), (4, {}), (2, SHAPED | MATCH), (3, MINI | MARGIN | MATCH)]
)
def test_going_on_from_a_state_is_exact(seats: int, settings: dict[str, Any]) -> None:
    opponents = Opponents()
    tables = make_tables(opponents, seats, **settings)
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
        for each, notes in ((make_tables(others, seats, **settings), others), (tables, opponents)):
            notes.results.clear()
            np.testing.assert_array_equal(each.load_state_dict(copy.deepcopy(kept)), seen)
            np.testing.assert_equal(trace(each, 120, 2), wanted)
            assert notes.results == results
        tables.load_state_dict(kept)


def test_every_round_begins_at_the_scores_that_are_given() -> None:
    tables = SelfPlayVecEnv(6, num_players=2, seed=SEED, reward_scale=1.0, reward="margin", scores=(290, 45))
    tables.reset()
    rng, starters, paid = np.random.default_rng(3), Counter[int](), Counter[float]()
    for _ in range(400):
        assert (tables.game.states["round_scores"][:, :2] == (290, 45)).all()
        _, _, ended, _ = tables.step(chosen(tables.action_masks(), rng))
        starters.update(tables.game.states["starter"][ended].tolist())
        paid.update(tables.seat_rewards[ended, 0].tolist())
    rounds = sum(starters.values())
    assert rounds > 100 and all(
        abs(starters[seat] - rounds / 2) < 2 * rounds**0.5 for seat in (0, 1)
    )  # four deviations
    assert max(paid) <= 15  # side 0 lacks 15 points: an event beyond is refused (R22)


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ((), r"scores: 2 seats make 2 sides \(R2\), not 0"),
        ((0, 0, 0), r"scores: 2 seats make 2 sides \(R2\), not 3"),
        ((0, 7), r"scores\[1\] must be a multiple of five \(R10\), not 7"),
    ],
)
def test_scores_from_which_no_round_can_begin_are_told(scores: tuple[int, ...], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        SelfPlayVecEnv(1, num_players=2, seed=SEED, reward_scale=1.0, scores=scores)


def test_scores_leave_no_tables_to_opponents() -> None:
    with pytest.raises(ValueError, match=r"^scores leave no tables to opponents"):
        make_tables(Opponents(), 2, scores=(0, 0))
    SelfPlayVecEnv(2, num_players=2, seed=SEED, reward_scale=1.0, opponents=Opponents(), scores=(0, 0))  # at no table


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
