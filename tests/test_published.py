"""The networks that come with the package, and how a checkpoint becomes one of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents import make_agent  # noqa: E402
from agents.agent import NETWORKS  # noqa: E402
from agents.arena.blocks import play_blocks, scores_of_a  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.training.config import as_yaml, make_config  # noqa: E402
from agents.training.publish import publish  # noqa: E402
from fivesup_env import Match  # noqa: E402
from fivesup_env.rules.state import STATE, States  # noqa: E402


def first_views(seats: int, count: int) -> States:
    """What the starters of as many matches see."""
    views: States = np.zeros(count, STATE)
    for row in range(count):
        match = Match(seats, seed=row)
        views[row] = match.view(match.turn).state
    return views


# Long matches told what each wins against greedy (docs/experiments.md); 400 of them are within these floors surely.
@pytest.mark.parametrize(("name", "seats", "floor"), [("net-2p", 2, 0.78), ("net-3p", 3, 0.52), ("net-4p", 4, 0.7)])
def test_a_network_of_the_package_beats_greedy(name: str, seats: int, floor: float) -> None:
    network, greedy = make_agent(name), make_agent("greedy")
    size = 3 if seats == 3 else 2
    blocks = play_blocks(network, greedy, seats, first=0, count=400 // size, seed=5)
    assert not blocks.forfeit_reasons[0]
    assert scores_of_a(blocks, seats).mean() > floor


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_the_package_is_for_so_many_seats_only(name: str) -> None:
    agent = make_agent(name)
    assert isinstance(agent, NetworkAgent)
    assert agent.num_players == int(name[4])
    assert agent.reward_scale == 10.0
    assert agent.value_per_logit is not None
    assert 0.01 < agent.value_per_logit < 0.03  # the temperature of the fit, and more where its targets were noisy
    with pytest.raises(ValueError, match=f"trained for {name[4]} seats"):
        agent.logits(first_views(5 - int(name[4]) if name[4] != "4" else 2, 1))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_the_package_says_how_it_was_made(name: str) -> None:
    agent_meta = json.loads((Path(make_agent.__code__.co_filename).parent / "data" / name / "meta.json").read_text())
    assert len(agent_meta["commit"]) >= 7
    assert f"num_players: {name[4]}" in agent_meta["config"]


def test_a_published_checkpoint_thinks_alike(tmp_path: Path) -> None:
    torch.manual_seed(3)
    run, policy = tmp_path / "run", make_policy((32, 32))
    config = make_config({"hidden": [32, 32], "num_players": 3})
    save_checkpoint(run / "checkpoints" / "last", policy, (32, 32), num_players=3, value_per_logit=0.02)
    (run / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
    publish(run / "checkpoints" / "last", tmp_path / "net", commit="1234567")
    before, after = NetworkAgent.load(run / "checkpoints" / "last"), NetworkAgent.load(tmp_path / "net")
    assert (after.num_players, after.value_per_logit) == (3, 0.02)
    views = first_views(3, 10)
    np.testing.assert_allclose(after.logits(views), before.logits(views), atol=1e-4)
    np.testing.assert_allclose(after.values(views), before.values(views), atol=5e-3)
    assert (after.logits(views) != before.logits(views)).any()
    size = sum(tensor.numel() for tensor in policy.features_extractor.parameters())
    assert (tmp_path / "net" / "policy.pt").stat().st_size < 3 * size  # two bytes a weight, each weight once
    meta = json.loads((tmp_path / "net" / "meta.json").read_text(encoding="utf-8"))
    assert meta["commit"] == "1234567"
    assert "num_players: 3" in meta["config"]


def test_what_is_no_checkpoint_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"meta\.json"):
        publish(tmp_path, tmp_path / "net")
    assert not (tmp_path / "net").exists()
