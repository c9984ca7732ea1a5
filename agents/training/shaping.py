"""Potential-based shaping: each placement is paid at once for what it changes in the chance to win by the scores.

Rewards that are the changes of a potential alter no comparison of policies (Ng, Harada and Russell, "Policy invariance
under reward transformations", 1999), but tell sooner which decisions were good. This potential is 0 where a round
begins and where it is over, so that a round pays the same in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.search.winning_chances import WinningChances
from fivesup_env.rules.state import RUNNING, States


def potentials(states: States, rows: NDArray[np.int64], chances: WinningChances) -> NDArray[np.float64]:
    """Return how far each seat's chance to win the match has moved within its round, by the scores alone.

    That is its side's chance at the scores now, the mean over who starts the next round, less that when the round began
    with its starter. It is 0 before the first placement and once the round is over.

    Args:
        states: STATE[N], full states; what is hidden in them is not used.
        rows: int64[K], of these.
        chances: for as many seats.

    Returns:
        float64[K, P].
    """
    sides = chances.table.shape[-1]
    running = (states["result"][rows] == RUNNING) & (states["num_placed"][rows] > 0)
    within = rows[running]
    now = chances(states["scores"][within, :sides], np.full(len(within), -1))
    begun = chances(states["round_scores"][within, :sides], states["starter"][within])
    by_side = np.zeros((len(rows), sides))
    by_side[running] = now - begun
    found: NDArray[np.float64] = by_side[:, np.arange(chances.num_players) % sides]
    return found
