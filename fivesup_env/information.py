"""The information state of a seat in one round, as numbers: all that it was told, in order, one-to-one with the text.

Where the observation tells how things stand, this tells how they came about, so that nothing is forgotten.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.extensive import DEAL, DRAWS, LOT, Course, Setup, states_of
from fivesup_env.rules.state import RUNNING, States
from fivesup_env.rules.tiles import (
    NO_TILE,
    NUM_KINDS,
    NUM_TILES,
    NUM_VALUES,
    OPENING,
    PORT_KIND,
    PORT_VALUE,
    tile_ids,
)
from fivesup_env.rules.view import hide

_VALUE: Final = NUM_TILES
_KIND: Final = _VALUE + NUM_VALUES
_DRAWS: Final = _KIND + NUM_KINDS
_SEAT: Final = _DRAWS + 1


class InformationTensor:
    """One float32 array in named sections, filled by `write`.

    With P seats, T tiles in the set and B in the boneyard, the sections are, in this order:

    | section | shape | meaning |
    | --- | --- | --- |
    | `player` | P | one-hot: whose information this is |
    | `starter` | P | one-hot: the seat that opens; all 0 before the lot |
    | `hand` | 28 | per tile: 1 if it was dealt to the seat |
    | `placements` | T, 39 + P | a row for each placement in order; all 0 for those to come |
    | `turn` | P | one-hot: the seat to move or to draw; all 0 before the lot and after the round |
    | `draws` | 2 | draws since the last placement; 1 if one is announced and the tile not drawn yet |
    | `drawn` | max(B, 1), 28 | a row for each draw in order, one-hot: the tile, if the seat knows it |
    | `shown` | P, 28 | per seat and tile: 1 if a settlement has shown it in the seat's hand |

    The columns of a placement: its tile (28, one-hot), the value (7) and the kind (3) of the end that it joined, 0 for
    the opening, the draws since the placement before, and its seat (P). Passes follow from the seats.
    """

    def __init__(self, setup: Setup) -> None:
        seats = setup.num_players
        shapes = {
            "player": (seats,),
            "starter": (seats,),
            "hand": (NUM_TILES,),
            "placements": (setup.num_tiles, _SEAT + seats),
            "turn": (seats,),
            "draws": (2,),
            "drawn": (max(setup.boneyard_size, 1), NUM_TILES),
            "shown": (seats, NUM_TILES),
        }
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        self.tensor = np.zeros(sum(sizes), np.float32)
        parts = np.split(self.tensor, np.cumsum(sizes)[:-1])
        self.sections = {
            name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }  #: views into `tensor`

    def write(self, course: Course, seat: int) -> None:
        """Write the information state of a seat."""
        self.tensor.fill(0)
        self.sections["player"][seat] = 1
        if course.stage != LOT:
            self.sections["starter"][course.starter] = 1
        if course.stage == DEAL:
            self.sections["turn"][course.starter] = 1
            self.sections["hand"][tile_ids(course.hands[seat])] = 1
        if course.stage in (LOT, DEAL):
            return
        self.sections["draws"][1] = course.stage == DRAWS
        names = ("hand", "placements", "turn", "draws", "drawn", "shown")
        write_round(states_of(course.states.tobytes()), seat, *(self.sections[name] for name in names))


@kernel
def write_round(
    states: States,
    seat: int,
    hand: NDArray[np.float32],
    placements: NDArray[np.float32],
    turn: NDArray[np.float32],
    draws: NDArray[np.float32],
    drawn: NDArray[np.float32],
    shown: NDArray[np.float32],
) -> None:
    """Write what `seat` knows of a round that is dealt into arrays of zeros; ``states``, STATE[1], becomes its view."""
    state = states[0]
    hide(state, seat)
    draws[0] = state.draws
    if state.result == RUNNING:
        turn[state.turn] = 1
    had = np.int64(state.hands[seat]) | np.int64(state.placed_by[seat])
    for place in range(np.int64(state.drawn)):
        tile = np.int64(state.boneyard[place])
        if tile != NO_TILE:
            drawn[place, tile] = 1
            had &= ~(np.int64(1) << tile)
    _write_tiles(had, hand)
    for index in range(np.int64(state.num_placed)):
        _write_placement(state, index, placements[index])
    if state.shown:
        for other in range(len(turn)):
            _write_tiles(np.int64(state.hands[other]), shown[other])


@kernel
def _write_tiles(mask: int, out: NDArray[np.float32]) -> None:
    for tile in range(NUM_TILES):
        out[tile] = mask >> tile & 1


@kernel
def _write_placement(state: Any, index: int, out: NDArray[np.float32]) -> None:
    port, turn = np.int64(state.history_port[index]), np.int64(state.history_turn[index])
    out[np.int64(state.history_tile[index])] = 1
    if port != OPENING:
        out[_VALUE + PORT_VALUE[port]] = 1
        out[_KIND + PORT_KIND[port]] = 1
    out[_DRAWS] = turn // 4
    out[_SEAT + turn % 4] = 1
