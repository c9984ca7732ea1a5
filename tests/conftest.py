"""What the tests share: the two implementations, ways to lay out and play a round, and stored results."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

DATA = Path(__file__).parent / "data"
TILES = [f"{low}|{high}" for low in range(7) for high in range(low, 7)]

# The same examples in every run and everywhere. No deadline, for the first call of a kernel compiles it.
settings.register_profile(
    "fivesup", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fivesup")

# Engine and reference offer the same names but share no base class.
Game = Any


@pytest.fixture(params=["engine", "reference"])
def game(request: pytest.FixtureRequest) -> Game:
    """One class after the other, each offering `from_setup` and a round's worth of play."""
    # Imported here so that a break in one of the two leaves the other's tests running.
    if request.param == "engine":
        from fivesup_env import Match

        return Match
    from tests.reference import Reference

    return Reference


@pytest.fixture
def engine() -> Game:
    """`Match` alone, for what the reference does not offer: dealing, lots, error texts."""
    from fivesup_env import Match

    return Match


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="write what tests/data stores anew, without comparing")


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """`stored(name, fresh)`: the text that tests/data has under this name; with --regen, `fresh` becomes that text."""

    def read(name: str, fresh: str) -> str:
        path = DATA / name
        if request.config.getoption("--regen"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fresh, encoding="utf-8", newline="\n")
            pytest.skip(f"--regen: wrote {path}, compared nothing")
        if not path.exists():
            pytest.fail(f"{path} is missing: pytest --regen writes it")
        return path.read_text(encoding="utf-8")

    return read


@pytest.fixture
def illegal() -> type[ValueError]:
    """The error that `Match.play` raises."""
    from fivesup_env import IllegalAction

    return IllegalAction


def lay(game: Game, *hands: str, boneyard: str = "", **setup: Any) -> Game:
    """A round laid out from texts such as `"1|4 2|2"`, one hand for each seat."""
    return game.from_setup(
        {
            "num_players": len(hands),
            "hands": [hand.split() for hand in hands],
            "boneyard": boneyard.split(),
            **setup,
        }
    )


def play(match: Game, *texts: str) -> Game:
    """The same match after these actions, each of which has to be legal."""
    for text in texts:
        assert text in match.legal(), f"{text!r} is not in {match.legal()}"
        match.play(text)
    return match


def events(match: Game) -> list[tuple[Any, ...]]:
    """The last action's events as (side, placement, settlement, partner, accepted)."""
    keys = ("side", "placement", "settlement", "partner", "accepted")
    return [tuple(event[key] for key in keys) for event in match.events]


def starts_next(match: Game) -> int:
    """The seat that opens the round after this finished one."""
    if hasattr(match, "next_round"):
        match.next_round()
        return int(match.turn)
    return int(match.next_starter)


def random_setup(rng: random.Random, num_players: int, target: int = 305) -> dict[str, Any]:
    """A round laid out at random: hands of odd sizes, tiles missing, scores often near the target."""
    tiles = rng.sample(TILES, len(TILES))
    longest = rng.choice([1, 2, 4, 5, 6])
    hands = [[tiles.pop() for _ in range(rng.randint(longest // 2 or 1, longest))] for _ in range(num_players)]
    left = rng.choice([0, 0, 1, 2, 3, 4, 8, len(tiles)])
    highest = rng.choice([1, 2, 4, 6, target // 5 + 8])
    return {
        "num_players": num_players,
        "hands": hands,
        "boneyard": tiles[:left],
        "starter": rng.randrange(num_players),
        "scores": [target - 5 * rng.randint(1, highest) for _ in range(2 if num_players == 4 else num_players)],
        "target": target,
    }


def random_mini(rng: random.Random, num_players: int) -> dict[str, Any]:
    """The arguments of a `Match` with a small set, small hands and a small target."""
    max_pip = rng.randint(2, 5)
    tiles = [tile for tile in TILES if int(tile[2]) <= max_pip]
    without = rng.sample(tiles, rng.randint(0, 2)) if len(tiles) - 2 >= num_players else []
    return {
        "num_players": num_players,
        "seed": rng.getrandbits(64),
        "hand_size": rng.randint(1, min(5, (len(tiles) - len(without)) // num_players)),
        "target": rng.choice([20, 25, 30, 40, 60]),
        "max_pip": max_pip,
        "without": without,
    }


def deal_of(match: Game) -> dict[str, Any]:
    """The setup of a round of the engine that has just been dealt or laid out, as the reference takes it."""
    return {
        "num_players": match.num_players,
        "hands": match.hands,
        "boneyard": match.boneyard,
        "starter": match.starter,
        "scores": match.scores,
        "target": int(match.state.target),
    }
