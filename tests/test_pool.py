"""The pool of opponents: how often each is drawn, how results fade, who leaves, and what stays on disk."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.baselines import GreedyAgent, RandomAgent  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.training.pool import NOBODY, Pool  # noqa: E402


def note(pool: Pool, number: int, wins: int, losses: int) -> None:
    for won in [True] * wins + [False] * losses:
        pool.note(number, won)


def join(pool: Pool, seed: int = 0) -> tuple[int, int | None]:
    """Let a copy of a learner join."""
    torch.manual_seed(seed)
    save_checkpoint(pool.path_of_next(), make_policy((8,)), (8,))
    return pool.add()


def drawn(pool: Pool, count: int, seed: int = 0) -> dict[int, int]:
    keys = np.random.default_rng(seed).integers(2**64, size=count, dtype=np.uint64)
    found = [pool.draw(key) for key in keys]
    return {number: found.count(number) for number in pool.members}


# Drawing


def test_opponents_are_drawn_by_the_square_of_the_share_lost(tmp_path: Path) -> None:
    pool = Pool(["greedy", "random", "pimc:1", "pimc:2"], tmp_path, 3)
    note(pool, 1, 0, 60)
    note(pool, 2, 60, 0)
    note(pool, 3, 30, 10)
    lost = [1 - member.win_rate for member in pool.members.values()]
    # Nothing is known of the first; the second always wins; the third is drawn for the least weight, 0.05.
    assert lost[0] == 0.5
    assert lost[1] > 0.95
    assert lost[2] ** 2 < 0.05 < lost[3] ** 2
    weights = np.array([0.25, lost[1] ** 2, 0.05, lost[3] ** 2])
    shares, count = weights / weights.sum(), 20_000
    found = np.array(list(drawn(pool, count).values()))
    assert found.sum() == count
    assert (np.abs(found - count * shares) < 4 * np.sqrt(count * shares * (1 - shares))).all()


def test_the_ends_of_the_keys_draw_the_first_and_the_last(tmp_path: Path) -> None:
    pool = Pool(["greedy", "random"], tmp_path, 3)
    assert pool.draw(np.uint64(0)) == 0
    assert pool.draw(np.uint64(2**63 - 1)) == 0
    assert pool.draw(np.uint64(2**63)) == 1
    assert pool.draw(np.uint64(2**64 - 1)) == 1


def test_the_same_key_draws_the_same_opponent(tmp_path: Path) -> None:
    first, second = (Pool(["greedy", "random"], tmp_path, 3) for _ in range(2))
    assert drawn(first, 50) == drawn(second, 50)


def test_nobody_is_drawn_before_the_first_copy_joins(tmp_path: Path) -> None:
    pool = Pool([], tmp_path, 2)
    assert pool.draw(np.uint64(7)) == NOBODY
    join(pool)
    assert pool.draw(np.uint64(7)) == 0


# Names


def test_names_are_short_and_no_two_alike(tmp_path: Path) -> None:
    pool = Pool(["greedy", "runs/a/last", "runs/b/last", "runs/learner", "greedy"], tmp_path, 1)
    assert pool.names() == {0: "greedy", 1: "last", 2: "last #2", 3: "learner #2", 4: "greedy #2"}
    join(pool)
    join(pool)
    assert list(pool.names().items())[5:] == [(6, "00006")]


# Results


def test_an_opponent_is_reset_before_it_plays(tmp_path: Path) -> None:
    agent: Any = Pool(["random", "tests.guest_agents:Ready"], tmp_path, 0).agent(1)
    assert agent.seed == 1


@pytest.mark.parametrize("sample", [True, False])
def test_networks_draw_their_actions_where_that_is_wanted(sample: bool, tmp_path: Path) -> None:
    pool = Pool(["greedy"], tmp_path, 1, sample=sample)
    join(pool)
    network = pool.agent(1)
    assert isinstance(network, NetworkAgent)
    assert network.deterministic is not sample


def test_results_fade(tmp_path: Path) -> None:
    pool = Pool(["greedy"], tmp_path, 1)
    results = (np.random.default_rng(0).random(300) < 0.3).tolist()
    for won in results:
        pool.note(0, won)
    ages = np.arange(300)[::-1]
    matches, wins = (0.99**ages).sum(), (0.99**ages * results).sum()
    member = pool.members[0]
    assert member.matches == pytest.approx(matches)
    assert member.wins == pytest.approx(wins)
    assert member.win_rate == pytest.approx((wins + 1) / (matches + 2))
    assert member.matches < 100  # a hundred matches are remembered, however many there were
    note(pool, 0, 1000, 0)
    assert member.win_rate > 0.98


# Copies of the learner


def test_the_oldest_copies_leave_and_numbers_are_not_given_again(tmp_path: Path) -> None:
    pool = Pool(["greedy", "random"], tmp_path / "pool", 2)
    assert len(pool) == 2
    assert [join(pool) for _ in range(4)] == [(2, None), (3, None), (4, 2), (5, 3)]
    assert list(pool.members) == [0, 1, 4, 5]
    assert len(pool) == 4
    assert set(drawn(pool, 300)) == {0, 1, 4, 5}
    assert min(drawn(pool, 300).values()) > 0
    with pytest.raises(KeyError):
        pool.agent(2)


def test_a_copy_plays_as_the_learner_did_when_it_joined(tmp_path: Path) -> None:
    pool = Pool(["greedy", "random"], tmp_path, 5)
    join(pool, 1)
    join(pool, 2)
    assert isinstance(pool.agent(0), GreedyAgent) and isinstance(pool.agent(1), RandomAgent)
    for number, seed in ((2, 1), (3, 2)):
        agent = pool.agent(number)
        assert agent is pool.agent(number)
        assert isinstance(agent, NetworkAgent) and not agent.deterministic
        torch.manual_seed(seed)
        for found, wanted in zip(agent.policy.parameters(), make_policy((8,)).parameters(), strict=True):
            assert torch.equal(found, wanted)


def test_sweeping_deletes_the_copies_that_left(tmp_path: Path) -> None:
    pool = Pool(["greedy"], tmp_path / "pool", 2)
    pool.sweep()  # there is no folder yet
    for _ in range(3):
        join(pool)
    assert sorted(path.name for path in pool.folder.iterdir()) == ["00001", "00002", "00003"]
    (pool.folder / "00004.new").mkdir()  # left by a process that was killed while it wrote
    pool.sweep()
    assert sorted(path.name for path in pool.folder.iterdir()) == ["00002", "00003"]
    assert isinstance(pool.agent(2), NetworkAgent)


# Going on


def test_a_pool_goes_on_where_it_was(tmp_path: Path) -> None:
    pool = Pool(["greedy", "random"], tmp_path, 2)
    for _ in range(3):
        join(pool)
    note(pool, 4, 5, 2)
    note(pool, 0, 1, 6)
    state = json.loads(json.dumps(pool.state_dict()))
    kept, wanted = copy.deepcopy(state), drawn(pool, 500, 3)
    note(pool, 0, 50, 0)
    assert join(pool) == (5, 3)
    assert drawn(pool, 500, 3) != wanted
    for other in (pool, Pool(["greedy", "random"], tmp_path, 2)):
        other.load_state_dict(state)
        assert other.state_dict() == kept
        assert drawn(other, 500, 3) == wanted
        assert isinstance(other.agent(3), NetworkAgent)
        assert join(other) == (5, 3)
    assert state == kept


def test_a_pool_goes_on_where_its_folder_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pool = Pool(["greedy"], Path("run/pool"), 2)
    for _ in range(3):
        join(pool)
    state = pool.state_dict()
    (tmp_path / "run").rename(tmp_path / "moved")
    other = Pool(["greedy"], tmp_path / "moved/pool", 2)
    other.load_state_dict(state)
    other.sweep()
    assert sorted(path.name for path in other.folder.iterdir()) == ["00002", "00003"]
    assert isinstance(other.agent(3), NetworkAgent)
