"""Texts for tiles, moves and positions, and back.

    tile        1|4                 smaller half first
    move        1|4                 opens the round
                1|1@1|4.low         places [1|1] at the `low` port of [1|4]
                draw, pass
    position    one line of key=value words: the rule parameters that differ from the real game's, the round as it
                was dealt, the moves since, and then, to be read rather than needed, whose turn it is and the scores

Reading is strict: every text has one meaning, a position is replayed move by move, and a fault raises a `ValueError`
that names it. The view of a seat has a position text too, with `?` for what is hidden from the seat; view_notation.py
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from fivesup_env.rules.legality import describe_move, why_illegal
from fivesup_env.rules.play import DRAW, PASS, clear_round, step
from fivesup_env.rules.state import (
    BLOCKED,
    FULL,
    HAND_SIZE,
    LOWEST_SCORE,
    MAX_SEATS,
    OUT,
    RUNNING,
    TARGET,
    State,
    check_int,
    deck,
    new_state,
    num_sides,
)
from fivesup_env.rules.tiles import (
    NO_TILE,
    NUM_PORTS,
    NUM_TILES,
    OPENING,
    port_name,
    tile_ids,
    tile_name,
)
from fivesup_env.rules.view import drawn_tiles, history, initial_hands

_TILE_IDS: Final = {tile_name(tile): tile for tile in range(NUM_TILES)}
_PORT_IDS: Final = {port_name(port): port for port in range(NUM_PORTS)}
_HEAD: Final = "fivesup"
_NOTHING: Final = "-"

SetupWords: TypeAlias = dict[str, tuple[str, Callable[[str], Any]]]


class IllegalAction(ValueError):
    """An action that the rules do not allow in this position, or a text that is none. Nothing has changed."""


def parse_tile(text: object) -> int:
    """Return the tile of a text such as "1|4".

    Raises:
        ValueError: `text` is no such text.
    """
    tile = _TILE_IDS.get(text) if isinstance(text, str) else None
    if tile is None:
        raise ValueError(f"unknown tile {text!r}: tiles are written low|high, from 0|0 to 6|6")
    return tile


def parse_move(text: object) -> tuple[int, int]:
    """Return the (tile, port) of a move text, as `step` takes them; whether it is legal is another question.

    Raises:
        ValueError: `text` is no move.
    """
    if text == "draw":
        return DRAW, OPENING
    if text == "pass":
        return PASS, OPENING
    if not isinstance(text, str):
        raise ValueError(f"a move is a text, not {text!r}")
    tile, at, port = text.partition("@")
    if not at:
        return parse_tile(tile), OPENING
    if port not in _PORT_IDS:
        raise ValueError(f"unknown port {port!r} in {text!r}: ports are written like 1|4.low or 1|1.branch_a")
    return parse_tile(tile), _PORT_IDS[port]


def move_text(tile: int, port: int) -> str:
    """Return the text of a (tile, port) as `step` takes them."""
    if tile in (DRAW, PASS):
        return "draw" if tile == DRAW else "pass"
    return tile_name(tile) if port == OPENING else f"{tile_name(tile)}@{port_name(port)}"


def tile_texts(mask: int) -> list[str]:
    """Return the texts of the tiles of a mask, in ascending order."""
    return [tile_name(tile) for tile in tile_ids(mask)]


def agent_name(seat: int) -> str:
    """Return the name that a seat's agent has in the environments."""
    return f"player_{seat}"


def illegal_action(state: State, action: str, reason: str) -> IllegalAction:
    """Return the error for an action of the seat to move; for an agent's eyes, pass its view as `state`."""
    return IllegalAction(f'{agent_name(int(state.turn))} cannot {action}: {reason}, in "{position_text(state)}"')


def checked_move(state: State, text: object) -> tuple[int, int]:
    """Return the (tile, port) of a move text that is legal for the seat to move.

    Raises:
        IllegalAction: it is not legal, or unreadable.
    """
    try:
        tile, port = parse_move(text)
    except ValueError as error:
        raise illegal_action(state, f"play {text!r}", str(error)) from None
    reason = why_illegal(state, tile, port)
    if reason is not None:
        raise illegal_action(state, describe_move(tile, port), reason)
    return tile, port


def lay_out(
    hands: Sequence[Iterable[object]],
    boneyard: Iterable[object] = (),
    starter: object = 0,
    scores: Sequence[object] | None = None,
    *,
    round_number: object = 1,
    without: Iterable[object] = (),
    **parameters: Any,
) -> State:
    """Return the state at the start of a round laid out by hand.

    Args:
        hands: tile texts per seat, at least one each.
        boneyard: tile texts in draw order.
        starter: the seat that opens.
        scores: raw points per side; None for zeros.
        round_number: number of the round in its match, from 1.
        without: texts of the tiles left out of the set.
        parameters: the other rule parameters and the seed, as for `new_state`.

    Raises:
        ValueError: the setup is impossible; names the fault.
    """
    state = new_round(starter, scores, round_number=round_number, without=without, **parameters)
    num_players = int(state.num_players)
    if isinstance(hands, str) or not isinstance(hands, Sequence):
        raise ValueError(f"hands must be a list of {num_players} lists of tiles, not {hands!r}")
    if len(hands) != num_players:
        raise ValueError(f"hands: {num_players} seats need {num_players} hands, not {len(hands)}")
    dealt = [read_tiles(f"hands[{seat}]", hand) for seat, hand in enumerate(hands)]
    rest = read_tiles("boneyard", boneyard)
    _check_tiles(state, dealt, rest)
    for seat, hand in enumerate(dealt):
        state.hands[seat] = sum(1 << tile for tile in hand)
        state.hand_sizes[seat] = len(hand)
    state.boneyard[: len(rest)] = rest
    state.boneyard_size = len(rest)
    return state


def new_round(
    starter: object = 0,
    scores: Sequence[object] | None = None,
    *,
    round_number: object = 1,
    without: Iterable[object] = (),
    **parameters: Any,
) -> State:
    """Return the state at the start of a round in which nothing is dealt yet; the arguments are those of `lay_out`.

    Raises:
        ValueError: an argument is impossible; names it.
    """
    left_out = read_tiles("without", without)
    state = new_state(without=sum({1 << tile for tile in left_out}), **parameters)
    num_players = int(state.num_players)
    state.scores[: num_sides(num_players)] = checked_scores(state, scores)
    clear_round(state, check_int("starter", starter, 0, num_players - 1))
    state.round_number = check_int("round", round_number, 1, 2**32 - 1)
    return state


def read_tiles(name: str, texts: object) -> list[int]:
    """Return the tiles of a list of tile texts.

    Raises:
        ValueError: it is no such list; the text begins with `name`.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a list of tiles, not {texts!r}")
    try:
        return [parse_tile(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check_tiles(state: State, hands: list[list[int]], boneyard: list[int]) -> None:
    """Check that every seat has tiles, that all are in the set, and none stands twice (R1, R3)."""
    places: dict[int, str] = {}
    tiles_in_set = deck(state)
    for name, tiles in [*((f"hands[{seat}]", hand) for seat, hand in enumerate(hands)), ("boneyard", boneyard)]:
        if not tiles and name != "boneyard":
            raise ValueError(f"{name} is empty: a seat holds at least one tile when a round begins")
        for tile in tiles:
            if not tiles_in_set >> tile & 1:
                raise ValueError(f"{name}: [{tile_name(tile)}] is not in the set (max_pip, without)")
            if tile in places:
                raise ValueError(f"{name}: [{tile_name(tile)}] is in {places[tile]} already (R1)")
            places[tile] = name


def checked_scores(state: State, scores: Sequence[object] | None) -> list[int]:
    """Return raw scores per side, from which a round of this match can begin; None stands for zeros.

    Raises:
        ValueError: a wrong count, no ints, at or over the target, or not multiples of five.
    """
    sides = num_sides(int(state.num_players))
    if scores is None:
        return [0] * sides
    if isinstance(scores, str) or not isinstance(scores, Sequence):
        raise ValueError(f"scores must be a list of {sides} ints, not {scores!r}")
    if len(scores) != sides:
        raise ValueError(f"scores: {state.num_players} seats make {sides} sides (R2), not {len(scores)}")
    target = int(state.target)
    checked = [
        check_int(f"scores[{side}], with target={target},", score, LOWEST_SCORE, target - 5)
        for side, score in enumerate(scores)
    ]
    for side, score in enumerate(checked):
        if score % 5:
            raise ValueError(f"scores[{side}] must be a multiple of five (R10), not {score}")
    return checked


def position_text(state: State) -> str:
    """Return a state or a view as one line of text; `parse_position` and `parse_view` read it back."""
    words = [_HEAD]
    if state.observer != FULL:
        words.append(f"view={state.observer}")
    words.append(f"players={state.num_players}")
    words += _parameter_words(state)
    words += [
        f"round={state.round_number}",
        f"starter={state.starter}",
        f"round_scores={_numbers(_per_side(state, state.round_scores))}",
        *_tile_words(state),
        f"moves={','.join(move_text(tile, port) for _, tile, port in history(state)) or _NOTHING}",
        *_derived_words(state),
    ]
    return " ".join(words)


def parse_position(text: object) -> State:
    """Return the state that a line of `position_text` describes, by playing its moves.

    Raises:
        ValueError: the text is no position, or the position cannot come about.
    """
    words = split_words(text)
    setup = take_words(words, _SETUP_WORDS)
    moves = read_list(words.pop("moves", _NOTHING))
    if "hands" not in setup:
        raise ValueError(f"not the position of a full state: {text!r} has no hands=")
    state = lay_out(**setup)
    for number, move in enumerate(moves, 1):
        try:
            step(state, *checked_move(state, move))
        except IllegalAction as error:
            raise ValueError(f"move {number}: {error}") from None
    check_words(words, dict(word.split("=", 1) for word in _derived_words(state)))
    return state


def result_of(state: State) -> dict[str, Any] | None:
    """Return how the round ended: {"out": seat}, {"blocked": [lowest seats]} or {"won": side}; None: it goes on."""
    result, value = int(state["result"]), int(state["result_of"])
    if result == RUNNING:
        return None
    if result == BLOCKED:
        return {"blocked": [seat for seat in range(MAX_SEATS) if value >> seat & 1]}
    return {"out" if result == OUT else "won": value}


def _parameter_words(state: State) -> list[str]:
    words = []
    if state.hand_size != HAND_SIZE:
        words.append(f"hand_size={state.hand_size}")
    if state.target != TARGET:
        words.append(f"target={state.target}")
    if state.max_pip != 6:
        words.append(f"max_pip={state.max_pip}")
    if state.without:
        words.append(f"without={','.join(tile_texts(int(state.without)))}")
    if state.observer == FULL:
        words.append(f"seed={state.seed}")
    return words


def _tile_words(state: State) -> list[str]:
    """Return the words for hands and boneyard: as dealt for a state, as seen now for a view."""
    drawn = [_known(tile) for tile in drawn_tiles(state)]
    rest = [_known(int(tile)) for tile in state.boneyard[state.drawn : state.boneyard_size]]
    if state.observer == FULL:
        hands = [",".join(tile_texts(hand)) for hand in initial_hands(state)]
        return [f"hands={'/'.join(hands)}", f"boneyard={','.join(drawn + rest) or _NOTHING}"]
    hands = [",".join(hand) or _NOTHING for hand in visible_hands(state)]
    return [f"hands_now={'/'.join(hands)}", f"drawn={','.join(drawn) or _NOTHING}", f"boneyard_left={len(rest)}"]


def visible_hands(state: State) -> list[list[str]]:
    """Return each seat's hand as texts, with "?" for every tile that a view hides."""
    hands = [tile_texts(hand) for hand in state.hands[: state.num_players].tolist()]
    return [hand or ["?"] * int(state.hand_sizes[seat]) for seat, hand in enumerate(hands)]


def _known(tile: int) -> str:
    return "?" if tile == NO_TILE else tile_name(tile)


_DERIVED_NAMES: Final = ("turn", "scores", "total", "over")


def _derived_words(state: State) -> list[str]:
    """Return the words that follow from the others, for people to read."""
    words = [
        f"turn={state.turn}",
        f"scores={_numbers(_per_side(state, state.scores))}",
        f"total={state.total}",
    ]
    for how, value in (result_of(state) or {}).items():
        words.append(f"over={how}:{_numbers(value if isinstance(value, list) else [value])}")
    return words


def _per_side(state: State, scores: Any) -> list[int]:
    return [int(score) for score in scores[: num_sides(int(state.num_players))]]


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in numbers)


def split_words(text: object) -> dict[str, str]:
    """Return the words of a position text by name, in order.

    Raises:
        ValueError: the text is no line of such words.
    """
    if not isinstance(text, str):
        raise ValueError(f"a position is a text, not {text!r}")
    head, *rest = text.split(" ")
    if head != _HEAD:
        raise ValueError(f'a position begins with "{_HEAD} ", not {text[:20]!r}')
    words: dict[str, str] = {}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not a key=value word of a position")
        if name in words:
            raise ValueError(f"{name}= stands twice in a position")
        words[name] = value
    return words


def take_words(words: dict[str, str], readers: SetupWords) -> dict[str, Any]:
    """Take the words that lay a round out from `words`, and return them as arguments of `lay_out`.

    Raises:
        ValueError: the value of a word cannot be read.
    """
    return {key: read_word(name, words.pop(name), read) for name, (key, read) in readers.items() if name in words}


def read_word(name: str, value: str, read: Callable[[str], Any]) -> Any:
    """Return what `read` makes of the value of a word.

    Raises:
        ValueError: it cannot be read; names the word.
    """
    try:
        return read(value)
    except ValueError:
        raise ValueError(f"{name}={value} in a position cannot be read") from None


def check_words(words: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Check words that follow from the others.

    Raises:
        ValueError: one is not as expected, or unknown.
    """
    for name, value in words.items():
        if name not in expected and name not in _DERIVED_NAMES:
            raise ValueError(f"unknown word {name}={value} in a position")
        if expected.get(name) != value:
            raise ValueError(f"{name}={value} disagrees with the moves, which give {expected.get(name, 'none')}")


def read_list(value: str) -> list[str]:
    """Return the parts of a value with commas; "-" has none."""
    return [] if value == _NOTHING else value.split(",")


def read_integer(value: str) -> int:
    """Return the int of a text that is written as `str` would write it.

    Raises:
        ValueError: it is no such text.
    """
    number = int(value[:25])
    if str(number) != value:
        raise ValueError
    return number


def _read_integers(value: str) -> list[int]:
    return [read_integer(part) for part in value.split(",")]


#: Words that lay a round out, but for its tiles: the argument of `new_round` that each is, and how it is read.
ROUND_WORDS: Final[SetupWords] = {
    "players": ("num_players", read_integer),
    "hand_size": ("hand_size", read_integer),
    "target": ("target", read_integer),
    "max_pip": ("max_pip", read_integer),
    "without": ("without", read_list),
    "round": ("round_number", read_integer),
    "starter": ("starter", read_integer),
    "round_scores": ("scores", _read_integers),
}
_SETUP_WORDS: Final[SetupWords] = {
    **ROUND_WORDS,
    "seed": ("seed", read_integer),
    "hands": ("hands", lambda value: [read_list(hand) for hand in value.split("/")]),
    "boneyard": ("boneyard", read_list),
}
