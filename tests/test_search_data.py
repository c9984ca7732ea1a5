"""Shards of search data: held against matches played one by one, generated in any way, and damaged in many."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import make_agent
from agents.agent import decision_key
from agents.search.pimc import PimcAgent
from agents.search.winning_chances import load_winning_chances
from agents.training.search_data import (
    VALUE_SCALE,
    Examples,
    SearchPlan,
    Shard,
    generate,
    load_shard,
    play_shard,
    replay,
    save_shard,
)
from fivesup_env import Match
from fivesup_env.actions import action_mask, action_move
from fivesup_env.notation import move_text
from fivesup_env.observation import OBS_SIZE
from fivesup_env.rules.state import STATE
from tests.playing import SEATS, raw_env

PLAN = SearchPlan(teacher="pimc:1", explore=0.1, matches=1, seed=70)


class Replay:
    """A match of a shard, played again by `Match` and the AEC environment side by side; forced steps by hand."""

    def __init__(self, num_players: int, seed: int) -> None:
        self.match = Match(num_players, seed=seed)
        self.env = raw_env(num_players=num_players, skip_forced=True)
        self.env.reset(seed=seed)
        self.began = list(self.match.scores), self.match.starter
        self.plies = 0
        self._go_on()

    def _go_on(self) -> None:
        """Play to the next decision with a choice, or to the end of the match."""
        while self.match.winner is None:
            if self.match.round_over:
                self.match.next_round()
                self.began = list(self.match.scores), self.match.starter
            ids = np.flatnonzero(action_mask(self.match.state))
            if len(ids) > 1:
                return
            self._play(int(ids[0]))

    def _play(self, action: int) -> None:
        self.match.play(move_text(*action_move(self.match.state, action)))

    def take(self, action: int) -> None:
        self._play(action)
        self._go_on()
        self.env.step(action)
        self.plies += 1

    def side(self) -> int:
        return self.match.turn % len(self.match.scores)

    def observed(self) -> dict[str, Any]:
        """What the seat to move is given."""
        assert self.env.agent_selection == f"player_{self.match.turn}"
        seen: dict[str, Any] = self.env.observe(self.env.agent_selection)
        return seen

    def view(self) -> Any:
        views = np.zeros(1, STATE)
        views[0] = self.match.view(self.match.turn).state
        return views

    def key(self) -> Any:
        return np.array([decision_key(int(self.match.state.seed), 0, self.plies)], np.uint64)

    def means(self, teacher: PimcAgent) -> Any:
        return teacher.action_values(self.view(), self.key()).mean[0]


def check_decision(game: Replay, shard: Shard, examples: Examples, row: int, values: Any, means: Any) -> None:
    seen, legal = game.observed(), np.flatnonzero(action_mask(game.match.state))
    np.testing.assert_array_equal(examples.observations[row], seen["observation"])
    np.testing.assert_array_equal(examples.masks[row], seen["action_mask"])
    np.testing.assert_array_equal(np.flatnonzero(examples.masks[row]), legal)
    np.testing.assert_array_equal(values, np.rint(np.clip(means[legal], 0, 1) * 65535))
    np.testing.assert_array_equal(examples.values[row, legal], (values / 65535).astype(np.float32))
    assert not np.delete(examples.values[row], legal).any()
    scores, starter = game.began
    before = load_winning_chances(len(game.match.hands))(np.array([scores]), np.array([starter]))
    assert examples.before[row] == np.float32(before[0, game.side()])


@pytest.mark.parametrize("player", ["", "greedy", "random"])
@pytest.mark.parametrize("seats", SEATS)
def test_a_shard_holds_what_the_search_says_of_each_decision(seats: int, player: str) -> None:
    plan = SearchPlan(num_players=seats, teacher="pimc:2", player=player, explore=0.0, matches=2, seed=40)
    shard = play_shard(plan, 3)
    examples = replay(shard)
    teacher, chosen_by = make_agent(plan.teacher), make_agent(player or plan.teacher)
    assert isinstance(teacher, PimcAgent)
    assert shard.seeds.tolist() == [46, 47]
    assert shard.num_players == seats
    row = place = 0
    for seed, length in zip(shard.seeds.tolist(), shard.lengths.tolist(), strict=True):
        game = Replay(seats, seed)
        for _ in range(length):
            count, action, means = int(examples.masks[row].sum()), int(shard.actions[row]), game.means(teacher)
            check_decision(game, shard, examples, row, shard.values[place : place + count], means)
            assert action == chosen_by.act(game.view(), action_mask(game.match.state)[None], game.key())[0]
            game.take(action)
            row, place = row + 1, place + count
        assert game.match.winner is not None
    assert (row, place) == (len(shard.actions), len(shard.values))


# Exploring


def played_by_greedy(explore: float) -> tuple[Any, Any, Any]:
    """Choices of every decision, whether the action is that of greedy, and its place among the legal ones."""
    shard = play_shard(SearchPlan(teacher="pimc:1", player="greedy", explore=explore, matches=12, seed=9), 0)
    masks, greedy, row = replay(shard).masks, make_agent("greedy"), 0
    same = np.zeros(len(masks), np.bool_)
    for seed, length in zip(shard.seeds.tolist(), shard.lengths.tolist(), strict=True):
        game = Replay(2, seed)
        for _ in range(length):
            same[row] = shard.actions[row] == greedy.act(game.view(), masks[row : row + 1], game.key())[0]
            game.take(int(shard.actions[row]))
            row += 1
    places = (np.cumsum(masks, axis=1) - 1)[np.arange(len(masks)), shard.actions]
    return masks.sum(axis=1), same, places


def test_as_many_actions_are_drawn_as_the_plan_says() -> None:
    counts, same, _ = played_by_greedy(0.3)
    other = 0.3 * (1 - 1 / counts)  # an action drawn among n is another than greedy's in n - 1 of n cases
    assert len(counts) > 1000
    assert abs((~same).sum() - other.sum()) < 4 * np.sqrt((other * (1 - other)).sum())


def test_drawn_actions_are_uniform() -> None:
    counts, _, places = played_by_greedy(1.0)
    assert len(counts) > 1000
    for count in (2, 3, 4):
        found = np.bincount(places[counts == count], minlength=count)
        wanted = found.sum() / count
        assert wanted > 20
        assert (np.abs(found - wanted) < 4 * np.sqrt(wanted * (1 - 1 / count))).all()


# Generating


def made(folder: Path, plan: SearchPlan, shards: int) -> list[bytes]:
    """The bytes of the first shards, each made on its own."""
    folder.mkdir()
    for number in range(shards):
        save_shard(folder / f"{number}.npz", play_shard(plan, number), plan)
    return [(folder / f"{number}.npz").read_bytes() for number in range(shards)]


def test_shards_do_not_depend_on_workers_or_on_being_stopped(tmp_path: Path) -> None:
    wanted, folder = made(tmp_path / "alone", PLAN, 3), tmp_path / "stopped"
    making: Any = generate(PLAN, folder, 3, workers=1)
    first = next(making)
    making.close()
    old = first.stat().st_mtime_ns
    paths = list(generate(PLAN, folder, 3, workers=2))
    assert paths[0] == first
    assert first.stat().st_mtime_ns == old
    assert sorted(paths) == [folder / f"{number:05}.npz" for number in range(3)]
    assert [path.read_bytes() for path in sorted(paths)] == wanted
    assert list(generate(PLAN, folder, 2)) == sorted(paths)[:2]


def test_a_shard_is_read_as_it_was_written(tmp_path: Path) -> None:
    shard = play_shard(PLAN, 0)
    save_shard(tmp_path / "0.npz", shard, PLAN)
    for found, wanted in zip(load_shard(tmp_path / "0.npz"), shard, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize(
    "change", [{"seed": 71}, {"explore": 0.2}, {"teacher": "pimc:2"}, {"matches": 2}, {"prior_weight": 1.0}]
)
def test_a_folder_of_another_plan_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    assert list(generate(PLAN, tmp_path, 0)) == []
    with pytest.raises(ValueError, match=r"plan\.json is of another plan"):
        list(generate(dataclasses.replace(PLAN, **change), tmp_path, 1))


def test_a_shard_of_another_plan_is_refused(tmp_path: Path) -> None:
    other = dataclasses.replace(PLAN, seed=3)
    save_shard(tmp_path / "00001.npz", play_shard(other, 1), other)
    with pytest.raises(ValueError, match=r"00001\.npz is of another plan.*'seed': 3"):
        list(generate(PLAN, tmp_path, 2))


def test_what_is_damaged_in_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "00000.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"00000\.npz: no shard"):
        list(generate(PLAN, tmp_path, 1))
    (tmp_path / "plan.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"plan\.json is damaged"):
        list(generate(PLAN, tmp_path, 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_players": 5},
        {"matches": 0},
        {"explore": 1.1},
        {"explore": -0.1},
        {"teacher": "greedy"},
        {"seed": -1},
        {"prior_weight": -1.0},
        {"prior_weight": float("inf")},
        {"prior_weight": float("nan")},
    ],
)
def test_impossible_plans(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SearchPlan(**wrong)


@pytest.mark.parametrize("player", ["", "greedy"])
def test_only_a_network_can_guide_the_teacher(player: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=rf"prior_weight is 2\.0: the player must be a network, not '{player}'"):
        play_shard(dataclasses.replace(PLAN, player=player, prior_weight=2.0), 0)


# Files that are no shards


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shards") / "sound.npz"
    save_shard(path, play_shard(dataclasses.replace(PLAN, matches=3), 0), PLAN)
    return path


def test_a_damaged_shard_is_refused_or_harmless(sound: Path, tmp_path: Path) -> None:
    content, path, rng = sound.read_bytes(), tmp_path / "damaged.npz", np.random.default_rng(0)
    wanted, refused = load_shard(sound), 0
    for _ in range(400):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            found = load_shard(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}: no shard of search data: ")
            refused += 1
        else:  # a bit that nothing depends on, such as that of a date
            np.testing.assert_equal(found, wanted)
    assert refused > 200


def test_a_truncated_shard_is_refused(sound: Path, tmp_path: Path) -> None:
    content, path = sound.read_bytes(), tmp_path / "short.npz"
    for length in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"short\.npz: no shard"):
            load_shard(path)


def changed(sound: Path, path: Path, **arrays: Any) -> Path:
    """A file with some arrays of a shard replaced; None leaves one out."""
    with np.load(sound) as found:
        kept = {name: arrays.get(name, found[name]) for name in found.files}
    np.savez_compressed(path, **{name: array for name, array in kept.items() if array is not None})
    return path


def shorter(array: Any) -> Any:
    return array[:-1]


def longer_by_a_negative(lengths: Any) -> Any:
    """Lengths with the same sum, one of them below 0."""
    return np.array([lengths.sum() + 5, -5, 0])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("version", lambda _: 2),
        ("version", lambda _: None),
        ("version", lambda _: np.array([1, 1])),
        ("num_players", lambda _: 5),
        ("num_players", lambda _: np.array([2, 2])),
        ("plan", lambda _: None),
        ("plan", lambda _: "{"),
        ("seeds", shorter),
        ("seeds", lambda seeds: seeds.astype(np.int64)),
        ("lengths", shorter),
        ("lengths", longer_by_a_negative),
        ("lengths", lambda lengths: lengths[:, None]),
        ("actions", shorter),
        ("actions", lambda actions: actions.astype(np.int16)),
        ("values", lambda values: values / VALUE_SCALE),
        ("values", lambda _: np.array([{}], object)),
        ("values", lambda _: None),
    ],
)
def test_arrays_that_make_no_shard(name: str, change: Callable[[Any], Any], sound: Path, tmp_path: Path) -> None:
    with np.load(sound) as arrays:
        value = change(arrays[name])
    path = changed(sound, tmp_path / "other.npz", **{name: value})
    with pytest.raises(ValueError, match=r"other\.npz: no shard"):
        load_shard(path)


def test_a_shard_without_matches_is_refused(tmp_path: Path) -> None:
    empty: list[Any] = [np.empty(0, kind) for kind in (np.uint64, np.int64, np.uint8, np.uint16)]
    save_shard(tmp_path / "0.npz", Shard(2, *empty), PLAN)
    with pytest.raises(ValueError, match="no shard"):
        load_shard(tmp_path / "0.npz")


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04K\x01.", json.dumps({"version": 1}).encode()])
def test_files_of_another_kind(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"foreign\.npz: no shard"):
        load_shard(path)


def test_other_arrays_and_no_file(tmp_path: Path) -> None:
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"single\.npy: no shard"):
        load_shard(tmp_path / "single.npy")
    with pytest.raises(FileNotFoundError):
        load_shard(tmp_path / "none.npz")


# Actions that do not follow the rules


def test_an_illegal_action_is_named(sound: Path) -> None:
    shard = load_shard(sound)
    masks, starts, rng = replay(shard).masks, np.cumsum(shard.lengths) - shard.lengths, np.random.default_rng(1)
    assert len(starts) == 3
    for match in range(3):
        for decision in (0, int(rng.integers(shard.lengths[match])), int(shard.lengths[match]) - 1):
            row = starts[match] + decision
            for action in (int(rng.choice(np.flatnonzero(masks[row] == 0))), 163, 255):
                actions = shard.actions.copy()
                actions[row] = action
                with pytest.raises(ValueError, match=rf"match {match} \(seed {70 + match}\), decision {decision}: "):
                    replay(shard._replace(actions=actions))


@pytest.mark.parametrize("moved", [-1, 1])
def test_a_match_that_ends_too_early_or_too_late_is_named(moved: int, sound: Path) -> None:
    shard = load_shard(sound)
    lengths = shard.lengths + np.array([0, moved, -moved])
    decision = shard.lengths[1] + min(moved, 0)
    with pytest.raises(ValueError, match=rf"match 1 \(seed 71\), decision {decision}: "):
        replay(shard._replace(lengths=lengths))


def test_values_too_few_or_too_many(sound: Path) -> None:
    shard = load_shard(sound)
    with pytest.raises(ValueError, match=rf"match 2 \(seed 72\), decision {shard.lengths[2] - 1}: "):
        replay(shard._replace(values=shard.values[:-1]))
    with pytest.raises(ValueError, match=r"match 2 \(seed 72\)"):
        replay(shard._replace(values=np.append(shard.values, np.uint16(1))))


def test_examples_are_whole() -> None:
    examples = replay(play_shard(PLAN, 1))
    total = len(examples.before)
    assert [array.dtype for array in examples] == [np.int8, np.int8, np.float32, np.float32]
    assert [array.shape for array in examples] == [(total, OBS_SIZE), (total, 163), (total, 163), (total,)]
    arrays: list[Any] = list(examples)
    np.testing.assert_equal(list(examples.take(np.array([3, 1]))), [array[[3, 1]] for array in arrays])
