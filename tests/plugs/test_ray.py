"""The arena on a Ray cluster: the same matches as on one machine, whatever dies; errors; backends that take turns."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster

from agents.agent import _DATA
from agents.arena import ray_crew
from agents.arena.crew import Chunk, Crew
from agents.arena.evaluation import main
from agents.arena.ray_crew import RayCrew, RemoteWorker, Shipment, _Worker, packed, unpacked
from agents.arena.tournament import CHUNK, Plan, Played, run
from tests.processes import next_line, script

PLAN = Plan(("greedy", "random", "pimc:4"), ((0, 1), (2, 1)), 2, 3 * CHUNK, seed=3, keep_matches=True)
TIMES = {"seconds_per_decision", "seconds_per_decision_a", "seconds_per_decision_b"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose head has no CPU, so that what is played is played on the nodes that a test adds."""
    # Processes of the nodes take these over, and Ray's tokens are for clusters that others can reach.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        yield found
        ray.shutdown()
        found.shutdown()


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[Any]]:
    """Two nodes with a CPU each, which the tests share but for those that they kill."""
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(num_cpus=1)
    yield list(cluster.worker_nodes)
    assert not ray.is_initialized()


def on_ray(cluster: Cluster, workers: int | None = 2) -> Callable[[Plan], RayCrew]:
    return partial(RayCrew, workers=workers, address=cluster.address)


def facts(results: list[Played]) -> list[tuple[Any, ...]]:
    """What was played, without the time that it took."""
    return [
        (each.blocks.tallies.tobytes(), each.blocks.margins.tolist(), each.blocks.actions, each.finished)
        for each in results
    ]


def timeless(value: Any) -> Any:
    """A JSON value without times and the command line."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES | {"command"}}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def same_files(folder: Path, expected: Path) -> bool:
    matches, results = ("matches.jsonl", "line_ups.jsonl"), "results.json"
    return all((folder / name).read_bytes() == (expected / name).read_bytes() for name in matches) and (
        timeless(json.loads((folder / results).read_text())) == timeless(json.loads((expected / results).read_text()))
    )


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    return facts(run(PLAN))


def test_a_cluster_without_a_cpu_is_told(cluster: Cluster) -> None:
    assert not cluster.worker_nodes  # the first test of the file
    with pytest.raises(ValueError, match="the Ray cluster has no CPU"):
        on_ray(cluster, None)(PLAN)


class Watched(RayCrew):
    """A crew that begins with all its workers ready, and kills a node on demand.

    Attributes:
        lost: the chunk of each worker that was replaced, None of one that played none. Those that Ray places on a node
            of an earlier test, of whose end it does not know yet, are among the latter.
    """

    def __init__(self, plan: Plan, workers: int, address: str, kill: Callable[[str], None] | None = None) -> None:
        self.lost: list[Chunk | None] = []
        self._kill = kill
        super().__init__(plan, workers, address)
        self.wait_for_all()

    def _replace(self, worker: _Worker, error: Exception) -> None:
        self.lost.append(worker.chunk)
        super()._replace(worker, error)

    def _go_on(self, worker: _Worker) -> None:
        """When all have got a chunk of the second pair, kill the node of the last worker."""
        super()._go_on(worker)
        if self._kill and all(worker.chunk and worker.chunk.pair == 1 for worker in self._workers):
            arrival = self._workers[-1].arrival
            assert arrival is not None
            os.kill(arrival.pid, signal.SIGKILL)  # at once; only in a while would it see that its node has gone
            self._kill(arrival.node)
            self._kill = None


def test_a_node_that_is_killed_costs_nothing_but_time(
    cluster: Cluster, nodes: list[Any], expected: list[tuple[Any, ...]]
) -> None:
    crews: list[Watched] = []

    def kill(node_id: str) -> None:
        cluster.remove_node(next(node for node in nodes if node.node_id == node_id), allow_graceful=False)

    def hire(plan: Plan) -> Watched:
        crews.append(Watched(plan, 2, cluster.address, kill))
        return crews[0]

    assert facts(run(PLAN, hire=hire)) == expected
    assert len(cluster.worker_nodes) == 1
    assert len(crews[0].lost) == 1  # replaced by one that waits in vain for a CPU


def test_workers_that_are_killed_are_replaced(cluster: Cluster, nodes: list[Any]) -> None:
    chunks = [Chunk(1, first, CHUNK) for first in range(0, 3 * CHUNK, CHUNK)]
    with Crew(PLAN, 1) as alone:
        for chunk in chunks:
            alone.ask(chunk)
        expected = [alone.result(chunk).tallies.tobytes() for chunk in chunks]
    crew = Watched(PLAN, 2, cluster.address)
    with crew:
        for chunk in chunks:
            crew.ask(chunk)
        for worker in crew._workers:
            crew._go_on(worker)
            assert worker.chunk and worker.arrival
            os.kill(worker.arrival.pid, signal.SIGKILL)
        assert [crew.result(chunk).tallies.tobytes() for chunk in chunks] == expected
        assert set(filter(None, crew.lost)) == set(chunks[:2])


def test_a_worker_that_dies_while_it_rests_is_no_death_at_a_chunk(cluster: Cluster, nodes: list[Any]) -> None:
    chunk = Chunk(1, 0, CHUNK)
    with Crew(PLAN, 1) as alone:
        alone.ask(chunk)
        expected = alone.result(chunk).tallies.tobytes()
    crew = Watched(PLAN, 2, cluster.address)
    with crew:
        for worker in crew._workers:
            kill_and_wait(worker)
        crew.ask(chunk)
        assert crew.result(chunk).tallies.tobytes() == expected
        assert len(crew.lost) >= 2
        assert not any(crew.lost)


def kill_and_wait(worker: _Worker) -> None:
    """Kill a worker that rests, and wait until a call of it says so."""
    assert worker.arrival
    os.kill(worker.arrival.pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(worker.actor.ping.remote())


class Dies(RemoteWorker):
    """A worker that no chunk leaves alive."""

    def play(self, chunk: Chunk) -> bytes | str:
        os._exit(1)


class Other(RemoteWorker):
    """A worker on a node with other libraries."""

    def arrive(self) -> ray_crew.Arrival:
        arrival = super().arrive()
        return arrival._replace(host="10.0.0.3", facts={**arrival.facts, "numpy": "1.0"})


class Unsure(RemoteWorker):
    """A worker that cannot tell what its node has."""

    def arrive(self) -> ray_crew.Arrival:
        raise LookupError("no version of numpy")


class NeverStarts(RemoteWorker):
    """A worker whose node lacks a library."""

    def __init__(self) -> None:
        raise ModuleNotFoundError("No module named 'numba'")


def test_blocks_that_kill_every_worker_are_an_error(
    cluster: Cluster, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_crew, "RemoteWorker", Dies)
    crew = Watched(PLAN, 1, cluster.address)
    with crew:
        crew.ask(Chunk(1, 32, 32))
        with pytest.raises(RuntimeError, match=r"^3 workers died while playing blocks 32 and on of pair 1$"):
            crew.result(Chunk(1, 32, 32))
        assert list(filter(None, crew.lost)) == [Chunk(1, 32, 32)] * 3


@pytest.mark.parametrize(
    ("worker", "kind", "told"),
    [
        (Other, ValueError, r"Ray node 10\.0\.0\.3 has not what this machine has, .*: numpy 1\.0 there, [2-9.]+ here"),
        (Unsure, RuntimeError, "(?s)^a worker failed:\n.*LookupError: no version of numpy"),
        (NeverStarts, RuntimeError, "(?s)no worker starts on the Ray cluster; .*No module named 'numba'"),
    ],
)
def test_a_node_that_is_not_fit_is_told(
    cluster: Cluster,
    nodes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    worker: type[RemoteWorker],
    kind: type[Exception],
    told: str,
) -> None:
    monkeypatch.setattr(ray_crew, "RemoteWorker", worker)
    with pytest.raises(kind, match=told):
        on_ray(cluster)(PLAN)


def test_the_command_line_gives_the_same_files_and_backends_take_turns(
    cluster: Cluster, nodes: list[Any], tmp_path: Path
) -> None:
    ours = ["greedy+random", "net-4p", "tests.guest_agents:refuses"]
    given = [*ours, "--players", "4", "--seed", "5", "--move-timeout", "20"]
    ray_flags = ["--backend", "ray", "--address", cluster.address]
    alone, both = tmp_path / "alone", tmp_path / "both"
    assert main([*given, "--matches", "160", "--out", str(alone)]) == 0
    for matches, flags in (("40", ray_flags), ("100", ["--workers", "1"]), ("160", ray_flags)):
        assert main([*given, "--matches", matches, "--out", str(both), "--resume", *flags]) == 0
    assert same_files(both, alone)
    assert any(agent["forfeits"] for agent in json.loads((both / "results.json").read_text())["agents"])


def test_checkpoints_travel_with_the_plan(tmp_path: Path) -> None:
    here, there = tmp_path / "a+b", tmp_path / "there"
    there.mkdir()
    here.symlink_to(_DATA / "net-4p")
    plan = Plan((f"greedy+{here}", f"guided:2:{here}", "net-4p"), ((0, 1),), 4, 1)
    shipment = packed(plan)
    here.unlink()
    moved = unpacked(shipment, there)
    assert moved == replace(plan, agents=(f"greedy+{there}/0", f"guided:2:{there}/0", "net-4p"))
    assert shipment == Shipment(plan, (("greedy", str(here)), (f"guided:2:{here}",), ("net-4p",)), shipment.checkpoints)
    for name in ("meta.json", "policy.pt"):
        assert (there / "0" / name).read_bytes() == (_DATA / "net-4p" / name).read_bytes()


def test_an_address_without_a_cluster_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(SystemExit):
        main(["greedy", "random", "--backend", "ray", "--address", "127.0.0.1:1"])
    assert "error: no Ray cluster at 127.0.0.1:1 can be reached: [Errno" in capsys.readouterr().err


INTERRUPTED = """
import os
import signal
import sys
from agents.arena import ray_crew
from agents.arena.evaluation import main

def told(self, chunk, take=ray_crew.RayCrew.result):
    print("asked", flush=True)
    return take(self, chunk)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
    os.dup2(1, 2)  # what is said of errors is seen, too
    ray_crew._PATIENCE = 600.0  # so that nothing is said while kernels are compiled
    ray_crew.RayCrew.result = told
    sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_ends_the_workers_and_keeps_what_is_finished(cluster: Cluster, nodes: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "interrupted.py"
    path.write_text(INTERRUPTED)
    flags = ["--matches", "1000000", "--out", str(tmp_path / "run"), "--backend", "ray", "--address", cluster.address]
    with script(path, "greedy", "random", *flags) as process:
        for _ in range(3):
            assert next_line(process) == "asked\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    told = [line for line in rest.splitlines() if line != "asked"]
    assert "stopped: what follows is of the blocks that were finished" in told, rest
    assert len(list((tmp_path / "run" / "chunks").iterdir())) >= 2
    with on_ray(cluster)(PLAN):  # which waits for a CPU: those of the workers before are free again
        assert ray.cluster_resources()["CPU"] == 2
