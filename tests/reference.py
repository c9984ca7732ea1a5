"""A second implementation of one round of Exact 61 Five-Up: slow, plain and independent.

It is written from the rules page alone and shares no code with the package, so that the engine can
be held against it step by step. Nothing derived is stored: open ports, counts, legal actions and
hand sums are worked out anew from the tiles on the table and in the hands whenever they are asked
for. Rule ids (R1, D1, ...) in the comments refer to that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Tile = tuple[int, int]
Port = tuple[Tile, str]
Event = dict[str, int]
RoundResult = dict[str, int | list[int]]

LINES = ("line_a", "line_b")
BRANCHES = ("branch_a", "branch_b")
HALVES = ("low", "high")


def parse_tile(text: str) -> Tile:
    """Read a tile such as ``1|4``."""
    low, high = (int(half) for half in text.split("|"))
    if not 0 <= low <= high:
        raise ValueError(f"{text!r} is not a tile written low|high")
    return low, high


def tile_text(tile: Tile) -> str:
    """Write a tile as ``low|high``."""
    return f"{tile[0]}|{tile[1]}"


def port_text(port: Port) -> str:
    """Write a port as ``tile.name``."""
    tile, name = port
    return f"{tile_text(tile)}.{name}"


def parse_port(text: str) -> Port:
    """Read a port such as ``1|4.low``."""
    tile, name = text.split(".")
    return parse_tile(tile), name


def is_double(tile: Tile) -> bool:
    """Tell whether both halves are equal."""
    return tile[0] == tile[1]


def port_names(tile: Tile) -> tuple[str, ...]:
    """List every port a tile has, open or not (R6)."""
    return LINES + BRANCHES if is_double(tile) else HALVES


def port_value(port: Port) -> int:
    """Give the number a tile must show to be joined to this port (R6)."""
    (low, high), name = port
    return high if name == "high" else low


def joining_port(tile: Tile, value: int) -> str | None:
    """Name the port by which a tile joins an open port of ``value``; None where it cannot (R7)."""
    if value not in tile:
        return None
    if is_double(tile):
        return "line_a"
    return "low" if tile[0] == value else "high"


def pips(hand: list[Tile]) -> int:
    """Add up the pips of a hand."""
    return sum(low + high for low, high in hand)


def nearest_five(points: int) -> int:
    """Round a sum of pips to the nearest multiple of five (R16)."""
    remainder = points % 5
    return points - remainder if remainder <= 2 else points + 5 - remainder


@dataclass
class Placed:
    """A tile on the table, and for each of its taken ports the port it is joined to."""

    tile: Tile
    joined: dict[str, Port] = field(default_factory=dict)

    def open_ports(self) -> list[Port]:
        """List the ports another tile may be joined to."""
        free = [name for name in port_names(self.tile) if name not in self.joined]
        # R8: branches wait until both lines are taken.
        if any(line in free for line in LINES):
            free = [name for name in free if name in LINES]
        return [(self.tile, name) for name in free]

    def contributions(self) -> list[int]:
        """List what this tile adds to the count of the table (R9)."""
        open_ports = self.open_ports()
        if not is_double(self.tile):
            return [port_value(port) for port in open_ports]
        # A double is counted once, whole, while a line is open; its branches never count.
        line_open = any(name in LINES for _, name in open_ports)
        return [sum(self.tile)] if line_open else []


class Reference:
    """One round, played by texts like a ``Match``, with the same names and value formats."""

    def __init__(
        self,
        hands: list[list[Tile]],
        boneyard: list[Tile],
        starter: int,
        scores: list[int],
        target: int,
    ) -> None:
        """Lay out a round before its opening; the boneyard's first tile is drawn first."""
        self.num_players = len(hands)
        self.starter = starter
        self.turn = starter
        self.target = target
        self.winner: int | None = None
        self._hands = [list(hand) for hand in hands]
        self._boneyard = list(boneyard)
        self._scores = list(scores)
        self._table: list[Placed] = []
        self._events: list[Event] = []
        self._result: RoundResult | None = None

    @classmethod
    def from_setup(cls, setup: Mapping[str, Any]) -> Reference:
        """Lay out a round from the same dict that ``Match.from_setup`` takes; it is not vetted."""
        hands = [[parse_tile(text) for text in hand] for hand in setup["hands"]]
        if len(hands) != setup["num_players"] or len(hands) not in (2, 3, 4):
            raise ValueError(f"{setup['num_players']} players cannot hold {len(hands)} hands (R2)")
        num_sides = 2 if len(hands) == 4 else len(hands)
        return cls(
            hands,
            [parse_tile(text) for text in setup.get("boneyard", [])],
            setup.get("starter", 0),
            setup.get("scores", [0] * num_sides),
            setup.get("target", 305),  # R20
        )

    # What can be seen.

    @property
    def scores(self) -> list[int]:
        """The raw points of each side."""
        return list(self._scores)

    @property
    def hands(self) -> list[list[str]]:
        """The tiles of each seat, lowest tile first."""
        return [[tile_text(tile) for tile in sorted(hand)] for hand in self._hands]

    @property
    def boneyard(self) -> list[str]:
        """The tiles left to draw, the next one first."""
        return [tile_text(tile) for tile in self._boneyard]

    @property
    def events(self) -> list[Event]:
        """The events of the last action, in the order in which they happened (R21)."""
        return [dict(event) for event in self._events]

    @property
    def round_over(self) -> bool:
        """Whether the round has ended."""
        return self._result is not None

    @property
    def round_result(self) -> RoundResult | None:
        """How the round ended, or None while it runs."""
        return None if self._result is None else dict(self._result)

    @property
    def next_starter(self) -> int | None:
        """The seat that starts the next round; None where a lot decides or none follows (R4)."""
        if self._result is None or self.winner is not None:
            return None
        out = self._result.get("out")
        return out if isinstance(out, int) else None

    def side_of(self, seat: int) -> int:
        """Give the score owner of a seat; partners sit opposite (R2, D8)."""
        return seat % 2 if self.num_players == 4 else seat

    def _opponents(self, seat: int) -> list[int]:
        side = self.side_of(seat)
        return [other for other in range(self.num_players) if self.side_of(other) != side]

    def open_ports(self) -> list[str]:
        """List the open ports in order of placement, then of R6."""
        return [port_text(port) for port in self._open_ports()]

    def connections(self) -> list[tuple[str, str]]:
        """List each joint as the older port and the port of the tile that joined it."""
        joints = []
        for index, placed in enumerate(self._table):
            older = [earlier.tile for earlier in self._table[:index]]
            for name, other in placed.joined.items():
                if other[0] in older:
                    joints.append((port_text(other), port_text((placed.tile, name))))
        return joints

    def contributions(self) -> list[tuple[str, int]]:
        """List what is counted, in order of placement (R9)."""
        return [(tile_text(placed.tile), points) for placed in self._table for points in placed.contributions()]

    def total(self) -> int:
        """Add up the contributions (R9)."""
        return sum(points for _, points in self.contributions())

    def legal(self) -> list[str]:
        """List what the seat to move may play; nothing once the round is over."""
        if self.round_over:
            return []
        # R11, R12: whoever can place must. After a draw only the drawn tile can fit, because the
        # rest of the hand did not fit and the table is the same.
        placements = self._placements(self.turn)
        if placements:
            return placements
        return ["draw"] if self._boneyard else ["pass"]  # R12, R13

    def _open_ports(self) -> list[Port]:
        return [port for placed in self._table for port in placed.open_ports()]

    def _placements(self, seat: int) -> list[str]:
        hand = sorted(self._hands[seat])
        if not self._table:
            return [tile_text(tile) for tile in hand]  # R5
        return [
            f"{tile_text(tile)}@{port_text(port)}"
            for tile in hand
            for port in self._open_ports()
            if joining_port(tile, port_value(port)) is not None
        ]

    # What can be done.

    def play(self, text: str) -> None:
        """Play one action of the seat to move; ValueError where it is not legal."""
        if text not in self.legal():
            raise ValueError(f"seat {self.turn} may play {self.legal()}, not {text!r}")
        self._events = []
        if text == "draw":
            self._draw()
        elif text == "pass":
            self._pass_turn()
        else:
            self._place(text)

    def _draw(self) -> None:
        self._hands[self.turn].append(self._boneyard.pop(0))
        # The turn stays where it is: the seat draws on, places or passes (R12, R13).
        self._close_if_blocked()

    def _pass_turn(self) -> None:
        self.turn = (self.turn + 1) % self.num_players  # R5

    def _place(self, text: str) -> None:
        seat = self.turn
        tile_part, _, port_part = text.partition("@")
        tile = parse_tile(tile_part)
        self._hands[seat].remove(tile)
        self._lay(tile, parse_port(port_part) if port_part else None)
        self._pass_turn()
        if not self._hands[seat]:
            self._go_out(seat)  # D10: before the test for a block.
            return
        self._record(self.side_of(seat), placement=self._placement_points())
        if self.winner is None:  # R23
            self._close_if_blocked()

    def _lay(self, tile: Tile, port: Port | None) -> None:
        placed = Placed(tile)
        if port is not None:
            name = joining_port(tile, port_value(port))
            assert name is not None
            host = next(earlier for earlier in self._table if earlier.tile == port[0])
            host.joined[port[1]] = (tile, name)
            placed.joined[name] = port
        self._table.append(placed)

    def _placement_points(self) -> int:
        total = self.total()
        return total if total > 0 and total % 5 == 0 else 0  # R10

    # How a round ends.

    def _go_out(self, seat: int) -> None:
        side = self.side_of(seat)
        opposing = self._opponents(seat)
        partners = [other for other in range(self.num_players) if other not in [seat, *opposing]]
        self._result = {"out": seat}
        # R15: the opponents' sum is rounded once, the partner's hand by itself. R21: one event.
        self._record(
            side,
            placement=self._placement_points(),
            settlement=nearest_five(sum(pips(self._hands[other]) for other in opposing)),
            partner=-sum(nearest_five(pips(self._hands[other])) for other in partners),
        )

    def _is_blocked(self) -> bool:
        seats = range(self.num_players)
        return not self._boneyard and not any(self._placements(seat) for seat in seats)  # R14

    def _close_if_blocked(self) -> None:
        if not self._is_blocked():  # D3
            return
        sums = [pips(hand) for hand in self._hands]
        seats = range(self.num_players)
        self._result = {"blocked": [seat for seat in seats if sums[seat] == min(sums)]}  # R17
        for seat in self._settlement_order(sums):
            if self.winner is not None:  # R23, D7
                return
            self._record(self.side_of(seat), settlement=self._blocked_gain(seat, sums))

    def _settlement_order(self, sums: list[int]) -> list[int]:
        # R19: lowest hand first; D2: equal hands clockwise from the seat whose turn it is.
        clockwise = [(self.turn + step) % self.num_players for step in range(self.num_players)]
        return sorted(clockwise, key=lambda seat: sums[seat])

    def _blocked_gain(self, seat: int, sums: list[int]) -> int:
        # R18: rounded once for the seat; hands of its own side are left out.
        differences = [sums[other] - sums[seat] for other in self._opponents(seat)]
        return nearest_five(sum(difference for difference in differences if difference > 0))

    def _record(self, side: int, placement: int = 0, settlement: int = 0, partner: int = 0) -> None:
        """Accept or refuse one event as a whole, and list it unless nothing is in it (R21)."""
        if placement == settlement == partner == 0:
            return
        score = self._scores[side] + placement + settlement + partner  # D1: it may fall.
        accepted = score <= self.target  # R22
        self._events.append(
            {
                "side": side,
                "placement": placement,
                "settlement": settlement,
                "partner": partner,
                "accepted": accepted,
            }
        )
        if not accepted:
            return
        self._scores[side] = score
        if score == self.target:  # R23
            self.winner = side
            self._result = {"won": side}
