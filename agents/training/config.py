"""The configuration of a training run: its keys, their meaning, a strict reader, and its command-line flags."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

from fivesup_env.notation import checked_scores, parse_tile
from fivesup_env.options import EpisodeName, Options
from fivesup_env.rules.state import HAND_SIZE, HIGHEST_TARGET, TARGET

_T = TypeVar("_T")


@dataclass(frozen=True)
class RulesConfig:
    """Rule parameters, as the environments name them. With others than the whole game's, matches are of a mini game."""

    hand_size: int = HAND_SIZE  # tiles dealt to each seat
    target: int = TARGET  # raw points that win the match
    max_pip: int = 6  # largest half in the set
    without: tuple[str, ...] = ()  # tiles left out of the set, such as "0|3"

    def __post_init__(self) -> None:
        """Check the tiles."""
        for tile in self.without:
            try:
                parse_tile(tile)
            except ValueError as error:
                raise ValueError(f"rules.without: {error}") from None

    def changed(self) -> dict[str, Any]:
        """Return the parameters that are not those of the whole game, by name; none for the whole game."""
        defaults = {each.name: each.default for each in dataclasses.fields(self)}
        return {name: value for name, value in dataclasses.asdict(self).items() if value != defaults[name]}


@dataclass(frozen=True)
class SearchConfig:
    """Matches valued by a search, for the network to be fitted to."""

    iterations: int = 1  # how often matches are played and a network is fitted; 0 for self-play from nothing
    teacher: str = "pimc:20"  # the search
    shards: int = 40  # files of matches in each iteration; the last one is held out
    matches: int = 256  # in each shard
    explore: float = 0.05  # chance that an action is drawn uniformly
    window: int = 4  # the network is fitted to the matches of so many last iterations
    prior_weight: float = 0.0  # worlds that the opinion of the network that plays is worth; iteration 0 has none


@dataclass(frozen=True)
class FitConfig:
    """How a network is fitted to a search's values."""

    passes: int = 2  # over all decisions
    minibatch_size: int = 2048  # decisions
    learning_rate: float = 1e-3  # after the warm-up; falls linearly to 0
    warmup_steps: int = 200  # minibatches
    weight_decay: float = 0.0
    temperature: float = 0.01  # chance to win; the target is the softmax of the values divided by this
    value_coef: float = 0.5  # weight of the value's loss
    group: int = 12  # shards that are mixed


@dataclass(frozen=True)
class PpoConfig:
    """Self-play by PPO, after the search or from nothing."""

    total_steps: int = 0  # decisions
    reward: Literal["win", "margin"] = "win"  # change of the chance to win, or of the points over the others' mean
    episode: EpisodeName = "round"  # what is paid until its end is a decision's return: "round" or "match"
    scores: tuple[int, ...] = ()  # raw points per side with which every round begins; () for where the last one ended
    shaping: bool = False  # with "win": pay at each placement what it changes in the chance to win by the scores
    winning_chances: str = ""  # with "win": file of another table of the chances to win; "" for the stored one
    num_envs: int = 256  # matches played at once
    rollout_steps: int = 64  # decisions a match between two updates
    minibatch_size: int = 2048
    epochs: int = 3  # passes over a rollout
    learning_rate: float = 3e-4  # at the beginning; falls linearly to 0
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy_coef: float = 0.05
    anchor_coef: float = 0.0  # weight of the divergence from a slow copy of the policy
    anchor_decay: float = 0.99  # the slow copy keeps this share of itself at each update
    value_coef: float = 0.5
    critic: Literal["shared", "separate", "hidden"] = "shared"  # with layers of its own; seeing the other hands, too
    pool_share: float = 0.25  # share of matches against opponents of the pool
    pool: tuple[str, ...] = ("greedy",)  # opponents that are always there
    pool_sample: bool = True  # networks of the pool draw their actions; else they take their most probable ones
    snapshot_every: int = 20  # updates between two copies of the learner that join the pool
    snapshots: int = 10  # at most so many; the oldest leave

    def in_chances(self) -> bool:
        """Tell whether a round pays the change of the chance to win, and nothing before it is over."""
        return self.reward == "win" and not self.shaping


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training."""

    every_minutes: float = 5.0
    opponents: tuple[str, ...] = ("greedy",)
    matches: int = 400  # against each
    rating_matches: int = 100  # of each pair by which the pool is rated; 0 for no ratings


@dataclass(frozen=True)
class Config:
    """What a run does. Every key can stand in a configuration file; those left out keep the value given here."""

    run: str = "runs/latest"  # folder of the run
    seed: int = 0  # of deals, initial weights and sampled actions
    num_players: int = 2  # seats, 2-4
    threads: int = 0  # of torch, and processes that search; 0 for all cores
    hidden: tuple[int, ...] = (512, 512)  # widths of the layers that policy and value share
    precision: Literal["float32", "bfloat16"] = "float32"  # of their arithmetic in learning; see docs/training.md
    start: str = ""  # a network whose weights this one begins with: net-2p, or the folder of a checkpoint; "" for none
    reward_scale: float = 10.0  # rewards, such as changes of the chance to win the match, are multiplied by this
    rules: RulesConfig = field(default_factory=RulesConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    fit: FitConfig = field(default_factory=FitConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)

    def __post_init__(self) -> None:
        """Check ranges."""
        check_ranges(self, _RANGES)
        matches = self.search.shards * self.search.matches
        if matches >= 10**9:
            raise ValueError(f"search.shards * search.matches must be below 1000000000, not {matches}")
        rollout = self.ppo.num_envs * self.ppo.rollout_steps
        if self.ppo.minibatch_size > rollout:
            raise ValueError(
                f"ppo.minibatch_size must be at most ppo.num_envs * ppo.rollout_steps = {rollout}, "
                f"not {self.ppo.minibatch_size}"
            )
        if Path(self.run).name in ("", ".."):
            raise ValueError(f"run must be the path of a new folder, not {self.run!r}")
        check_widths(self.hidden)
        if self.search.prior_weight and self.search.iterations < 2:
            raise ValueError(
                f"search.prior_weight must be 0, not {self.search.prior_weight}, with search.iterations = "
                f"{self.search.iterations}: the first iteration has no network yet"
            )
        self._check_rules()
        self._check_rewards()
        self._check_scores()

    def _check_rules(self) -> None:
        """Check what the environments say of the rule parameters, and that the search is of the whole game."""
        changed = self.rules.changed()
        try:
            Options(num_players=self.num_players, **changed)
        except ValueError as error:
            raise ValueError(f"rules: {error}") from None
        told = ", ".join(f"rules.{name} = {value!r}" for name, value in changed.items())
        if changed and self.search.iterations:
            raise ValueError(
                f"search.iterations must be 0, not {self.search.iterations}, with {told}: "
                "the search knows the chances to win of the whole game alone"
            )
        if changed and self.ppo.reward == "win":
            raise ValueError(
                f"ppo.reward must be 'margin', not 'win', with {told}: "
                "the chances to win are known of the whole game alone"
            )

    def _check_rewards(self) -> None:
        """Check that shaping and table go with the reward, and that the shaping changes nothing in what is best."""
        if self.ppo.shaping and self.ppo.reward != "win":
            raise ValueError(f"ppo.shaping needs ppo.reward = 'win', not {self.ppo.reward!r}")
        if self.ppo.shaping and self.ppo.gamma != 1:
            raise ValueError(f"ppo.shaping needs ppo.gamma = 1, not {self.ppo.gamma}")
        if self.ppo.winning_chances and self.ppo.reward != "win":
            raise ValueError(f"ppo.winning_chances needs ppo.reward = 'win', not {self.ppo.reward!r}")

    def _check_scores(self) -> None:
        """Check that every round can begin with these scores, and that nothing counts matches then."""
        scores, ppo = self.ppo.scores, self.ppo
        if not scores:
            return
        try:
            checked_scores(Options(num_players=self.num_players, **self.rules.changed()).new_state(), scores)
        except ValueError as error:
            raise ValueError(f"ppo.{error}") from None  # it begins with "scores"
        if ppo.episode != "round":
            raise ValueError(f"ppo.scores needs ppo.episode = 'round', not {ppo.episode!r}")
        if ppo.pool or ppo.snapshots:
            raise ValueError(
                "ppo.scores needs ppo.pool = [] and ppo.snapshots = 0: opponents are drawn for whole matches"
            )


def check_widths(hidden: tuple[int, ...]) -> None:
    """Raise a ValueError unless these can be the widths of a network's layers."""
    if not hidden or min(hidden) < 1:
        raise ValueError(f"hidden must be a list of positive widths, at least one, not {list(hidden)}")


class _Loader(yaml.SafeLoader):
    """Reads YAML, takes 1e-4 for a number as YAML 1.2 does, and refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping."""
        names = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in names[:number]:
                line = key.start_mark.line + 1
                raise yaml.constructor.ConstructorError(problem=f"line {line}: {key.value!r} stands twice")
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads."""


_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))

_MOST = 2**31
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 1_000_000),  # beyond, match seeds of runs would run out
    "num_players": (2, 4),
    "threads": (0, 1024),
    "reward_scale": (1e-6, 1e6),
    "rules.hand_size": (2, 14),  # a hand of one tile is out at once, which leaves nobody a decision
    "rules.target": (5, HIGHEST_TARGET),
    "rules.max_pip": (1, 6),
    "search.iterations": (0, 998),
    "search.shards": (2, 100_000),
    "search.matches": (1, 1_000_000),
    "search.explore": (0, 1),
    "search.window": (1, 1000),
    "search.prior_weight": (0, 1e6),
    "fit.passes": (1, 1000),
    "fit.minibatch_size": (1, _MOST),
    "fit.learning_rate": (0, 1),
    "fit.warmup_steps": (1, _MOST),
    "fit.weight_decay": (0, 1),
    "fit.temperature": (1e-6, 1e6),
    "fit.value_coef": (0, 1000),
    "fit.group": (1, 100_000),
    "ppo.total_steps": (0, 2**53),
    "ppo.num_envs": (1, _MOST),
    "ppo.rollout_steps": (2, _MOST),
    "ppo.minibatch_size": (2, _MOST),
    "ppo.epochs": (1, 1000),
    "ppo.learning_rate": (0, 1),
    "ppo.gamma": (0, 1),
    "ppo.gae_lambda": (0, 1),
    "ppo.clip_range": (1e-6, 1),
    "ppo.entropy_coef": (0, 10),
    "ppo.anchor_coef": (0, 10),
    "ppo.anchor_decay": (0, 1),
    "ppo.value_coef": (0, 1000),
    "ppo.pool_share": (0, 1),
    "ppo.snapshot_every": (1, _MOST),
    "ppo.snapshots": (0, 1000),
    "evaluation.every_minutes": (0, 1e6),
    "evaluation.matches": (1, _MOST),
    "evaluation.rating_matches": (0, _MOST),
}


def read_config(path: str | Path) -> Config:
    """Return the configuration in a YAML file.

    Raises:
        ValueError: the file is no mapping, or a key is unknown or of a wrong type or range; names key and nearest key.
        OSError: the file cannot be read.
    """
    return make_config(read_values(path), str(path))


def read_values(path: str | Path) -> dict[Any, Any]:
    """Return what a YAML file holds.

    Raises:
        ValueError: the file is no mapping.
        OSError: the file cannot be read.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: a configuration is a mapping of keys to values, not {content!r}")
    return content


def make_config(values: dict[Any, Any], source: str = "") -> Config:
    """Return the configuration with these values, as `make_settings` does."""
    return make_settings(Config, values, source)


def make_settings(kind: type[_T], values: dict[Any, Any], source: str = "") -> _T:
    """Return a dataclass of settings with these values, those of sections, which are dataclasses, too, as mappings.

    Args:
        kind: the dataclass; it checks ranges itself, and raises a ValueError.
        values: by key.
        source: named in errors, such as the path of the file.

    Raises:
        ValueError: a key is unknown or ill-typed, or a value out of range; names it.
    """
    try:
        made = _made(kind, values, "", list(keys(kind)))
    except ValueError as error:
        raise ValueError(f"{source}: {error}" if source else str(error)) from None
    assert isinstance(made, kind)
    return made


def check_ranges(config: Any, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check numbers of a configuration against their least and greatest values, by key.

    Raises:
        ValueError: a number is out of its range; names it.
    """
    for name, (low, high) in ranges.items():
        value = _value_of(config, name)
        if not low <= value <= high:
            raise ValueError(f"{name} must be within {low} .. {high}, not {value}")


def as_yaml(config: Any) -> str:
    """Return the configuration as a YAML text that `read_config` reads back."""
    return str(yaml.dump(_plain(dataclasses.asdict(config)), Dumper=_Dumper, sort_keys=False))


def add_flags(parser: argparse.ArgumentParser, kind: Any = Config) -> None:
    """Add a flag for every key, such as ``--ppo.learning-rate 1e-4``; it takes what YAML takes."""
    group = parser.add_argument_group("keys of the configuration, in place of those of the file")
    for name in keys(kind):
        group.add_argument("--" + name.replace("_", "-"), dest=name, metavar="VALUE", default=argparse.SUPPRESS)


def with_flags(values: dict[Any, Any], arguments: argparse.Namespace, kind: Any = Config) -> dict[Any, Any]:
    """Return the values of a file with those of the flags in their place.

    Raises:
        ValueError: a flag's value is not YAML; names the flag.
    """
    for name in keys(kind):
        if not hasattr(arguments, name):
            continue
        try:
            value = yaml.load(getattr(arguments, name), _Loader)
        except yaml.YAMLError as error:
            raise ValueError(f"--{name.replace('_', '-')}: not YAML: {error}") from None
        section, _, key = name.rpartition(".")
        if not section:
            values[key] = value
        elif isinstance(values.setdefault(section, {}), dict):  # else `make_config` tells
            values[section] = {**values[section], key: value}
    return values


def keys(kind: Any = Config, prefix: str = "") -> Iterator[str]:
    """Yield all keys, those of sections as "section.key"."""
    for name, wanted in get_type_hints(kind).items():
        if dataclasses.is_dataclass(wanted):
            yield from keys(wanted, f"{prefix}{name}.")
        else:
            yield prefix + name


def _made(kind: Any, values: dict[Any, Any], prefix: str, known: list[str]) -> Any:
    """Return a section; `known` are all keys of the whole configuration."""
    types = get_type_hints(kind)
    checked = {}
    for key, value in values.items():
        if key not in types:
            raise ValueError(f"unknown key {_quoted(prefix, key)}" + _nearest(prefix, str(key), list(types), known))
        checked[key] = _checked(prefix + key, value, types[key], known)
    return kind(**checked)


def _quoted(prefix: str, key: Any) -> str:
    return repr(prefix + str(key)) if prefix else repr(key)


def _nearest(prefix: str, key: str, section: list[str], known: list[str]) -> str:
    """Return a hint at the key that was meant: that of another section, or a near one of this section, or of any."""
    names = {name: name.rpartition(".")[2] for name in known}
    near = difflib.get_close_matches(key, section, 1)
    meant = [key] if key in names.values() else difflib.get_close_matches(key, names.values(), 1)
    hints = [prefix + near[0]] if near and key not in meant else [name for name, last in names.items() if last in meant]
    return f": did you mean {' or '.join(map(repr, hints))}?" if hints else ""


def _checked(key: str, value: Any, wanted: Any, known: list[str]) -> Any:
    if dataclasses.is_dataclass(wanted):
        if not isinstance(value, dict):
            raise ValueError(f"{key} is a section: a mapping of keys to values, not {value!r}")
        return _made(wanted, value, f"{key}.", known)
    if get_origin(wanted) is tuple:
        return _checked_list(key, value, get_args(wanted)[0])
    if get_origin(wanted) is Literal:
        return _checked_choice(key, value, get_args(wanted))
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or isinstance(value, bool) is not (wanted is bool):
        raise ValueError(f"{key} must be of type {wanted.__name__}, not {value!r}")
    return value


def _checked_choice(key: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def _checked_list(key: str, value: Any, wanted: type) -> tuple[Any, ...]:
    if wanted is int:
        if not isinstance(value, list) or not all(type(part) is int for part in value):
            raise ValueError(f"{key} must be a list of ints, not {value!r}")
    elif not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ValueError(f"{key} must be a list of texts, not {value!r}")
    return tuple(value)


def _value_of(config: Config, name: str) -> Any:
    section, _, key = name.rpartition(".")
    return getattr(getattr(config, section) if section else config, key)


def _plain(value: Any) -> Any:
    """Return dicts and lists in place of dicts and tuples."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return list(value) if isinstance(value, tuple) else value
