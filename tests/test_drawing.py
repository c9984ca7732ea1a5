"""Pictures of positions (R26): nothing overlaps, everything joined can be followed, every sign is there."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from fivesup_env import drawing
from fivesup_env.drawing import Contribution, Hand, OpenPort, Placed, Scene, Side
from fivesup_env.drawing.boxes import boxed
from fivesup_env.drawing.compose import picture_of
from fivesup_env.drawing.geometry import Box, Link, Spot
from fivesup_env.drawing.growing import grown
from fivesup_env.drawing.layout import BADGE_RADIUS, DEFAULT_TABLE, Layout, Marker, lay_out
from fivesup_env.drawing.picture import Circle, Rect, Text
from fivesup_env.drawing.scene import joining_port

SVG = "{http://www.w3.org/2000/svg}"
# What a line of tiles on the table is like: any, with all doubles early, bushy, one long line, or old ports first.
STYLES = ("any", "doubles", "bushy", "snake", "old")
LINK_GAP = 0.3


# Random tables, with a plain version of the ports of R6-R9 of their own.


def free_ports(placed: Sequence[Placed]) -> list[OpenPort]:
    """The open ports: a double's branches only when both its lines are taken (R8)."""
    taken = {(tile.host, tile.host_port) for tile in placed[1:]}
    taken |= {(index, own_port(placed, index)) for index in range(1, len(placed))}
    return [
        OpenPort(index, port, tile.value(port))
        for index, tile in enumerate(placed)
        for port in tile.ports
        if (index, port) not in taken
        and not (port.startswith("branch") and not {(index, "line_a"), (index, "line_b")} <= taken)
    ]


def counted(placed: Sequence[Placed], open_ports: Sequence[OpenPort]) -> list[Contribution]:
    """The contributions (R9): open halves, and twice the value of doubles with an open line."""
    halves = [Contribution(p.tile, p.port, p.value) for p in open_ports if not placed[p.tile].is_double]
    lines = {p.tile: 2 * p.value for p in open_ports if p.port.startswith("line")}
    return halves + [Contribution(tile, None, points) for tile, points in lines.items()]


def own_port(placed: Sequence[Placed], index: int) -> str:
    tile = placed[index]
    assert tile.host is not None and tile.host_port is not None
    return joining_port(tile, placed[tile.host].value(tile.host_port))


def preferred(style: str, moves: list[tuple[int, int, OpenPort]]) -> list[tuple[int, int, OpenPort]]:
    """Those of the possible placements (low, high, port) that a style of table prefers."""
    if style == "doubles":
        return [move for move in moves if move[0] == move[1]] or moves
    if style == "bushy":
        branches = [move for move in moves if move[2].port.startswith("branch")]
        return branches or preferred("doubles", moves)
    if style in ("snake", "old"):
        ends = [move[2].tile for move in moves]
        tile = max(ends) if style == "snake" else min(ends)
        return [move for move in moves if move[2].tile == tile]
    return moves


def random_table(seed: int, style: str = "any", most: int = 28) -> tuple[Placed, ...]:
    """Place tiles at random until none fits any more, or `most` lie on the table."""
    rng = random.Random(seed)
    tiles = [(low, high) for high in range(7) for low in range(high + 1)]
    first = rng.choice([t for t in tiles if style != "doubles" or t[0] == t[1]])
    tiles.remove(first)
    placed = [Placed(*first)]
    while len(placed) < most:
        ports = free_ports(placed)
        moves = [(low, high, port) for low, high in tiles for port in ports if port.value in (low, high)]
        if not moves:
            break
        low, high, port = rng.choice(preferred(style, moves))
        tiles.remove((low, high))
        placed.append(Placed(low, high, port.tile, port.port))
    return tuple(placed)


def scene_for(placed: Sequence[Placed]) -> Scene:
    ports = free_ports(placed)
    parts = counted(placed, ports)
    return Scene(tuple(placed), tuple(ports), tuple(parts), total=sum(part.points for part in parts))


def full_scene(seed: int, players: int = 4, most: int = 28) -> Scene:
    """A table with hands, sides, boneyard and caption around it."""
    placed = random_table(seed, most=most)
    used = {str(tile) for tile in placed}
    rest = [f"{low}|{high}" for high in range(7) for low in range(high + 1) if f"{low}|{high}" not in used]
    hands = [Hand(f"player_{seat}", tuple(rest[seat::players]), to_move=seat == 1) for seat in range(players)]
    hands[0] = Hand("player_0", (None,) * len(rest[0::players]))
    sides = tuple(Side(f"side {side}", 100 * side - 5) for side in range(players))
    return replace(scene_for(placed), hands=tuple(hands), sides=sides, boneyard=seed % 19, caption=f"Table {seed}")


# What must hold for every layout.


def way_out(spot: Spot, port: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a port is (the middle of its half, or of a double for its lines), and the way out of it."""
    (x0, y0), (x1, y1) = spot.halves
    if port.startswith("line"):
        return ((x0 + x1) / 2, (y0 + y1) / 2), (abs(y1 - y0) / 2, abs(x1 - x0) / 2)
    here, there = spot.halves if port in ("low", "branch_a") else reversed(spot.halves)
    return here, ((here[0] - there[0]) / 2, (here[1] - there[1]) / 2)


def boxes_meet(first: Box, second: Box, gap: float = 0.0) -> bool:
    return (
        first.left < second.right + gap
        and second.left < first.right + gap
        and first.top < second.bottom + gap
        and second.top < first.bottom + gap
    )


def link_parts(link: Link) -> Iterator[Box]:
    for (x0, y0), (x1, y1) in pairwise(link.points):
        assert (x0 == x1) != (y0 == y1)
        yield Box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))


def assert_clear(placed: Sequence[Placed], spots: Sequence[Spot], links: Sequence[Link]) -> None:
    """No tile touches one that it does not join; no link meets a tile or another link on its way."""
    joined = {frozenset((index, tile.host)) for index, tile in enumerate(placed) if tile.host is not None}
    for (i, first), (j, second) in combinations(enumerate(spots), 2):
        assert not boxes_meet(first.box, second.box, 0 if frozenset((i, j)) in joined else 1)
    for link in links:
        parts = list(link_parts(link))
        for index, spot in enumerate(spots):
            # A link begins at its host's edge and ends at that of its own tile.
            begin, end = index == placed[link.tile].host, len(parts) - (index == link.tile)
            assert not any(boxes_meet(part, spot.box, 0.5) for part in parts[begin:end])
            assert not any(boxes_meet(part, spot.box) for part in parts)
    for first_link, second_link in combinations(links, 2):
        for a in link_parts(first_link):
            assert not any(boxes_meet(a, b, 0.5) for b in link_parts(second_link))


def assert_joined(placed: Sequence[Placed], spots: Sequence[Spot], links: Sequence[Link]) -> None:
    """Joined halves lie next to each other, or a link leads from one to the other."""
    by_tile = {link.tile: link.points for link in links}
    for index, tile in enumerate(placed[1:], start=1):
        assert tile.host is not None and tile.host_port is not None
        here, _ = way_out(spots[tile.host], tile.host_port)
        there, _ = way_out(spots[index], own_port(placed, index))
        if index in by_tile:
            start, end = by_tile[index][0], by_tile[index][-1]
            assert abs(start[0] - here[0]) + abs(start[1] - here[1]) == 1
            assert abs(end[0] - there[0]) + abs(end[1] - there[1]) == 1
        else:
            assert sorted((abs(here[0] - there[0]), abs(here[1] - there[1]))) == [0, 2]


def assert_doubles_lie_across(placed: Sequence[Placed], spots: Sequence[Spot], links: Sequence[Link]) -> None:
    """The line goes through the long sides of a double, and branches leave at its ends."""
    by_tile = {link.tile: link.points for link in links}

    def way_between(child: int) -> tuple[float, float]:
        """The way on which a tile is reached, at its host's edge."""
        host = placed[child].host
        assert host is not None
        if child in by_tile:
            (x0, y0), (x1, y1) = by_tile[child][:2]
            return float(np.sign(x1 - x0)), float(np.sign(y1 - y0))
        here, _ = way_out(spots[host], str(placed[child].host_port))
        there, _ = way_out(spots[child], own_port(placed, child))
        return (there[0] - here[0]) / 2, (there[1] - here[1]) / 2

    for index, tile in enumerate(placed):
        (x0, y0), (x1, y1) = spots[index].halves
        length = ((x1 - x0) / 2, (y1 - y0) / 2)
        if tile.is_double and index:
            points = by_tile.get(index)
            way = way_between(index) if points is None else tuple(np.sign(np.subtract(points[-1], points[-2])))
            assert way[0] * length[0] + way[1] * length[1] == 0
        children = [c for c in range(1, len(placed)) if placed[c].host == index and tile.is_double]
        for child in children:
            way = way_between(child)
            along = abs(way[0] * length[0] + way[1] * length[1])
            assert along == (1 if str(placed[child].host_port).startswith("branch") else 0)


def assert_markers_clear(layout: Layout) -> None:
    """Markers overlap neither tiles, nor links, nor each other."""
    for first, second in combinations(layout.markers, 2):
        distance = np.hypot(first.x - second.x, first.y - second.y)
        assert distance > first.radius + second.radius
    for marker in layout.markers:
        assert not any(boxes_meet(marker.box, spot.box, 0.1) for spot in layout.spots)
        for link in layout.links:
            for part in link_parts(link):
                x = min(max(marker.x, part.left), part.right)
                y = min(max(marker.y, part.top), part.bottom)
                assert np.hypot(marker.x - x, marker.y - y) > BADGE_RADIUS + LINK_GAP


def assert_markers_at_ports(scene: Scene, layout: Layout) -> None:
    """Each open port has one marker, a unit ahead of it, with the points that count there."""
    assert {(m.tile, m.port) for m in layout.markers} == {(p.tile, p.port) for p in scene.open_ports}
    assert len(layout.markers) == len(scene.open_ports)
    for marker in layout.markers:
        at, way = way_out(layout.spots[marker.tile], marker.port)
        if not marker.port.startswith("line"):
            assert (marker.x, marker.y) == (at[0] + 2 * way[0], at[1] + 2 * way[1])
        else:
            assert sorted((abs(marker.x - at[0]), abs(marker.y - at[1]))) == [0, 2]
    shown = sorted(m.points for m in layout.markers if m.points is not None)
    assert shown == sorted(part.points for part in scene.contributions)


def assert_sound(scene: Scene, layout: Layout) -> None:
    for check in (assert_clear, assert_joined, assert_doubles_lie_across):
        check(scene.placed, layout.spots, layout.links)
    assert_markers_clear(layout)
    assert_markers_at_ports(scene, layout)


def boxed_layout(scene: Scene) -> Layout:
    spots, links = boxed(scene.placed)
    markers = tuple(
        Marker(port.tile, port.port, *spots[port.tile].ports[port.port].ahead(1), points)
        for port, points in scene.markers
    )
    return Layout(tuple(spots), tuple(links), markers, Box(0, 0, 0, 0))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("block", range(2))
def test_r26_nothing_overlaps_on_random_tables(style: str, block: int) -> None:
    for seed in range(20 * block, 20 * (block + 1)):
        scene = scene_for(random_table(seed, style))
        assert_sound(scene, lay_out(scene))


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_r26_nothing_overlaps_on_thousands_of_tables(style: str) -> None:
    for seed in range(1000, 1800):
        scene = scene_for(random_table(seed, style, most=seed % 28 + 1))
        assert_sound(scene, lay_out(scene))


@pytest.mark.parametrize("style", STYLES)
def test_r26_the_last_resort_lays_out_any_table(style: str) -> None:
    for seed in range(60):
        scene = scene_for(random_table(seed, style))
        assert_sound(scene, boxed_layout(scene))


def test_the_checks_above_would_notice_a_fault() -> None:
    scene = scene_for(random_table(7, "doubles"))
    layout = lay_out(scene)
    assert len(scene.open_ports) == 16 and sum(tile.is_double for tile in scene.placed) == 7
    twice = [layout.spots[0], *layout.spots[:-1]]
    for check in (assert_clear, assert_joined, assert_doubles_lie_across):
        with pytest.raises(AssertionError):
            check(scene.placed, twice, layout.links)
    crowd = tuple(Marker(m.tile, m.port, m.x, 0, m.points) for m in layout.markers)
    with pytest.raises(AssertionError):
        assert_markers_clear(Layout(layout.spots, layout.links, crowd, layout.bounds))


@pytest.mark.parametrize("table", [(90, 14), (30, 60), (20, 10)])
def test_tables_of_any_shape_are_laid_out(table: tuple[int, int]) -> None:
    for seed in range(6):
        scene = scene_for(random_table(seed, STYLES[seed % 5]))
        assert_sound(scene, lay_out(scene, table))


@pytest.mark.parametrize("style", STYLES)
def test_tiles_keep_their_places_while_the_table_grows(style: str) -> None:
    for seed in range(5):
        placed = random_table(seed, style)
        whole = grown(placed, DEFAULT_TABLE)
        assert whole is not None
        for count in range(len(placed)):
            part = grown(placed[:count], DEFAULT_TABLE)
            assert part is not None and part[0] == whole[0][:count]


# Small positions, worked out by hand.

# [1|4] opens, [1|1] and [4|4] are joined at its ends, [0|4] goes on from the second.
LINE = (Placed(1, 4), Placed(1, 1, 0, "low"), Placed(4, 4, 0, "high"), Placed(0, 4, 2, "line_b"))


def test_a_line_is_laid_from_left_to_right() -> None:
    layout = lay_out(scene_for(LINE))
    assert [spot.box for spot in layout.spots] == [(-2, -1, 2, 1), (-4, -2, -2, 2), (2, -2, 4, 2), (4, -1, 8, 1)]
    assert layout.spots[3].halves == ((7, 0), (5, 0)) and not layout.links


def test_r26_a_double_shows_its_points_once_and_unused_branches_hollow_dots() -> None:
    layout = lay_out(scene_for(LINE))
    signs = {(m.tile, m.port): (m.x, m.y, m.points) for m in layout.markers}
    assert signs == {
        (1, "line_b"): (-5, 0, 2),
        (2, "branch_a"): (3, -3, None),
        (2, "branch_b"): (3, 3, None),
        (3, "low"): (9, 0, 0),
    }


def test_r26_an_opening_double_counts_at_one_of_its_two_open_lines() -> None:
    layout = lay_out(scene_for((Placed(6, 6),)))
    assert [(m.port, m.x, m.y, m.points) for m in layout.markers] == [("line_a", -2, 0, None), ("line_b", 2, 0, 12)]
    assert layout.spots[0].box == (-1, -2, 1, 2)


def test_branches_leave_an_opening_double_upwards_and_downwards() -> None:
    placed = (Placed(5, 5), Placed(1, 5, 0, "line_a"), Placed(2, 5, 0, "line_b"), Placed(3, 5, 0, "branch_b"))
    layout = lay_out(scene_for((*placed, Placed(4, 5, 0, "branch_a"))))
    left, right, below, above = [spot.halves for spot in layout.spots[1:]]
    assert (left, right) == (((-4, 0), (-2, 0)), ((4, 0), (2, 0)))
    assert (below, above) == (((0, 5), (0, 3)), ((0, -5), (0, -3)))


# The picture


@pytest.mark.parametrize("seed", range(8))
def test_r26_the_picture_has_every_sign_once(seed: int) -> None:
    scene = full_scene(seed, players=2 + seed % 3, most=4 * seed + 1)
    shapes = picture_of(scene).shapes
    badges = [s for s in shapes if isinstance(s, Circle) and s.role == "badge"]
    numbers = [s.text for s in shapes if isinstance(s, Text) and s.role == "badge"]
    roles = [s.role for s in shapes]
    assert len(badges) == len(scene.contributions)
    assert sorted(numbers) == sorted(str(part.points) for part in scene.contributions)
    assert roles.count("dot") == len(scene.open_ports) - len(scene.contributions)
    assert roles.count("frame") == sum(tile.is_double for tile in scene.placed)
    assert roles.count("tile") == len(scene.placed)
    on_table = sum(tile.low + tile.high for tile in scene.placed)
    in_hands = sum(int(t[0]) + int(t[2]) for hand in scene.hands for t in hand.tiles if t is not None)
    assert roles.count("pip") == on_table + in_hands
    hidden = sum(tile is None for hand in scene.hands for tile in hand.tiles)
    assert roles.count("back") == hidden + 1  # and the boneyard's sign


def extent(shape: Rect | Circle) -> Box:
    """The box of a shape with its outline."""
    edge = shape.stroke_width / 2 if shape.stroke else 0.0
    if isinstance(shape, Circle):
        r = shape.radius + edge
        return Box(shape.x - r, shape.y - r, shape.x + r, shape.y + r)
    return Box(shape.x - edge, shape.y - edge, shape.x + shape.width + edge, shape.y + shape.height + edge)


@pytest.mark.parametrize("size", [(1200, 900), (400, 300), (1600, 700), (500, 900)])
@pytest.mark.parametrize("players", [2, 4])
def test_the_things_in_a_picture_keep_apart_in_every_size(size: tuple[int, int], players: int) -> None:
    for most in (1, 14, 28):
        shapes = picture_of(full_scene(most, players, most), size).shapes
        solid = [s for s in shapes if isinstance(s, Rect | Circle)]
        things = [extent(s) for s in solid if s.role in ("tile", "hand_tile", "back", "badge", "dot")]
        assert not any(boxes_meet(a, b) for a, b in combinations(things, 2))
        for box in map(extent, solid):
            assert box.left >= 0 and box.top >= 0 and box.right <= size[0] and box.bottom <= size[1]
        table = next(extent(s) for s in solid if s.role == "table")
        for box in (extent(s) for s in solid if s.role in ("tile", "badge", "dot")):
            assert table.left < box.left and box.right < table.right
            assert table.top < box.top and box.bottom < table.bottom


def test_a_picture_says_scores_total_boneyard_and_who_is_to_move() -> None:
    scene = replace(
        scene_for((Placed(5, 5),)),
        hands=(Hand("north", ("1|4",), to_move=True), Hand("south", (None, None))),
        sides=(Side("north", 150), Side("south", -5)),
        boneyard=17,
        caption="After the opening",
    )
    texts = [s.text for s in picture_of(scene).shapes if isinstance(s, Text)]
    for text in ("After the opening", "10", "Boneyard 17", "to move", "1 tile", "2 tiles"):
        assert text in texts
    assert "150 raw = 30 of 61" in texts and "-5 raw = -1 of 61" in texts
    panels = [s.role for s in picture_of(scene).shapes if isinstance(s, Rect) and s.radius == 10]
    assert panels == ["side", "side", "to_move", "hand"]


def test_long_names_and_captions_are_cut_short() -> None:
    scene = Scene(hands=(Hand("n" * 300, ()),) * 4, sides=(Side("s" * 300, 5),) * 4, caption="c" * 300)
    texts = [s for s in picture_of(scene).shapes if isinstance(s, Text)]
    assert sum(text.text.endswith("...") for text in texts) == 9


def test_a_picture_needs_a_size_and_a_text_some_width() -> None:
    for size in ((0, 900), (1200, -1)):
        with pytest.raises(ValueError, match="size"):
            picture_of(Scene(), size)
    with pytest.raises(ValueError, match="at least 20"):
        drawing.to_text(Scene(), 19)


# SVG


def test_svg_is_well_formed_and_stands_alone() -> None:
    text = drawing.to_svg(full_scene(3))
    root = ElementTree.fromstring(text)
    assert root.tag == SVG + "svg" and root.get("viewBox") == "0 0 1200 900"
    assert root.findtext(SVG + "title") == "Table 3"
    assert "Boneyard: 3." in str(root.findtext(SVG + "desc"))
    assert text.count("http") == 1  # the name of the SVG namespace
    assert not any(word in text for word in ("href", "url(", "<style", "<script", "<image", "@"))


def test_svg_counts_agree_with_the_scene() -> None:
    scene = full_scene(4)
    elements = ElementTree.fromstring(drawing.to_svg(scene))
    classes = [(element.tag.removeprefix(SVG), element.get("class")) for element in elements]
    assert classes.count(("circle", "badge")) == len(scene.contributions)
    assert classes.count(("text", "badge")) == len(scene.contributions)
    assert classes.count(("circle", "dot")) == len(scene.open_ports) - len(scene.contributions)
    assert classes.count(("rect", "frame")) == sum(tile.is_double for tile in scene.placed)
    assert classes.count(("rect", "tile")) == len(scene.placed)


def test_svg_escapes_what_it_is_told() -> None:
    scene = Scene(caption="<b>&\"'\x00\ud800", hands=(Hand("<&>", ()),))
    root = ElementTree.fromstring(drawing.to_svg(scene))
    assert root.findtext(SVG + "title") == "<b>&\"'??"
    assert "<&>" in [element.text for element in root]


def test_drawings_are_deterministic() -> None:
    assert drawing.to_svg(full_scene(1)) == drawing.to_svg(full_scene(1))
    assert drawing.to_text(full_scene(1)) == drawing.to_text(full_scene(1))


# Pixels and the window


def test_pixels_have_the_same_shape_whatever_the_position() -> None:
    pytest.importorskip("pygame")
    for scene in (Scene(), full_scene(1, 2, 1), full_scene(2, 4, 28)):
        pixels = drawing.to_rgb_array(scene)
        assert pixels.shape == (900, 1200, 3) and pixels.dtype == np.uint8
        assert drawing.to_rgb_array(scene, (321, 200)).shape == (200, 321, 3)
        assert np.array_equal(pixels, drawing.to_rgb_array(scene))


def test_pixels_show_frames_and_badges_in_their_colours() -> None:
    pytest.importorskip("pygame")
    pixels = drawing.to_rgb_array(scene_for((Placed(0, 0),))).reshape(-1, 3)
    plain = drawing.to_rgb_array(scene_for((Placed(0, 1),))).reshape(-1, 3)
    orange, blue = (0xE0, 0x8A, 0x00), (0x0B, 0x5F, 0xA5)
    key = (plain == orange).all(axis=1).sum()  # the frame in the legend alone
    assert (pixels == orange).all(axis=1).sum() > 10 * key > 0
    assert (pixels == blue).all(axis=1).sum() > 1000


def test_pixels_need_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "no such driver")
    drawing.to_rgb_array(full_scene(0))
    assert not pygame.display.get_init()


def test_a_missing_pygame_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ImportError, match=r'pip install "fivesup\[render\]"'):
        drawing.to_rgb_array(Scene())


def test_importing_the_drawing_room_loads_no_pygame() -> None:
    code = "import sys, fivesup_env.drawing; print('pygame' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_window_shows_scenes_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = drawing.Window((400, 300))
    assert not pygame.display.get_init()
    window.show(full_scene(1), fps=1000)
    assert pygame.display.get_surface().get_size() == (400, 300)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    window.show(full_scene(3), fps=1000)
    assert window.closed and not pygame.display.get_init()
    window.show(full_scene(4), fps=1000)
    assert not pygame.display.get_init()


# Text


def test_a_line_and_its_signs_in_characters() -> None:
    hands = (Hand("north", ("2|3", None), to_move=True), Hand("south", ()))
    scene = replace(scene_for(LINE), hands=hands)
    assert drawing.to_text(scene) == (
        "                 o\n"
        "\n"
        "    [1]         [4]\n"
        "(2) --- [1 | 4] --- [4 | 0] (0)\n"
        "    [1]         [4]\n"
        "\n"
        "                 o\n"
        "\n"
        "Ends total: 2\n"
        "Counted (n): 1|1.line_b of 1 counts 2, 0|4.low of 0 counts 0\n"
        "Open, not counted o: 4|4.branch_a of 4, 4|4.branch_b of 4\n"
        "Boneyard: 0\n"
        "north (to move): [2|3] [?]\n"
        "south: no tiles\n"
    )


def test_what_is_too_wide_in_characters_is_listed() -> None:
    scene = replace(scene_for(LINE), sides=(Side("north", 15),), boneyard=3, caption="Narrow")
    assert drawing.to_text(scene, 26) == (
        "Narrow\n"
        "\n"
        "Opening [1|4]\n"
        "1|4.low: [1|1] (2)\n"
        "1|4.high: [4|4] [0|4] (0)\n"
        "\n"
        "Ends total: 2\n"
        "Counted (n): 1|1.line_b of\n"
        "    1 counts 2, 0|4.low of\n"
        "    0 counts 0\n"
        "Open, not counted o:\n"
        "    4|4.branch_a of 4,\n"
        "    4|4.branch_b of 4\n"
        "Boneyard: 3\n"
        "north: 15 raw = 3 of 61\n"
    )


@pytest.mark.parametrize("width", [20, 41, 60, 80, 100, 120])
def test_text_keeps_to_its_width(width: int) -> None:
    for seed in range(4):
        text = drawing.to_text(full_scene(seed), width)
        assert max(map(len, text.splitlines())) <= width
        assert text.isascii() and text.endswith("\n") and not any(line.endswith(" ") for line in text.splitlines())


def test_text_draws_every_tile_that_fits() -> None:
    drawn = 0
    for seed in range(20):
        scene = scene_for(random_table(seed))
        text = drawing.to_text(scene).split("\n\nEnds total")[0]
        if not text.startswith("Opening"):
            drawn += 1
            assert sum(map(text.count, "0123456")) >= 2 * len(scene.placed)
            assert text.count("(") == len(scene.contributions)
            assert text.count("o") == len(scene.open_ports) - len(scene.contributions)
    assert drawn >= 18


def test_text_of_an_empty_table() -> None:
    assert drawing.to_text(Scene(boneyard=18)) == "(no tiles on the table)\n\nEnds total: 0\nBoneyard: 18\n"


# Scenes that cannot be


@pytest.mark.parametrize(
    ("scene", "fault"),
    [
        ({"placed": (Placed(4, 1),)}, "low|high"),
        ({"placed": (Placed(0, 7),)}, "0 to 6 pips"),
        ({"placed": (Placed(1, 4, 0, "low"),)}, "can have no host"),
        ({"placed": (Placed(1, 4), Placed(4, 4))}, "must join"),
        ({"placed": (Placed(1, 4), Placed(4, 4, 1, "high"))}, "must join"),
        ({"placed": (Placed(1, 4), Placed(4, 4, 0, "line_a"))}, "does not have"),
        ({"placed": (Placed(1, 4), Placed(5, 5, 0, "high"))}, "no half of 4"),
        ({"placed": (Placed(1, 4), Placed(4, 5, 0, "high"), Placed(3, 4, 0, "high"))}, "is taken"),
        ({"placed": (Placed(1, 4), Placed(4, 4, 0, "high"), Placed(3, 4, 1, "line_a"))}, "is taken"),
        ({"placed": (Placed(1, 4),), "open_ports": (OpenPort(0, "line_a", 1),)}, "no port"),
        ({"placed": (Placed(1, 4),), "open_ports": (OpenPort(0, "low", 1),) * 2}, "named twice"),
        ({"placed": (Placed(1, 4),), "contributions": (Contribution(0, "low", 1),)}, "no open port"),
    ],
)
def test_a_scene_that_cannot_be_is_refused(scene: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault.replace("|", r"\|")):
        Scene(**scene)  # type: ignore[arg-type]


@pytest.mark.parametrize("tile", ["14", "1|7", "a|b", "4|", ""])
def test_a_hand_holds_tiles_only(tile: str) -> None:
    with pytest.raises(ValueError, match="is not a tile"):
        drawing.to_svg(Scene(hands=(Hand("north", (tile,)),)))
