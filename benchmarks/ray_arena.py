"""The arena on Ray: matches a second with one worker and with two, on this machine.

Both crews live through all runs, so that starting Ray and its workers is off the clock. What is timed is what a run of
the arena does: chunks are asked for ahead, and taken back in order. A run has at least eight chunks a worker: else its
end, where workers have nothing left to do, would count too much.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.measure import Measure, Play, Played, Scale

_AGENTS: Final = ("pimc:10", "greedy")


def arena_name(workers: int) -> str:
    """Return the name of a measurement."""
    return f"{' - '.join(_AGENTS)}, 2 seats, {workers} worker{'s' * (workers > 1)}"


def ray_measures(scale: Scale) -> list[Measure]:
    """Return matches with one worker and with two.

    Raises:
        ImportError: Ray is not there.
    """
    import ray  # noqa: F401  # so that it is missed here rather than in a run

    return [Measure("ray", arena_name(workers), partial(_arena, workers), unit="matches") for workers in (1, 2)]


def _arena(workers: int) -> Play:
    import ray

    from agents.arena.crew import Chunk
    from agents.arena.ray_crew import RayCrew
    from agents.arena.tournament import CHUNK, Plan

    if not ray.is_initialized():  # both crews share it, and it ends with this process
        ray.init("local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    plan = Plan(_AGENTS, ((0, 1),), 2, blocks=CHUNK, keep_matches=True)
    crew, begun = RayCrew(plan, workers), 0
    crew.wait_for_all()

    def play(steps: int) -> Played:
        nonlocal begun
        count = max(8 * workers, -(-steps // (CHUNK * plan.block_size(0))))
        chunks = [Chunk(0, (begun + number) * CHUNK, CHUNK) for number in range(count)]
        begun += count
        for chunk in chunks:
            crew.ask(chunk)
        return Played(sum(len(crew.result(chunk).tallies) for chunk in chunks))

    return play
