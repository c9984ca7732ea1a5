"""PPO over turn-based tables: sb3-contrib's MaskablePPO, with advantages along each seat's own decisions.

`SeatRolloutBuffer` follows each seat from one of its decisions to its next, across the moves of the others; PPO itself
is that of sb3-contrib. `RegularizedPolicy` adds, beside entropy, a pull towards a slow copy of the policy, and can
leave the values to a critic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer, MaskableRolloutBufferSamples
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.network import logits_and_values, policy_options
from agents.training.config import Config
from agents.training.critic import Critic
from agents.training.tables import SelfPlayVecEnv
from fivesup_env._jit import kernel
from fivesup_env.observation import OBS_SIZE


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
        """Yield minibatches of the decisions whose advantage is known, each one once, in random order.

        Their sizes differ by one at most, and are as near to `batch_size` as that allows: none is left that would count
        as much as the others with a few decisions. The buffer keeps those decisions alone, so that what PPO computes of
        its values and returns is of them.

        Raises:
            ValueError: there are fewer than two such decisions: PPO needs their deviation.
        """
        if not self.generator_ready:
            known = self.swap_and_flatten(self.known[..., None])[:, 0]
            for name in ("observations", "actions", "values", "log_probs", "advantages", "returns", "action_masks"):
                setattr(self, name, self.swap_and_flatten(getattr(self, name))[known])
            self.generator_ready = True
        order = np.random.permutation(len(self.actions))
        if len(order) < 2:
            raise ValueError(
                "ppo.rollout_steps is too small: fewer than two decisions of this rollout are followed by another of "
                "their seat, or by the end of the episode"
            )
        # A half is rounded down: PPO divides by a deviation within the minibatch, and one decision has none.
        count = max(math.ceil(len(order) / (batch_size or len(order)) - 0.5), 1)
        for rows in np.array_split(order, count):
            yield self._get_samples(rows)


class RegularizedPolicy(MaskableActorCriticPolicy):
    """A policy whose entropy bonus is the whole regulariser: entropy, less the divergence from a slow copy.

    PPO adds ``ent_coef`` times what `evaluate_actions` returns for the entropy; with ``ent_coef=1`` that is
    ``entropy_coef * H(policy) - anchor_coef * KL(policy || slow copy)``.

    With a critic, PPO gets the critic's values. The public value, that of the network that checkpoints keep, then
    learns from the critic what can be told without the hidden hands: the regulariser has a third term,
    ``- value_coef * (public value - critic's value)**2``, whose gradient does not reach the critic.

    Attributes:
        entropy_coef: see above.
        anchor_coef: see above; 0 for no slow copy.
        value_coef: see above; of no effect without a critic.
        critic: see `take_critic`; None where policy and value share their layers.
        seen: sums of entropy, divergence and squared difference of values, and the number of minibatches, since they
            were last set to 0.
    """

    entropy_coef: float = 0.0
    anchor_coef: float = 0.0
    value_coef: float = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen = np.zeros(4)
        # In lists: they are no part of this module's weights.
        self._anchor: list[RegularizedPolicy] = []
        self._critic: list[Critic] = []

    @property
    def critic(self) -> Critic | None:
        """The critic, if there is one."""
        return self._critic[0] if self._critic else None

    def take_critic(self, num_hidden: int, max_grad_norm: float) -> None:
        """Leave the values to a critic from now on; the optimizer trains it beside the policy.

        Args:
            num_hidden: numbers behind each observation that only the critic sees; see `Critic`.
            max_grad_norm: the critic's gradient is clipped to this norm. PPO clips that of the policy by itself, so
                neither makes the other smaller.
        """
        critic = Critic(self, num_hidden)
        self._critic = [critic]
        weights = list(critic.parameters())
        self.optimizer.add_param_group({"params": weights})

        def clip(*_: Any) -> None:
            torch.nn.utils.clip_grad_norm_(weights, max_grad_norm)

        self.optimizer.register_step_pre_hook(clip)

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

    def forward(
        self, obs: torch.Tensor, deterministic: bool = False, action_masks: NDArray[np.bool_] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return actions [N], values [N, 1] and log-probabilities [N] for what the tables observe, int8[N, 696 ...].

        The policy sees the first 696 numbers alone.
        """
        logits, values = logits_and_values(self, obs[:, :OBS_SIZE])
        assert action_masks is not None
        masks = torch.as_tensor(action_masks, device=logits.device).reshape(logits.shape)  # SB3 stacks a list of one
        log_probs, probs = masked_distribution(logits, masks)
        actions = probs.argmax(1) if deterministic else torch.multinomial(probs, 1).squeeze(1)
        values = values[:, None] if self.critic is None else self.critic(obs)[:, None]
        return actions, values, log_probs.gather(1, actions[:, None]).squeeze(1)

    def predict_values(self, obs: Any) -> torch.Tensor:
        """Return the values [N, 1]: the critic's where there is one."""
        return super().predict_values(obs) if self.critic is None else self.critic(obs)[:, None]

    def evaluate_actions(
        self, obs: torch.Tensor, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return values [N], log-probabilities of the actions [N], and the regulariser [N]; `obs` as for `forward`."""
        assert action_masks is not None
        public = obs[:, :OBS_SIZE]
        logits, public_values = logits_and_values(self, public)
        log_probs, probs = masked_distribution(logits, action_masks)
        entropy = -(probs * log_probs).sum(1)
        divergence = torch.zeros_like(entropy)
        if self.anchor_coef:
            with torch.no_grad():
                slow, _ = masked_distribution(logits_and_values(self.anchor, public)[0], action_masks)
            divergence = (probs * (log_probs - slow)).sum(1)
        values, difference = public_values, torch.zeros_like(entropy)
        if self.critic is not None:
            values = self.critic(obs)
            difference = (public_values - values.detach()) ** 2
        means = (float(each.detach().mean()) for each in (entropy, divergence, difference))
        self.seen += *means, 1
        bonus = self.entropy_coef * entropy - self.anchor_coef * divergence - self.value_coef * difference
        return values, log_probs.gather(1, actions.long()[:, None]).squeeze(1), bonus


def masked_distribution(logits: torch.Tensor, action_masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and probabilities of actions, [N, A] each; about -1e8 and 0 where the mask is 0.

    sb3-contrib's masked distribution says the same, but takes several times as long: ``exp`` of numbers so far below 0
    is slow, but within softmax.
    """
    masked = logits.masked_fill(action_masks == 0, -1e8)
    return masked.log_softmax(1), masked.softmax(1)


def make_learner(config: Config, tables: SelfPlayVecEnv, device: str) -> MaskablePPO:
    """Return PPO at these tables as `config.ppo` wants it, its network new and without a critic of its own."""
    ppo = config.ppo
    learner = MaskablePPO(
        RegularizedPolicy,
        tables,
        learning_rate=lambda progress: ppo.learning_rate * max(progress, 0.0),
        n_steps=ppo.rollout_steps,
        batch_size=ppo.minibatch_size,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=1.0,  # the policy weighs its regulariser itself
        vf_coef=ppo.value_coef,
        policy_kwargs=policy_options(config.hidden, config.precision),
        rollout_buffer_class=SeatRolloutBuffer,
        rollout_buffer_kwargs={"tables": tables},
        seed=config.seed,
        device=device,
    )
    policy = learner.policy
    assert isinstance(policy, RegularizedPolicy)
    policy.entropy_coef, policy.anchor_coef, policy.value_coef = ppo.entropy_coef, ppo.anchor_coef, ppo.value_coef
    return learner


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
