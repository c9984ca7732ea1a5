"""The game as a Gymnasium environment, `gymnasium.make("FivesUp-v0")`: one learner seat against given opponents.

With `opponent=None` the caller plays every seat: observation and mask are those of the seat to move, and a step's
reward is that of the seat that acted. With opponents, a step runs to the learner's next decision, and its reward is the
learner's own: everything that its side earned since its last decision, also by the moves of others; the first step
adds what came before it. So the rewards of an episode sum to the learner's return.

Masks stand in ``infos["action_mask"]`` and come from `action_masks()`, as sb3-contrib's MaskablePPO asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from fivesup_env.fivesup_v0 import RENDER_MODES, raw_env
from fivesup_env.notation import IllegalAction
from fivesup_env.opponents import Opponent, opponent_keys, seat_opponents
from fivesup_env.options import check_choice
from fivesup_env.rules.state import STATE, check_int
from fivesup_env.rules.view import view

_MOST_DEALS: Final = 1000  # matches in a row that may end before the learner has had a decision


class FivesUpEnv(gymnasium.Env[NDArray[Any], np.int64]):
    """One match at a time for one learner, or for a caller who plays every seat; see the module's text.

    Args:
        opponent: who plays against the learner: an agent or its text, or one for each opposing seat, clockwise; None:
            the caller plays every seat.
        partner: with four seats, who plays the learner's partner; None: the (first) opponent.
        seat: the learner's seat; None: (seed of the reset + matches since) modulo the seats.
        illegal: what an illegal action does: "end" terminates the episode with reward -1 and says why in
            ``infos["illegal_action"]``, "raise" raises `IllegalAction` and changes nothing.
        options: those of `fivesup_v0.raw_env`; with opponents the codec is "ends".

    Raises:
        ValueError: an option is impossible; names it.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 2}

    def __init__(
        self,
        opponent: str | Opponent | Sequence[str | Opponent] | None = None,
        *,
        partner: str | Opponent | None = None,
        seat: int | None = None,
        illegal: Literal["end", "raise"] = "end",
        **options: Any,
    ) -> None:
        self.game = raw_env(**options)
        num_players = self.game.options.num_players
        if opponent is None and (partner is not None or seat is not None):
            raise ValueError("partner= and seat= need opponent=: without it the caller plays every seat")
        if opponent is not None and self.game.options.actions != "ends":
            raise ValueError(f'opponents play with actions="ends", not {self.game.options.actions!r}')
        check_choice("illegal", illegal, ("end", "raise"))
        self.opponents = None if opponent is None else seat_opponents(opponent, partner, num_players)
        self.seat = 0  #: the learner's seat; without opponents the seat to move
        self._fixed_seat = None if seat is None else check_int("seat", seat, 0, num_players - 1)
        self._illegal = illegal
        self._owed, self._ply, self._ended_illegally = 0.0, 0, False
        self.observation_space = self.game.options.observation_space()
        self.action_space = self.game.action_space("player_0")
        self.render_mode = self.game.render_mode

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Deal a match and play to the first decision; see `fivesup_v0` for seed and options.

        Raises:
            ValueError: the seed, the scores or the starter are impossible.
            RuntimeError: the options leave the learner no decision.
        """
        super().reset(seed=seed)
        self._ended_illegally = False
        for _ in range(_MOST_DEALS):
            self.game.reset(seed=seed, options=options)
            seed, self._ply = None, 0
            self._take_seat()
            self._play_opponents()
            if not self._over():
                self._owed = self.game._cumulative_rewards[self._agent()]
                return self._observation(), self._info()
        raise RuntimeError(
            f"in {_MOST_DEALS} matches in a row the learner had no decision: these options leave it none"
        )

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take the learner's action, then the others', up to the next decision or the end.

        Raises:
            IllegalAction: the action is not legal, with `illegal="raise"`.
            gymnasium.error.ResetNeeded: the episode is over.
        """
        if not self.game.agents or self._over():
            raise gymnasium.error.ResetNeeded("the episode is over: reset() begins the next one")
        actor = self._agent()
        try:
            self.game.step(action)
        except IllegalAction as error:
            if self._illegal == "raise":
                raise
            self._ended_illegally = True
            return self._observation(), -1.0, True, False, {**self._info(), "illegal_action": str(error)}
        self._ply += 1
        self._play_opponents()
        reward = self._owed + self.game._cumulative_rewards[actor]
        self._owed = 0.0
        if self.opponents is None:
            self.seat = int(self.game.record.turn)
            reward = self.game.rewards[actor]
        over = self.game.terminations[actor], self.game.truncations[actor]
        return self._observation(), float(reward), *over, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions of the learner, or of the seat to move, bool[A]; all False after the episode."""
        mask: NDArray[np.bool_] = self._info()["action_mask"].astype(bool)
        return mask

    def render(self) -> Any:
        """Draw the table as `fivesup_v0` does."""
        return self.game.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self.game.close()

    def _agent(self) -> str:
        return self.game.possible_agents[self.seat]

    def _over(self) -> bool:
        agent = self.game.agent_selection
        return self._ended_illegally or self.game.terminations[agent] or self.game.truncations[agent]

    def _take_seat(self) -> None:
        if self.opponents is None:
            self.seat = int(self.game.record.turn)
        elif self._fixed_seat is None:
            self.seat = self.game.match_number % self.game.options.num_players
        else:
            self.seat = self._fixed_seat

    def _play_opponents(self) -> None:
        """Let the opponents act until the learner is to move or the episode is over."""
        if self.opponents is None:
            return
        num_players = len(self.opponents) + 1
        views, keys = np.zeros(1, STATE), np.zeros(1, np.uint64)
        seeds = np.array([self.game.record.seed], np.uint64)
        while not self._over():
            turn = int(self.game.record.turn)
            if turn == self.seat:
                return
            views[0] = view(self.game.record, turn)
            mask = self.game.infos[self.game.agent_selection]["action_mask"]
            opponent_keys(seeds, np.array([self._ply]), keys)
            opponent = self.opponents[(turn - self.seat) % num_players - 1]
            self.game.step(int(opponent.act(views, mask[None], keys)[0]))
            self._ply += 1

    def _observation(self) -> NDArray[Any]:
        observation: NDArray[Any] = self.game.observe(self._agent())["observation"]
        return observation

    def _info(self) -> dict[str, Any]:
        info = dict(self.game.infos[self._agent()], seat=self.seat)
        if self._ended_illegally:
            info["action_mask"] = np.zeros_like(info["action_mask"])
        return info
