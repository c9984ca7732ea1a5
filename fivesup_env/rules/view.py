"""What a seat can know: views (R3), and the course of the round that everybody has seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fivesup_env._jit import kernel
from fivesup_env.rules.play import DRAW, PASS
from fivesup_env.rules.state import FULL, State
from fivesup_env.rules.tiles import NO_TILE, OPENING


class Move(NamedTuple):
    """One action of a round as it was seen: `tile` is DRAW or PASS for those; `port` matters for placements only."""

    seat: int
    tile: int
    port: int = OPENING


def view(state: State, seat: int) -> State:
    """Return a copy of `state` in which everything that `seat` cannot know is wiped.

    States that differ only in what is hidden from `seat` give equal bytes. See `FIELDS` for what is wiped; hands are
    shown to all by a settlement (R3). The view of a view by the same seat is that view.

    Raises:
        ValueError: no such seat, or `state` is the view of another seat.
    """
    if not 0 <= seat < state.num_players:
        raise ValueError(f"seat must be within 0 .. {state.num_players - 1}, not {seat}")
    if state.observer not in (FULL, seat):
        raise ValueError(f"this is what seat {state.observer} sees: seat {seat}'s view cannot be made from it")
    seen: State = state.copy()
    hide(seen, seat)
    return seen


@kernel
def hide(state: State, seat: int) -> None:
    """Wipe in place what `seat` cannot know."""
    state.observer = seat
    state.seed = 0
    if state.shown == 0:
        for other in range(np.int64(state.num_players)):
            if other != seat:
                state.hands[other] = 0
    for index in range(np.int64(state.drawn), np.int64(state.boneyard_size)):
        state.boneyard[index] = NO_TILE
    _hide_draws(state, seat)


@kernel
def _hide_draws(state: State, seat: int) -> None:
    """Wipe the drawn tiles but those that `seat` drew and those that were placed at once (R12)."""
    num_players = np.int64(state.num_players)
    first, drawer = np.int64(0), np.int64(state.starter)
    for index in range(np.int64(state.num_placed) + 1):
        if index < state.num_placed:
            placer = np.int64(state.history_turn[index]) % 4
            draws = np.int64(state.history_turn[index]) // 4
        else:
            placer, draws = np.int64(-1), np.int64(state.draws)
        if drawer != seat:
            hidden = draws - 1 if placer == drawer else draws
            for draw in range(hidden):
                state.boneyard[first + draw] = NO_TILE
        first += draws
        drawer = (placer + 1) % num_players


def history(state: State) -> list[Move]:
    """Return all actions of the round so far, in order; works on states and views alike."""
    moves: list[Move] = []
    # In Python, a record's items are read four times as fast as its attributes.
    count, num_players, turn = (int(state[name]) for name in ("num_placed", "num_players", "starter"))
    placements = (state[name][:count].tolist() for name in ("history_turn", "history_tile", "history_port"))
    for turn_and_draws, tile, port in zip(*placements, strict=True):
        draws, seat = divmod(turn_and_draws, 4)
        moves += _before(num_players, turn, draws, seat)
        moves.append(Move(seat, tile, port))
        turn = (seat + 1) % num_players
    draws, until = int(state["draws"]), int(state["turn"])
    if draws or not state["result"]:  # else the last action was a placement, after which `turn` tells of no passes
        moves += _before(num_players, turn, draws, until)
    return moves


def drawn_tiles(state: State) -> list[int]:
    """Return the drawn tiles in order; 255 where a view does not know one."""
    return [int(tile) for tile in state.boneyard[: state.drawn]]


def initial_hands(state: State) -> list[int]:
    """Return the hands as they were dealt, as masks. Meaningful for full states only."""
    hands = [int(mask) for mask in state.hands[: state.num_players]]
    drawn = iter(drawn_tiles(state))
    received = [0] * len(hands)
    for seat, tile, _ in history(state):
        if tile == DRAW:
            received[seat] |= 1 << next(drawn)
        elif tile != PASS:
            hands[seat] |= 1 << tile
    return [hand & ~new for hand, new in zip(hands, received, strict=True)]


def _before(num_players: int, turn: int, draws: int, until: int) -> list[Move]:
    """Return the draws of the seat whose turn has come, then the passes up to seat `until`."""
    moves = [Move(turn, DRAW)] * draws
    while turn != until:
        moves.append(Move(turn, PASS))
        turn = (turn + 1) % num_players
    return moves
