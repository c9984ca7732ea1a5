"""Who plays: baselines, networks, self-play training and the arena."""

from agents.agent import Agent, decision_key, make_agent, make_player

__all__ = ["Agent", "decision_key", "make_agent", "make_player"]
