"""A training loop of one's own: self-play PPO in plain PyTorch on the vector environment, in one file.

    python examples/training_loop.py
    python examples/training_loop.py --players 4 --seed 2 --total-timesteps 600000

One network plays every seat of many matches at once, and learns from the decisions of all of them. What turns and
several seats change in PPO is `seat_advantages`; the rest is as for any environment with action masks.

Prints a line for every tenth update, then the share of matches that the network wins against `random` and `greedy`
from the arena, each with its 95 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.distributions import Categorical

from agents import make_agent
from agents.arena.blocks import block_scores, play_blocks
from agents.arena.statistics import Estimate, estimate
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import OBS_SIZE, SCALES, write_observations
from fivesup_env.rules.state import States
from fivesup_env.vector_env import FivesUpVectorEnv

REWARD_SCALE = 1 / 20  # rewards are points, of which an eventful round brings some twenty
MEASURED_FROM = 2**40  # match seed of the first match that is measured by: none of those trained on


class Network(nn.Module):
    """Policy and value of the seat to move; also an agent, see `agents.Agent`, that takes the likeliest action."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("scales", torch.from_numpy(SCALES.copy()))
        self.trunk = nn.Sequential(nn.Linear(OBS_SIZE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.actor, self.critic = nn.Linear(width, NUM_ENDS_ACTIONS), nn.Linear(width, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)  # the first policy is nearly uniform

    def forward(self, obs: torch.Tensor, masks: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """Return the policy over legal actions, and values [N], for obs int8[N, 696] and masks int8[N, 163]."""
        hidden = self.trunk(obs / self.scales)
        logits = self.actor(hidden).masked_fill(masks == 0, -torch.inf)
        return Categorical(logits=logits, validate_args=False), self.critic(hidden).squeeze(1)

    def reset(self, seed: int) -> None:
        """Do nothing: the likeliest action needs no randomness."""

    @torch.no_grad()
    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the likeliest legal action for each of N views, int64[N]."""
        obs = np.empty((len(views), OBS_SIZE), np.int8)
        write_observations(views, obs)
        policy, _ = self(torch.from_numpy(obs), torch.from_numpy(masks))
        actions: NDArray[np.int64] = policy.logits.argmax(1).numpy()
        return actions


class Rollout:
    """What T steps of N matches gave, and the environment as it stands after them."""

    def __init__(self, envs: FivesUpVectorEnv, num_steps: int, seed: int) -> None:
        shape = num_steps, envs.num_envs
        self.envs = envs
        self.obs = torch.zeros((*shape, OBS_SIZE), dtype=torch.int8)
        self.masks = torch.zeros((*shape, NUM_ENDS_ACTIONS), dtype=torch.int8)
        self.actions, self.seats = torch.zeros(shape, dtype=torch.int64), np.zeros(shape, np.int64)
        self.logprobs, self.values = torch.zeros(shape), torch.zeros(shape)
        self.rewards = np.zeros((*shape, envs.options.num_players), np.float32)
        self.dones = np.zeros(shape, np.bool_)
        self.next_obs, self.infos = envs.reset(seed=seed)

    @torch.no_grad()
    def collect(self, network: Network) -> NDArray[np.float32]:
        """Play T steps; return the values of what the seats to move then see, float32[N]."""
        for step in range(len(self.obs)):
            self.obs[step] = torch.from_numpy(self.next_obs)
            self.masks[step] = torch.from_numpy(self.infos["action_mask"])
            self.seats[step] = self.infos["to_play"]
            policy, self.values[step] = network(self.obs[step], self.masks[step])
            self.actions[step] = policy.sample()
            self.logprobs[step] = policy.log_prob(self.actions[step])
            self.next_obs, _, terminated, _, self.infos = self.envs.step(self.actions[step].numpy())
            self.rewards[step], self.dones[step] = REWARD_SCALE * self.infos["rewards"], terminated
        next_values: NDArray[np.float32] = network(
            torch.from_numpy(self.next_obs), torch.from_numpy(self.infos["action_mask"])
        )[1].numpy()
        return next_values


def seat_advantages(
    rewards: NDArray[np.float32],
    dones: NDArray[np.bool_],
    seats: NDArray[np.int64],
    values: NDArray[np.float32],
    next_seats: NDArray[np.int64],
    next_values: NDArray[np.float32],
    gamma: float,
    gae_lambda: float,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return GAE along each seat's own decisions, and where it is known.

    A decision earns all that its seat gets until the seat's next decision, or the end of the match, whoever moves in
    between. So the scan from the last step to the first keeps, for each match and seat, what was earned since, and
    value and advantage of the decision that comes after. Where the rollout stops first, that decision is unknown, but
    for the seat to move; a value of 0 there would be wrong, so these decisions are left out.

    Args:
        rewards: float32[T, N, P], what every seat got in the step.
        dones: bool[T, N], whether the match ended in it.
        seats: int64[T, N], who decided.
        values: float32[T, N], to that seat.
        next_seats: int64[N], the seats to move after the rollout.
        next_values: float32[N], the values of what they see.
        gamma: discount from one decision of a seat to its next.
        gae_lambda: of GAE.

    Returns:
        Advantages float32[T, N], 0 where unknown, and known bool[T, N].
    """
    num_steps, num_envs, num_seats = rewards.shape
    rows = np.arange(num_envs)
    advantages, known = np.zeros(dones.shape, np.float32), np.zeros(dones.shape, np.bool_)
    earned, later_values, later_advantages = np.zeros((3, num_envs, num_seats), np.float32)
    goes_on = np.zeros((num_envs, num_seats), np.bool_)
    later_values[rows, next_seats], goes_on[rows, next_seats] = next_values, True
    for step in reversed(range(num_steps)):
        over = dones[step]
        earned[over] = later_values[over] = later_advantages[over] = 0.0
        goes_on[over] = True
        earned += rewards[step]
        own = rows, seats[step]
        delta = earned[own] + gamma * later_values[own] - values[step]
        known[step] = goes_on[own]
        advantages[step] = np.where(known[step], delta + gamma * gae_lambda * later_advantages[own], 0.0)
        earned[own], later_values[own], later_advantages[own] = 0.0, values[step], advantages[step]
        goes_on[own] = True
    return advantages, known


def update(
    network: Network, optimizer: torch.optim.Optimizer, rollout: Rollout, args: argparse.Namespace
) -> dict[str, float]:
    """Collect a rollout and learn from it by PPO; return the means of what was seen."""
    next_values = rollout.collect(network)
    advantages_of, known_of = seat_advantages(
        rollout.rewards, rollout.dones, rollout.seats, rollout.values.numpy(),
        rollout.infos["to_play"], next_values, args.gamma, args.gae_lambda,
    )  # fmt: skip
    known = torch.from_numpy(known_of)
    obs, masks, actions, logprobs = (
        each[known] for each in (rollout.obs, rollout.masks, rollout.actions, rollout.logprobs)
    )
    advantages = torch.from_numpy(advantages_of)[known]
    returns = advantages + rollout.values[known]
    seen = []
    for _ in range(args.update_epochs):
        for rows in torch.randperm(len(obs)).split(args.minibatch_size):
            policy, values = network(obs[rows], masks[rows])
            logratio = policy.log_prob(actions[rows]) - logprobs[rows]
            ratio = logratio.exp()
            mb_advantages = (advantages[rows] - advantages[rows].mean()) / (advantages[rows].std() + 1e-8)
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = -torch.min(mb_advantages * ratio, mb_advantages * clipped).mean()
            v_loss = 0.5 * (values - returns[rows]).square().mean()
            entropy = policy.entropy().mean()
            loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), args.max_grad_norm)
            optimizer.step()
            seen.append((v_loss.item(), entropy.item(), (ratio - 1 - logratio).mean().item()))
    return dict(zip(("value_loss", "entropy", "approx_kl"), np.mean(seen, axis=0).tolist(), strict=True))
