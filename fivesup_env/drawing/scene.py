"""What a drawing needs to know of a position: plain data, without any knowledge of the rules.

A `Scene` says which tile was joined where, which ports are open, what was counted, and what stands
around the table. Whoever fills it decides what may be seen: a hidden tile is `None`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PORT_NAMES = ("low", "high", "line_a", "line_b", "branch_a", "branch_b")
DOUBLE_PORTS = PORT_NAMES[2:]
MAX_PIPS = 6
RAW_PER_POINT = 5


@dataclass(frozen=True)
class Placed:
    """A tile on the table, in order of placement.

    `host` is the index of the tile it joins and `host_port` the port there; both are None for the
    opening tile. A tile joins with the half that equals the port's value, a double by its line_a.
    """

    low: int
    high: int
    host: int | None = None
    host_port: str | None = None

    @property
    def is_double(self) -> bool:
        """Whether both halves are equal."""
        return self.low == self.high

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the ports that such a tile has."""
        return DOUBLE_PORTS if self.is_double else PORT_NAMES[:2]

    def value(self, port: str) -> int:
        """The pips at one of the ports."""
        return self.high if port == "high" else self.low

    def __str__(self) -> str:
        """Write the tile as `low|high`."""
        return f"{self.low}|{self.high}"


@dataclass(frozen=True)
class OpenPort:
    """A port of a placed tile where another tile can be joined."""

    tile: int
    port: str
    value: int


@dataclass(frozen=True)
class Contribution:
    """Points counted at a placed tile; `port` is None when a double counts once as a whole."""

    tile: int
    port: str | None
    points: int


@dataclass(frozen=True)
class Hand:
    """The tiles of one seat, as `low|high`, or None for a tile that lies face down."""

    label: str
    tiles: tuple[str | None, ...]
    to_move: bool = False


@dataclass(frozen=True)
class Side:
    """A score owner and its raw points."""

    label: str
    raw: int


@dataclass(frozen=True)
class Scene:
    """Everything in one picture; `total` is the sum of the ends, `target` is in raw points."""

    placed: tuple[Placed, ...] = ()
    open_ports: tuple[OpenPort, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    hands: tuple[Hand, ...] = ()
    sides: tuple[Side, ...] = ()
    target: int = 305
    total: int = 0
    boneyard: int = 0
    caption: str = ""
    markers: tuple[tuple[OpenPort, int | None], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a scene that cannot be drawn and settle where each contribution is shown."""
        _check_placed(self.placed)
        _check_open_ports(self.placed, self.open_ports)
        object.__setattr__(self, "markers", _markers(self.open_ports, self.contributions))


def shown(raw: int) -> str:
    """Raw points as players say them: 15 is `3`."""
    whole, rest = divmod(raw, RAW_PER_POINT)
    return f"{raw / RAW_PER_POINT:g}" if rest else str(whole)


def score_text(side: Side, target: int) -> str:
    """The score of a side in both scales, such as `150 raw = 30 of 61`."""
    return f"{side.raw} raw = {shown(side.raw)} of {shown(target)}"


def tile_halves(text: str) -> tuple[int, int]:
    """The two halves of a tile written as `low|high`."""
    low, bar, high = text.partition("|")
    if not (bar and low.isdecimal() and high.isdecimal() and int(high) <= MAX_PIPS):
        raise ValueError(f"{text!r} is not a tile such as '1|4'")
    return int(low), int(high)


def _check_placed(placed: tuple[Placed, ...]) -> None:
    """Raise ValueError unless every tile but the first joins a free port of an earlier one."""
    taken: set[tuple[int, str]] = set()
    for index, tile in enumerate(placed):
        name = f"placed tile {index} [{tile}]"
        if not 0 <= tile.low <= tile.high <= MAX_PIPS:
            raise ValueError(f"{name} is not low|high with 0 to {MAX_PIPS} pips")
        if index == 0:
            if tile.host is not None or tile.host_port is not None:
                raise ValueError(f"{name} opens the table and can have no host")
            continue
        taken |= _joint(placed, index, taken, name)


def _joint(placed: tuple[Placed, ...], index: int, taken: set[tuple[int, str]], name: str) -> set[tuple[int, str]]:
    """The ports that a tile takes by joining: the host's and its own."""
    tile = placed[index]
    if tile.host is None or tile.host_port is None or not 0 <= tile.host < index:
        raise ValueError(f"{name} must join a port of an earlier tile")
    host, port = placed[tile.host], tile.host_port
    if port not in host.ports:
        raise ValueError(f"{name} joins port {port!r}, which [{host}] does not have")
    if (tile.host, port) in taken:
        raise ValueError(f"{name} joins {host}.{port}, which is taken")
    value = host.value(port)
    if value not in (tile.low, tile.high):
        raise ValueError(f"{name} has no half of {value} to join {host}.{port}")
    return {(tile.host, port), (index, joining_port(tile, value))}


def joining_port(tile: Placed, value: int) -> str:
    """The port by which a tile joins an open port of that value."""
    if tile.is_double:
        return "line_a"
    return "low" if tile.low == value else "high"


def _check_open_ports(placed: tuple[Placed, ...], open_ports: tuple[OpenPort, ...]) -> None:
    """Raise ValueError for an open port that is named twice, is taken, or does not exist."""
    taken = {(tile.host, tile.host_port) for tile in placed[1:]}
    for index, tile in enumerate(placed[1:], start=1):
        if tile.host is not None and tile.host_port is not None:
            taken.add((index, joining_port(tile, placed[tile.host].value(tile.host_port))))
    for port in open_ports:
        if not 0 <= port.tile < len(placed) or port.port not in placed[port.tile].ports:
            raise ValueError(f"there is no port {port.port!r} at placed tile {port.tile}")
        if (port.tile, port.port) in taken:
            raise ValueError(f"port {placed[port.tile]}.{port.port} is taken or named twice")
        taken.add((port.tile, port.port))


def _markers(
    open_ports: tuple[OpenPort, ...], contributions: tuple[Contribution, ...]
) -> tuple[tuple[OpenPort, int | None], ...]:
    """Each open port with the points shown there, or None where nothing is counted."""
    points: dict[tuple[int, str], int] = {}
    names = {(port.tile, port.port) for port in open_ports}
    for part in contributions:
        # A double counts once: at the line it grows along, or else at the other one.
        wished = ("line_b", "line_a") if part.port is None else (part.port,)
        place = next(((part.tile, port) for port in wished if (part.tile, port) in names), None)
        if place is None or place in points:
            raise ValueError(f"{part} has no open port of its own")
        points[place] = part.points
    return tuple((port, points.get((port.tile, port.port))) for port in open_ports)
