"""PPO by RLlib: what each seat is paid, the same network in both forms, a run that learns, stops and goes on."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

pytest.importorskip("ray.rllib")

from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

from agents import make_agent
from agents.arena.blocks import block_scores, play_blocks
from agents.arena.statistics import estimate
from agents.network import NetworkAgent
from agents.rllib import (
    POLICY,
    FivesUpRllibEnv,
    RllibConfig,
    algorithm,
    algorithm_config,
    learned_weights,
    main,
    module_spec,
    resume,
    to_policy,
    train,
)
from agents.training.config import as_yaml, make_settings, read_values
from agents.training.run_folder import read_run
from fivesup_env.rules.state import num_sides
from fivesup_env.rules.view import view
from tests.processes import ROOT, next_line, script

SMALL = RllibConfig(seed=4, hidden=(16, 16), num_envs=3, batch_size=63, minibatch_size=21, epochs=1)

# Gymnasium remarks that every algorithm of RLlib registers its environment under the same name.
pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-multi-agent-env-v0:UserWarning")


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """RLlib seeds all generators of the process; here that ends with the test."""
    state = torch.random.get_rng_state(), np.random.get_state()
    yield
    torch.random.set_rng_state(state[0])
    np.random.set_state(state[1])


# What a seat is paid


class Watched(FivesUpRllibEnv):
    """Notes for every round that is over what each agent's decisions have earned, by the scores alone."""

    over: list[dict[str, tuple[float, ...]]]

    def reset(self, **given: Any) -> Any:
        result = super().reset(**given)
        self.margins: dict[str, list[float]] = defaultdict(list)
        self._note()
        return result

    def step(self, action: dict[str, int]) -> Any:
        result = super().step(action)
        if not result[2]["__all__"]:
            self._note()
            return result
        earned = {agent: np.diff([*before, self._margin(agent)]) / 4 for agent, before in self.margins.items()}
        Watched.over.append({agent: tuple(each.round(4).tolist()) for agent, each in earned.items()})
        return result

    def _note(self) -> None:
        agent = self.env.agent_selection
        self.margins[agent].append(self._margin(agent))

    def _margin(self, agent: str) -> float:
        """What the agent's side has over the mean of the other sides, in raw points."""
        seats = len(self.env.possible_agents)
        scores = [int(score) for score in self.env.record.scores[: num_sides(seats)]]
        own = scores.pop(int(agent[-1]) % len(scores))
        return own - sum(scores) / len(scores)


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_every_decision_is_paid_what_its_seat_got_until_its_next(seats: int) -> None:
    config = algorithm_config(replace(SMALL, num_players=seats, reward_scale=0.25))
    Watched.over = []
    runner = MultiAgentEnvRunner(config=config.environment(Watched), worker_index=0)
    paid: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    over = []
    for _ in range(20):  # every sample cuts the rounds that are in play
        for episode in runner.sample(num_timesteps=63):
            for agent, part in episode.agent_episodes.items():
                paid[episode.id_][agent] += part.get_rewards().tolist()
            if episode.is_done:
                over.append(paid[episode.id_])
    runner.stop()

    def told(rounds: list[Any]) -> Counter[Any]:
        return Counter(
            tuple(sorted((agent, tuple(np.round(rewards, 4).tolist())) for agent, rewards in each.items()))
            for each in rounds
        )

    assert len(over) > 50
    assert told(over) == told(Watched.over)
    if seats == 2:  # who loses is told, too, also where the other seat moved last
        both = [each for each in over if len(each) == 2]
        assert any(each["player_0"][-1] == -each["player_1"][-1] != 0 for each in both)


def test_processes_and_environments_play_other_deals() -> None:
    deals = set()
    for run, steps in ((0, 0), (1, 0), (0, 100)):  # the last one goes on with the first
        context = algorithm_config(replace(SMALL, seed=run), steps).env_config
        for worker in (0, 1, 2):
            env = FivesUpRllibEnv(EnvContext(context, worker_index=worker))
            for number in range(3):
                env.reset(seed=run + worker + number)  # as RLlib counts
                deals.add(int(env.env.record.seed))
                env.reset()
                deals.add(int(env.env.record.seed))
    assert len(deals) == 3 * 3 * 3 * 2


# The same network in both forms


def decisions(seats: int, count: int) -> tuple[dict[str, NDArray[np.float32]], Any]:
    """Decisions of random play: what RLlib's module sees of them, and the views."""
    env = FivesUpRllibEnv({"num_players": seats, "reward_scale": 1.0, "seed": 5})
    rng = np.random.default_rng(6)
    seen: list[dict[str, NDArray[np.float32]]] = []
    views = []
    observations, _ = env.reset(seed=1)
    while len(seen) < count:
        ((agent, observation),) = observations.items()
        seen.append(observation)
        views.append(view(env.env.record, int(agent[-1])))
        action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        observations, _, over, _, _ = env.step({agent: action})
        if over["__all__"]:
            observations, _ = env.reset()
    stacked = {name: np.stack([each[name] for each in seen]) for name in ("observations", "action_mask")}
    return stacked, np.array(views, views[0].dtype)


def check_same(module: Any, agent: NetworkAgent, seats: int) -> None:
    """Assert that both say the same of real decisions."""
    seen, views = decisions(seats, 200)
    masks = seen["action_mask"] > 0

    def batch() -> dict[str, Any]:  # the module takes out of it what it uses
        return {"obs": {name: torch.from_numpy(value) for name, value in seen.items()}}

    with torch.no_grad():
        logits = module.forward_inference(batch())["action_dist_inputs"].numpy()
        values = module.compute_values(batch()).numpy()
    ours = agent.logits(views)
    assert np.abs(ours[masks]).max() > 0.1
    np.testing.assert_allclose(logits[masks], ours[masks], rtol=1e-4, atol=1e-4)
    assert (logits[~masks] < -1e30).all()
    np.testing.assert_allclose(values, agent.values(views), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("seats", "hidden"), [(2, (24,)), (3, (32, 16)), (4, (24, 16, 8))])
def test_the_agent_computes_what_the_module_does(seats: int, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module = module_spec(RllibConfig(num_players=seats, hidden=hidden)).build()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3)
    check_same(module, NetworkAgent(to_policy(module.get_state(), hidden)), seats)


def test_weights_of_another_shape_are_refused() -> None:
    module = module_spec(RllibConfig(hidden=(8, 8))).build()
    with pytest.raises(RuntimeError, match="size mismatch"):
        to_policy(module.get_state(), (8, 4))


# A run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of some 12,000 decisions."""
    config = make_settings(RllibConfig, read_values(ROOT / "configs" / "rllib_smoke.yaml"))
    return train(replace(config, run=str(tmp_path_factory.mktemp("rllib") / "run"), total_steps=12_000))


def test_a_short_run_beats_random(run: Path) -> None:
    agent = make_agent(str(run / "checkpoints" / "last"))
    blocks = play_blocks(agent, make_agent("random"), 2, first=0, count=200, seed=2**63)
    assert estimate(block_scores(blocks, 2)).low > 0.5


def test_the_checkpoint_is_what_was_learned_and_a_run_goes_on(run: Path) -> None:
    before = NetworkAgent.load(run / "checkpoints" / "last")
    steps = json.loads((run / "checkpoints" / "last" / "meta.json").read_text())["steps"]
    assert 12_000 <= steps < 12_000 + 2048 + 64
    with algorithm(read_run(RllibConfig, run)) as algo:
        first = before.policy.state_dict()["action_net.weight"].numpy()
        assert not np.allclose(learned_weights(algo)["pi.net.mlp.0.weight"], first)
        algo.restore_from_path(str(run / "rllib"))
        learner = algo.learner_group._learner
        check_same(learner.module[POLICY].unwrapped(), before, 2)
        adam = learner.get_optimizer(POLICY).state_dict()["state"]
        assert {int(each["step"]) for each in adam.values()} == {int(adam[0]["step"])} and adam[0]["step"] > 100
    (run / "config.yaml").write_text(as_yaml(replace(read_run(RllibConfig, run), total_steps=steps + 1)))
    assert resume(run) == run
    after = json.loads((run / "checkpoints" / "last" / "meta.json").read_text())["steps"]
    assert steps + 2048 <= after < steps + 2048 + 64


# The command line


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--learning-rat", "1"], "unrecognized arguments: --learning-rat"),
        (["--num-players", "5"], "num_players must be within 2 .. 4, not 5"),
        (["--hidden", "[0]"], "hidden must be a list of positive widths"),
        (["--hidden", "[]"], "hidden must be a list of positive widths"),
        (["--run", ""], "run must be of type str, not None"),
        (["--run", ".."], "run must be the path of a new folder, not '..'"),
        (["--batch-size", "100"], "minibatch_size must be at most batch_size = 100, not 256"),
    ],
)
def test_wrong_flags_are_told(flags: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["--config", str(ROOT / "configs" / "rllib_smoke.yaml"), *flags])
    except SystemExit as error:
        status = int(str(error.code))
    assert status == 2
    assert told in capsys.readouterr().err


def test_wrong_keys_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.yaml"
    unknown = "unknown key 'num_env': did you mean 'num_envs'?"
    for text, told in (("num_env: 3", unknown), ("gamma: 2", "within 0 .. 1")):
        file.write_text(text)
        assert main(["--config", str(file)]) == 2
        error = capsys.readouterr().err
        assert f"error: {file}: " in error and told in error
    assert main(["--config", str(tmp_path / "none.yaml")]) == 2
    assert main(["--resume", str(tmp_path)]) == 2
    assert f"{tmp_path} holds no run" in capsys.readouterr().err
    assert main(["--resume", str(tmp_path), "--seed", "1"]) == 2
    assert "no other flags can be given" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["wrong.yaml"]


@pytest.mark.parametrize("name", ["rllib_2p", "rllib_smoke"])
def test_configurations_are_sound(name: str) -> None:
    config = make_settings(RllibConfig, read_values(ROOT / "configs" / f"{name}.yaml"))
    algorithm_config(config).validate()
    assert make_settings(RllibConfig, read_values(ROOT / "configs" / f"{name}.yaml")) == config


STOPPED = """
import signal
import sys
from agents.rllib import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
    sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_saves_and_a_process_of_its_own_can_play(tmp_path: Path) -> None:
    path, run = tmp_path / "stopped.py", tmp_path / "run"
    path.write_text(STOPPED)
    config = replace(SMALL, run=str(run), num_players=3, env_runners=1, save_every=1000)
    (tmp_path / "config.yaml").write_text(as_yaml(config))
    with script(path, "--config", str(tmp_path / "config.yaml")) as process:
        while "decisions" not in next_line(process):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert make_agent(str(run / "checkpoints" / "last")).num_players == 3  # type: ignore[attr-defined]
    assert read_run(RllibConfig, run) == config
    assert sorted(os.listdir(run)) == sorted(
        ["checkpoints", "command.txt", "config.yaml", "rllib", *(each.name for each in run.glob("events.*"))]
    )
