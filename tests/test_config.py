"""Configurations of training runs: what is refused and how it is named, files, and flags."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from agents.training.config import (
    Config,
    EvalConfig,
    FitConfig,
    PpoConfig,
    RulesConfig,
    SearchConfig,
    add_flags,
    as_yaml,
    keys,
    make_config,
    read_config,
    with_flags,
)
from tests.processes import ROOT

MINI = {
    "rules": {"hand_size": 2, "max_pip": 3, "without": ["0|0", "0|3"]},
    "search": {"iterations": 0},
    "ppo": {"reward": "margin"},
}
WRONG = [
    ({"sed": 1}, "unknown key 'sed': did you mean 'seed'"),
    ({"zzz": 1}, "unknown key 'zzz'$"),
    ({1: 1}, "unknown key 1$"),
    ({"ppo": {"learning_rat": 0.1}}, "unknown key 'ppo.learning_rat': did you mean 'ppo.learning_rate'"),
    ({"ppo": {"zzz": 1}}, "unknown key 'ppo.zzz'$"),
    ({"ppo": {1: 1}}, "unknown key 'ppo.1'$"),
    ({"ppo": {"ppo": {}}}, "unknown key 'ppo.ppo'"),
    # the key of another section, though one of this section is near
    ({"num_envs": 8}, "unknown key 'num_envs': did you mean 'ppo.num_envs'"),
    ({"learning_rate": 0.1}, r"'learning_rate': did you mean 'fit\.learning_rate' or 'ppo\.learning_rate'\?$"),
    ({"search": {"seed": 1}}, "unknown key 'search.seed': did you mean 'seed'"),
    ({"fit": {"matches": 1}}, r"'fit\.matches': did you mean 'search\.matches' or 'evaluation\.matches'"),
    ({"fit": {"num_player": 1}}, "unknown key 'fit.num_player': did you mean 'num_players'"),
    ({"opponent": []}, "unknown key 'opponent': did you mean 'evaluation.opponents'"),
    ({"seed": "1"}, "seed must be of type int, not '1'"),
    ({"seed": 1.0}, "seed must be of type int, not 1.0"),
    ({"seed": True}, "seed must be of type int, not True"),
    ({"seed": None}, "seed must be of type int, not None"),
    ({"seed": -1}, "seed must be within 0 .. 1000000, not -1"),
    ({"search": {"shards": 1000, "matches": 1_000_000}}, "search.shards . search.matches must be below 1000000000"),
    ({"ppo": 3}, "ppo is a section: a mapping of keys to values, not 3"),
    ({"ppo": None}, "ppo is a section"),
    ({"fit": []}, "fit is a section"),
    ({"ppo": {"gamma": "high"}}, "ppo.gamma must be of type float, not 'high'"),
    ({"ppo": {"gamma": False}}, "ppo.gamma must be of type float, not False"),
    ({"ppo": {"gamma": 1.5}}, "ppo.gamma must be within 0 .. 1, not 1.5"),
    ({"fit": {"learning_rate": float("nan")}}, "fit.learning_rate must be within 0 .. 1, not nan"),
    ({"fit": {"temperature": 0}}, "fit.temperature must be within"),
    ({"run": 5}, "run must be of type str, not 5"),
    ({"run": ""}, "run must be the path of a new folder, not ''"),
    ({"run": ".."}, "run must be the path of a new folder"),
    ({"hidden": 64}, "hidden must be a list of ints, not 64"),
    ({"hidden": []}, r"hidden must be a list of positive widths, at least one, not \[\]"),
    ({"hidden": [64, 0]}, "hidden must be a list of positive widths"),
    ({"hidden": [64.0]}, "hidden must be a list of ints"),
    ({"hidden": [True]}, "hidden must be a list of ints"),
    ({"ppo": {"pool": "greedy"}}, "ppo.pool must be a list of texts, not 'greedy'"),
    ({"ppo": {"critic": "own"}}, "ppo.critic must be one of 'shared', 'separate', 'hidden', not 'own'"),
    ({"ppo": {"critic": 1}}, "ppo.critic must be one of 'shared', 'separate', 'hidden', not 1"),
    ({"evaluation": {"opponents": [1]}}, "evaluation.opponents must be a list of texts"),
    ({"num_players": 5}, "num_players must be within 2 .. 4, not 5"),
    ({"search": {"shards": 1}}, "search.shards must be within 2 "),
    ({"search": {"explore": -0.1}}, "search.explore must be within 0 .. 1"),
    ({"ppo": {"num_envs": 0}}, "ppo.num_envs must be within 1 "),
    ({"ppo": {"total_steps": -5}}, "ppo.total_steps must be within 0 "),
    ({"evaluation": {"matches": 0}}, "evaluation.matches must be within 1 "),
    (
        {"ppo": {"num_envs": 16, "rollout_steps": 256, "minibatch_size": 4097}},
        r"ppo.minibatch_size must be at most ppo.num_envs \* ppo.rollout_steps = 4096, not 4097",
    ),
    ({"ppo": {"reward": "points"}}, "ppo.reward must be one of 'win', 'margin', not 'points'"),
    ({"ppo": {"episode": ["round"]}}, r"ppo.episode must be one of 'match', 'round', not \['round'\]"),
    ({"ppo": {"shaping": 1}}, "ppo.shaping must be of type bool, not 1"),
    ({"ppo": {"shaping": True, "reward": "margin"}}, "ppo.shaping needs ppo.reward = 'win', not 'margin'"),
    ({"ppo": {"shaping": True, "gamma": 0.99}}, "ppo.shaping needs ppo.gamma = 1, not 0.99"),
    ({"ppo": {"winning_chances": None}}, "ppo.winning_chances must be of type str, not None"),
    (
        {"ppo": {"winning_chances": "own.npz", "reward": "margin"}},
        "ppo.winning_chances needs ppo.reward = 'win', not 'margin'",
    ),
    (MINI | {"rules": {"hand": 2}}, "unknown key 'rules.hand': did you mean 'rules.hand_size'"),
    (MINI | {"rules": {"hand_size": 1}}, "rules.hand_size must be within 2 .. 14, not 1"),
    (MINI | {"rules": {"without": "0|0"}}, r"rules.without must be a list of texts, not '0\|0'"),
    (MINI | {"rules": {"without": ["0|0", "0|7"]}}, r"rules.without: unknown tile '0\|7'"),
    (MINI | {"rules": {"target": 42}}, r"rules: target must be a multiple of five \(R10\), not 42"),
    (
        MINI | {"rules": {"max_pip": 2, "hand_size": 4}},
        "rules: num_players=2 hands of hand_size=4 need more than the 6",
    ),
    (
        MINI | {"search": {"iterations": 2}},
        r"search.iterations must be 0, not 2, with rules.hand_size = 2, rules.max_pip = 3, rules.without = .*: the ",
    ),
    ({"ppo": {"scores": [0.0, 5]}}, r"ppo.scores must be a list of ints, not \[0.0, 5\]"),
    ({"ppo": {"scores": [0, 7]}}, r"ppo.scores\[1\] must be a multiple of five \(R10\), not 7"),
    ({"num_players": 3, "ppo": {"scores": [0, 5]}}, "ppo.scores: 3 seats make 3 sides"),
    ({"ppo": {"scores": [0, 5], "episode": "match"}}, "ppo.scores needs ppo.episode = 'round', not 'match'"),
    ({"ppo": {"scores": [0, 5]}}, r"ppo.scores needs ppo.pool = \[\] and ppo.snapshots = 0"),
    ({"ppo": {"scores": [0, 5], "pool": []}}, r"ppo.scores needs ppo.pool = \[\] and ppo.snapshots = 0"),
    (MINI | {"ppo": {}}, "ppo.reward must be 'margin', not 'win', with rules.hand_size = 2"),
]
ODD = Config(
    run="a b/ü: #",
    seed=3,
    num_players=4,
    hidden=(7, 8, 9),
    rules=RulesConfig(hand_size=3, target=60, max_pip=4, without=("0|0", "2|3")),
    search=SearchConfig(iterations=0, explore=1e-7),
    fit=FitConfig(learning_rate=1e-5, weight_decay=0.25),
    ppo=PpoConfig(pool=(), total_steps=2**53, gamma=0.5, critic="hidden", reward="margin", episode="match"),
    evaluation=EvalConfig(opponents=("greedy", "1e3", "null", "pimc:5", "7")),
)


def flagged(values: dict[Any, Any], *flags: str) -> Config:
    """The configuration of these values and flags."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return make_config(with_flags(values, parser.parse_args(flags)))


# What is refused


@pytest.mark.parametrize(("values", "fault"), WRONG)
def test_a_wrong_configuration_is_refused_by_name(values: dict[Any, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=fault):
        make_config(values)
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(values).replace("NaN", ".nan").replace('{"1":', "{1:"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.yaml: .*" + fault):
        read_config(file)


@pytest.mark.parametrize(
    "text", [b"", b"- seed", b"seed", b"seed: [", b"\0", b"a: b: c", b"!!python/name:os.getcwd", b"\xff\xfe\xff"]
)
def test_a_file_that_is_no_configuration(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(text)
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read_config(file)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("seed: 1\nseed: 2\n", "line 2: 'seed' stands twice"), ("ppo:\n  gamma: 1\n  gamma: 1\n", "line 3: 'gamma'")],
)
def test_a_key_that_stands_twice(text: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"config\.yaml: .*{fault}"):
        read_config(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.yaml"):
        read_config(tmp_path / "none.yaml")


def test_every_number_has_a_range() -> None:
    """Each key that holds a number is refused where it is far too small, by its name."""
    numbers = 0
    for name in keys():
        section, _, key = name.rpartition(".")
        config = Config()
        default = getattr(getattr(config, section) if section else config, key)
        if isinstance(default, int | float) and not isinstance(default, bool):
            numbers += 1
            with pytest.raises(ValueError, match=rf"^{name} must be within"):
                make_config({section: {key: -1}} if section else {key: -1})
    choices = "precision", "ppo.reward", "ppo.episode", "ppo.shaping", "ppo.critic", "ppo.pool_sample"
    others = "run", "hidden", "start", "rules.without", "search.teacher", "ppo.pool", "evaluation.opponents"
    assert numbers == len(list(keys())) - len((*choices, *others, "ppo.winning_chances", "ppo.scores"))


def test_a_mini_game_says_what_it_changes() -> None:
    assert make_config(MINI).rules.changed() == {"hand_size": 2, "max_pip": 3, "without": ("0|0", "0|3")}
    assert make_config(MINI | {"rules": {"hand_size": 5, "without": []}}).rules.changed() == {}


# Files


@pytest.mark.parametrize("config", [Config(), ODD, Config(run="1e5"), Config(run="null")])
def test_a_configuration_can_be_written_and_read(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(as_yaml(config), encoding="utf-8")
    assert read_config(file) == config


def test_keys_left_out_have_defaults_and_ints_become_floats(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("hidden: [32]\nppo:\n  gamma: 1\n  learning_rate: 1e-4\n", encoding="utf-8")
    config = read_config(file)
    assert config == dataclasses.replace(Config(), hidden=(32,), ppo=PpoConfig(gamma=1.0, learning_rate=0.0001))
    assert isinstance(config.ppo.gamma, float)


CONFIGS = sorted(file for file in (ROOT / "configs").glob("*.yaml") if not file.name.startswith("rllib_"))


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: str(file.name))
def test_the_projects_configurations_are_sound(file: Path) -> None:
    config = read_config(file)
    rollout = config.ppo.num_envs * config.ppo.rollout_steps
    assert config.ppo.total_steps % rollout == 0
    assert Path(config.run) == Path("runs") / file.stem


# Flags


def test_there_is_a_flag_for_every_key() -> None:
    written: dict[str, Any] = {}
    for name in keys():
        section, _, key = name.rpartition(".")
        value = getattr(getattr(ODD, section) if section else ODD, key)
        written[f"--{name.replace('_', '-')}"] = json.dumps(value, ensure_ascii=False)
    assert flagged({}, *(part for flag in written.items() for part in flag)) == ODD


def test_a_flag_replaces_one_key_of_the_file() -> None:
    values = {"seed": 4, "hidden": [8], "ppo": {"num_envs": 300, "gamma": 0.9}}
    config = flagged(values, "--ppo.learning-rate", "1e-4", "--ppo.gamma=0.5", "--hidden", "[16, 16]", "--run", "a/b")
    assert config == Config(
        run="a/b", seed=4, hidden=(16, 16), ppo=PpoConfig(num_envs=300, gamma=0.5, learning_rate=0.0001)
    )


@pytest.mark.parametrize(
    ("values", "flags", "fault"),
    [
        ({}, ["--seed", "x"], "seed must be of type int, not 'x'"),
        ({}, ["--seed", ""], "seed must be of type int, not None"),
        ({}, ["--seed=-1"], "seed must be within"),
        ({}, ["--ppo.gamma", "2"], "ppo.gamma must be within"),
        ({}, ["--hidden", "64"], "hidden must be a list"),
        ({}, ["--hidden", "[64"], "--hidden: not YAML"),
        ({}, ["--ppo.learning-rate", "a: b: c"], "--ppo.learning-rate: not YAML"),
        ({"ppo": 3}, ["--ppo.gamma", "1"], "ppo is a section"),
        ({"ppo": None}, ["--ppo.gamma", "1"], "ppo is a section"),
    ],
)
def test_a_wrong_flag_is_refused_by_name(values: dict[str, Any], flags: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        flagged(values, *flags)
