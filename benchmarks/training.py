"""What learning costs: a network's decisions, and PPO beside the usual path to it.

**The usual path** is what people write who have a PettingZoo environment and Stable-Baselines3: the AEC environment
behind a wrapper that gives the learner one seat and a fixed opponent the others, in a `DummyVecEnv` of eight. Both
paths have the same network, number of decisions between two updates, epochs and minibatches, and the same opponent; a
run is a rollout with its update. The opponent plays random legal actions, which costs the usual path least.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.baselines import random_actions
from benchmarks.kernel import BATCH
from benchmarks.measure import Measure, Play, Played, Scale
from fivesup_env import fivesup_v0
from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.observation import observation_space
from fivesup_env.vector_env import FivesUpVectorEnv

if TYPE_CHECKING:
    from agents.network import Precision

_NETWORK: Final = "net-2p"
_BATCHES: Final = (1, 32, 1024)
NETWORKS: Final = ((128, 128), (512, 256))  # widths of `configs/smoke.yaml` and of `configs/2p.yaml`
_TABLES: Final = 1024
_COPIES: Final = 8
_MINIBATCH: Final = 2048
_EPOCHS: Final = 3

EVERY_SEAT = f"{_TABLES} tables, every seat the learner's"
ONE_SIDE = f"{_TABLES} tables, one side the learner's"
USUAL = f"DummyVecEnv of {_COPIES} AEC environments"


def ppo_name(place: str, hidden: tuple[int, ...], precision: Precision = "float32") -> str:
    """Return the name of a measurement of learning."""
    return f"PPO of {' x '.join(map(str, hidden))} in {precision}, {place}"


def alone_name(place: str) -> str:
    """Return the name of a measurement of tables without a learner."""
    return f"random play, {place}"


def network_measures(scale: Scale) -> list[Measure]:
    """Return the decisions of a network, alone and in batches: on one thread, observations included.

    Raises:
        ImportError: torch or sb3-contrib is not there.
    """
    from agents.network import NetworkAgent  # noqa: F401  # so that it is missed here rather than in a run

    return [
        Measure("network", f"{_NETWORK}, {batch} at once", partial(_network, batch), unit="decisions")
        for batch in _BATCHES
    ]


def _network(batch: int) -> Play:
    from agents.agent import make_agent

    env = FivesUpVectorEnv(BATCH, skip_forced=True, copy=False)
    env.reset(seed=1)
    keys, actions = np.arange(BATCH, dtype=np.uint64), np.zeros(BATCH, np.int64)
    for _ in range(64):  # so that positions are those of whole rounds
        keys += np.uint64(BATCH)
        random_actions(env.action_masks(), keys, actions)
        env.step(actions)
    views, masks = env.views(np.arange(BATCH))
    agent, begin = make_agent(_NETWORK), 0

    def play(steps: int) -> Played:
        nonlocal begin
        calls = -(-steps // batch)
        for _ in range(calls):
            rows = slice(begin, begin + batch)
            agent.act(views[rows], masks[rows], keys[rows])
            begin = (begin + batch) % BATCH
        return Played(calls * batch)

    return play


def training_measures(scale: Scale) -> list[Measure]:
    """Return PPO over the project's tables and over the usual path, and these tables without a learner.

    Raises:
        ImportError: torch or sb3-contrib is not there.
    """
    from agents.training import run  # noqa: F401  # so that it is missed here rather than in a run

    found = []
    for hidden in NETWORKS:
        cases: dict[str, Callable[[], Play]] = {
            ppo_name(EVERY_SEAT, hidden): partial(_learning, scale.rollout, hidden, opponent=False),
            ppo_name(ONE_SIDE, hidden): partial(_learning, scale.rollout, hidden, opponent=True),
            ppo_name(ONE_SIDE, hidden, "bfloat16"): partial(
                _learning, scale.rollout, hidden, opponent=True, precision="bfloat16"
            ),
            ppo_name(USUAL, hidden): partial(_usual, scale.rollout, hidden),
        }
        found += [Measure("training", name, prepare, unit="decisions") for name, prepare in cases.items()]
    for place, opponent in ((EVERY_SEAT, False), (ONE_SIDE, True)):
        found.append(Measure("training", alone_name(place), partial(_tables, opponent), unit="decisions"))
    return found


def _make_tables(opponent: bool) -> Any:
    from agents.training.pool import Pool
    from agents.training.tables import SelfPlayVecEnv

    pool = Pool(("random",), Path(), 0)  # no copies of the learner join it, so nothing is written
    return SelfPlayVecEnv(
        _TABLES,
        num_players=2,
        seed=1,
        reward_scale=1.0,
        opponents=pool if opponent else None,
        opponent_tables=_TABLES if opponent else 0,
    )


def _learning(rollout: int, hidden: tuple[int, ...], opponent: bool, precision: Precision = "float32") -> Play:
    """PPO as `train.py` does it."""
    from agents.training.config import Config, PpoConfig
    from agents.training.seat_ppo import make_learner

    ppo = PpoConfig(num_envs=_TABLES, rollout_steps=rollout // _TABLES, minibatch_size=_MINIBATCH, epochs=_EPOCHS)
    config = Config(hidden=hidden, precision=precision, ppo=ppo)
    return _play(make_learner(config, _make_tables(opponent), "cpu"), rollout)


def _usual(rollout: int, hidden: tuple[int, ...]) -> Play:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from agents.network import policy_options

    learner = MaskablePPO(
        "MlpPolicy",
        DummyVecEnv([partial(OneSeat, seat % 2) for seat in range(_COPIES)]),
        n_steps=rollout // _COPIES,
        batch_size=_MINIBATCH,
        n_epochs=_EPOCHS,
        gamma=1.0,
        policy_kwargs=policy_options(hidden),
        seed=1,
        device="cpu",
    )
    return _play(learner, rollout)


def _play(learner: Any, rollout: int) -> Play:
    from stable_baselines3.common.logger import Logger

    learner.set_logger(Logger(None, []))

    def play(steps: int) -> Played:
        before = learner.num_timesteps
        learner.learn(max(steps, rollout), reset_num_timesteps=False)
        return Played(learner.num_timesteps - before)

    return play


def _tables(opponent: bool) -> Play:
    """Tables with random actions: what the environment takes of the time of learning."""
    tables = _make_tables(opponent)
    tables.reset()
    keys, actions = np.arange(_TABLES, dtype=np.uint64), np.zeros(_TABLES, np.int64)

    def play(steps: int) -> Played:
        calls = -(-steps // _TABLES)
        for _ in range(calls):
            keys[:] += np.uint64(_TABLES)
            random_actions(tables.action_masks().view(np.int8), keys, actions)
            tables.step(actions)
        return Played(calls * _TABLES)

    return play


class OneSeat(gymnasium.Env[NDArray[Any], np.int64]):
    """A seat of the AEC environment against random play: an episode is a round, paid by its margin.

    Args:
        seat: the learner's.
    """

    def __init__(self, seat: int) -> None:
        self.observation_space: spaces.Space[NDArray[Any]] = observation_space("int8")
        self.action_space = spaces.Discrete(NUM_ENDS_ACTIONS)
        self._env: Any = fivesup_v0.env(reward="margin", episode="round", skip_forced=True)
        self._agent = self._env.possible_agents[seat]
        self._random = random.Random(seat)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Deal rounds until the learner comes to a decision in one."""
        super().reset(seed=seed)
        if seed is not None:
            self._random.seed(seed)
        self._env.reset(seed=seed)
        self._play_others()
        while self._over():
            self._env.reset()
            self._play_others()
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]:
        """Play the action, and on to the learner's next decision or the end of the round."""
        self._env.step(int(action))
        self._play_others()
        reward = self._env._cumulative_rewards[self._agent]
        return self._observation(), float(reward), self._over(), False, {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions, as MaskablePPO asks for them."""
        mask: NDArray[np.bool_] = self._env.observe(self._agent)["action_mask"].astype(np.bool_)
        return mask

    def _play_others(self) -> None:
        while not self._over() and self._env.agent_selection != self._agent:
            mask = self._env.observe(self._env.agent_selection)["action_mask"]
            self._env.step(self._random.choice(np.flatnonzero(mask).tolist()))

    def _over(self) -> bool:
        return all(self._env.terminations.values())

    def _observation(self) -> NDArray[np.int8]:
        observation: NDArray[np.int8] = self._env.observe(self._agent)["observation"]
        return observation
