"""The configuration of a training run: its keys, their meaning, and a strict reader."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml


@dataclass(frozen=True)
class Config:
    """What a run does. Every key can stand in a configuration file; those left out keep the value given here."""

    run: str = "runs/latest"  # folder of the run
    seed: int = 0  # of deals, initial weights and sampled actions
    num_players: int = 2  # seats, 2-4
    total_steps: int = 1_000_000  # decisions of the learner
    num_envs: int = 16  # matches played at once
    rollout_steps: int = 256  # decisions a match between two updates
    minibatch_size: int = 1024
    epochs: int = 4  # passes over a rollout
    learning_rate: float = 1e-3  # at the beginning; falls linearly to 0
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy_coef: float = 0.02
    hidden: tuple[int, ...] = (128, 128)  # widths of the layers, of policy and value alike
    reward: Literal["margin", "points"] = "margin"  # of one round, see fivesup_v0
    reward_scale: float = 0.05  # rewards are multiplied by this
    snapshot_every: int = 2  # updates between two copies of the learner to its opponents
    eval_every: int = 8  # updates between two evaluations against random and greedy
    eval_matches: int = 200  # of each

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in (
            "total_steps",
            "num_envs",
            "rollout_steps",
            "minibatch_size",
            "epochs",
            "snapshot_every",
            "eval_every",
            "eval_matches",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, low, high in (
            ("seed", 0, 2**31),
            ("num_players", 2, 4),
            ("learning_rate", 0, 1),
            ("gamma", 0, 1),
            ("gae_lambda", 0, 1),
            ("clip_range", 0, 1),
            ("entropy_coef", 0, 1),
            ("reward_scale", 0, 1000),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be within {low} .. {high}, not {getattr(self, name)}")
        if self.minibatch_size > self.num_envs * self.rollout_steps:
            raise ValueError(
                f"minibatch_size must be at most num_envs * rollout_steps = {self.num_envs * self.rollout_steps}, "
                f"not {self.minibatch_size}"
            )
        if not Path(self.run).name:
            raise ValueError(f"run must be the path of a new folder, not {self.run!r}")


def read_config(path: str | Path) -> Config:
    """Return the configuration in a YAML file.

    Raises:
        ValueError: the file is no mapping, or a key is unknown or of a wrong type or range; names key and nearest key.
        OSError: the file cannot be read.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: a configuration is a mapping of keys to values, not {content!r}")
    try:
        return make_config(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def make_config(values: dict[Any, Any]) -> Config:
    """Return the configuration with these values.

    Raises:
        ValueError: a key is unknown or ill-typed.
    """
    types = get_type_hints(Config)
    checked = {}
    for key, value in values.items():
        if key not in types:
            near = difflib.get_close_matches(str(key), types, 1)
            raise ValueError(f"unknown key {key!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        checked[key] = _checked(key, value, types[key])
    return Config(**checked)


def as_yaml(config: Config) -> str:
    """Return the configuration as a YAML text that `read_config` reads back."""
    values = dataclasses.asdict(config)
    values["hidden"] = list(values["hidden"])
    return str(yaml.safe_dump(values, sort_keys=False))


def _checked(key: str, value: Any, wanted: Any) -> Any:
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise ValueError(f"{key} must be one of {', '.join(get_args(wanted))}, not {value!r}")
        return value
    if get_origin(wanted) is tuple:
        if not isinstance(value, list) or not all(type(part) is int and part > 0 for part in value):
            raise ValueError(f"{key} must be a list of positive ints, not {value!r}")
        return tuple(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        hint = " (YAML takes a number without a point for a text: write 1.0e-3)" if wanted is float else ""
        raise ValueError(f"{key} must be of type {wanted.__name__}, not {value!r}{hint}")
    return value
