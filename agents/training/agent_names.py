"""The agents that a configuration names, made once before a run begins, so that a wrong name is told at once."""

from __future__ import annotations

from agents.agent import Agent, make_agent
from agents.search.pimc import PimcAgent
from agents.training.config import Config


def check_agents(config: Config) -> None:
    """Make every agent that a configuration names.

    Raises:
        ValueError: one cannot be made, or cannot play where the configuration puts it; names key and agent.
    """
    for text in config.evaluation.opponents:
        _made("evaluation.opponents", text, config.num_players)
    for text in config.ppo.pool:
        if getattr(_made("ppo.pool", text, config.num_players), "sees_all", False):
            raise ValueError(f"ppo.pool: agent {text!r} sees hidden tiles, and nobody in the pool may")
    teacher = _made("search.teacher", config.search.teacher, config.num_players)
    if type(teacher) is not PimcAgent or teacher.sees_all:  # one that a network guides: see `search.prior_weight`
        raise ValueError(f'search.teacher must be a search, as "pimc:20", not {config.search.teacher!r}')


def _made(key: str, text: str, num_players: int) -> Agent:
    try:
        agent = make_agent(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    seats = getattr(agent, "num_players", None)
    if seats not in (None, num_players):
        raise ValueError(f"{key}: agent {text!r} is for {seats} seats, and num_players is {num_players}")
    return agent
