"""Networks as agents: what they say of views, and checkpoints, which are whole, of this version, and never executed."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents import make_agent  # noqa: E402
from agents.network import NetworkAgent, logits_and_values, make_policy, save_checkpoint  # noqa: E402
from fivesup_env import Match  # noqa: E402
from fivesup_env.actions import action_mask  # noqa: E402
from fivesup_env.observation import OBS_VERSION, encode, scaled  # noqa: E402
from fivesup_env.rules.state import STATE, States  # noqa: E402


def views_of(count: int) -> States:
    """Views of the seats to move in as many matches, each some actions old."""
    views: States = np.zeros(count, STATE)
    for row in range(count):
        match = Match(seed=row)
        for _ in range(row % 9):
            match.play(match.legal()[0])
        views[row] = match.view(match.turn).state
    return views


def masks_of(views: States) -> Any:
    return np.array([action_mask(view) for view in views])


def weights(checkpoint: Path) -> dict[str, Any]:
    return dict(torch.load(checkpoint / "policy.pt", weights_only=True))


def same_weights(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    save_checkpoint(tmp_path / "last", make_policy((8,)), (8,), steps=1)
    return tmp_path / "last"


# What a network says


def test_bfloat16_is_near_float32_and_leaves_weights_and_results_in_float32() -> None:
    torch.manual_seed(2)
    exact = make_policy((64, 32))
    coarse = make_policy((64, 32), precision="bfloat16")
    coarse.load_state_dict(exact.state_dict())
    observations = torch.from_numpy(np.array([encode(view) for view in views_of(50)]))
    one, other = (logits_and_values(each, observations) for each in (exact, coarse))
    for right, near in zip(one, other, strict=True):
        assert near.dtype == torch.float32
        assert 0 < (near - right).abs().max() < 0.03 * right.abs().max()  # eight bits of mantissa, three roundings
    torch.autograd.backward(other[0].square().sum())
    weights = dict(coarse.named_parameters())
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    gradient = weights["features_extractor.layers.0.weight"].grad
    assert gradient is not None and gradient.dtype == torch.float32 and gradient.abs().sum() > 0
    views = views_of(50)
    assert np.array_equal(NetworkAgent(coarse).logits(views), NetworkAgent(exact).logits(views))  # who plays: float32


@pytest.mark.parametrize("hidden", [(8,), (16, 12)])
def test_logits_and_values_are_those_of_its_layers(hidden: tuple[int, ...], tmp_path: Path) -> None:
    """The checkpoint's weights, multiplied out by hand."""
    torch.manual_seed(2)
    save_checkpoint(tmp_path / "net", make_policy(hidden), hidden)
    agent, views = NetworkAgent.load(tmp_path / "net"), views_of(40)
    held = {name: tensor.double().numpy() for name, tensor in weights(tmp_path / "net").items()}
    features = np.array([scaled(encode(view)) for view in views], np.float64)
    for layer in range(len(hidden)):
        name = f"features_extractor.layers.{2 * layer}"
        features = np.maximum(features @ held[f"{name}.weight"].T + held[f"{name}.bias"], 0)
    logits, values = (
        features @ held[f"{head}.weight"].T + held[f"{head}.bias"] for head in ("action_net", "value_net")
    )
    assert agent.logits(views).dtype == agent.values(views).dtype == np.float32
    np.testing.assert_allclose(agent.logits(views), logits, rtol=0, atol=1e-5)
    np.testing.assert_allclose(agent.values(views), values[:, 0], rtol=0, atol=1e-5)
    assert np.ptp(agent.values(views)) > 0.01


def test_batches_of_any_size_give_the_same_bits() -> None:
    torch.manual_seed(3)
    agent, views = NetworkAgent(make_policy((64, 64))), views_of(75)
    logits, values = agent.logits(views), agent.values(views)
    order = np.random.default_rng(0).permutation(75)
    for size in (1, 7, 31, 32, 33, 64, 75):
        parts = [order[start : start + size] for start in range(0, 75, size)]
        assert np.array_equal(np.concatenate([agent.logits(views[part]) for part in parts]), logits[order])
        assert np.array_equal(np.concatenate([agent.values(views[part]) for part in parts]), values[order])


def test_a_checkpoint_takes_its_most_probable_legal_action(checkpoint: Path) -> None:
    agent = make_agent(str(checkpoint))
    assert isinstance(agent, NetworkAgent)
    assert same_weights(agent.policy.state_dict(), weights(checkpoint))
    views = views_of(40)
    masks = masks_of(views)
    logits = agent.logits(views)
    best = [max(np.flatnonzero(mask), key=row.__getitem__) for mask, row in zip(masks, logits, strict=True)]
    actions = agent.act(views, masks, np.zeros(40, np.uint64))
    assert actions.tolist() == best
    assert actions.tolist() != logits.argmax(axis=1).tolist()


def test_samples_follow_the_policy(checkpoint: Path) -> None:
    """Shares of actions are within four standard errors of the softmax over the legal ones; a key gives one action."""
    agent = make_agent(str(checkpoint), sample=True)
    assert isinstance(agent, NetworkAgent)
    views = np.repeat(views_of(1), 4000)
    masks = masks_of(views[:1]).repeat(4000, axis=0)
    keys = np.random.default_rng(0).integers(2**64, size=4000, dtype=np.uint64)
    actions = agent.act(views, masks, keys)
    legal = np.flatnonzero(masks[0])
    logits = agent.logits(views[:1])[0, legal].astype(np.float64)
    wanted = np.exp(logits) / np.exp(logits).sum()
    shares = (actions[:, None] == legal).mean(axis=0)
    assert len(legal) > 2
    assert shares.sum() == pytest.approx(1)
    assert (np.abs(shares - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 4000)).all()
    assert np.array_equal(agent.act(views[5:9], masks[5:9], keys[5:9]), actions[5:9])


# Checkpoints


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.folder),)


def test_nothing_in_a_checkpoint_is_executed(checkpoint: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with (checkpoint / "policy.pt").open("wb") as file:
        pickle.dump(Malicious(made), file)
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))
    for content in (Malicious(made), {**make_policy((8,)).state_dict(), "more": Malicious(made)}):
        torch.save(content, checkpoint / "policy.pt")
        with pytest.raises(ValueError, match=r"policy\.pt"):
            make_agent(str(checkpoint))
    assert not made.exists()
    pickle.loads(pickle.dumps(Malicious(made)))
    assert made.exists()  # it would have worked


@pytest.mark.parametrize("size", [0, 1, 100, 5000, -1])
def test_truncated_weights_are_refused(checkpoint: Path, size: int) -> None:
    whole = (checkpoint / "policy.pt").read_bytes()
    (checkpoint / "policy.pt").write_bytes(whole[:size])
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))


def test_missing_files_are_refused(checkpoint: Path) -> None:
    (checkpoint / "policy.pt").rename(checkpoint / "hidden")
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))
    (checkpoint / "hidden").rename(checkpoint / "policy.pt")
    (checkpoint / "meta.json").unlink()
    with pytest.raises(ValueError, match=r"meta\.json"):
        NetworkAgent.load(checkpoint)
    with pytest.raises(ValueError, match="no agent"):
        make_agent(str(checkpoint))


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("obs_version", 0, "made for obs_version = 0; this version of fivesup has 2"),
        ("obs_version", "2", "made for obs_version = '2'"),
        ("obs_size", 12, "obs_size = 12"),
        ("num_actions", 450, "num_actions = 450"),
        ("network_version", 1, r"made for network_version = 1; this version of fivesup has 2"),
        ("hidden", [9], r"policy\.pt"),
        ("hidden", [8, 8], r"policy\.pt"),
        ("hidden", [-8], r"policy\.pt"),
        ("hidden", [], r"policy\.pt"),
        ("hidden", 8, r"meta\.json"),
        ("hidden", ["wide"], r"meta\.json"),
        ("hidden", None, r"meta\.json"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(checkpoint: Path, key: str, value: Any, named: str) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    (checkpoint / "meta.json").write_text(json.dumps({**meta, key: value}), encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        make_agent(str(checkpoint))
    del meta[key]
    (checkpoint / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    with pytest.raises(ValueError, match=r"meta\.json"):
        make_agent(str(checkpoint))


@pytest.mark.parametrize("value", [-0.1, "x", None, [1], float("inf"), float("nan")])
def test_what_a_logit_is_worth_is_checked(checkpoint: Path, value: Any) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    assert NetworkAgent.load(checkpoint).value_per_logit is None
    (checkpoint / "meta.json").write_text(json.dumps({**meta, "value_per_logit": 0.02}), encoding="utf-8")
    assert NetworkAgent.load(checkpoint).value_per_logit == 0.02
    (checkpoint / "meta.json").write_text(json.dumps({**meta, "value_per_logit": value}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"meta\.json"):
        NetworkAgent.load(checkpoint)


@pytest.mark.parametrize("text", ["", "[]", "null", "7", "{", '{"hidden": [8]}'])
def test_a_meta_file_that_is_none_is_refused(checkpoint: Path, text: str) -> None:
    (checkpoint / "meta.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"meta\.json"):
        make_agent(str(checkpoint))


def test_loading_leaves_the_callers_generators_alone(checkpoint: Path) -> None:
    """Also when the checkpoint is refused."""

    def generators() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]

    before = generators()
    make_agent(str(checkpoint), sample=True)
    assert generators() == before
    (checkpoint / "policy.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"policy\.pt"):
        make_agent(str(checkpoint))
    assert generators() == before


def test_a_meta_file_tells_what_the_checkpoint_is(checkpoint: Path) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    assert {"fivesup", "torch", "sb3_contrib", "stable_baselines3", "gymnasium", "numpy"} == set(meta.pop("versions"))
    assert meta == {
        "steps": 1,
        "hidden": [8],
        "network_version": 2,
        "obs_version": OBS_VERSION,
        "obs_size": 696,
        "num_actions": 163,
    }


def test_a_checkpoint_replaces_the_one_before(checkpoint: Path) -> None:
    policy = make_policy((4, 4))
    save_checkpoint(checkpoint, policy, (4, 4), steps=2)
    agent = make_agent(str(checkpoint))
    assert isinstance(agent, NetworkAgent)
    assert same_weights(agent.policy.state_dict(), policy.state_dict())
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last"]


class Crash(Exception):
    """The end of a process."""


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("after", range(12))
def test_a_crash_while_saving_leaves_the_old_checkpoint_or_the_new(
    checkpoint: Path, after: int, existing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that touches the disk may be the last one: it, and all that follow, do not happen any more."""
    old = weights(checkpoint)
    if not existing:
        shutil.rmtree(checkpoint)
    policy = make_policy((8,))
    new = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    calls = 0

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise Crash
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", dying(torch.save))
        for name in ("rename", "replace"):
            patch.setattr(os, name, dying(getattr(os, name)))
        patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        for name in ("mkdir", "write_text", "rmdir", "unlink", "rename", "replace"):
            patch.setattr(Path, name, dying(getattr(Path, name)))
        try:
            save_checkpoint(checkpoint, policy, (8,), steps=2)
        except Crash:
            assert calls > after
        else:
            assert calls <= after
    if existing or checkpoint.exists():
        agent = make_agent(str(checkpoint))
        assert isinstance(agent, NetworkAgent)
        assert any(same_weights(agent.policy.state_dict(), each) for each in ((old, new) if existing else (new,)))
    save_checkpoint(checkpoint, policy, (8,), steps=3)
    assert same_weights(weights(checkpoint), new)
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last"]
