"""The tables at which a network trains: many running matches, round after round, as a Stable-Baselines3 `VecEnv`.

**Seats.** At most tables the learner plays every seat, each decision of each seat is a sample; at the others it plays
one side, every side equally often, against an opponent that is drawn for the match. A step of the environment takes one
decision of the learner at every table, then lets opponents act until each table waits for the learner again.

**Episodes and rewards.** An episode is a round, or a whole match. Either way a round goes on from the scores, and with
the starter, that the last one left (R4); after a won match a new one begins. Each seat is paid, times `reward_scale`,
either what a round changes in its side's chance to win the match (`win_table`) when the round ends, with `shaping` part
of it sooner, or at once what its side gains in points over the mean of the other sides.

**What PPO must know beside that.** Two decisions that follow each other at a table belong to different seats. `acted`
says which seats the last actions belonged to, `to_play` whose the new observations are, `seat_rewards` what all seats
earned in between: see `SeatRolloutBuffer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from agents.agent import Agent
from agents.search.winning_chances import WinningChances, load_winning_chances
from agents.training.hidden_hands import full_space, with_hands
from agents.training.shaping import potentials
from fivesup_env.episode import next_rounds
from fivesup_env.notation import checked_scores
from fivesup_env.opponents import opponent_keys
from fivesup_env.options import EpisodeName, RewardName
from fivesup_env.rules.chance import mix
from fivesup_env.rules.state import OUT, STATE, WON
from fivesup_env.vector_env import FivesUpVectorEnv

LEARNER = -1  # the owner of a learner's seat
# Matches, rounds and blocked rounds that ended; the learner's decisions; and, of the rounds that ended, the tiles drawn
# and the raw points that all sides gained together, whoever played.
_COUNTS = ("matches", "rounds", "blocked", "decisions", "draws", "points")
_DRAWS = np.uint64(0x0990)  # keeps the draw of opponents apart from the deals of the same seed


class Opponents(Protocol):
    """Who sits at the tables that are not the learner's alone."""

    def draw(self, key: np.uint64) -> int:
        """Return the number of an opponent, by a uniformly random key; -1 for none: the learner plays every seat."""
        ...

    def agent(self, number: int) -> Agent:
        """Return an opponent that `draw` returned once."""
        ...

    def note(self, number: int, won: bool) -> None:
        """Take note of a match that the learner won or lost against an opponent."""
        ...


class SelfPlayVecEnv(VecEnv):
    """N tables; see the module's text.

    Args:
        num_envs: N.
        num_players: seats.
        seed: of all deals.
        reward_scale: rewards are multiplied by this.
        opponents: who plays against the learner; None if the learner plays every seat everywhere.
        opponent_tables: at so many tables, the first ones.
        reward: "win", the change of the chance to win the match, or "margin", as for `FivesUpVectorEnv`.
        episode: "round" or "match".
        shaping: with "win", pay at each placement the change of `potentials`, too.
        chances: to win, by which "win" pays; None for those that come with the package.
        scores: raw points per side with which every round begins, its starter drawn by lot; then all seats are the
            learner's. None for those that the last round left, and the starter that follows.
        rules: rule parameters `hand_size, target, max_pip, without`, as for `Match`. The chances to win are those of
            the whole game, so "win" takes none.
        hidden_hands: observations are those of `with_hands`, for a critic; opponents get views all the same.

    Raises:
        ValueError: rounds cannot begin with these scores, or opponents have tables where scores are given; says why.

    Attributes:
        acted: int64[N], the seats that the last actions belonged to.
        to_play: int64[N], the seats that the observations belong to.
        seat_rewards: float32[N, P], what every seat earned from the last step to the next decision or the end of the
            episode.
        ended: bool[N], whether the episode ended in between.
    """

    render_mode = None  # asked for by VecEnv

    def __init__(
        self,
        num_envs: int,
        *,
        num_players: int,
        seed: int,
        reward_scale: float,
        opponents: Opponents | None = None,
        opponent_tables: int = 0,
        reward: RewardName = "win",
        episode: EpisodeName = "round",
        shaping: bool = False,
        chances: WinningChances | None = None,
        scores: Sequence[int] | None = None,
        rules: Mapping[str, Any] | None = None,
        hidden_hands: bool = False,
    ) -> None:
        if scores is not None and opponents is not None and opponent_tables:
            raise ValueError("scores leave no tables to opponents: these are drawn for whole matches")
        self._chances = chances or load_winning_chances(num_players)
        self.game = FivesUpVectorEnv(
            num_envs,
            num_players=num_players,
            episode="round",
            reward=reward,
            win_table=self._chances,
            skip_forced=True,
            copy=False,
            **(rules or {}),
        )
        self.episode, self.shaping = episode, shaping
        self.reward_scale, self.opponents, self.opponent_tables = reward_scale, opponents, opponent_tables
        self.hidden_hands = hidden_hands
        self.sides = self.game.options.num_sides
        #: int64[N, P]: LEARNER, or the number of an opponent
        self.owners = np.full((num_envs, num_players), LEARNER)
        self.acted = self.to_play = np.zeros(num_envs, np.int64)
        self.seat_rewards = np.zeros((num_envs, num_players), np.float32)
        self._rows = np.arange(num_envs)
        self._plies = np.zeros(num_envs, np.int64)  # in the round
        self._begun = np.zeros(num_envs, np.int64)  # matches
        self.ended = np.zeros(num_envs, np.bool_)
        self._actions = np.zeros(num_envs, np.int64)
        self._first_seed = seed
        begin = checked_scores(self.game.options.new_state(), scores)
        self._new_matches = np.tile(np.array(begin), (num_envs, 1)), np.full(num_envs, -1)
        self._same_scores = scores is not None
        self._next = self._new_matches  # scores and starters of the rounds that are dealt next
        self._counts = np.zeros(len(_COUNTS), np.int64)
        space = full_space(num_players) if hidden_hands else self.game.single_observation_space
        super().__init__(num_envs, space, self.game.single_action_space)

    def reset(self) -> NDArray[np.int8]:
        """Deal a new match at every table, always the same ones; return the observations, as `step_wait` does."""
        self._deal_all()
        self._begun[:] = 0
        self._clear()
        self._seat(self._rows)
        self._plies[:] = 0
        self._play_opponents()
        return self._observed()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Take the learner's actions and play to its next decision at every table.

        Returns:
            int8[N, 696], the observations of the seats to move, or those of `with_hands`; float32[N], what the seats
            that acted earned; bool[N], whether an episode ended; and N empty infos.

        Raises:
            IllegalAction: an action is not legal; names the first such table. No match has moved.
        """
        self.acted = self.to_play
        self._clear()
        self._counts[3] += self.num_envs
        self._advance(self._rows, self._actions)
        self._play_opponents()
        rewards = self.seat_rewards[self._rows, self.acted]
        return self._observed(), rewards, self.ended, [{}] * self.num_envs

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions of the seats that the observations belong to, bool[N, 163]."""
        return self.game.action_masks().astype(np.bool_)

    def take_statistics(self) -> dict[str, float]:
        """Return what happened since the last call, by the names in `_COUNTS`."""
        counts = dict(zip(_COUNTS, self._counts.tolist(), strict=True))
        self._counts[:] = 0
        return counts

    def retire(self, number: int, successor: int) -> None:
        """Put an opponent in the place of another in the matches in play."""
        self.owners[self.owners == number] = successor

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on, as arrays; the opponents are apart from it."""
        game = self.game.get_state()
        states = game["states"].view(np.uint8).reshape(self.num_envs, -1)
        more = {"owners": self.owners.copy(), "plies": self._plies.copy(), "begun": self._begun.copy()}
        return {**game, "states": states, "counts": self._counts.copy(), **more}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> NDArray[np.int8]:
        """Go back to where `state_dict` was asked; return the observations there."""
        self._deal_all()
        self.game.set_state({**state, "states": state["states"].view(STATE).reshape(-1)})
        self.owners[:], self._plies[:], self._begun[:] = state["owners"], state["plies"], state["begun"]
        self._counts[:] = state["counts"]
        return self._observed()

    def _deal_all(self) -> None:
        self._next = self._new_matches
        self.game.reset(seed=self._first_seed, options={"sampler": lambda _: self._next})

    def _clear(self) -> None:
        """Begin to note what a step brings, in new arrays: the old ones are the caller's."""
        self.seat_rewards = np.zeros_like(self.seat_rewards)
        self.ended = np.zeros(self.num_envs, np.bool_)

    def _observed(self) -> NDArray[np.int8]:
        self.game.look()
        self.to_play = self.game.states["turn"].astype(np.int64)
        observations: NDArray[np.int8] = self.game.observed()
        return with_hands(self.game.states, observations) if self.hidden_hands else observations.copy()

    def _advance(self, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        before = potentials(self.game.states, rows, self._chances) if self.shaping else None
        ended = self.game.advance(rows, actions, look=False)
        self._plies[rows] += 1
        paid = self.game.rewards[rows]
        if before is not None:
            paid += (potentials(self.game.states, rows, self._chances) - before).astype(np.float32)
        # What is earned after the first end in a step comes before the learner's first decision of that episode.
        earning = ~self.ended[rows]
        self.seat_rewards[rows[earning]] += paid[earning] * np.float32(self.reward_scale)
        if len(ended):
            over = ended if self.episode == "round" else ended[self.game.states["result"][ended] == WON]
            self.ended[over] = True
            self._begin_rounds(ended)

    def _begin_rounds(self, rows: NDArray[np.int64]) -> None:
        states = self.game.states[rows]
        won = states["result"] == WON
        self._counts[:3] += won.sum(), len(rows), ((states["result"] != OUT) & ~won).sum()
        gained = states["scores"].astype(np.int64) - states["round_scores"]
        self._counts[4:] += states["drawn"].sum(dtype=np.int64), gained[:, : self.sides].sum()
        self._note_results(rows[won], states["result_of"][won])
        self._next = next_rounds(states, self.sides)
        if self._same_scores:
            self._next = self._new_matches[0][rows], self._new_matches[1][rows]
        self.game.begin_next(rows)
        self._plies[rows] = 0
        self._begun[rows[won]] += 1
        self._seat(rows[won])

    def _seat(self, rows: NDArray[np.int64]) -> None:
        """Seat learner and opponent where a match begins."""
        if self.opponents is None:
            return
        for row in rows[rows < self.opponent_tables].tolist():
            seed = np.uint64(self.game.states["seed"][row])
            number = self.opponents.draw(np.uint64(mix(_DRAWS, seed)))
            learner = (row + self._begun[row]) % self.sides
            seats = np.arange(self.owners.shape[1])
            self.owners[row] = np.where(seats % self.sides == learner, LEARNER, number)

    def _note_results(self, rows: NDArray[np.int64], winners: NDArray[np.uint8]) -> None:
        if self.opponents is None:
            return
        for row, winner in zip(rows.tolist(), winners.tolist(), strict=True):
            owners = self.owners[row]
            if (owners != LEARNER).any():
                self.opponents.note(int(owners.max()), bool(owners[winner] == LEARNER))

    def _play_opponents(self) -> None:
        """Let the opponents act until every table waits for the learner."""
        while self.opponents is not None:
            owners = self.owners[self._rows, self.game.states["turn"]]
            waiting = np.flatnonzero(owners != LEARNER)
            if not len(waiting):
                return
            actions = np.empty(self.num_envs, np.int64)
            for number in np.unique(owners[waiting]).tolist():
                rows = np.flatnonzero(owners == number)
                views, masks = self.game.views(rows)
                keys = np.empty(len(rows), np.uint64)
                opponent_keys(self.game.states["seed"][rows], self._plies[rows], keys)
                actions[rows] = self.opponents.agent(number).act(views, masks, keys)
            self._advance(waiting, actions[waiting])

    def close(self) -> None:
        """End the threads."""
        self.game.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return what all tables share, for each of them."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: tables have no attributes of their own."""
        raise AttributeError(f"{attr_name} cannot be set table by table")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Return the masks of all tables as one array in a list, as MaskablePPO takes it.

        Raises:
            AttributeError: another method is asked for: tables have none.
        """
        if method_name != "action_masks":
            raise AttributeError(f'tables are no environments: their one method is "action_masks", not {method_name!r}')
        return [self.action_masks()]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each table."""
        return [False for _ in self._get_indices(indices)]
