"""From a state or view to the `Scene` that draws it: the one file here that knows the game."""

from __future__ import annotations

from fivesup_env.drawing.scene import Contribution, Hand, OpenPort, Placed, Scene, Side
from fivesup_env.notation import agent_name, result_of, visible_hands
from fivesup_env.rules.layout import contributions, open_ports
from fivesup_env.rules.play import boneyard_left
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import FULL, RUNNING, State, num_sides
from fivesup_env.rules.tiles import HALF, HIGH, LOW, OPENING, PORT_KIND, PORT_TILE, PORT_VALUE, port_name
from fivesup_env.rules.view import history


def scene_of(state: State) -> Scene:
    """Return what a picture of this state or view shows; tiles that a view hides lie face down (R26)."""
    placements = [(tile, port) for _, tile, port in history(state) if tile < len(LOW)]
    index = {tile: number for number, (tile, _) in enumerate(placements)}
    return Scene(
        placed=tuple(_placed(tile, port, index) for tile, port in placements),
        open_ports=tuple(
            OpenPort(index[int(PORT_TILE[port])], _port(port), int(PORT_VALUE[port])) for port in open_ports(state)
        ),
        contributions=tuple(
            Contribution(index[tile], _port(port) if PORT_KIND[port] == HALF else None, pips)
            for tile, port, pips in contributions(state)
        ),
        hands=_hands(state),
        sides=_sides(state),
        target=int(state.target),
        total=int(state.total),
        boneyard=int(boneyard_left(state)),
        caption=_caption(state),
    )


def _placed(tile: int, port: int, index: dict[int, int]) -> Placed:
    low, high = int(LOW[tile]), int(HIGH[tile])
    if port == OPENING:
        return Placed(low, high)
    return Placed(low, high, index[int(PORT_TILE[port])], _port(port))


def _port(port: int) -> str:
    return port_name(port).partition(".")[2]


def _hands(state: State) -> tuple[Hand, ...]:
    return tuple(
        Hand(
            agent_name(seat) + (" (you)" if seat == state.observer else ""),
            tuple(None if tile == "?" else tile for tile in tiles),
            to_move=bool(state.result == RUNNING and state.turn == seat),
        )
        for seat, tiles in enumerate(visible_hands(state))
    )


def _sides(state: State) -> tuple[Side, ...]:
    num_players = int(state.num_players)
    return tuple(
        Side(
            " and ".join(agent_name(seat) for seat in range(num_players) if side_of(num_players, seat) == side),
            int(state.scores[side]),
        )
        for side in range(num_sides(num_players))
    )


def _caption(state: State) -> str:
    result = result_of(state)
    if result is None:
        course = f"{agent_name(int(state.turn))} to move"
    elif "blocked" in result:
        course = "blocked, lowest: " + ", ".join(agent_name(seat) for seat in result["blocked"])
    elif "out" in result:
        course = f"{agent_name(result['out'])} went out"
    else:
        course = f"match won by side {result['won']}"
    whose = "" if state.observer == FULL else f", seen by {agent_name(int(state.observer))}"
    return f"Round {state.round_number}: {course}{whose}"
