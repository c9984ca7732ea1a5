"""The benchmarks run, and count what they claim to; how fast anything is, no test says."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from benchmarks import kernel, training
from benchmarks.__main__ import main
from benchmarks.kernel import dealt, random_rows
from benchmarks.measure import QUICK, Measure, Played, measure_all
from benchmarks.ratios import ratios
from fivesup_env.actions import action_mask, ends_step
from fivesup_env.rules.state import RUNNING


def test_the_last_line_is_json_with_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "--runs", "1", "--only", "playouts", "--only", "memory"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(report) == [
        *("machine", "load", "settings", "results", "ratios", "bytes_per_match", "start_seconds", "missing")
    ]
    assert list(report["machine"]) == ["commit", "python", "versions", "cores", "processor"]
    assert [(result["group"], len(result["rates"])) for result in report["results"]] == [("playouts", 1)] * 4
    assert all(result["played"] % 1024 == 0 for result in report["results"])
    assert report["bytes_per_match"]["state"] == 256
    assert report["bytes_per_match"]["mask"] == 163
    assert (report["start_seconds"], report["missing"]) == ({}, {})


def test_the_random_policy_chooses_among_the_legal_ids() -> None:
    states, keys = dealt(3, 4), np.arange(4, dtype=np.uint64)
    actions = np.zeros(4, np.int64)
    while (states["result"] == RUNNING).all():
        masks = [action_mask(state) for state in states]
        assert random_rows(states, keys, actions) == sum(mask.sum() > 1 for mask in masks)
        for state, mask, action in zip(states, masks, actions, strict=True):
            assert mask[action]
            ends_step(state, int(action))


def test_a_peer_that_fails_is_a_result_and_anything_else_an_error() -> None:
    def prepare() -> None:
        raise ValueError("no such game")

    peer = Measure("peers", "chess", prepare, peer=True)  # type: ignore[arg-type]  # it never returns
    results, failed = measure_all([peer], QUICK)
    assert (results, failed) == ([], {"peers: chess": "ValueError: no such game"})
    with pytest.raises(ValueError, match="no such game"):
        measure_all([Measure("own", "kernel", prepare)], QUICK)  # type: ignore[arg-type]


def test_what_a_measurement_began_is_ended_after_all_runs_also_if_one_fails() -> None:
    told: list[str] = []

    def play(steps: int) -> Played:
        told.append("plays")
        if len(told) > 20:
            raise OSError("gone")
        return Played(10**6 * steps)

    measure = Measure("own", "crew", lambda: play, close=lambda: told.append("ends"))
    other = Measure("own", "other", lambda: play)
    with pytest.raises(OSError, match="gone"):
        measure_all([measure, other], replace(QUICK, runs=100))
    assert told == ["plays"] * 21 + ["ends"]


def test_rates_are_steps_really_played_and_ratios_need_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def play(steps: int) -> Played:
        nonlocal now
        played = -(-steps // 10) * 10  # plays tens only
        now += played / 2000
        return Played(played, played // 5)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    (result,), _ = measure_all([Measure("kernel", kernel.name(), lambda: play)], QUICK)
    assert result.rates == pytest.approx([2000.0] * 3)
    assert result.decision_rates == pytest.approx([400.0] * 3)
    assert result.played == 300  # three runs of 0.05 seconds
    assert ratios([result], QUICK) == []


@pytest.mark.parametrize("seat", (0, 1))
def test_the_usual_path_gives_the_learner_its_own_seat_and_the_margin_of_its_rounds(seat: int) -> None:
    pytest.importorskip("sb3_contrib")
    from benchmarks.training import OneSeat

    env = OneSeat(seat)
    check_env(env, skip_render_check=True)
    env.reset(seed=5)
    for _ in range(20):
        env.reset()
        scores, paid, over = env._env.unwrapped.record["scores"][:2].astype(int), 0.0, False
        while not over:
            assert env._env.agent_selection == env._agent
            _, reward, over, _, _ = env.step(np.int64(np.flatnonzero(env.action_masks())[0]))
            paid += reward
        gained = env._env.unwrapped.record["scores"][:2].astype(int) - scores
        assert paid == gained[seat] - gained[1 - seat]


def test_training_is_measured_by_the_decisions_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sb3_contrib")
    pytest.importorskip("yaml")
    for name, value in (("_TABLES", 8), ("_COPIES", 2), ("_MINIBATCH", 16), ("NETWORKS", ((8,), (4, 4)))):
        monkeypatch.setattr(training, name, value)
    found = {
        measure.name: measure.prepare()(1)
        for measure in training.training_measures(replace(QUICK, rollout=64)) + training.network_measures(QUICK)
    }
    learning = [name for name in found if name.startswith("PPO")]
    assert [found[name].steps for name in learning] == [64] * 8
    assert [found[name].steps for name in found if name.startswith("random play")] == [8] * 2
    assert [found[f"net-2p, {batch} at once"].steps for batch in (1, 32, 1024)] == [1, 32, 1024]
