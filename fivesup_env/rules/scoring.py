"""Points: rounding, events, and the settlements that end a round (R15-R23)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fivesup_env._bits import lowest_bit
from fivesup_env._jit import kernel
from fivesup_env.rules.state import BLOCKED, OUT, WON, State
from fivesup_env.rules.tiles import PIPS


@kernel
def rounded(pips: int) -> Any:
    """Round to the nearest multiple of five: a remainder of 1 or 2 goes down, 3 or 4 goes up (R16)."""
    return (pips + 2) // 5 * 5


@kernel
def side_of(num_players: int, seat: int) -> Any:
    """Return the score owner of a seat: with four, partners sit opposite (R2, D8)."""
    return seat % 2 if num_players == 4 else seat


@kernel
def pips_in(mask: int) -> Any:
    """Return the pip sum of a tile mask."""
    pips = np.int64(0)
    while mask:
        pips += PIPS[lowest_bit(mask)]
        mask &= mask - 1
    return pips


@kernel
def book(state: State, side: int, placement: int, settlement: int, deduction: int) -> None:
    """Handle one event of `side`, refused whole when it would pass the target (R21, R22), and end a won match (R23).

    An event whose parts are all zero is none, and is not listed.
    """
    if placement == 0 and settlement == 0 and deduction == 0:
        return
    index = np.int64(state.num_events)
    event = state.events[index]
    event[0], event[1], event[2], event[3] = side, placement, settlement, deduction
    state.num_events = index + 1
    score = state.scores[side] + placement + settlement - deduction
    if score > state.target:
        return
    state.accepted = np.int64(state.accepted) | 1 << index
    state.scores[side] = score
    if score == state.target:
        state.result = WON
        state.result_of = side


@kernel
def settle_out(state: State, seat: int, placement: int) -> None:
    """Settle the round that `seat` ended with its last tile, which scored `placement` points: one event (R15, R21)."""
    num_players = np.int64(state.num_players)
    side = side_of(num_players, seat)
    opponents, partner = np.int64(0), np.int64(0)
    for other in range(num_players):
        pips = pips_in(np.int64(state.hands[other]))
        if side_of(num_players, other) != side:
            opponents += pips
        else:
            partner += pips
    state.result, state.result_of, state.shown = OUT, seat, 1
    book(state, side, placement, rounded(opponents), rounded(partner))


@kernel
def settle_blocked(state: State) -> None:
    """Settle a blocked round: one event a seat, from the lowest hand to the highest (R17-R19).

    Equal hands are handled clockwise from the seat whose turn it is (D2).
    """
    num_players, first = np.int64(state.num_players), np.int64(state.turn)
    pips = np.zeros(4, np.int64)
    for seat in range(num_players):
        pips[seat] = pips_in(np.int64(state.hands[seat]))
    lowest, lowest_seats = pips[0], np.int64(0)
    for seat in range(num_players):
        if pips[seat] < lowest:
            lowest, lowest_seats = pips[seat], np.int64(0)
        if pips[seat] == lowest:
            lowest_seats |= 1 << seat
    state.result, state.result_of, state.shown = BLOCKED, lowest_seats, 1
    waiting = np.int64((1 << num_players) - 1)
    while waiting and state.result != WON:
        best = np.int64(-1)
        for offset in range(num_players):
            seat = (first + offset) % num_players
            if waiting >> seat & 1 and (best < 0 or pips[seat] < pips[best]):
                best = seat
        waiting &= ~(1 << best)
        gain = np.int64(0)
        for other in range(num_players):
            if side_of(num_players, other) != side_of(num_players, best):
                gain += max(pips[other] - pips[best], 0)
        book(state, side_of(num_players, best), np.int64(0), rounded(gain), np.int64(0))
