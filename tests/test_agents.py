"""Agents, and the keys they decide by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import Agent, decision_key, make_agent
from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env import Match
from fivesup_env.actions import action_mask, action_move
from fivesup_env.notation import move_text
from fivesup_env.observation import OBS_SIZE
from fivesup_env.rules.state import STATE, States
from tests.conftest import lay, play
from tests.playing import NEAR, SEATS, legal, raw_env

WORD = 2**64


def positions(count: int, num_players: int = 2) -> tuple[States, NDArray[np.int8], list[Match]]:
    """Views, masks and matches of the seat to move in positions of random play."""
    env = raw_env(num_players)
    env.reset(seed=num_players, options={"scores": NEAR[num_players]})
    rng = np.random.default_rng(num_players)
    views, matches = np.zeros(count, STATE), []
    for row in range(count):
        if env.terminations[env.agent_selection]:
            env.reset()
        match = Match.from_bytes(env.state().tobytes())
        views[row] = match.view(match.turn).state
        matches.append(match)
        env.step(int(rng.choice(legal(env))))
    return views, np.array([action_mask(view) for view in views]), matches


def choice(agent: Agent, match: Match) -> str:
    """What the agent does in a position, as a text."""
    views = np.zeros(1, STATE)
    views[0] = match.view(match.turn).state
    action = int(agent.act(views, action_mask(views[0])[None], np.zeros(1, np.uint64))[0])
    assert action_mask(views[0])[action] == 1
    return move_text(*action_move(match.state, action))


# Keys


def slow_scramble(key: int) -> int:
    """SplitMix64's output function, by its constants."""
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % WORD
    key = (key ^ key >> 27) * 0x94D049BB133111EB % WORD
    return key ^ key >> 31


def slow_mix(key: int, number: int) -> int:
    gamma = 0x9E3779B97F4A7C15
    return slow_scramble(
        slow_scramble((key + gamma) % WORD) ^ slow_scramble((number * gamma + 0xBF58476D1CE4E5B9) % WORD)
    )


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63, 2**64 - 1])
def test_a_key_is_mixed_from_seed_match_and_ply(seed: int) -> None:
    for match in (0, 1, 999):
        for ply in (0, 1, 250):
            key = decision_key(seed, match, ply)
            assert isinstance(key, np.uint64)
            assert int(key) == slow_mix(slow_mix(slow_mix(0xDEC1, seed), match), ply)


def test_every_decision_has_a_key_of_its_own() -> None:
    keys = {int(decision_key(seed, match, ply)) for seed in range(8) for match in range(20) for ply in range(50)}
    assert len(keys) == 8 * 20 * 50


# random


def test_random_is_uniform_over_the_legal_ids() -> None:
    ids = [3, 28, 29, 77, 154, 160, 162]
    masks = np.zeros((7000, 163), np.int8)
    masks[:, ids] = 1
    keys = np.array([decision_key(0, 0, ply) for ply in range(7000)])
    counts = Counter(RandomAgent().act(np.zeros(7000, STATE), masks, keys).tolist())
    assert sorted(counts) == ids
    # A thousand each; the sum of squares over the mean is chi-square with 6 degrees of freedom: below 22.46 in 99.9 %.
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 22.46


def test_random_depends_on_masks_and_keys_alone() -> None:
    views, masks, _ = positions(200)
    keys = np.array([decision_key(1, 2, ply) for ply in range(200)])
    agent = RandomAgent()
    actions = agent.act(views, masks, keys)
    assert all(masks[np.arange(200), actions])
    agent.reset(7)
    np.testing.assert_array_equal(agent.act(np.zeros(200, STATE), masks, keys), actions)
    others = agent.act(views, masks, keys + np.uint64(1))
    assert (others != actions)[masks.sum(axis=1) > 1].mean() > 0.5


# greedy


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        # Openings count 5, 12 (nothing), 10 and 10; of the last two, both with ten pips, [4|6] has the lower id.
        (lay(Match, "1|4 6|6 5|5 4|6", "0|0"), "4|6"),
        # Ten would be too much at 300, so it counts as nothing: the five is best.
        (lay(Match, "1|4 6|6 5|5", "0|0", scores=[300, 0]), "1|4"),
        # At 295 it fits.
        (lay(Match, "1|4 6|6 5|5", "0|0", scores=[295, 0]), "5|5"),
        # Nothing fits the 5 that are missing: most pips.
        (lay(Match, "0|1 6|6 5|5", "0|0", scores=[300, 0]), "6|6"),
        # Of the two sixes in pips, the lower id.
        (lay(Match, "2|4 3|3 1|5", "0|0"), "1|5"),
        # After 1|4: [1|6] makes 6+4 = 10, [1|1] 2+4, [4|4] 1+8, [4|5] 1+5.
        (play(lay(Match, "1|4 0|0", "1|1 4|4 4|5 1|6"), "1|4"), "1|6@1|4.low"),
        # After 1|4 and 1|1: on the line of [1|1], [1|5] makes 5+4 = 9; on the 4, [4|5] makes 2+5 = 7, [4|4] 2+8 = 10.
        (play(lay(Match, "1|4 1|5 4|5 4|4", "1|1 0|0"), "1|4", "1|1@1|4.low"), "4|4@1|4.high"),
        # One tile, two ends: [1|4] makes 4+4 = 8 on the 1 and 1+1 = 2 on the 4. Neither scores: the lower id.
        (play(lay(Match, "1|6 0|0", "4|6 5|5", "1|4 3|3"), "1|6", "4|6@1|6.high"), "1|4@1|6.low"),
        # [3|5] on the 5 makes 2+3 = 5.
        (play(lay(Match, "2|5 0|0", "3|5 0|1"), "2|5"), "3|5@2|5.high"),
        # Ends 0 and 6. [0|4] makes 6+4 = 10, too much for the partners' 300; [5|6] makes 0+5.
        (
            play(
                lay(Match, "1|6 0|0", "0|1 6|6", "0|4 5|6 2|6", "3|3", scores=[300, 0]),
                *("1|6", "0|1@1|6.low"),
            ),
            "5|6@1|6.high",
        ),
    ],
)
def test_greedy_by_hand(position: Match, expected: str) -> None:
    assert choice(GreedyAgent(), position) == expected


def test_greedy_takes_a_forced_draw_and_pass() -> None:
    match = play(lay(Match, "1|4 0|0", "6|6", boneyard="5|5 1|5"), "1|4")
    assert choice(GreedyAgent(), match) == "draw"
    match = play(lay(Match, "1|4 1|5", "6|6"), "1|4")
    assert choice(GreedyAgent(), match) == "pass"


def slow_id(text: str) -> int:
    """The `ends` id of a move text, by the table of ids in words."""
    if text in ("draw", "pass"):
        return {"draw": 161, "pass": 162}[text]
    tiles = [f"{low}|{high}" for low in range(7) for high in range(low, 7)]
    tile, _, port = text.partition("@")
    if not port:
        return tiles.index(tile)
    host, _, name = port.partition(".")
    value = host[2] if name == "high" else host[0]
    if tile[0] == tile[2]:
        return 154 + int(value)
    kind = 0 if name in ("low", "high") else 1 if name.startswith("line") else 2
    number = [each for each in tiles if each[0] != each[2]].index(tile)
    return 28 + 6 * number + 3 * (tile[2] == value) + kind


def slow_greedy(match: Match) -> int:
    """Most points that fit the target, then most pips, then the lowest id, by trying every placement."""

    def worth(text: str) -> tuple[int, int, int]:
        if text in ("draw", "pass"):
            return 0, 0, 0
        after = match.clone()
        after.play(text)
        points = after.total() if after.total() % 5 == 0 else 0
        room = int(match.state.target) - match.scores[match.turn % len(match.scores)]
        return points if points <= room else 0, int(text[0]) + int(text[2]), -slow_id(text)

    return slow_id(max(match.legal(), key=worth))


@pytest.mark.parametrize("seats", SEATS)
def test_greedy_agrees_with_a_slow_definition(seats: int) -> None:
    views, masks, matches = positions(250, seats)
    actions = GreedyAgent().act(views, masks, np.zeros(250, np.uint64))
    assert actions.tolist() == [slow_greedy(match) for match in matches]
    assert len(set(actions.tolist())) > 50


# Any agent


def network(deterministic: bool) -> Agent:
    torch = pytest.importorskip("torch")
    pytest.importorskip("sb3_contrib")
    from agents.network import NetworkAgent, make_policy

    torch.manual_seed(3)
    policy: Any = make_policy((64, 64))
    policy.action_net.weight.data.mul_(300)  # new ones are next to indifferent
    return NetworkAgent(policy, deterministic=deterministic)


AGENTS: dict[str, Callable[[], Agent]] = {
    "random": RandomAgent,
    "greedy": GreedyAgent,
    "network": lambda: network(deterministic=True),
    "sampling network": lambda: network(deterministic=False),
}


@pytest.mark.parametrize("name", AGENTS)
def test_decisions_do_not_depend_on_batches(name: str) -> None:
    agent = AGENTS[name]()
    views, masks, _ = positions(200, 3)
    keys = np.array([decision_key(4, 0, ply) for ply in range(200)])
    given = [array.tobytes() for array in (views, masks, keys)]
    actions = agent.act(views, masks, keys)
    assert actions.dtype == np.int64
    assert all(masks[np.arange(200), actions])
    assert [array.tobytes() for array in (views, masks, keys)] == given
    single = [agent.act(views[row : row + 1], masks[row : row + 1], keys[row : row + 1])[0] for row in range(200)]
    np.testing.assert_array_equal(single, actions)
    order = np.random.default_rng(0).permutation(200)
    np.testing.assert_array_equal(agent.act(views[order], masks[order], keys[order]), actions[order])
    agent.reset(99)
    np.testing.assert_array_equal(agent.act(views[:77], masks[:77], keys[:77]), actions[:77])
    assert len(set(actions.tolist())) > 20


def test_logits_do_not_depend_on_batches_to_the_last_bit() -> None:
    agent: Any = network(deterministic=True)
    views, _, _ = positions(150)
    logits = agent.logits(views)
    assert logits.shape == (150, 163)
    assert logits.dtype == np.float32
    order = np.random.default_rng(1).permutation(150)
    assert agent.logits(views[order]).tobytes() == logits[order].tobytes()
    assert b"".join(agent.logits(views[row : row + 1]).tobytes() for row in range(150)) == logits.tobytes()


def test_probabilities_are_the_softmax_over_legal_logits() -> None:
    agent: Any = network(deterministic=True)
    views, masks, _ = positions(150)
    found = agent.probabilities(views, masks)
    assert (found.shape, found.dtype) == ((150, 163), np.float64)
    weights = [[math.exp(logit) for logit in row] for row in np.where(masks, agent.logits(views), -np.inf).tolist()]
    np.testing.assert_allclose(found, [[weight / sum(row) for weight in row] for row in weights], rtol=1e-12)
    np.testing.assert_array_equal(found > 0, masks == 1)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(found.argmax(axis=1), agent.act(views, masks, np.zeros(150, np.uint64)))


def test_a_probability_that_is_certain_and_one_that_vanishes() -> None:
    agent: Any = network(deterministic=True)
    views, masks, _ = positions(20)
    agent.policy.action_net.weight.data.mul_(1e6)  # exp of such logits would overflow
    found = agent.probabilities(views, masks)
    assert np.isfinite(found).all()
    alone = np.zeros_like(masks)
    alone[:, 7] = 1
    np.testing.assert_array_equal(agent.probabilities(views, alone), alone)


def test_a_sampling_network_samples_from_its_probabilities() -> None:
    agent: Any = network(deterministic=False)
    views, masks, _ = positions(1)
    many = np.repeat(views, 4000), np.repeat(masks, 4000, axis=0)
    keys = np.array([decision_key(2, 0, ply) for ply in range(4000)])
    counts = np.bincount(agent.act(*many, keys), minlength=163)
    weights = np.where(masks[0], np.exp(agent.logits(views)[0].astype(np.float64)), 0.0)
    expected = 4000 * weights / weights.sum()
    assert masks.sum() == 5
    assert 100 < expected[masks[0] == 1].min() < 500 < 1400 < expected.max()
    # Chi-square with 4 degrees of freedom: below 18.47 in 99.9 %.
    assert sum((counts - expected)[masks[0] == 1] ** 2 / expected[masks[0] == 1]) < 18.47


@pytest.mark.parametrize("text", ["random", "greedy"])
def test_agents_by_name(text: str) -> None:
    agent = make_agent(text)
    assert isinstance(agent, Agent)
    assert isinstance(agent, {"random": RandomAgent, "greedy": GreedyAgent}[text])


@pytest.mark.parametrize("text", ["", "Greedy", "greedy ", "nobody", "runs/no-such-run", ".", "\0"])
def test_texts_that_name_no_agent(text: str) -> None:
    with pytest.raises(ValueError, match="no agent"):
        make_agent(text)


def test_observations_have_the_size_that_networks_are_made_for() -> None:
    agent: Any = network(deterministic=True)
    assert agent.policy.observation_space.shape == (OBS_SIZE,)
