"""Critics: the hidden hands they are shown, how they begin, and that the policy sees none of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.baselines import GreedyAgent  # noqa: E402
from agents.network import logits_and_values, policy_options  # noqa: E402
from agents.training.hidden_hands import hands_size, with_hands  # noqa: E402
from agents.training.seat_ppo import RegularizedPolicy  # noqa: E402
from agents.training.tables import SelfPlayVecEnv  # noqa: E402
from fivesup_env import Match  # noqa: E402
from fivesup_env.observation import section  # noqa: E402
from fivesup_env.rules.tiles import NUM_TILES, tile_name  # noqa: E402
from tests.playing import SEATS  # noqa: E402

NUM_HIDDEN = hands_size(3)


class Greedy:
    """One opponent, and the views that it was given."""

    def __init__(self) -> None:
        self.views: list[Any] = []

    def draw(self, key: np.uint64) -> int:
        return 0

    def agent(self, number: int) -> Any:
        return self

    def reset(self, seed: int) -> None:
        pass

    def act(self, views: Any, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        self.views.append(views.copy())
        return GreedyAgent().act(views, masks, keys)

    def note(self, number: int, won: bool) -> None:
        pass


# What a critic is shown


def hands_of(state: Any) -> list[int]:
    """The hands of the seats after the one to move, tile by tile from their texts."""
    hands, seat = Match.from_state(state).hands, int(state.turn)
    return [
        int(tile_name(tile) in hands[(seat + offset) % len(hands)])
        for offset in range(1, len(hands))
        for tile in range(NUM_TILES)
    ]


@pytest.mark.parametrize("num_players", SEATS)
def test_the_tables_show_the_other_hands_behind_each_observation(num_players: int) -> None:
    given = [Greedy(), Greedy()]
    plain, full = (
        SelfPlayVecEnv(
            6, num_players=num_players, seed=8, reward_scale=1.0, opponents=each, opponent_tables=3, hidden_hands=hidden
        )
        for hidden, each in zip((False, True), given, strict=True)
    )
    assert full.observation_space.shape == (696 + 28 * (num_players - 1),)
    rng = np.random.default_rng(2)
    public: Any = plain.reset()
    seen: Any = full.reset()
    turns = set()
    for _ in range(40):
        assert (seen.dtype, seen.shape) == (np.int8, (6, *full.observation_space.shape))
        np.testing.assert_array_equal(seen[:, :696], public)
        assert seen[:, 696:].tolist() == [hands_of(state) for state in full.game.states]
        unseen, sizes = seen[:, section("unseen")], seen[:, section("hand_sizes")]
        hidden = seen[:, 696:].reshape(6, num_players - 1, 28)
        np.testing.assert_array_equal(hidden.sum(axis=2), sizes[:, 1:num_players])
        assert (hidden.sum(axis=1) <= unseen).all()
        turns |= set(full.to_play.tolist())
        masks = full.action_masks()
        actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
        public, seen = plain.step(actions)[0], full.step(actions)[0]
    assert turns == set(range(num_players))
    np.testing.assert_array_equal(full.load_state_dict(full.state_dict()), seen)
    assert [each.tobytes() for each in given[0].views] == [each.tobytes() for each in given[1].views]


def test_what_is_shown_is_a_new_array() -> None:
    tables = SelfPlayVecEnv(2, num_players=2, seed=8, reward_scale=1.0, hidden_hands=True)
    observations: Any = tables.reset()
    once = with_hands(tables.game.states, observations[:, :696])
    observations[:] = 0
    np.testing.assert_array_equal(with_hands(tables.game.states, once[:, :696]), once)
    assert once.any(axis=1).all()


# The critic


def policy_of(num_hidden: int | None, *, value_coef: float = 0.0, max_grad_norm: float = 0.5) -> RegularizedPolicy:
    """A policy for three seats, its weights far from those of a fresh one; None for no critic."""
    torch.manual_seed(3)
    tables = SelfPlayVecEnv(1, num_players=3, seed=0, reward_scale=1.0, hidden_hands=True)
    policy = RegularizedPolicy(tables.observation_space, tables.action_space, lambda _: 1e-2, **policy_options((8, 6)))
    with torch.no_grad():
        for each in policy.parameters():
            each.add_(0.3 * torch.randn(each.shape))
    policy.entropy_coef, policy.value_coef = 0.1, value_coef
    if num_hidden is not None:
        policy.take_critic(num_hidden, max_grad_norm)
    return policy


def positions(num_hidden: int) -> tuple[Any, Any, Any, Any]:
    """Observations; the same with other hidden hands; legal actions, and masks."""
    rng = np.random.default_rng(4)
    first, second = (rng.integers(0, 2, (30, 696 + num_hidden)).astype(np.int8) for _ in range(2))
    second[:, :696] = first[:, :696]
    masks = rng.random((30, 163)) < 0.05
    masks[np.arange(30), rng.integers(163, size=30)] = True
    actions = np.argmax(rng.random(masks.shape) * masks, axis=1)
    return torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(actions), torch.from_numpy(masks).float()


def critic_of(policy: RegularizedPolicy) -> Any:
    assert policy.critic is not None
    return policy.critic


def trained_critic(policy: RegularizedPolicy) -> Any:
    """The critic, after its weights have moved from where they began."""
    critic, generator = critic_of(policy), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for each in critic.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=generator))
    return critic


@pytest.mark.parametrize("num_hidden", [0, NUM_HIDDEN])
def test_a_critic_begins_with_exactly_the_values_of_the_network(num_hidden: int) -> None:
    policy, plain = policy_of(None), policy_of(None)
    before = torch.get_rng_state()
    policy.take_critic(num_hidden, 0.5)
    assert torch.equal(torch.get_rng_state(), before)  # making it takes nothing from the caller's generator
    observations, _, _, _ = positions(num_hidden)
    values = logits_and_values(policy, observations[:, :696])[1]
    assert torch.equal(critic_of(policy)(observations), values)
    assert values.std() > 0.1
    assert policy.state_dict().keys() == plain.state_dict().keys()
    assert len(list(policy.parameters())) == len(list(plain.parameters()))
    own = {id(each) for each in policy.parameters()}
    assert not any(id(each) in own for each in critic_of(policy).parameters())


def test_the_hidden_hands_change_values_and_nothing_that_the_policy_does() -> None:
    policy = policy_of(NUM_HIDDEN)
    critic = trained_critic(policy)
    found = []
    for observations in positions(NUM_HIDDEN)[:2]:
        _, _, actions, masks = positions(NUM_HIDDEN)
        torch.manual_seed(6)
        sampled, values, sampled_log_probs = policy(observations, action_masks=masks.bool().numpy())
        judged, log_probs, bonus = policy.evaluate_actions(observations, actions, masks)
        loss = (log_probs + bonus).sum()  # without `value_coef` it is all the policy's
        gradients = torch.autograd.grad(loss, list(policy.parameters()), retain_graph=True)
        unused = torch.autograd.grad(loss, list(critic.parameters()), allow_unused=True)
        assert not [each for each in unused if each is not None]
        for other in (policy.predict_values(observations), values):
            assert other.shape == (30, 1)
            torch.testing.assert_close(other[:, 0], judged)
        found.append((judged, [sampled, sampled_log_probs, log_probs, bonus], gradients))
    (values_1, outputs_1, gradients_1), (values_2, outputs_2, gradients_2) = found
    assert ((values_1 - values_2).abs() > 1e-3).all()
    assert all(map(torch.equal, outputs_1, outputs_2))
    assert all(map(torch.equal, gradients_1, gradients_2))
    assert any(each.any() for each in gradients_1)


@pytest.mark.parametrize("num_hidden", [0, NUM_HIDDEN])
def test_the_public_value_learns_from_the_critic_and_not_the_other_way_round(num_hidden: int) -> None:
    policy, plain = policy_of(num_hidden, value_coef=0.7), policy_of(num_hidden)
    critic = trained_critic(policy)
    observations, _, actions, masks = positions(num_hidden)
    values, _, bonus = policy.evaluate_actions(observations, actions, masks)
    public = logits_and_values(policy, observations[:, :696])[1]
    squares = (public - critic(observations).detach()) ** 2
    rest = plain.evaluate_actions(observations, actions, masks)[2]
    torch.testing.assert_close(bonus, rest - 0.7 * squares)
    assert policy.seen[2] == pytest.approx(squares.mean().item())
    assert policy.seen[2] > 0.01
    weights = list(critic.parameters())
    own_weights = list(policy.parameters())
    for output, other in ((bonus, weights), (values, own_weights)):
        found = torch.autograd.grad(output.sum(), other, retain_graph=True, allow_unused=True)
        assert found == (None,) * len(other)
    [gradient] = torch.autograd.grad(bonus.sum(), [policy.value_net.bias])
    assert gradient.item() == pytest.approx(-1.4 * (public - values).sum().item(), rel=1e-4)


@pytest.mark.parametrize("num_hidden", [0, NUM_HIDDEN])
def test_the_optimizer_moves_the_critic_towards_the_returns(num_hidden: int) -> None:
    policy = policy_of(num_hidden, max_grad_norm=0.25)
    observations, _, actions, masks = positions(num_hidden)
    returns = torch.from_numpy(np.random.default_rng(7).normal(size=30).astype(np.float32))
    losses = []
    for _ in range(30):
        values, _, _ = policy.evaluate_actions(observations, actions, masks)
        losses.append(torch.nn.functional.mse_loss(values, returns))
        policy.optimizer.zero_grad()
        losses[-1].backward()
        policy.optimizer.step()
        norms = [each.grad.norm() for each in critic_of(policy).parameters()]
        assert torch.stack(norms).norm() <= 0.25 + 1e-5
    assert losses[-1] < 0.5 * losses[0]
    assert bool(critic_of(policy).hand_weights.any()) == bool(num_hidden)
