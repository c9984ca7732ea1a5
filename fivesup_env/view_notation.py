"""The text of a view, read back: what one seat sees of a round, rebuilt from the words of `position_text`.

The moves are played again by `step`, on a state in which other tiles stand in for those that the view hides. `step`
looks at hidden hands for two things only: whether the round is blocked (R14), so that all unseen tiles are in one of
them, and a settlement, before which the hands that it shows are put in their places. `view` wipes the rest.
"""

from __future__ import annotations

from typing import NamedTuple

from fivesup_env.belief import count_worlds
from fivesup_env.notation import (
    ROUND_WORDS,
    check_words,
    illegal_action,
    new_round,
    parse_move,
    position_text,
    read_integer,
    read_list,
    read_tiles,
    read_word,
    split_words,
    take_words,
)
from fivesup_env.rules.layout import placed
from fivesup_env.rules.legality import describe_move, why_illegal
from fivesup_env.rules.play import DRAW, PASS, drawer, seat_after, step
from fivesup_env.rules.state import State, check_int, deck
from fivesup_env.rules.tiles import NO_TILE, tile_ids, tile_name
from fivesup_env.rules.view import view

_HIDDEN = "?"
_NEEDED = ("view", "hands_now", "boneyard_left")


class _Told(NamedTuple):
    """What the words of a view tell of its tiles and moves."""

    observer: int
    hands: list[int]  # mask per seat, now; 0 where hidden
    sizes: list[int]  # tiles per seat, now
    all_shown: bool  # no hand is hidden
    drawn: list[int]  # tile per draw; NO_TILE where hidden
    left: int  # tiles in the boneyard
    moves: list[tuple[int, int]]
    movers: list[int]  # seat per move


def parse_view(text: object) -> State:
    """Return the view that a line of `position_text` describes, by playing its moves.

    Words that follow from the moves (turn, scores, total, over) can be left out.

    Raises:
        ValueError: the text is no view, a move is illegal as far as the observer can know, a word disagrees with the
            moves, or no deal agrees with the view; names the fault.
    """
    words = split_words(text)
    for name in _NEEDED:
        if name not in words:
            raise ValueError(f"not the text of a view: {text!r} has no {name}=")
    state = new_round(**take_words(words, ROUND_WORDS))
    told = _take_told(state, words)
    _deal(state, told)
    for number in range(1, len(told.moves) + 1):
        _play(state, told, number)
    seen = view(state, told.observer)
    check_words(words, split_words(position_text(seen)))
    count_worlds(seen)  # raises if there are none
    return seen


def _take_told(state: State, words: dict[str, str]) -> _Told:
    """Take the words that tell of tiles and moves; `hands_now` and `drawn` stay, for they follow from the moves too."""
    num_players = int(state.num_players)
    observer = check_int("view", read_word("view", words.pop("view"), read_integer), 0, num_players - 1)
    hands = [sorted(read_list(hand)) for hand in words["hands_now"].split("/")]
    words["hands_now"] = "/".join(",".join(hand) or "-" for hand in hands)
    tiles = _known_tiles(hands, num_players, observer)
    drawn = read_list(words.get("drawn", "-"))
    moves = _read_moves(words.pop("moves", "-"))
    told = _Told(
        observer,
        [sum({1 << tile for tile in hand}) for hand in tiles],
        [len(hand) for hand in hands],
        all(len(known) == len(hand) for known, hand in zip(tiles, hands, strict=True)),
        [NO_TILE if tile == _HIDDEN else read_tiles("drawn", [tile])[0] for tile in drawn],
        read_word("boneyard_left", words.pop("boneyard_left"), read_integer),
        moves,
        _movers(state, moves),
    )
    _check_hands(state, told, [tile for hand in tiles for tile in hand])
    return told


def _known_tiles(hands: list[list[str]], num_players: int, observer: int) -> list[list[int]]:
    """Return the tiles of every hand; none where it is hidden."""
    if len(hands) != num_players:
        raise ValueError(f"hands_now: {num_players} seats need {num_players} hands, not {len(hands)}")
    if set(hands[observer]) == {_HIDDEN}:
        raise ValueError(f"hands_now hides the hand of seat {observer}, whose view it is")
    return [[] if set(hand) == {_HIDDEN} else read_tiles("hands_now", hand) for hand in hands]


def _read_moves(value: str) -> list[tuple[int, int]]:
    moves = []
    for number, text in enumerate(read_list(value), 1):
        try:
            moves.append(parse_move(text))
        except ValueError as error:
            raise ValueError(f"move {number}: {error}") from None
    return moves


def _movers(state: State, moves: list[tuple[int, int]]) -> list[int]:
    """Return the seat of each move: a draw does not end a turn."""
    seat, movers = int(state.starter), []
    for tile, _ in moves:
        movers.append(seat)
        if tile != DRAW:
            seat = int(seat_after(int(state.num_players), seat, 1))
    return movers


def _check_hands(state: State, told: _Told, held: list[int]) -> None:
    """Check that each tile told is in the set and stands once, in a hand or on the table (R1)."""
    on_table = {tile for tile, _ in told.moves}
    for index, tile in enumerate(held):
        if not deck(state) >> tile & 1:
            raise ValueError(f"hands_now: [{tile_name(tile)}] is not in the set (max_pip, without)")
        if tile in on_table or tile in held[:index]:
            raise ValueError(f"hands_now: [{tile_name(tile)}] stands twice, or is on the table too (R1)")
    draws = sum(tile == DRAW for tile, _ in told.moves)
    if len(told.drawn) != draws:
        raise ValueError(f"drawn= has {len(told.drawn)} tiles, and moves= has {draws} draws")


def _deal(state: State, told: _Told) -> None:
    """Put the sizes of all hands as they were dealt, and the observer's tiles, into a round without tiles."""
    sizes, own, drawn = list(told.sizes), told.hands[told.observer], iter(told.drawn)
    received: list[int] = []
    for seat, (tile, _) in zip(told.movers, told.moves, strict=True):
        if tile == DRAW:
            sizes[seat] -= 1
            received += [next(drawn)][: seat == told.observer]
        elif tile != PASS:
            sizes[seat] += 1
            own |= 1 << tile if seat == told.observer else 0
    _check_counts(state, told, sizes)
    state.hand_sizes[: len(sizes)] = sizes
    state.hands[told.observer] = _without_drawn(own & deck(state), received, told.observer)
    state.boneyard_size = len(told.drawn) + told.left


def _without_drawn(own: int, drawn: list[int], seat: int) -> int:
    """Return the mask of what a seat has had in this round, less what it drew itself."""
    for tile in drawn:
        if tile == NO_TILE:
            raise ValueError(f"drawn= does not tell what seat {seat} drew, whose view it is")
        if not own >> tile & 1:
            raise ValueError(
                f"drawn= has [{tile_name(tile)}], which seat {seat} neither holds nor placed, or drew twice"
            )
        own &= ~(1 << tile)
    return own


def _check_counts(state: State, told: _Told, dealt: list[int]) -> None:
    for seat, size in enumerate(dealt):
        if size < 1:
            raise ValueError(f"hands_now and the moves leave seat {seat} no tile to begin with")
    tiles, in_set = sum(dealt) + len(told.drawn) + told.left, len(tile_ids(deck(state)))
    if told.left < 0 or tiles > in_set:
        raise ValueError(f"boneyard_left={told.left} makes {tiles} tiles in all, and the set has {in_set}")


def _play(state: State, told: _Told, number: int) -> None:
    """Play a move, counted from 1, if it is legal as far as the observer can know."""
    tile, port = told.moves[number - 1]
    unseen = deck(state) & ~int(placed(state)) & ~int(state.hands[told.observer])
    if state.turn != told.observer:  # as far as anybody sees, its hand is what it shows by the move
        state.hands[state.turn] = unseen & 1 << tile if tile not in (DRAW, PASS) else 0
    reason = why_illegal(state, tile, port)
    if reason is not None:
        error = illegal_action(view(state, told.observer), describe_move(tile, port), reason)
        raise ValueError(f"move {number}: {error}")
    last = number == len(told.moves)
    _stand_in(state, told, unseen if tile in (DRAW, PASS) else unseen & ~(1 << tile), last and told.all_shown)
    if tile == DRAW:
        _put_drawn(state, told, unseen, number)
    elif tile != PASS and state.draws and state.turn == drawer(state):
        state.boneyard[state.drawn - 1] = tile  # R12: this is what it has drawn
    step(state, tile, port)
    if state.shown and not (last and told.all_shown):
        how = "a seat goes out (R15)" if 0 in state.hand_sizes[: state.num_players] else "the round is blocked (R14)"
        raise ValueError(f"move {number}: {how}, but {'hands_now hides hands' if last else 'more moves follow'}")


def _stand_in(state: State, told: _Told, unseen: int, settled: bool) -> None:
    """Put tiles into the hands that the view hides: after the move they are as they are told, or hold all unseen ones.

    These are all in one hand, so that no settlement among them can count more points than fit into the record.
    """
    num_players, observer = int(state.num_players), told.observer
    hidden = [seat for seat in range(num_players) if seat != observer]
    holder = int(state.turn) if state.turn != observer else hidden[0]
    for seat in hidden:
        state.hands[seat] = told.hands[seat] if settled else unseen * (seat == holder)


def _put_drawn(state: State, told: _Told, unseen: int, number: int) -> None:
    """Put the tile to be drawn into the boneyard: the one that is told, or one of those that stand in."""
    tile = told.drawn[state.drawn]
    if state.turn != told.observer:
        tile = tile_ids(int(state.hands[state.turn]))[0]
    elif not unseen >> tile & 1:
        raise ValueError(f"move {number}: [{tile_name(tile)}] cannot be drawn: it is elsewhere already (R1)")
    state.boneyard[state.drawn] = tile
