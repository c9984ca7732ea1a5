"""Fitting to a search: which decisions come up when, losses against numpy, and a small network that learns them."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.network import make_policy  # noqa: E402
from agents.training.config import FitConfig  # noqa: E402
from agents.training.distill import Fit, HeldOut, Minibatches, held_out, joined, losses_of, value_per_logit  # noqa: E402
from agents.training.search_data import Examples, SearchPlan, load_shard, play_shard, replay, save_shard  # noqa: E402
from fivesup_env.observation import scaled  # noqa: E402

SHARDS = 5


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five shards of a match each."""
    folder = tmp_path_factory.mktemp("shards")
    plan = SearchPlan(teacher="pimc:4", matches=1, seed=30)
    for number in range(SHARDS):
        save_shard(folder / f"{number}.npz", play_shard(plan, number), plan)
    return [folder / f"{number}.npz" for number in range(SHARDS)]


@pytest.fixture(scope="module")
def examples(paths: list[Path]) -> Examples:
    return joined([replay(load_shard(path)) for path in paths])


def rows_of(examples: Examples) -> list[bytes]:
    return [b"".join(part.tobytes() for part in row) for row in zip(*examples, strict=True)]


def shuffled(paths: list[Path], **options: Any) -> Minibatches:
    return Minibatches(paths, **{"passes": 2, "size": 32, "group": 2, "seed": 3, **options})


# Minibatches


def test_the_order_follows_from_the_seed_and_can_be_taken_up_anywhere(paths: list[Path]) -> None:
    whole = [rows_of(part) for part in shuffled(paths).starting_at(0)]
    assert len(whole) == len(shuffled(paths))
    for step in range(0, len(whole) + 1):
        rest = shuffled(paths).starting_at(step)
        assert [rows_of(part) for part in rest] == whole[step:]
    other = [rows_of(part) for part in shuffled(paths, seed=4).starting_at(0)]
    assert other != whole
    assert whole[: len(whole) // 2] != whole[len(whole) // 2 :]  # nor is a pass like the one before


def test_every_decision_comes_up_once_a_pass(paths: list[Path], examples: Examples) -> None:
    total, wanted = len(examples.before), Counter(rows_of(examples))
    for group in (1, 2, SHARDS, 100):  # in minibatches of one nothing is left of a group
        minibatches = shuffled(paths, size=1, group=group)
        assert len(minibatches) == 2 * total
        found = [row for part in minibatches.starting_at(0) for row in rows_of(part)]
        assert Counter(found[:total]) == Counter(found[total:]) == wanted


def test_no_more_is_left_out_than_what_is_left_of_each_group(paths: list[Path], examples: Examples) -> None:
    total, once = len(examples.before), Counter(rows_of(examples))
    minibatches = shuffled(paths, size=50, group=SHARDS)  # one group a pass
    parts = [rows_of(part) for part in minibatches.starting_at(0)]
    assert [len(part) for part in parts] == [50] * (2 * (total // 50))
    for half in (parts[: total // 50], parts[total // 50 :]):
        assert not Counter(row for part in half for row in part) - once
    grouped = [rows_of(part) for part in shuffled(paths, size=50).starting_at(0)]
    assert {len(part) for part in grouped} == {50}
    assert 2 * total - 50 * len(grouped) < 50 * 2 * (SHARDS // 2)
    assert not Counter(row for part in grouped for row in part) - Counter(rows_of(examples) * 2)


def test_groups_mix_their_shards(paths: list[Path]) -> None:
    sources = {row: number for number, path in enumerate(paths) for row in rows_of(replay(load_shard(path)))}
    for group, mixed in ((1, 1), (2, 2), (SHARDS, SHARDS)):
        parts = shuffled(paths, group=group, size=60).starting_at(0)
        found = [len({sources[row] for row in rows_of(part)}) for part in parts]
        assert max(found) >= mixed
        assert max(found) < group + 2  # five shards in groups of two: one of them has three


def test_minibatches_are_no_larger_than_the_smallest_group(paths: list[Path], examples: Examples) -> None:
    total = len(examples.before)
    whole = [rows_of(part) for part in shuffled(paths, size=10_000, group=SHARDS).starting_at(0)]
    assert [Counter(part) for part in whole] == [Counter(rows_of(examples))] * 2
    smallest = min(len(replay(load_shard(path)).before) for path in paths)
    singles = [len(part.before) for part in shuffled(paths, size=10_000, group=1).starting_at(0)]
    assert set(singles) == {smallest}
    assert total // smallest >= SHARDS


def test_a_file_that_is_no_shard_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"0\.npz: no shard"):
        shuffled([tmp_path / "0.npz"])


# Losses


def network_output(policy: Any, observations: Any) -> tuple[Any, Any]:
    """Logits and values of a network with one hidden layer, in double precision."""
    weights = {name: each.numpy().astype(np.float64) for name, each in policy.state_dict().items()}
    layer = "features_extractor.layers.0"
    hidden = np.maximum(scaled(observations) @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"], 0)
    logits = hidden @ weights["action_net.weight"].T + weights["action_net.bias"]
    return logits, (hidden @ weights["value_net.weight"].T + weights["value_net.bias"])[:, 0]


def softmax(values: Any) -> Any:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def value_targets(paths: list[Path], scale: float) -> Any:
    """From the shards themselves: the best value of every decision, less the chance at the round's beginning."""
    targets = []
    for shard in map(load_shard, paths):
        whole, place = replay(shard), 0
        for count, before in zip(whole.masks.sum(axis=1, dtype=np.int64), whole.before, strict=True):
            best = shard.values[place : place + count].max() / 65535
            targets.append((best - float(before)) * scale)
            place += count
    return np.array(targets)


def noisy_policy(seed: int) -> Any:
    """A network whose outputs are far from 0."""
    torch.manual_seed(seed)
    policy = make_policy((8,))
    with torch.no_grad():
        for each in policy.parameters():
            each.add_(0.5 * torch.randn(each.shape))
    return policy


@pytest.mark.parametrize(("temperature", "scale"), [(0.01, 10.0), (0.3, 1.0), (1e-4, 2.0)])
def test_losses_are_those_of_numpy(temperature: float, scale: float, paths: list[Path], examples: Examples) -> None:
    policy = noisy_policy(1)
    logits, predicted = network_output(policy, examples.observations)
    policy_losses = []
    for row in range(len(logits)):
        legal = np.flatnonzero(examples.masks[row])
        target = softmax(examples.values[row, legal].astype(np.float64) / temperature)
        policy_losses.append(-(target * np.log(softmax(logits[row, legal]))).sum())
    found = losses_of(policy, examples, temperature, scale)
    assert found.policy.item() == pytest.approx(np.mean(policy_losses), rel=1e-4)
    wanted = ((predicted - value_targets(paths, scale)) ** 2).mean()
    assert found.value.item() == pytest.approx(wanted, rel=1e-4)


def test_held_out_measures_are_those_of_numpy(paths: list[Path], examples: Examples) -> None:
    policy = noisy_policy(2)
    logits, predicted = network_output(policy, examples.observations)
    regrets, same, across, up = [], [], [], []
    for row in range(len(logits)):
        legal = np.flatnonzero(examples.masks[row])
        values = examples.values[row, legal]
        chosen = int(np.argmax(logits[row, legal]))
        regrets.append(values.max() - values[chosen])
        same.append(chosen == np.argmax(values))
        policy_there, logits_there = softmax(logits[row, legal]), logits[row, legal]
        roots = np.sqrt(policy_there)
        across += list(roots * (logits_there - policy_there @ logits_there))
        up += list(roots * (values - policy_there @ values))
    error = np.sqrt(((predicted - value_targets(paths, 5.0)) ** 2).mean())
    slope = np.linalg.lstsq(np.array(across)[:, None], np.array(up), rcond=None)[0].item()
    assert slope > 0
    found = held_out(policy, examples, 5.0)
    wanted = HeldOut(float(np.mean(regrets)), float(np.mean(same)), float(error), slope)
    assert found == pytest.approx(wanted, rel=1e-3)
    assert found.regret > 0
    assert 0 < found.agreement < 1


def test_what_a_logit_is_worth() -> None:
    """Two decisions of two legal actions each, the policy 3 to 1 and 1 to 1; the illegal action has no say."""
    masks, ln3 = np.array([[True, False, True], [True, True, False]]), np.log(3)
    logits = np.array([[ln3, 50, 0], [2, 2, 9]], np.float32)
    values = np.array([[0.5 + 0.1 * ln3, 0, 0.5], [0.4, 0.8, 0]], np.float32)
    assert value_per_logit(logits, masks, values) == pytest.approx(0.1)
    assert value_per_logit(-logits, masks, values) == 0
    assert value_per_logit(0 * logits, masks, values) == 0


def test_noise_in_what_it_is_fitted_to_makes_a_logit_worth_more_than_the_temperature() -> None:
    """The mean of softmaxes of noisy values is flatter than the softmax of the values; the slope tells by how much."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 0.01, (400, 3))
    targets = [np.exp((values + rng.normal(0, 0.03, values.shape)) / 0.01) for _ in range(400)]
    policy = np.mean([each / each.sum(axis=1, keepdims=True) for each in targets], axis=0)
    masks, logits = np.ones(values.shape, np.bool_), np.log(policy).astype(np.float32)
    slope = value_per_logit(logits, masks, values.astype(np.float32))
    assert 0.02 < slope < 0.04
    assert (
        np.std(values - values.mean(axis=1, keepdims=True) - slope * (logits - logits.mean(axis=1, keepdims=True)))
        < 0.003
    )


def test_the_losses_move_neither_illegal_actions_nor_the_caller(examples: Examples) -> None:
    policy, before = noisy_policy(3), torch.get_rng_state()
    few = examples.take(np.arange(1))
    loss = losses_of(policy, few, 0.01, 10.0).policy
    held_out(policy, few, 10.0)
    gradient = torch.autograd.grad(loss, policy.action_net.bias)[0].numpy()
    assert not gradient[few.masks[0] == 0].any()
    assert gradient[few.masks[0] != 0].all()
    assert torch.equal(torch.get_rng_state(), before)


# Fitting


def made_fit(paths: list[Path], seed: int = 0, **config: Any) -> Fit:
    torch.manual_seed(seed)
    options: dict[str, Any] = {"learning_rate": 0.01, "warmup_steps": 5, "temperature": 0.05, **config}
    return Fit(make_policy((16,)), FitConfig(**options), shuffled(paths, passes=config.get("passes", 2)), 10.0)


def test_a_small_network_fits_a_small_set(paths: list[Path], examples: Examples) -> None:
    fit = made_fit(paths, passes=60)
    first = losses_of(fit.policy, examples, 0.05, 10.0)
    for _ in fit.run():
        pass
    last = losses_of(fit.policy, examples, 0.05, 10.0)
    targets = [softmax(row[mask != 0] / 0.05) for row, mask in zip(examples.values, examples.masks, strict=True)]
    least = np.mean([-(target * np.log(target)).sum() for target in targets])
    # The policy's loss cannot fall below the mean entropy of its target; the value's falls to 0 where all is learnt.
    assert least <= last.policy.item() < least + 0.05 < first.policy.item()
    assert last.value.item() < 0.05 < 0.5 < first.value.item()
    assert held_out(fit.policy, examples, 10.0).regret < 0.002


def test_a_fit_goes_on_where_it_was(paths: list[Path]) -> None:
    whole = made_fit(paths)
    losses = [(float(each.policy), float(each.value)) for each in whole.run()]
    assert len(losses) == whole.step == len(whole.minibatches)
    for stop in (0, 1, len(losses) // 2, len(losses) - 1):
        stopped = made_fit(paths)
        running = stopped.run()
        found = [next(running) for _ in range(stop)]
        state = copy.deepcopy(stopped.state_dict())
        resumed = made_fit(paths, seed=9)
        resumed.load_state_dict(state)
        found += list(resumed.run())
        assert [(float(each.policy), float(each.value)) for each in found] == losses
        for one, other in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
            assert torch.equal(one, other)


def test_the_learning_rate_rises_and_falls(paths: list[Path]) -> None:
    fit = made_fit(paths, learning_rate=0.1, warmup_steps=4)
    total, used = len(fit.minibatches), []
    for _ in fit.run():
        used.append(fit.optimizer.param_groups[0]["lr"])
    wanted = [0.1 * min(1, (step + 1) / 4) * (1 - step / total) for step in range(total)]
    assert used == pytest.approx(wanted)


def test_the_value_loss_is_weighed(paths: list[Path]) -> None:
    weights = []
    for coef in (0.0, 0.5):
        fit = made_fit(paths, value_coef=coef)
        before = fit.policy.value_net.weight.detach().clone()
        next(fit.run())
        weights.append(torch.equal(fit.policy.value_net.weight, before))
    assert weights == [True, False]
