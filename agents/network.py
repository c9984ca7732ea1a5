"""Policy networks as agents, and checkpoints: a folder with the weights and a `meta.json` that a person can read.

Weights are loaded with ``weights_only=True``: nothing in a checkpoint is ever executed.
"""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
import sb3_contrib
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

import fivesup_env
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import OBS_SIZE, OBS_VERSION, observation_space, scaled, write_observations
from fivesup_env.rules.chance import next_key, scramble
from fivesup_env.rules.state import States

_CHUNK: Final = 32  # rows of every forward pass: the same row gives other bits in a batch of another size


def make_policy(hidden: tuple[int, ...], learning_rate: float = 0.0) -> MaskableActorCriticPolicy:
    """Return a policy and value network on float32 observations, with layers of these widths each."""
    return MaskableActorCriticPolicy(
        observation_space("float32"),
        spaces.Discrete(NUM_ENDS_ACTIONS),
        lambda _: learning_rate,
        net_arch=list(hidden),
        activation_fn=torch.nn.ReLU,
    )


class NetworkAgent:
    """Plays by a policy network: samples from it, or takes its most probable action.

    Args:
        policy: the network.
        deterministic: take the most probable action.
    """

    def __init__(self, policy: MaskableActorCriticPolicy, deterministic: bool = True) -> None:
        self.policy = policy
        self.deterministic = deterministic
        policy.set_training_mode(False)

    @classmethod
    def load(cls, folder: Path, deterministic: bool = True) -> NetworkAgent:
        """Return the agent of a checkpoint folder.

        Raises:
            ValueError: the checkpoint is of another version, incomplete or damaged; says what.
        """
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            hidden = tuple(int(width) for width in meta["hidden"])
            found = (meta["obs_version"], meta["obs_size"], meta["num_actions"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder}/meta.json is missing, or not that of a checkpoint: {error!r}") from None
        wanted = (OBS_VERSION, OBS_SIZE, NUM_ENDS_ACTIONS)
        if found != wanted:
            names = "(observation version, its length, actions)"
            raise ValueError(f"{folder}: made for {names} = {found}, this version of fivesup has {wanted}")
        if not (folder / "policy.pt").is_file():
            raise ValueError(f"{folder}/policy.pt is missing")
        try:
            policy = make_policy(hidden)
            policy.load_state_dict(torch.load(folder / "policy.pt", weights_only=True))
        except Exception as error:  # whatever torch finds wrong with a file of unknown origin
            raise ValueError(f"{folder}/policy.pt does not hold the weights of such a network: {error}") from None
        return cls(policy, deterministic)

    def reset(self, seed: int) -> None:
        """Do nothing: all randomness comes with the keys."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        logits = self.logits(views)
        logits[masks == 0] = -np.inf
        if not self.deterministic:
            logits += _gumbel(keys, masks)
        actions: NDArray[np.int64] = np.argmax(logits, axis=1)
        return actions

    def logits(self, views: States) -> NDArray[np.float32]:
        """Return the policy's logits for N views, float32[N, 163], legal or not."""
        count = len(views)
        observations = np.zeros((-(-count // _CHUNK) * _CHUNK, OBS_SIZE), np.int8)
        write_observations(views, observations[:count])
        chunks = torch.split(torch.from_numpy(scaled(observations)), _CHUNK)
        with torch.no_grad():
            return torch.cat([self._forward(chunk) for chunk in chunks]).numpy()[:count]

    def _forward(self, observations: torch.Tensor) -> torch.Tensor:
        features = self.policy.extract_features(observations, self.policy.pi_features_extractor)
        assert isinstance(features, torch.Tensor)  # policy and value share it
        latent = self.policy.mlp_extractor.forward_actor(features)
        logits: torch.Tensor = self.policy.action_net(latent)
        return logits


def save_checkpoint(folder: Path, policy: MaskableActorCriticPolicy, hidden: tuple[int, ...], **facts: Any) -> None:
    """Write a checkpoint folder, so that whenever this stops, the folder holds the old weights or the new ones.

    Args:
        folder: its files are replaced if it exists.
        policy: its weights are written.
        hidden: widths of its layers.
        facts: more for `meta.json`, such as the steps trained.
    """
    meta = {
        **facts,
        "hidden": list(hidden),
        "obs_version": OBS_VERSION,
        "obs_size": OBS_SIZE,
        "num_actions": NUM_ENDS_ACTIONS,
        "versions": {
            "fivesup": fivesup_env.__version__,
            "torch": torch.__version__,
            "sb3_contrib": sb3_contrib.__version__,
            "stable_baselines3": version("stable-baselines3"),
            "gymnasium": gymnasium.__version__,
            "numpy": np.__version__,
        },
    }
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    torch.save(policy.state_dict(), new / "policy.pt")
    (new / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    if not folder.exists():
        os.rename(new, folder)
        return
    for name in ("policy.pt", "meta.json"):
        os.replace(new / name, folder / name)
    new.rmdir()


def _gumbel(keys: NDArray[np.uint64], masks: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return Gumbel noise for every legal action from one key a row: the largest sum with the logits is a sample."""
    uniform = np.full(masks.shape, 0.5)
    _draw_uniform(keys, masks, uniform)
    noise: NDArray[np.float32] = (-np.log(-np.log(uniform))).astype(np.float32)
    return noise


@kernel
def _draw_uniform(keys: NDArray[np.uint64], masks: NDArray[np.int8], out: NDArray[np.float64]) -> None:
    """Write a number within 0 .. 1, both excluded, for every legal action of every row."""
    for row in range(len(keys)):
        key = keys[row]
        for action in range(masks.shape[1]):
            if masks[row, action]:
                key = next_key(key)
                out[row, action] = (np.float64(scramble(key) >> np.uint64(11)) + 0.5) * 2.0**-53
