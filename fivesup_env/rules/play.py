"""The course of a match: deal, turns, draw, pass, block, and `step` (R3-R5, R11-R14).

`step` trusts its caller: it does not check that an action is legal, and an illegal one leaves a senseless state.
`Match` and the environments check, and raise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.rules.chance import below, mix, shuffle
from fivesup_env.rules.layout import fitting, join, points
from fivesup_env.rules.scoring import book, settle_blocked, settle_out, side_of
from fivesup_env.rules.state import FULL, MAX_SIDES, OUT, RUNNING, State
from fivesup_env.rules.tiles import HIGH, NO_TILE, NUM_TILES

# What `step` takes in the place of a tile.
DRAW, PASS = 28, 29

_DEAL, _LOT = np.uint64(1), np.uint64(2)


@kernel
def start_match(state: State) -> None:
    """Deal the first round of the match that the record's seed and rule parameters describe (R3, R4)."""
    state.round_number = 1
    state.scores[:] = 0
    deal(state, lot(state))


@kernel
def start_next_round(state: State) -> None:
    """Deal the next round: the seat that went out starts it; after a blocked round the lot decides (R4)."""
    starter = next_starter(state)
    state.round_number = np.int64(state.round_number) + 1
    deal(state, starter if starter >= 0 else lot(state))


@kernel
def next_starter(state: State) -> Any:
    """Return the seat that starts the round after this one, which is over; -1 where the lot decides (R4)."""
    return np.int64(state.result_of) if state.result == OUT else np.int64(-1)


@kernel
def lot(state: State) -> Any:
    """Return the seat that a lot picks for this round: a function of match seed and round number alone (R4, D5)."""
    seat, _ = below(_round_key(state, _LOT), np.int64(state.num_players))
    return seat


@kernel
def deal(state: State, starter: int) -> None:
    """Shuffle and deal this round, opened by `starter`: a function of match seed and round number alone (R3)."""
    tiles = np.empty(NUM_TILES, np.int64)
    count = np.int64(0)
    for tile in range(NUM_TILES):
        if _in_set(state, tile):
            tiles[count] = tile
            count += 1
    shuffle(tiles, count, _round_key(state, _DEAL))
    hand_out(state, starter, tiles, count)


@kernel
def hand_out(state: State, starter: int, tiles: NDArray[np.int64], count: int) -> None:
    """Begin a round, opened by `starter`, with the hands in ``tiles[:count]`` one after another, then the boneyard."""
    clear_round(state, starter)
    num_players, hand_size = np.int64(state.num_players), np.int64(state.hand_size)
    for index in range(num_players * hand_size):
        seat = index // hand_size
        state.hands[seat] = np.int64(state.hands[seat]) | 1 << tiles[index]
    state.hand_sizes[:num_players] = hand_size
    size = count - num_players * hand_size
    for index in range(size):
        state.boneyard[index] = tiles[num_players * hand_size + index]
    state.boneyard_size = size


@kernel
def clear_round(state: State, starter: int) -> None:
    """Clear the table, the hands and the boneyard for a round that `starter` opens; scores stay."""
    state.hands[:] = 0
    state.cannot_hold[:] = 0
    state.placed_by[:] = 0
    state.open_low = 0
    state.open_high = 0
    for side in range(MAX_SIDES):  # assigned whole, it would take seconds to compile
        state.round_scores[side] = state.scores[side]
    state.hand_sizes[:] = 0
    state.boneyard[:] = NO_TILE
    state.boneyard_size = 0
    state.drawn = 0
    state.taken[:] = 0
    state.open_values[:] = 0
    state.total = 0
    state.num_placed = 0
    state.history_tile[:] = 0
    state.history_port[:] = 0
    state.history_turn[:] = 0
    state.draws = 0
    state.starter = starter
    state.turn = starter
    state.result = RUNNING
    state.result_of = 0
    state.shown = 0
    clear_events(state)


@kernel
def clear_events(state: State) -> None:
    """Forget the events of the last action."""
    state.num_events = 0
    state.events[:, :] = 0
    state.accepted = 0


@kernel
def may_act(state: State) -> Any:
    """Tell whether the round goes on and, if `state` is a view, its observer is the seat to move."""
    return state.result == RUNNING and (state.observer == FULL or state.observer == state.turn)


@kernel
def playable(state: State) -> Any:
    """Return the mask of the tiles that the seat to move may place (R5, R7, R11, R12); 0 where nobody may act.

    After a draw this is the drawn tile or nothing, without a case of its own: a seat draws only when nothing in its
    hand fits (R12), and the ends do not change while it draws.
    """
    if not may_act(state):
        return np.int64(0)
    return np.int64(state.hands[state.turn]) & fitting(state)


@kernel
def boneyard_left(state: State) -> Any:
    """Return how many tiles can still be drawn."""
    return np.int64(state.boneyard_size) - np.int64(state.drawn)


@kernel
def must_draw(state: State) -> Any:
    """Tell whether drawing is legal, and then the only legal action (R12)."""
    return may_act(state) and playable(state) == 0 and boneyard_left(state) > 0


@kernel
def must_pass(state: State) -> Any:
    """Tell whether passing is legal, and then the only legal action (R13)."""
    return may_act(state) and playable(state) == 0 and boneyard_left(state) == 0


@kernel
def step(state: State, tile: int, port: int) -> None:
    """Let the seat to move place `tile` at `port` (`OPENING` for the first), or, with tile = DRAW or PASS, do that.

    Legality is not checked. Afterwards `events` are those of this action, and `result` tells whether the round is over.
    """
    clear_events(state)
    if tile == DRAW:
        _draw(state)
    elif tile == PASS:
        record_pass(state)
    else:
        _place(state, tile, port)


@kernel
def _place(state: State, tile: int, port: int) -> None:
    seat = np.int64(state.turn)
    record_placement(state, tile, port)
    scored = points(np.int64(state.total))
    if state.hand_sizes[seat] == 0:
        settle_out(state, seat, scored)  # also where R14 would hold (D10)
        return
    book(state, side_of(np.int64(state.num_players), seat), scored, np.int64(0), np.int64(0))
    if state.result == RUNNING:
        _end_turn(state)
        _settle_if_blocked(state)


@kernel
def record_placement(state: State, tile: int, port: int) -> None:
    """Move `tile` from the hand of the seat to move to the table, with all that everybody can see of it."""
    seat, index = np.int64(state.turn), np.int64(state.num_placed)
    draws = _draws_of_turn(state)
    if draws:
        note_nothing_fitted(state, seat, draws > 1)
    state.hands[seat] = np.int64(state.hands[seat]) & ~(1 << np.int64(tile))
    state.placed_by[seat] = np.int64(state.placed_by[seat]) | 1 << np.int64(tile)
    state.hand_sizes[seat] -= np.uint8(1)
    join(state, tile, port)
    state.history_tile[index] = tile
    state.history_port[index] = port
    state.history_turn[index] = seat + 4 * np.int64(state.draws)
    state.num_placed = index + 1
    state.draws = 0


@kernel
def _draw(state: State) -> None:
    seat = np.int64(state.turn)
    state.hands[seat] = np.int64(state.hands[seat]) | 1 << np.int64(state.boneyard[state.drawn])
    record_draw(state)
    _settle_if_blocked(state)


@kernel
def record_draw(state: State) -> None:
    """Count a draw of the seat to move: all that everybody can see of it."""
    state.hand_sizes[state.turn] += np.uint8(1)
    state.drawn += np.uint8(1)
    state.draws += np.uint8(1)


@kernel
def record_pass(state: State) -> None:
    """Pass the turn of a seat that cannot place: all of it is public."""
    note_nothing_fitted(state, np.int64(state.turn), _draws_of_turn(state) > 0)
    _end_turn(state)


@kernel
def drawer(state: State) -> Any:
    """Return the seat whose turn came after the last placement: all draws since then were its own (R12, R13)."""
    if state.num_placed == 0:
        return np.int64(state.starter)
    return seat_after(np.int64(state.num_players), np.int64(state.history_turn[state.num_placed - 1]) % 4, 1)


@kernel
def seat_after(num_players: int, seat: int, offset: int) -> Any:
    """Return the seat `offset` places after `seat`, clockwise, without a division; offset < num_players."""
    after = seat + offset
    return after - num_players if after >= num_players else after


@kernel
def _draws_of_turn(state: State) -> Any:
    """Return how many tiles the seat to move has drawn in this turn."""
    return np.int64(state.draws) if state.turn == drawer(state) else np.int64(0)


@kernel
def note_nothing_fitted(state: State, seat: int, kept_a_draw: bool) -> None:
    """Note what everybody learns when `seat` had nothing that fits: it holds none of the tiles that fit now.

    If it kept a tile drawn since, that tile does not fit either, but may be one that the seat was known to lack before.
    """
    known = np.int64(0) if kept_a_draw else np.int64(state.cannot_hold[seat])
    state.cannot_hold[seat] = known | fitting(state)


@kernel
def _end_turn(state: State) -> None:
    state.turn = seat_after(np.int64(state.num_players), np.int64(state.turn), 1)


@kernel
def _settle_if_blocked(state: State) -> None:
    """Close the round if the boneyard is empty and no seat can place, without waiting for passes (R14, D3)."""
    if boneyard_left(state):
        return
    held = np.int64(0)
    for seat in range(np.int64(state.num_players)):
        held |= np.int64(state.hands[seat])
    if held & fitting(state) == 0:
        settle_blocked(state)


@kernel
def _round_key(state: State, purpose: np.uint64) -> Any:
    return mix(mix(np.uint64(state.seed), np.uint64(state.round_number)), purpose)


@kernel
def _in_set(state: State, tile: int) -> Any:
    return HIGH[tile] <= state.max_pip and np.int64(state.without) >> tile & 1 == 0
