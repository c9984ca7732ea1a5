"""Worlds: the full deals that agree with a view, counted exactly and drawn uniformly.

A *world* is one way in which the round can have been dealt: every hand as a set, and the boneyard in its whole order,
its drawn part included. All worlds that agree with a view are equally likely, because a deal is uniform (R3) and
because nothing is assumed about how seats choose. What a view tells about the deal:

- A seat that draws or passes holds nothing that fits (R11-R13): none of the tiles that it still has from before.
- A tile drawn and not placed does not fit either, but for the newest tile of a turn that is not over yet (R12).
- A tile placed in a turn with draws is the last one drawn. Any other tile placed by a seat was dealt to it, or kept
  from one of its earlier draws: a view does not tell which.
- A round that goes on with an empty boneyard shows that some seat can place (R14, D3). Unless tiles are missing from
  a round that was laid out by hand, the other seats then hold all unseen tiles, and this is no news.
- A settlement shows the hands.

The *origins* of tiles are the dealt hand of a seat, the draws that a seat kept in one turn, the boneyard still left,
and the tiles missing from the round. Each has a known number of tiles, and each tile of unknown origin has a set of
origins that it can have. With the tiles in a fixed order, ``ways[u]`` is the number of ways to give the first tiles an
origin so that ``u[o]`` of them have origin o. The sum of u is the number of tiles, so one table over all
u (mixed radix) holds every step of the dynamic program, and going back through it, tile by tile, draws a uniform
assignment (forward filtering, backward sampling). Within an origin every order is equally likely.

Each ``u[o]`` lies between zero and the size of o, so the table is never larger than `MAX_ENTRIES`, and no position can
make it so. Its numbers are float64: whole, and exact below 2**53, which no view of the real game reaches (at most
1.1e14). In smaller games they can become larger; each is a sum of up to 17 positive ones, 27 times over at most, and
is right to a part in 1e13.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env._bits import lowest_bit, popcount
from fivesup_env._jit import kernel
from fivesup_env.notation import position_text
from fivesup_env.rules.chance import below, mix, next_key, scramble
from fivesup_env.rules.layout import fitting, join, placed
from fivesup_env.rules.play import boneyard_left, clear_round, seat_after
from fivesup_env.rules.state import FULL, MAX_SEATS, RUNNING, STATE, State, States
from fivesup_env.rules.tiles import ALL_TILES, NUM_TILES, NUM_VALUES, tile_ids, tiles_up_to

#: Most entries of the table of ways in the real game, for any number of seats, and in any game that can be set up.
MAX_REAL_ENTRIES = 11_664
MAX_ENTRIES = 236_196

# At most 27 tiles are unseen. Three hands, the last draws kept, the newest, the boneyard left and what is missing take
# one each at least; each earlier turn with kept draws takes two, for it ended with one placed at once. 7 + 20 / 2.
_MAX_ORIGINS = 17

_NOBODY = -1  # holds what is left in the boneyard, and what is missing
_NO_PLACE = -1  # dealt and missing tiles are no part of the boneyard
_NO_ENTRY = -1

#: What a view tells about the origins of its tiles: one record for each view, filled by `gather_evidence`.
EVIDENCE: np.dtype[Any] = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("num_tiles", "i8"),  # tiles of unknown origin
                ("num_hidden", "i8"),  # how many of them, the first in order, are not on the table
                ("tiles", "i8", (NUM_TILES,)),
                ("origins", "i8", (NUM_TILES,)),  # per such tile: bit per origin that it can have
                ("num_origins", "i8"),
                ("sizes", "i8", (_MAX_ORIGINS,)),  # per origin: its tiles
                ("seats", "i8", (_MAX_ORIGINS,)),  # per origin: the seat that got them
                ("places", "i8", (_MAX_ORIGINS,)),  # per origin: index of its first tile in the boneyard
                ("possible", "i8", (_MAX_ORIGINS,)),  # per origin: mask of the tiles that can be there still
                ("steps", "i8", (_MAX_ORIGINS,)),  # per origin: distance of neighbours in the table of ways
                ("entries", "i8"),  # length of that table; 0 if the view contradicts itself
                ("barred", "i8"),  # its entry that stands for a blocked round, or -1
                ("count", "i8", (_MAX_ORIGINS,)),  # scratch
                ("table", STATE),  # scratch: the table as the round goes on
            ]
        ),
    )
)

_SETS: NDArray[np.int64] = np.array([tiles_up_to(max_pip) for max_pip in range(NUM_VALUES)])
_WORLDS = np.uint64(0x3041D5)  # keeps worlds apart from playouts with the same keys
_UNUSED_BITS = np.uint64(11)  # of 64, for a float64 in [0, 1)


def sample_worlds(seen: State, keys: NDArray[np.uint64]) -> States:
    """Draw worlds of a view uniformly, with replacement: a `WorldSampler`.

    Args:
        seen: the view of any seat, at any time in a round.
        keys: uint64[K].

    Returns:
        STATE[K]: full states of which the observer has exactly this view. World i depends on the view and on
        ``keys[i]`` alone; so does its seed, from which later rounds follow.

    Raises:
        ValueError: `seen` is a full state or agrees with no deal, or `keys` are no list of integers.
    """
    numbers = np.asarray(keys)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"keys must be uint64[K], not {numbers.dtype}{list(numbers.shape)}")
    views, evidence, ways = _evaluate(seen)
    worlds = np.empty(len(numbers), STATE)
    _draw_worlds(views, evidence, ways, numbers.astype(np.uint64, copy=False), worlds)
    return worlds


def count_worlds(seen: State) -> int:
    """Return how many worlds agree with a view: deals that differ in a hand, in the boneyard's order or in its tiles.

    Exact while the tiles have fewer than 2**53 assignments to origins, as always in the real game; else right to a
    part in 1e13.

    Raises:
        ValueError: `seen` is a full state or agrees with no deal.
    """
    _, evidence, ways = _evaluate(seen)
    found = evidence[0]
    orders = [
        math.factorial(found.sizes[origin]) for origin in range(found.num_origins) if found.places[origin] != _NO_PLACE
    ]
    return int(ways[-1]) * math.prod(orders)


def holding_chances(seen: State) -> NDArray[np.float64]:
    """Return the chance that a seat holds a tile now, over all worlds of a view.

    Returns:
        float64[4, 28], by seat and tile: 0 or 1 in the observer's row, 0 in rows of seats that do not exist. What a
        column lacks to 1 is the chance that the tile is in the boneyard (or missing), if it is not on the table.

    Raises:
        ValueError: `seen` is a full state or agrees with no deal.
    """
    _, evidence, ways = _evaluate(seen)
    chances: NDArray[np.float64] = _chances_of(evidence, ways)
    chances[seen.observer, tile_ids(int(seen.hands[seen.observer]))] = 1
    return chances


def _evaluate(seen: State) -> tuple[States, NDArray[Any], NDArray[np.float64]]:
    """Return the view as STATE[1], its EVIDENCE[1], and the table of ways."""
    if seen.observer == FULL:
        raise ValueError(f'worlds are those of a seat\'s view, and this is the full state "{position_text(seen)}"')
    views, evidence = np.array([seen], STATE), np.zeros(1, EVIDENCE)
    ways = _ways_of(views, evidence)
    if not len(ways) or not ways[-1]:
        raise ValueError(f'no deal agrees with the view "{position_text(seen)}"')
    return views, evidence, ways


@kernel
def _ways_of(views: States, evidence: NDArray[Any]) -> Any:
    gather_evidence(views[0], evidence[0])
    ways = np.empty(evidence[0].entries)
    count_ways(evidence[0], ways)
    return ways


@kernel
def _draw_worlds(
    views: States, evidence: NDArray[Any], ways: NDArray[np.float64], keys: NDArray[np.uint64], worlds: States
) -> None:
    for row in range(len(keys)):
        draw_world(views[0], evidence[0], ways, keys[row], worlds, row)


@kernel
def _chances_of(evidence: NDArray[Any], ways: NDArray[np.float64]) -> Any:
    chances = np.zeros((MAX_SEATS, NUM_TILES))
    add_chances(evidence[0], ways, np.zeros(len(ways)), chances)
    return chances


# For kernels: gather the evidence of a view, count the ways (an array of at least `entries` numbers; if there are none,
# no deal agrees), then draw worlds. Each thread needs records of its own. Numba frees an array when it was last named,
# also if one of its records is still in use: take records from arrays that the caller holds.


@kernel
def gather_evidence(seen: State, evidence: Any) -> None:
    """Write what a view tells into `evidence`, an EVIDENCE record; a view that no play leads to is not detected."""
    _begin(seen, evidence)
    num_players, table = np.int64(seen.num_players), evidence.table
    drawer, first = np.int64(seen.starter), np.int64(0)
    for index in range(np.int64(seen.num_placed)):
        tile, turn = np.int64(seen.history_tile[index]), np.int64(seen.history_turn[index])
        placer, draws = turn % 4, turn // 4
        at_once = np.int64(draws > 0 and placer == drawer)  # R12: then its place in the boneyard is public
        _note_turns(seen, evidence, drawer, first, draws, draws - at_once, placer)
        if at_once == 0 and placer != seen.observer:
            _add_tile(evidence, tile, _origins_of(evidence, tile, placer))
        join(table, tile, np.int64(seen.history_port[index]))
        table.num_placed = index + 1
        first += draws
        drawer = seat_after(num_players, placer, 1)
    _note_end(seen, evidence, drawer, first)
    missing = _add_unowned(seen, evidence)
    _lay_out(evidence)
    _bar_blocked(seen, evidence, missing)


@kernel
def _begin(seen: State, evidence: Any) -> None:
    """Put an empty table, the hidden tiles and the dealt hands into `evidence`."""
    clear_round(evidence.table, np.int64(seen.starter))
    evidence.num_tiles = evidence.num_origins = 0
    hidden = _SETS[seen.max_pip] & ~np.int64(seen.without) & ~placed(seen) & ~np.int64(seen.hands[seen.observer])
    fits = fitting(seen)
    for tiles in (hidden & fits, hidden & ~fits):  # those that fit come first: see `_bar_blocked`
        while tiles:
            _add_tile(evidence, lowest_bit(tiles), np.int64(0))
            tiles &= tiles - 1
    evidence.num_hidden = evidence.num_tiles
    for seat in range(np.int64(seen.num_players)):
        if seat != seen.observer:
            owned = np.int64(seen.hand_sizes[seat]) + popcount(np.int64(seen.placed_by[seat]))
            _add_origin(evidence, seat, owned, np.int64(_NO_PLACE), np.int64(ALL_TILES))


@kernel
def _add_tile(evidence: Any, tile: int, origins: int) -> None:
    evidence.tiles[evidence.num_tiles] = tile
    evidence.origins[evidence.num_tiles] = origins
    evidence.num_tiles += 1


@kernel
def _add_origin(evidence: Any, seat: int, size: int, place: int, possible: int) -> None:
    if size == 0:
        return
    origin = evidence.num_origins
    evidence.seats[origin], evidence.sizes[origin], evidence.places[origin] = seat, size, place
    evidence.possible[origin] = possible
    evidence.num_origins = origin + 1


@kernel
def _note_turns(seen: State, evidence: Any, drawer: int, first: int, draws: int, kept: int, until: int) -> None:
    """Note the draws of seat `drawer`, from index `first` of the boneyard, and the passes up to seat `until`.

    Of the draws, `kept` were kept and do not fit.
    """
    fits = fitting(evidence.table)
    if draws:
        _note_nothing_fits(evidence, drawer, fits)
        if drawer != seen.observer:
            dealt = drawer - np.int64(drawer > seen.observer)
            evidence.sizes[dealt] -= draws
            _add_origin(evidence, drawer, kept, first, ALL_TILES & ~fits)
    seat = drawer
    while seat != until:
        _note_nothing_fits(evidence, seat, fits)
        seat = seat_after(np.int64(seen.num_players), seat, 1)


@kernel
def _note_nothing_fits(evidence: Any, seat: int, fits: int) -> None:
    for origin in range(evidence.num_origins):
        if evidence.seats[origin] == seat:
            evidence.possible[origin] &= ~fits


@kernel
def _origins_of(evidence: Any, tile: int, seat: int) -> Any:
    """Return the origins from which `seat` can hold `tile` now, bit per origin."""
    origins = np.int64(0)
    for origin in range(evidence.num_origins):
        if evidence.seats[origin] == seat:
            origins |= (evidence.possible[origin] >> tile & 1) << origin
    return origins


@kernel
def _note_end(seen: State, evidence: Any, drawer: int, first: int) -> None:
    """Note the draws and passes since the last placement; in a round that is over, `turn` tells of no passes."""
    draws, turn = np.int64(seen.draws), np.int64(seen.turn)
    if seen.result != RUNNING:
        _note_turns(seen, evidence, drawer, first, draws, draws, drawer)  # if any, they blocked the round (D3)
        return
    open_draw = np.int64(draws > 0 and turn == drawer)
    _note_turns(seen, evidence, drawer, first, draws, draws - open_draw, turn)
    if drawer != seen.observer:
        _add_origin(evidence, drawer, open_draw, first + draws - 1, np.int64(ALL_TILES))


@kernel
def _add_unowned(seen: State, evidence: Any) -> Any:
    """Add the boneyard left and the missing tiles, and return how many are missing; a settlement shows the hands."""
    unowned = np.int64(ALL_TILES)
    if seen.shown:
        for seat in range(np.int64(seen.num_players)):
            unowned &= ~np.int64(seen.hands[seat])
        for origin in range(evidence.num_origins):
            evidence.possible[origin] &= np.int64(seen.hands[evidence.seats[origin]])
    _add_origin(evidence, np.int64(_NOBODY), boneyard_left(seen), np.int64(seen.drawn), unowned)
    missing = evidence.num_tiles
    for origin in range(evidence.num_origins):
        missing -= evidence.sizes[origin]
    _add_origin(evidence, np.int64(_NOBODY), missing, np.int64(_NO_PLACE), unowned)
    return missing


@kernel
def _lay_out(evidence: Any) -> None:
    """Find the origins of the hidden tiles, now that all is noted, and lay out the table of ways."""
    for index in range(evidence.num_hidden):
        for origin in range(evidence.num_origins):
            evidence.origins[index] |= (evidence.possible[origin] >> evidence.tiles[index] & 1) << origin
    evidence.entries = 1
    for origin in range(evidence.num_origins):
        evidence.steps[origin] = evidence.entries
        evidence.entries *= max(evidence.sizes[origin] + 1, 0)


@kernel
def _bar_blocked(seen: State, evidence: Any, missing: int) -> None:
    """Bar the worlds in which no seat can place, if nobody can draw and the round goes on (R14, D3).

    There all tiles that fit are missing. They are the first in order, so such worlds, and no others, come by the entry
    at which the missing tiles are as many as those that fit, and no tile has another origin yet.
    """
    evidence.barred = _NO_ENTRY
    fits = fitting(seen)
    if missing <= 0 or seen.result != RUNNING or boneyard_left(seen) or np.int64(seen.hands[seen.observer]) & fits:
        return
    count = np.int64(0)
    for index in range(evidence.num_hidden):
        count += fits >> evidence.tiles[index] & 1
    if count <= missing:
        evidence.barred = count * evidence.steps[evidence.num_origins - 1]


@kernel
def count_ways(evidence: Any, ways: NDArray[np.float64]) -> None:
    """Fill the first `entries` of `ways`; the last of them is the number of ways to give all tiles an origin."""
    count, sizes = evidence.count, evidence.sizes
    for origin in range(evidence.num_origins):
        count[origin] = 0
    if evidence.entries:
        ways[0] = 1
    tiles = np.int64(0)
    for entry in range(1, evidence.entries):
        origin = np.int64(0)
        while count[origin] == sizes[origin]:
            tiles -= count[origin]
            count[origin] = 0
            origin += 1
        count[origin] += 1
        tiles += 1
        ways[entry] = 0 if entry == evidence.barred else _ways_to(evidence, ways, entry, tiles - 1)


@kernel
def _ways_to(evidence: Any, ways: NDArray[np.float64], entry: int, index: int) -> Any:
    """Return the ways to an entry: one for each way to, and each origin of, the last of its tiles."""
    found, origins = 0.0, evidence.origins[index]
    while origins:
        origin = lowest_bit(origins)
        origins &= origins - 1
        if evidence.count[origin]:
            found += ways[entry - evidence.steps[origin]]
    return found


@kernel
def draw_world(seen: State, evidence: Any, ways: NDArray[np.float64], key: np.uint64, worlds: States, row: int) -> None:
    """Write the world that `key` draws into ``worlds[row]``; `evidence` and `ways` are those of the view."""
    worlds[row] = seen
    world, count = worlds[row], evidence.count
    key = next_key(mix(key, _WORLDS))
    world.observer = FULL
    world.seed = scramble(key)
    for origin in range(evidence.num_origins):
        count[origin] = evidence.sizes[origin]
    entry = evidence.entries - 1
    for index in range(evidence.num_tiles - 1, -1, -1):
        key = next_key(key)
        origin = _draw_origin(evidence, ways, entry, index, key)
        count[origin] -= 1
        entry -= evidence.steps[origin]
        key = _put(evidence, index, origin, world, key)


@kernel
def _draw_origin(evidence: Any, ways: NDArray[np.float64], entry: int, index: int, key: np.uint64) -> Any:
    """Return an origin of the last tile of an entry, each as likely as the ways there are with it."""
    left = np.float64(scramble(key) >> _UNUSED_BITS) * 2.0**-53 * ways[entry]
    origins, drawn = evidence.origins[index], np.int64(0)
    while origins and left >= 0:
        origin = lowest_bit(origins)
        origins &= origins - 1
        if evidence.count[origin]:
            found = ways[entry - evidence.steps[origin]]
            if found > 0:
                drawn = origin  # stays, should rounding leave a little of `left` in the end
                left -= found
    return drawn


@kernel
def _put(evidence: Any, index: int, origin: int, world: State, key: np.uint64) -> Any:
    """Put a tile where its origin says, at a random place among the tiles there; return the key to go on with."""
    tile, place = evidence.tiles[index], evidence.places[origin]
    if evidence.seats[origin] != _NOBODY and index < evidence.num_hidden:
        seat = evidence.seats[origin]
        world.hands[seat] = np.int64(world.hands[seat]) | 1 << tile
    if place != _NO_PLACE:
        # Fisher and Yates, from the inside out: the tile changes places with one of those before it, or with none.
        last = evidence.sizes[origin] - evidence.count[origin] - 1
        other, key = below(key, last + 1)
        world.boneyard[place + last] = world.boneyard[place + other]
        world.boneyard[place + other] = tile
    return key


@kernel
def add_chances(
    evidence: Any, ways: NDArray[np.float64], shares: NDArray[np.float64], chances: NDArray[np.float64]
) -> None:
    """Add to ``chances``, float64[4, 28], the chance that each seat but the observer holds each tile now.

    ``shares`` must be as long as `ways` and zero: each entry becomes the number of ways from it to the last one,
    divided by the number of all ways.
    """
    count, tiles = evidence.count, evidence.num_tiles
    for origin in range(evidence.num_origins):
        count[origin] = evidence.sizes[origin]
    last = evidence.entries - 1
    shares[last] = 1 / ways[last]
    for entry in range(last, 0, -1):
        if entry != evidence.barred:
            _share(evidence, ways, shares, entry, tiles - 1, chances)
        origin = np.int64(0)
        while count[origin] == 0:
            count[origin] = evidence.sizes[origin]
            tiles += count[origin]
            origin += 1
        count[origin] -= 1
        tiles -= 1


@kernel
def _share(
    evidence: Any,
    ways: NDArray[np.float64],
    shares: NDArray[np.float64],
    entry: int,
    index: int,
    chances: NDArray[np.float64],
) -> None:
    """Pass the share of an entry on to those before it, and add the chances of its last tile."""
    origins = evidence.origins[index]
    while origins:
        origin = lowest_bit(origins)
        origins &= origins - 1
        if evidence.count[origin]:
            before = entry - evidence.steps[origin]
            shares[before] += shares[entry]
            if evidence.seats[origin] != _NOBODY and index < evidence.num_hidden:
                chances[evidence.seats[origin], evidence.tiles[index]] += shares[entry] * ways[before]
