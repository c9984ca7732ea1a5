"""Policy networks as agents, and checkpoints: a folder with the weights and a `meta.json` that a person can read.

A network takes raw int8 observations. Policy and value share all layers but the last; the value is that of the seat to
move, in the unit of its training (docs/training.md). Weights are loaded with ``weights_only=True``: nothing in a
checkpoint is ever executed.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import gymnasium
import numpy as np
import sb3_contrib
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

import fivesup_env
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import OBS_SIZE, OBS_VERSION, SCALES, observation_space, write_observations
from fivesup_env.rules.chance import next_key, scramble
from fivesup_env.rules.state import States

#: What has to be as here for weights to make sense; kept in `meta.json`.
_WANTED: Final = {
    "network_version": 2,  # of the shape of networks
    "obs_version": OBS_VERSION,
    "obs_size": OBS_SIZE,
    "num_actions": NUM_ENDS_ACTIONS,
}
_CHUNK: Final = 32  # rows of every forward pass: the same row gives other bits in a batch of another size


#: How layers compute while they learn: bfloat16 is faster where the processor has instructions for it.
Precision = Literal["float32", "bfloat16"]


class Trunk(BaseFeaturesExtractor):
    """The layers that policy and value share: float32[N, 696], not scaled, to float32[N, last width].

    Args:
        observation_space: that of int8 observations.
        hidden: widths of the layers, at least one.
        precision: of the arithmetic of these layers while they learn; weights and features are float32.
    """

    def __init__(
        self, observation_space: spaces.Box, hidden: tuple[int, ...], precision: Precision = "float32"
    ) -> None:
        super().__init__(observation_space, hidden[-1])
        self.hidden, self.precision = hidden, precision
        widths = (OBS_SIZE, *hidden)
        layers = [(torch.nn.Linear(before, after), torch.nn.ReLU()) for before, after in itertools.pairwise(widths)]
        self.layers = torch.nn.Sequential(*itertools.chain(*layers))
        self.scales: torch.Tensor
        self.register_buffer("scales", torch.from_numpy(SCALES.copy()), persistent=False)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the features of observations."""
        with self.arithmetic():
            features = self.after_first(self.first_sums(observations).relu())
        return features.float()

    def arithmetic(self) -> torch.autocast:
        """Return a context in which layers compute in the precision that was asked for."""
        return torch.autocast(self.scales.device.type, torch.bfloat16, enabled=self.precision == "bfloat16")

    def first_sums(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the sums of the first layer, float[N, first width].

        Weights are scaled rather than observations: these are many more, and whole numbers that bfloat16 holds exactly.
        """
        first = self.layers[0]
        assert isinstance(first, torch.nn.Linear)
        return torch.nn.functional.linear(observations, first.weight / self.scales, first.bias)

    def after_first(self, activations: torch.Tensor) -> torch.Tensor:
        """Return the features that follow from the activations of the first layer, float32[N, first width]."""
        features: torch.Tensor = self.layers[2:](activations)
        return features

    def first_weights(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of the first layer's weights, by input and for unscaled observations [696, W], and bias [W]."""
        first = self.layers[0]
        assert isinstance(first, torch.nn.Linear)
        weights = (first.weight.detach() / self.scales).t().contiguous().cpu().numpy()
        return weights, first.bias.detach().cpu().numpy().copy()


def policy_options(hidden: tuple[int, ...], precision: Precision = "float32") -> dict[str, Any]:
    """Return the `policy_kwargs` of such a network, as Stable-Baselines3 takes them; see `Trunk`."""
    return {
        "net_arch": [],
        "features_extractor_class": Trunk,
        "features_extractor_kwargs": {"hidden": hidden, "precision": precision},
    }


def make_policy(
    hidden: tuple[int, ...], learning_rate: float = 0.0, precision: Precision = "float32"
) -> MaskableActorCriticPolicy:
    """Return a policy and value network on int8 observations with layers of these widths; see `Trunk`."""
    return MaskableActorCriticPolicy(
        observation_space("int8"),
        spaces.Discrete(NUM_ENDS_ACTIONS),
        lambda _: learning_rate,
        **policy_options(hidden, precision),
    )


def logits_and_values(
    policy: MaskableActorCriticPolicy, observations: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a network of `make_policy` says of N observations: logits [N, 163], legal or not, and values [N]."""
    return _heads(policy, policy.features_extractor(observations.float()))


def _heads(policy: MaskableActorCriticPolicy, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what follows from the features that policy and value share."""
    return policy.action_net(features), policy.value_net(features).squeeze(1)


class NetworkAgent:
    """Plays by a policy network: samples from it, or takes its most probable action.

    Nine of ten numbers of an observation are 0, so the first layer is computed from the others alone, by weights that
    are copied when the agent is made.

    Args:
        policy: the network.
        deterministic: take the most probable action.
        num_players: the number of seats that it was trained for; None for any.
        reward_scale: values are expected changes of the chance to win the match since the round began, times this; None
            where their unit is unknown.
        value_per_logit: the policy was fitted to a search, and a difference of 1 between two logits stands for this
            difference between the actions' chances to win the match; None where that is unknown.

    Attributes:
        hidden: widths of the layers that policy and value share.
    """

    def __init__(
        self,
        policy: MaskableActorCriticPolicy,
        deterministic: bool = True,
        *,
        num_players: int | None = None,
        reward_scale: float | None = None,
        value_per_logit: float | None = None,
    ) -> None:
        self.policy = policy
        self.deterministic = deterministic
        self.num_players, self.reward_scale, self.value_per_logit = num_players, reward_scale, value_per_logit
        policy.set_training_mode(False)
        assert isinstance(policy.features_extractor, Trunk)
        self.hidden = policy.features_extractor.hidden
        self._first_weights, self._first_bias = policy.features_extractor.first_weights()

    @classmethod
    def load(cls, folder: Path, deterministic: bool = True) -> NetworkAgent:
        """Return the agent of a checkpoint folder.

        Raises:
            ValueError: the checkpoint is of another version, incomplete or damaged; says what.
        """
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            hidden = tuple(int(width) for width in meta["hidden"])
            found = tuple(meta[name] for name in _WANTED)
            num_players = int(meta["num_players"]) if "num_players" in meta else None
            scale = float(meta["reward_scale"]) if "reward_scale" in meta else None
            if scale is not None and not 0 < scale < float("inf"):
                raise ValueError(f"reward_scale is {scale}")
            per_logit = float(meta["value_per_logit"]) if "value_per_logit" in meta else None
            if per_logit is not None and not 0 <= per_logit < float("inf"):
                raise ValueError(f"value_per_logit is {per_logit}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder}/meta.json is missing, or not that of a checkpoint: {error!r}") from None
        for (name, wanted), value in zip(_WANTED.items(), found, strict=True):
            if value != wanted:
                raise ValueError(f"{folder}: made for {name} = {value!r}; this version of fivesup has {wanted}")
        if not (folder / "policy.pt").is_file():
            raise ValueError(f"{folder}/policy.pt is missing")
        try:
            with torch.random.fork_rng(devices=[]):  # first weights are random: the caller's generator stays as it is
                policy = make_policy(hidden)
            policy.load_state_dict(torch.load(folder / "policy.pt", weights_only=True, map_location="cpu"))
        except Exception as error:  # whatever torch finds wrong with a file of unknown origin
            raise ValueError(f"{folder}/policy.pt does not hold the weights of such a network: {error}") from None
        return cls(policy, deterministic, num_players=num_players, reward_scale=scale, value_per_logit=per_logit)

    def reset(self, seed: int) -> None:
        """Do nothing: all randomness comes with the keys."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """See `Agent.act`."""
        logits = self._legal_logits(views, masks)
        if not self.deterministic:
            logits += _gumbel(keys, masks)
        actions: NDArray[np.int64] = np.argmax(logits, axis=1)
        return actions

    def logits(self, views: States) -> NDArray[np.float32]:
        """Return the policy's logits for N views, float32[N, 163], legal or not."""
        return self._evaluate(views)[0]

    def probabilities(self, views: States, masks: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return how likely the policy takes each action: the softmax over the logits of the legal ones.

        Args:
            views: STATE[N].
            masks: int8[N, 163], legal `ends` ids, at least one a row.

        Returns:
            float64[N, 163], 0 where illegal; each row sums to 1.
        """
        probabilities: NDArray[np.float64] = np.exp(self.log_probabilities(views, masks))
        return probabilities

    def log_probabilities(self, views: States, masks: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return the natural logarithms of `probabilities`, float64[N, 163], minus infinity where illegal."""
        logits = self._legal_logits(views, masks).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def values(self, views: States) -> NDArray[np.float32]:
        """Return the value of N views to their seats to move, float32[N]."""
        return self._evaluate(views)[1]

    def _legal_logits(self, views: States, masks: NDArray[np.int8]) -> NDArray[np.float32]:
        logits = self.logits(views)
        logits[masks == 0] = -np.inf
        return logits

    def _evaluate(self, views: States) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        count = len(views)
        if self.num_players and (views["num_players"] != self.num_players).any():
            raise ValueError(f"this network was trained for {self.num_players} seats")
        observations = np.empty((count, OBS_SIZE), np.int8)
        write_observations(views, observations)
        activations = np.zeros((-(-count // _CHUNK) * _CHUNK, len(self._first_bias)), np.float32)
        _first_layer(observations, self._first_weights, self._first_bias, activations)
        trunk = self.policy.features_extractor
        assert isinstance(trunk, Trunk)
        with torch.no_grad(), _one_thread():
            chunks = torch.split(torch.from_numpy(activations), _CHUNK)
            parts = [_heads(self.policy, trunk.after_first(chunk.to(self.policy.device))) for chunk in chunks]
        logits, values = (torch.cat(each).cpu().numpy()[:count] for each in zip(*parts, strict=True))
        return logits, values


@kernel
def _first_layer(
    observations: NDArray[np.int8],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write the activations of the first layer into ``out``, float32[N, W] or longer."""
    width = len(bias)
    flat_weights, flat_out = weights.reshape(-1), out.reshape(-1)
    for row in range(len(observations)):
        start = row * width
        for unit in range(width):
            flat_out[start + unit] = bias[unit]
        for feature in range(OBS_SIZE):
            number = np.float32(observations[row, feature])
            if number != 0:
                place = feature * width
                for unit in range(width):
                    flat_out[start + unit] += number * flat_weights[place + unit]
        for unit in range(width):
            flat_out[start + unit] = max(flat_out[start + unit], np.float32(0))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute on one thread: several give other bits, and gain nothing on so few rows."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
        **_WANTED,
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
