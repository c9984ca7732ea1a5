"""Opponents of a single learner: who sits where, and the keys they decide by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fivesup_env._jit import kernel
from fivesup_env.rules.chance import mix
from fivesup_env.rules.state import States

_OPPONENTS: Final = np.uint64(0x0770)  # keeps opponents' decisions apart from the deals of the same seed


@runtime_checkable
class Opponent(Protocol):
    """Whoever plays a seat; `agents.Agent` in short."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Choose a legal `ends` id for each of N views.

        Args:
            views: STATE[N], each the view of the seat to move.
            masks: int8[N, 163], legal `ends` ids.
            keys: uint64[N], the only randomness.
        """
        ...


def seat_opponents(
    opponent: str | Opponent | Sequence[str | Opponent], partner: str | Opponent | None, num_players: int
) -> list[Opponent]:
    """Return who plays each seat after the learner's, clockwise.

    Args:
        opponent: an agent, or the text of one, for all opposing seats; or one for each, clockwise from the learner.
        partner: with four seats, who plays the learner's partner; None: the (first) opponent.
        num_players: seats.

    Raises:
        ValueError: the numbers do not fit, or a text names no agent.
    """
    opposing = 2 if num_players == 4 else num_players - 1
    single = isinstance(opponent, str | Opponent)
    given: Sequence[Any] = [opponent] * opposing if single else opponent  # type: ignore[assignment]
    if len(given) != opposing:
        raise ValueError(f"opponent: {num_players} seats have {opposing} opposing ones, not {len(given)}")
    if partner is not None and num_players != 4:
        raise ValueError(f"partner: only four seats make partnerships (R2), not {num_players}")
    made = [_agent(one) for one in given]
    if num_players == 4:
        made.insert(1, made[0] if partner is None else _agent(partner))
    return made


def _agent(one: str | Opponent) -> Opponent:
    if not isinstance(one, str):
        if not isinstance(one, Opponent):
            raise ValueError(f"an opponent is an agent or the text of one, not {one!r}")
        return one
    from agents import make_agent  # agents stand above the environments: only whoever names one loads them

    return make_agent(one)


@kernel
def opponent_keys(seeds: NDArray[np.uint64], plies: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    """Write the keys for K decisions, from match seeds and actions taken in the matches, into ``out`` [K]."""
    for row in range(len(out)):
        out[row] = mix(mix(_OPPONENTS, seeds[row]), np.uint64(plies[row]))
