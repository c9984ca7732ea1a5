"""The pool of opponents of a learner: agents that are always there, and copies of the learner from earlier on.

Copies are kept on disk as checkpoints. An opponent is drawn the oftener, the more of its matches the learner lost:
prioritised fictitious self-play (Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement
learning", 2019), with the square of the share lost for the weight.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from agents.agent import Agent, make_agent
from agents.arena.results import unique_names

LEARNER_NAME: Final = "learner"  # in curves
NOBODY: Final = -1  # drawn where there are no opponents
_FADE: Final = 0.99  # of earlier results, with each new one: the learner changes
_LEAST: Final = 0.05  # weight of an opponent that always loses


@dataclass
class Member:
    """An opponent: the text that makes its agent, and the learner's results against it, earlier ones fading."""

    text: str
    matches: float = 0.0
    wins: float = 0.0

    @property
    def win_rate(self) -> float:
        """Return the learner's share of wins, as if two more matches had been shared."""
        return (self.wins + 1) / (self.matches + 2)


class Pool:
    """Opponents by number; numbers of those that left are not given again.

    Args:
        fixed: texts of the agents that are always there.
        folder: where copies of the learner are kept, as checkpoint folders.
        snapshots: at most so many copies; the oldest leave.
        sample: networks draw their actions rather than take the most probable ones.
    """

    def __init__(self, fixed: Sequence[str], folder: Path, snapshots: int, *, sample: bool = True) -> None:
        self.folder, self.snapshots, self.sample = folder, snapshots, sample
        self._fixed = tuple(fixed)
        self._added = 0
        self.members = {number: Member(text) for number, text in enumerate(fixed)}
        self._agents: dict[int, Agent] = {}

    def __len__(self) -> int:
        """Return how many opponents there are."""
        return len(self.members)

    def names(self) -> dict[int, str]:
        """Return what each member is called in curves, by its number; no two alike, and none as the learner."""
        _, *names = unique_names([LEARNER_NAME, *(Path(member.text).name for member in self.members.values())])
        return dict(zip(self.members, names, strict=True))

    def draw(self, key: np.uint64) -> int:
        """Return the number of an opponent, by a uniformly random key; `NOBODY` if there is none yet."""
        if not self.members:
            return NOBODY
        weights = np.array([max((1 - member.win_rate) ** 2, _LEAST) for member in self.members.values()])
        at = float(key >> np.uint64(11)) * 2.0**-53 * weights.sum()
        index = int(np.searchsorted(np.cumsum(weights), at, side="right"))
        return list(self.members)[min(index, len(weights) - 1)]

    def agent(self, number: int) -> Agent:
        """Return an opponent."""
        if number not in self._agents:
            self._agents[number] = make_agent(self.members[number].text, sample=self.sample)
            self._agents[number].reset(number)
        return self._agents[number]

    def note(self, number: int, won: bool) -> None:
        """Take note of a match that the learner won or lost."""
        member = self.members[number]
        member.matches = member.matches * _FADE + 1
        member.wins = member.wins * _FADE + won

    def path_of_next(self) -> Path:
        """Return the folder into which the next copy of the learner is to be written before `add`."""
        return self._path(len(self._fixed) + self._added)

    def add(self) -> tuple[int, int | None]:
        """Take in the copy written to `path_of_next`; return its number, and that of the copy that left for it."""
        number = len(self._fixed) + self._added
        self.members[number] = Member(str(self.path_of_next()))
        self._added += 1
        copies = [each for each in self.members if each >= len(self._fixed)]
        if len(copies) <= self.snapshots:
            return number, None
        del self.members[copies[0]]
        self._agents.pop(copies[0], None)
        return number, copies[0]

    def sweep(self) -> None:
        """Delete the folders of copies that left. Before that, keep `state_dict`: an earlier one may name them."""
        held = {self._path(number) for number in self.members}
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            if path not in held:
                shutil.rmtree(path)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on, but for the copies' weights, which are on disk."""
        members = [[number, each.matches, each.wins] for number, each in self.members.items()]
        return {"members": members, "added": self._added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was asked."""
        texts = dict(enumerate(self._fixed))
        self.members = {
            number: Member(texts.get(number, str(self._path(number))), matches, wins)
            for number, matches, wins in state["members"]
        }
        self._added = state["added"]
        self._agents.clear()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05}"
