"""Self-play with TorchRL: PPO over the PettingZoo environment, one network for all seats.

    pip install --editable '.[torchrl]'
    python -m examples.torchrl_ppo --steps 20000
    python evaluate.py examples.torchrl_ppo:make random greedy --gauntlet --matches 1000

Training writes the network to runs/torchrl_ppo.pt, and the arena plays it. docs/plugs/torchrl.md tells more.

All seats are one group, so tensors have a dimension for them: T steps, P seats, D features, A actions. In each step one
seat acts; `("agents", "mask")` says which. Rewards and observations come for every seat in every step. So advantages
run over all steps, as if waiting were an action: a decision also earns what the moves of others bring its seat, and who
loses learns from the last step as who wins does. The critic learns from all seats, the policy from those that act.

Prints the share of matches that the trained network wins against `random`, with its 95 % interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import MarlGroupMapType
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from agents.arena.statistics import Estimate
from examples.network_agent import ScoringAgent, load, train_and_measure
from fivesup_env import fivesup_v0
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import OBS_SIZE

WEIGHTS = Path("runs/torchrl_ppo.pt")
STEPS_A_BATCH, STEPS_A_MINIBATCH, EPOCHS = 2000, 250, 4
REWARD_SCALE = 0.05  # a round brings some ten points
OBSERVATION = ("agents", "observation", "observation")


def make_env(num_players: int, seed: int) -> PettingZooWrapper:
    """Return single rounds, paid by points: short episodes, in which seats are asked only where they have a choice."""
    matches = fivesup_v0.raw_env(num_players, episode="round", reward="margin", skip_forced=True, obs_dtype="float32")
    env = PettingZooWrapper(
        matches, use_mask=True, categorical_actions=True, group_map=MarlGroupMapType.ALL_IN_ONE_GROUP
    )
    env.set_seed(seed)
    return env


def make_network(outputs: int) -> nn.Sequential:
    """Return a network from float32[..., D] to float32[..., outputs]."""
    return nn.Sequential(nn.Linear(OBS_SIZE, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, outputs))


def make_actor(network: nn.Module) -> ProbabilisticActor:
    """Return the policy of all seats: actions int64[T, P] from observations [T, P, D] and masks bool[T, P, A]."""
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=[OBSERVATION], out_keys=[("agents", "logits")]),
        in_keys={"logits": ("agents", "logits"), "mask": ("agents", "action_mask")},
        out_keys=[("agents", "action")],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        log_prob_key=("agents", "log_prob"),
    )


def make_loss(actor: ProbabilisticActor, critic: TensorDictModule) -> ClipPPOLoss:
    """Return the loss of the policy, over the seats that act."""
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.0)
    keys = {"action": "action", "sample_log_prob": "log_prob", "advantage": "advantage", "value": "state_value"}
    loss.set_keys(**{key: ("agents", name) for key, name in keys.items()})
    loss.loss_mask_key = ("agents", "mask")
    return loss


def make_advantages(critic: TensorDictModule) -> GAE:
    """Return what writes advantages and value targets [T, P, 1] into a batch."""
    advantages = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
    names = ("advantage", "value_target", "reward", "done", "terminated")
    advantages.set_keys(value=("agents", "state_value"), **{name: ("agents", name) for name in names})
    return advantages


def train(steps: int, num_players: int, seed: int) -> nn.Sequential:
    """Play and learn for so many steps; return the network of the policy."""
    torch.manual_seed(seed)
    network = make_network(NUM_ENDS_ACTIONS)
    actor = make_actor(network)
    critic = TensorDictModule(make_network(1), in_keys=[OBSERVATION], out_keys=[("agents", "state_value")])
    loss, advantages = make_loss(actor, critic), make_advantages(critic)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    collector = Collector(
        make_env(num_players, seed),
        actor,
        frames_per_batch=STEPS_A_BATCH,
        total_frames=steps,
        auto_register_policy_transforms=False,  # there are none to add
    )
    for batch in collector:
        batch["next", "agents", "reward"] *= REWARD_SCALE
        with torch.no_grad():
            advantages(batch)
        normalize(batch)
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(len(batch)), STEPS_A_MINIBATCH):
                learn(batch[rows], loss, critic, optimizer)
    collector.shutdown()
    return network


def normalize(batch: TensorDictBase) -> None:
    """Scale the advantages so that those of the seats that act have mean 0 and standard deviation 1."""
    advantage = batch["agents", "advantage"]
    acting = advantage[batch["agents", "mask"]]
    batch["agents", "advantage"] = (advantage - acting.mean()) / acting.std()


def learn(steps: TensorDictBase, loss: ClipPPOLoss, critic: TensorDictModule, optimizer: torch.optim.Optimizer) -> None:
    """Take one step of the optimizer."""
    of_policy = loss(steps)
    values = critic(steps.select(OBSERVATION))["agents", "state_value"]
    of_critic = nn.functional.mse_loss(values, steps["agents", "value_target"])
    optimizer.zero_grad()
    (of_policy["loss_objective"] + of_policy["loss_entropy"] + of_critic).backward()
    nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 0.5)
    optimizer.step()


def make() -> ScoringAgent:
    """Return the trained network as an agent; its file is that of FIVESUP_WEIGHTS, or the one `main` writes."""
    return ScoringAgent(load(make_network(NUM_ENDS_ACTIONS), WEIGHTS))


def main(argv: Sequence[str] | None = None) -> Estimate:
    """Train, save the network, and return the share of matches that it wins against `random`."""
    description = "PPO in self-play, with TorchRL."
    return train_and_measure(train, ScoringAgent, description=description, steps=20_000, weights=WEIGHTS, argv=argv)


if __name__ == "__main__":
    main()
