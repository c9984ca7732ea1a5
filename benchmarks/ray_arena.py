"""The arena on Ray: matches a second with one worker and with two, on this machine.

Both crews live through all runs, so that starting Ray and its workers is off the clock, and end after the last one.
What is timed is what a run of the arena does: chunks are asked for ahead, and taken back in order. A run has at least
eight chunks a worker: else its end, where workers have nothing left to do, would count too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.measure import Measure, Play, Played, Scale

if TYPE_CHECKING:
    from agents.arena.ray_crew import RayCrew

_AGENTS: Final = ("pimc:50", "greedy")


def arena_name(workers: int) -> str:
    """Return the name of a measurement."""
    return f"{' - '.join(_AGENTS)}, 2 seats, {workers} worker{'s' * (workers > 1)}"


def ray_measures(scale: Scale) -> list[Measure]:
    """Return matches with one worker and with two.

    Raises:
        ImportError: Ray is not there.
    """
    import ray  # noqa: F401  # so that it is missed here rather than in a run

    arenas = [_Arena(workers) for workers in (1, 2)]
    return [
        Measure("ray", arena_name(arena.workers), arena.prepare, unit="matches", close=arena.close) for arena in arenas
    ]


class _Arena:
    """Matches of a crew of so many workers."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._crew: RayCrew | None = None

    def prepare(self) -> Play:
        """Hire the crew, and wait until all are ready."""
        import ray

        from agents.arena.crew import Chunk
        from agents.arena.ray_crew import RayCrew, connect
        from agents.arena.tournament import CHUNK, Plan

        if not ray.is_initialized():  # both crews share it, and it ends with this process
            connect("local", num_cpus=3)
        plan = Plan(_AGENTS, ((0, 1),), 2, blocks=CHUNK, keep_matches=True)
        self._crew = crew = RayCrew(plan, self.workers)
        crew.wait_for_all()
        begun = 0

        def play(steps: int) -> Played:
            nonlocal begun
            count = max(8 * self.workers, -(-steps // (CHUNK * plan.block_size(0))))
            chunks = [Chunk(0, (begun + number) * CHUNK, CHUNK) for number in range(count)]
            begun += count
            for chunk in chunks:
                crew.ask(chunk)
            return Played(sum(len(crew.result(chunk).tallies) for chunk in chunks))

        return play

    def close(self) -> None:
        """End the crew, if there is one."""
        if self._crew:
            self._crew.close()
