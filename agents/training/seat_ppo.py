"""PPO over turn-based tables: sb3-contrib's MaskablePPO, with advantages along each seat's own decisions.

`SeatRolloutBuffer` follows each seat from one of its decisions to its next, across the moves of the others; PPO itself
is that of sb3-contrib. `RegularizedPolicy` adds, beside entropy, a pull towards a slow copy of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer, MaskableRolloutBufferSamples
from sb3_contrib.common.maskable.distributions import MaskableCategorical
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.network import logits_and_values
from agents.training.tables import SelfPlayVecEnv
from fivesup_env._jit import kernel


class SeatRolloutBuffer(MaskableRolloutBuffer):
    """A rollout of tables at which seats take turns.

    Advantages (GAE, Schulman et al. 2016) and returns run along each seat's own chain: the reward of a decision is all
    that its seat earned until its next one, or until the episode ended, also by the moves of others. Where the rollout
    stops within an episode, the chain of the seat to move goes on with the value of its observation; decisions of other
    seats that have no later one in the rollout are left out, rather than count what is not known as 0.

    Args:
        tables: where the rollout is played.
        arguments: those of `MaskableRolloutBuffer`.
        options: those of `MaskableRolloutBuffer`.
    """

    def __init__(self, *arguments: Any, tables: SelfPlayVecEnv, **options: Any) -> None:
        self.tables = tables
        super().__init__(*arguments, **options)

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        shape = self.buffer_size, self.n_envs
        self.seats = np.zeros(shape, np.int64)
        self.seat_rewards = np.zeros((*shape, self.tables.seat_rewards.shape[1]), np.float32)
        self.ended = np.zeros(shape, np.bool_)
        self.known = np.zeros(shape, np.bool_)  # whether the advantage is

    def add(self, *arguments: Any, **options: Any) -> None:
        """Take the step that the tables have just made."""
        self.seats[self.pos] = self.tables.acted
        self.seat_rewards[self.pos] = self.tables.seat_rewards
        self.ended[self.pos] = self.tables.ended
        super().add(*arguments, **options)

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: NDArray[np.bool_]) -> None:
        """Compute advantages and returns; see the class."""
        last = last_values.detach().cpu().numpy().astype(np.float32).reshape(-1)
        seat_advantages(
            self.seats,
            self.seat_rewards,
            self.ended,
            self.values,
            self.tables.to_play,
            last,
            float(self.gamma),
            float(self.gae_lambda),
            self.rewards,
            self.advantages,
            self.known,
        )
        self.returns = self.advantages + self.values

    def get(self, batch_size: int | None = None) -> Iterator[MaskableRolloutBufferSamples]:  # type: ignore[override]
        """Yield minibatches of the decisions whose advantage is known, in random order; one that is too small goes.

        Raises:
            ValueError: there is no such decision.
        """
        if not self.generator_ready:
            for name in ("observations", "actions", "values", "log_probs", "advantages", "returns", "action_masks"):
                setattr(self, name, self.swap_and_flatten(getattr(self, name)))
            self.known = self.swap_and_flatten(self.known[..., None])[:, 0]
            self.generator_ready = True
        order = np.random.permutation(np.flatnonzero(self.known))
        if not len(order):
            raise ValueError(
                "no seat comes to a second decision, or to an episode's end, in a rollout as short as this"
            )
        size = min(batch_size or len(order), len(order))
        for start in range(0, len(order) - size + 1, size):
            yield self._get_samples(order[start : start + size])


class RegularizedPolicy(MaskableActorCriticPolicy):
    """A policy whose entropy bonus is the whole regulariser: entropy, less the divergence from a slow copy.

    PPO adds ``ent_coef`` times what `evaluate_actions` returns for the entropy; with ``ent_coef=1`` that is
    ``entropy_coef * H(policy) - anchor_coef * KL(policy || slow copy)``.

    Attributes:
        entropy_coef: see above.
        anchor_coef: see above; 0 for no slow copy.
        seen: sums of entropy and divergence and the number of minibatches, since they were last set to 0.
    """

    entropy_coef: float = 0.0
    anchor_coef: float = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen = np.zeros(3)
        self._anchor: list[RegularizedPolicy] = []  # in a list: it is no part of this module's weights

    @property
    def anchor(self) -> RegularizedPolicy:
        """The slow copy; made when it is first asked for."""
        if not self._anchor:
            with torch.random.fork_rng(devices=[]):  # first weights are random, but replaced at once
                made = type(self)(**self._get_constructor_parameters()).to(self.device)
            made.load_state_dict(self.state_dict())
            self._anchor.append(made.requires_grad_(False))
        return self._anchor[0]

    def follow(self, decay: float) -> None:
        """Move the slow copy towards the policy: it keeps a share `decay` of itself."""
        with torch.no_grad():
            for slow, own in zip(self.anchor.parameters(), self.parameters(), strict=True):
                slow.lerp_(own, 1 - decay)

    def evaluate_actions(
        self, obs: torch.Tensor, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values, log-probabilities of the actions, and the regulariser."""
        assert action_masks is not None
        logits, values = logits_and_values(self, obs)
        own = MaskableCategorical(logits=logits, masks=action_masks)
        entropy = own.entropy()
        divergence = self._divergence(own, obs, action_masks) if self.anchor_coef else torch.zeros_like(entropy)
        self.seen += float(entropy.detach().mean()), float(divergence.detach().mean()), 1
        bonus = self.entropy_coef * entropy - self.anchor_coef * divergence
        return values, own.log_prob(actions), bonus  # type: ignore[no-untyped-call]

    def _divergence(self, own: MaskableCategorical, obs: torch.Tensor, action_masks: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            slow = MaskableCategorical(logits=logits_and_values(self.anchor, obs)[0], masks=action_masks)
        terms: torch.Tensor = own.probs * (own.logits - slow.logits)
        return terms.masked_fill(action_masks == 0, 0.0).sum(1)


@kernel
def seat_advantages(
    seats: NDArray[np.int64],
    rewards: NDArray[np.float32],
    ended: NDArray[np.bool_],
    values: NDArray[np.float32],
    last_seats: NDArray[np.int64],
    last_values: NDArray[np.float32],
    gamma: float,
    gae_lambda: float,
    chain_rewards: NDArray[np.float32],
    advantages: NDArray[np.float32],
    known: NDArray[np.bool_],
) -> None:
    """Write advantages along each seat's own decisions, and where they are known.

    Args:
        seats: int64[T, N], who decided.
        rewards: float32[T, N, P], what every seat earned after that decision and before the next one at the table.
        ended: bool[T, N], whether the episode ended in between.
        values: float32[T, N], of the observations decided on.
        last_seats: int64[N], whose decision is next after the rollout.
        last_values: float32[N], the value of what they see.
        gamma: discount from one decision of a seat to its next.
        gae_lambda: of GAE.
        chain_rewards: float32[T, N], written: what the seat that decided earned until its next decision.
        advantages: float32[T, N], written; 0 where it is not known.
        known: bool[T, N], written: False where the rollout stops before the seat's next decision.
    """
    num_steps, num_tables, num_seats = rewards.shape
    earned, next_value = np.zeros(num_seats), np.zeros(num_seats)
    next_advantage, goes_on = np.zeros(num_seats), np.zeros(num_seats, np.bool_)
    for table in range(num_tables):
        for seat in range(num_seats):
            earned[seat] = next_value[seat] = next_advantage[seat] = 0.0
            goes_on[seat] = False
        next_value[last_seats[table]] = last_values[table]
        goes_on[last_seats[table]] = True
        for step in range(num_steps - 1, -1, -1):
            for seat in range(num_seats):
                if ended[step, table]:
                    earned[seat] = next_value[seat] = next_advantage[seat] = 0.0
                    goes_on[seat] = True
                earned[seat] += rewards[step, table, seat]
            seat = seats[step, table]
            known[step, table], chain_rewards[step, table] = goes_on[seat], earned[seat]
            delta = earned[seat] + gamma * next_value[seat] - values[step, table]
            advantage = delta + gamma * gae_lambda * next_advantage[seat] if goes_on[seat] else 0.0
            advantages[step, table] = advantage
            earned[seat], next_value[seat], next_advantage[seat] = 0.0, values[step, table], advantage
            goes_on[seat] = True
