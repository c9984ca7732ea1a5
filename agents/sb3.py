"""The vector environments as a Stable-Baselines3 `VecEnv`: all matches are stepped by one call.

**Forms.** With `opponent=`, a learner sits in every match, and observations and rewards are its own, as in
`LearnerVectorEnv`. Without, the caller plays every seat, as in `FivesUpVectorEnv`: observations and masks are those of
the seat to move, and a step's reward is that of the seat that acted. PPO would take the next observation, which may be
another seat's, for what its action led to: a self-play buffer has to tell the seats apart. It finds in `acted` and
`to_play` which seats the actions and the new observations belong to, and in `seat_rewards` what all seats earned.

**Infos.** Rows that go on share one empty info that refuses writing; `copy()` makes a dict of it. A row that ended has

- "TimeLimit.truncated": whether it was cut off by `max_rounds`, and "terminal_observation": the last observation of the
  seat that acted, from which SB3 estimates what a truncated match was still worth to that seat;
- "seat": that seat; "winner": a side, or -1; "scores": raw points per side; "rounds": how many were played;
- without opponents "final_obs" [P, D]: the last observations of all seats.

**Masks.** `env_method("action_masks")` is a list with a single array [N, A] rather than N arrays [A]:
`get_action_masks` turns it into [1, N, A], and MaskablePPO takes either. With `indices` there is an array [A] for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from fivesup_env.learner_vector_env import make_vec
from fivesup_env.opponents import Opponent

_BY_SLOT: Final = ("to_play", "acted", "seat_rewards")


class FivesUpSb3VecEnv(VecEnv):
    """N matches for Stable-Baselines3; see the module's text.

    Args:
        num_envs: N.
        opponent: who plays against the learner, see `LearnerVectorEnv`; None: the caller plays every seat.
        partner: see `LearnerVectorEnv`.
        seat: see `LearnerVectorEnv`.
        reward_scale: all rewards are multiplied by this.
        options: those of `FivesUpVectorEnv`, but for `copy` and `buffers`.

    Raises:
        ValueError: an option is impossible; names it.
    """

    #: int64[N]: the seat that each observation belongs to
    to_play: NDArray[np.int64]
    #: int64[N]: the seat that acted in the last step
    acted: NDArray[np.int64]
    #: float32[N, P]: what every seat earned in the last step; there is no such attribute with opponents
    seat_rewards: NDArray[np.float32]

    def __init__(
        self,
        num_envs: int,
        *,
        opponent: str | Opponent | Sequence[str | Opponent] | None = None,
        partner: str | Opponent | None = None,
        seat: int | None = None,
        reward_scale: float = 1.0,
        **options: Any,
    ) -> None:
        # Its buffers are copied here where SB3 keeps what it is given.
        self.env = make_vec(num_envs, opponent, partner, seat, copy=False, **options)
        self.reward_scale = reward_scale
        self._plays_every_seat = opponent is None
        self._actions = self.to_play = self.acted = np.zeros(num_envs, np.int64)
        if self._plays_every_seat:
            self.seat_rewards = np.zeros((num_envs, self.env.options.num_players), np.float32)
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Deal a match in every slot, by the seeds and options set since the last reset."""
        seeds = [seed for seed in self._seeds if seed is not None]
        observations, told = self.env.reset(seed=seeds or None, options=self._options[0])
        self._reset_seeds()
        self._reset_options()
        self._note(told)
        self.reset_infos = [{"seat": seat} for seat in self.to_play.tolist()]
        dealt: NDArray[Any] = observations.copy()
        return dealt

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Take the actions; a match that ends is followed by the next.

        Raises:
            IllegalAction: an action is not legal; names the first such row. No match has moved.
        """
        observations, rewards, terminated, truncated, told = self.env.step(self._actions)
        self.acted = self.to_play
        self._note(told)
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [_NOTHING] * self.num_envs
        for row in np.flatnonzero(dones).tolist():
            infos[row] = {"TimeLimit.truncated": bool(truncated[row]), **self._outcome(row, told)}
            self.reset_infos[row] = {"seat": int(self.to_play[row])}
        return observations.copy(), self._scaled(rewards), dones, infos

    def _note(self, told: dict[str, Any]) -> None:
        self.to_play = told["to_play" if self._plays_every_seat else "seat"].copy()
        if self._plays_every_seat:
            self.seat_rewards = self._scaled(told["rewards"])

    def _outcome(self, row: int, told: dict[str, Any]) -> dict[str, Any]:
        seat, final = int(self.acted[row]), told["final_obs"][row].copy()
        outcome = {name: values[row].tolist() for name, values in told["final_info"].items()}
        if not self._plays_every_seat:
            return {"terminal_observation": final, "seat": seat, **outcome}
        return {"terminal_observation": final[seat].copy(), "seat": seat, "final_obs": final, **outcome}

    def _scaled(self, rewards: NDArray[Any]) -> NDArray[np.float32]:
        scaled: NDArray[np.float64] = np.multiply(rewards, self.reward_scale, dtype=np.float64)
        return scaled.astype(np.float32)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions of the seats that the observations belong to, bool[N, A]."""
        return self.env.action_masks().astype(np.bool_)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Set the options of the next reset, see `FivesUpVectorEnv.reset`.

        Args:
            options: one dict for all slots, or one for each; these have the same keys, and no sampler.

        Raises:
            ValueError: the dicts do not fit together.
        """
        if isinstance(options, list):
            names = options[0].keys() if options else set()
            if len(options) != self.num_envs or "sampler" in names or any(each.keys() != names for each in options):
                raise ValueError(f"options: one dict, or {self.num_envs} of the same keys and without a sampler")
            options = {name: [each[name] for each in options] for name in names}
        self._options = [dict(options or {})] * self.num_envs

    def close(self) -> None:
        """End the threads."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return a slot's own `to_play`, `acted` and `seat_rewards`, or what all slots share, for each slot."""
        value = getattr(self if hasattr(self, attr_name) else self.env, attr_name)
        return [value[row] if attr_name in _BY_SLOT else value for row in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of all slots, such as `opponents` or `reward_scale`.

        Raises:
            ValueError: `indices` are given: the slots have no attributes of their own.
        """
        if indices is not None:
            raise ValueError(f"{attr_name} can only be set for all slots at once: indices must be None")
        setattr(self if hasattr(self, attr_name) else self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return the masks of all slots as one array in a list, or, with `indices`, an array for each.

        Raises:
            AttributeError: another method is asked for: slots have none.
        """
        if method_name != "action_masks":
            raise AttributeError(f'slots are no environments: their one method is "action_masks", not {method_name!r}')
        masks = self.action_masks()
        return [masks] if indices is None else [masks[row] for row in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> Any:
        """Return False for each slot."""
        return [False for _ in self._get_indices(indices)]


class _Nothing(dict[str, Any]):
    """The info that all rows which go on share: empty, and to stay so."""

    def __setitem__(self, *_: Any) -> NoReturn:
        self._refuse()

    def setdefault(self, *_: Any) -> NoReturn:
        self._refuse()

    def update(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def __ior__(self, _: Any) -> NoReturn:  # type: ignore[misc]  # `|` still makes a dict
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("all matches that go on share this info: write into a copy() of it")


_NOTHING: Final = _Nothing()
