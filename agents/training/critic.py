"""A critic with layers of its own, which may also see the hands that are hidden from the seat.

An asymmetric actor-critic (Pinto et al. 2017, arXiv 1710.06542): in training, values only serve to judge what was
played, so they can rest on what the policy must not see. No checkpoint holds a critic.
"""

from __future__ import annotations

import copy

import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from agents.network import Trunk
from fivesup_env.observation import OBS_SIZE


class Critic(torch.nn.Module):
    """A value network that begins as a copy of a policy's, with weights of 0 for the hidden hands: with its values.

    Args:
        policy: a network of `make_policy`.
        num_hidden: numbers behind each observation that tell the hidden hands; 0 for a critic that sees what the seat
            sees.
    """

    def __init__(self, policy: MaskableActorCriticPolicy, num_hidden: int) -> None:
        super().__init__()
        trunk = copy.deepcopy(policy.features_extractor)
        assert isinstance(trunk, Trunk)
        self.trunk, self.value_net = trunk, copy.deepcopy(policy.value_net)
        first = trunk.layers[0]
        assert isinstance(first, torch.nn.Linear)
        self.hand_weights = torch.nn.Parameter(torch.zeros(num_hidden, first.out_features, device=policy.device))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the values [N] of observations with the hidden hands, int8[N, 696 + num_hidden]."""
        public, hidden = observations[:, :OBS_SIZE].float(), observations[:, OBS_SIZE:].float()
        with self.trunk.arithmetic():
            sums = self.trunk.first_sums(public) + hidden @ self.hand_weights
            features = self.trunk.after_first(sums.relu())
        values: torch.Tensor = self.value_net(features.float())
        return values.squeeze(1)
