"""`guided:K:NETWORK`: search in K worlds, its values joined with those that a network has learned.

A network that was fitted to the values of a search (`agents.training.distill`) holds an estimate of them: its logits
times a factor, `value_per_logit`, up to a constant for each decision. It has averaged the noise of the search over
millions of decisions, but misjudges what it has not seen the like of; K playouts judge the very position, but are
noisy. Neither error follows from the other, so that a weighted mean of both estimates can be better than either:

    value = (K * search + W * (value_per_logit * logit + level)) / (K + W)

W, the prior weight, is how many worlds the opinion of the network is worth. The level, one for each decision, gives
both estimates the same mean under the network's policy. It does not matter for the choice, but for what else the values
are good for: weighed like this, good actions keep the level that the search gave them, and bad ones, whose logits a fit
hardly determines, have no say.

In solved endgames the search's values are exact and stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from agents.search.pimc import ActionValues, PimcAgent
from fivesup_env.rules.state import States

if TYPE_CHECKING:
    from agents.network import NetworkAgent

#: The prior weight of `guided:K:NETWORK`; docs/experiments.md has the measurement.
PRIOR_WEIGHT: Final = 40.0


class GuidedAgent(PimcAgent):
    """Takes the action with the best value of search and network together; the lowest id among equals.

    Args:
        worlds: K, how many worlds are drawn for each decision.
        network: whose opinion counts; whether it draws its actions does not matter.
        prior_weight: W, how many worlds that opinion is worth.

    Attributes:
        num_players: the number of seats that the network was trained for; None for any.

    Raises:
        ValueError: `worlds` is no positive int, `prior_weight` is negative or not finite, or it is not known what the
            network's logits are worth.
    """

    def __init__(self, worlds: int, network: NetworkAgent, prior_weight: float = PRIOR_WEIGHT) -> None:
        super().__init__(worlds)
        if not 0 <= prior_weight < float("inf"):
            raise ValueError(f"prior_weight must be at least 0 and finite, not {prior_weight}")
        if network.value_per_logit is None:
            raise ValueError(
                "the meta.json of the network has no value_per_logit: "
                "only a network that was fitted to a search, and not trained further by self-play, can guide one"
            )
        self.network, self.prior_weight, self._value_per_logit = network, prior_weight, network.value_per_logit
        self.num_players = network.num_players

    def action_values(self, views: States, keys: NDArray[np.uint64]) -> ActionValues:
        """See `PimcAgent.action_values`; means are those of search and network, and can leave 0 .. 1.

        Raises:
            ValueError: also if the network was trained for another number of seats.
        """
        found = super().action_values(views, keys)
        rows = np.flatnonzero(~found.solved)
        if len(rows):
            found.mean[rows] = self._joined(views[rows], found.mean[rows])
        return found

    def _joined(self, views: States, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the search's means [N, 163], NaN where not legal, joined with what the network says."""
        legal = ~np.isnan(means)
        logs = np.where(legal, self.network.log_probabilities(views, legal.astype(np.int8)), np.nan)
        opinions = self._value_per_logit * logs
        opinions += np.nansum(np.exp(logs) * (means - opinions), axis=1, keepdims=True)  # the level
        joined: NDArray[np.float64] = (self.worlds * means + self.prior_weight * opinions) / (
            self.worlds + self.prior_weight
        )
        return joined


def make_guided(text: str) -> GuidedAgent:
    """Return the agent that "guided:K:NETWORK" names, NETWORK being the text of a network.

    Raises:
        ValueError: K or NETWORK is missing or wrong, or the two do not make such an agent; says why.
    """
    from agents.agent import is_network, load_network

    _, _, rest = text.partition(":")
    worlds, _, network = rest.partition(":")
    if not worlds.isascii() or not worlds.isdigit() or not network:
        raise ValueError(f'agent {text!r}: give the number of worlds and a network, as in "guided:20:net-2p"')
    if not is_network(network):
        raise ValueError(
            f'agent {text!r}: {network!r} is no network: give "net-2p", "net-3p", "net-4p" or the path of a '
            "checkpoint folder"
        )
    try:
        return GuidedAgent(int(worlds), load_network(network))
    except ValueError as error:
        raise ValueError(f"agent {text!r}: {error}") from None
