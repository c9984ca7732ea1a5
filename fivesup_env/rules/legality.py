"""Which placements are legal, and why a move is not, in words with the rule's id."""

from __future__ import annotations

from fivesup_env.rules.layout import is_open, open_count, open_ports, placed
from fivesup_env.rules.play import DRAW, PASS, boneyard_left, may_act, playable
from fivesup_env.rules.state import BLOCKED, OUT, RUNNING, WON, State
from fivesup_env.rules.tiles import (
    BOTH_LINES,
    BRANCH,
    HALF,
    HIGH,
    LINE,
    LOW,
    OPENING,
    PORT_KIND,
    PORT_TILE,
    PORT_VALUE,
    port_name,
    tile_ids,
    tile_name,
)

_KIND_WORDS = ("open half", "open line", "open branch")
_ENDINGS = {OUT: "a seat went out, R15", BLOCKED: "it was blocked, R14", WON: "the match is won, R23"}
_TABLE_EMPTY = "the table is empty: the first tile opens the round (R5)"
_TABLE_NOT_EMPTY = "the round is open already: a placement names what it joins (R7)"


def legal_moves(state: State) -> list[tuple[int, int]]:
    """Return every legal (tile, port) of the seat to move, as `step` takes them; empty where nobody may act.

    Tiles come in ascending order, the ports of one tile by the host placed earliest, then in R6's order.
    """
    if not may_act(state):
        return []
    tiles = tile_ids(int(playable(state)))
    if not tiles:
        return [(DRAW if boneyard_left(state) else PASS, OPENING)]
    if not state.num_placed:
        return [(tile, OPENING) for tile in tiles]
    ports = open_ports(state)
    return [(tile, port) for tile in tiles for port in ports if fits(tile, port)]


def fits(tile: int, port: int) -> bool:
    """Tell whether one half of `tile` has the value of `port` (R7)."""
    return bool(PORT_VALUE[port] in (LOW[tile], HIGH[tile]) and PORT_TILE[port] != tile)


def why_illegal(state: State, tile: int, port: int) -> str | None:
    """Return why the seat to move cannot do this, with the rule's id; None if it can.

    `tile` and `port` are as for `step`; a port must exist, but need not be on the table.
    """
    reason = _why_not_tile(state, tile)
    if reason is not None or tile in (DRAW, PASS):
        return reason
    if not state.num_placed:
        return None if port == OPENING else _TABLE_EMPTY
    return _TABLE_NOT_EMPTY if port == OPENING else _why_not_port(state, tile, port)


def why_illegal_end(state: State, tile: int, kind: int, value: int) -> str | None:
    """Return why the seat to move cannot place `tile` on an end of this kind and value; None if it can."""
    reason = _why_not_tile(state, tile)
    if reason is None and not state.num_placed:
        return _TABLE_EMPTY
    if reason is None and not open_count(state, kind, value):
        return f"no {_KIND_WORDS[kind]} of {value} is there ({'R7' if kind == HALF else 'R8'})"
    return reason


def describe_move(tile: int, port: int) -> str:
    """Return a move in words, as they follow "player_1 cannot"."""
    if tile in (DRAW, PASS):
        return "draw" if tile == DRAW else "pass"
    if port == OPENING:
        return f"open with [{tile_name(tile)}]"
    return f"place [{tile_name(tile)}] at {port_name(port)}"


def describe_end_move(tile: int, kind: int, value: int) -> str:
    """Return a placement on an end in words, as they follow "player_1 cannot"."""
    return f"place [{tile_name(tile)}] on an {_KIND_WORDS[kind]} of {value}"


def _why_not_tile(state: State, tile: int) -> str | None:
    """Return why the seat to move cannot draw, pass, or place this tile anywhere; None if that may be."""
    if state.result != RUNNING:
        return f"the round is over ({_ENDINGS[int(state.result)]})"
    if tile in (DRAW, PASS):
        return _why_not_draw_or_pass(state, tile)
    if not int(state.hands[state.turn]) >> tile & 1:
        return f"it does not hold [{tile_name(tile)}] (R11)"
    return None


def _why_not_draw_or_pass(state: State, tile: int) -> str | None:
    tiles = tile_ids(int(playable(state)))
    if tiles:
        held = ", ".join(f"[{tile_name(held)}]" for held in tiles)
        return f"it must place a tile that fits: {held} ({'R11, R12' if tile == DRAW else 'R11, R13'})"
    left = boneyard_left(state)
    if tile == DRAW and not left:
        return "the boneyard is empty (R12)"
    if tile == PASS and left:
        return f"it must draw: the boneyard holds {left} (R13)"
    return None


def _why_not_port(state: State, tile: int, port: int) -> str | None:
    host, value, kind = int(PORT_TILE[port]), int(PORT_VALUE[port]), int(PORT_KIND[port])
    if not int(placed(state)) >> host & 1:
        return f"[{tile_name(host)}] is not on the table (R7)"
    if not is_open(state, port):
        if kind == BRANCH and int(state.taken[value]) & BOTH_LINES != BOTH_LINES:
            return "a branch opens when both lines of its double are taken (R8)"
        return "the port is taken" + (" (R8)" if kind in (LINE, BRANCH) else " (R7)")
    if not fits(tile, port):
        return f"neither half of [{tile_name(tile)}] is a {value} (R7)"
    return None
