"""Advantages along each seat's own decisions, against sums written out; the buffer that keeps them; the regulariser."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.distributions import MaskableCategorical  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from torch.distributions import Categorical, kl_divergence  # noqa: E402

from agents.network import logits_and_values, policy_options  # noqa: E402
from agents.training.seat_ppo import (  # noqa: E402
    RegularizedPolicy,
    SeatRolloutBuffer,
    masked_distribution,
    seat_advantages,
)
from agents.training.tables import SelfPlayVecEnv  # noqa: E402
from tests.playing import SEATS  # noqa: E402


@dataclasses.dataclass
class Rollout:
    """What `seat_advantages` takes."""

    seats: NDArray[np.int64]
    rewards: NDArray[np.float32]
    ended: NDArray[np.bool_]
    values: NDArray[np.float32]
    last_seats: NDArray[np.int64]
    last_values: NDArray[np.float32]

    def computed(self, gamma: float, gae_lambda: float) -> tuple[Any, Any, Any]:
        """Chain rewards, advantages, and where they are known."""
        chain, advantages = (np.full(self.values.shape, np.nan, np.float32) for _ in range(2))
        known = np.zeros(self.values.shape, np.bool_)
        last = self.last_seats, self.last_values, gamma, gae_lambda
        seat_advantages(self.seats, self.rewards, self.ended, self.values, *last, chain, advantages, known)
        return chain, advantages, known


def slow(rollout: Rollout, gamma: float, gae_lambda: float) -> tuple[Any, Any, Any]:
    """The same: forward from every decision to its seat's next one, and a sum over each chain."""
    chain, advantages = np.zeros_like(rollout.values), np.zeros_like(rollout.values)
    known = np.zeros(rollout.values.shape, np.bool_)
    for table in range(rollout.values.shape[1]):
        links = [link(rollout, table, step, gamma) for step in range(len(rollout.values))]
        for step, (earned, _, after) in enumerate(links):
            chain[step, table], known[step, table] = earned, after is not None
            if after is not None:
                advantages[step, table] = chained(links, step, gamma * gae_lambda)
    return chain, advantages, known


def link(rollout: Rollout, table: int, step: int, gamma: float) -> tuple[float, float, int | None]:
    """What a decision's seat earns until its next one, the temporal difference, and the step of that next one.

    That is -1 where the chain ends or stands before the value after the rollout, and None where it is not known.
    """
    seat, value, earned = rollout.seats[step, table], float(rollout.values[step, table]), 0.0
    for later in range(step, len(rollout.values)):
        if later > step and rollout.seats[later, table] == seat:
            return earned, earned + gamma * float(rollout.values[later, table]) - value, later
        earned += float(rollout.rewards[later, table, seat])
        if rollout.ended[later, table]:
            return earned, earned - value, -1
    if rollout.last_seats[table] == seat:
        return earned, earned + gamma * float(rollout.last_values[table]) - value, -1
    return earned, 0.0, None


def chained(links: list[tuple[float, float, int | None]], step: int, decay: float) -> float:
    """The sum of the temporal differences from this decision on, each later one decayed once more."""
    total, weight, at = 0.0, 1.0, step
    while at >= 0:
        _, delta, after = links[at]
        if after is None:
            break
        total, weight, at = total + weight * delta, weight * decay, after
    return total


def random_rollout(seed: int, num_seats: int) -> Rollout:
    """Anything, also what no game plays: seats in any order, pay at any time."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    return Rollout(
        rng.integers(num_seats, size=shape),
        rng.normal(size=(*shape, num_seats)).astype(np.float32),
        rng.random(shape) < rng.choice([0.0, 0.05, 0.3, 1.0]),
        rng.normal(size=shape).astype(np.float32),
        rng.integers(num_seats, size=shape[1]),
        rng.normal(size=shape[1]).astype(np.float32),
    )


@pytest.mark.parametrize("num_seats", SEATS)
def test_advantages_are_sums_along_each_seats_own_chain(num_seats: int) -> None:
    kinds = set()
    for seed in range(150):
        rollout, rng = random_rollout(seed, num_seats), np.random.default_rng(seed + 1000)
        gamma, gae_lambda = rng.choice([0.0, 0.9, 1.0], size=2).tolist()
        wanted, found = slow(rollout, gamma, gae_lambda), rollout.computed(gamma, gae_lambda)
        np.testing.assert_allclose(found[0], wanted[0], atol=1e-5)
        np.testing.assert_allclose(found[1], wanted[1], atol=1e-4)
        np.testing.assert_array_equal(found[2], wanted[2])
        kinds |= {(bool(known), bool(advantage)) for known, advantage in zip(found[2].flat, found[1].flat, strict=True)}
    assert kinds == {(True, True), (False, False)}


def scripted(seats: list[int], values: list[float], pay: dict[int, list[float]], last: tuple[int, float]) -> Rollout:
    """One table; `pay` has what the seats earn in the steps in which a round ends."""
    steps, num_seats = len(seats), len(next(iter(pay.values())))
    rewards, ended = np.zeros((steps, 1, num_seats), np.float32), np.zeros((steps, 1), np.bool_)
    for step, earned in pay.items():
        rewards[step, 0], ended[step, 0] = earned, True
    return Rollout(
        np.array(seats)[:, None],
        rewards,
        ended,
        np.array(values, np.float32)[:, None],
        np.array([last[0]]),
        np.array([last[1]], np.float32),
    )


def test_a_round_worked_out_by_hand() -> None:
    # Seat 0 goes out in step 2, seat 2 had no decision; the next round stops with seat 0 to move, which expects 2.
    rollout = scripted([0, 1, 0, 2, 0, 2], [0.5, 0.2, 1.0, 0.3, 0.1, -0.4], {2: [4.0, -2.0, -2.0]}, (0, 2.0))
    chain, advantages, known = rollout.computed(1.0, 0.5)
    assert chain[:, 0].tolist() == [0.0, -2.0, 4.0, 0.0, 0.0, 0.0]
    # 1 - 0.5 + 3 / 2; -2 - 0.2; 4 - 1; -0.4 - 0.3 with nothing known beyond; 2 - 0.1; nothing known.
    np.testing.assert_allclose(advantages[:, 0], [2.0, -2.2, 3.0, -0.7, 1.9, 0.0], rtol=1e-6)
    assert known[:, 0].tolist() == [True, True, True, True, True, False]


def test_chains_do_not_cross_the_end_of_a_round() -> None:
    # Both seats decide once in each of three rounds; in the first another seat's move ends it, in the second its own.
    pay = {1: [-1.0, 1.0], 3: [2.0, -2.0], 5: [-3.0, 3.0]}
    rollout = scripted([0, 1, 1, 0, 0, 1], [0.5] * 6, pay, (1, 9.0))
    for gamma, gae_lambda in ((1.0, 1.0), (0.5, 0.3)):
        chain, advantages, known = rollout.computed(gamma, gae_lambda)
        assert chain[:, 0].tolist() == [-1.0, 1.0, -2.0, 2.0, -3.0, 3.0]
        assert advantages[:, 0].tolist() == [-1.5, 0.5, -2.5, 1.5, -3.5, 2.5]
        assert known.all()


def test_nothing_is_taken_for_0_where_the_rollout_stops() -> None:
    rollout = scripted([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0], {3: [0.0] * 4}, (1, 5.0))
    rollout.ended[3] = False
    _, advantages, known = rollout.computed(1.0, 1.0)
    assert known[:, 0].tolist() == [False, True, False, False]
    assert advantages[:, 0].tolist() == [0.0, 4.0, 0.0, 0.0]


def test_with_lambda_1_a_seats_return_is_what_it_earns_to_the_rounds_end() -> None:
    pay = {4: [3.0, -1.0, -2.0]}
    rollout = scripted([0, 0, 1, 2, 0], [0.3, -0.2, 0.7, 0.1, 0.9], pay, (2, 8.0))
    _, advantages, _ = rollout.computed(1.0, 1.0)
    returns = advantages[:, 0] + rollout.values[:, 0]
    np.testing.assert_allclose(returns, [3.0, 3.0, -1.0, -2.0, 3.0], rtol=1e-6)


# The buffer


def filled(num_players: int, steps: int, num_envs: int, seed: int = 0) -> SeatRolloutBuffer:
    """A rollout of random play whose values and log-probabilities number the decisions."""
    tables = SelfPlayVecEnv(num_envs, num_players=num_players, seed=3, reward_scale=10.0)
    buffer = SeatRolloutBuffer(
        steps, tables.observation_space, tables.action_space, "cpu", 0.9, 1.0, num_envs, tables=tables
    )
    rng = np.random.default_rng(seed)
    observations: Any = tables.reset()
    starts = np.ones(num_envs, np.bool_)
    for step in range(steps):
        masks = tables.action_masks()
        actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
        after, rewards, dones, _ = tables.step(actions)
        numbers = torch.arange(num_envs) + step * num_envs
        values, log_probs = rng.normal(size=num_envs).astype(np.float32), numbers.float()
        buffer.add(observations, actions, rewards, starts, torch.from_numpy(values), log_probs, action_masks=masks)
        observations, starts = after, dones
    buffer.compute_returns_and_advantage(torch.from_numpy(rng.normal(size=(num_envs, 1))), starts)
    return buffer


@pytest.mark.parametrize("num_players", SEATS)
def test_each_seats_rewards_add_up_to_what_its_rounds_pay(num_players: int) -> None:
    buffer = filled(num_players, 120, 4)
    rounds = losers = 0
    for table in range(4):
        ends = np.flatnonzero(buffer.ended[:, table])
        for first, last in zip(ends[:-1] + 1, ends[1:], strict=True):
            part = slice(first, last + 1)
            seats, chain = buffer.seats[part, table], buffer.rewards[part, table]
            paid = buffer.seat_rewards[part, table].sum(axis=0)
            assert (
                abs(paid.sum() if num_players < 4 else paid[0] + paid[1]) < 1e-5
            )  # a win for one is a loss for others
            for seat in set(seats.tolist()):
                assert chain[seats == seat].sum() == pytest.approx(paid[seat], abs=1e-5)
                losers += paid[seat] < 0
            rounds += 1
    assert rounds > 20
    assert losers > 20


def test_the_buffer_computes_what_its_tables_played() -> None:
    buffer = filled(3, 50, 4)
    last = np.random.default_rng(8).normal(size=4).astype(np.float32)
    rollout = Rollout(buffer.seats, buffer.seat_rewards, buffer.ended, buffer.values, buffer.tables.to_play, last)
    buffer.compute_returns_and_advantage(torch.from_numpy(last), np.zeros(4, np.bool_))
    chain, advantages, known = slow(rollout, 1.0, 0.9)
    np.testing.assert_allclose(buffer.rewards, chain, atol=1e-5)
    np.testing.assert_allclose(buffer.advantages, advantages, atol=1e-4)
    np.testing.assert_allclose(buffer.returns, advantages + buffer.values, atol=1e-4)
    np.testing.assert_array_equal(buffer.known, known)
    assert not known.all()


@pytest.mark.parametrize("batch_size", [None, 1, 16, 7, 10_000])
def test_every_known_decision_comes_up_once(batch_size: int | None) -> None:
    buffer = filled(4, 30, 4)
    known, returns, masks = buffer.known.copy(), buffer.returns.copy(), buffer.action_masks.copy()
    count = int(known.sum())
    assert count < known.size
    for _ in range(2):  # as in two epochs
        parts = list(buffer.get(batch_size))
        numbers = torch.cat([part.old_log_prob for part in parts]).long().numpy()
        assert len(set(numbers.tolist())) == len(numbers) == count
        step, table = np.divmod(numbers, 4)
        assert known[step, table].all()
        np.testing.assert_array_equal(torch.cat([part.returns for part in parts]).numpy(), returns[step, table])
        found = torch.cat([part.action_masks for part in parts]).numpy()
        np.testing.assert_array_equal(found, masks.reshape(30, 4, -1)[step, table])


@pytest.mark.parametrize(
    ("known", "batch_size", "sizes"),
    [
        (20, None, [20]),
        (20, 5, [5, 5, 5, 5]),
        (20, 6, [7, 7, 6]),  # three and a third
        (20, 7, [7, 7, 6]),  # nearly three
        (20, 8, [10, 10]),  # a half is rounded down
        (20, 50, [20]),
        (3, 2, [3]),  # not 2 and 1
        (7, 2, [3, 2, 2]),
    ],
)
def test_minibatches_are_even_and_near_the_size_asked_for(known: int, batch_size: int | None, sizes: list[int]) -> None:
    buffer = filled(2, 10, 2)
    buffer.known[:] = (np.arange(20) < known).reshape(10, 2)
    assert [len(part.actions) for part in buffer.get(batch_size)] == sizes


def test_minibatches_follow_from_the_generator() -> None:
    drawn = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        drawn.append([part.old_log_prob.tolist() for part in filled(2, 30, 4).get(16)])
    assert drawn[0] == drawn[1] != drawn[2]


class Rollouts(BaseCallback):
    """Keeps what the buffer holds after each rollout: values, returns, and where they are known."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Any, Any, Any]] = []

    def _on_rollout_end(self) -> None:
        assert isinstance(self.model, MaskablePPO)
        buffer = self.model.rollout_buffer
        assert isinstance(buffer, SeatRolloutBuffer)
        self.held.append((buffer.values.copy(), buffer.returns.copy(), buffer.known.copy()))

    def _on_step(self) -> bool:
        return True


def test_the_explained_variance_is_that_of_known_decisions() -> None:
    tables = SelfPlayVecEnv(16, num_players=4, seed=3, reward_scale=10.0)
    model = MaskablePPO(
        RegularizedPolicy, tables, n_steps=6, batch_size=32, n_epochs=1, policy_kwargs=policy_options((8,)), seed=1,
        rollout_buffer_class=SeatRolloutBuffer, rollout_buffer_kwargs={"tables": tables}, device="cpu",
    )  # fmt: skip
    callback = Rollouts()
    model.learn(6 * 16, callback=callback)
    [(values, returns, known)] = callback.held
    assert 10 < known.sum() < 0.8 * known.size
    wanted = 1 - np.var((returns - values)[known]) / np.var(returns[known])
    assert model.logger.name_to_value["train/explained_variance"] == pytest.approx(wanted, abs=1e-5)
    assert abs(wanted - (1 - np.var(returns - values) / np.var(returns))) > 0.01


@pytest.mark.parametrize("known", [0, 1])
def test_a_rollout_in_which_too_little_is_known_is_refused(known: int) -> None:
    buffer = filled(2, 2, 2)
    buffer.known[:] = False
    buffer.known[0, :known] = True
    with pytest.raises(ValueError, match=r"ppo\.rollout_steps is too small"):
        next(buffer.get(2))


# The regulariser


def policy_of(seed: int, entropy_coef: float = 0.0, anchor_coef: float = 0.0) -> RegularizedPolicy:
    torch.manual_seed(seed)
    tables = SelfPlayVecEnv(1, num_players=2, seed=0, reward_scale=1.0)
    policy = RegularizedPolicy(tables.observation_space, tables.action_space, lambda _: 1e-3, **policy_options((8,)))
    policy.entropy_coef, policy.anchor_coef = entropy_coef, anchor_coef
    return policy


def positions(count: int) -> tuple[Any, Any, Any]:
    """Observations, masks and legal actions, at random."""
    rng = np.random.default_rng(4)
    observations = torch.from_numpy(rng.integers(0, 2, (count, 696)).astype(np.int8))
    masks = rng.random((count, 163)) < 0.05
    masks[np.arange(count), rng.integers(163, size=count)] = True
    actions = torch.from_numpy(np.argmax(rng.random(masks.shape) * masks, axis=1))
    return observations, torch.from_numpy(masks), actions


def distribution(policy: RegularizedPolicy, observations: Any, masks: Any) -> Any:
    logits, _ = logits_and_values(policy, observations)
    return Categorical(logits=logits.masked_fill(~masks, -1e8))


def moved(policy: RegularizedPolicy, seed: int = 5) -> None:
    """Change all weights."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in policy.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=generator))


def test_the_regulariser_is_entropy_less_divergence() -> None:
    policy = policy_of(1, entropy_coef=0.7, anchor_coef=0.2)
    observations, masks, actions = positions(50)
    slow_copy = distribution(policy.anchor, observations, masks)
    moved(policy)
    values, log_probs, bonus = policy.evaluate_actions(observations, actions, masks.float())
    own = distribution(policy, observations, masks)
    divergence = kl_divergence(own, slow_copy)
    assert divergence.max() > 0.1
    torch.testing.assert_close(bonus, 0.7 * own.entropy() - 0.2 * divergence, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(log_probs, own.log_prob(actions), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(values, logits_and_values(policy, observations)[1])
    wanted = [own.entropy().mean().item(), divergence.mean().item(), 0, 1]
    assert policy.seen.tolist() == pytest.approx(wanted, rel=1e-4)


def test_the_regularisers_gradient_is_that_of_the_policy_alone() -> None:
    policy = policy_of(2, entropy_coef=0.3, anchor_coef=0.9)
    observations, masks, actions = positions(20)
    slow_copy = distribution(policy.anchor, observations, masks)
    moved(policy)
    weights = list(policy.action_net.parameters())
    bonus = policy.evaluate_actions(observations, actions, masks.float())[2]
    own = distribution(policy, observations, masks)
    wanted = torch.autograd.grad((0.3 * own.entropy() - 0.9 * kl_divergence(own, slow_copy)).sum(), weights)
    for one, other in zip(torch.autograd.grad(bonus.sum(), weights), wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)
    assert not any(each.requires_grad for each in policy.anchor.parameters())


def test_the_distribution_is_that_of_sb3_contrib() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = 5 * torch.randn(40, 163, generator=generator)
    masks = (torch.rand(40, 163, generator=generator) < 0.05).to(torch.int8)
    masks[:, 7] = 1
    masks[0, :7] = masks[0, 8:] = 0  # one action alone is legal
    log_probs, probs = masked_distribution(logits, masks)
    theirs = MaskableCategorical(logits=logits, masks=masks)
    assert torch.allclose(probs, theirs.probs, atol=1e-6)
    assert torch.allclose(log_probs[masks == 1], theirs.logits[masks == 1], atol=1e-5)
    assert probs[masks == 0].eq(0).all() and probs[0, 7] == 1
    assert torch.allclose(-(log_probs * probs).sum(1), theirs.entropy(), atol=1e-5)


def test_actions_are_drawn_from_the_policy_and_their_log_probabilities_told() -> None:
    policy = policy_of(4)
    observations, masks, _ = positions(1)
    many, tiled = observations.repeat(4000, 1), masks.repeat(4000, 1)
    torch.manual_seed(5)
    actions, values, told = policy(many, action_masks=tiled.numpy())
    wanted = distribution(policy, observations, masks).probs
    counted = torch.bincount(actions, minlength=163) / 4000
    assert (counted - wanted[0]).abs().max() < 0.03  # almost four standard errors of one half
    assert torch.allclose(told, wanted[0][actions].log(), atol=1e-5)
    assert values.shape == (4000, 1)
    assert torch.equal(policy(many[:2], True, tiled[:2].numpy())[0], wanted.argmax(1).repeat(2))


def test_without_a_weight_there_is_no_slow_copy() -> None:
    policy = policy_of(3, entropy_coef=0.5)
    observations, masks, actions = positions(20)
    _, _, bonus = policy.evaluate_actions(observations, actions, masks.float())
    own = distribution(policy, observations, masks)
    torch.testing.assert_close(bonus, 0.5 * own.entropy(), atol=1e-5, rtol=1e-4)
    assert policy.seen[1] == 0
    assert not policy._anchor


def test_the_slow_copy_follows() -> None:
    policy = policy_of(4)
    before = torch.get_rng_state()
    old = [each.clone() for each in policy.anchor.parameters()]
    assert torch.equal(torch.get_rng_state(), before)  # making it takes nothing from the caller's generator
    moved(policy)
    for own, slow_copy in zip(policy.parameters(), old, strict=True):
        assert not torch.equal(own, slow_copy)
    policy.follow(0.75)
    for own, slow_copy, was in zip(policy.parameters(), policy.anchor.parameters(), old, strict=True):
        torch.testing.assert_close(slow_copy, 0.75 * was + 0.25 * own)
        assert not slow_copy.requires_grad
    policy.follow(1.0)
    policy.follow(0.0)
    for own, slow_copy in zip(policy.parameters(), policy.anchor.parameters(), strict=True):
        torch.testing.assert_close(slow_copy, own)
    assert set(policy.state_dict()) == set(policy_of(4).state_dict())
    assert len(list(policy.parameters())) == len(list(policy_of(4).parameters()))
