"""Configurations, training runs, checkpoints, the rewards that reach the learner, and the two scripts."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents import make_agent, selfplay  # noqa: E402
from agents.baselines import GreedyAgent  # noqa: E402
from agents.config import Config, as_yaml, make_config, read_config  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.selfplay import train  # noqa: E402
from fivesup_env import Match  # noqa: E402
from fivesup_env.actions import action_mask  # noqa: E402
from fivesup_env.rules.state import STATE  # noqa: E402
from tests.playing import legal, raw_env  # noqa: E402

ROOT = Path(__file__).parents[1]
TINY = Config(
    seed=5,
    total_steps=96,
    num_envs=2,
    rollout_steps=16,
    minibatch_size=16,
    epochs=2,
    hidden=(8,),
    snapshot_every=1,
    eval_every=2,
    eval_matches=2,
)
WRONG = [
    ({"learning_rat": 0.1}, "unknown key 'learning_rat': did you mean 'learning_rate'"),
    ({"sed": 1}, "unknown key 'sed': did you mean 'seed'"),
    ({"zzz": 1}, "unknown key 'zzz'$"),
    ({1: 1}, "unknown key 1$"),
    ({"seed": "1"}, "seed must be of type int, not '1'"),
    ({"seed": 1.0}, "seed must be of type int"),
    ({"seed": True}, "seed must be of type int"),
    ({"seed": -1}, "seed must be within"),
    ({"seed": None}, "seed must be of type int"),
    ({"gamma": "high"}, "gamma must be of type float"),
    ({"gamma": False}, "gamma must be of type float"),
    ({"gamma": 1.5}, "gamma must be within"),
    ({"learning_rate": float("nan")}, "learning_rate must be within"),
    ({"run": 5}, "run must be of type str"),
    ({"run": ""}, "run must be"),
    ({"reward": "win"}, "reward must be one of margin, points, not 'win'"),
    ({"reward": ["margin"]}, "reward must be one of"),
    ({"hidden": 64}, "hidden must be a list"),
    ({"hidden": [64, 0]}, "hidden must be a list"),
    ({"hidden": [64.0]}, "hidden must be a list"),
    ({"hidden": [True]}, "hidden must be a list"),
    ({"num_players": 5}, "num_players must be within 2 .. 4"),
    ({"num_envs": 0}, "num_envs must be at least 1"),
    ({"total_steps": -5}, "total_steps must be at least 1"),
    ({"eval_matches": 0}, "eval_matches must be at least 1"),
]


# Configurations


@pytest.mark.parametrize(("values", "fault"), WRONG)
def test_a_wrong_configuration_is_refused_by_name(values: dict[Any, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=fault):
        make_config(values)
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(values).replace("NaN", ".nan").replace('{"1":', "{1:"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read_config(file)


@pytest.mark.parametrize("text", ["", "- seed", "seed", "seed: [", "\0", "a: b: c", "!!python/name:os.getcwd"])
def test_a_file_that_is_no_configuration(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read_config(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.yaml"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("config", [Config(), TINY, Config(hidden=(), learning_rate=1e-7, run="a b/ü: #")])
def test_a_configuration_can_be_written_and_read(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(as_yaml(config), encoding="utf-8")
    assert read_config(file) == config


def test_missing_keys_have_defaults_and_ints_become_floats(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("gamma: 1\nhidden: [32]\n", encoding="utf-8")
    config = read_config(file)
    assert config == dataclasses.replace(Config(), hidden=(32,), gamma=1.0)
    assert isinstance(config.gamma, float)


@pytest.mark.parametrize("file", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda file: str(file.name))
def test_the_projects_configurations_are_sound(file: Path) -> None:
    config = read_config(file)
    assert config.num_envs * config.rollout_steps % config.minibatch_size == 0
    assert config.total_steps % (config.num_envs * config.rollout_steps) == 0


# Runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run."""
    return train(dataclasses.replace(TINY, run=str(tmp_path_factory.mktemp("runs") / "tiny")), progress_bar=False)


def weights(checkpoint: Path) -> dict[str, Any]:
    return dict(torch.load(checkpoint / "policy.pt", weights_only=True))


def same_weights(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_describes_itself(run: Path) -> None:
    assert read_config(run / "config.yaml") == dataclasses.replace(TINY, run=str(run))
    assert (run / "command.txt").read_text(encoding="utf-8").strip()
    assert list(run.rglob("events.out.tfevents.*"))
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["last"]
    assert sorted(path.name for path in (run / "checkpoints" / "last").iterdir()) == ["meta.json", "policy.pt"]
    meta = json.loads((run / "checkpoints" / "last" / "meta.json").read_text(encoding="utf-8"))
    assert (meta["steps"], meta["num_players"], meta["hidden"]) == (96, 2, [8])
    assert {"fivesup", "torch", "numpy"} <= set(meta["versions"])


def test_the_same_configuration_gives_the_same_weights(run: Path, tmp_path: Path) -> None:
    again = train(dataclasses.replace(TINY, run=str(tmp_path / "again")), progress_bar=False)
    other = train(dataclasses.replace(TINY, run=str(tmp_path / "other"), seed=6), progress_bar=False)
    trained = weights(run / "checkpoints" / "last")
    assert same_weights(weights(again / "checkpoints" / "last"), trained)
    assert not same_weights(weights(other / "checkpoints" / "last"), trained)


def test_a_checkpoint_plays(run: Path) -> None:
    agent = make_agent(str(run / "checkpoints" / "last"))
    assert isinstance(agent, NetworkAgent)
    views = np.zeros(3, STATE)
    for row in range(3):
        match = Match(seed=row)
        views[row] = match.view(match.turn).state
    masks = np.array([action_mask(view) for view in views])
    actions = agent.act(views, masks, np.zeros(3, np.uint64))
    logits = agent.logits(views)
    assert actions.tolist() == np.where(masks == 1, logits, -np.inf).argmax(axis=1).tolist()
    trained = weights(run / "checkpoints" / "last")
    assert same_weights(agent.policy.state_dict(), trained)


def test_an_earlier_run_is_never_touched(tmp_path: Path) -> None:
    first = tmp_path / "same"
    first.mkdir()
    (first / "mine.txt").write_text("keep", encoding="utf-8")
    (tmp_path / "same-2").write_text("a file", encoding="utf-8")
    config = dataclasses.replace(TINY, run=str(first), total_steps=32)
    assert train(config, progress_bar=False) == tmp_path / "same-3"
    assert [path.name for path in first.iterdir()] == ["mine.txt"]
    assert (tmp_path / "same-2").read_text(encoding="utf-8") == "a file"
    assert (tmp_path / "same-3" / "checkpoints" / "last" / "policy.pt").is_file()


@pytest.mark.parametrize("seats", [3, 4])
def test_training_with_more_seats(seats: int, tmp_path: Path) -> None:
    run = train(
        dataclasses.replace(TINY, run=str(tmp_path / "more"), num_players=seats, reward="points", total_steps=32),
        progress_bar=False,
    )
    assert isinstance(make_agent(str(run / "checkpoints" / "last")), NetworkAgent)


def test_a_minibatch_larger_than_the_rollout_is_refused() -> None:
    with pytest.raises(ValueError, match=r"minibatch_size must be at most .* = 4096"):
        make_config({"num_envs": 16, "rollout_steps": 256, "minibatch_size": 4097})


def test_an_interrupted_run_keeps_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(callback: Any) -> bool:
        if callback.num_timesteps >= 40:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(selfplay._SelfPlay, "_on_step", interrupt)
    run = train(dataclasses.replace(TINY, run=str(tmp_path / "stopped")), progress_bar=False)
    checkpoint = run / "checkpoints" / "last"
    assert isinstance(make_agent(str(checkpoint)), NetworkAgent)
    assert json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))["steps"] == 40


# The rewards that reach the learner


@pytest.mark.parametrize("reward", ["margin", "points"])
@pytest.mark.parametrize("seats", [2, 3, 4])
def test_the_learner_is_paid_for_its_own_side(seats: int, reward: str, tmp_path: Path) -> None:
    sizes = {"num_envs": 2, "rollout_steps": 120, "minibatch_size": 240, "hidden": [8]}
    config = make_config({"num_players": seats, "reward": reward, "reward_scale": 0.5, "seed": 5, **sizes})
    opponent: Any = GreedyAgent()
    model = selfplay._make_model(config, tmp_path, opponent)
    model.learn(240)
    buffer: Any = model.rollout_buffer
    actions = buffer.actions.reshape(2, 120).astype(int)  # training has put one match after the other
    for index in range(2):
        starts, owed = replay(seats, reward, 5 + index, opponent, actions[index].tolist())
        assert buffer.episode_starts[:, index].tolist() == starts
        assert buffer.rewards[:, index].tolist() == [0.5 * each for each in owed]
        assert sum(starts) > 5
        assert max(owed) > 0
        assert min(owed) < 0 or reward == "points"


def replay(seats: int, reward: str, seed: int, opponent: Any, actions: list[int]) -> tuple[list[bool], list[float]]:
    """Play the learner's actions once more in the PettingZoo environment.

    Returns:
        For each action, whether it is the first of its round, and what it earned: the change of the scores up to the
        learner's next decision or the end of the round; for the first one, since the round began.
    """
    env = raw_env(seats, episode="round", reward="points", skip_forced=True)
    env.reset(seed=seed)
    starts, owed = [True], []
    before = begin(env, opponent)
    for action in actions:
        assert action in legal(env)
        env.step(action)
        learner = env.match_number % seats
        starts.append(not play_others(env, learner, opponent))
        scores = Match.from_bytes(env.state().tobytes()).scores
        gains = [now - then for now, then in zip(scores, before, strict=True)]
        own = gains.pop(learner % len(gains))
        owed.append(own - sum(gains) / len(gains) if reward == "margin" else own)
        before = scores
        if starts[-1]:
            env.reset()
            before = begin(env, opponent)
    return starts[:-1], owed


def begin(env: Any, opponent: Any) -> list[int]:
    """Go on to a round in which the learner has a decision, play up to it, and return the scores it began with."""
    while not play_others(env, env.match_number % len(env.possible_agents), opponent):
        env.reset()
    return [0] * len(Match.from_bytes(env.state().tobytes()).scores)


def play_others(env: Any, learner: int, opponent: Any) -> bool:
    """Play up to the learner's decision, and say whether there is one before the round ends."""
    while not any(env.terminations.values()):
        match = Match.from_bytes(env.state().tobytes())
        if match.turn == learner:
            return True
        views = np.zeros(1, STATE)
        views[0] = match.view(match.turn).state
        env.step(int(opponent.act(views, action_mask(views[0])[None], np.zeros(1, np.uint64))[0]))
    return False


# Checkpoints


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    save_checkpoint(tmp_path / "last", make_policy((8,)), (8,), steps=1)
    return tmp_path / "last"


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.folder),)


def test_nothing_in_a_checkpoint_is_executed(checkpoint: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with (checkpoint / "policy.pt").open("wb") as file:
        pickle.dump(Malicious(made), file)
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))
    for content in (Malicious(made), {**make_policy((8,)).state_dict(), "more": Malicious(made)}):
        torch.save(content, checkpoint / "policy.pt")
        with pytest.raises(ValueError, match=r"policy\.pt"):
            make_agent(str(checkpoint))
    assert not made.exists()
    pickle.loads(pickle.dumps(Malicious(made)))
    assert made.exists()  # it would have worked


@pytest.mark.parametrize("size", [0, 1, 100, 5000, -1])
def test_truncated_weights_are_refused(checkpoint: Path, size: int) -> None:
    whole = (checkpoint / "policy.pt").read_bytes()
    (checkpoint / "policy.pt").write_bytes(whole[:size])
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))


def test_missing_files_are_refused(checkpoint: Path) -> None:
    (checkpoint / "policy.pt").rename(checkpoint / "hidden")
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))
    (checkpoint / "hidden").rename(checkpoint / "policy.pt")
    (checkpoint / "meta.json").unlink()
    with pytest.raises(ValueError, match=r"meta\.json"):
        NetworkAgent.load(checkpoint)
    with pytest.raises(ValueError, match="no agent"):
        make_agent(str(checkpoint))


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("obs_version", 0, "version"),
        ("obs_version", "1", "version"),
        ("obs_size", 12, "length"),
        ("num_actions", 450, "actions"),
        ("hidden", [9], r"policy\.pt"),
        ("hidden", [8, 8], r"policy\.pt"),
        ("hidden", [-8], r"policy\.pt"),
        ("hidden", 8, r"meta\.json"),
        ("hidden", ["wide"], r"meta\.json"),
        ("hidden", None, r"meta\.json"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(checkpoint: Path, key: str, value: Any, named: str) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    (checkpoint / "meta.json").write_text(json.dumps({**meta, key: value}), encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        make_agent(str(checkpoint))
    del meta[key]
    (checkpoint / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    with pytest.raises(ValueError, match=r"meta\.json"):
        make_agent(str(checkpoint))


@pytest.mark.parametrize("text", ["", "[]", "null", "7", "{", '{"hidden": [8]}'])
def test_a_meta_file_that_is_none_is_refused(checkpoint: Path, text: str) -> None:
    (checkpoint / "meta.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"meta\.json"):
        make_agent(str(checkpoint))


def test_a_checkpoint_replaces_the_one_before(checkpoint: Path) -> None:
    policy = make_policy((4, 4))
    save_checkpoint(checkpoint, policy, (4, 4), steps=2)
    agent = make_agent(str(checkpoint))
    assert isinstance(agent, NetworkAgent)
    assert same_weights(agent.policy.state_dict(), policy.state_dict())
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last"]


class Crash(Exception):
    """The end of a process."""


@pytest.mark.parametrize("after", range(12))
def test_a_crash_while_saving_leaves_the_old_checkpoint_or_the_new(
    checkpoint: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that touches the disk may be the last one: it, and all that follow, do not happen any more."""
    old = weights(checkpoint)
    policy = make_policy((8,))
    new = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    calls = 0

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise Crash
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", dying(torch.save))
        for name in ("rename", "replace"):
            patch.setattr(os, name, dying(getattr(os, name)))
        patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        for name in ("mkdir", "write_text", "rmdir", "unlink", "rename", "replace"):
            patch.setattr(Path, name, dying(getattr(Path, name)))
        try:
            save_checkpoint(checkpoint, policy, (8,), steps=2)
        except Crash:
            assert calls > after
        else:
            assert calls <= after
    agent = make_agent(str(checkpoint))
    assert isinstance(agent, NetworkAgent)
    assert any(same_weights(agent.policy.state_dict(), each) for each in (old, new))
    save_checkpoint(checkpoint, policy, (8,), steps=3)
    assert same_weights(weights(checkpoint), new)
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last"]


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


def test_train_refuses_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("sede: 1\n", encoding="utf-8")
    done = script("train.py", "--config", "wrong.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "train.py: error: wrong.yaml: unknown key 'sede': did you mean 'seed'?\n"
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.yaml"]


def test_train_and_evaluate(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(as_yaml(dataclasses.replace(TINY, run="runs/x")), encoding="utf-8")
    done = script("train.py", "--config", "tiny.yaml", "--no-progress", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "checkpoint: runs/x/checkpoints/last" in done.stdout
    command = (tmp_path / "runs/x/command.txt").read_text(encoding="utf-8")
    assert command.endswith("train.py --config tiny.yaml --no-progress\n")
    done = script("evaluate.py", "runs/x/checkpoints/last", "random", "--matches", "20", "--seed", "1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "2 seats, seed 1, 1 pair, 20 matches"
    assert any(line.split()[:2] == ["runs/x/checkpoints/last", "random"] for line in done.stdout.splitlines())


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
