"""STATE: the whole state of a match and of its round in progress, as one small numpy record.

Everything the rules need stands in the record, and nothing else: a copy of it is a copy of the game, its bytes are a
save-game, an array of records is a batch, and comparing bytes compares states. `FIELDS` is the table of its fields.

Small integers are kept in the record; in kernels every local is an int64, so that compiled and plain Python agree.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fivesup_env.rules.tiles import ALL_TILES, NO_TILE, tile_ids, tiles_up_to

MIN_SEATS = 2
MAX_SEATS = 4
MAX_SIDES = 3
MAX_BONEYARD = 26  # two seats with one tile each
MAX_EVENTS = 4  # a blocking placement, then one gain for each seat but the one with the highest hand
MAX_SEED = 2**64 - 1
TARGET = 305  # R20
HAND_SIZE = 5  # R3
LOWEST_SCORE, HIGHEST_TARGET = -1_000_000, 1_000_000

FULL = 255  # `observer` of a state that is not a view

# Values of `result`: how the round ended.
RUNNING, OUT, BLOCKED, WON = 0, 1, 2, 3

#: One STATE record. Attributes are the fields of `FIELDS`; arrays are views into the record.
State: TypeAlias = np.record
#: An array of STATE records.
States: TypeAlias = NDArray[Any]


class Field(NamedTuple):
    """One field of STATE."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    meaning: str
    hidden: str = ""  # what of it a view wipes; empty: all of it is public


FIELDS = (
    Field("seed", "u8", (), "match seed; the deal of every round follows from it (R3)", "wiped to 0"),
    Field("hands", "u4", (MAX_SEATS,), "tile mask per seat", "other seats' wiped to 0 until a settlement shows them"),
    Field("cannot_hold", "u4", (MAX_SEATS,), "tile mask per seat: tiles its draws and passes prove that it lacks"),
    Field("placed_by", "u4", (MAX_SEATS,), "tile mask per seat: tiles that it placed in this round"),
    Field("open_low", "u4", (), "tile mask: non-doubles on the table whose low half is open"),
    Field("open_high", "u4", (), "tile mask: non-doubles on the table whose high half is open"),
    Field("without", "u4", (), "rule parameter: tile mask of tiles left out of the set"),
    Field("round_number", "u4", (), "number of the round in its match, from 1"),
    Field("scores", "i4", (MAX_SIDES,), "raw points per side"),
    Field("round_scores", "i4", (MAX_SIDES,), "raw points per side when the round began"),
    Field("target", "i4", (), "rule parameter: raw points that win the match (R20)"),
    Field("hand_sizes", "u1", (MAX_SEATS,), "tiles in each hand"),
    Field("boneyard", "u1", (MAX_BONEYARD,), "tiles in draw order; 255 beyond its size", "unknown tiles wiped to 255"),
    Field("boneyard_size", "u1", (), "tiles in the boneyard when the round began"),
    Field("drawn", "u1", (), "tiles drawn from it so far"),
    Field("taken", "u1", (7,), "per double: bit per port that is joined (line_a, line_b, branch_a, branch_b)"),
    Field("open_values", "u1", (3,), "per kind of end (half, line, branch): bit per value that is open"),
    Field("total", "u1", (), "sum of the counted ends, in pips (R9)"),
    Field("num_placed", "u1", (), "placements in this round"),
    Field("history_tile", "u1", (28,), "per placement: its tile"),
    Field("history_port", "u1", (28,), "per placement: the port it joined; 255 for the opening"),
    Field(
        "history_turn",
        "u1",
        (28,),
        "per placement: its seat + 4 * draws since the one before (by the seat whose turn had come)",
    ),
    Field("draws", "u1", (), "draws since the last placement, all by the seat whose turn came after it"),
    Field("turn", "u1", (), "seat to move"),
    Field("starter", "u1", (), "seat that opens the round"),
    Field("result", "u1", (), "0 running, 1 a seat went out, 2 blocked, 3 match won"),
    Field("result_of", "u1", (), "seat that went out, bit per seat with the lowest hand, or side that won"),
    Field("shown", "u1", (), "1 when a settlement has shown the hands"),
    Field("num_events", "u1", (), "events of the last action"),
    Field("events", "u1", (MAX_EVENTS, 4), "per event: side, placement, settlement, partner's deduction (raw points)"),
    Field("accepted", "u1", (), "bit per event: 1 accepted, 0 refused (R22)"),
    Field("num_players", "u1", (), "rule parameter: seats, 2-4"),
    Field("hand_size", "u1", (), "rule parameter: tiles dealt to each seat (R3)"),
    Field("max_pip", "u1", (), "rule parameter: largest half in the set"),
    Field("observer", "u1", (), "seat whose view this is; 255 for the full state"),
)

#: The dtype of a STATE record: every field aligned to its size, 256 bytes.
STATE: np.dtype[Any] = np.dtype((np.record, np.dtype([(field.name, field.dtype, field.shape) for field in FIELDS])))


def new_state(
    num_players: int = 2,
    *,
    hand_size: int = HAND_SIZE,
    target: int = TARGET,
    max_pip: int = 6,
    without: int = 0,
    seed: int = 0,
) -> State:
    """Return a record with these rule parameters and nothing dealt yet.

    Args:
        num_players: seats, 2-4 (R2).
        hand_size: tiles dealt to each seat (R3).
        target: raw points that win the match, a positive multiple of five (R20).
        max_pip: largest half in the set (R1 has 6; smaller sets make small games).
        without: mask of tiles left out of the set.
        seed: match seed, a uint64.

    Raises:
        ValueError: a parameter is not an int or out of its range, or the set is too small for the hands.
    """
    for name, value, low, high in (
        ("num_players", num_players, MIN_SEATS, MAX_SEATS),
        ("hand_size", hand_size, 1, 14),
        ("target", target, 5, HIGHEST_TARGET),
        ("max_pip", max_pip, 1, 6),
        ("without", without, 0, ALL_TILES),
        ("seed", seed, 0, MAX_SEED),
    ):
        check_int(name, value, low, high)
    if target % 5:
        raise ValueError(f"target must be a multiple of five (R10), not {target}")
    tiles = len(tile_ids(tiles_up_to(max_pip) & ~without))
    if num_players * hand_size > tiles:
        raise ValueError(
            f"num_players={num_players} hands of hand_size={hand_size} need more than the {tiles} tiles that "
            f"max_pip={max_pip} and without leave (R3)"
        )
    state: State = np.zeros(1, STATE)[0]
    state.num_players, state.hand_size, state.target = num_players, hand_size, target
    state.max_pip, state.without, state.seed = max_pip, without, seed
    state.boneyard[:] = NO_TILE
    state.observer = FULL
    return state


def check_int(name: str, value: object, low: int, high: int) -> int:
    """Return `value` if it is an int within ``low .. high``; a numpy integer counts, a bool does not.

    Raises:
        ValueError: `value` is not an int, or out of range.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an int, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be within {low} .. {high}, not {value}")
    return int(value)


def num_sides(num_players: int) -> int:
    """Return the number of score owners: two partnerships with four seats, else one side a seat (R2)."""
    return 2 if num_players == 4 else num_players


def deck(state: State) -> int:
    """Return the mask of the tiles that the rule parameters of `state` put into the set."""
    return tiles_up_to(int(state.max_pip)) & ~int(state.without)
