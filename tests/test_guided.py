"""Search guided by a network: its values against the formula written plainly, its texts, and its use as a teacher."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents import make_agent  # noqa: E402
from agents.agent import is_guest, partners  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.search.guided import PRIOR_WEIGHT, GuidedAgent  # noqa: E402
from agents.search.pimc import PimcAgent  # noqa: E402
from agents.training.search_data import SearchPlan, generate, play_shard, replay, save_shard  # noqa: E402
from fivesup_env import Match  # noqa: E402
from fivesup_env.actions import action_mask  # noqa: E402
from fivesup_env.rules.state import STATE, States  # noqa: E402
from tests.playing import SEATS  # noqa: E402
from tests.test_pimc import decisions, endgames, views_of  # noqa: E402
from tests.test_search_data import Replay, check_decision  # noqa: E402

PER_LOGIT = 0.02


def policy_of(seed: int) -> Any:
    """A small network that is far from indifferent."""
    torch.manual_seed(seed)
    policy: Any = make_policy((16,))
    policy.action_net.weight.data.mul_(300)
    return policy


def network(**facts: Any) -> NetworkAgent:
    return NetworkAgent(policy_of(4), **{"value_per_logit": PER_LOGIT, **facts})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "search" / "1").mkdir(parents=True)
    folder = tmp_path / "a+b" / "fit-0"
    save_checkpoint(folder, policy_of(6), (16,), value_per_logit=PER_LOGIT)
    return folder


def batch(seats: int, count: int) -> tuple[States, Any, Any]:
    views = views_of(list(decisions(seats, count, seats + 40)))
    return views, np.array([action_mask(view) for view in views]), np.arange(count, dtype=np.uint64)


def slow_join(means: Any, logits: Any, worlds: int, weight: float) -> Any:
    """The joined values of one decision, by the formula; NaN where an action is not legal."""
    legal = [action for action in range(163) if not math.isnan(means[action])]
    top = max(float(logits[action]) for action in legal)
    powers = {action: math.exp(float(logits[action]) - top) for action in legal}
    policy = {action: power / sum(powers.values()) for action, power in powers.items()}
    of_search = sum(policy[action] * means[action] for action in legal)
    of_network = sum(policy[action] * PER_LOGIT * float(logits[action]) for action in legal)
    joined = np.full(163, np.nan)
    for action in legal:
        opinion = PER_LOGIT * float(logits[action]) - of_network + of_search
        joined[action] = (worlds * means[action] + weight * opinion) / (worlds + weight)
    return joined


# Values


@pytest.mark.parametrize("seats", SEATS)
def test_values_join_those_of_the_search_and_of_the_network(seats: int) -> None:
    views, _, keys = batch(seats, 40)
    found = GuidedAgent(6, network(), 100.0).action_values(views, keys)
    search, logits = PimcAgent(6).action_values(views, keys), network().logits(views)
    np.testing.assert_array_equal(found.spread, search.spread)
    np.testing.assert_array_equal(found.solved, search.solved)
    moved = 0
    for row in np.flatnonzero(~search.solved):
        wanted = slow_join(search.mean[row], logits[row], 6, 100.0)
        np.testing.assert_allclose(found.mean[row], wanted, rtol=0, atol=1e-12)
        moved += np.nanargmax(wanted) != np.nanargmax(search.mean[row])
    assert moved > 5


def test_the_policys_mean_is_that_of_the_search() -> None:
    views, masks, keys = batch(3, 30)
    policy = network().probabilities(views, masks)
    found, search = (agent.action_values(views, keys).mean for agent in (GuidedAgent(4, network(), 50), PimcAgent(4)))
    np.testing.assert_allclose(np.nansum(policy * found, axis=1), np.nansum(policy * search, axis=1), atol=1e-12)


def test_solved_endgames_stay_exact() -> None:
    views = views_of(list(endgames(30)))
    keys = np.arange(30, dtype=np.uint64)
    found = GuidedAgent(2, network(), 1000.0).action_values(views, keys)
    assert found.solved.all()
    np.testing.assert_array_equal(found.mean, PimcAgent(2).action_values(views, keys).mean)


def test_without_weight_it_is_the_search_and_with_much_the_network() -> None:
    views, masks, keys = batch(4, 50)
    search, by_network = PimcAgent(5).act(views, masks, keys), network().act(views, masks, keys)
    assert (search != by_network).any()
    assert GuidedAgent(5, network(), 0).act(views, masks, keys).tolist() == search.tolist()
    assert GuidedAgent(5, network(), 1e9).act(views, masks, keys).tolist() == by_network.tolist()


def test_the_best_value_is_taken_whatever_the_batch() -> None:
    agent = GuidedAgent(5, network())
    views, masks, keys = batch(2, 60)
    values = agent.action_values(views, keys).mean
    actions = agent.act(views, masks, keys)
    assert actions.tolist() == np.nanargmax(values, axis=1).tolist()
    order = np.random.default_rng(0).permutation(60)
    assert agent.action_values(views[order], keys[order]).mean.tobytes() == values[order].tobytes()
    alone = [agent.action_values(views[row : row + 1], keys[row : row + 1]).mean.tobytes() for row in range(60)]
    assert b"".join(alone) == values.tobytes()
    assert GuidedAgent(5, network(deterministic=False)).act(views, masks, keys).tolist() == actions.tolist()


def test_a_network_of_the_package_makes_a_search_lose_less() -> None:
    """Chances to win that choices lose to the best one, by a search in many more worlds: some 0.0075 and 0.0035."""
    views, masks, keys = batch(2, 400)
    truth = PimcAgent(300).action_values(views, keys + np.uint64(10_000)).mean
    rows = np.arange(len(views))
    guided, alone = (
        float((np.nanmax(truth, axis=1) - truth[rows, make_agent(text).act(views, masks, keys)]).mean())
        for text in ("guided:8:net-2p", "pimc:8")
    )
    assert guided < 0.7 * alone


def test_full_states_are_refused() -> None:
    states = np.zeros(1, STATE)
    states[0] = Match(2, seed=1).state
    with pytest.raises(ValueError, match="takes views"):
        GuidedAgent(2, network()).action_values(states, np.zeros(1, np.uint64))


def test_another_number_of_seats_is_refused() -> None:
    views, _, keys = batch(3, 1)
    with pytest.raises(ValueError, match="trained for 2 seats"):
        GuidedAgent(2, network(num_players=2)).action_values(views, keys)


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_impossible_weights(weight: float) -> None:
    with pytest.raises(ValueError, match=f"prior_weight must be at least 0 and finite, not {weight}"):
        GuidedAgent(2, network(), weight)


# Texts


def test_texts_of_guided_searches(checkpoint: Path) -> None:
    for text, worlds in (("guided:12:net-3p", 12), (f"guided:7:{checkpoint}", 7)):
        agent = make_agent(text, sample=True)
        assert isinstance(agent, GuidedAgent)
        assert (agent.worlds, agent.prior_weight, agent.sees_all) == (worlds, PRIOR_WEIGHT, False)
        assert not is_guest(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("guided", "number of worlds and a network"),
        ("guided:", "number of worlds and a network"),
        ("guided:x", "number of worlds and a network"),
        ("guided:20", "number of worlds and a network"),
        ("guided:20:", "number of worlds and a network"),
        ("guided:-1:net-2p", "number of worlds and a network"),
        ("guided:²:net-2p", "number of worlds and a network"),
        ("guided:0:net-2p", r"'guided:0:net-2p': worlds must be within 1 \.\. 1000000, not 0"),
        ("guided:20:greedy", "'greedy' is no network"),
        ("guided:20:runs/none", "'runs/none' is no network"),
    ],
)
def test_texts_that_name_no_guided_search(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make_agent(text)


def test_a_network_whose_logits_have_no_known_unit_is_refused(checkpoint: Path) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    del meta["value_per_logit"]
    (checkpoint / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    with pytest.raises(ValueError, match=r"agent 'guided:5:.*fit-0': .*meta\.json.* has no value_per_logit"):
        make_agent(f"guided:5:{checkpoint}")


def test_a_plus_within_the_path_is_part_of_the_path(checkpoint: Path) -> None:
    text = f"guided:5:{checkpoint}"
    assert partners(text) == (text,)
    assert partners(f"{text}+guided:3:net-4p") == (text, "guided:3:net-4p")
    assert partners(f"greedy+{text}") == ("greedy", text)


# As a teacher


def guided_plan(**changes: Any) -> SearchPlan:
    options: dict[str, Any] = {"teacher": "pimc:2", "player": "../../a+b/fit-0", "matches": 1, "prior_weight": 3.0}
    return SearchPlan(**{**options, **changes})


@pytest.mark.parametrize("seats", SEATS)
def test_a_shard_holds_the_joined_values_of_each_decision(seats: int, checkpoint: Path, tmp_path: Path) -> None:
    shard = play_shard(guided_plan(num_players=seats, explore=0.2, seed=8), 0, tmp_path / "search" / "1")
    examples, player, game = replay(shard), NetworkAgent.load(checkpoint), Replay(seats, 8)
    place = differ = 0
    for row, action in enumerate(shard.actions.tolist()):
        search = PimcAgent(2).action_values(game.view(), game.key())
        alone = search.mean[0]
        values = alone if search.solved[0] else slow_join(alone, player.logits(game.view())[0], 2, 3.0)
        count = int(examples.masks[row].sum())
        check_decision(game, shard, examples, row, shard.values[place : place + count], values)
        differ += not np.array_equal(values, alone, equal_nan=True)
        place += count
        game.take(action)
    assert game.match.winner is not None
    assert differ > len(shard.actions) / 2


def test_a_weight_changes_values_but_not_the_matches_that_a_network_plays(checkpoint: Path, tmp_path: Path) -> None:
    guided, alone = (play_shard(guided_plan(prior_weight=each), 0, tmp_path / "search" / "1") for each in (3.0, 0.0))
    np.testing.assert_array_equal(guided.actions, alone.actions)
    assert (guided.values != alone.values).any()


def test_a_plan_without_a_weight_is_noted_as_before_there_was_one(tmp_path: Path) -> None:
    old = SearchPlan(teacher="pimc:1", matches=1)
    noted = {"num_players": 2, "teacher": "pimc:1", "player": "", "explore": 0.05, "matches": 1, "seed": 0}
    assert list(generate(old, tmp_path, 0)) == []
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8")) == noted
    save_shard(tmp_path / "00000.npz", play_shard(old, 0), old)
    with np.load(tmp_path / "00000.npz") as arrays:
        assert json.loads(str(arrays["plan"])) == noted
    assert guided_plan().facts()["prior_weight"] == 3.0
