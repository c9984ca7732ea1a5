"""What a run shows beside its curves: an example match as text and picture, and ratings over the pool.

Both are functions of the agents alone: deals are fixed, and no generator of the training is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.logger import Image, Logger

from agents.agent import Agent, make_agent
from agents.arena.blocks import Blocks, block_scores, block_size, even_share, play_blocks, seated
from agents.arena.match_lines import replayed
from agents.arena.statistics import bradley_terry
from agents.training.pool import LEARNER_NAME, Pool
from fivesup_env.drawing import to_rgb_array
from fivesup_env.drawing.table import scene_of
from fivesup_env.match import Match
from fivesup_env.options import Options
from fivesup_env.records import Event, Record, Round, record_of
from fivesup_env.rules.state import State

_ZERO: Final = "greedy"  # has rating 0 where it is in the pool


# An example match


def log_example(logger: Logger, blocks: Blocks, num_players: int, seed: int, opponent: str, **rules: Any) -> None:
    """Log the first match of these blocks as `example/match`, and its fullest table as `example/table`.

    The picture is left out where pygame is not installed, both where a forfeit came within the first round.

    Args:
        logger: takes them; they are written with its next dump.
        blocks: of the learner against the opponent, the first of which has the match seed `seed`.
        num_players: seats.
        seed: of the match.
        opponent: its text.
        rules: rule parameters of the matches, as for `play_blocks`.
    """
    empty = Options(num_players, **rules).new_state()
    empty["seed"] = seed
    course = replayed(empty, blocks.actions[0])
    if not len(course):
        return
    table = course[np.argmax(course["num_placed"])]
    logger.record("example/match", example_text(record_of(course), table, opponent))
    pixels = _pixels(table)
    if pixels is not None:
        logger.record("example/table", Image(pixels, "HWC"))


def example_text(record: Record, table: State, opponent: str) -> str:
    """Return a match as a block of Markdown, which keeps its lines as they are.

    Args:
        record: of a match in which the learner has the first side, as in the first match of a block.
        table: the position of it with the most tiles on the table, drawn above the moves.
        opponent: the text of the agent that has the other sides.
    """
    names = seated(record["num_players"], 0, [LEARNER_NAME], [opponent])
    lines = [f"match seed {record['seed']}, raw points", *(f"seat {seat}: {name}" for seat, name in enumerate(names))]
    lines += ["", "the fullest table", str(Match.from_state(table)).strip("\n")]
    scores = [0] * len(record["scores"])
    for number, played in enumerate(record["rounds"], 1):
        lines += ["", f"round {number}: seat {played['starter']} starts, scores {_listed(scores)}"]
        lines += _round_lines(played)
        scores = played["scores"]
    winner = "nobody" if record["winner"] is None else f"side {record['winner']}"
    lines += ["", f"{winner} has won, scores {_listed(scores)}"]
    return "\n".join(["```", *lines, "```"])


def _round_lines(played: Round) -> list[str]:
    """Return the hands dealt and the actions, as "seat move", with what each scored."""
    lines = [f"  seat {seat} holds {' '.join(hand)}" for seat, hand in enumerate(played["hands"])]
    for action, events in zip(played["actions"], played["events"], strict=True):
        scored = ", ".join(map(_event_text, events))
        lines.append(f"  {action:<22} {scored}".rstrip())
    return lines


def _event_text(event: Event) -> str:
    points = event["placement"] + event["settlement"] + event["partner"]
    return f"side {event['side']} {points:+}{'' if event['accepted'] else ', refused'}"


def _listed(scores: Sequence[int]) -> str:
    return " ".join(map(str, scores))


def _pixels(table: State) -> NDArray[np.uint8] | None:
    """Return a picture of a position, uint8 [height, width, 3], if the extra `render` is installed."""
    try:
        return to_rgb_array(scene_of(table))
    except ImportError:
        return None


# Ratings


class Ratings:
    """Strengths of a learner and of its pool on one scale, from duplicate matches on fixed deals.

    The learner meets every member each time. Every member also meets the one whose rating is 0, once for all, since
    neither changes: so the members have places of their own on the scale, however the learner fares.

    Args:
        pool: who is rated beside the learner. Networks take their most probable actions, as the learner does.
        num_players: seats.
        matches: of each pair, rounded up to whole blocks.
        seed: match seed of the first block of every pair.
        rules: rule parameters, as for `play_blocks`.
    """

    def __init__(self, pool: Pool, num_players: int, matches: int, seed: int, **rules: Any) -> None:
        self.pool, self.num_players = pool, num_players
        count = -(-matches // block_size(num_players))
        self._deals: dict[str, Any] = {"first": 0, "count": count, "seed": seed, **rules}
        self._kept: dict[tuple[int, int], NDArray[np.float64]] = {}  # block scores between members, by their numbers

    def rate(self, learner: Agent) -> dict[str, float]:
        """Return the Elo points of the learner and of every member by name; nothing while the pool is empty.

        "greedy" has 0 if it is in the pool, else the first member: of those that are always there, or the oldest copy.
        """
        names = self.pool.names()
        if not names:
            return {}
        texts = {number: member.text for number, member in self.pool.members.items()}
        zero = next((number for number, text in texts.items() if text == _ZERO), min(texts))
        agents = {number: make_agent(text) for number, text in texts.items()}
        for agent in agents.values():
            agent.reset(self._deals["seed"])
        pairs = [(number, zero) for number in agents if number != zero]
        self._kept = {
            (a, b): self._kept[a, b] if (a, b) in self._kept else self._scores(agents[a], agents[b]) for a, b in pairs
        }
        blocks = {(names[a], names[b]): scores for (a, b), scores in self._kept.items()}
        blocks |= {(LEARNER_NAME, names[number]): self._scores(learner, agent) for number, agent in agents.items()}
        elo = {
            rating.agent: rating.elo
            for rating in bradley_terry([LEARNER_NAME, *names.values()], blocks, even_share(self.num_players))
        }
        return {name: points - elo[names[zero]] for name, points in elo.items()}

    def _scores(self, a: Agent, b: Agent) -> NDArray[np.float64]:
        return block_scores(play_blocks(a, b, self.num_players, **self._deals), self.num_players)
