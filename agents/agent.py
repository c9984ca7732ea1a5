"""What an agent is, how it is made from a text, and the keys that are its only randomness."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from agents.baselines import GreedyAgent, RandomAgent
from fivesup_env._jit import kernel
from fivesup_env.rules.chance import mix
from fivesup_env.rules.state import States

if TYPE_CHECKING:
    from agents.network import NetworkAgent

_BASELINES: dict[str, Callable[[], Agent]] = {"random": RandomAgent, "greedy": GreedyAgent}
_SEARCHES: Final = ("pimc", "clairvoyant", "guided")  # before the first colon of their texts
_PLUS = "+"  # between the texts of two partners
#: Networks that come with the package; docs/experiments.md tells how they were made, and how well they play.
NETWORKS: Final = ("net-2p", "net-3p", "net-4p")
_DATA: Final = Path(__file__).parent / "data"
_DECISIONS = np.uint64(0xDEC1)  # keeps decisions apart from the deals of the same seed


@runtime_checkable
class Agent(Protocol):
    """Whoever chooses actions. Decisions depend on the arguments of `act` alone, never on how they are batched."""

    def reset(self, seed: int) -> None:
        """Begin afresh, before any match is played; the same seed means the same decisions."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Choose an action in each of N positions.

        Args:
            views: STATE[N], each the view of the seat to move there.
            masks: int8[N, 163], legal `ends` ids.
            keys: uint64[N], one for each decision: the agent's only randomness (`decision_key`).

        Returns:
            int64[N], legal `ends` ids.
        """
        ...


def make_agent(text: str, *, sample: bool = False) -> Agent:
    """Return the agent that a text names.

    Args:
        text: "random"; "greedy"; "pimc:K", a search in K worlds; "clairvoyant:K", the same with every tile seen;
            "net-2p", "net-3p" or "net-4p", a network that comes with the package, for so many seats; the path of a
            checkpoint folder, such as "runs/smoke/checkpoints/last"; "guided:K:" and a text of a network, a search
            joined with it; or "package.module:factory", which calls a function of one's own that returns an agent.
        sample: a network that plays by itself draws its actions rather than take the most probable ones.

    Raises:
        ValueError: the text names no agent, or what it names cannot be made; says why.
    """
    name, _, number = text.partition(":")
    if name in ("pimc", "clairvoyant"):
        from agents.search.pimc import PimcAgent

        if not number.isascii() or not number.isdigit():
            raise ValueError(f'agent {text!r}: give the number of worlds, as in "{name}:50"')
        return PimcAgent(int(number), sees_all=name == "clairvoyant")
    if name == "guided":
        from agents.search.guided import make_guided

        return make_guided(text)
    if text in _BASELINES:
        return _BASELINES[text]()
    if is_network(text):
        return load_network(text, sample=sample)
    if is_guest(text):
        return make_guest(text)
    raise ValueError(
        f'no agent {text!r}: give "random", "greedy", "pimc:50", "clairvoyant:1", "net-2p", the path of a checkpoint '
        'folder, as runs/smoke/checkpoints/last, "guided:20:net-2p", or "package.module:factory"'
    )


def make_player(text: str, num_players: int, *, sample: bool = False) -> Agent:
    """Return the agent that a text names, for a seat of a match.

    Args:
        text: as for `make_agent`.
        num_players: seats of the match.
        sample: as for `make_agent`.

    Raises:
        ValueError: the text names no agent, one that sees hidden tiles, or a network for another number of seats.
    """
    agent = make_agent(text, sample=sample)
    if getattr(agent, "sees_all", False):
        raise ValueError(f"agent {text!r} sees hidden tiles: it can only play in the arena")
    check_seats(text, agent, num_players)
    return agent


def check_seats(text: str, agent: Agent, num_players: int) -> None:
    """Check that an agent can play with so many seats.

    Raises:
        ValueError: it is a network for another number, or one guides it.
    """
    trained_for = getattr(agent, "num_players", None)
    if trained_for not in (None, num_players):
        raise ValueError(f"agent {text!r} was trained for {trained_for} seats, and the match has {num_players}")


def load_network(text: str, *, sample: bool = False) -> NetworkAgent:
    """Return the network that a text names, see `is_network`.

    Raises:
        ValueError: the checkpoint is of another version, incomplete or damaged; says what.
    """
    from agents.network import NetworkAgent

    return NetworkAgent.load(_DATA / text if text in NETWORKS else Path(text), deterministic=not sample)


def partners(text: str) -> tuple[str, ...]:
    """Return the texts of the two partners that "x+y" names, or, of any other text, that text alone.

    A "+" within the path of a checkpoint folder is part of the path.

    Raises:
        ValueError: the text has a "+", but not between two partners.
    """
    if not _has_plus(text):
        return (text,)
    for place in (place for place, letter in enumerate(text) if letter == _PLUS):
        pair = text[:place], text[place + 1 :]
        if all(one and not _has_plus(one) for one in pair):
            return pair
    raise ValueError(f'agent {text!r}: give two partners with a "+" between them, as in "greedy+pimc:50"')


def _has_plus(text: str) -> bool:
    """Tell whether a text has a "+" that is not within the path of a checkpoint folder, guided by it or not."""
    return _PLUS in text and not is_network(split_guided(text)[1])


def split_guided(text: str) -> tuple[str, str]:
    """Return "guided:K:" and the network of "guided:K:NETWORK"; of any other text, "" and that text."""
    parts = text.split(":", 2)
    return (f"{parts[0]}:{parts[1]}:", parts[2]) if parts[0] == "guided" and len(parts) == 3 else ("", text)


def is_network(text: str) -> bool:
    """Tell whether a text names a network: one that comes with the package, or the folder of a checkpoint."""
    return text in NETWORKS or (Path(text) / "meta.json").is_file()


def is_guest(text: str) -> bool:
    """Tell whether a text names an agent of one's own, as "package.module:factory"."""
    module, colon, factory = text.partition(":")
    own = module in _SEARCHES
    return bool(colon) and not own and factory.isidentifier() and all(p.isidentifier() for p in module.split("."))


def make_guest(text: str) -> Agent:
    """Return what the factory that "package.module:factory" names returns.

    Raises:
        ValueError: there is no such factory, or what it returns has no `act` and `reset`.
    """
    module, _, factory = text.partition(":")
    try:
        agent = getattr(importlib.import_module(module), factory)()
    except (Exception, SystemExit) as error:  # whatever a module of unknown origin does
        raise ValueError(f"agent {text!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(agent, Agent):
        raise ValueError(f"agent {text!r}: {factory}() returned a {type(agent).__name__} without `act` and `reset`")
    return agent


def decision_key(seed: int, match: int, ply: int) -> np.uint64:
    """Return the key for a decision: number `ply` of match number `match` under `seed`.

    In the arena, `seed` is the match seed and `match` the rotation of the line-up.
    """
    key: np.uint64 = np.uint64(_decision_key(np.uint64(seed), np.uint64(match), np.uint64(ply)))
    return key


def decision_keys(
    seeds: NDArray[np.uint64], matches: NDArray[np.int64], plies: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return `decision_key` row by row, uint64[N]."""
    keys = np.empty(len(seeds), np.uint64)
    _decision_keys(seeds, matches, plies, keys)
    return keys


@kernel
def _decision_key(seed: np.uint64, match: np.uint64, ply: np.uint64) -> Any:
    return mix(mix(mix(_DECISIONS, seed), match), ply)


@kernel
def _decision_keys(
    seeds: NDArray[np.uint64], matches: NDArray[np.int64], plies: NDArray[np.int64], keys: NDArray[np.uint64]
) -> None:
    for row in range(len(seeds)):
        keys[row] = _decision_key(seeds[row], np.uint64(matches[row]), np.uint64(plies[row]))
