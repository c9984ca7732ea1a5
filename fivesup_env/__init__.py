"""Exact 61 Five-Up: dominoes for two, three or four, as environments for reinforcement learning."""

from fivesup_env.match import Match, View
from fivesup_env.notation import IllegalAction

__version__ = "0.1.0"
__all__ = ["IllegalAction", "Match", "View", "__version__"]
