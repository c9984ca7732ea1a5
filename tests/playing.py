"""Ways to play an environment: by ids and by texts, at random, and beside a `Match`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fivesup_env import Match, fivesup_v0
from fivesup_env.actions import action_move
from fivesup_env.notation import move_text

SEATS = [2, 3, 4]
CODECS = ["ends", "ports"]
REWARDS = ["win", "points", "margin"]
# Any: options that a test gets as parameters have no literal types.
raw_env: Any = fivesup_v0.raw_env
wrapped_env: Any = fivesup_v0.env
MAKERS = [raw_env, wrapped_env]

# Raw points a few steps from the target, so that matches are short; uneven, so that sides cannot be confused.
NEAR = {2: [285, 260], 3: [270, 285, 255], 4: [255, 280]}


def legal(env: Any) -> list[int]:
    """The legal ids of the agent to move."""
    return [int(action) for action in np.flatnonzero(env.observe(env.agent_selection)["action_mask"])]


def text_of(env: Any, action: int, actions: str = "ends") -> str:
    """The action as `Match.play` takes it."""
    return move_text(*action_move(env.unwrapped.record, action, actions))


def act(env: Any, *texts: str) -> None:
    """Take these actions, given as texts."""
    for text in texts:
        env.step(next(action for action in legal(env) if text_of(env, action) == text))


def put(env: Any, match: Match) -> Any:
    """The environment with the match's position in it."""
    env.set_state(np.frombuffer(match.to_bytes(), np.uint8))
    return env


def snapshot(env: Any) -> tuple[Any, ...]:
    """Everything that agents get to see now, and the state."""
    seen = [
        env.observe(agent)[part].tobytes() for agent in env.possible_agents for part in ("observation", "action_mask")
    ]
    if not env.agents:
        return (*seen, env.state().tobytes())
    _, reward, terminated, truncated, info = env.last()
    told = {key: value.tolist() if key == "action_mask" else value for key, value in info.items()}
    return (*seen, env.state().tobytes(), env.agent_selection, reward, terminated, truncated, told)


def follow(env: Any, actions: Sequence[int | None]) -> list[tuple[Any, ...]]:
    """Take these actions and return what is seen before each and after the last."""
    seen = [snapshot(env)]
    for action in actions:
        env.step(action)
        seen.append(snapshot(env))
    return seen


def play_random(env: Any, seed: int, limit: int = 10_000) -> list[int | None]:
    """Play random legal actions to the end, or `limit` of them; return them, with None for the steps of dead agents."""
    rng = np.random.default_rng(seed)
    actions: list[int | None] = []
    while env.agents and len(actions) < limit:
        over = env.terminations[env.agent_selection] or env.truncations[env.agent_selection]
        actions.append(None if over else int(rng.choice(legal(env))))
        env.step(actions[-1])
    return actions


def win_table(scores: Any, starters: Any) -> Any:
    """`table` for every row, as environments ask for it."""
    return [table(row, None if starter < 0 else starter) for row, starter in zip(scores, starters, strict=True)]


def table(scores: Sequence[int], starter: int | None) -> list[float]:
    """Even chances, a thousandth for each point of lead, and a tenth for who starts."""
    chance = 0.5 + (scores[0] - scores[1]) / 1000
    chance += {0: 0.1, 1: -0.1, None: 0.0}[starter]
    return [chance, 1 - chance]
