"""Exact 61 Five-Up as a PettingZoo AEC environment.

| | |
|---|---|
| Import | `from fivesup_env import fivesup_v0` |
| Agents | `player_0` .. `player_3`: 2, 3 or 4, numbered clockwise; with four, 0 and 2 play 1 and 3 |
| Actions | discrete, masked: `Discrete(163)` (`actions="ends"`) or `Discrete(450)` (`actions="ports"`) |
| Observation | `Dict(observation=Box(0, 127, (D,), int8), action_mask=Box(0, 1, (A,), int8))` |
| Reward | at the end of the match +1 and -1 (`reward="win"`), or points |

Each round deals five tiles to every seat and is played until a seat goes out or the round is blocked; placements
whose open ends sum to a multiple of five score that sum. The match is won by the side that reaches exactly 305 raw
points (shown as 61): an event that would pass it is refused whole. The rules are numbered in docs/rules.md.

**Observation.** What a seat can know, in named sections; `fivesup_env.observation.SECTIONS` is their table.
`obs_dtype="float32"` gives the same divided by each section's scale. Observations can be asked for any agent at any
time; hidden tiles are in none of them.

**Actions.** See `fivesup_env.actions`. `action_mask` stands in the observation and in `infos`; that of the agent to
move has at least one legal action, that of the others none. Drawing (R12) and passing (R13) are actions, legal only
when the rules force them; `skip_forced=True` takes every step in which only one `ends` id is legal by itself, also
within `reset`, so that an agent is asked only where it has a choice.

**Rewards.** `"win"`: at the end of the match 1 for the seats of the winning side, and -1 shared equally by the losing
sides; 0 when the match is stopped without a winner. `"points"`: the change of the own side's raw points. `"margin"`:
that less the mean change of the other sides, which is zero-sum. Every agent gets what came since its last action, and
its last reward once, whoever made the last move.

**Episodes.** `"match"`: the next round is dealt inside the step that ends one; the episode terminates when a side wins
and is truncated after `max_rounds` rounds. `"round"`: it terminates with the round's settlement; `reward="win"` then
pays the change of the chance to win the match and needs `win_table`. The last infos tell `winner`, `scores`,
`round_result` and `rounds`.

**Reset.** `reset(seed=k)` deals match k: the same as `Match(seed=k)`. A reset without a seed plays the next match of
that sequence (`fivesup_env.episode.match_seed`). Options: `{"scores": [raw per side], "starter": seat}` start from any
scores and seat; other keys are ignored.

**State.** `state()` returns the STATE record as uint8 bytes, hidden tiles included; `set_state` takes it back, between
any two steps. Rewards that agents have earned but not yet seen are not part of it: `set_state` starts them from 0.
Copying and pickling an environment keep them.

**Illegal actions.** `raw_env` raises `IllegalAction` and changes nothing. `env` does as PettingZoo's usual wrappers: an
illegal action ends the match with -1 for the offender, and the next reset starts a sound one.

Version history: 0 (in development until release 1.0).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils.env_logger import EnvLogger

from fivesup_env.actions import illegal_id
from fivesup_env.batch import enter_rows, look_rows, step_rows
from fivesup_env.episode import CHANCES, PLAYING, REWARD_NUMBERS, TERMINATED, TRUNCATED, match_seed, pay
from fivesup_env.match import checked_state
from fivesup_env.notation import agent_name, checked_scores, result_of
from fivesup_env.observation import OBS_SIZE, scaled, write_observation
from fivesup_env.options import EpisodeName, Options, RewardName, check_choice, check_mapping
from fivesup_env.rules.play import start_match
from fivesup_env.rules.state import MAX_SEED, OUT, RUNNING, STATE, WON, State, States, check_int
from fivesup_env.rules.view import view

_ROW: Final = np.zeros(1, np.int64)  # this environment is a batch of one
RENDER_MODES = ("human", "rgb_array", "ansi")


def env(**options: Any) -> AECEnv[str, Any, Any]:
    """Return the environment that checks its caller; the options are those of `raw_env`."""
    return _CheckedEnv(**options)


class raw_env(AECEnv[str, Any, Any]):
    """The environment without wrappers; see the module's text.

    Args:
        num_players: seats, 2, 3 or 4.
        actions: codec of the action ids, "ends" or "ports".
        reward: "win", "points" or "margin".
        episode: "match" or "round".
        max_rounds: rounds after which a match is truncated; None for never.
        skip_forced: take steps without a choice by itself.
        obs_dtype: "int8", or "float32" for the scaled form.
        render_mode: "ansi" (text), "rgb_array" (uint8[H, W, 3]), "human" (a window), or None.
        render_seat: seat whose view is rendered; None for the seat to move.
        rules: `win_table` (`fivesup_env.options.WinTable`, for `episode="round", reward="win"`), and the rule
            parameters `hand_size, target, max_pip, without`, as for `Match`.

    Raises:
        ValueError: an option is impossible; names it.
    """

    metadata = {
        "name": "fivesup_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 2,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        num_players: int = 2,
        actions: Literal["ends", "ports"] = "ends",
        reward: RewardName = "win",
        episode: EpisodeName = "match",
        max_rounds: int | None = None,
        skip_forced: bool = False,
        obs_dtype: Literal["int8", "float32"] = "int8",
        render_mode: Literal["human", "rgb_array", "ansi"] | None = None,
        *,
        render_seat: int | None = None,
        **rules: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.options = Options(num_players, actions, reward, episode, max_rounds, bool(skip_forced), obs_dtype, **rules)
        check_choice("render_mode", render_mode, (*RENDER_MODES, None))
        self._render_seat = None if render_seat is None else check_int("render_seat", render_seat, 0, num_players - 1)
        self._window: Any = None
        self._seed: int | None = None
        self._match_index = 0
        self.render_mode: Any = render_mode  # PettingZoo declares a str, but None is usual
        self.possible_agents = [agent_name(seat) for seat in range(num_players)]
        self.agents: list[str] = []
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._make_spaces()
        self._make_buffers()

    def _make_spaces(self) -> None:
        num_actions = self.options.codec.num_actions
        self.observation_spaces: dict[str, spaces.Space[Any]] = {
            agent: spaces.Dict(
                {
                    "observation": self.options.observation_space(),
                    "action_mask": spaces.Box(0, 1, (num_actions,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces: dict[str, spaces.Space[Any]] = {
            agent: spaces.Discrete(num_actions) for agent in self.possible_agents
        }
        self.state_space = spaces.Box(0, 255, (STATE.itemsize,), np.uint8)

    def _make_buffers(self) -> None:
        """Make the arrays of one row that the kernels work on; every array that leaves the environment is a copy."""
        num_actions = self.options.codec.num_actions
        self._states: States = np.array([self.options.new_state()], STATE)
        self._action = np.zeros(1, np.int64)
        self._observation = np.zeros((1, OBS_SIZE), np.int8)
        self._mask = np.zeros((1, num_actions), np.int8)
        self._to_play = np.zeros(1, np.int64)
        self._actor_reward = np.zeros(1)
        self._seat_rewards = np.zeros((1, len(self._seats)), np.float32)
        self._status = np.zeros(1, np.int8)
        self._no_actions = np.zeros(num_actions, np.int8)
        self._no_actions.flags.writeable = False
        self._reward = CHANCES if self.options.pays_chances else REWARD_NUMBERS[self.options.reward]

    @property
    def match_number(self) -> int:
        """The seed of the last seeded reset, plus the resets since."""
        assert self._seed is not None
        return self._seed + self._match_index

    @property
    def record(self) -> State:
        """The STATE record of the match in play, hidden tiles included."""
        state: State = self._states[0]
        return state

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of `observe(agent)`."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of the agent's actions; seed and sample it with the mask."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Deal a new match; see "Reset" in the module's text.

        Raises:
            ValueError: the seed is not within 0 .. 2**64 - 1, or the scores or the starter are impossible.
        """
        scores, starter = self._checked_options(check_mapping("options", options))
        self._next_seed(seed)
        assert self._seed is not None
        state = self.record
        state.seed = match_seed(self._seed, self._match_index)
        start_match(state)
        state.scores[: len(scores)] = state.round_scores[: len(scores)] = scores
        if starter is not None:
            state.starter = state.turn = starter
        self._begin()

    def _next_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._seed, self._match_index = check_int("seed", seed, 0, MAX_SEED), 0
        elif self._seed is None:
            self._seed = secrets.randbits(64)
        else:
            self._match_index += 1

    def _checked_options(self, options: Mapping[str, Any]) -> tuple[list[int], int | None]:
        """Return the scores to start from and the starter, None for the lot's."""
        starter = options.get("starter")
        if starter is not None:
            starter = check_int("starter", starter, 0, len(self._seats) - 1)
        return checked_scores(self.record, options.get("scores")), starter

    def _begin(self) -> None:
        """Set everything but the state as at the beginning of an episode, or after `set_state`.

        Steps that are skipped here can score already: their rewards wait for the agents' first turns.
        """
        self.agents = self.possible_agents[:]
        self._skip_agent_selection: Any = None
        if self.options.pays_chances:
            at = self._states["round_scores"][:, : self.options.num_sides]
            self._paid = self.options.chances(at, self._states["starter"])
        before, paid = self.record.scores.copy(), self.record.result != RUNNING
        enter_rows(self._states, _ROW, *self._limits(), self._status)
        self._seat_rewards[:] = 0
        if not paid:
            pay(self.record, before, self._reward, self._seat_rewards, 0)
            self._pay_chances()
        look_rows(self._states, _ROW, self.options.actions == "ports", self._observation, self._mask, self._to_play)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._finish_step()

    def _limits(self) -> tuple[bool, bool, int]:
        return self.options.plays_match, self.options.skip_forced, self.options.round_limit

    def step(self, action: Any) -> None:
        """Take the action of `agent_selection`; None for an agent that is done.

        Raises:
            IllegalAction: the action is not legal; nothing has changed.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not self._is_id(action) or not self._mask[0, action]:
            raise self._illegal(action)
        self._action[0] = action
        step_rows(
            self._states,
            _ROW,
            self._action,
            self.options.actions == "ports",
            *self._limits(),
            self._reward,
            True,
            self._observation,
            self._mask,
            self._to_play,
            self._actor_reward,
            self._seat_rewards,
            self._status,
        )
        self._pay_chances()
        self._cumulative_rewards[agent] = 0.0
        self._finish_step()
        if self.render_mode == "human":
            self.render()

    def _is_id(self, action: object) -> TypeGuard[int]:
        """Tell whether this is an action id, legal or not; a bool is none."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer):
            return False
        return 0 <= int(action) < len(self._no_actions)

    def _illegal(self, action: object) -> Exception:
        """Return the error for an illegal action, told from what the agent itself can see."""
        return illegal_id(view(self.record, int(self.record.turn)), action, self.options.actions)

    def _pay_chances(self) -> None:
        """Add what the round, if it has just ended, changed in each side's chance to win the match."""
        if not self.options.pays_chances or self.record.result == RUNNING:
            return
        sides = self.options.num_sides
        if self.record.result == WON:
            now = np.arange(sides)[None] == self.record.result_of
        else:
            starter = int(self.record.result_of) if self.record.result == OUT else -1
            now = self.options.chances(self._states["scores"][:, :sides], np.array([starter]))
        self._seat_rewards += (now - self._paid)[:, np.arange(len(self._seats)) % sides]

    def _finish_step(self) -> None:
        """Set agent_selection, rewards, terminations, truncations and infos from what the kernels wrote."""
        agents, status = self.agents, int(self._status[0])
        self.rewards = dict(zip(self.possible_agents, self._seat_rewards[0].tolist(), strict=True))
        self._accumulate_rewards()
        self.terminations = dict.fromkeys(agents, status == TERMINATED)
        self.truncations = dict.fromkeys(agents, status == TRUNCATED)
        self.infos = {agent: {"action_mask": self._no_actions} for agent in agents}
        if status == PLAYING:
            self.agent_selection = self.possible_agents[self._to_play[0]]
            self.infos[self.agent_selection]["action_mask"] = self._mask[0].copy()
            return
        self.agent_selection = self.possible_agents[self.record.turn]
        self._mask[:] = 0
        for info in self.infos.values():
            info.update(self._outcome())

    def _outcome(self) -> dict[str, Any]:
        """Return what the last infos add: how the episode ended, all of it public."""
        sides = self.options.num_sides
        return {
            "winner": int(self.record.result_of) if self.record.result == WON else None,
            "scores": [int(score) for score in self.record.scores[:sides]],
            "round_result": result_of(self.record),
            "rounds": int(self.record.round_number),
        }

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """Return `{"observation", "action_mask"}` of any agent; see the module's text."""
        observation: NDArray[Any]
        if agent == self.agent_selection and self._status[0] == PLAYING:
            observation, mask = self._observation[0].copy(), self._mask[0].copy()
        else:
            observation, mask = np.empty(OBS_SIZE, np.int8), self._no_actions.copy()
            write_observation(self.record, self._seats[agent], observation, 0)
        if self.options.obs_dtype == "float32":
            observation = scaled(observation)
        return {"observation": observation, "action_mask": mask}

    def state(self) -> NDArray[np.uint8]:
        """Return the bytes of the STATE record, uint8[256], hidden tiles included."""
        return np.frombuffer(bytearray(self.record.tobytes()), np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Go on from what `state()` returned, here or in another environment with the same rule parameters.

        Raises:
            ValueError: the bytes are no state that play can reach, or one of other rule parameters.
        """
        data = np.asarray(state)
        if data.dtype != np.uint8:
            raise ValueError(f"a state is an array of uint8, not of {data.dtype}")
        taken = checked_state(data.tobytes())
        for name in ("num_players", "hand_size", "target", "max_pip", "without"):
            if taken[name] != self._states[name][0]:
                raise ValueError(f"this environment has {name}={self._states[name][0]}, the state has {taken[name]}")
        self._states[0] = taken
        self._begin()

    def render(self) -> NDArray[np.uint8] | str | None:
        """Draw the table and what the observer may see (`render_seat`): text, uint8[H, W, 3], or a window.

        Raises:
            ImportError: "rgb_array" and "human" need ``pip install "fivesup[render]"``.
        """
        from fivesup_env import drawing
        from fivesup_env.drawing.table import scene_of

        if self.render_mode is None:
            raise ValueError(f"render() needs render_mode= at construction: one of {', '.join(RENDER_MODES)}")
        seat = int(self.record.turn) if self._render_seat is None else self._render_seat
        scene = scene_of(view(self.record, seat))
        if self.render_mode == "ansi":
            return drawing.to_text(scene)
        if self.render_mode == "rgb_array":
            return drawing.to_rgb_array(scene)
        if self._window is None:
            self._window = drawing.Window()
        self._window.show(scene)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the window, so that copies and pickles go on identically."""
        return {**self.__dict__, "_window": None}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Take the attributes of a copy or pickle."""
        self.__dict__.update(attributes)
        self._no_actions.flags.writeable = False  # what numpy forgets in copies


class _CheckedEnv(raw_env):
    """Does what PettingZoo's wrappers TerminateIllegal (-1), AssertOutOfBounds and OrderEnforcing do together.

    A chain of wrappers hands every attribute through every link, which would take several times as long as the game;
    and it judges an action by the mask that it gave out last, which is an old one after `set_state`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._has_reset = self._has_stepped = False

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """See `raw_env.reset`."""
        super().reset(seed, options)
        self._has_reset = self._has_stepped = True

    def step(self, action: Any) -> None:
        """Take an action; an illegal one ends the match with -1 for the offender.

        Raises:
            AssertionError: before a reset, or for an action outside of the space.
        """
        if not self._has_reset:
            EnvLogger.error_step_before_reset()
        if not self.agents:
            EnvLogger.warn_step_after_terminated_truncated()
            return
        agent = self.agent_selection
        over = self.terminations[agent] or self.truncations[agent]
        assert (over and action is None) or self._is_id(action), f"action {action!r} is not in action space"
        self._has_stepped = True
        if over or self._mask[0, action]:
            super().step(action)
        else:
            EnvLogger.warn_on_illegal_move()
            self._forfeit(agent)

    def _forfeit(self, offender: str) -> None:
        self._cumulative_rewards[offender] = 0.0
        self.terminations = dict.fromkeys(self.agents, True)
        self.truncations = dict.fromkeys(self.agents, True)
        self.rewards = {agent: -1.0 if agent == offender else 0.0 for agent in self.agents}
        self._accumulate_rewards()
        self._deads_step_first()

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """See `raw_env.observe`."""
        if not self._has_reset:
            EnvLogger.error_observe_before_reset()
        return super().observe(agent)

    def state(self) -> NDArray[np.uint8]:
        """See `raw_env.state`."""
        if not self._has_reset:
            EnvLogger.error_state_before_reset()
        return super().state()

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """See `raw_env.set_state`; a state can be set instead of a reset."""
        super().set_state(state)
        self._has_reset = self._has_stepped = True

    def render(self) -> NDArray[np.uint8] | str | None:
        """See `raw_env.render`."""
        if not self._has_reset:
            EnvLogger.error_render_before_reset()
        return super().render()

    def agent_iter(self, max_iter: int = 2**63) -> Any:
        """Yield the agent to move, up to `max_iter` times; every turn of the loop must step or reset."""
        if not self._has_reset:
            EnvLogger.error_agent_iter_before_reset()
        return self._agents_to_move(max_iter)

    def _agents_to_move(self, count: int) -> Iterator[str]:
        while self.agents and count > 0:
            assert self._has_stepped, "need to call step() or reset() in a loop over `agent_iter`"
            self._has_stepped = False
            count -= 1
            yield self.agent_selection
