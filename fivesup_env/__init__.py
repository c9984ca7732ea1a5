"""Exact 61 Five-Up: dominoes for two, three or four, as environments for reinforcement learning."""

import gymnasium

from fivesup_env.match import Match, View
from fivesup_env.notation import IllegalAction

__version__ = "0.1.0"
__all__ = ["IllegalAction", "Match", "View", "__version__"]

gymnasium.register(
    "FivesUp-v0",
    entry_point="fivesup_env.single_env:FivesUpEnv",
    vector_entry_point="fivesup_env.learner_vector_env:make_vec",
)
