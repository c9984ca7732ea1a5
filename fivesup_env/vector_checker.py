"""A checker for vector environments: for `VectorEnv` what `gymnasium.utils.env_checker` is for single ones.

`check_vector_env` plays an environment several times, looks at all it returns, and raises a `VectorEnvError` where
Gymnasium's vector API is broken. It knows nothing of any one environment.

A play is a reset and some steps. Each row draws its random actions from a generator of its own, so a play can be
repeated: with the same seed, with a list of seeds for the rows in another order, or disturbed in ways that must not
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

_Env: TypeAlias = VectorEnv[Any, Any, Any]
#: What a call returned of one row, by `_RESET` or `_STEP`; infos has only what the row has.
_Row: TypeAlias = dict[str, Any]

_RESET: Final = ("observations", "infos")
_STEP: Final = ("observations", "rewards", "terminations", "truncations", "infos")
#: If so many resets all leave the observation as it was, it is not by chance.
_MANY_RESETS: Final = 8


class VectorEnvError(AssertionError):
    """A vector environment breaks Gymnasium's vector API: names the call, the row and the values.

    An AssertionError, as Gymnasium's checkers raise; a class of its own, for environments assert things as well.
    """


class _Rules(NamedTuple):
    steps: int
    copies: bool
    strict: bool
    seed_lists: bool
    agents: int | None


def check_vector_env(
    env: VectorEnv[Any, Any, Any],
    *,
    steps: int = 100,
    seed: int = 0,
    copies: bool = True,
    strict: bool = True,
    seed_lists: bool = True,
    random: bool = True,
    agents: int | None = None,
) -> int:
    """Play a vector environment, raise an error where it breaks Gymnasium's vector API, and close it.

    Args:
        env: just made, never reset; N rows. The leaves of its observation space are `Box`, `Discrete`, `MultiDiscrete`
            or `MultiBinary`. With `infos["action_mask"]`, actions are drawn by ``single_action_space.sample(mask)``.
        steps: the length of a play. Autoreset is checked where episodes end within it.
        seed: row i gets `seed + i`; the other play of `random` begins at `seed + N`.
        copies: what is returned is the caller's: neither a later call nor a write of the caller's changes the other.
        strict: also what Gymnasium leaves open: `step` before `reset` raises `ResetNeeded`; wrong actions raise an
            error before any row has moved; rewards are float64, not any float; `close` sets `closed`.
        seed_lists: `reset` takes a seed for each row, and a row depends on its own seed and actions alone.
        random: another seed, or a reset without one, makes another play.
        agents: `final_obs` holds so many observations in each row, [N, agents, ...]; None: one, [N, ...].

    Returns:
        How many episodes ended in the first play; with 0, nothing was learned about autoreset.

    Raises:
        VectorEnvError: names the call, the row and the values.
    """
    _check_spaces(env)
    _check_modes(env)
    if strict:
        _check_first_step(env)
    play = partial(_Play, env, _Rules(steps, copies, strict, seed_lists, agents))
    first, following = play(seed), play(None)
    first.compare(play(seed, "the same again"))
    following.compare(play(None, "the same again"))
    if random:
        first.tell_apart(following, "reset() without a seed must go on, not begin again")
        first.tell_apart(play(seed + env.num_envs), "another seed must make another play")
    if seed_lists:
        seeds = [seed + row for row in reversed(range(env.num_envs))]
        first.compare(play(seeds, f"seed={seeds}, rows read backwards", backwards=True))
    if copies:
        first.compare(play(seed, "the caller overwrites the arrays of earlier calls", disturb=_overwrite))
    if first.mode is AutoresetMode.NEXT_STEP:
        first.compare(play(seed, "other actions in steps that only reset the row", disturb=_act_otherwise))
    if strict:
        first.compare(play(seed, "wrong calls in between", disturb=_call_wrongly))
    _check_end(env, strict)
    return first.ends


def _check_spaces(env: _Env) -> None:
    count = env.num_envs
    if not isinstance(count, int | np.integer) or count < 1:
        raise VectorEnvError(f"num_envs must be a positive int, not {count!r}")
    for kind in ("observation", "action"):
        single, batched = getattr(env, f"single_{kind}_space"), getattr(env, f"{kind}_space")
        if not isinstance(single, spaces.Space):
            raise VectorEnvError(f"single_{kind}_space must be a Space, not {single!r}")
        if batched != (wanted := batch_space(single, count)):
            raise VectorEnvError(f"{kind}_space must be {wanted}, {count} times single_{kind}_space, not {batched}")


def _check_modes(env: _Env) -> None:
    mode, renders = env.metadata.get("autoreset_mode"), env.metadata.get("render_modes", [])
    if not isinstance(mode, AutoresetMode):
        raise VectorEnvError(f'metadata["autoreset_mode"] must be an AutoresetMode, not {mode!r}')
    if env.render_mode not in (None, *renders):
        raise VectorEnvError(f"render_mode {env.render_mode!r} is not one of {renders}")


def _check_first_step(env: _Env) -> None:
    try:
        env.step(env.action_space.sample())
    except ResetNeeded:
        return
    except Exception as error:
        raise VectorEnvError(f"step() before reset() must raise ResetNeeded, not {error!r}") from error
    raise VectorEnvError("step() before reset() must raise ResetNeeded, and raised nothing")


def _check_end(env: _Env, strict: bool) -> None:
    """Check `render`, if there is a render mode, and `close`."""
    frames = None if env.render_mode is None else env.render()
    if frames is not None and len(frames) != env.num_envs:
        raise VectorEnvError(f"render() must return {env.num_envs} frames, not {len(frames)}")
    env.close()
    if strict and not env.unwrapped.closed:
        raise VectorEnvError("close() must set `closed`")
    try:
        env.close()
    except Exception as error:
        raise VectorEnvError(f"close() a second time must do nothing, not raise {error!r}") from error


class _Call(NamedTuple):
    name: str
    rows: list[_Row]

    def compare(self, rows: list[_Row], when: str) -> None:
        for row, (wanted, found) in enumerate(zip(self.rows, rows, strict=True)):
            if text := _difference("", wanted, found):
                raise VectorEnvError(f"{self.name}, row {row}: {text} {when}")


class _Play:
    """A reset and steps: what they returned, every call checked by itself.

    `note` says what is special about it, `backwards` gives row i the actions of row N - 1 - i and turns what is
    returned, and `disturb` is called before every step, with the play and the actions.
    """

    def __init__(
        self,
        env: _Env,
        rules: _Rules,
        seed: int | Sequence[int] | None,
        note: str = "",
        *,
        backwards: bool = False,
        disturb: Callable[[_Play, Any], None] | None = None,
    ) -> None:
        self.env, self.rules, self.note, self.disturb = env, rules, note, disturb
        self.mode: AutoresetMode = env.metadata["autoreset_mode"]
        self.calls: list[_Call] = []
        self.given: list[tuple[_Call, Any]] = []  # with `copies`: what the caller holds, not copied
        self.taken: Any = None  # the last actions, not copied
        self.ends = 0
        self.renewed: list[bool] = []  # for every reset of a row that ended: whether its observation changed
        self.waiting = np.zeros(env.num_envs, np.bool_)  # rows that ended and are still to be reset
        self.masks: list[Any] = [None] * env.num_envs
        self.choosers = [deepcopy(env.single_action_space) for _ in range(env.num_envs)]
        for key, chooser in enumerate(reversed(self.choosers) if backwards else self.choosers):
            chooser.seed(key)
        self._run(f"reset({'' if seed is None else f'seed={seed}'}){note and f' ({note})'}", seed)
        if backwards:
            self.calls = [_Call(call.name, call.rows[::-1]) for call in self.calls]

    def compare(self, other: _Play) -> None:
        """Raise an error unless both plays are the same."""
        for wanted, found in zip(self.calls, other.calls, strict=False):  # they have the same length, or differ before
            wanted.compare(found.rows, f"if played with: {other.note}")

    def tell_apart(self, other: _Play, rule: str) -> None:
        """Raise an error if both plays are the same."""
        pairs = zip(self.calls, other.calls, strict=False)
        if not any(_difference("", *rows) for one, two in pairs for rows in zip(one.rows, two.rows, strict=True)):
            raise VectorEnvError(f"{self.calls[0].name} and {other.calls[0].name} make the same play: {rule}")

    def _run(self, name: str, seed: Any) -> None:
        self._take(name, _RESET, self.env.reset(seed=seed))
        for number in range(1, self.rules.steps + 1):
            self._step(f"{name}, step {number}")
        for call, returned in self.given:
            call.compare(self._rows(call.name, returned), "after later calls: it is no copy")
        self._check_renewed()

    def _step(self, name: str) -> None:
        if self.mode is AutoresetMode.DISABLED and self.waiting.any():
            self._reset_waiting(f"{name}, reset_mask before it")
        before, actions, same_step = self.calls[-1].rows, self._choose(), self.mode is AutoresetMode.SAME_STEP
        if self.disturb:
            self.disturb(self, actions)
        wanted, self.taken = deepcopy(actions), actions
        rows = self._take(name, _STEP, self.env.step(actions))
        if not _equal(actions, wanted):
            raise VectorEnvError(f"{name} changed the actions {wanted} to {actions}")
        for row, (last, now) in enumerate(zip(before, rows, strict=True)):
            self._check_outcome(f"{name}, row {row}", now, bool(self.waiting[row]))
            if self.waiting[row] or (same_step and _ended(now)):
                earlier = now["infos"]["final_obs"] if same_step else last["observations"]
                self.renewed.append(not _equal(earlier, now["observations"]))
        ended = np.array([_ended(row) for row in rows])
        self.waiting = ended & (not same_step)
        self.ends += int(ended.sum())

    def _reset_waiting(self, name: str) -> None:
        """Reset the rows that ended, and no others, as the caller has to with DISABLED."""
        before = self.calls[-1].rows
        rows = self._take(name, _RESET, self.env.reset(options={"reset_mask": self.waiting.copy()}))
        for row, reset in enumerate(self.waiting):
            text = _difference("observations", before[row]["observations"], rows[row]["observations"])
            if text and not reset:
                raise VectorEnvError(f"{name}, row {row}: {text} but the row is not to be reset")
            self.renewed += [bool(text)] if reset else []
        self.waiting = np.zeros_like(self.waiting)

    def _choose(self) -> Any:
        """Draw an action for every row."""
        space: Any = self.env.single_action_space
        for row, mask in enumerate(self.masks):
            if mask is not None and isinstance(space, spaces.Discrete):
                fits = _is_array(mask, np.int8, (space.n,)) and ((mask == 0) | (mask == 1)).all()
                if not fits or not (mask.any() or self.waiting[row]):
                    rule = f"must be int8[{space.n}] of 0 and 1, with any 1, not {_form(mask)} {mask}"
                    raise VectorEnvError(f"{self.calls[-1].name}, row {row}: the action mask {rule}")
        actions = [chooser.sample(mask) for chooser, mask in zip(self.choosers, self.masks, strict=True)]
        return concatenate(space, actions, create_empty_array(space, len(actions)))  # type: ignore[arg-type]

    def _take(self, name: str, names: tuple[str, ...], returned: Any) -> list[_Row]:
        """Keep what a call returned, and return a copy of it, row by row."""
        if not isinstance(returned, tuple) or len(returned) != len(names):
            raise VectorEnvError(f"{name} must return {len(names)} things: {', '.join(names)}")
        rows = self._rows(name, deepcopy(returned))
        self.calls.append(_Call(name, rows))
        if self.rules.copies:
            self.given.append((self.calls[-1], returned))
        for row, part in enumerate(rows):
            self._check_observation(f"{name}, row {row}: observation", part["observations"])
            self.masks[row] = part["infos"].get("action_mask", self.masks[row])
        return rows

    def _rows(self, name: str, returned: Any) -> list[_Row]:
        """Return what a call returned row by row; check shapes and dtypes."""
        space, count = self.env.observation_space, self.env.num_envs
        observations, *arrays, infos = returned
        if space.shape is not None and not _is_array(observations, space.dtype, space.shape):
            wanted = f"{space.dtype}{list(space.shape)}"
            raise VectorEnvError(f"{name}: observations must be {wanted}, not {_form(observations)}")
        try:
            rows = [{"observations": part} for _, part in zip(range(count), iterate(space, observations), strict=True)]
        except (KeyError, TypeError, ValueError) as error:
            raise VectorEnvError(f"{name}: observations must have {count} rows of {space}: {error}") from error
        kinds = (np.float64 if self.rules.strict else np.floating, np.bool_, np.bool_)
        for key, array, kind in zip(_STEP[1:4], arrays, kinds, strict=False):  # a reset returns none of them
            if not _is_array(array, kind, (count,)):
                raise VectorEnvError(f"{name}: {key} must be {kind.__name__}[{count}], not {_form(array)}")
            for row, value in zip(rows, array, strict=True):
                row[key] = value
        for row, info in zip(rows, _info_rows(f"{name}: infos", infos, count), strict=True):
            row["infos"] = info
        return rows

    def _check_outcome(self, where: str, row: _Row, only_resets: bool) -> None:
        """Check reward, flags and what is told of an end."""
        reward, ended, agents = row["rewards"], _ended(row), self.rules.agents
        outcome = f"reward {reward}, terminated {row['terminations']}, truncated {row['truncations']}"
        if not np.isfinite(reward):
            raise VectorEnvError(f"{where}: {outcome}")
        if only_resets and (reward != 0 or ended):
            raise VectorEnvError(f"{where}: {outcome} in a step that only resets")
        due = ended and self.mode is AutoresetMode.SAME_STEP
        for key in ("final_obs", "final_info"):
            if (key in row["infos"]) != due:
                raise VectorEnvError(
                    f"{where}: {key} must{'' if due else ' not'} be there, with {outcome}, {self.mode}"
                )
        if due:
            finals = [row["infos"]["final_obs"]] if agents is None else row["infos"]["final_obs"]
            if len(finals) != (agents or 1):
                raise VectorEnvError(f"{where}: final_obs must have {agents} parts, not {len(finals)}")
            for final in finals:
                self._check_observation(f"{where}: final_obs", final)

    def _check_observation(self, where: str, observation: Any) -> None:
        space = self.env.single_observation_space
        if observation not in space:
            raise VectorEnvError(f"{where} is not in {space}: {_outside(space, observation)}")

    def _check_renewed(self) -> None:
        """Check that ended rows are reset, unless observations never change."""
        if len(self.renewed) < _MANY_RESETS or any(self.renewed):
            return
        seen = [row["observations"] for call in self.calls for row in call.rows]
        if not all(_equal(seen[0], other) for other in seen):
            raise VectorEnvError(f"{self.mode}: all {len(self.renewed)} rows that ended and were reset look as before")


def _overwrite(play: _Play, actions: Any) -> None:
    """Write into all that the last calls returned, and into the last actions."""
    for value in (play.taken, *(returned for _, returned in play.given)):
        _fill(value)
    play.given.clear()


def _act_otherwise(play: _Play, actions: Any) -> None:
    """Take another action in the rows whose step is to be a reset."""
    for row in np.flatnonzero(play.waiting) if isinstance(actions, np.ndarray) else ():
        space = deepcopy(play.choosers[row])
        others = (space.sample() for _ in range(20))
        actions[row] = next((other for other in others if np.any(other != actions[row])), actions[row])


def _call_wrongly(play: _Play, actions: Any) -> None:
    """Make calls that have to raise an error."""
    env, space = play.env, play.env.single_action_space
    calls: dict[str, Callable[[], Any]] = {}
    if isinstance(actions, np.ndarray):
        calls["step() with a row too few"] = partial(env.step, actions[:-1])
        calls["step() with a row too many"] = partial(env.step, np.concatenate([actions, actions[-1:]]))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not play.waiting[-1]:
        outside = actions.copy()
        outside[-1] = space.start + (space.n if isinstance(space, spaces.Discrete) else space.nvec)
        calls[f"step() with {outside[-1]}, which is not in {space}, in the last row"] = partial(env.step, outside)
    if play.rules.seed_lists:
        seeds: Any = list(range(env.num_envs + 1))
        calls["reset() with a seed too many"] = partial(env.reset, seed=seeds)
    for text, call in calls.items():
        try:
            call()
        except Exception:  # which one is the environment's choice
            continue
        raise VectorEnvError(f"{play.calls[-1].name}, then {text}: must raise an error, and raised none")


def _ended(row: _Row) -> bool:
    return bool(row["terminations"] or row["truncations"])


def _info_rows(where: str, infos: Any, count: int) -> list[dict[str, Any]]:
    """Return what each row has of infos; without its mask `_key`, every row has a key."""
    if not isinstance(infos, dict):
        raise VectorEnvError(f"{where} must be a dict, not {type(infos).__name__}")
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in infos.items():
        if key.startswith("_"):
            if key[1:] not in infos:
                raise VectorEnvError(f"{where} has the mask {key!r}, but no {key[1:]!r}")
            continue
        have = infos.get(f"_{key}", np.ones(count, np.bool_))
        if not _is_array(have, np.bool_, (count,)):
            raise VectorEnvError(f"{where}['_{key}'] must be bool[{count}], not {_form(have)}")
        parts = _info_rows(f"{where}[{key!r}]", value, count) if isinstance(value, dict) else value
        if not isinstance(parts, list) and not (isinstance(parts, np.ndarray) and parts.shape[:1] == (count,)):
            raise VectorEnvError(f"{where}[{key!r}] must be an array of {count} rows, not {_form(parts)}")
        for row in np.flatnonzero(have):
            rows[row][key] = parts[row]
    return rows


def _difference(name: str, wanted: Any, found: Any) -> str:
    """Say where `found` is not `wanted`; an empty text if they are equal."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in {**wanted, **found}:
            inner = f"{name}[{key!r}]" if name else key
            if text := _difference(inner, wanted.get(key, "nothing"), found.get(key, "nothing")):
                return text
    elif not _equal(wanted, found):
        if isinstance(wanted, np.ndarray) and wanted.dtype != object and _form(wanted) == _form(found):
            index = tuple(np.argwhere(wanted != found)[0].tolist())
            return f"{name} is {found[index]}, not {wanted[index]}, at {list(index)}"
        with np.printoptions(threshold=8):
            return f"{name} is {found}, not {wanted},"
    return ""


def _equal(one: Any, two: Any) -> bool:
    floats = all(isinstance(value, np.ndarray | np.floating) and value.dtype.kind == "f" for value in (one, two))
    if floats and one.dtype == two.dtype:
        return np.array_equal(one, two, equal_nan=True)
    return data_equivalence(one, two, exact=True)


def _outside(space: spaces.Space[Any], value: Any) -> str:
    """Say which part of a value keeps it out of a space."""
    if isinstance(space, spaces.Box) and isinstance(value, np.ndarray) and value.shape == space.shape:
        for index in np.argwhere(~((value >= space.low) & (value <= space.high))).tolist():
            return f"{value[tuple(index)]} at {index}"
    return _form(value)


def _is_array(value: Any, dtype: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and np.issubdtype(value.dtype, dtype)


def _form(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


def _fill(value: Any) -> None:
    """Write ones into every array."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        if value.flags.writeable:
            value[...] = 1
    elif isinstance(value, np.ndarray | tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else tuple(value):
            _fill(part)
