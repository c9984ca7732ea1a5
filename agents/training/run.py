"""A training run: its folder, its stages, and how it is gone on with.

**Stages.** Iteration by iteration, matches are valued by a search and the network is fitted to them; then it plays
itself by PPO. Either part can be left out (`search.iterations`, `ppo.total_steps`).

**The folder** of a run holds

- `config.yaml` and `command.txt`: what it is, and what started it;
- `search/0`, `search/1` …: shards of each iteration;
- `checkpoints/last`, `checkpoints/best` and `checkpoints/fit-0` …: agents (`make_agent`); the best is the one that won
  most against `evaluation.opponents`;
- `pool/`: copies of the learner that it plays against;
- `winning_chances.npz`: the table that self-play is paid by, where `ppo.winning_chances` names one;
- `state.pt`: all that is needed to go on: weights, critic, optimizer, generators, matches in play, the pool;
- events for TensorBoard; docs/training.md explains every curve.

What a run does follows from its configuration; when it evaluates and saves follows the clock, and changes nothing else.
A run can be stopped anywhere, but goes on from points alone at which nothing is half done (`_Trainer.mark`).
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, configure
from tqdm import tqdm

from agents.agent import make_agent
from agents.arena.blocks import block_scores, block_size, play_blocks
from agents.arena.statistics import Estimate, estimate
from agents.network import NetworkAgent, make_policy, save_checkpoint
from agents.training.agent_names import check_agents, load_start
from agents.training.board import Ratings, log_example
from agents.training.config import Config
from agents.training.distill import Fit, Minibatches, held_out
from agents.training.hidden_hands import hands_size
from agents.training.pool import Pool
from agents.training.reward_table import copy_reward_table, reward_table
from agents.training.run_folder import new_run_folder, read_run
from agents.training.search_data import SearchPlan, generate, load_shard, replay
from agents.training.seat_ppo import RegularizedPolicy, make_learner
from agents.training.tables import SelfPlayVecEnv
from fivesup_env.files import replacing

_EVAL_SEED: Final = 2**63  # beyond those of any run: deals that training does not see
_RUN_GAP: Final = 10**12  # between the match seeds of two runs whose `seed` differs by 1
_PART_GAP: Final = 10**9  # between those of two iterations of a run; self-play's come after all of them
_LOG_EVERY: Final = 50  # minibatches of a fit
_STATE: Final = "state.pt"
_STATE_VERSION: Final = 2  # of what it holds


def train(config: Config, *, show_progress: bool = True) -> Path:
    """Train by this configuration in a new folder, and return it.

    Raises:
        ValueError: the configuration names an agent that cannot be made, or not for this run, or a file that holds no
            table of winning chances for it; no folder is made then.
        KeyboardInterrupt: after all that is needed to go on has been saved.
    """
    check_agents(config)
    reward_table(config)
    start = load_start(config).policy.state_dict() if config.start else None
    folder = new_run_folder(config)
    copy_reward_table(config, folder)
    trainer = _Trainer(config, folder, show_progress)
    if start is not None:
        trainer.policy.load_state_dict(start)
    trainer.mark({})
    trainer.save()  # from now on, nothing but the folder is needed to go on
    return trainer.run()


def resume(folder: Path, *, show_progress: bool = True) -> Path:
    """Go on with a run that was stopped, and return its folder.

    Raises:
        ValueError: the folder holds no run, a damaged one, or one that names agents that cannot be made; or
            its table of winning chances is gone; says what.
        KeyboardInterrupt: after all that is needed to go on has been saved.
    """
    config = read_run(Config, folder)
    check_agents(config)
    reward_table(config, folder)
    trainer = _Trainer(config, folder, show_progress)
    trainer.load()
    return trainer.run()


class _Trainer:
    """Runs the stages one after the other.

    Attributes:
        policy: the network as it is.
        iteration: of search; when all are done, self-play follows.
        steps: decisions by PPO.
        kept: what a stage needs to go on within itself, where the run was stopped.
        marked: all that is needed to go on from the last mark, as it is written to the disk.
        ratings: of learner and pool; None where they are not wanted.
    """

    def __init__(self, config: Config, folder: Path, show_progress: bool) -> None:
        self.config, self.folder, self.show_progress = config, folder, show_progress
        self.cores = config.threads or _cores()
        torch.set_num_threads(self.cores)
        torch.manual_seed(config.seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.policy: MaskableActorCriticPolicy = make_policy(config.hidden, precision=config.precision).to(self.device)
        self.iteration = 0
        self.kept: dict[str, Any] = {}
        self.best = -1.0
        self.value_per_logit: float | None = None  # of the network, where it was measured last
        self.told = ""  # of the last evaluation, short: the bar's line has to fit a terminal
        self.seconds = 0.0  # in earlier processes
        self.started = self.saved = time.monotonic()
        self.logger: Logger = configure(str(folder), ["tensorboard"])
        self.steps = 0
        self.marked = b""
        self.ratings: Ratings | None = None

    # Going on

    def load(self) -> None:
        """Take up the state that was saved last."""
        path = self.folder / _STATE
        try:
            self.marked = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{self.folder} holds no run that can be gone on with: {error}") from None
        try:
            self._go_back()
        except Exception as error:  # whatever torch finds wrong with a damaged file
            raise ValueError(f"{path} is damaged, or of another version of fivesup: {error}") from None

    def mark(self, stage: dict[str, Any]) -> None:
        """Note all that is needed to go on from here, `stage` being what the stage needs: where nothing is half done.

        An interrupt can come in the middle of an update, so what is saved is always a state that was marked.
        """
        state = {
            "version": _STATE_VERSION,
            "policy": self.policy.state_dict(),
            "iteration": self.iteration,
            "stage": stage,
            "best": self.best,
            "value_per_logit": self.value_per_logit,
            "seconds": self._seconds(),
            "steps": self.steps,
        }
        content = io.BytesIO()
        torch.save(state, content)
        self.marked = content.getvalue()

    def save(self) -> None:
        """Write the state that was marked last, and the last checkpoint."""
        with replacing(self.folder / _STATE, binary=True) as file:
            file.write(self.marked)
        self._checkpoint("last")
        self.saved = time.monotonic()

    def _go_back(self) -> None:
        """Take up the state that was marked last."""
        state = torch.load(io.BytesIO(self.marked), weights_only=True, map_location=self.device)
        if state.get("version") != _STATE_VERSION:
            raise ValueError(f"it is of version {state.get('version')}, not {_STATE_VERSION}")
        self.policy.load_state_dict(state["policy"])
        self.iteration, self.kept = state["iteration"], state["stage"]
        self.best, self.seconds, self.steps = state["best"], state["seconds"], state["steps"]
        self.value_per_logit = state["value_per_logit"]
        self.started = time.monotonic()

    def _seconds(self) -> float:
        return self.seconds + time.monotonic() - self.started

    def _checkpoint(self, name: str, folder: Path | None = None) -> None:
        save_checkpoint(
            folder or self.folder / "checkpoints" / name,
            self.policy,
            self.config.hidden,
            num_players=self.config.num_players,
            iteration=self.iteration,
            steps=self.steps,
            seconds=round(self._seconds(), 1),
            **self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        """Return the units of the network's values and logits where these are the chance to win, and its rules."""
        rules, ppo = self.config.rules.changed(), self.config.ppo
        # Before self-play, values are those of a fit, or of the network that the run began with.
        fitted = self.config.search.iterations > 0 or (bool(self.config.start) and ppo.in_chances())
        in_chances = ppo.in_chances() if self.steps else fitted
        facts: dict[str, Any] = {"reward_scale": self.config.reward_scale} if in_chances else {}
        if self.value_per_logit is not None and not self.steps:  # self-play gives the logits another meaning
            facts["value_per_logit"] = self.value_per_logit
        return facts | ({"rules": rules} if rules else {})

    # Stages

    def run(self) -> Path:
        """Run what is left; save when it ends, however it ends."""
        try:
            while self.iteration < self.config.search.iterations:
                self._learn_from_search()
            if self.config.ppo.total_steps:
                self._play_itself()
        except BaseException:
            self._go_back()
            raise
        finally:
            self.save()
            self.logger.close()
        return self.folder

    def _learn_from_search(self) -> None:
        config, number = self.config, self.iteration
        parts = [list(self._matches(each)) for each in range(max(0, number - config.search.window + 1), number + 1)]
        test = replay(load_shard(parts[-1][-1]))
        minibatches = Minibatches(
            [path for part in parts for path in part[:-1]],
            passes=config.fit.passes,
            size=config.fit.minibatch_size,
            group=config.fit.group,
            seed=config.seed + number,
        )
        fit = Fit(self.policy, config.fit, minibatches, config.reward_scale)
        if self.kept:
            fit.load_state_dict(self.kept)
            self.kept = {}
        sums = np.zeros(3)
        with self._bar(f"fit {number}", len(minibatches), fit.step, "minibatches") as bar:
            for losses in fit.run():
                sums += float(losses.policy), float(losses.value), 1
                bar.update()
                if fit.step % _LOG_EVERY == 0 or fit.step == len(minibatches):
                    self.logger.record(f"fit_{number}/policy_loss", sums[0] / sums[2])
                    self.logger.record(f"fit_{number}/value_loss", sums[1] / sums[2])
                    self.logger.record(f"fit_{number}/learning_rate", fit.learning_rate())
                    sums[:] = 0
                    self.logger.dump(fit.step)
                    self.mark(fit.state_dict())
                if self._is_time():
                    self._measure(fit, test, bar)
            self._measure(fit, test, bar)
        self._checkpoint(f"fit-{number}")
        self.iteration += 1
        self.mark({})
        self.save()

    def _matches(self, iteration: int) -> Iterator[Path]:
        """Yield the shards of an iteration, made where they are missing."""
        config = self.config
        plan = SearchPlan(
            num_players=config.num_players,
            teacher=config.search.teacher,
            player=f"../../checkpoints/fit-{iteration - 1}" if iteration else "",
            explore=config.search.explore,
            matches=config.search.matches,
            seed=config.seed * _RUN_GAP + iteration * _PART_GAP + 1,
            prior_weight=config.search.prior_weight if iteration else 0.0,
        )
        folder = self.folder / "search" / str(iteration)
        with self._bar(f"search {iteration}", config.search.shards, 0, "shards") as bar:
            for _ in generate(plan, folder, config.search.shards, workers=self.cores):
                bar.update()
        yield from (folder / f"{number:05}.npz" for number in range(config.search.shards))

    def _measure(self, fit: Fit, test: Any, bar: Any) -> None:
        found = held_out(self.policy, test, self.config.reward_scale)
        self.policy.set_training_mode(True)
        self.value_per_logit = found.value_per_logit
        for name, value in found._asdict().items():
            self.logger.record(f"fit_{self.iteration}/held_out_{name}", value)
        self.evaluate(fit.step)
        bar.set_postfix_str(", ".join(filter(None, (self.told, f"regret {found.regret:.4f}"))))
        self.mark(fit.state_dict())
        self.save()

    def _play_itself(self) -> None:
        ppo = self.config.ppo
        pool = Pool(ppo.pool, self.folder / "pool", ppo.snapshots, sample=ppo.pool_sample)
        if matches := self.config.evaluation.rating_matches:
            self.ratings = Ratings(pool, self.config.num_players, matches, _EVAL_SEED, **self.config.rules.changed())
        tables = SelfPlayVecEnv(
            ppo.num_envs,
            num_players=self.config.num_players,
            seed=(self.config.seed + 1) * _RUN_GAP - _PART_GAP,
            reward_scale=self.config.reward_scale,
            opponents=pool,
            opponent_tables=round(ppo.pool_share * ppo.num_envs) if ppo.pool or ppo.snapshots else 0,
            hidden_hands=ppo.critic == "hidden",
            reward=ppo.reward,
            episode=ppo.episode,
            shaping=ppo.shaping,
            chances=reward_table(self.config, self.folder),
            scores=ppo.scores or None,
            rules=self.config.rules.changed(),
        )
        model = self._model(tables)
        callback = _SelfPlay(self, tables, pool)
        left = ppo.total_steps - self.steps
        if self.kept:
            callback.load(model, self.kept)
            self.kept = {}
        with self._bar("self-play", ppo.total_steps, self.steps, "decisions") as callback.bar:
            if left > 0:
                model.learn(left, callback=callback, reset_num_timesteps=False)
                self.evaluate(self.steps)
                callback.bar.set_postfix_str(self.told)
                self.mark(callback.state_dict())
                self.save()
        pool.sweep()

    def _model(self, tables: SelfPlayVecEnv) -> MaskablePPO:
        model = make_learner(self.config, tables, self.device)
        policy = model.policy
        assert isinstance(policy, RegularizedPolicy)
        policy.load_state_dict(self.policy.state_dict())
        if self.config.ppo.critic != "shared":
            num_hidden = hands_size(self.config.num_players) if self.config.ppo.critic == "hidden" else 0
            policy.take_critic(num_hidden, model.max_grad_norm)
        self.policy = policy
        model.set_logger(self.logger)
        model.num_timesteps = self.steps
        return model

    # Looking

    def evaluate(self, step: int) -> None:
        """Play against the opponents of the configuration, log it, and keep the best checkpoint."""
        wanted, num_players = self.config.evaluation, self.config.num_players
        agent, rules = NetworkAgent(self.policy), self.config.rules.changed()
        deals: dict[str, Any] = {"first": 0, "count": -(-wanted.matches // block_size(num_players)), "seed": _EVAL_SEED}
        training = self.policy.training
        found: dict[str, Estimate] = {}
        for text in wanted.opponents:
            opponent = make_agent(text)
            opponent.reset(_EVAL_SEED)
            blocks = play_blocks(agent, opponent, num_players, **deals, **rules)
            if reasons := blocks.forfeit_reasons[1]:
                tqdm.write(f"{text} forfeited matches: {reasons[0]}", file=sys.stderr)
            found[text] = estimate(block_scores(blocks, num_players))
            for name in ("mean", "low", "high"):
                self.logger.record(f"arena/win_rate_{text}_{name}", getattr(found[text], name))
            if text == wanted.opponents[0]:
                log_example(self.logger, blocks, num_players, _EVAL_SEED, text, **rules)
        for name, elo in self.ratings.rate(agent).items() if self.ratings else ():
            self.logger.record(f"ratings/{name}", elo)
        self.policy.set_training_mode(training)
        self.logger.dump(step)
        self.told = ", ".join(f"{Path(text).name} {one.mean:.2f}" for text, one in found.items())
        score = float(np.mean([one.mean for one in found.values()])) if found else 0.0
        if score > self.best:
            self.best = score
            self._checkpoint("best")

    def _is_time(self) -> bool:
        return time.monotonic() - self.saved >= 60 * self.config.evaluation.every_minutes

    def _bar(self, name: str, total: int, begun: int, unit: str) -> Any:
        # What a narrow terminal cuts off comes last.
        form = "{desc} {percentage:3.0f}% [{elapsed}<{remaining}, {rate_fmt}{postfix}] {n_fmt}/{total_fmt} {bar}"
        bar = tqdm(
            total=total, initial=begun, desc=name, unit=f" {unit}", unit_scale=total > 10_000, dynamic_ncols=True,
            bar_format=form, disable=not self.show_progress,
        )  # fmt: skip
        bar.set_postfix_str(self.told)
        return bar


class _SelfPlay(BaseCallback):
    """Between two updates of PPO: logs, moves the slow copy, feeds the pool, evaluates and saves."""

    def __init__(self, trainer: _Trainer, tables: SelfPlayVecEnv, pool: Pool) -> None:
        super().__init__()
        self.trainer, self.tables, self.pool = trainer, tables, pool
        self.updates = 0
        self.bar: Any

    def _on_rollout_start(self) -> None:
        trainer = self.trainer
        self.bar.update(self.num_timesteps - self.bar.n)
        trainer.steps, timely = self.num_timesteps, trainer._is_time()
        if timely:
            trainer.evaluate(self.num_timesteps)
            self.bar.set_postfix_str(trainer.told)
        trainer.mark(self.state_dict())
        if timely:
            trainer.save()
            self.pool.sweep()
        if self.updates:
            self._follow_up()
        self.updates += 1

    def _follow_up(self) -> None:
        """Do what is due after an update; a run that goes on from the mark before it does it again."""
        config = self.trainer.config.ppo
        self._log()
        if config.anchor_coef:
            self._policy().follow(config.anchor_decay)
        if config.snapshots and self.updates % config.snapshot_every == 0:
            self._take_snapshot()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.trainer.steps = self.num_timesteps
        self.bar.update(self.num_timesteps - self.bar.n)
        self._log()

    def _log(self) -> None:
        policy, counts = self._policy(), self.tables.take_statistics()
        entropy, divergence, difference, minibatches = policy.seen.tolist()
        policy.seen[:] = 0
        record = self.logger.record
        record("train/entropy", entropy / max(minibatches, 1))
        record("train/anchor_divergence", divergence / max(minibatches, 1))
        if policy.critic is not None:
            record("train/public_value_loss", difference / max(minibatches, 1))
        record("game/decisions_per_round", counts["decisions"] / max(counts["rounds"], 1))
        record("game/rounds_per_match", counts["rounds"] / max(counts["matches"], 1))
        record("game/blocked_rate", counts["blocked"] / max(counts["rounds"], 1))
        record("game/draws_per_round", counts["draws"] / max(counts["rounds"], 1))
        record("game/points_per_round", counts["points"] / max(counts["rounds"], 1))
        for number, name in self.pool.names().items():
            record(f"pool/win_rate_{name}", self.pool.members[number].win_rate)

    def _take_snapshot(self) -> None:
        self.trainer._checkpoint("", self.pool.path_of_next())
        number, left = self.pool.add()
        if left is not None:
            self.tables.retire(left, number)

    def _policy(self) -> RegularizedPolicy:
        policy = self.model.policy
        assert isinstance(policy, RegularizedPolicy)
        return policy

    def state_dict(self) -> dict[str, Any]:
        """Return what self-play needs to go on, beside the weights; only between two updates."""
        policy = self._policy()
        _, words, position, has_gauss, cached = np.random.get_state(legacy=True)
        assert isinstance(words, np.ndarray)
        return {
            "optimizer": policy.optimizer.state_dict(),
            "anchor": policy.anchor.state_dict() if policy.anchor_coef else {},
            "critic": {} if policy.critic is None else policy.critic.state_dict(),
            "seen": policy.seen.tolist(),
            "updates": self.updates,
            "n_updates": self.model._n_updates,
            "tables": {key: _tensor(value) for key, value in self.tables.state_dict().items()},
            "pool": self.pool.state_dict(),
            "torch": torch.get_rng_state(),
            "numpy": [torch.from_numpy(words.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        }

    def load(self, model: MaskablePPO, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was asked."""
        policy = model.policy
        assert isinstance(policy, RegularizedPolicy)
        policy.optimizer.load_state_dict(state["optimizer"])
        if policy.anchor_coef:
            policy.anchor.load_state_dict(state["anchor"])
        if policy.critic is not None:
            policy.critic.load_state_dict(state["critic"])
        policy.seen[:] = state["seen"]
        self.updates, model._n_updates = state["updates"], state["n_updates"]
        self.pool.load_state_dict(state["pool"])
        arrays = {key: value.cpu().numpy() for key, value in state["tables"].items()}
        arrays |= {key: arrays[key].view(np.uint64) for key in ("seeds", "indices")}
        model._last_obs = self.tables.load_state_dict(arrays)
        model._last_episode_starts = np.ones(self.tables.num_envs, np.bool_)
        words, position, has_gauss, cached = state["numpy"]
        np.random.set_state(("MT19937", words.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
        torch.set_rng_state(state["torch"].cpu())


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tensor(array: Any) -> torch.Tensor:
    """Return an array as torch keeps it: it has no uint64 that can be saved everywhere."""
    return torch.from_numpy(array.view(np.int64) if array.dtype == np.uint64 else array)
