"""The game as a Gymnasium environment: one seat learns, given opponents play the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from fivesup_env.fivesup_v0 import raw_env
from fivesup_env.observation import observation_space
from fivesup_env.rules.chance import mix
from fivesup_env.rules.state import MAX_SEED, STATE, States, check_int
from fivesup_env.rules.view import view

_MOST_DEALS = 1000


class Opponent(Protocol):
    """Whoever plays a seat; `agents.Agent` in short."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Choose a legal `ends` id for each view."""
        ...


class SingleAgentEnv(gymnasium.Env[NDArray[Any], np.int64]):
    """One learner seat of a `fivesup_v0` match; every step runs to the learner's next decision.

    A step's reward is the learner's own: everything its side earned since its last decision, also by what the others
    did. Masks come from `action_masks()`, as sb3-contrib's MaskablePPO asks for them.

    Args:
        opponents: who plays the seats after the learner's, clockwise; one for each (with four seats, the second one is
            the partner).
        seat: the learner's seat; None to take the next seat with every reset.
        options: options of `fivesup_v0.raw_env`; the codec is "ends".

    Raises:
        ValueError: the number of opponents does not fit, or an option is impossible.
    """

    metadata = {"render_modes": ["human", "rgb_array", "ansi"], "render_fps": 2}

    def __init__(self, opponents: Sequence[Opponent], *, seat: int | None = None, **options: Any) -> None:
        self.game = raw_env(**{**options, "actions": "ends"})
        num_players = len(self.game.possible_agents)
        if len(opponents) != num_players - 1:
            raise ValueError(f"{num_players} seats need {num_players - 1} opponents, not {len(opponents)}")
        self.opponents = list(opponents)
        self._fixed_seat = None if seat is None else check_int("seat", seat, 0, num_players - 1)
        self.seat = 0 if seat is None else seat
        self.observation_space = observation_space(options.get("obs_dtype", "int8"))
        self.action_space = self.game.action_space("player_0")
        self.render_mode = self.game.render_mode
        self._next_seat, self._key, self._ply = 0, 0, 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Deal a match and play to the learner's first decision; see `fivesup_v0` for seed and options."""
        super().reset(seed=seed)
        if seed is not None:
            self._next_seat = seed % len(self.game.possible_agents)
        self.seat = self._next_seat if self._fixed_seat is None else self._fixed_seat
        self._next_seat = (self._next_seat + 1) % len(self.game.possible_agents)
        # Rounds may end before the learner has a decision: such an episode would hold nothing to learn from.
        for _ in range(_MOST_DEALS):
            self.game.reset(seed=seed, options=options)
            self._key, self._ply = int(self.np_random.integers(MAX_SEED, dtype=np.uint64)), 0
            self._play_opponents()
            if not self._over():
                return self._observation(), self._info()
            seed = None
        raise RuntimeError(f"in {_MOST_DEALS} matches the learner had no decision: these options leave it none")

    def step(self, action: np.int64) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Play the learner's action, then the others', up to the learner's next decision or the end.

        Raises:
            IllegalAction: the action is not legal; nothing has changed.
        """
        self.game.step(int(action))
        self._play_opponents()
        learner = self.game.possible_agents[self.seat]
        return (
            self._observation(),
            self.game._cumulative_rewards[learner],
            self.game.terminations[learner],
            self.game.truncations[learner],
            self._info(),
        )

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the learner's legal actions, bool[163]; all False when the episode is over."""
        return self.game.observe(self.game.possible_agents[self.seat])["action_mask"].astype(bool)

    def render(self) -> Any:
        """Draw the table as `fivesup_v0` does."""
        return self.game.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self.game.close()

    def _over(self) -> bool:
        agent = self.game.agent_selection
        return self.game.terminations[agent] or self.game.truncations[agent]

    def _play_opponents(self) -> None:
        num_players = len(self.opponents) + 1
        views = np.zeros(1, STATE)
        while not self._over():
            seat = self.game.possible_agents.index(self.game.agent_selection)
            if seat == self.seat:
                return
            views[0] = view(self.game.record, seat)
            mask = self.game.observe(self.game.agent_selection)["action_mask"]
            key = np.array([mix(np.uint64(self._key), np.uint64(self._ply))], np.uint64)
            self._ply += 1
            opponent = self.opponents[(seat - self.seat) % num_players - 1]
            self.game.step(int(opponent.act(views, mask[None], key)[0]))

    def _observation(self) -> NDArray[Any]:
        return self.game.observe(self.game.possible_agents[self.seat])["observation"]

    def _info(self) -> dict[str, Any]:
        return dict(self.game.infos[self.game.possible_agents[self.seat]], seat=self.seat)
