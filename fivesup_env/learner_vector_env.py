"""Many matches with one learner seat each: given opponents play the other seats, in batches.

Row i plays the matches of slot i of `FivesUpVectorEnv`; a step runs each of them to its learner's next decision. The
learner of the match with index k of slot i sits in the given seat, or in seat (seed of the slot + k) modulo the seats.
Rewards are the learner's own: everything its side earned since its last decision, also by the moves of others, and,
with the first decision of a match, what came before it. A match that ends before its learner has a decision is passed
over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from fivesup_env.episode import TERMINATED, TRUNCATED
from fivesup_env.opponents import Opponent, opponent_keys, seat_opponents
from fivesup_env.rules.state import check_int
from fivesup_env.vector_env import FivesUpVectorEnv, of_every_row, spread_finals


class LearnerVectorEnv(VectorEnv[NDArray[Any], NDArray[np.int64], NDArray[Any]]):
    """N matches with a learner each; see the module's text.

    Args:
        num_envs: N.
        opponent: who plays against the learner: an agent or its text, or one for each opposing seat, clockwise.
        partner: with four seats, who plays the partner; None: the (first) opponent.
        seat: the learner's seat; None to let it change from match to match.
        options: those of `FivesUpVectorEnv`; the codec is "ends".

    Raises:
        ValueError: an option is impossible; names it.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        opponent: str | Opponent | Sequence[str | Opponent],
        partner: str | Opponent | None = None,
        seat: int | None = None,
        **options: Any,
    ) -> None:
        if options.get("actions", "ends") != "ends":
            raise ValueError(f'opponents play with actions="ends", not {options["actions"]!r}')
        #: the matches themselves, all seats
        self.game = FivesUpVectorEnv(num_envs, **options)
        self.options, self.num_envs, self.render_mode = self.game.options, self.game.num_envs, None
        self.opponents = seat_opponents(opponent, partner, self.options.num_players)
        self._seat = None if seat is None else check_int("seat", seat, 0, self.options.num_players - 1)
        for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
            setattr(self, name, getattr(self.game, name))
        self._rows = np.arange(self.num_envs)
        self.seats = np.zeros(self.num_envs, np.int64)  #: int64[N]: the learner's seat in each match
        self._plies = np.zeros(self.num_envs, np.int64)
        self._earned = np.zeros(self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Deal a match in every row and play to the learner's first decision; see `FivesUpVectorEnv.reset`."""
        self.game.reset(seed=seed, options=options)
        self._begin(self._rows)
        self._play_opponents(_Ends(self.num_envs))
        return self._results({})

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take the learners' actions, then the others', up to each learner's next decision.

        `final_obs` [N, D] and `final_info` tell of the matches that ended.

        Raises:
            IllegalAction: an action is not legal; names the first such row. No match has moved.
            ValueError: not one integer for each match.
        """
        ends = _Ends(self.num_envs)
        self._advance(self._rows, actions, ends)
        self._play_opponents(ends)
        rewards = np.where(ends.seen, ends.rewards, self._earned)
        self._earned[~ends.seen] = 0
        observations, infos = self._results(ends.infos())
        return observations, rewards, ends.status == TERMINATED, ends.status == TRUNCATED, infos

    def _results(self, infos: dict[str, Any]) -> tuple[NDArray[Any], dict[str, Any]]:
        self.game.look()
        told = of_every_row(action_mask=self.game.action_masks(), seat=self.seats.copy())
        return self.game.observed(), infos | told

    def action_masks(self) -> NDArray[np.int8]:
        """Return the learners' legal actions, int8[N, 163]."""
        return self.game.action_masks()

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.game.close()

    def _begin(self, rows: NDArray[np.int64]) -> None:
        """Seat the learners of the matches just dealt in these rows."""
        self._plies[rows] = 0
        self._earned[rows] = 0
        if self._seat is None:
            self.seats[rows] = self.game.match_numbers(rows) % np.uint64(self.options.num_players)
        else:
            self.seats[rows] = self._seat

    def _advance(self, rows: NDArray[np.int64], actions: NDArray[np.int64], ends: _Ends) -> None:
        ended = self.game.advance(rows, actions, look=False)
        self._plies[rows] += 1
        self._earned[rows] += self.game.rewards[rows, self.seats[rows]]
        if len(ended):
            self._note_ends(ended, ends)
            self.game.begin_next(ended)
            self._begin(ended)

    def _note_ends(self, ended: NDArray[np.int64], ends: _Ends) -> None:
        """Keep the first end of a row in this step; the learner had no decision in a later one."""
        first = ended[~ends.seen[ended]]
        if not len(first):
            return
        ends.seen[first] = True
        ends.rewards[first] = self._earned[first]
        ends.status[first] = self.game.status[first]
        own = self.game.final_observations(first)[np.arange(len(first)), self.seats[first]]
        ends.parts.append((first, own, self.game.outcomes(first)))

    def _play_opponents(self, ends: _Ends) -> None:
        """Let the opponents act until every learner is to move."""
        while True:
            offsets = (self.game.states["turn"] - self.seats) % self.options.num_players
            waiting = np.flatnonzero(offsets)
            if not len(waiting):
                return
            actions = np.empty(self.num_envs, np.int64)
            for offset, opponent in enumerate(self.opponents, 1):
                rows = np.flatnonzero(offsets == offset)
                if len(rows):
                    views, masks = self.game.views(rows)
                    keys = np.empty(len(rows), np.uint64)
                    opponent_keys(self.game.states["seed"][rows], self._plies[rows], keys)
                    actions[rows] = opponent.act(views, masks, keys)
            self._advance(waiting, actions[waiting], ends)


def make_vec(
    num_envs: int = 1,
    opponent: str | Opponent | Sequence[str | Opponent] | None = None,
    partner: str | Opponent | None = None,
    seat: int | None = None,
    **options: Any,
) -> FivesUpVectorEnv | LearnerVectorEnv:
    """Return what ``gymnasium.make_vec("FivesUp-v0")`` gives: every seat the caller's, or one learner a match.

    Args:
        num_envs: N.
        opponent: None: the caller plays every seat (`FivesUpVectorEnv`); else see `LearnerVectorEnv`.
        partner: see `LearnerVectorEnv`.
        seat: see `LearnerVectorEnv`.
        options: those of `FivesUpVectorEnv`.

    Raises:
        ValueError: an option is impossible; names it.
    """
    if opponent is not None:
        return LearnerVectorEnv(num_envs, opponent=opponent, partner=partner, seat=seat, **options)
    if partner is not None or seat is not None:
        raise ValueError("partner= and seat= need opponent=: without it the caller plays every seat")
    return FivesUpVectorEnv(num_envs, **options)


class _Ends:
    """What a step has to tell of the matches that ended in it."""

    def __init__(self, num_envs: int) -> None:
        self.seen = np.zeros(num_envs, np.bool_)
        self.rewards = np.zeros(num_envs)
        self.status = np.zeros(num_envs, np.int8)
        #: rows, the last observations of the learners there, and the outcomes
        self.parts: list[tuple[NDArray[np.int64], NDArray[Any], dict[str, NDArray[np.int64]]]] = []

    def infos(self) -> dict[str, Any]:
        """Return the infos of the ended matches; nothing if there are none."""
        if not self.parts:
            return {}
        rows, observations, outcomes = zip(*self.parts, strict=True)
        joined = {name: np.concatenate([part[name] for part in outcomes]) for name in outcomes[0]}
        return spread_finals(len(self.seen), np.concatenate(rows), np.concatenate(observations), joined)
