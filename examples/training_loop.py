"""A training loop of one's own: self-play PPO in plain PyTorch on the vector environment, in one file.

    python examples/training_loop.py
    python examples/training_loop.py --players 4 --seed 2 --total-timesteps 800000

One network plays every seat of many matches at once, and learns from the decisions of all of them. What is special to
turns and several seats is `seat_advantages`; the rest is PPO with action masks as anywhere, in CleanRL's words.

Prints every fifth update, then the share of matches won against `random` and `greedy`, each with its 95 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.distributions import Categorical
from torch.optim import Adam

from agents import make_agent
from agents.arena.blocks import block_scores, block_size, play_blocks
from agents.arena.statistics import estimate
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.cli.arguments import whole
from fivesup_env.observation import OBS_SIZE, SCALES, write_observations
from fivesup_env.rules.state import States
from fivesup_env.vector_env import FivesUpVectorEnv

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
REWARD_SCALE = 1 / 20  # rewards are points, of which an eventful round brings some twenty
LIMITS = {"seed": (0, 2**63 - 1), "players": (2, 4)}  # all other whole numbers are at least 1
MEASURED_FROM = 2**40  # match seed of the first match that is measured by: none of those trained on


@dataclass(frozen=True)
class Args:
    """Each is a flag of the command line, such as --total-timesteps."""

    seed: int = 1
    players: int = 2
    total_timesteps: int = 400_000  # decisions, of all seats together
    num_envs: int = 256
    num_steps: int = 64
    learning_rate: float = 1e-3
    gamma: float = 0.9  # from one decision of a seat to its next
    gae_lambda: float = 0.9
    update_epochs: int = 3
    minibatch_size: int = 1024
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    width: int = 128  # of both hidden layers
    matches: int = 1000  # played against each agent that the network is measured by


class Network(nn.Module):
    """Policy and value of the seat to move; also an agent, see `agents.Agent`, that takes the likeliest action."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scales = torch.from_numpy(SCALES.copy())
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
    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> Ints:
        """Return the likeliest legal action for each of N views, int64[N]."""
        obs = np.empty((len(views), OBS_SIZE), np.int8)
        write_observations(views, obs)
        actions: Ints = self(torch.from_numpy(obs), torch.from_numpy(masks))[0].logits.argmax(1).numpy()
        return actions


def seat_advantages(
    rewards: Floats, dones: Bools, seats: Ints, values: Floats, next_seats: Ints, next_values: Floats, args: Args
) -> tuple[Floats, Bools]:
    """Return GAE along each seat's own decisions, float32[T, N], 0 where unknown, and where it is known, bool[T, N].

    A decision earns all that its seat gets until the seat's next decision, or the end of the match, whoever moves in
    between. So the scan from the last step to the first keeps, for each match and seat, what was earned since, and
    value and advantage of the decision that comes after. Where the rollout stops first, that decision is unknown, but
    for the seat to move; a value of 0 there would be wrong, so these decisions are left out.

    Of T steps in N matches with P seats, `rewards`, float32[T, N, P], are what every seat got in the step; `dones`,
    bool[T, N], tell whether the match ended in it; `seats`, int64[T, N], who decided; `values`, float32[T, N], are to
    that seat; and `next_values`, float32[N], to `next_seats`, int64[N], who are to move after the rollout.
    """
    num_steps, num_envs, num_seats = rewards.shape
    rows = np.arange(num_envs)
    advantages, known = np.zeros(dones.shape, np.float32), np.zeros(dones.shape, np.bool_)
    earned, later_values, later_advantages = np.zeros((3, num_envs, num_seats), np.float32)
    goes_on = np.zeros((num_envs, num_seats), np.bool_)
    later_values[rows, next_seats], goes_on[rows, next_seats] = next_values, True
    for step in reversed(range(num_steps)):
        over, own = dones[step], (rows, seats[step])
        earned[over] = later_values[over] = later_advantages[over] = 0.0
        goes_on[over] = True
        earned += rewards[step]
        known[step] = goes_on[own]
        delta = earned[own] + args.gamma * later_values[own] - values[step]
        advantages[step] = np.where(known[step], delta + args.gamma * args.gae_lambda * later_advantages[own], 0.0)
        earned[own], later_values[own], later_advantages[own], goes_on[own] = 0.0, values[step], advantages[step], True
    return advantages, known


def train(args: Args) -> Network:
    """Train a network and return it; the same arguments give the same network."""
    torch.manual_seed(args.seed)
    network = Network(args.width)
    optimizer = Adam(network.parameters(), lr=args.learning_rate, eps=1e-5)
    envs = FivesUpVectorEnv(args.num_envs, num_players=args.players, reward="margin", skip_forced=True)
    shape = args.num_steps, args.num_envs
    obs, masks = (torch.zeros((*shape, size), dtype=torch.int8) for size in (OBS_SIZE, NUM_ENDS_ACTIONS))
    actions, logprobs, values = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape), torch.zeros(shape)
    seats, dones = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    rewards = np.zeros((*shape, args.players), np.float32)
    next_obs, infos = envs.reset(seed=args.seed)
    num_updates = max(args.total_timesteps // (args.num_envs * args.num_steps), 1)
    for number in range(1, num_updates + 1):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - (number - 1) / num_updates)
        with torch.no_grad():
            for step in range(args.num_steps):
                obs[step], masks[step] = torch.from_numpy(next_obs), torch.from_numpy(infos["action_mask"])
                seats[step] = infos["to_play"]
                policy, values[step] = network(obs[step], masks[step])
                actions[step] = policy.sample()
                logprobs[step] = policy.log_prob(actions[step])
                next_obs, _, dones[step], _, infos = envs.step(actions[step].numpy())
                rewards[step] = REWARD_SCALE * infos["rewards"]
            _, next_values = network(torch.from_numpy(next_obs), torch.from_numpy(infos["action_mask"]))
        later = infos["to_play"], next_values.numpy(), args
        advantages, is_known = map(torch.from_numpy, seat_advantages(rewards, dones, seats, values.numpy(), *later))
        rollout = [each[is_known] for each in (obs, masks, actions, logprobs, advantages, advantages + values)]
        means = update(network, optimizer, rollout, args)
        if number % 5 == 0 or number == num_updates:
            print(f"update {number} of {num_updates}:", ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()))
    return network


def update(network: Network, optimizer: Adam, rollout: Sequence[torch.Tensor], args: Args) -> dict[str, float]:
    """Learn by PPO from K decisions: obs, masks, actions, logprobs, advantages, returns, [K, ...]; return means."""
    seen = []
    for _ in range(args.update_epochs):
        for rows in torch.split(torch.randperm(len(rollout[0])), args.minibatch_size):
            obs, masks, actions, logprobs, advantages, returns = (each[rows] for each in rollout)
            advantages = (advantages - advantages.mean()) / (advantages.std(unbiased=False) + 1e-8)
            policy, values = network(obs, masks)
            logratio = policy.log_prob(actions) - logprobs
            ratio = logratio.exp()
            clipped_ratio = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = -torch.min(advantages * ratio, advantages * clipped_ratio).mean()
            v_loss = 0.5 * (values - returns).square().mean()
            entropy = policy.entropy().mean()
            loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), args.max_grad_norm)
            optimizer.step()
            seen.append([v_loss.item(), entropy.item(), (ratio - 1 - logratio).mean().item()])
    return dict(zip(("value_loss", "entropy", "approx_kl"), np.mean(seen, axis=0).tolist(), strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    """Read the command line, train, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for field in fields(Args):
        flag = f"--{field.name.replace('_', '-')}"
        kind = whole(*LIMITS.get(field.name, (1,))) if isinstance(field.default, int) else float
        parser.add_argument(flag, type=kind, default=field.default, help=f"({field.default})")
    args = Args(**vars(parser.parse_args(argv)))
    network = train(args)
    for opponent in ("random", "greedy"):
        count = -(-args.matches // block_size(args.players))  # a block plays the same deals from every seat
        blocks = play_blocks(network, make_agent(opponent), args.players, first=0, count=count, seed=MEASURED_FROM)
        share = estimate(block_scores(blocks, args.players))
        print(f"against {opponent}: wins {share.mean:.3f} [{share.low:.3f}, {share.high:.3f}]")


if __name__ == "__main__":
    main()
