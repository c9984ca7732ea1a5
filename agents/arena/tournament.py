"""Pairs of agents over many blocks, on many processes or machines; what is finished is kept, and can be gone on with.

Blocks are dealt out in chunks of a fixed size and taken back in order, and a sequential test looks at whole chunks. So
a run's results depend on its plan alone: not on how many processes play, nor on whether it was interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.agent import partners
from agents.arena.blocks import Blocks, block_scores, block_size, even_share, joined, no_blocks
from agents.arena.chunks import claim, load_chunk, locked, save_chunk
from agents.arena.crew import Chunk, ChunkPlayers, Crew
from agents.arena.statistics import RunningMean, SequentialTest

#: Blocks that a process plays at once, their matches side by side.
CHUNK: Final = 32


@dataclass(frozen=True)
class Plan:
    """What is to be played. Everything that results depend on is here, and nothing else.

    Attributes:
        agents: their texts, see `make_agent`; with four seats also "x+y", a side of two partners.
        pairs: indices (a, b) into `agents`.
        num_players: seats.
        blocks: blocks of each pair, see `num_blocks`; with `elo_bounds` at most so many.
        seed: match seed of block 0 of every pair.
        elo_bounds: stop a pair as soon as a sequential test between these has decided.
        sample: networks sample their actions rather than take the most probable ones.
        move_timeout: seconds for each decision of a guest; None for any time.
        keep_matches: keep the decisions taken, from which `record_lines` makes the records of the matches.

    Raises:
        ValueError: a text names two partners without four seats, or not as "x+y"; says which.
    """

    agents: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    num_players: int
    blocks: int
    seed: int = 0
    elo_bounds: tuple[float, float] | None = None
    sample: bool = False
    move_timeout: float | None = None
    keep_matches: bool = False

    def __post_init__(self) -> None:
        for text in self.agents:
            if len(partners(text)) == 2 and self.num_players != 4:
                raise ValueError(
                    f"agent {text!r} is a pair of partners, and only with four seats has anyone a partner, "
                    f"not with {self.num_players}"
                )

    def block_size(self, pair: int) -> int:
        """Return the matches of a block of this pair."""
        named = any(len(partners(self.agents[index])) == 2 for index in self.pairs[pair])
        return block_size(self.num_players, named=named)

    def num_blocks(self, pair: int) -> int:
        """Return the blocks of this pair: `blocks`, or half of them, rounded up, where they are twice as large."""
        return -(-self.blocks * block_size(self.num_players) // self.block_size(pair))


@dataclass
class Played:
    """What a pair has played so far: whole blocks, in order."""

    a: int
    b: int
    parts: list[Blocks]  # one or more, which `blocks` joins
    decided: str | None = None  # "better" or "not better", by a sequential test
    finished: bool = False
    sees_all: tuple[bool, bool] = (False, False)  # whether `a` and `b` see hidden tiles
    won: RunningMean = field(default_factory=RunningMean)  # of `a`, over the blocks

    @property
    def blocks(self) -> Blocks:
        """All blocks so far; joined only when asked for, since after every chunk that would take quadratic time."""
        if len(self.parts) > 1:
            self.parts = [joined(self.parts)]
        return self.parts[0]


#: ``watch(pair, played)`` is told whenever more blocks of a pair are finished.
Watch = Callable[[int, Played], None]
#: ``hire(plan)`` returns those who play its chunks, such as `Crew` or `agents.arena.ray_crew.RayCrew`.
Hire = Callable[[Plan], ChunkPlayers]


def run(plan: Plan, *, hire: Hire = Crew, folder: Path | None = None, watch: Watch | None = None) -> list[Played]:
    """Play what is planned; after Ctrl-C, return what is finished.

    Args:
        plan: what to play.
        hire: see `Hire`; by default, this process plays.
        folder: where finished chunks are kept. Those that are there already are not played again.
        watch: see `Watch`.

    Returns:
        For every pair, what it has played.

    Raises:
        ValueError: an agent cannot be made, or the folder holds another run, or one that is still at work; says which
            and why.
    """
    played = [
        Played(a, b, [no_blocks(plan.num_players, plan.block_size(pair))]) for pair, (a, b) in enumerate(plan.pairs)
    ]
    with suppress(KeyboardInterrupt), hire(plan) as crew, ExitStack() as held:
        for result in played:
            result.sees_all = (crew.sees_all[result.a], crew.sees_all[result.b])
        if folder is not None:
            held.enter_context(locked(folder))
            claim(folder, plan)
        for pair, result in enumerate(played):
            _play_pair(plan, pair, result, crew, folder, watch)
            result.finished = True
    return played


def who_sees_all(plan: Plan, played: Sequence[Played]) -> list[bool]:
    """Tell for every agent whether it sees hidden tiles, as `run` found; one in no pair counts as not."""
    found = {
        index: sees for result in played for index, sees in zip((result.a, result.b), result.sees_all, strict=True)
    }
    return [found.get(index, False) for index in range(len(plan.agents))]


def _play_pair(
    plan: Plan, pair: int, result: Played, crew: ChunkPlayers, folder: Path | None, watch: Watch | None
) -> None:
    test = SequentialTest(even_share(plan.num_players), *plan.elo_bounds) if plan.elo_bounds else None
    for blocks in _chunks(plan, pair, crew, folder):
        scores = block_scores(blocks, plan.num_players)
        result.parts.append(blocks)
        result.won.add(scores)
        if test:
            test.add(scores)
            result.decided = test.decision
        if watch:
            watch(pair, result)
        if result.decided:
            crew.forget()  # chunks still under way are never looked at
            return


def _chunks(plan: Plan, pair: int, crew: ChunkPlayers, folder: Path | None) -> Iterator[Blocks]:
    """Yield the chunks of a pair in order, from the folder or played by the crew."""
    count = plan.num_blocks(pair)
    starts = deque(range(0, count, CHUNK))
    under_way: deque[tuple[Chunk, Blocks | None]] = deque()
    while starts or under_way:
        while starts and len(under_way) < crew.capacity:
            first = starts.popleft()
            chunk = Chunk(pair, first, min(CHUNK, count - first))
            kept = load_chunk(folder, plan, *chunk) if folder else None
            under_way.append((chunk, kept))
            if kept is None:
                crew.ask(chunk)
        chunk, kept = under_way.popleft()
        blocks = kept or crew.result(chunk)
        if folder and kept is None:
            save_chunk(folder, pair, chunk.first, blocks)
        yield blocks
