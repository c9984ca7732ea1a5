"""`fivesup predict`: what it prints for each sort of agent, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import decision_key, make_agent
from agents.search.pimc import PimcAgent
from agents.search.winning_chances import chance_of, chance_table
from fivesup_env import Match
from fivesup_env.actions import action_mask, action_move
from fivesup_env.cli import main
from fivesup_env.notation import move_text
from fivesup_env.rules.state import STATE
from tests.conftest import lay, play

Capture = pytest.CaptureFixture[str]
SCALE = 10.0


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    """The exit status, and what the program printed on stdout and stderr."""
    status = main(["predict", *map(str, arguments)])
    return status, *capsys.readouterr()


def told(capsys: Capture, *arguments: object) -> dict[str, Any]:
    """The JSON object that is printed."""
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


def choice() -> Match:
    """Seat 1 of three is to move at 30, 55 and 120 points and has a choice."""
    match: Match = lay(
        Match, "1|4 0|2 3|3", "4|5 1|6 4|4 1|1", "2|2 5|5", boneyard="6|6 0|0 2|3", scores=[25, 55, 120], starter=0
    )
    play(match, "1|4")
    return match


def forced() -> Match:
    """Seat 1 can only draw."""
    match: Match = lay(Match, "1|4 0|2", "3|3 5|5", boneyard="1|1 2|2")
    play(match, "1|4")
    return match


def seen(match: Match) -> Any:
    return np.array([match.view(match.turn).state], STATE)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network whose outputs are far from 0."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("sb3_contrib")
    from agents.network import make_policy, save_checkpoint

    torch.manual_seed(5)
    policy: Any = make_policy((16,))
    policy.action_net.weight.data.mul_(300)
    policy.value_net.weight.data.mul_(3)
    folder = tmp_path_factory.mktemp("run") / "last"
    save_checkpoint(folder, policy, (16,), reward_scale=SCALE, value_per_logit=0.02)
    return folder


# Networks


def test_a_network_tells_probabilities_and_its_value(capsys: Capture, checkpoint: Path) -> None:
    match = choice()
    views, mask = seen(match), action_mask(match.state)
    found = told(capsys, checkpoint, repr(match.view(1)))
    assert list(found) == [
        "agent", "view", "seat", "action", "actions", "value", "change", "chance_before", "chance"
    ]  # fmt: skip
    assert (found["agent"], found["view"], found["seat"]) == (str(checkpoint), repr(match.view(1)), 1)

    agent: Any = make_agent(str(checkpoint))
    logits = agent.logits(views)[0].astype(np.float64)
    weights = {move_text(*action_move(match.state, int(a))): np.exp(logits[a]) for a in np.flatnonzero(mask)}
    probabilities = {row["action"]: row["probability"] for row in found["actions"]}
    assert probabilities == pytest.approx({move: w / sum(weights.values()) for move, w in weights.items()})
    assert sum(probabilities.values()) == pytest.approx(1)
    assert list(probabilities.values()) == sorted(probabilities.values(), reverse=True)
    assert len(probabilities) == 4
    best = int(agent.act(views, mask[None], np.zeros(1, np.uint64))[0])
    assert found["action"] == found["actions"][0]["action"] == move_text(*action_move(match.state, best))

    # 280, 250 and 185 points are needed, and seat 0 started.
    before = float(chance_of(chance_table(3), 280, 250, 185, 0, 1))
    assert found["value"] == float(agent.values(views)[0])
    assert found["change"] == pytest.approx(found["value"] / SCALE)
    assert found["chance_before"] == before
    assert found["chance"] == pytest.approx(before + found["value"] / SCALE)
    assert abs(found["change"]) > 1e-3


def test_a_network_in_words(capsys: Capture, checkpoint: Path) -> None:
    text = repr(choice().view(1))
    found = told(capsys, checkpoint, text)
    status, out, _ = run(capsys, checkpoint, text)
    first, head, *rows, change, chance = out.splitlines()
    assert status == 0
    assert first == f"seat 1 is to move; {checkpoint} takes {found['action']}"
    assert head == "probability of each action:"
    assert rows == [f"  {row['probability']:.4f}  {row['action']}" for row in found["actions"]]
    told_change = f"expected change of the chance to win the match since the round began: {found['change']:+.4f}"
    assert change == told_change
    assert chance == (
        f"chance to win the match: {found['chance']:.4f}; when the round began, by scores: {found['chance_before']:.4f}"
    )


def test_one_legal_action_is_certain(capsys: Capture, checkpoint: Path) -> None:
    found = told(capsys, checkpoint, repr(forced().view(1)))
    assert found["actions"] == [{"action": "draw", "probability": 1.0}]


def test_partners_have_the_chance_of_their_side(capsys: Capture, checkpoint: Path) -> None:
    match = lay(Match, "1|4 0|2", "3|3 5|5", "6|6 0|0", "1|1 2|2", scores=[100, 200], starter=2)
    found = told(capsys, checkpoint, repr(match.view(2)))
    assert found["chance_before"] == float(chance_of(chance_table(4), 205, 105, 5, 2, 0))


def test_a_value_of_unknown_unit_is_told_as_it_is(capsys: Capture, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    meta = json.loads((checkpoint / "meta.json").read_text())
    del meta["reward_scale"]
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "policy.pt").write_bytes((checkpoint / "policy.pt").read_bytes())
    text = repr(choice().view(1))
    found = told(capsys, folder, text)
    assert list(found)[-1] == "value"
    assert found["value"] == told(capsys, checkpoint, text)["value"]
    out = run(capsys, folder, text)[1]
    assert out.splitlines()[-1] == f"value, in the unit of its training: {found['value']:+.4f}"


@pytest.mark.parametrize("scale", [0, -1, "x", None, [1], float("inf"), float("nan")])
def test_a_scale_that_is_none_is_refused(capsys: Capture, checkpoint: Path, tmp_path: Path, scale: object) -> None:
    meta = json.loads((checkpoint / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "reward_scale": scale}))
    (tmp_path / "policy.pt").write_bytes((checkpoint / "policy.pt").read_bytes())
    status, _, err = run(capsys, tmp_path, repr(choice().view(1)))
    assert status == 2
    assert "meta.json is missing, or not that of a checkpoint" in err


def test_a_network_for_another_number_of_seats_is_refused(capsys: Capture) -> None:
    pytest.importorskip("sb3_contrib")
    status, out, err = run(capsys, "net-2p", repr(choice().view(1)))
    assert (status, out) == (2, "")
    assert err == "fivesup: error: agent 'net-2p' was trained for 2 seats, and the match has 3\n"


# Search


@pytest.mark.parametrize("seed", [0, 7])
def test_pimc_tells_what_its_search_found(capsys: Capture, seed: int) -> None:
    match = choice()
    keys = np.array([decision_key(seed, 0, 0)])
    values = PimcAgent(30).action_values(seen(match), keys)
    expected: list[dict[str, Any]] = [
        {
            "action": move_text(*action_move(match.state, action)),
            "chance": float(values.mean[0, action]),
            "spread": float(values.spread[0, action]),
        }
        for action in np.flatnonzero(action_mask(match.state)).tolist()
    ]
    found = told(capsys, "pimc:30", repr(match.view(1)), "--seed", seed)
    assert found["actions"] == sorted(expected, key=lambda row: -row["chance"])
    assert found["worlds"] == 30
    best = int(PimcAgent(30).act(seen(match), action_mask(match.state)[None], keys)[0])
    assert found["action"] == found["actions"][0]["action"] == move_text(*action_move(match.state, best))
    assert found["actions"][0]["spread"] > 0


def test_pimc_in_words(capsys: Capture) -> None:
    text = repr(choice().view(1))
    found = told(capsys, "pimc:5", text)
    first, head, *rows = run(capsys, "pimc:5", text)[1].splitlines()
    assert first == f"seat 1 is to move; pimc:5 takes {found['action']}"
    assert head == "chance to win the match, mean and spread over 5 worlds:"
    assert rows == [f"  {row['chance']:.4f}  {row['spread']:.4f}  {row['action']}" for row in found["actions"]]


def test_a_guided_search_tells_what_search_and_network_found(capsys: Capture, checkpoint: Path) -> None:
    match = choice()
    name, text = f"guided:6:{checkpoint}", repr(match.view(1))
    agent: Any = make_agent(name)
    values = agent.action_values(seen(match), np.array([decision_key(0, 0, 0)]))
    found = told(capsys, name, text)
    chances = {row["action"]: (row["chance"], row["spread"]) for row in found["actions"]}
    assert chances == {
        move_text(*action_move(match.state, action)): (values.mean[0, action], values.spread[0, action])
        for action in np.flatnonzero(action_mask(match.state)).tolist()
    }
    assert (found["worlds"], found["prior_weight"]) == (6, agent.prior_weight)
    head = run(capsys, name, text)[1].splitlines()[1]
    assert head == (
        "chance to win the match, mean and spread over 6 worlds, "
        f"the mean joined with a network's opinion that is worth {agent.prior_weight:g} worlds:"
    )


# Other agents


def test_greedy_tells_what_it_takes(capsys: Capture) -> None:
    match = choice()  # the ends are 1 and 4: [4|4] makes 9, [4|5] 6, [1|6] 10, [1|1] 6
    found = told(capsys, "greedy", repr(match.view(1)))
    assert found == {"agent": "greedy", "view": repr(match.view(1)), "seat": 1, "action": "1|6@1|4.low"}
    out = run(capsys, "greedy", repr(match.view(1)))[1]
    assert out == "seat 1 is to move; greedy takes 1|6@1|4.low\n"


def test_random_depends_on_the_seed_alone(capsys: Capture) -> None:
    text = repr(choice().view(1))
    taken = [told(capsys, "random", text, "--seed", seed)["action"] for seed in range(30)]
    assert taken == [told(capsys, "random", text, "--seed", seed)["action"] for seed in range(30)]
    assert set(taken) == set(choice().view(1).legal())


def test_an_agent_of_ones_own(capsys: Capture) -> None:
    match = choice()
    legal = np.flatnonzero(action_mask(match.state))
    action = int(legal[int(decision_key(3, 0, 0)) % len(legal)])
    found = told(capsys, "tests.guest_agents:Keyed", repr(match), "--seed", 3)
    assert found["action"] == move_text(*action_move(match.state, action))


class Stray:
    """Takes an action that is illegal, whatever the position."""

    def reset(self, seed: int) -> None:
        pass

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        return np.full(len(views), 163)


def test_an_agent_that_takes_what_is_illegal(capsys: Capture) -> None:
    expected = "fivesup: error: agent 'tests.test_predict:Stray' chose action 163, which is illegal\n"
    assert run(capsys, "tests.test_predict:Stray", repr(choice())) == (2, "", expected)


# Where the position comes from


def test_of_a_position_the_agent_sees_what_the_seat_to_move_sees(capsys: Capture) -> None:
    match = choice()
    assert told(capsys, "pimc:5", repr(match)) == told(capsys, "pimc:5", repr(match.view(1)))


@pytest.mark.parametrize("arguments", [["greedy"], ["greedy", "-"]])
def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(repr(choice()) + "\n"))
    assert told(capsys, *arguments)["action"] == "1|6@1|4.low"


# What is refused


def finished() -> Match:
    match: Match = play(lay(Match, "1|4", "4|6"), "1|4")
    return match


@pytest.mark.parametrize(
    ("agent", "text", "message"),
    [
        ("greedy", repr(choice().view(0)), "seat 1 is to move, and this is the view of seat 0"),
        ("greedy", repr(finished()), "the round is over: no seat is to move"),
        ("greedy", repr(finished().view(1)), "the round is over: no seat is to move"),
        ("nobody", repr(choice()), "no agent 'nobody'"),
        ("pimc:0", repr(choice()), "worlds must be within 1"),
        ("clairvoyant:1", repr(choice()), "sees hidden tiles"),
        ("greedy", "hello", 'a position begins with "fivesup "'),
        ("greedy", "", 'a position begins with "fivesup "'),
        ("greedy", repr(choice().view(1)).replace("turn=1", "turn=2"), "turn=2 disagrees with the moves"),
        ("greedy", repr(choice()).replace("moves=1|4", "moves=1|5"), "it does not hold [1|5] (R11)"),
    ],
)
def test_what_cannot_be_predicted(capsys: Capture, agent: str, text: str, message: str) -> None:
    status, out, err = run(capsys, agent, text)
    assert (status, out) == (2, "")
    assert err.startswith("fivesup: error: ") and message in err
    assert err.count("\n") == 1
