"""What the rule tests share: the two implementations, and ways to lay out and play a round."""

from __future__ import annotations

from typing import Any

import pytest

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
