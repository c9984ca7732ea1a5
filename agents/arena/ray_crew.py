"""Who plays the chunks of a run on a Ray cluster: workers that Ray places on its nodes, each with a CPU of its own.

A worker that dies, or whose node does, costs the chunk that it played. Another worker is then asked for, which gets the
next free CPU of the cluster; meanwhile those that are left go on, with that chunk first. Ray could restart workers and
tasks by itself, but a task that it gives to a worker waits for that worker's restart, also where no CPU is left for it.

Nodes need the same code and libraries as this machine, which is checked. The folders of checkpoints need not be there:
their files travel with the plan.
"""

from __future__ import annotations

import enum
import hashlib
import os
import pickle
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ray
from ray import exceptions

import agents
import fivesup_env
from agents.agent import NETWORKS, Agent, is_network, partners, split_guided
from agents.arena.crew import MOST_DEATHS, Chunk, ChunkPlayers, close_sides, make_sides, play_chunk, sides_see_all
from agents.arena.results import versions
from agents.processes import interrupt_held

if TYPE_CHECKING:
    from agents.arena.blocks import Blocks
    from agents.arena.tournament import Plan

_CHECKPOINT_FILES: Final = ("meta.json", "policy.pt")
_CODE: Final = (".py", ".npz", ".json", ".pt")  # suffixes of the files that matches depend on
_PATIENCE: Final = 10.0  # seconds for a cluster to answer; without a first worker, after which that is told
#: What Ray raises when a worker, its node, or an answer that lay there is gone.
_LOST: Final = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
)

#: The files of a checkpoint folder by name.
Files = dict[str, bytes]


class Shipment(NamedTuple):
    """What a worker needs to make the agents of a plan on a node that has not the folders of their checkpoints."""

    plan: Plan
    sides: tuple[tuple[str, ...], ...]  # the texts of each agent's partners, told apart where the folders are
    checkpoints: dict[str, Files]  # by path, as the texts have it


class Arrival(NamedTuple):
    """Where a worker is, and what it runs."""

    node: str  # Ray's id of the node
    host: str  # its address, for people
    pid: int
    facts: dict[str, str]  # see `code_facts`


class RemoteWorker:
    """A worker, in a process that Ray starts on some node."""

    def __init__(self) -> None:
        self._plan: Plan
        self._sides: list[list[Agent]] = []

    def arrive(self) -> Arrival:
        """Return where this worker is."""
        node = ray.get_runtime_context().get_node_id()
        return Arrival(node, ray.util.get_node_ip_address(), os.getpid(), code_facts())

    def ping(self) -> None:
        """Answer, which tells that this worker is still there."""

    def prepare(self, shipment: Shipment) -> str | None:
        """Make the agents of a plan; return what went wrong."""
        try:
            with tempfile.TemporaryDirectory(prefix="fivesup-") as folder:
                self._plan = unpacked(shipment, Path(folder))
                self._sides = make_sides(self._plan)
        except ValueError as error:
            return str(error)
        except Exception:
            return traceback.format_exc()
        return None

    def play(self, chunk: Chunk) -> bytes | str:
        """Play a chunk; return its blocks, pickled, or what went wrong.

        As bytes, blocks become the driver's own; else it would look at their arrays in Ray's store, and keep that full.
        """
        try:
            return pickle.dumps(play_chunk(self._plan, self._sides, chunk))
        except Exception:
            return traceback.format_exc()


class _Step(enum.Enum):
    """What a worker does."""

    ARRIVES = enum.auto()  # it waits for a CPU, or its process starts
    WAITS = enum.auto()  # for the first of its node to have compiled what all need
    PREPARES = enum.auto()
    RESTS = enum.auto()
    WAKES = enum.auto()  # it is asked whether it is still there: nobody heard of it while it rested
    PLAYS = enum.auto()


@dataclass
class _Worker:
    actor: Any
    call: Any  # the answer to come; None where nothing was asked
    step: _Step = _Step.ARRIVES
    arrival: Arrival | None = None
    chunk: Chunk | None = None


class RayCrew(ChunkPlayers):
    """Plays chunks on a Ray cluster; a context manager, which ends its workers. See `ChunkPlayers`.

    In a process that is connected to a cluster already, that one is taken, and stays connected.

    Args:
        plan: what is played.
        workers: how many, each with one CPU; None for as many as the cluster has CPUs now.
        address: of the cluster, as `ray.init` takes it; None for the one that `RAY_ADDRESS` names, or that runs on this
            machine, or a new one on this machine alone.

    Raises:
        ValueError: no cluster answers there, an agent cannot be made, or a node has other code; says which and why.
        RuntimeError: no worker starts; says what the last one left.
    """

    def __init__(self, plan: Plan, workers: int | None = None, address: str | None = None) -> None:
        super().__init__()
        sides = make_sides(plan)  # here as well, so that what fails is an error of the caller's
        close_sides(sides)
        self.sees_all = sides_see_all(sides)
        self._facts = code_facts()
        self._failed_starts = 0  # since a worker was last ready
        self._compiled: set[str] = set()  # nodes
        self._workers: list[_Worker] = []
        self._connected = not ray.is_initialized()
        try:
            if self._connected:
                connect(address)
            count = workers or int(ray.cluster_resources().get("CPU", 0))
            if not count:
                raise ValueError("the Ray cluster has no CPU: start its nodes with some, as `ray start --num-cpus 2`")
            self.capacity = 2 * count
            self._shipment = ray.put(packed(plan))
            for _ in range(count):
                self._workers.append(self._hire())
            self._wait_for_first()
        except BaseException:  # Ctrl-C as well
            self.close()
            raise

    def close(self) -> None:
        """End the workers, and the connection if it was made here."""
        with interrupt_held():
            for worker in self._workers:
                _dismiss(worker)
            self._workers.clear()
            if self._connected:
                ray.shutdown()

    def result(self, chunk: Chunk) -> Blocks:
        """Return what a chunk that was asked for gave.

        Raises:
            RuntimeError: a worker failed, or several died at it; says how.
            ValueError: a node that has joined has other code, or cannot make the agents.
        """
        while chunk not in self._done:
            self._hand_out()
            self._listen()
        return self._done.pop(chunk)

    def wait_for_all(self) -> None:
        """Wait until every worker is ready, for measurements and tests; in a run, those that are ready begin."""
        while not all(worker.step is _Step.RESTS for worker in self._workers):
            self._listen()
            self._hand_out()

    def _wait_for_first(self) -> None:
        """Wait until a worker is ready, so that a cluster on which nobody can play is known before the run begins."""
        told = False
        while not any(worker.step is _Step.RESTS for worker in self._workers):
            if not self._listen(None if told else _PATIENCE) and not told:
                print("waiting for a free CPU of the Ray cluster, or for its first worker to be ready", file=sys.stderr)
                told = True
            self._hand_out()

    def _hand_out(self) -> None:
        """Have workers prepare where they may, and wake one that rests for each chunk that waits."""
        awake = sum(worker.step is _Step.WAKES for worker in self._workers)
        for worker in self._workers:
            if worker.step is _Step.WAITS and self._may_prepare(worker):
                worker.step, worker.call = _Step.PREPARES, worker.actor.prepare.remote(self._shipment)
            elif worker.step is _Step.RESTS and awake < len(self._waiting):
                worker.step, worker.call = _Step.WAKES, worker.actor.ping.remote()
                awake += 1

    def _go_on(self, worker: _Worker) -> None:
        """Give the next chunk to a worker that has just answered, or let it rest.

        Only such a one gets a chunk, for one that died while it rested did not die of the chunk.
        """
        if not self._waiting:
            worker.step = _Step.RESTS
            return
        worker.step, worker.chunk = _Step.PLAYS, self._waiting.popleft()
        worker.call = worker.actor.play.remote(worker.chunk)

    def _may_prepare(self, worker: _Worker) -> bool:
        """Tell whether a worker's node has compiled kernels in its cache, or nobody there is at it."""
        assert worker.arrival is not None
        at_it = {other.arrival.node for other in self._workers if other.arrival and other.step is _Step.PREPARES}
        return worker.arrival.node in self._compiled or worker.arrival.node not in at_it

    def _listen(self, timeout: float | None = None) -> bool:
        """Wait for an answer, for so many seconds or as long as it takes; return whether one came."""
        calls = {worker.call: worker for worker in self._workers if worker.call is not None}
        answered, _ = ray.wait(list(calls), timeout=timeout)
        for call in answered:
            self._hear(calls[call])
        return bool(answered)

    def _hear(self, worker: _Worker) -> None:
        """Take what a worker has to say."""
        try:
            answer = ray.get(worker.call)
        except _LOST as error:
            self._replace(worker, error)
            return
        except exceptions.RayError as error:
            raise RuntimeError(f"a worker failed:\n{error}") from None
        worker.call = None
        if worker.step is _Step.ARRIVES:
            self._check_arrival(answer)
            worker.step, worker.arrival = _Step.WAITS, answer
            return
        if worker.step is _Step.PREPARES:
            self._check_prepared(worker, answer)
        elif worker.step is _Step.PLAYS:
            self._take(worker, answer)
        self._go_on(worker)

    def _check_arrival(self, arrival: Arrival) -> None:
        differ = [
            f"{name} {arrival.facts.get(name)} there, {self._facts.get(name)} here"
            for name in sorted(arrival.facts.keys() | self._facts.keys())
            if arrival.facts.get(name) != self._facts.get(name)
        ]
        if differ:
            raise ValueError(
                f"Ray node {arrival.host} has not what this machine has, so matches might differ: {'; '.join(differ)}"
            )

    def _check_prepared(self, worker: _Worker, wrong: str | None) -> None:
        assert worker.arrival is not None
        if wrong:
            raise ValueError(f"a worker on Ray node {worker.arrival.host} cannot play: {wrong}")
        self._compiled.add(worker.arrival.node)
        self._failed_starts = 0

    def _take(self, worker: _Worker, answer: bytes | str) -> None:
        """Take the blocks of a worker's chunk."""
        assert worker.chunk is not None
        if isinstance(answer, str):
            raise RuntimeError(f"a worker failed:\n{answer}")
        self._done[worker.chunk] = pickle.loads(answer)
        worker.chunk = None

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """Put another worker in the place of one that is lost, and its chunk back."""
        if worker.chunk is not None:
            self._waiting.appendleft(worker.chunk)
            # A node that goes takes any chunk with it.
            if worker.arrival is not None and _is_alive(worker.arrival.node):
                self._count_death(worker.chunk)
        elif worker.step is not _Step.WAKES:
            self._count_failed_start(error)
        with interrupt_held():
            _dismiss(worker)
            self._workers[self._workers.index(worker)] = self._hire()

    def _count_failed_start(self, error: Exception) -> None:
        self._failed_starts += 1
        if self._failed_starts == MOST_DEATHS * len(self._workers):
            raise RuntimeError(f"no worker starts on the Ray cluster; what the last one left: {error}")

    def _hire(self) -> _Worker:
        actor = ray.remote(num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0)(RemoteWorker).remote()
        return _Worker(actor, actor.arrive.remote())


def connect(address: str | None, num_cpus: int | None = None) -> None:
    """Connect this process to a cluster, or start one on this machine.

    Args:
        address: as for `RayCrew`; "local" for a new one.
        num_cpus: of a new one; None for as many as this machine has cores.

    Raises:
        ValueError: none can be reached or started; says why.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of what it will do one day
    place = address or os.environ.get("RAY_ADDRESS", "")
    try:
        _knock(place)
        ray.init(
            address=address, num_cpus=num_cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        told = f"no Ray cluster at {place} can be reached" if place else "no Ray cluster can be reached or started"
        raise ValueError(f"{told}: {error}") from None


def _knock(place: str) -> None:
    """Raise OSError if nobody listens at "host:port" or "ray://host:port": Ray itself would try for minutes."""
    host, colon, port = place.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _dismiss(worker: _Worker) -> None:
    with suppress(exceptions.RayError):
        ray.kill(worker.actor)


def _is_alive(node: str) -> bool:
    return any(each["NodeID"] == node and each["Alive"] for each in ray.nodes())


def code_facts() -> dict[str, str]:
    """Return what has to be the same on all nodes for the same matches: versions, and a hash of our own files."""
    digest = hashlib.sha256()
    for package in (agents, fivesup_env):
        root = Path(package.__path__[0])
        for path in sorted(path for path in root.rglob("*") if path.suffix in _CODE):
            digest.update(f"{package.__name__}/{path.relative_to(root).as_posix()}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return {**versions(), "files of fivesup": digest.hexdigest()[:12]}


def packed(plan: Plan) -> Shipment:
    """Return a plan with the files of the checkpoint folders that it names."""
    sides = tuple(partners(text) for text in plan.agents)
    paths = {split_guided(text)[1] for side in sides for text in side}
    checkpoints = {
        path: {name: (Path(path) / name).read_bytes() for name in _CHECKPOINT_FILES}
        for path in sorted(paths)
        if path not in NETWORKS and is_network(path)
    }
    return Shipment(plan, sides, checkpoints)


def unpacked(shipment: Shipment, folder: Path) -> Plan:
    """Write the files of checkpoints into new folders within one; return the plan with these in place of the old."""
    places: dict[str, str] = {}
    for number, (path, files) in enumerate(shipment.checkpoints.items()):
        place = folder / str(number)
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        places[path] = str(place)

    def moved(text: str) -> str:
        head, network = split_guided(text)
        return head + places.get(network, network)

    return replace(shipment.plan, agents=tuple("+".join(map(moved, side)) for side in shipment.sides))
