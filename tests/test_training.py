"""Training runs: what they leave, that they follow from their configuration, how they go on, and the two scripts."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

import train as train_script  # noqa: E402
from agents import make_agent  # noqa: E402
from agents.arena.blocks import Blocks, play_blocks  # noqa: E402
from agents.network import NetworkAgent  # noqa: E402
from agents.search.winning_chances import load_winning_chances, save_winning_chances  # noqa: E402
from agents.training import distill, run, search_data  # noqa: E402
from agents.training.config import (  # noqa: E402
    Config,
    EvalConfig,
    FitConfig,
    PpoConfig,
    RulesConfig,
    SearchConfig,
    as_yaml,
    read_config,
)
from agents.training.run import resume, train  # noqa: E402
from agents.training.search_data import load_shard, replay  # noqa: E402
from agents.training.seat_ppo import RegularizedPolicy  # noqa: E402
from agents.training.tables import SelfPlayVecEnv  # noqa: E402
from tests import processes  # noqa: E402

ROOT = processes.ROOT
TINY = Config(
    seed=5,
    threads=1,
    hidden=(8,),
    search=SearchConfig(iterations=2, teacher="pimc:2", shards=3, matches=2, prior_weight=1.5),
    fit=FitConfig(passes=1, minibatch_size=32, warmup_steps=2),
    ppo=PpoConfig(
        total_steps=320,
        num_envs=4,
        rollout_steps=8,
        minibatch_size=16,
        epochs=2,
        anchor_coef=0.1,
        anchor_decay=0.5,
        pool_share=0.5,
        snapshot_every=2,
        snapshots=2,
    ),
    evaluation=EvalConfig(matches=2, rating_matches=2),
)
NO_SEARCH = SearchConfig(iterations=0)
SHORT = dataclasses.replace(TINY, search=NO_SEARCH, ppo=dataclasses.replace(TINY.ppo, total_steps=32))


class Inline(Executor):
    """Makes shards at once, in this process: a pool of processes takes seconds to start."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments, **options))
        return done


@pytest.fixture(autouse=True, scope="module")
def _inline() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_data, "ProcessPoolExecutor", Inline)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run that nothing interrupted."""
    return trained(TINY, tmp_path_factory.mktemp("runs") / "tiny")


def trained(config: Config, folder: Path) -> Path:
    """The folder of a run of this configuration."""
    return train(dataclasses.replace(config, run=str(folder)), show_progress=False)


def weights(checkpoint: Path) -> dict[str, Any]:
    return dict(torch.load(checkpoint / "policy.pt", weights_only=True))


def state_of(folder: Path) -> dict[str, Any]:
    """What a run goes on with, but for what follows the clock."""
    state = dict(torch.load(folder / "state.pt", weights_only=True))
    del state["seconds"], state["best"]
    return state


def same(first: Any, second: Any) -> bool:
    """Whether both hold the same, bit for bit."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def assert_same_runs(first: Path, second: Path) -> None:
    """State, checkpoints, pool and shards are the same, bit for bit."""
    assert same(state_of(first), state_of(second))
    shards = [path.relative_to(first) for path in sorted(first.rglob("*.npz"))]
    assert shards == [path.relative_to(second) for path in sorted(second.rglob("*.npz"))]
    for shard in shards:
        with np.load(first / shard) as one, np.load(second / shard) as other:
            assert {name: one[name].tobytes() for name in one} == {name: other[name].tobytes() for name in other}
    networks = [path.relative_to(first).parent for path in sorted(first.rglob("policy.pt"))]
    assert networks == [path.relative_to(second).parent for path in sorted(second.rglob("policy.pt"))]
    for network in networks:
        if network.name != "best":  # which one that is depends on when it was evaluated
            assert same(weights(first / network), weights(second / network)), network


# What a run leaves


def test_a_run_describes_itself(whole: Path) -> None:
    assert read_config(whole / "config.yaml") == dataclasses.replace(TINY, run=str(whole))
    assert (whole / "command.txt").read_text(encoding="utf-8").strip()
    assert list(whole.glob("events.out.tfevents.*"))
    assert sorted(path.name for path in (whole / "search").rglob("*.npz")) == 2 * ["00000.npz"] + 2 * [
        "00001.npz"
    ] + 2 * ["00002.npz"]
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == ["best", "fit-0", "fit-1", "last"]
    assert sorted(path.name for path in (whole / "checkpoints" / "last").iterdir()) == ["meta.json", "policy.pt"]
    meta = json.loads((whole / "checkpoints" / "last" / "meta.json").read_text(encoding="utf-8"))
    assert (meta["iteration"], meta["steps"], meta["num_players"], meta["hidden"]) == (2, 320, 2, [8])
    assert meta["reward_scale"] == 10.0


def test_the_network_of_the_iteration_before_guides_the_search(whole: Path) -> None:
    plans = [json.loads((whole / "search" / name / "plan.json").read_text(encoding="utf-8")) for name in ("0", "1")]
    assert [plan.get("prior_weight") for plan in plans] == [None, 1.5]
    assert plans[1]["player"] == "../../checkpoints/fit-0"


def test_what_a_logit_is_worth_is_known_until_self_play(whole: Path) -> None:
    checkpoints = [NetworkAgent.load(whole / "checkpoints" / name) for name in ("fit-0", "fit-1", "last")]
    fits = [
        distill.held_out(agent.policy, replay(load_shard(whole / "search" / name / "00002.npz")), 10.0).value_per_logit
        for agent, name in zip(checkpoints[:2], ("0", "1"), strict=True)
    ]
    assert [agent.value_per_logit for agent in checkpoints] == [*fits, None]
    assert all("value_per_logit" not in path.read_text(encoding="utf-8") for path in whole.glob("pool/*/meta.json"))


def test_the_pool_keeps_the_last_copies(whole: Path) -> None:
    """Ten updates make nine gaps, copies come after every second: 1 to 4, of which two stay; "greedy" is number 0."""
    assert [member[0] for member in state_of(whole)["stage"]["pool"]["members"]] == [0, 3, 4]
    assert sorted(path.name for path in (whole / "pool").iterdir()) == ["00003", "00004"]
    owners = state_of(whole)["stage"]["tables"]["owners"]
    assert {-1} < set(owners.unique().tolist()) <= {-1, 0, 3, 4}
    steps = [json.loads((whole / "pool" / name / "meta.json").read_text())["steps"] for name in ("00003", "00004")]
    assert steps == [6 * 32, 8 * 32]


def test_every_stage_learns(whole: Path) -> None:
    networks = [weights(whole / "checkpoints" / name) for name in ("fit-0", "fit-1", "last")]
    assert not any(same(networks[one], networks[other]) for one, other in ((0, 1), (0, 2), (1, 2)))
    assert same(weights(whole / "checkpoints" / "last"), dict(state_of(whole)["policy"]))


def documented() -> set[str]:
    """The names in the table of metrics: what stands in backticks in its first column."""
    _, _, metrics = (ROOT / "docs/training.md").read_text(encoding="utf-8").partition("\n## Metrics\n")
    return {
        name for row in metrics.splitlines() if row.startswith("| `") for name in row.split("|")[1].split("`")[1::2]
    }


def logged(folder: Path) -> set[str]:
    """The names in the events of a run."""
    events = EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()
    return {*tags["scalars"], *tags["images"], *(tag.removesuffix("/text_summary") for tag in tags["tensors"])}


def test_every_metric_is_documented_and_logged(whole: Path, tmp_path: Path) -> None:
    """X stands for an agent, here "greedy" or the number of a copy; the second fit has the names of the first."""
    found = logged(whole)
    assert {"fit_1/policy_loss", "pool/win_rate_greedy", "pool/win_rate_00004", "ratings/00004"} < found
    plain = {re.sub(r"^fit_1/", "fit_0/", re.sub(r"(?<=[/_])(greedy|\d{5})(?=_|$)", "X", tag)) for tag in found}
    of_critic = "train/public_value_loss"
    assert plain | {of_critic} == documented() - (set() if find_spec("pygame") else {"example/table"})
    assert of_critic not in plain
    critic = dataclasses.replace(SHORT.ppo, critic="separate")
    assert of_critic in logged(trained(dataclasses.replace(SHORT, ppo=critic), tmp_path / "critic"))


def test_the_last_checkpoint_plays(whole: Path) -> None:
    agent = make_agent(str(whole / "checkpoints" / "last"))
    assert isinstance(agent, NetworkAgent)
    assert same(dict(agent.policy.state_dict()), weights(whole / "checkpoints" / "last"))


def test_the_same_configuration_gives_the_same_run(whole: Path, tmp_path: Path) -> None:
    assert_same_runs(trained(TINY, tmp_path / "again"), whole)


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    one, other = (trained(dataclasses.replace(SHORT, seed=seed), tmp_path / str(seed)) for seed in (5, 6))
    assert not same(state_of(one)["policy"], state_of(other)["policy"])
    assert not same(state_of(one)["stage"]["tables"]["states"], state_of(other)["stage"]["tables"]["states"])


def test_when_it_evaluates_and_saves_changes_nothing(tmp_path: Path) -> None:
    often = dataclasses.replace(
        SHORT,
        ppo=dataclasses.replace(SHORT.ppo, total_steps=160),
        evaluation=EvalConfig(every_minutes=0, opponents=("random", "greedy"), matches=2, rating_matches=2),
    )
    never = dataclasses.replace(often, evaluation=EvalConfig(opponents=(), rating_matches=0))
    assert_same_runs(trained(often, tmp_path / "often"), trained(never, tmp_path / "never"))


def test_an_earlier_run_is_never_touched(tmp_path: Path) -> None:
    first = tmp_path / "same"
    first.mkdir()
    (first / "mine.txt").write_text("keep", encoding="utf-8")
    (tmp_path / "same-2").write_text("a file", encoding="utf-8")
    assert trained(SHORT, first) == tmp_path / "same-3"
    assert [path.name for path in first.iterdir()] == ["mine.txt"]
    assert (tmp_path / "same-2").read_text(encoding="utf-8") == "a file"
    assert (tmp_path / "same-3" / "checkpoints" / "last" / "policy.pt").is_file()


@pytest.mark.parametrize("seats", [3, 4])
def test_more_seats(seats: int, tmp_path: Path) -> None:
    search = dataclasses.replace(TINY.search, iterations=1, prior_weight=0.0, shards=2, matches=1)
    ppo = dataclasses.replace(TINY.ppo, total_steps=64, snapshot_every=1)
    folder = trained(dataclasses.replace(TINY, num_players=seats, search=search, ppo=ppo), tmp_path / "more")
    meta = json.loads((folder / "checkpoints" / "last" / "meta.json").read_text(encoding="utf-8"))
    assert (meta["num_players"], meta["steps"]) == (seats, 64)
    owners = state_of(folder)["stage"]["tables"]["owners"].numpy()
    assert owners.shape == (4, seats)
    for row in owners[:2]:  # one side the learner's, the others' all the same opponent's
        learner = {seat % (2 if seats == 4 else seats) for seat in range(seats) if row[seat] == -1}
        assert len(learner) == 1
        assert len(set(row[row != -1])) == 1
    assert (owners[2:] == -1).all()


def test_only_search(tmp_path: Path) -> None:
    search = dataclasses.replace(TINY.search, iterations=1, prior_weight=0.0)
    folder = trained(dataclasses.replace(TINY, search=search, ppo=PpoConfig()), tmp_path / "search")
    assert same(weights(folder / "checkpoints" / "last"), weights(folder / "checkpoints" / "fit-0"))
    assert not (folder / "pool").exists()
    assert (state_of(folder)["iteration"], state_of(folder)["steps"], state_of(folder)["stage"]) == (1, 0, {})


def test_only_self_play_with_every_seat_the_learners(tmp_path: Path) -> None:
    alone = dataclasses.replace(SHORT.ppo, pool=(), snapshots=0, anchor_coef=0.0)
    folder = trained(dataclasses.replace(SHORT, ppo=alone), tmp_path / "alone")
    assert not (folder / "search").exists()
    assert not (folder / "pool").exists()
    assert (state_of(folder)["stage"]["tables"]["owners"] == -1).all()
    assert state_of(folder)["steps"] == 32


def test_opponents_of_the_evaluation_are_reset_and_their_forfeits_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guests = ("tests.guest_agents:Ready", "tests.guest_agents:refuses")
    evaluation = dataclasses.replace(SHORT.evaluation, opponents=guests, rating_matches=0)
    trained(dataclasses.replace(SHORT, evaluation=evaluation), tmp_path / "run")
    told = capsys.readouterr().err
    assert "Ready forfeited" not in told
    assert "tests.guest_agents:refuses forfeited matches: " in told


def test_a_run_begins_with_the_weights_that_it_is_told_to(tmp_path: Path) -> None:
    first = trained(SHORT, tmp_path / "first")
    weights = state_of(first)["policy"]
    nothing = dataclasses.replace(SHORT.ppo, total_steps=0)
    start = str(first / "checkpoints" / "last")
    second = state_of(trained(dataclasses.replace(SHORT, seed=6, start=start, ppo=nothing), tmp_path / "second"))
    assert second["policy"].keys() == weights.keys()
    assert all(torch.equal(second["policy"][name], weights[name]) for name in weights)
    meta = json.loads((tmp_path / "second" / "checkpoints" / "last" / "meta.json").read_text(encoding="utf-8"))
    assert meta["steps"] == 0 and meta["reward_scale"] == SHORT.reward_scale  # the unit of the weights it began with


def test_a_run_that_began_from_a_network_goes_on_without_it(tmp_path: Path) -> None:
    start = trained(SHORT, tmp_path / "first") / "checkpoints" / "last"
    config = dataclasses.replace(SHORT, seed=6, start=str(start), ppo=dataclasses.replace(SHORT.ppo, total_steps=64))
    whole = trained(config, tmp_path / "whole")
    with watching() as calls:
        calls["step"].stop_at = 12
        with pytest.raises(KeyboardInterrupt):
            trained(config, tmp_path / "stopped")
    shutil.rmtree(start)
    resume(tmp_path / "stopped", show_progress=False)
    assert_same_runs(tmp_path / "stopped", whole)


def test_the_bar_shows_speed_time_left_and_the_last_evaluation_in_every_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ppo = dataclasses.replace(SHORT.ppo, total_steps=64)
    train(dataclasses.replace(TINY, ppo=ppo, run=str(tmp_path / "run")))
    shown = capsys.readouterr().err
    clock, speed, won = r"\[\d\d:\d\d<00:00", r" *[\d.]+(s/ \w+| \w+/s)", r"greedy \d\.\d\d"
    for stage, steps in (("fit 0", 12), ("fit 1", 26)):
        assert re.search(rf"{stage} 100% {clock}, {speed}, {won}, regret \d\.\d{{4}}\] {steps}/{steps} ", shown), stage
    assert re.search(rf"search 0 100% {clock}, {speed}\] 3/3 ", shown)  # nothing is evaluated yet
    for stage, steps in (("search 1", 3), ("self-play", 64)):
        assert re.search(rf"{stage} 100% {clock}, {speed}, {won}\] {steps}/{steps} ", shown), stage


# Rewards and rules


MINI = dataclasses.replace(
    SHORT,
    rules=RulesConfig(hand_size=2, target=60, max_pip=3, without=("0|0", "0|3")),
    ppo=dataclasses.replace(TINY.ppo, total_steps=96, reward="margin", episode="match"),
)


def test_a_mini_game_is_evaluated_by_its_rules_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Blocks] = []

    def play(*arguments: Any, **options: Any) -> Blocks:
        played.append(play_blocks(*arguments, **options))
        return played[-1]

    monkeypatch.setattr(run, "play_blocks", play)
    last = trained(MINI, tmp_path / "mini") / "checkpoints" / "last"
    meta = json.loads((last / "meta.json").read_text(encoding="utf-8"))
    rules: dict[str, Any] = {"hand_size": 2, "target": 60, "max_pip": 3, "without": ["0|0", "0|3"]}
    assert meta["rules"] == rules
    assert "reward_scale" not in meta  # its values are points
    expected = play_blocks(make_agent(str(last)), make_agent("greedy"), 2, first=0, count=1, seed=2**63, **rules)
    assert played[-1].actions == expected.actions


def test_a_mini_game_that_is_stopped_equals_one_that_is_not(tmp_path: Path) -> None:
    with watching() as calls:
        calls["step"].stop_at = 13
        with pytest.raises(KeyboardInterrupt):
            trained(MINI, tmp_path / "stopped")
    resume(tmp_path / "stopped", show_progress=False)
    assert_same_runs(tmp_path / "stopped", trained(MINI, tmp_path / "whole"))


@pytest.mark.parametrize(
    ("changed", "scale"),
    [({}, 10.0), ({"episode": "match"}, 10.0), ({"shaping": True}, None), ({"reward": "margin"}, None)],
)
def test_values_have_a_known_unit_where_they_are_chances_to_win(
    changed: dict[str, Any], scale: float | None, tmp_path: Path
) -> None:
    ppo = dataclasses.replace(SHORT.ppo, **changed)
    folder = trained(dataclasses.replace(SHORT, ppo=ppo, evaluation=EvalConfig(opponents=())), tmp_path / "run")
    agent = make_agent(str(folder / "checkpoints" / "last"))
    assert isinstance(agent, NetworkAgent)
    assert agent.reward_scale == scale


# Going on


class Calls:
    """Counts the calls of a function, and interrupts one of them, before or after it is made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.count = function, 0
        self.stop_at, self.late = 0, False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        if self.count == self.stop_at and not self.late:
            raise KeyboardInterrupt
        result = self.function(*arguments, **options)
        if self.count == self.stop_at:
            raise KeyboardInterrupt
        return result


WATCHED = {
    "shard": (search_data, "_make"),
    "minibatch": (distill, "losses_of"),
    "optimizer": (torch.optim.AdamW, "step"),
    "step": (SelfPlayVecEnv, "step_wait"),
    "loss": (RegularizedPolicy, "evaluate_actions"),
    "copy": (run._SelfPlay, "_take_snapshot"),
    "evaluation": (run._Trainer, "evaluate"),
    "save": (run._Trainer, "save"),
}


@contextmanager
def watching() -> Iterator[dict[str, Calls]]:
    """Count the calls of what is watched."""
    calls = {name: Calls(getattr(*place)) for name, place in WATCHED.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, place in WATCHED.items():
            # A function, so that it is bound to its object where the original is.
            patch.setattr(*place, lambda *parts, _calls=calls[name], **options: _calls(*parts, **options))
        patch.setattr(run, "_LOG_EVERY", 4)
        yield calls


def test_a_run_that_is_stopped_again_and_again_equals_one_that_is_not(whole: Path, tmp_path: Path) -> None:
    """Each process is stopped at a call, before it or after it, and its folder is moved before the next goes on.

    The fits take 12 and 26 minibatches, with a mark at every fourth; self-play takes 10 rollouts of 8 steps, with a
    mark before each. So it is known how many shards, minibatches and steps each process makes until it is stopped.
    """
    stops = [
        ("shard", 2, "early", (2, 0, 0)),
        ("minibatch", 3, "early", (2, 3, 0)),
        ("optimizer", 7, "late", (0, 7, 0)),  # the weights have moved, but the minibatch is not counted yet
        ("evaluation", 1, "early", (0, 12 - 4, 0)),
        ("shard", 2, "late", (2, 0, 0)),
        ("minibatch", 18, "early", (1, 18, 0)),
        ("step", 3, "early", (0, 26 - 16, 3)),
        ("step", 22, "late", (0, 0, 22)),
        ("loss", 1, "late", (0, 0, 8)),  # in the update after the third rollout
        ("copy", 2, "late", (0, 0, 16)),  # the first is made again at once; the second after the fourth rollout
        ("evaluation", 1, "early", (0, 0, 80 - 32)),
        ("never", 0, "", (0, 0, 80 - 72)),
    ]
    folder = tmp_path / "0"
    for number, (name, at, when, made) in enumerate(stops):
        with watching() as calls:
            if name == "never":
                resume(folder, show_progress=False)
            else:
                calls[name].stop_at, calls[name].late = at, when == "late"
                with pytest.raises(KeyboardInterrupt):
                    resume(folder, show_progress=False) if number else trained(TINY, folder)
        assert tuple(calls[each].count for each in ("shard", "minibatch", "step")) == made, (name, at)
        folder = folder.rename(tmp_path / str(number + 1))
    assert_same_runs(folder, whole)


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_process_that_ends_without_a_word_loses_what_was_not_saved_alone(
    whole: Path, at: int, tmp_path: Path
) -> None:
    """From one save on, none of them happens any more: what the process did after it is done again."""
    folder = tmp_path / "dead"
    with watching() as calls, pytest.MonkeyPatch.context() as patch:
        saved = calls["save"]

        def save(trainer: Any) -> None:
            if saved.count < at:
                saved(trainer)

        patch.setattr(run._Trainer, "save", save)
        trained(TINY, folder)
    resume(folder, show_progress=False)
    assert_same_runs(folder, whole)


@pytest.mark.parametrize("critic", ["separate", "hidden"])
def test_a_run_whose_critic_has_layers_of_its_own(critic: Literal["separate", "hidden"], tmp_path: Path) -> None:
    """It goes on to the last bit, and its checkpoints are as those of any other run."""
    search = dataclasses.replace(TINY.search, iterations=1, prior_weight=0.0, shards=2, matches=1)
    ppo = dataclasses.replace(TINY.ppo, critic=critic, total_steps=128, snapshot_every=1)
    config = dataclasses.replace(TINY, num_players=3, search=search, ppo=ppo)
    uninterrupted = trained(config, tmp_path / "whole")
    with watching() as calls:
        calls["step"].stop_at = 21
        with pytest.raises(KeyboardInterrupt):
            trained(config, tmp_path / "stopped")
    assert state_of(tmp_path / "stopped")["steps"] == 2 * 32
    with watching() as calls:
        resume(tmp_path / "stopped", show_progress=False)
    assert calls["step"].count == 2 * 8
    assert_same_runs(tmp_path / "stopped", uninterrupted)

    held = state_of(uninterrupted)["stage"]["critic"]
    assert held["hand_weights"].shape == ({"separate": 0, "hidden": 2 * 28}[critic], 8)
    fitted, last = (weights(uninterrupted / "checkpoints" / name) for name in ("fit-0", "last"))
    assert fitted.keys() == last.keys()
    heads = [fitted["value_net.weight"], last["value_net.weight"], held["value_net.weight"]]
    assert not any(same(heads[one], heads[other]) for one, other in ((0, 1), (0, 2), (1, 2)))  # both have learned
    for folder in ("checkpoints/last", "pool/00003"):
        assert isinstance(make_agent(str(uninterrupted / folder)), NetworkAgent)


def test_a_killed_script_can_be_gone_on_with(tmp_path: Path) -> None:
    """Killed in its self-play, gone on with from another folder; it saves after every update.

    It equals a run in this process, which makes its shards here, evaluates, and saves at the end only.
    """
    once = dataclasses.replace(TINY, search=dataclasses.replace(TINY.search, iterations=1, prior_weight=0.0))
    often = EvalConfig(every_minutes=0, opponents=(), rating_matches=0)
    config = dataclasses.replace(once, run="runs/x", evaluation=often)
    (tmp_path / "tiny.yaml").write_text(as_yaml(config), encoding="utf-8")
    command = [sys.executable, str(ROOT / "train.py"), "--config", "tiny.yaml", "--no-progress"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not (tmp_path / "runs/x/pool/00001/meta.json").exists():
            time.sleep(0.005)
        process.kill()
    assert (
        (tmp_path / "runs/x/command.txt")
        .read_text(encoding="utf-8")
        .endswith("train.py --config tiny.yaml --no-progress\n")
    )
    resume(tmp_path / "runs/x", show_progress=False)
    assert_same_runs(tmp_path / "runs/x", trained(once, tmp_path / "whole"))


def test_a_finished_run_stays_as_it_is(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    with watching() as calls:
        assert resume(folder, show_progress=False) == folder
    assert {name: call.count for name, call in calls.items() if call.count} == {"save": 1}
    assert_same_runs(folder, whole)


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.folder),)


def test_a_damaged_state_is_refused_and_nothing_in_it_is_executed(whole: Path, tmp_path: Path) -> None:
    folder, made = tmp_path / "copy", tmp_path / "made"
    shutil.copytree(whole, folder)
    state = folder / "state.pt"
    held = state.read_bytes()
    contents = [b"", held[:1000], held[:-1], pickle.dumps(Malicious(made))]
    torch.save({**torch.load(state, weights_only=True), "more": Malicious(made)}, state)
    for content in [*contents, state.read_bytes()]:
        state.write_bytes(content)
        with pytest.raises(ValueError, match=r"state\.pt is damaged"):
            resume(folder, show_progress=False)
        assert state.read_bytes() == content
    assert not made.exists()


# The scripts


def script(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / arguments[0]), *arguments[1:]],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def train_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run train.py with these arguments in an empty folder; return its exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        try:
            status = train_script.main()
        except SystemExit as error:  # argparse
            status = int(error.code or 0)
        return status, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("text", "arguments", "fault"),
    [
        ("sede: 1", "", "tiny.yaml: unknown key 'sede': did you mean 'seed'?"),
        ("num_envs: 1", "", "tiny.yaml: unknown key 'num_envs': did you mean 'ppo.num_envs'?"),
        ("seed: 1", "--seed x", "seed must be of type int, not 'x'"),
        ("seed: 1", "--ppo.gamma 2", "ppo.gamma must be within 0 .. 1, not 2.0"),
        ("rules: {target: 42}", "", "tiny.yaml: rules: target must be a multiple of five (R10), not 42"),
    ],
)
def test_train_refuses_a_wrong_configuration(
    train_py: Any, tmp_path: Path, text: str, arguments: str, fault: str
) -> None:
    (tmp_path / "tiny.yaml").write_text(text, encoding="utf-8")
    assert train_py("--config", "tiny.yaml", *arguments.split()) == (2, "", f"train.py: error: {fault}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_train_refuses_agents_that_cannot_be_made_before_it_makes_a_folder(train_py: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(as_yaml(SHORT), encoding="utf-8")
    status, output, errors = train_py("--config", "tiny.yaml", "--run", "runs/z", "--evaluation.opponents", "[nobody]")
    assert (status, output) == (2, "")
    assert errors.startswith("train.py: error: evaluation.opponents: no agent 'nobody': give ")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_run_whose_opponent_is_gone_is_refused(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    config = dataclasses.replace(TINY, ppo=dataclasses.replace(TINY.ppo, pool=("runs/gone",)))
    (folder / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^ppo\.pool: no agent 'runs/gone'"):
        resume(folder, show_progress=False)
    assert_same_runs(folder, whole)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("none.npz", r"\[Errno 2\] No such file or directory: 'none\.npz'"),
        ("tiny.yaml", "tiny.yaml holds no winning chances: "),
        ("three.npz", "three.npz holds a table for num_players=3, not 2"),
        ("small.npz", "small.npz: target must be within 5 .. 40, not 305"),
    ],
)
def test_train_refuses_a_table_before_it_makes_a_folder(key: str, fault: str, train_py: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(as_yaml(SHORT), encoding="utf-8")
    save_winning_chances(load_winning_chances(3), tmp_path / "three.npz")
    save_winning_chances(load_winning_chances(2, target=40), tmp_path / "small.npz")
    status, output, errors = train_py("--config", "tiny.yaml", "--run", "runs/z", "--ppo.winning-chances", key)
    assert (status, output) == (2, "")
    assert re.match("train.py: error: ppo.winning_chances: " + fault, errors)
    assert not (tmp_path / "runs").exists()


def test_a_run_keeps_the_table_that_it_is_paid_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, and gone on with from another folder, when the file is gone."""
    monkeypatch.chdir(tmp_path)
    stored = load_winning_chances(2)
    swapped = dataclasses.replace(stored, table=stored.table[..., ::-1])  # the chances of the other side
    save_winning_chances(swapped, "own.npz")
    ppo = dataclasses.replace(SHORT.ppo, total_steps=320)
    own = dataclasses.replace(SHORT, ppo=dataclasses.replace(ppo, winning_chances="own.npz"))
    whole = trained(own, tmp_path / "whole")
    assert (whole / "winning_chances.npz").read_bytes() == Path("own.npz").read_bytes()
    with watching() as calls:
        calls["step"].stop_at = 13
        with pytest.raises(KeyboardInterrupt):
            trained(own, tmp_path / "stopped")
    Path("own.npz").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    resume(tmp_path / "stopped", show_progress=False)
    assert_same_runs(tmp_path / "stopped", whole)
    other = trained(dataclasses.replace(SHORT, ppo=ppo), tmp_path / "other")
    assert not (other / "winning_chances.npz").exists()
    assert not same(weights(other / "checkpoints" / "last"), weights(whole / "checkpoints" / "last"))
    (whole / "winning_chances.npz").unlink()
    with pytest.raises(ValueError, match=r"^ppo\.winning_chances: .*winning_chances\.npz"):
        resume(whole, show_progress=False)


def test_train_refuses_other_wrong_command_lines(train_py: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, fault in [
        ("", "one of the arguments --config --resume is required"),
        ("--config a.yaml --resume b", "argument --resume: not allowed with argument --config"),
        ("--config none.yaml", "none.yaml"),
        ("--config none.yaml --learning-rate 1", "unrecognized arguments: --learning-rate"),
        ("--resume empty", "empty holds no run"),
        ("--resume none", "none holds no run"),
        ("--resume empty --seed 1", "--resume goes on with a run's own configuration: no other flags can be given"),
    ]:
        status, output, errors = train_py(*arguments.split())
        assert (status, output) == (2, ""), arguments
        assert f"train.py: error: {fault}" in errors or (fault == "none.yaml" and fault in errors)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_train_with_flags_is_stopped_and_gone_on_with(train_py: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(as_yaml(SHORT), encoding="utf-8")
    flags = "--config tiny.yaml --no-progress --run runs/y --ppo.total-steps 64 --hidden [4,4]"
    with watching() as calls:
        calls["step"].stop_at = 12
        assert train_py(*flags.split()) == (130, "", "\nstopped; --resume goes on with the run\n")
    config = dataclasses.replace(SHORT, run="runs/y", hidden=(4, 4), ppo=dataclasses.replace(SHORT.ppo, total_steps=64))
    assert read_config(tmp_path / "runs/y/config.yaml") == config
    last = tmp_path / "runs/y/checkpoints/last"
    assert json.loads((last / "meta.json").read_text(encoding="utf-8"))["steps"] == 32
    assert isinstance(make_agent(str(last)), NetworkAgent)
    status, output, errors = train_py("--resume", "runs/y", "--no-progress")
    assert (status, errors) == (0, "")
    assert output.splitlines()[0] == "checkpoint: runs/y/checkpoints/last"
    assert_same_runs(tmp_path / "runs/y", trained(config, tmp_path / "whole"))


def test_train_offers_the_arena_for_the_whole_game_alone(train_py: Any, tmp_path: Path) -> None:
    """It plays no other."""
    for name, config in (("mini", MINI), ("whole", SHORT)):
        (tmp_path / f"{name}.yaml").write_text(as_yaml(dataclasses.replace(config, run=name)), encoding="utf-8")
        status, output, errors = train_py("--config", f"{name}.yaml", "--no-progress")
        assert (status, errors) == (0, "")
        assert ("evaluate.py" in output) is (name == "whole")


def test_evaluate_a_checkpoint(whole: Path) -> None:
    checkpoint = f"{whole.name}/checkpoints/last"
    done = script("evaluate.py", checkpoint, "random", "--matches", "20", "--seed", "1", cwd=whole.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "2 seats, seed 1, 1 pair, 20 matches"
    assert any(line.split()[:2] == [checkpoint, "random"] for line in done.stdout.splitlines())


def test_evaluate_refuses(tmp_path: Path) -> None:
    done = script("evaluate.py", "random", "nobody", cwd=tmp_path)
    assert done.returncode == 2
    assert "evaluate.py: error: no agent 'nobody'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_evaluate_with_three_seats_plays_both_orders(tmp_path: Path) -> None:
    command = "evaluate.py", "greedy", "random", "--players", "3", "--matches", "30", "--seed", "4"
    done, again = script(*command, cwd=tmp_path), script(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pairs, pairs_again = ([line for line in run.stdout.splitlines() if line.endswith("30")] for run in (done, again))
    assert [line.split()[:2] for line in pairs] == [["greedy", "random"], ["random", "greedy"]]
    assert pairs == pairs_again
