"""Many matches at once: a Gymnasium vector environment over one array of states.

One call of `step` moves every match by one action of its seat to move; there is no Python loop over matches.

**Slots.** Slot i of ``reset(seed=s)`` plays the match that `fivesup_v0` plays after ``reset(seed=s + i)``; its k-th
later match has the seed ``match_seed(s + i, k)``, as for `fivesup_v0` reset without a seed. Neither the number of slots
nor of threads changes what happens in a slot.

**Returns.** Observation, `infos["action_mask"]` [N, A] and `infos["to_play"]` [N] are those of the seat to move.
``rewards[i]`` is the reward of the seat that acted in this step, with what skipped steps after it brought;
`infos["rewards"]` [N, P], float32, has that of every seat.

**Ends.** Autoreset is `SAME_STEP`: a match that ends is followed by the next within the step. `infos["final_obs"]`
[N, P, D] then holds the last observations of all its seats and `infos["final_info"]` its outcome; `infos["_final_obs"]`
[N] tells in which rows.

**Errors.** If any action is illegal, `IllegalAction` names the first such row, and no match has moved.
"""

from __future__ import annotations

import math
import mmap
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from fivesup_env.actions import NUM_ENDS_ACTIONS, illegal_id
from fivesup_env.batch import (
    deal_rows,
    enter_rows,
    first_illegal,
    hide_rows,
    look_at_ends,
    look_rows,
    step_rows,
    write_outcomes,
)
from fivesup_env.episode import CHANCES, PLAYING, REWARD_NUMBERS, TERMINATED, TRUNCATED, next_rounds
from fivesup_env.notation import IllegalAction
from fivesup_env.observation import OBS_SIZE, SCALES, scaled
from fivesup_env.options import Options, check_mapping
from fivesup_env.rules.state import FULL, LOWEST_SCORE, MAX_SEED, RUNNING, STATE, WON, States, check_int
from fivesup_env.rules.view import view

_Found = TypeVar("_Found")
_LARGE = 1 << 20  # bytes from which on `_zeros` asks the system for fresh pages

#: ``sampler(seeds)`` returns where new matches begin: raw scores int[K, sides], and starters int[K], -1 for the lot.
Sampler: TypeAlias = Callable[[NDArray[np.uint64]], tuple[NDArray[Any], NDArray[Any]]]


class FivesUpVectorEnv(VectorEnv[NDArray[Any], NDArray[np.int64], NDArray[Any]]):
    """N matches in one array; the caller plays every seat. See the module's text.

    Args:
        num_envs: N, the number of matches.
        copy: return fresh arrays; False returns the environment's own buffers, which the next step overwrites.
        threads: threads that share the rows of a step.
        buffers: with `copy=False`, arrays of the caller's to write into: "observations" [N, D], int8 or float32 as
            `obs_dtype`, and "action_mask", int8[N, A]; C-contiguous and writable, such as ``tensor.numpy()``.
        options: the options of `fivesup_v0`, but for those of rendering.

    Raises:
        ValueError: an option or a buffer does not fit; names it.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        copy: bool = True,
        threads: int = 1,
        buffers: Mapping[str, NDArray[Any]] | None = None,
        **options: Any,
    ) -> None:
        self.num_envs = check_int("num_envs", num_envs, 1, 2**31)
        self.options = Options(**options)
        self.copy = bool(copy)
        self.threads = check_int("threads", threads, 1, 1024)
        self.render_mode = None
        self.single_observation_space = self.options.observation_space()
        self.single_action_space = spaces.Discrete(self.options.codec.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        #: STATE[N]: the matches in play, hidden tiles included.
        self.states: States = np.repeat(np.array([self.options.new_state()], STATE), self.num_envs)
        self._seeds = np.zeros(self.num_envs, np.uint64)
        #: uint64[N]: how many matches each slot has played before this one
        self.indices = np.zeros(self.num_envs, np.uint64)
        self._sampler: Sampler | None = None
        self._has_reset = False
        self._all_rows = np.arange(self.num_envs)
        self._pool = ThreadPoolExecutor(self.threads - 1) if self.threads > 1 else None
        self._reward = CHANCES if self.options.pays_chances else REWARD_NUMBERS[self.options.reward]
        self._paid = np.zeros((self.num_envs, self.options.num_sides))
        self._make_buffers(buffers or {})

    def _make_buffers(self, given: Mapping[str, NDArray[Any]]) -> None:
        count, seats, num_actions = self.num_envs, self.options.num_players, self.options.codec.num_actions
        if given and self.copy:
            raise ValueError("buffers= needs copy=False")
        for name in given:
            if name not in ("observations", "action_mask"):
                raise ValueError(f'unknown buffer {name!r}: there are "observations" and "action_mask"')
        self._out = _buffer(given, "observations", (count, OBS_SIZE), np.dtype(self.options.obs_dtype))
        self._masks = _buffer(given, "action_mask", (count, num_actions), np.dtype(np.int8))
        self._observations: NDArray[np.int8] = (
            self._out if self._out.dtype == np.int8 else np.zeros((count, OBS_SIZE), np.int8)
        )
        self._to_play = np.zeros(count, np.int64)
        self._actor_rewards = np.zeros(count)
        #: float32[N, P]: what every seat earned in the last step
        self.rewards = np.zeros((count, seats), np.float32)
        #: int8[N]: PLAYING, TERMINATED or TRUNCATED, after `advance`
        self.status = np.zeros(count, np.int8)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Deal a new match in every slot.

        Args:
            seed: slot i gets `seed + i`; or one seed for each slot; None: every slot goes on to its next match.
            options: "scores", raw points [sides] or [N, sides], and "starter", a seat or one for each slot, for the
                matches dealt now; "sampler", which says where every match dealt from now on begins, unless "scores" or
                "starter" do (None to end it). Other keys are ignored.

        Raises:
            ValueError: a seed, score or starter is impossible.
        """
        options = dict(check_mapping("options", options))
        if "sampler" in options:
            self._sampler = options["sampler"]
        self._set_seeds(seed)
        self._begin(self._all_rows, options.get("scores"), options.get("starter"))
        self.look()
        self.rewards[:] = 0
        return self.observed(), self._infos()

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action of the seat to move in every match; see the module's text for what is returned.

        Args:
            actions: int[N], legal ids.

        Raises:
            IllegalAction: an action is not legal; names the first such row. No match has moved.
            ValueError: not one integer for each match.
        """
        ended = self.advance(self._all_rows, actions)
        terminated, truncated = self.status == TERMINATED, self.status == TRUNCATED
        infos: dict[str, Any] = {}
        if len(ended):
            infos = spread_finals(self.num_envs, ended, self.final_observations(ended), self.outcomes(ended))
            self.begin_next(ended)
            self.look(ended)
        infos |= self._infos()
        return self.observed(), self._given(self._actor_rewards), terminated, truncated, infos

    def views(self, rows: NDArray[np.int64] | None = None) -> tuple[States, NDArray[np.int8]]:
        """Return what an agent's `act` takes, for these rows or all: views of the seats to move, and masks."""
        seen: States = self.states[self._all_rows if rows is None else rows]
        masks = np.zeros((len(seen), NUM_ENDS_ACTIONS), np.int8)
        hide_rows(seen, masks)
        return seen, masks

    def action_masks(self) -> NDArray[np.int8]:
        """Return the legal actions of the seats to move, int8[N, A]."""
        return self._given(self._masks)

    def match_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return, for each of these rows, its slot's seed plus how many matches it has played before this one."""
        numbers: NDArray[np.uint64] = self._seeds[rows] + self.indices[rows]
        return numbers

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all that the matches in play are: `states` STATE[N], `seeds` and `indices`, uint64[N]."""
        return {"states": self.states.copy(), "seeds": self._seeds.copy(), "indices": self.indices.copy()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where `get_state` was asked, of an environment with the same options; a sampler is kept.

        That the matches are such as play can reach is not checked; `Match.from_state` does that, at its price.

        Raises:
            ValueError: an array is missing or of another type or length, its matches are for other options, views, or
                not in play.
        """
        given: dict[str, NDArray[Any]] = {}
        for name, dtype in (("states", STATE), ("seeds", np.dtype(np.uint64)), ("indices", np.dtype(np.uint64))):
            array = given[name] = np.asarray(state.get(name))
            if array.dtype != dtype or array.shape != (self.num_envs,):
                raise ValueError(
                    f"state: {name} must be of shape [{self.num_envs}] and its own type, not {array!r:.80}"
                )
        own = self.options.new_state()
        for name in ("num_players", "hand_size", "target", "max_pip", "without"):
            if (given["states"][name] != own[name]).any():
                raise ValueError(f"state: {name} must be {own[name]} in every match, as in the options")
        for name, wanted, what in (("observer", FULL, "a view"), ("result", RUNNING, "a round that is over")):
            wrong = np.flatnonzero(given["states"][name] != wanted)
            if len(wrong):
                raise ValueError(f"state: states[{wrong[0]}] must be a round in play, not {what}")
        self.states[:], self._seeds[:], self.indices[:] = given["states"], given["seeds"], given["indices"]
        self._has_reset = True
        self._note_chances(self._all_rows)
        self.look()

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def advance(self, rows: NDArray[np.int64], actions: NDArray[np.int64], look: bool = True) -> NDArray[np.int64]:
        """Take an action in these rows only, without dealing the next match where one ends; return the rows that ended.

        Observations and masks of rows that go on are written if `look`. Building block of `step`.
        """
        if not self._has_reset:
            raise gymnasium.error.ResetNeeded("step() before reset()")
        taken = np.asarray(actions)
        if taken.shape != rows.shape or not np.issubdtype(taken.dtype, np.integer):
            raise ValueError(f"actions must be {len(rows)} integers, not {taken.dtype}{list(taken.shape)}")
        taken = taken.astype(np.int64, copy=False)
        self._check(rows, taken)
        actors = self._to_play[rows] if self.options.pays_chances else None
        self._take(rows, taken, look)
        ended = np.flatnonzero(self.status) if rows is self._all_rows else rows[self.status[rows] != PLAYING]
        if actors is not None and len(ended):
            self._pay_chances(ended)
            self._actor_rewards[rows] = self.rewards[rows, actors]
        return ended

    def begin_next(self, rows: NDArray[np.int64]) -> None:
        """Deal the next match in these rows. Building block of `step`."""
        self.indices[rows] += np.uint64(1)
        self._begin(rows, None, None)

    def final_observations(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the last observations of all seats of the matches that ended in these rows, [K, P, D]."""
        observations = np.empty((len(rows), self.options.num_players, OBS_SIZE), np.int8)
        look_at_ends(self.states, rows, observations)
        return observations if self.options.obs_dtype == "int8" else scaled(observations)

    def outcomes(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return how the matches ended in these rows: `winner` [K], -1 for none, `scores` [K, sides], `rounds` [K]."""
        count = len(rows)
        outcomes = {
            "winner": np.empty(count, np.int64),
            "scores": np.empty((count, self.options.num_sides), np.int64),
            "rounds": np.empty(count, np.int64),
        }
        write_outcomes(self.states, rows, *outcomes.values())
        return outcomes

    def _set_seeds(self, seed: int | Sequence[int] | None) -> None:
        count = self.num_envs
        if seed is None and self._has_reset:
            self.indices += np.uint64(1)
            return
        if seed is None:
            seed = secrets.randbits(63)
        if isinstance(seed, int | np.integer):
            first = check_int("seed", seed, 0, MAX_SEED - count + 1)
            self._seeds = np.uint64(first) + np.arange(count, dtype=np.uint64)
        else:
            if len(seed) != count:
                raise ValueError(f"seed: {count} slots need {count} seeds, not {len(seed)}")
            self._seeds = np.array([check_int(f"seed[{i}]", s, 0, MAX_SEED) for i, s in enumerate(seed)], np.uint64)
        self.indices[:] = 0
        self._has_reset = True

    def _begin(self, rows: NDArray[np.int64], scores: Any, starters: Any) -> None:
        """Deal a match in these rows and go to its first decision."""
        deal_rows(self.states, rows, self._seeds, self.indices)
        self._place(rows, scores, starters)
        self._note_chances(rows)
        if not enter_rows(self.states, rows, *self._limits(), self.status):
            raise ValueError("these options leave nobody a decision: a hand of one tile is always out at once")

    def _note_chances(self, rows: NDArray[np.int64]) -> None:
        """Keep each side's chance to win when the round began: what it ends with is paid less this."""
        if self.options.pays_chances:
            at = self.states["round_scores"][rows, : self.options.num_sides]
            self._paid[rows] = self.options.chances(at, self.states["starter"][rows])

    def _place(self, rows: NDArray[np.int64], scores: Any, starters: Any) -> None:
        """Set where the matches just dealt in these rows begin."""
        if scores is None and starters is None and self._sampler is not None:
            scores, starters = self._sampler(self.states["seed"][rows])
        if scores is not None:
            at = self._checked_scores(scores, len(rows))
            for name in ("scores", "round_scores"):
                self.states[name][rows, : at.shape[1]] = at
        if starters is not None:
            by = np.asarray(starters)
            if by.shape not in ((), rows.shape):
                raise ValueError(f"starters must be one seat, or one for each of {len(rows)} slots, not {starters!r}")
            by = np.broadcast_to(by, rows.shape)
            if not np.issubdtype(by.dtype, np.integer) or (by < -1).any() or (by >= self.options.num_players).any():
                raise ValueError(f"starters must be seats within 0 .. {self.options.num_players - 1}, not {starters!r}")
            by = np.where(by < 0, self.states["starter"][rows], by)
            self.states["starter"][rows] = self.states["turn"][rows] = by

    def _checked_scores(self, scores: Any, count: int) -> NDArray[np.int64]:
        sides, target = self.options.num_sides, self.options.target
        try:
            at = np.broadcast_to(np.asarray(scores), (count, sides))
        except ValueError:
            raise ValueError(f"scores must be of shape [{sides}] or [{count}, {sides}], not {scores!r}") from None
        if not np.issubdtype(at.dtype, np.integer):
            raise ValueError(f"scores must be ints, not {scores!r}")
        wrong = (at % 5 != 0) | (at >= target) | (at < LOWEST_SCORE)
        if wrong.any():
            row = int(np.flatnonzero(wrong.any(axis=1))[0])
            raise ValueError(
                f"scores[{row}] must be multiples of five below {target} (R10, R20), not {at[row].tolist()}"
            )
        return at

    def _limits(self) -> tuple[bool, bool, int]:
        return self.options.plays_match, self.options.skip_forced, self.options.round_limit

    def _check(self, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        ports = self.options.actions == "ports"

        def find(part: NDArray[np.int64], taken: NDArray[np.int64]) -> tuple[int, int] | None:
            index = int(first_illegal(self.states, part, taken, ports))
            return None if index < 0 else (int(part[index]), int(taken[index]))

        found = [illegal for illegal in self._share(find, rows, actions) if illegal is not None]
        if not found:
            return
        row, action = found[0]
        seen = view(self.states[row], int(self.states[row].turn))
        raise IllegalAction(f"row {row}: {illegal_id(seen, action, self.options.actions)}")

    def _take(self, rows: NDArray[np.int64], actions: NDArray[np.int64], look: bool) -> None:
        limits = (self.options.actions == "ports", *self._limits(), self._reward, look)
        buffers = (self._observations, self._masks, self._to_play, self._actor_rewards, self.rewards, self.status)

        def take(part: NDArray[np.int64], taken: NDArray[np.int64]) -> None:
            step_rows(self.states, part, taken, *limits, *buffers)

        self._share(take, rows, actions)

    def _share(self, work: Callable[..., _Found], rows: NDArray[np.int64], actions: NDArray[np.int64]) -> list[_Found]:
        """Run `work` over parts of the rows, one for each thread; rows do not touch each other."""
        if self._pool is None or len(rows) < 2 * self.threads:
            return [work(rows, actions)]
        first, *others = zip(np.array_split(rows, self.threads), np.array_split(actions, self.threads), strict=True)
        waiting = [self._pool.submit(work, *part) for part in others]
        return [work(*first), *(future.result() for future in waiting)]

    def look(self, rows: NDArray[np.int64] | None = None) -> None:
        """Write observation, mask and seat to move of these rows, or of all. Building block of `step`."""
        rows = self._all_rows if rows is None else rows
        look_rows(self.states, rows, self.options.actions == "ports", self._observations, self._masks, self._to_play)

    def _pay_chances(self, ended: NDArray[np.int64]) -> None:
        """Add what the rounds that ended in these rows changed in each side's chance to win the match."""
        states, sides = self.states[ended], self.options.num_sides
        won = states["result"] == WON
        now = (np.arange(sides) == states["result_of"][:, None]).astype(np.float64)
        if not won.all():
            now[~won] = self.options.chances(*next_rounds(states[~won], sides))
        by_side = now - self._paid[ended]
        side_of_seat = np.arange(self.options.num_players) % sides
        self.rewards[ended] += by_side[:, side_of_seat].astype(np.float32)

    def _given(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy() if self.copy else array

    def observed(self) -> NDArray[Any]:
        """Return the observations that were written last, [N, D]. Building block of `step`."""
        if self._out is not self._observations:
            np.divide(self._observations, SCALES, out=self._out)
        return self._given(self._out)

    def _infos(self) -> dict[str, Any]:
        return of_every_row(
            to_play=self._given(self._to_play),
            action_mask=self._given(self._masks),
            rewards=self._given(self.rewards),
        )


def of_every_row(**arrays: NDArray[Any]) -> dict[str, Any]:
    """Return infos that every row has, with the masks `_key` that say so: Gymnasium before 1.3 needs them."""
    everywhere = np.broadcast_to(np.True_, len(next(iter(arrays.values()))))  # read-only, and takes no memory
    return arrays | {f"_{name}": everywhere for name in arrays}


def spread_finals(
    num_envs: int, rows: NDArray[np.int64], observations: NDArray[Any], outcomes: dict[str, NDArray[np.int64]]
) -> dict[str, Any]:
    """Return the infos `final_obs` and `final_info` over all N rows, with their masks, from those of K rows."""
    ended = np.zeros(num_envs, np.bool_)
    ended[rows] = True

    def over_all(values: NDArray[Any]) -> NDArray[Any]:
        spread = _zeros((num_envs, *values.shape[1:]), values.dtype)
        spread[rows] = values
        return spread

    return {
        "final_obs": over_all(observations),
        "_final_obs": ended,
        "final_info": {name: over_all(values) for name, values in outcomes.items()},
        "_final_info": ended.copy(),
    }


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros, of which only the pages that are written take memory and time.

    `numpy.zeros` promises as much, but once a large array was freed it hands out that memory again, and clears it.
    """
    size = math.prod(shape) * dtype.itemsize
    return np.zeros(shape, dtype) if size < _LARGE else np.ndarray(shape, dtype, mmap.mmap(-1, size))


def _buffer(given: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    array = given.get(name)
    if array is None:
        return np.zeros(shape, dtype)
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        found = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else repr(type(array))
        raise ValueError(f"buffer {name!r} must be a numpy array {dtype}{list(shape)}, not {found}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"buffer {name!r} must be C-contiguous and writable")
    return array
