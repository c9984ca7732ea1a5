"""Matches whose every decision a search has valued: played, kept in about a dozen bytes a decision, and replayed.

A search gives a value for *every* legal action, far more than the one sampled return that a policy gradient gets. A
network that is fitted to such values averages the noise of the search away.

**Shards.** A shard is one `.npz` file of whole matches. Positions are not kept: the rules replay them from the match
seed and the actions, about as fast as a disk would read them, and a later form of the observation can use old shards.

| array | dtype and shape | meaning |
| --- | --- | --- |
| `version` | int64 | of this format: 1 |
| `num_players` | int64 | seats |
| `seeds` | uint64[M] | match seeds |
| `lengths` | int64[M] | decisions of each match, those with a choice only |
| `actions` | uint8[D] | `ends` ids taken, match by match |
| `values` | uint16[V] | decision by decision, the value of every legal id, ascending |
| `plan` | text | the `SearchPlan` as JSON: what made the shard |

A value is the chance of the mover's side to win the match, times 65535.

What is in a shard follows from its plan and its number alone, so generation can be stopped at any time, gone on with,
and shared by any number of processes.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent, decision_keys, make_agent
from agents.baselines import random_actions
from agents.processes import begin_child, interrupt_held
from agents.search.pimc import PimcAgent
from agents.search.winning_chances import chance_table, value_of_start
from fivesup_env._jit import kernel
from fivesup_env.actions import NUM_ENDS_ACTIONS, ends_step, list_ends
from fivesup_env.batch import deal_rows, enter_rows, hide_rows
from fivesup_env.episode import PLAYING, play_on
from fivesup_env.files import replacing
from fivesup_env.observation import OBS_SIZE, write_decision
from fivesup_env.rules.chance import mix
from fivesup_env.rules.play import start_match
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import STATE, States, check_int, new_state

SHARD_VERSION: Final = 1
#: Values are kept as chances times this.
VALUE_SCALE: Final = 65535
_EXPLORES = np.uint64(0xE8910)  # keeps the lots of exploration apart from the keys of the agents


@dataclass(frozen=True)
class SearchPlan:
    """How matches are played and valued.

    Attributes:
        num_players: seats.
        teacher: the search that values, "pimc:K".
        player: the text of the agent that plays, or "" for the teacher itself. The path of a checkpoint can be relative
            to the folder of the shards.
        explore: chance that an action is drawn uniformly instead.
        matches: in each shard.
        seed: match seed of the first match of shard 0.
        prior_weight: how many of the teacher's worlds the player's opinion is worth in the values, the player being a
            network (`agents.search.guided`); 0 for the teacher's values alone.
    """

    num_players: int = 2
    teacher: str = "pimc:40"
    player: str = ""
    explore: float = 0.05
    matches: int = 256
    seed: int = 0
    prior_weight: float = 0.0

    def __post_init__(self) -> None:
        """Check ranges."""
        check_int("num_players", self.num_players, 2, 4)
        check_int("matches", self.matches, 1, 1_000_000)
        check_int("seed", self.seed, 0, 2**62)
        if not 0 <= self.explore <= 1:
            raise ValueError(f"explore must be within 0 .. 1, not {self.explore}")
        if not self.teacher.startswith("pimc:"):
            raise ValueError(f'teacher must be a search, as "pimc:40", not {self.teacher!r}')
        if not 0 <= self.prior_weight < float("inf"):
            raise ValueError(f"prior_weight must be at least 0 and finite, not {self.prior_weight}")

    def facts(self) -> dict[str, Any]:
        """Return the attributes by name, as shards keep them; a prior weight of 0 is left out, as from older shards."""
        facts = dataclasses.asdict(self)
        return facts if self.prior_weight else {name: facts[name] for name in facts if name != "prior_weight"}


class Shard(NamedTuple):
    """The arrays of a shard; see the module's text."""

    num_players: int
    seeds: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    actions: NDArray[np.uint8]
    values: NDArray[np.uint16]


class Examples(NamedTuple):
    """Decisions as a network sees them."""

    observations: NDArray[np.int8]  #: int8[D, 696]
    masks: NDArray[np.int8]  #: int8[D, 163]: legal `ends` ids
    values: NDArray[np.float32]  #: float32[D, 163]: chance of the mover's side to win the match; 0 where not legal
    before: NDArray[np.float32]  #: float32[D]: that chance when the round began, by the table of winning chances

    def take(self, rows: NDArray[np.int64]) -> Examples:
        """Return these decisions."""
        return Examples(self.observations[rows], self.masks[rows], self.values[rows], self.before[rows])


def play_shard(plan: SearchPlan, number: int, folder: Path = Path()) -> Shard:
    """Play and value the matches of a shard that is to lie in a folder.

    Raises:
        ValueError: an agent cannot be made; says why.
    """
    checkpoint = folder / plan.player
    text = str(checkpoint) if (checkpoint / "meta.json").is_file() else plan.player
    player = make_agent(text, sample=True) if plan.player else None
    teacher = _teacher(plan, player)
    seeds = np.uint64(plan.seed + number * plan.matches) + np.arange(plan.matches, dtype=np.uint64)
    states: States = np.repeat(np.array([new_state(plan.num_players)], STATE), plan.matches)
    rows, plies = np.arange(plan.matches), np.zeros(plan.matches, np.int64)
    deal_rows(states, rows, seeds, np.zeros_like(seeds))
    enter_rows(states, rows, True, True, 0, np.empty(plan.matches, np.int8))
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int8]]] = []
    while len(rows):
        views, masks = states[rows], np.zeros((len(rows), NUM_ENDS_ACTIONS), np.int8)
        hide_rows(views, masks)
        keys = decision_keys(seeds[rows], np.zeros(len(rows), np.int64), plies[rows])
        means = teacher.action_values(views, keys).mean
        actions = _chosen(plan, player, views, masks, keys, means)
        found.append((rows, actions, means, masks))
        plies[rows] += 1
        goes_on = np.zeros(len(rows), np.bool_)
        _advance(states, rows, actions, goes_on)
        rows = rows[goes_on]
    return _gathered(plan.num_players, seeds, plies, found)


def _teacher(plan: SearchPlan, player: Agent | None) -> PimcAgent:
    """Return the search that values, guided by the player if the plan says so."""
    search = make_agent(plan.teacher)
    assert isinstance(search, PimcAgent)
    if not plan.prior_weight:
        return search
    from agents.network import NetworkAgent
    from agents.search.guided import GuidedAgent

    if not isinstance(player, NetworkAgent):
        raise ValueError(f"prior_weight is {plan.prior_weight}: the player must be a network, not {plan.player!r}")
    return GuidedAgent(search.worlds, player, plan.prior_weight)


def _chosen(
    plan: SearchPlan,
    player: Agent | None,
    views: States,
    masks: NDArray[np.int8],
    keys: NDArray[np.uint64],
    means: NDArray[np.float64],
) -> NDArray[np.int64]:
    actions: NDArray[np.int64] = (
        np.nanargmax(means, axis=1) if player is None else player.act(views, masks.copy(), keys)
    )
    lots, new_keys, drawn = np.empty(len(keys)), np.empty_like(keys), np.empty_like(actions)
    _draw_lots(keys, lots, new_keys)
    random_actions(masks, new_keys, drawn)
    return np.where(lots < plan.explore, drawn, actions)


def _gathered(
    num_players: int,
    seeds: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int8]]],
) -> Shard:
    """Put what was found step by step into the order of the matches."""
    order = np.argsort(np.concatenate([rows for rows, _, _, _ in found]), kind="stable")
    actions = np.concatenate([actions for _, actions, _, _ in found])[order]
    means = np.concatenate([means for _, _, means, _ in found])[order]
    masks = np.concatenate([masks for _, _, _, masks in found])[order]
    values = np.rint(np.clip(means[masks.astype(np.bool_)], 0, 1) * VALUE_SCALE)
    return Shard(num_players, seeds, lengths, actions.astype(np.uint8), values.astype(np.uint16))


def save_shard(path: Path, shard: Shard, plan: SearchPlan) -> None:
    """Write a shard: the whole of it, or nothing."""
    with replacing(path, binary=True) as file:
        np.savez_compressed(
            file,
            version=SHARD_VERSION,
            plan=json.dumps(plan.facts()),
            **shard._asdict(),
        )


def load_shard(path: Path) -> Shard:
    """Read a shard.

    Raises:
        ValueError: the file is no shard, of another version, or damaged; says which.
        OSError: the file cannot be read.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[Shard, dict[str, Any]]:
    """Return a shard and its plan; see `load_shard`."""
    with path.open("rb") as file:
        try:
            return _parsed(file)
        except Exception as error:  # whatever numpy finds wrong with a file of unknown origin
            raise ValueError(f"{path}: no shard of search data: {error}") from None


def _parsed(file: IO[bytes]) -> tuple[Shard, dict[str, Any]]:
    with np.load(file, allow_pickle=False) as arrays:
        if int(arrays["version"]) != SHARD_VERSION:
            raise ValueError(f"it is of version {arrays['version']}, not {SHARD_VERSION}")
        shard = Shard(int(arrays["num_players"]), *(arrays[name] for name in Shard._fields[1:]))
        _check_arrays(shard)
        return shard, json.loads(str(arrays["plan"]))


def _check_arrays(shard: Shard) -> None:
    """Check what `replay` relies on."""
    check_int("num_players", shard.num_players, 2, 4)
    kinds = [(array.dtype.name, array.ndim) for array in shard[1:]]
    if kinds != [("uint64", 1), ("int64", 1), ("uint8", 1), ("uint16", 1)]:
        raise ValueError(f"its arrays are of types and dimensions {kinds}")
    lengths, total = shard.lengths, len(shard.actions)
    sound = len(lengths) == len(shard.seeds) > 0 and bool(((lengths >= 0) & (lengths <= total)).all())
    if not sound or lengths.sum() != total:
        raise ValueError(f"it has {len(shard.seeds)} seeds and {len(lengths)} lengths, for {total} actions")


def replay(shard: Shard) -> Examples:
    """Return all decisions of a shard, D in all, in order.

    Raises:
        ValueError: an action is not legal, or there are too many or too few values; names match and decision.
    """
    total = len(shard.actions)
    found = Examples(
        np.empty((total, OBS_SIZE), np.int8),
        np.empty((total, NUM_ENDS_ACTIONS), np.int8),
        np.zeros((total, NUM_ENDS_ACTIONS), np.float32),
        np.empty(total, np.float32),
    )
    state: States = np.array([new_state(shard.num_players)], STATE)
    table = chance_table(shard.num_players)
    match, decision = _replay(state, table, shard.seeds, shard.lengths, shard.actions, shard.values, *found)
    if match >= 0:
        raise ValueError(f"match {match} (seed {shard.seeds[match]}), decision {decision}: does not follow the rules")
    return found


def generate(plan: SearchPlan, folder: Path, shards: int, *, workers: int = 1) -> Iterator[Path]:
    """Make the first shards of a plan in a folder; those that are there already are kept.

    Yields:
        The path of every shard as soon as it is there, the old ones first.

    Raises:
        ValueError: an agent cannot be made, or the folder holds shards of another plan, or damaged ones; says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _claim(plan, folder)
    paths = [folder / f"{number:05}.npz" for number in range(shards)]
    missing = [number for number, path in enumerate(paths) if not path.exists()]
    for number, path in enumerate(paths):
        if number not in missing:
            _check_plan(path, _read(path)[1], plan)
            yield path
    if missing:
        yield from _made(plan, folder, missing, workers)


def _made(plan: SearchPlan, folder: Path, missing: Sequence[int], workers: int) -> Iterator[Path]:
    """Make shards in processes of their own, which end at once when nobody wants more."""
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(missing)), spawn, initializer=begin_child)
    try:
        with interrupt_held():
            futures = [pool.submit(_make, plan, folder, number) for number in missing]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()


def _make(plan: SearchPlan, folder: Path, number: int) -> Path:
    path = folder / f"{number:05}.npz"
    save_shard(path, play_shard(plan, number, folder), plan)
    return path


def _claim(plan: SearchPlan, folder: Path) -> None:
    path = folder / "plan.json"
    if not path.exists():
        with replacing(path) as file:
            file.write(json.dumps(plan.facts(), indent=2) + "\n")
        return
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    _check_plan(path, held, plan)


def _check_plan(path: Path, held: Any, plan: SearchPlan) -> None:
    wanted = plan.facts()
    if held != wanted:
        raise ValueError(f"{path} is of another plan: {held}, not {wanted}")


@kernel
def _advance(states: States, rows: NDArray[np.int64], actions: NDArray[np.int64], goes_on: NDArray[np.bool_]) -> None:
    for index in range(len(rows)):
        state = states[rows[index]]
        ends_step(state, actions[index])
        goes_on[index] = play_on(state, True, True, 0) == PLAYING


@kernel
def _draw_lots(keys: NDArray[np.uint64], lots: NDArray[np.float64], new_keys: NDArray[np.uint64]) -> None:
    """Write a number within 0 .. 1, 1 excluded, and another key for every key."""
    for row in range(len(keys)):
        key = mix(_EXPLORES, keys[row])
        lots[row], new_keys[row] = np.float64(key >> np.uint64(11)) * 2.0**-53, mix(key, key)


@kernel
def _replay(
    states: States,
    table: NDArray[np.float32],
    seeds: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    actions: NDArray[np.uint8],
    values: NDArray[np.uint16],
    observations: NDArray[np.int8],
    masks: NDArray[np.int8],
    out: NDArray[np.float32],
    before: NDArray[np.float32],
) -> Any:
    """Write every decision; return match and decision where the shard does not follow the rules, or -1."""
    state, legal = states[0], np.empty(NUM_ENDS_ACTIONS, np.int64)
    flat_observations, flat_masks, flat_out = observations.reshape(-1), masks.reshape(-1), out.reshape(-1)
    row = place = np.int64(0)
    for match in range(len(seeds)):
        state.seed = seeds[match]
        start_match(state)
        status = play_on(state, True, True, 0)
        for decision in range(lengths[match]):
            if status != PLAYING:
                return match, decision
            write_decision(state, flat_observations, row * OBS_SIZE, flat_masks, row * NUM_ENDS_ACTIONS)
            count, start = list_ends(state, legal), row * NUM_ENDS_ACTIONS
            action = np.int64(actions[row])
            if place + count > len(values) or action >= NUM_ENDS_ACTIONS or flat_masks[start + action] == 0:
                return match, decision
            for index in range(count):
                flat_out[start + legal[index]] = np.float32(values[place + index]) / np.float32(VALUE_SCALE)
            before[row] = value_of_start(state, table, side_of(np.int64(state.num_players), np.int64(state.turn)))
            place += count
            row += 1
            ends_step(state, action)
            status = play_on(state, True, True, 0)
        if status == PLAYING:
            return match, lengths[match]
    if place != len(values):
        return len(seeds) - 1, lengths[-1]
    return -1, 0
