"""The agents that a configuration names, made once before a run begins, so that a wrong name is told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agents.agent import check_seats, is_network, load_network, make_agent, make_player
from agents.network import NetworkAgent
from agents.search.pimc import PimcAgent
from agents.training.config import Config


def check_agents(config: Config) -> None:
    """Make every agent that a configuration names, but for `start`.

    Raises:
        ValueError: one cannot be made, or cannot play where the configuration puts it; names key and agent.
    """
    seats = config.num_players
    for text in config.evaluation.opponents:
        with _named("evaluation.opponents"):
            check_seats(text, make_agent(text), seats)
    for text in config.ppo.pool:
        with _named("ppo.pool"):
            make_player(text, seats)
    with _named("search.teacher"):
        teacher = make_player(config.search.teacher, seats)
    if type(teacher) is not PimcAgent:  # one that a network guides: see `search.prior_weight`
        raise ValueError(f'search.teacher must be a search, as "pimc:20", not {config.search.teacher!r}')


def load_start(config: Config) -> NetworkAgent:
    """Return the network that a configuration starts from.

    Raises:
        ValueError: it is no network, or not such a one as the configuration trains; names the key.
    """
    if not is_network(config.start):
        raise ValueError(f"start must be a network, such as net-2p or the folder of a checkpoint, not {config.start!r}")
    with _named("start"):
        network = load_network(config.start)
        check_seats(config.start, network, config.num_players)
    wanted: dict[str, Any] = {"hidden": config.hidden}
    if config.search.iterations or config.ppo.in_chances():
        wanted["reward_scale"] = config.reward_scale
    for key, value in wanted.items():
        if getattr(network, key) not in (None, value):
            raise ValueError(f"start: {config.start!r} has {key} = {getattr(network, key)}, and the run {value}")
    return network


@contextmanager
def _named(key: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
