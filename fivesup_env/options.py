"""The options of an environment, checked: the same for the AEC, the vector and the single-agent form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fivesup_env.actions import CODECS, Codec
from fivesup_env.notation import parse_tile
from fivesup_env.observation import observation_space
from fivesup_env.rules.state import HAND_SIZE, TARGET, State, check_int, new_state, num_sides

RewardName: TypeAlias = Literal["win", "points", "margin"]
EpisodeName: TypeAlias = Literal["match", "round"]
REWARDS: Final = ("win", "points", "margin")
EPISODES: Final = ("match", "round")
OBS_DTYPES: Final = ("int8", "float32")

#: ``win_table(scores, starters)`` returns each side's chance to win the match when a round begins at these raw scores.
#: `scores` is int64[K, sides]; `starters` is int64[K]: the seat that opens the round, or -1 where the lot decides. The
#: chances are float[K, sides] and sum to 1 in each row.
WinTable: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Options:
    """What an environment plays and pays; see `fivesup_v0` for what each option means.

    Raises:
        ValueError: an option is impossible; names it.
    """

    num_players: int = 2
    actions: Literal["ends", "ports"] = "ends"
    reward: RewardName = "win"
    episode: EpisodeName = "match"
    max_rounds: int | None = None
    skip_forced: bool = False
    obs_dtype: Literal["int8", "float32"] = "int8"
    win_table: WinTable | None = None
    hand_size: int = HAND_SIZE
    target: int = TARGET
    max_pip: int = 6
    without: Iterable[str] = ()

    def __post_init__(self) -> None:
        """Check every option."""
        check_choice("actions", self.actions, tuple(CODECS))
        check_choice("reward", self.reward, REWARDS)
        check_choice("episode", self.episode, EPISODES)
        check_choice("obs_dtype", self.obs_dtype, OBS_DTYPES)
        if self.max_rounds is not None:
            check_int("max_rounds", self.max_rounds, 1, 2**31)
        if self.episode == "round" and self.reward == "win" and self.win_table is None:
            raise ValueError('reward="win" with episode="round" needs win_table= (chance to win the match by score)')
        self.new_state()

    def new_state(self) -> State:
        """Return a record with these rule parameters and nothing dealt."""
        return new_state(
            self.num_players,
            hand_size=self.hand_size,
            target=self.target,
            max_pip=self.max_pip,
            without=sum({1 << parse_tile(tile) for tile in self.without}),
        )

    @property
    def codec(self) -> Codec:
        """The codec of the action ids."""
        return CODECS[self.actions]

    @property
    def num_sides(self) -> int:
        """Number of score owners."""
        return num_sides(self.num_players)

    @property
    def plays_match(self) -> bool:
        """Whether an episode is a match, not a round."""
        return self.episode == "match"

    @property
    def round_limit(self) -> int:
        """Rounds after which a match is truncated; 0 for never."""
        return self.max_rounds or 0

    @property
    def pays_chances(self) -> bool:
        """Whether a round pays the change of the chance to win the match."""
        return self.reward == "win" and self.episode == "round"

    def observation_space(self) -> spaces.Box:
        """Return the space of one observation."""
        return observation_space(self.obs_dtype)

    def chances(self, scores: NDArray[Any], starters: NDArray[Any]) -> NDArray[np.float64]:
        """Return the chances to win by `win_table`, float64[K, sides], checked.

        Raises:
            ValueError: the table does not return one chance per row and side, or they do not sum to 1 in a row.
        """
        assert self.win_table is not None
        at, by = scores.astype(np.int64), starters.astype(np.int64)
        answer = self.win_table(at, by)
        try:
            values = np.asarray(answer, np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        sound = values.shape == at.shape and bool(((values >= 0.0) & (values <= 1.0)).all())
        if not sound or not np.allclose(values.sum(axis=1), 1.0):
            raise ValueError(
                f"win_table must return chances of shape {at.shape} that sum to 1 in each row; "
                f"at scores {at[:3].tolist()}, starters {by[:3].tolist()} it returned {answer!r}"
            )
        return values


def check_mapping(name: str, value: object) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, and an empty one for None; else raise a ValueError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    return value


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise a ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(repr(choice) for choice in choices)}, not {value!r}")
