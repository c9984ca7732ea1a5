"""A match in words: what each action did, what it scored and why. Works on matches and on views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fivesup_env.match import Position
from fivesup_env.notation import parse_move, parse_tile
from fivesup_env.rules.legality import describe_move
from fivesup_env.rules.play import DRAW
from fivesup_env.rules.state import num_sides
from fivesup_env.rules.tiles import NO_TILE, PIPS, tile_name
from fivesup_env.scoresheet import shown

_VERBS = {"open": "opens", "place": "places", "draw": "draws", "pass": "passes"}


def side_names(num_players: int) -> list[str]:
    """Return what each side is called: with partners "side 0", else its seat."""
    name = "side" if num_players == 4 else "seat"
    return [f"{name} {side}" for side in range(num_sides(num_players))]


def tiles_text(tiles: Iterable[str]) -> str:
    """Return tiles as they are written in words."""
    return " ".join(f"[{tile}]" for tile in tiles) or "nothing"


def pips(tiles: Iterable[str]) -> int:
    """Return the pip sum of tiles."""
    return sum(int(PIPS[parse_tile(tile)]) for tile in tiles)


def points_text(points: int) -> str:
    """Return raw points, and the number that people see."""
    return f"{points} raw (shown as {shown(points)})"


def scores_text(position: Position) -> str:
    """Return all scores in one line."""
    names = side_names(position.num_players)
    return ", ".join(f"{name}: {points_text(score)}" for name, score in zip(names, position.scores, strict=True))


def table_text(position: Position) -> str:
    """Return the drawing of the table, without the blank lines around it."""
    return str(position).strip("\n")


def hand_lines(position: Position) -> list[str]:
    """Return a line for each seat's hand, with its pips; all hands have to be visible."""
    return [f"seat {seat} holds {tiles_text(hand)}, {pips(hand)} pips" for seat, hand in enumerate(position.hands)]


def ends_text(position: Position) -> str:
    """Return the sum of the ends, with the tiles that it comes from (R9)."""
    parts = [f"{value} of [{tile}]" for tile, value in position.contributions()]
    return f"ends: {' + '.join(parts) or 'none count'} = {position.total()}"


def action_lines(position: Position, seat: int, move: str, before: Sequence[int]) -> list[str]:
    """Return what an action did, as lines of text: the first names it, the others follow from it.

    Args:
        position: just after the action, of the match or as somebody sees it.
        seat: who acted.
        move: what `Match.play` took.
        before: the scores before.
    """
    lines = [f"seat {seat} {_in_words(position, move)}"]
    if move not in ("draw", "pass"):
        lines.append(ends_text(position))
    return lines + _closing_lines(position) + _event_lines(position, before)


def outcome_text(num_players: int, winner: int | None, tied: list[int], leading: int | None) -> str:
    """Return how a match ended (R24, D4)."""
    names = side_names(num_players)
    if winner is not None:
        return f"{names[winner]} has won the match"
    if leading is not None:
        return f"the match was stopped early: {names[leading]} leads, nobody has won (D4)"
    level = " and ".join(names[side] for side in tied)
    return f"the match was stopped early: {level} are level at the top (D4)"


def _in_words(position: Position, move: str) -> str:
    tile, port = parse_move(move)
    verb, _, rest = describe_move(tile, port).partition(" ")
    if tile != DRAW:
        return f"{_VERBS[verb]} {rest}".rstrip()
    drawn = int(position.state.boneyard[position.state.drawn - 1])
    what = "a tile" if drawn == NO_TILE else f"[{tile_name(drawn)}]"
    return f"draws {what}, {len(position.boneyard)} left in the boneyard"


def _closing_lines(position: Position) -> list[str]:
    """Return how the round ended and what the settlement shows, if there is one."""
    if not position.state.shown:
        return []
    out = [seat for seat, hand in enumerate(position.hands) if not hand]
    first = f"seat {out[0]} is out (R15)" if out else "the round is blocked (R14)"
    return [first, *(f"  {line}" for line in hand_lines(position))]


def _event_lines(position: Position, before: Sequence[int]) -> list[str]:
    scores, target = list(before), int(position.state.target)
    names = side_names(position.num_players)
    lines = []
    for event in position.events:
        side = event["side"]
        score = scores[side]
        points = event["placement"] + event["settlement"] + event["partner"]
        if event["accepted"]:
            scores[side] = score + points
            lines.append(f"{names[side]} scores {_parts(event)}: {score} -> {points_text(score + points)}")
        else:
            lines += [
                f"{names[side]} would score {_parts(event)}",
                f"  refused as a whole (R22): {score} + {points} is beyond {target},"
                f" the score stays {points_text(score)}",
            ]
    if position.winner is not None:
        lines.append(f"{names[position.winner]} has exactly {points_text(target)} and wins (R23)")
    return lines


def _parts(event: dict[str, Any]) -> str:
    """Return the points of an event and what they are for: "20 (5 for the placement, 15 for the settlement)"."""
    names = {
        "placement": "for the placement",
        "settlement": "for the settlement",
        "partner": "for the partner's hand",
    }
    parts = [f"{event[key]} {name}" for key, name in names.items() if event[key]]
    if len(parts) == 1:
        return parts[0]
    total = event["placement"] + event["settlement"] + event["partner"]
    return f"{total} ({', '.join(parts)})"
