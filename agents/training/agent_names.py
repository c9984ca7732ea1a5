"""The agents that a configuration names, made once before a run begins, so that a wrong name is told at once."""

from __future__ import annotations

from agents.agent import Agent, is_network, make_agent
from agents.network import NetworkAgent
from agents.search.pimc import PimcAgent
from agents.training.config import Config


def check_agents(config: Config) -> None:
    """Make every agent that a configuration names.

    Raises:
        ValueError: one cannot be made, or cannot play where the configuration puts it; names key and agent.
    """
    if config.start:
        _check_start(config)
    for text in config.evaluation.opponents:
        _made("evaluation.opponents", text, config.num_players)
    for text in config.ppo.pool:
        if getattr(_made("ppo.pool", text, config.num_players), "sees_all", False):
            raise ValueError(f"ppo.pool: agent {text!r} sees hidden tiles, and nobody in the pool may")
    teacher = _made("search.teacher", config.search.teacher, config.num_players)
    if type(teacher) is not PimcAgent or teacher.sees_all:  # one that a network guides: see `search.prior_weight`
        raise ValueError(f'search.teacher must be a search, as "pimc:20", not {config.search.teacher!r}')


def _check_start(config: Config) -> None:
    if not is_network(config.start):
        raise ValueError(f"start must be a network, such as net-2p or the folder of a checkpoint, not {config.start!r}")
    network = _made("start", config.start, config.num_players)
    assert isinstance(network, NetworkAgent)
    for key, found in (("hidden", network.hidden), ("reward_scale", network.reward_scale)):
        wanted = getattr(config, key)
        if found not in (None, wanted):
            raise ValueError(f"start: {config.start!r} has {key} = {found}, and the configuration {wanted}")


def _made(key: str, text: str, num_players: int) -> Agent:
    try:
        agent = make_agent(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    seats = getattr(agent, "num_players", None)
    if seats not in (None, num_players):
        raise ValueError(f"{key}: agent {text!r} is for {seats} seats, and num_players is {num_players}")
    return agent
