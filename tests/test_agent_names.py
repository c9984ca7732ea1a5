"""The agents that a configuration names: which are refused, and by what name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

from agents.agent import load_network  # noqa: E402
from agents.network import make_policy, save_checkpoint  # noqa: E402
from agents.training.agent_names import check_agents, load_start  # noqa: E402
from agents.training.config import make_config  # noqa: E402

HIDDEN = list(load_network("net-2p").hidden)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"evaluation": {"opponents": ["greedy", "nobody"]}}, r"evaluation\.opponents: no agent 'nobody': give "),
    ({"evaluation": {"opponents": ["pimc:"]}}, r"evaluation\.opponents: agent 'pimc:': give the number of worlds"),
    ({"evaluation": {"opponents": ["runs/none/checkpoints/last"]}}, r"evaluation\.opponents: no agent 'runs/none/"),
    ({"evaluation": {"opponents": ["no.module:make"]}}, r"evaluation\.opponents: agent 'no.module:make' cannot be"),
    ({"evaluation": {"opponents": ["net-3p"]}}, r"evaluation\.opponents: agent 'net-3p' was trained for 3 seats"),
    ({"num_players": 4, "ppo": {"pool": ["net-2p"]}}, r"ppo\.pool: agent 'net-2p' was .* 2 seats.* the match has 4$"),
    ({"ppo": {"pool": ["greedy", "Random"]}}, r"ppo\.pool: no agent 'Random'"),
    ({"ppo": {"pool": ["clairvoyant:1"]}}, r"ppo\.pool: agent 'clairvoyant:1' sees hidden tiles"),
    ({"search": {"teacher": "pimc"}}, r"search\.teacher: agent 'pimc': give the number of worlds"),
    ({"search": {"teacher": "pimc:0"}}, r"search\.teacher: worlds must be within 1 \.\. 1000000, not 0"),
    ({"search": {"teacher": "greedy"}}, r"search\.teacher must be a search, as \"pimc:20\", not 'greedy'"),
    ({"search": {"teacher": "clairvoyant:2"}}, r"search\.teacher: agent 'clairvoyant:2' sees hidden"),
    ({"search": {"teacher": "guided:5:net-2p"}}, r"search\.teacher must be a search, .* not 'guided:5:net-2p'"),
]


@pytest.mark.parametrize(("values", "fault"), WRONG)
def test_an_agent_that_cannot_play_there_is_refused_by_key_and_name(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match="^" + fault):
        check_agents(make_config(values))


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"start": "greedy"}, r"start must be a network, such as net-2p or the folder of a checkpoint, not 'greedy'"),
        ({"start": "net-3p"}, r"start: agent 'net-3p' was trained for 3 seats, and the match has 2"),
        ({"start": "net-2p", "hidden": [8]}, r"start: 'net-2p' has hidden = \(.*\), and the run \(8,\)"),
        ({"start": "net-2p", "hidden": HIDDEN, "reward_scale": 1}, r"start: 'net-2p' has reward_scale = 10.0, and"),
    ],
)
def test_a_network_that_a_run_cannot_start_from_is_refused(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match="^" + fault):
        load_start(make_config(values))


@pytest.mark.parametrize("ppo", [{"reward": "margin"}, {"shaping": True}])
def test_where_values_are_learned_anew_the_scale_of_the_start_does_not_matter(ppo: dict[str, Any]) -> None:
    nothing = {"iterations": 0}
    values = {"start": "net-2p", "hidden": HIDDEN, "reward_scale": 0.1, "search": nothing, "ppo": ppo}
    assert load_start(make_config(values)).reward_scale == 10.0


def test_all_kinds_of_agents_can_be_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last", make_policy((8,)), (8,), num_players=2)
    names = ["random", "greedy", "pimc:3", "net-2p", str(tmp_path / "last")]
    check_agents(make_config({"ppo": {"pool": names}, "evaluation": {"opponents": [*names, "clairvoyant:1"]}}))
    check_agents(make_config({"ppo": {"pool": []}, "evaluation": {"opponents": []}}))
