"""PPO by RLlib: one policy for all seats, with action masks; its checkpoints are agents of the arena.

    python -m agents.rllib --config configs/rllib_smoke.yaml
    python -m agents.rllib --resume runs/rllib-smoke

What learns is RLlib's: its PPO, its wrapper of PettingZoo environments, its module that masks actions. An episode is a
round, in which a seat is asked where it has a choice, and paid what its side gains over the mean of the others.

The folder of a run holds

- `config.yaml` and `command.txt`: what it is, and what started it;
- `checkpoints/last`: the agent (`make_agent`), in the form of `agents.network`, whose layers RLlib's are a copy of;
- `rllib/`: RLlib's own checkpoint, from which the run is gone on with. Loading it unpickles, so it can execute
  anything: resume runs of your own alone;
- events for TensorBoard.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# Before ray is imported: it sends no usage statistics unless asked to.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import ray
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.logger import Logger, configure

from agents.network import Trunk, make_policy, save_checkpoint
from agents.processes import interrupt_held
from agents.training.config import (
    add_flags,
    check_ranges,
    check_widths,
    make_settings,
    read_values,
    with_flags,
)
from agents.training.run_folder import new_run_folder, read_run
from fivesup_env import fivesup_v0
from fivesup_env.episode import match_seed

#: RLlib's name of the policy that all seats play.
POLICY: Final = "seats"

_RANGES: Final[dict[str, tuple[float, float]]] = {
    "seed": (0, 1_000_000),
    "num_players": (2, 4),
    "total_steps": (1, 2**53),
    "env_runners": (0, 10_000),
    "num_envs": (1, 10_000),
    "batch_size": (2, 2**31),
    "minibatch_size": (1, 2**31),
    "epochs": (1, 1000),
    "learning_rate": (0, 1),
    "gamma": (0, 1),
    "gae_lambda": (0, 1),
    "clip_range": (1e-6, 1),
    "entropy_coef": (0, 10),
    "value_coef": (0, 1000),
    "max_grad_norm": (1e-6, 1e6),
    "reward_scale": (1e-6, 1e6),
    "save_every": (1, 2**31),
}


@dataclass(frozen=True)
class RllibConfig:
    """What a run does. Every key can stand in a configuration file; those left out keep the value given here."""

    run: str = "runs/rllib"  # folder of the run
    seed: int = 0  # of deals, initial weights and sampled actions
    num_players: int = 2  # seats, 2-4
    hidden: tuple[int, ...] = (256, 256)  # widths of the layers that policy and value share
    total_steps: int = 1_000_000  # decisions, of all seats together; the last batch is finished
    env_runners: int = 0  # processes that play; 0 to play in the process that learns
    num_envs: int = 64  # rounds that each of them plays at once
    batch_size: int = 4096  # decisions between two updates, at least
    minibatch_size: int = 512
    epochs: int = 4  # passes over a batch
    learning_rate: float = 1e-3  # at the beginning; falls linearly to 0
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    reward_scale: float = 0.05  # raw points are multiplied by this: a round brings some ten of them
    save_every: int = 10  # batches between two saves

    def __post_init__(self) -> None:
        """Check ranges."""
        check_ranges(self, _RANGES)
        if self.minibatch_size > self.batch_size:
            raise ValueError(
                f"minibatch_size must be at most batch_size = {self.batch_size}, not {self.minibatch_size}"
            )
        check_widths(self.hidden)
        if Path(self.run).name in ("", ".."):
            raise ValueError(f"run must be the path of a new folder, not {self.run!r}")


# The environment


class _MaskedRounds(fivesup_v0.raw_env):
    """Rounds with scaled observations, under the keys that RLlib's masking module looks for."""

    def __init__(self, num_players: int) -> None:
        super().__init__(num_players, reward="margin", episode="round", skip_forced=True, obs_dtype="float32")

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """See `raw_env.observation_space`."""
        space = super().observation_space(agent)
        assert isinstance(space, spaces.Dict)
        mask = spaces.Box(0.0, 1.0, space["action_mask"].shape, np.float32)
        return spaces.Dict({"observations": space["observation"], "action_mask": mask})

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """Return `{"observations", "action_mask"}`, both float32."""
        seen = super().observe(agent)
        return {"observations": seen["observation"], "action_mask": seen["action_mask"].astype(np.float32)}


class FivesUpRllibEnv(PettingZooEnv):  # type: ignore[misc] # RLlib has no annotations
    """Rounds as RLlib takes them: whoever is to move gets an observation, and what came since its last move.

    Args:
        context: RLlib's, a mapping that also tells which of the processes that play this one is. Its keys are
            `num_players`; `reward_scale`, which rewards are multiplied by; and `seed`, of all deals.
    """

    def __init__(self, context: Mapping[str, Any]) -> None:
        super().__init__(_MaskedRounds(context["num_players"]))
        self._reward_scale = float(context["reward_scale"])
        self._seed_here = match_seed(context["seed"], 1 + getattr(context, "worker_index", 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Deal the next round; with a seed, the first of a sequence of this run, this process and this seed alone.

        RLlib counts its seeds up from one environment to the next and from one process to the next as well, and the
        processes would play the same deals.
        """
        own = None if seed is None else match_seed(self._seed_here, 1 + seed)
        result: tuple[Any, Any] = super().reset(seed=own, options=options)
        return result

    def step(self, action: dict[str, int]) -> tuple[Any, dict[str, float], Any, Any, Any]:
        """Take the action of the agent to move; at the end of the round all agents get their last rewards."""
        seen, rewards, terminated, truncated, infos = super().step(action)
        scaled = {agent: reward * self._reward_scale for agent, reward in rewards.items()}
        return seen, scaled, terminated, truncated, infos


# The algorithm


def module_spec(config: RllibConfig) -> RLModuleSpec:
    """Return RLlib's description of the network that plays all seats."""
    env = _MaskedRounds(config.num_players)
    agent = env.possible_agents[0]
    layers = DefaultModelConfig(fcnet_hiddens=list(config.hidden), fcnet_activation="relu", vf_share_layers=True)
    return RLModuleSpec(
        module_class=ActionMaskingTorchRLModule,
        observation_space=env.observation_space(agent),
        action_space=env.action_space(agent),
        model_config=layers,
    )


def algorithm_config(config: RllibConfig, steps: int = 0) -> PPOConfig:
    """Return RLlib's configuration of a run that begins, or goes on after so many steps, with other deals."""
    seed = match_seed(config.seed, steps)
    context = {"num_players": config.num_players, "reward_scale": config.reward_scale, "seed": seed}
    return (
        PPOConfig()
        .environment(FivesUpRllibEnv, env_config=context, disable_env_checking=True)
        .framework("torch")
        .env_runners(
            num_env_runners=config.env_runners,
            num_envs_per_env_runner=config.num_envs,
            # Complete episodes would be the first of the environments' to end, and so the short ones rather.
            batch_mode="truncate_episodes",
        )
        .multi_agent(policies={POLICY}, policy_mapping_fn=_policy_of)
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={POLICY: module_spec(config)}))
        .training(
            train_batch_size_per_learner=config.batch_size,
            minibatch_size=config.minibatch_size,
            num_epochs=config.epochs,
            lr=[[0, config.learning_rate], [config.total_steps, 0.0]],
            gamma=config.gamma,
            lambda_=config.gae_lambda,
            clip_param=config.clip_range,
            entropy_coeff=config.entropy_coef,
            vf_loss_coeff=config.value_coef,
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            grad_clip=config.max_grad_norm,
            grad_clip_by="global_norm",
        )
        .debugging(seed=config.seed, log_level="ERROR")
    )


def _policy_of(agent: str, episode: Any, **_: Any) -> str:
    """Return the policy that an agent plays."""
    return POLICY


@contextmanager
def algorithm(config: RllibConfig, steps: int = 0) -> Iterator[Any]:
    """Make the algorithm of a run (`algorithm_config`), on a Ray cluster of this machine alone, and end both."""
    cpus = 1 + config.env_runners
    ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        made = algorithm_config(config, steps).build_algo()
        try:
            yield made
        finally:
            made.stop()
            with suppress(OSError):
                os.rmdir(made.logdir)  # RLlib makes a folder in the user's home that it does not use
    finally:
        ray.shutdown()


# Agents


def to_policy(weights: Mapping[str, Any], hidden: tuple[int, ...]) -> MaskableActorCriticPolicy:
    """Return the network of `agents.network` that computes the same as RLlib's module.

    Args:
        weights: the state of the module, arrays or tensors by name, the critic's among them.
        hidden: widths of the layers that policy and value share.
    """
    with torch.random.fork_rng(devices=[]):  # first weights are random: the run's generator stays as it is
        policy = make_policy(hidden)
    trunk = policy.features_extractor
    assert isinstance(trunk, Trunk)
    for prefix, layers in (
        ("encoder.encoder.net.mlp.", trunk.layers),
        ("pi.net.mlp.0.", policy.action_net),
        ("vf.net.mlp.0.", policy.value_net),
    ):
        found = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        layers.load_state_dict({name: torch.as_tensor(value) for name, value in found.items()})
    return policy


def learned_weights(algo: Any) -> dict[str, Any]:
    """Return the weights of the learner's module; the module that plays has no sound critic."""
    weights: dict[str, Any] = algo.learner_group.get_weights([POLICY])[POLICY]
    return weights


def save(algo: Any, config: RllibConfig, folder: Path) -> None:
    """Write the agent and RLlib's checkpoint into the folder of the run; the old ones stay until the new are whole."""
    policy = to_policy(learned_weights(algo), config.hidden)
    facts = {"num_players": config.num_players, "steps": _steps(algo), "trained_by": f"RLlib {ray.__version__}"}
    save_checkpoint(folder / "checkpoints" / "last", policy, config.hidden, **facts)
    new, old, place = (folder / name for name in ("rllib.new", "rllib.old", "rllib"))
    shutil.rmtree(new, ignore_errors=True)
    algo.save_to_path(str(new.absolute()))
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(place, old)
    os.rename(new, place)
    shutil.rmtree(old, ignore_errors=True)


# Runs


def train(config: RllibConfig) -> Path:
    """Train in a new folder, and return it.

    Raises:
        KeyboardInterrupt: after all that is needed to go on has been saved.
    """
    folder = new_run_folder(config)
    _learn(config, folder)
    return folder


def resume(folder: Path) -> Path:
    """Go on with a run that was stopped, and return its folder.

    Raises:
        ValueError: the folder holds no run, or none that was saved.
        KeyboardInterrupt: after all that is needed to go on has been saved.
    """
    config = read_run(RllibConfig, folder)
    saved = next((place for place in (folder / "rllib", folder / "rllib.old") if place.is_dir()), None)
    if saved is None:
        raise ValueError(f"{folder} holds no run that can be gone on with: {folder / 'rllib'} is missing")
    _learn(config, folder, saved)
    return folder


def _learn(config: RllibConfig, folder: Path, saved: Path | None = None) -> None:
    """Learn until all steps are taken, from the beginning or what was saved; Ctrl-C waits for the end of a batch."""
    logger = configure(str(folder), ["tensorboard"])
    with algorithm(config, _steps_saved(folder) if saved else 0) as algo:
        if saved:
            algo.restore_from_path(str(saved.absolute()))
        try:
            while _steps(algo) < config.total_steps:
                with interrupt_held():
                    _log(algo.train(), _steps(algo), logger)
                    if algo.iteration % config.save_every == 0:
                        save(algo, config, folder)
        except KeyboardInterrupt:
            with interrupt_held():
                save(algo, config, folder)
            raise
        with interrupt_held():
            save(algo, config, folder)


def _steps_saved(folder: Path) -> int:
    """Return how many decisions the checkpoint of a run has learned from."""
    return int(json.loads((folder / "checkpoints" / "last" / "meta.json").read_text(encoding="utf-8"))["steps"])


def _steps(algo: Any) -> int:
    """Return how many decisions the run has learned from."""
    return int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0))


def _log(result: Mapping[str, Any], steps: int, logger: Logger) -> None:
    """Show what a batch was, as a line and as events."""
    names = ("policy_loss", "vf_loss", "vf_explained_var", "entropy")
    values = {name: float(result["learners"][POLICY][name]) for name in names}
    values["seconds_per_batch"] = float(result["timers"]["training_iteration"])
    print(f"{steps:>9} decisions ", *(f" {name} {value:.3f}" for name, value in values.items()), flush=True)
    for name, value in values.items():
        logger.record(name, value)
    logger.dump(steps)


# The command line


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and train; return the exit status: 0, 2 for an error, or 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m agents.rllib",
        description="Train an agent by RLlib's PPO, which plays all seats of its rounds.",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", metavar="FILE", help="a YAML file such as configs/rllib_2p.yaml")
    source.add_argument("--resume", metavar="RUN", type=Path, help="go on with the run in this folder")
    add_flags(parser, RllibConfig)
    given = parser.parse_args(arguments)
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # else it greets with warnings
    try:
        folder = resume(_resumed(given)) if given.resume else train(_read(given))
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; --resume goes on with what was saved", file=sys.stderr)
        return 130
    checkpoint = folder / "checkpoints" / "last"
    print(f"checkpoint: {checkpoint}")
    players = read_run(RllibConfig, folder).num_players
    print(f"evaluate:   python evaluate.py {checkpoint} random greedy --players {players} --matches 1000 --seed 1")
    return 0


def _resumed(given: argparse.Namespace) -> Path:
    if with_flags({}, given, RllibConfig):
        raise ValueError("--resume goes on with a run's own configuration: no other flags can be given")
    folder: Path = given.resume
    return folder


def _read(given: argparse.Namespace) -> RllibConfig:
    """Return the configuration of the file with the flags; what is wrong with the file alone is told by its name."""
    values = read_values(given.config)
    make_settings(RllibConfig, values, given.config)
    return make_settings(RllibConfig, with_flags(values, given, RllibConfig))


if __name__ == "__main__":
    sys.exit(main())
