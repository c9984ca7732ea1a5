"""A network fitted to the values of a search: what expert iteration calls imitation.

(Anthony, Tian and Barber, "Thinking fast and slow with deep learning and tree search", 2017.)

**Policy.** The target is the softmax of the search's values over the legal actions, divided by a temperature: actions
that are nearly as good share the probability, so that noise in the values does little. **Value.** The target is what
the best action changes in the chance to win the match since the round began, times `reward_scale`: the unit in which
self-play pays, see docs/training.md.

Minibatches come from groups of shards, which are replayed and mixed as they are needed. Their order follows from the
seed alone, so a fit can be gone on with at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.network import logits_and_values
from agents.training.config import FitConfig
from agents.training.search_data import Examples, Shard, load_shard, replay

_NEVER = -1e8  # logit of an illegal action


class Losses(NamedTuple):
    """Means over a minibatch."""

    policy: torch.Tensor  #: cross entropy with the target, in nats
    value: torch.Tensor  #: squared error of the value, in squared units of reward


class HeldOut(NamedTuple):
    """How a network does on decisions that it was not fitted to."""

    regret: float  #: mean chance to win that its best action loses to the search's best, by the search's values
    agreement: float  #: share of decisions in which both are the same
    value_error: float  #: root of the mean squared error of the value, in units of reward
    value_per_logit: float  #: chance to win that a difference of 1 between two logits stands for; at least 0


class Minibatches:
    """Minibatches of shards, in an order that follows from the seed; iterate over it from any step.

    Args:
        paths: the shards.
        passes: how often each decision comes up.
        size: decisions in a minibatch, or as many as the smallest group has; what is left of a group is left out.
        group: shards that are mixed with each other.
        seed: of the order.

    Raises:
        ValueError: a file is no shard.
    """

    def __init__(self, paths: Sequence[Path], *, passes: int, size: int, group: int, seed: int) -> None:
        self._shards: list[Shard] = [load_shard(path) for path in paths]
        self._seed = seed
        self._groups: list[NDArray[np.int64]] = []
        for number in range(passes):
            order = np.random.default_rng([seed, number]).permutation(len(paths))
            self._groups += np.array_split(order, max(len(paths) // group, 1))
        decisions = [sum(len(self._shards[k].actions) for k in each) for each in self._groups]
        self._size = min(size, *decisions)
        self._steps = [count // self._size for count in decisions]

    def __len__(self) -> int:
        """Return the number of minibatches, of all passes together."""
        return sum(self._steps)

    def starting_at(self, step: int) -> Iterator[Examples]:
        """Yield the minibatches from number `step` on."""
        first = 0
        for number, (shards, steps) in enumerate(zip(self._groups, self._steps, strict=True)):
            if step < first + steps:
                yield from self._of_group(number, shards, max(step - first, 0), steps)
            first += steps

    def _of_group(self, number: int, shards: NDArray[np.int64], begin: int, end: int) -> Iterator[Examples]:
        examples = joined([replay(self._shards[k]) for k in shards])
        order = np.random.default_rng([self._seed, number, 1]).permutation(len(examples.masks))
        for step in range(begin, end):
            rows = order[step * self._size : (step + 1) * self._size]
            yield examples.take(rows)


def joined(parts: Sequence[Examples]) -> Examples:
    """Return all decisions of several shards."""
    return Examples(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Fit:
    """A network while it is fitted.

    Args:
        policy: fitted in place.
        config: how.
        minibatches: what to.
        reward_scale: rewards are changes of the chance to win, times this.

    Attributes:
        step: minibatches so far.
    """

    def __init__(
        self, policy: MaskableActorCriticPolicy, config: FitConfig, minibatches: Minibatches, reward_scale: float
    ) -> None:
        self.policy, self.config, self.minibatches, self.reward_scale = policy, config, minibatches, reward_scale
        self.optimizer = torch.optim.AdamW(policy.parameters(), weight_decay=config.weight_decay)
        self.step = 0

    def run(self) -> Iterator[Losses]:
        """Fit from the present step to the last one; yield the losses of every step."""
        self.policy.set_training_mode(True)
        for examples in self.minibatches.starting_at(self.step):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate()
            losses = losses_of(self.policy, examples, self.config.temperature, self.reward_scale)
            self.optimizer.zero_grad(set_to_none=True)
            (losses.policy + self.config.value_coef * losses.value).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.step += 1
            yield Losses(losses.policy.detach(), losses.value.detach())
        self.policy.set_training_mode(False)

    def learning_rate(self) -> float:
        """Return the rate of the next step: it rises during the warm-up, then falls linearly to 0 at the end."""
        warmed = min(1.0, (self.step + 1) / self.config.warmup_steps)
        return self.config.learning_rate * warmed * (1 - self.step / len(self.minibatches))

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on."""
        return {"policy": self.policy.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was asked."""
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


def losses_of(policy: MaskableActorCriticPolicy, examples: Examples, temperature: float, reward_scale: float) -> Losses:
    """Return how far a network is from the values of N examples.

    Args:
        policy: the network.
        examples: N decisions.
        temperature: the policy's target is the softmax of the values divided by this.
        reward_scale: the value's target is what the best action changes in the chance to win, times this.
    """
    device = policy.device
    observations, masks, values, before = (torch.from_numpy(array).to(device) for array in examples)
    illegal = masks == 0
    logits, predicted = logits_and_values(policy, observations)
    target = (values / temperature).masked_fill(illegal, _NEVER).softmax(1)
    policy_loss = -(target * logits.masked_fill(illegal, _NEVER).log_softmax(1)).sum(1).mean()
    change = (values.amax(1) - before) * reward_scale
    return Losses(policy_loss, torch.nn.functional.mse_loss(predicted, change))


def held_out(policy: MaskableActorCriticPolicy, examples: Examples, reward_scale: float) -> HeldOut:
    """Measure a network on examples."""
    masks, values = examples.masks != 0, examples.values
    with torch.no_grad():
        parts = [
            logits_and_values(policy, part.to(policy.device))
            for part in torch.split(torch.from_numpy(examples.observations), 4096)
        ]
    logits, predicted = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
    chosen = np.where(masks, logits, _NEVER).argmax(axis=1)
    best = np.where(masks, values, -1).argmax(axis=1)
    rows = np.arange(len(values))
    regret = values[rows, best] - values[rows, chosen]
    error = (values[rows, best] - examples.before) * reward_scale - predicted
    return HeldOut(
        float(regret.mean()),
        float((chosen == best).mean()),
        float(np.sqrt((error**2).mean())),
        value_per_logit(logits, masks, values),
    )


def value_per_logit(logits: NDArray[np.float32], masks: NDArray[np.bool_], values: NDArray[np.float32]) -> float:
    """Return the slope of the least-squares line through the values of legal actions over their logits.

    It is larger than the temperature of the fit: the mean of the softmax of noisy values is flatter than the softmax of
    their means. Both are taken from their means within a decision, and actions count as the policy takes them.

    Args:
        logits: float32[D, 163].
        masks: bool[D, 163], legal `ends` ids.
        values: float32[D, 163], chances to win the match, of actions that are legal.

    Returns:
        Chance to win per unit of logit; 0 if the policy has no preference, or prefers what is worse.
    """
    exact = np.where(masks, logits, _NEVER).astype(np.float64)
    policy = np.exp(exact - exact.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    across = exact - (policy * exact).sum(axis=1, keepdims=True)
    up = values - (policy * values).sum(axis=1, keepdims=True)
    squares = float((policy * across**2).sum())
    return max(float((policy * across * up).sum()) / squares, 0.0) if squares else 0.0
