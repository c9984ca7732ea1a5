"""Self-play training, first form: sb3-contrib's MaskablePPO learns one seat, earlier copies of it play the others.

The learner's reward for a decision is what its own side earned up to its next decision, or to the end of the round,
also by the moves of others; `FivesUpSb3VecEnv` sees to that, and asks the copy for all waiting matches at once. The
learner takes every seat in turn.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Final

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecMonitor

from agents.arena import block_size, play_blocks, scores_of_a
from agents.baselines import GreedyAgent, RandomAgent
from agents.config import Config, as_yaml
from agents.network import NetworkAgent, make_policy, save_checkpoint
from agents.sb3 import FivesUpSb3VecEnv

_EVAL_SEED: Final = 1_000_000_007  # deals that training does not see


def train(config: Config, *, progress_bar: bool = True) -> Path:
    """Train by this configuration and return the folder of the run.

    The folder holds config.yaml, command.txt, checkpoints/ (the last one is kept when training is interrupted, too) and
    TensorBoard events.
    """
    torch.set_num_threads(1)  # batches are too small for two threads to help each other
    run = _new_run_folder(config)
    copy = NetworkAgent(make_policy(config.hidden), deterministic=False)
    model = _make_model(config, run, copy)
    copy.policy.load_state_dict(model.policy.state_dict())
    callback = _SelfPlay(config, run, copy)
    try:
        model.learn(config.total_steps, callback=callback, progress_bar=progress_bar)
    except KeyboardInterrupt:
        print(f"\ninterrupted after {model.num_timesteps:,} steps", file=sys.stderr)
    finally:
        callback.save()
    return run


def _new_run_folder(config: Config) -> Path:
    """Make the folder of the run; an earlier run of the same name is never touched."""
    base = Path(config.run)
    run, number = base, 1
    while run.exists():
        number += 1
        run = base.with_name(f"{base.name}-{number}")
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
    (run / "command.txt").write_text(shlex.join(sys.argv) + "\n", encoding="utf-8")
    return run


def _make_model(config: Config, run: Path, copy: NetworkAgent) -> MaskablePPO:
    matches = FivesUpSb3VecEnv(
        config.num_envs,
        opponent=copy,
        reward_scale=config.reward_scale,
        num_players=config.num_players,
        episode="round",
        reward=config.reward,
        skip_forced=True,
        obs_dtype="float32",
    )
    model = MaskablePPO(
        "MlpPolicy",
        VecMonitor(matches),
        learning_rate=lambda progress: config.learning_rate * progress,
        n_steps=config.rollout_steps,
        batch_size=config.minibatch_size,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_range,
        ent_coef=config.entropy_coef,
        policy_kwargs={"net_arch": list(config.hidden), "activation_fn": torch.nn.ReLU},
        seed=config.seed,
        device="cpu",
    )
    model.set_logger(configure(str(run), ["tensorboard"]))
    return model


class _SelfPlay(BaseCallback):
    """Copies the learner to its opponents, evaluates it and writes checkpoints, every so many updates."""

    def __init__(self, config: Config, run: Path, copy: NetworkAgent) -> None:
        super().__init__()
        self.config, self.run, self.copy = config, run, copy
        self.updates = 0
        self.started = time.perf_counter()

    def _on_rollout_start(self) -> None:
        if self.updates % self.config.snapshot_every == 0:
            self.copy.policy.load_state_dict(self.model.policy.state_dict())
        if self.updates and self.updates % self.config.eval_every == 0:
            self._evaluate()
            self.save()
        self.updates += 1

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self._evaluate()
        self.logger.dump(self.num_timesteps)

    def _evaluate(self) -> None:
        learner = NetworkAgent(self.model.policy)  # type: ignore[arg-type]
        for name, opponent in (("random", RandomAgent()), ("greedy", GreedyAgent())):
            num_players = self.config.num_players
            count = -(-self.config.eval_matches // block_size(num_players))
            blocks = play_blocks(learner, opponent, num_players, first=0, count=count, seed=_EVAL_SEED)
            self.logger.record(f"arena/win_rate_{name}", float(scores_of_a(blocks, num_players).mean()))

    def save(self) -> None:
        """Write the last checkpoint."""
        save_checkpoint(
            self.run / "checkpoints" / "last",
            self.model.policy,  # type: ignore[arg-type]
            self.config.hidden,
            steps=self.num_timesteps,
            seconds=round(time.perf_counter() - self.started, 1),
            num_players=self.config.num_players,
        )
