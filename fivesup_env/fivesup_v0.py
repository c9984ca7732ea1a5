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

**Illegal actions.** `raw_env` raises `IllegalAction` and changes nothing. `env` has PettingZoo's wrappers: an illegal
action ends the match with -1 for the offender, and the next reset starts a sound one.

Version history: 0 (in development until release 1.0).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from fivesup_env.actions import CODECS, explain_illegal
from fivesup_env.episode import (
    EPISODES,
    PLAYING,
    REWARDS,
    TRUNCATED,
    EpisodeName,
    RewardName,
    WinTable,
    match_seed,
    play_on,
    seat_rewards,
    side_rewards,
    table_chances,
)
from fivesup_env.match import checked_state
from fivesup_env.notation import agent_name, checked_scores, illegal_action, parse_tile, result_of
from fivesup_env.observation import OBS_SIZE, observation_space, scaled, write_observation
from fivesup_env.rules.play import start_match
from fivesup_env.rules.state import (
    HAND_SIZE,
    MAX_SEED,
    OUT,
    RUNNING,
    STATE,
    TARGET,
    WON,
    check_int,
    new_state,
    num_sides,
)
from fivesup_env.rules.view import view

RENDER_MODES = ("human", "rgb_array", "ansi")


def env(**options: Any) -> AECEnv[str, Any, Any]:
    """Return the environment with PettingZoo's usual wrappers; the options are those of `raw_env`."""
    wrapped: AECEnv[str, Any, Any] = raw_env(**options)
    wrapped = _TerminateIllegal(wrapped, illegal_reward=-1)
    wrapped = wrappers.AssertOutOfBoundsWrapper(wrapped)
    return wrappers.OrderEnforcingWrapper(wrapped)


class _TerminateIllegal(wrappers.TerminateIllegalWrapper[str, Any, Any]):
    """PettingZoo's wrapper goes by the mask it last gave out, which may be changed or, after `set_state`, old."""

    def step(self, action: Any) -> None:
        """Take an action, or end the match if it is illegal now."""
        self.observe(self.agent_selection)  # keeps what it returns
        super().step(action)


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
        win_table: chance to win the match by score, for `episode="round", reward="win"`.
        hand_size, target, max_pip, without: rule parameters, as for `Match`.

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
        win_table: WinTable | None = None,
        hand_size: int = HAND_SIZE,
        target: int = TARGET,
        max_pip: int = 6,
        without: Iterable[str] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        _check_choice("actions", actions, tuple(CODECS))
        _check_choice("reward", reward, REWARDS)
        _check_choice("episode", episode, EPISODES)
        _check_choice("render_mode", render_mode, (*RENDER_MODES, None))
        if episode == "round" and reward == "win" and win_table is None:
            raise ValueError('reward="win" with episode="round" needs win_table= (chance to win the match by score)')
        #: The STATE record of the match in play, hidden tiles included.
        self.record = new_state(
            num_players,
            hand_size=hand_size,
            target=target,
            max_pip=max_pip,
            without=sum({1 << parse_tile(tile) for tile in without}),
        )
        self._actions, self._reward, self._episode = actions, reward, episode
        self._max_rounds = 0 if max_rounds is None else check_int("max_rounds", max_rounds, 1, 2**31)
        self._skip_forced, self._obs_dtype, self._win_table = bool(skip_forced), obs_dtype, win_table
        self._render_seat = None if render_seat is None else check_int("render_seat", render_seat, 0, num_players - 1)
        self._window: Any = None
        self._seed: int | None = None
        self._match_index = 0
        self.render_mode: Any = render_mode  # PettingZoo declares a str, but None is usual
        self.possible_agents = [agent_name(seat) for seat in range(num_players)]
        self.agents: list[str] = []
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._make_spaces()

    def _make_spaces(self) -> None:
        num_actions = CODECS[self._actions].num_actions
        self.observation_spaces: dict[str, spaces.Space[Any]] = {
            agent: spaces.Dict(
                {
                    "observation": observation_space(self._obs_dtype),
                    "action_mask": spaces.Box(0, 1, (num_actions,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces: dict[str, spaces.Space[Any]] = {
            agent: spaces.Discrete(num_actions) for agent in self.possible_agents
        }
        self.state_space = spaces.Box(0, 255, (STATE.itemsize,), np.uint8)
        self._no_actions = np.zeros(num_actions, np.int8)
        self._no_actions.flags.writeable = False

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
        scores, starter = self._checked_options(options or {})
        self._next_seed(seed)
        assert self._seed is not None
        self.record.seed = match_seed(self._seed, self._match_index)
        start_match(self.record)
        self.record.scores[: len(scores)] = scores
        self.record.round_scores[: len(scores)] = scores
        if starter is not None:
            self.record.starter = self.record.turn = starter
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
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._skip_agent_selection: Any = None
        self._paid = self._chances_before_round()
        start, before = self.record.tobytes(), self.record.scores.copy()
        status = self._play_on()
        if self.record.tobytes() == start:  # a finished state was set: its rewards are those of an earlier step
            self.rewards = dict.fromkeys(self.agents, 0.0)
        else:
            self._pay(before)
        self._finish_step(status)
        self._accumulate_rewards()

    def step(self, action: Any) -> None:
        """Take the action of `agent_selection`; None for an agent that is done.

        Raises:
            IllegalAction: the action is not legal; nothing has changed.
        """
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        if not self._is_id(action) or not self._mask[action]:
            raise self._illegal(action)
        before = self.record.scores.copy()
        self._cumulative_rewards[self.agent_selection] = 0.0
        CODECS[self._actions].step(self.record, int(action))
        status = self._play_on()
        self._pay(before)
        self._finish_step(status)
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def _play_on(self) -> int:
        return int(play_on(self.record, self._episode == "match", self._skip_forced, self._max_rounds))

    def _is_id(self, action: object) -> TypeGuard[int]:
        """Tell whether this is an action id, legal or not; a bool is none."""
        if isinstance(action, bool) or not isinstance(action, int | np.integer):
            return False
        return 0 <= int(action) < len(self._no_actions)

    def _illegal(self, action: object) -> Exception:
        """Return the error for an illegal action, told from what the agent itself can see."""
        seen = view(self.record, int(self.record.turn))
        if not self._is_id(action):
            return illegal_action(seen, f"take action {action!r}", f"ids are 0 .. {len(self._no_actions) - 1}")
        return illegal_action(seen, *explain_illegal(seen, int(action), self._actions))

    def _pay(self, before: NDArray[Any]) -> None:
        if self._reward == "win" and self._episode == "round":
            by_side = self._change_of_chances()
        else:
            by_side = side_rewards(self._reward, before, self.record)
        self.rewards = dict(zip(self.possible_agents, seat_rewards(len(self._seats), by_side), strict=True))

    def _chances_before_round(self) -> list[float]:
        """Return each side's chance to win the match when this round began; [] where rewards do not need it."""
        if self._win_table is None or self._reward != "win" or self._episode != "round":
            return []
        sides = num_sides(len(self._seats))
        return table_chances(self._win_table, self.record.round_scores[:sides], int(self.record.starter))

    def _change_of_chances(self) -> list[float]:
        """Return what the round, if it has just ended, changed in each side's chance to win the match."""
        sides = num_sides(len(self._seats))
        if self.record.result == RUNNING:
            return [0.0] * sides
        if self.record.result == WON:
            now = [float(side == self.record.result_of) for side in range(sides)]
        else:
            assert self._win_table is not None
            starter = int(self.record.result_of) if self.record.result == OUT else None
            now = table_chances(self._win_table, self.record.scores[:sides], starter)
        return [after - before for after, before in zip(now, self._paid, strict=True)]

    def _finish_step(self, status: int) -> None:
        """Set agent_selection, terminations, truncations and infos from the state."""
        over = status != PLAYING
        self.agent_selection = self.possible_agents[self.record.turn]
        self.terminations = dict.fromkeys(self.agents, over and status != TRUNCATED)
        self.truncations = dict.fromkeys(self.agents, status == TRUNCATED)
        self.infos = {agent: {"action_mask": self._no_actions} for agent in self.agents}
        self._mask = np.zeros_like(self._no_actions)
        if over:
            for info in self.infos.values():
                info.update(self._outcome())
        else:
            CODECS[self._actions].write_mask(self.record, self._mask)
            self.infos[self.agent_selection]["action_mask"] = self._mask.copy()

    def _outcome(self) -> dict[str, Any]:
        """Return what the last infos add: how the episode ended, all of it public."""
        sides = num_sides(len(self._seats))
        return {
            "winner": int(self.record.result_of) if self.record.result == WON else None,
            "scores": [int(score) for score in self.record.scores[:sides]],
            "round_result": result_of(self.record),
            "rounds": int(self.record.round_number),
        }

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """Return `{"observation", "action_mask"}` of any agent; see the module's text."""
        seat = self._seats[agent]
        observation: NDArray[Any] = np.empty(OBS_SIZE, np.int8)
        write_observation(self.record, seat, observation)
        if self._obs_dtype == "float32":
            observation = scaled(observation)
        mask = self._mask if agent == self.agent_selection else self._no_actions
        return {"observation": observation, "action_mask": mask.copy()}

    def state(self) -> NDArray[np.uint8]:
        """Return the bytes of the STATE record, uint8[248], hidden tiles included."""
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
            if taken[name] != self.record[name]:
                raise ValueError(f"this environment has {name}={self.record[name]}, the state has {taken[name]}")
        self.record = taken
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
        # The fields of an unpickled record cannot be assigned to: numpy would change a temporary copy.
        self.record = np.frombuffer(bytearray(self.record.tobytes()), STATE)[0]


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(repr(choice) for choice in choices)}, not {value!r}")
