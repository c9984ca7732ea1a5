"""The two codecs of action ids: their tables, their masks, and that they play the same game."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from fivesup_env import Match
from fivesup_env.actions import (
    CODECS,
    ENDS_KIND,
    ENDS_TILE,
    ENDS_VALUE,
    action_mask,
    action_move,
    ends_id,
    ends_step,
    explain_illegal,
    only_action,
    ports_id,
    ports_move,
    ports_step,
)
from fivesup_env.notation import move_text, parse_move, parse_tile
from fivesup_env.observation import encode
from fivesup_env.rules.layout import open_count
from fivesup_env.rules.legality import why_illegal, why_illegal_end
from fivesup_env.rules.play import DRAW, PASS
from fivesup_env.rules.state import STATE, State
from fivesup_env.rules.tiles import (
    HIGH,
    LOW,
    NUM_PORTS,
    NUM_TILES,
    NUM_VALUES,
    OPENING,
    PORT_KIND,
    PORT_VALUE,
    port_name,
    tile_name,
)
from fivesup_env.rules.view import view
from tests.conftest import random_mini, random_setup

KINDS = {"low": "half", "high": "half", "line_a": "line", "line_b": "line"}
NON_DOUBLES = [(low, high) for low in range(7) for high in range(low + 1, 7)]

#: A placement as an agent tells it apart: tile, value, kind ("half", "line", "branch"); (text,) for all else.
Meaning = tuple[str, ...]


def meaning(text: str) -> Meaning:
    """What a move text means, read from the text alone."""
    tile, at, port = text.partition("@")
    if not at:
        return (text,)
    host, _, name = port.partition(".")
    value = host[2] if name == "high" else host[0]
    return (tile, value, KINDS.get(name, "branch"))


def ends_meaning(action: int) -> Meaning:
    """What an `ends` id means, worked out from the table in the text of actions.py."""
    if action < 28:
        return (tile_name(action),)
    if action < 154:
        number, rest = divmod(action - 28, 6)
        half, kind = divmod(rest, 3)
        low, high = NON_DOUBLES[number]
        return (f"{low}|{high}", str((low, high)[half]), ("half", "line", "branch")[kind])
    if action < 161:
        value = action - 154
        return (f"{value}|{value}", str(value), "half")
    return ("draw",) if action == 161 else ("pass",)


def positions(kind: str, count: int) -> Iterator[Match]:
    """Every moment of some random rounds, their ends too; the same `Match` goes on between two of them."""
    for number in range(count):
        rng = random.Random(f"{kind} {number}")
        seats = 2 + number % 3
        match = Match(**random_mini(rng, seats)) if rng.random() < 0.3 else Match.from_setup(random_setup(rng, seats))
        if rng.random() < 0.3:
            match = Match(seats, seed=number)
        yield match
        while not match.round_over:
            match.play(rng.choice(match.legal()))
            yield match


# Tables


def test_sizes() -> None:
    assert {name: codec.num_actions for name, codec in CODECS.items()} == {"ends": 163, "ports": 450}
    assert (CODECS["ends"].draw, CODECS["ends"].pass_) == (161, 162)
    assert (CODECS["ports"].draw, CODECS["ports"].pass_) == (448, 449)


def test_ends_ids_are_every_placement_once() -> None:
    # A non-double goes by either half on three kinds of ends; a double on open halves only, for the lines and
    # branches of its value are its own. 28 + 21 * 2 * 3 + 7 + 2 = 163.
    kinds = ("half", "line", "branch")
    wanted: list[Meaning] = [(f"{low}|{high}",) for low in range(7) for high in range(low, 7)]
    wanted += [(f"{low}|{high}", str(v), kind) for low, high in NON_DOUBLES for v in (low, high) for kind in kinds]
    wanted += [(f"{v}|{v}", str(v), "half") for v in range(7)]
    wanted += [("draw",), ("pass",)]
    assert [ends_meaning(action) for action in range(163)] == wanted
    assert len(set(wanted)) == 163


def test_ends_tables() -> None:
    for action in range(163):
        what = ends_meaning(action)
        if what in (("draw",), ("pass",)):
            assert ENDS_TILE[action] == (DRAW if what == ("draw",) else PASS)
            continue
        assert tile_name(int(ENDS_TILE[action])) == what[0]
        if len(what) == 3:
            assert (str(ENDS_VALUE[action]), ("half", "line", "branch")[ENDS_KIND[action]]) == what[1:]


def test_ports_ids_are_every_placement_once() -> None:
    wanted = [(tile, OPENING) for tile in range(NUM_TILES)]
    wanted += [
        (tile, port)
        for port in range(NUM_PORTS)
        for tile in range(NUM_TILES)
        if str(PORT_VALUE[port]) in tile_name(tile) and not port_name(port).startswith(tile_name(tile))
    ]
    wanted += [(DRAW, OPENING), (PASS, OPENING)]
    assert [ports_move(action) for action in range(450)] == wanted
    assert len(set(wanted)) == 450
    assert [ports_id(tile, port) for tile, port in wanted] == list(range(450))


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (8, ("1|2",)),
        (28, ("0|1", "0", "half")),
        (33, ("0|1", "1", "branch")),
        (77, ("1|4", "1", "line")),  # [1|4] is non-double 8: 28 + 48 + 1
        (79, ("1|4", "4", "half")),
        (153, ("5|6", "6", "branch")),
        (154, ("0|0", "0", "half")),
        (160, ("6|6", "6", "half")),
        (161, ("draw",)),
        (162, ("pass",)),
    ],
)
def test_some_ends_ids(action: int, what: Meaning) -> None:
    assert ends_meaning(action) == what


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (27, "6|6"),
        (28, "0|1@0|0.line_a"),
        (45, "0|6@0|0.branch_a"),
        (51, "0|6@0|0.branch_b"),
        (52, "0|1@1|1.line_a"),
        (28 + 6 * 28, "0|0@0|1.low"),  # port 28 is the first of the non-doubles
        (28 + 6 * 29, "1|1@0|1.high"),
        (447, "6|6@5|6.high"),
        (448, "draw"),
        (449, "pass"),
    ],
)
def test_some_ports_ids(action: int, text: str) -> None:
    assert move_text(*ports_move(action)) == text
    assert ports_id(*parse_move(text)) == action


# Masks


def test_masks_are_the_legal_actions() -> None:
    seen: Counter[str] = Counter()
    for match in positions("masks", 300):
        legal = match.legal()
        ends, ports = action_mask(match.state, "ends"), action_mask(match.state, "ports")
        assert {ends.dtype, ports.dtype} == {np.dtype(np.int8)}
        assert set(ends.tolist()) | set(ports.tolist()) <= {0, 1}
        texts = [move_text(*ports_move(int(action))) for action in np.flatnonzero(ports)]
        assert sorted(texts) == sorted(legal), match
        classes = [ends_meaning(int(action)) for action in np.flatnonzero(ends)]
        assert sorted(classes) == sorted({meaning(text) for text in legal}), match
        assert bool(classes) is not match.round_over
        seen.update(
            what[2] if len(what) == 3 else what[0] if what[0] in ("draw", "pass") else "open" for what in classes
        )
        seen["equivalent ports"] += len(legal) > len(classes)
    assert set(seen) == {"half", "line", "branch", "draw", "pass", "open", "equivalent ports"}
    assert min(seen.values()) > 10, seen


def test_every_move_has_an_ends_id_and_only_ports_that_lead_to_the_same_game_share_it() -> None:
    for match in positions("first", 120):
        ids = {ends_id(*parse_move(move)) for move in match.legal()}
        assert sorted(ids) == np.flatnonzero(action_mask(match.state)).tolist(), match


def test_an_ends_id_joins_the_first_equivalent_port() -> None:
    for match in positions("first", 120):
        legal = match.legal()
        for action in np.flatnonzero(action_mask(match.state)):
            # `legal` lists ports by the tile placed earliest, then in the order of R6.
            first = next(text for text in legal if meaning(text) == ends_meaning(int(action)))
            assert move_text(*action_move(match.state, int(action))) == first, match
        for action in np.flatnonzero(action_mask(match.state, "ports")):
            assert action_move(match.state, int(action), "ports") == ports_move(int(action))


def test_only_action_is_the_one_legal_ends_id() -> None:
    seen: Counter[str] = Counter()
    for match in positions("only", 300):
        legal = np.flatnonzero(action_mask(match.state)).tolist()
        only = int(only_action(match.state))
        assert only == (legal[0] if len(legal) == 1 else -1), match
        seen["none" if not legal else "choice" if only < 0 else ends_meaning(only)[-1]] += 1
        seen["one class, several ports"] += only >= 0 and len(match.legal()) > 1
    assert {"none", "choice", "draw", "pass", "half", "line", "branch", "one class, several ports"} <= set(seen)


def test_the_mask_of_a_view_is_that_of_its_observer() -> None:
    for match in positions("views", 40):
        for seat in range(match.num_players):
            seen = view(match.state, seat)
            for codec in CODECS:
                wanted = action_mask(match.state, codec) if seat == match.turn else np.zeros(CODECS[codec].num_actions)
                assert action_mask(seen, codec).tolist() == wanted.tolist(), match


# The same game by both codecs

# What the choice among equivalent ports may change: where tiles lie.
PLACES = ("history_port", "taken", "open_low", "open_high")


def without_places(state: State) -> bytes:
    """The bytes of a state, but for the fields that say where tiles lie."""
    rest = state.copy()
    for name in PLACES:
        rest[name] = 0
    return bytes(rest.tobytes())


def assert_equivalent(one: State, other: State) -> None:
    """The two differ in where tiles lie at most, and there only by swaps of equivalent ports (D6)."""
    assert without_places(one) == without_places(other)
    for value in range(NUM_VALUES):
        for kind in range(3):
            assert open_count(one, kind, value) == open_count(other, kind, value)
        lines, branches = int(one.taken[value]) & 0b0011, int(one.taken[value]) & 0b1100
        assert lines.bit_count() == (int(other.taken[value]) & 0b0011).bit_count()
        assert branches.bit_count() == (int(other.taken[value]) & 0b1100).bit_count()
    for index in range(int(one.num_placed)):
        ports = int(one.history_port[index]), int(other.history_port[index])
        if ports[0] != ports[1]:
            assert OPENING not in ports
            assert PORT_VALUE[ports[0]] == PORT_VALUE[ports[1]]
            assert PORT_KIND[ports[0]] == PORT_KIND[ports[1]]
    assert not one.history_port[one.num_placed :].any()
    assert not other.history_port[other.num_placed :].any()
    for seat in range(int(one.num_players)):
        assert encode(view(one, seat)).tobytes() == encode(view(other, seat)).tobytes()
    assert action_mask(one).tobytes() == action_mask(other).tobytes()


def equivalent_ports(match: Match, action: int) -> list[int]:
    """The legal `ports` ids that mean the same as this `ends` id."""
    texts = [text for text in match.legal() if meaning(text) == ends_meaning(action)]
    return [ports_id(*parse_move(text)) for text in texts]


def test_equivalent_ports_lead_to_states_that_differ_only_in_where_tiles_lie() -> None:
    changed: Counter[str] = Counter()
    for match in positions("one step", 60):
        for action in np.flatnonzero(action_mask(match.state)).tolist():
            by_end = match.state.copy()
            ends_step(by_end, action)
            for port_action in equivalent_ports(match, action):
                by_port = match.state.copy()
                ports_step(by_port, port_action)
                assert_equivalent(by_end, by_port)
                differ = {name for name in STATE.names or () if by_end[name].tobytes() != by_port[name].tobytes()}
                placed = int(match.state.num_placed)
                assert by_end.history_port[:placed].tobytes() == by_port.history_port[:placed].tobytes()
                # One place differs: either two halves, of two hosts, or two slots of one double.
                assert bool(differ) is (action_move(match.state, action) != ports_move(port_action))
                assert differ in (set(), {"history_port", "taken"}) or differ - {"open_low", "open_high"} == {
                    "history_port"
                }
                changed["-".join(sorted(differ))] += 1
    assert {"", "history_port-taken", "history_port-open_low", "history_port-open_high"} < set(changed), changed


def test_the_rest_of_the_match_is_the_same() -> None:
    swapped = 0
    for number in range(90):
        rng = random.Random(f"rest {number}")
        one = Match(2 + number % 3, seed=number) if number % 2 else Match.from_setup(random_setup(rng, 2 + number % 3))
        other = one.clone()
        for _ in range(3):
            swapped += play_round_by_both(one, other, rng)
            if one.winner is not None:
                break
            one.next_round()
            other.next_round()
            assert one == other
    assert swapped > 250


def play_round_by_both(one: Match, other: Match, rng: random.Random) -> int:
    """Play one by `ends` ids, the other by random equivalent `ports` ids; return how often their ports differed."""
    swapped = 0
    while not one.round_over:
        legal = np.flatnonzero(action_mask(one.state)).tolist()
        assert legal == np.flatnonzero(action_mask(other.state)).tolist()
        action = rng.choice(legal)
        port_action = rng.choice(equivalent_ports(other, action))
        swapped += action_move(one.state, action) != ports_move(port_action)
        ends_step(one.state, action)
        ports_step(other.state, port_action)
        assert_equivalent(one.state, other.state)
        assert (one.scores, one.events, one.hands, one.ends) == (other.scores, other.events, other.hands, other.ends)
    assert one.round_result == other.round_result
    return swapped


# Why not


def test_every_illegal_id_has_a_reason_and_no_legal_one_has() -> None:
    for number, match in enumerate(positions("reasons", 24)):
        if number % 3 and not match.round_over and match.legal() not in (["draw"], ["pass"]):
            continue
        for codec, parts in CODECS.items():
            mask = action_mask(match.state, codec)
            for action in range(parts.num_actions):
                assert (refusal(match.state, action, codec) is None) is bool(mask[action]), (codec, action, match)
                if not mask[action]:
                    assert_explained(match.state, action, codec)


def refusal(state: State, action: int, codec: str) -> str | None:
    """What the rules say against an id; None if nothing."""
    if codec == "ports":
        return why_illegal(state, *ports_move(action))
    tile, kind, value = int(ENDS_TILE[action]), int(ENDS_KIND[action]), int(ENDS_VALUE[action])
    if len(ends_meaning(action)) == 3:
        return why_illegal_end(state, tile, kind, value)
    return why_illegal(state, tile, OPENING)


def assert_explained(state: State, action: int, codec: str) -> None:
    """The explanation says what was wanted, and gives a rule."""
    wanted, reason = explain_illegal(state, action, codec)
    what = ends_meaning(action) if codec == "ends" else meaning(move_text(*ports_move(action)))
    assert what[0] in wanted
    if len(what) == 3:
        assert wanted.startswith(f"place [{what[0]}] ")
    if len(what) == 3 and codec == "ends":
        assert wanted.endswith(f"{what[2]} of {what[1]}")
    assert re.search(r"\(.*\b[RD]\d+\)", reason), (codec, action, reason)


def test_a_reason_is_the_same_for_the_view_of_the_seat_to_move() -> None:
    for match in positions("reasons of views", 6):
        seen = view(match.state, match.turn)
        for codec, parts in CODECS.items():
            for action in np.flatnonzero(action_mask(match.state, codec) == 0)[:: parts.num_actions // 60]:
                ours = explain_illegal(seen, int(action), codec)
                assert ours == explain_illegal(match.state, int(action), codec), match


def test_tables_cover_the_port_kinds() -> None:
    # The texts above read value and kind off port names: they agree with the tables of the rules.
    for port in range(NUM_PORTS):
        tile = next(tile for tile in range(NUM_TILES) if LOW[tile] != HIGH[tile] or LOW[tile] != PORT_VALUE[port])
        what = meaning(f"{tile_name(tile)}@{port_name(port)}")
        assert what[1:] == (str(PORT_VALUE[port]), ("half", "line", "branch")[PORT_KIND[port]])
        assert parse_tile(what[0]) == tile
