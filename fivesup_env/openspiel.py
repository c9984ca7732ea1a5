"""Exact 61 Five-Up as a game of OpenSpiel: importing this module registers `fivesup` with pyspiel.

```python
import pyspiel
import fivesup_env.openspiel

game = pyspiel.load_game("fivesup(num_players=3,episode=round,reward=margin)")
```

Parameters of the game, with their defaults:

| | |
|---|---|
| `num_players=2` | seats, 2, 3 or 4 |
| `episode=match` | "match", or "round": the game is over with the first settlement |
| `reward=win` | "win" (not with "round"), "points", "margin": as in `fivesup_env.fivesup_v0` |
| `max_rounds=100` | rounds after which a match is stopped without a winner |
| `hand_size=5`, `target=305`, `max_pip=6` | rule parameters, as for `Match` |
| `without=` | tiles left out of the set, with spaces between them: `0|0 0|3` |
| `scores=` | raw points per side to begin with, with spaces between them: "10 15"; zeros if empty |
| `starter=-1` | the seat that opens the first round; -1 for the lot |
| `deal=auto` | what one chance event deals: a "hand", or a "tile"; "auto" deals hands where there are few |

Actions are the 163 `ends` ids of `fivesup_env.actions`; drawing and passing are actions, each the only legal one where
it is legal. Chance events are those of `fivesup_env.extensive`: the lot, the deal, and each draw when it happens.

**Utilities.** "win" is paid at the end, the others as rewards on the way. "win" and "margin" are zero-sum, "points" is
not. The bounds are true ones, which play need not reach (`utility_bounds`). `max_rounds` is what bounds a match: by its
rules it can last any number of rounds.

**Information states.** The string is all that a seat was told from the first event on, in order, with earlier rounds
and what their settlements showed: perfect recall. The tensor is one-to-one with it (`InformationTensor`), in games of
one round only: a match has no bound that a tensor of useful size would hold. The observation tensor is the project's
observation, int8 values as float32; the observation string is the text of the view.

**Resampling.** `resample_from_infostate` draws from the exact belief (`fivesup_env.belief`), earlier rounds included.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyspiel

from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.extensive import ACTS, BY_LOT, ENDS_TEXTS, OVER, Course, Setup, resample
from fivesup_env.information import InformationTensor
from fivesup_env.notation import position_text, read_tiles
from fivesup_env.observation import OBS_SIZE, write_observation_of
from fivesup_env.options import Options
from fivesup_env.rules.scoring import rounded
from fivesup_env.rules.state import HAND_SIZE, MAX_SEATS, TARGET
from fivesup_env.rules.tiles import PIPS, tile_ids, tile_name

_TERMINAL: Final = int(pyspiel.PlayerId.TERMINAL)
_CHANCE: Final = int(pyspiel.PlayerId.CHANCE)

#: The parameters of the game and their defaults.
PARAMETERS: Final[Mapping[str, Any]] = {
    "num_players": 2,
    "episode": "match",
    "reward": "win",
    "max_rounds": 100,
    "hand_size": HAND_SIZE,
    "target": TARGET,
    "max_pip": 6,
    "without": "",
    "scores": "",
    "starter": BY_LOT,
    "deal": "auto",
}


def _game_type(zero_sum: bool = True, at_the_end: bool = True, with_tensor: bool = True) -> Any:
    """Return the type of a game; registered is the one of the defaults."""
    utility, rewards = pyspiel.GameType.Utility, pyspiel.GameType.RewardModel
    return pyspiel.GameType(
        short_name="fivesup",
        long_name="Exact 61 Five-Up",
        dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
        chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
        information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
        utility=utility.ZERO_SUM if zero_sum else utility.GENERAL_SUM,
        reward_model=rewards.TERMINAL if at_the_end else rewards.REWARDS,
        max_num_players=4,
        min_num_players=2,
        provides_information_state_string=True,
        provides_information_state_tensor=with_tensor,
        provides_observation_string=True,
        provides_observation_tensor=True,
        parameter_specification=dict(PARAMETERS),
    )


class FivesupGame(pyspiel.Game):  # type: ignore[misc]
    """The game with its parameters; see the module's text."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        given = dict(params or {})
        self.setup = setup_of({**PARAMETERS, **given})
        self.start = Course(self.setup)  #: before the first chance event; states begin with copies of it
        options = self.setup.options
        low, high = utility_bounds(self.setup)
        zero_sum = options.reward != "points"
        info = pyspiel.GameInfo(
            num_distinct_actions=NUM_ENDS_ACTIONS,
            max_chance_outcomes=self.setup.most_outcomes,
            num_players=options.num_players,
            min_utility=low,
            max_utility=high,
            utility_sum=0.0 if zero_sum else None,
            max_game_length=self.setup.round_limit * self.setup.most_actions,
        )
        super().__init__(_game_type(zero_sum, options.reward == "win", not options.plays_match), info, given)

    def new_initial_state(self) -> FivesupState:
        """Return the state before the first chance event."""
        return FivesupState(self)

    def max_chance_nodes_in_history(self) -> int:
        """Return a bound of the chance events in a game."""
        return self.setup.round_limit * self.setup.most_events

    def make_py_observer(
        self, iig_obs_type: Any = None, params: Mapping[str, Any] | None = None
    ) -> InformationObserver | ViewObserver | None:
        """Return an observer: of information states with perfect recall, else of views.

        None where public or private information is asked for alone, which is how OpenSpiel is told that there is none.

        Raises:
            ValueError: observers take no parameters.
        """
        if params:
            raise ValueError(f"observers of fivesup take no parameters, not {params!r}")
        kind = iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False)
        if not kind.public_info or kind.private_info != pyspiel.PrivateInfoType.SINGLE_PLAYER:
            return None
        return InformationObserver(self.setup) if kind.perfect_recall else ViewObserver()


class FivesupState(pyspiel.State):  # type: ignore[misc]
    """A state: a shell around a `Course`, its only attribute, as OpenSpiel copies every attribute deeply."""

    def __init__(self, game: FivesupGame) -> None:
        super().__init__(game)
        self.course = copy.copy(game.start)

    def current_player(self) -> int:
        """Return the seat to move, or that chance is to come, or that the game is over."""
        course = self.course
        if course.stage == ACTS:
            return course.turn
        return _TERMINAL if course.stage == OVER else _CHANCE

    def is_terminal(self) -> bool:
        """Tell whether the game is over."""
        return self.course.stage == OVER

    def is_chance_node(self) -> bool:
        """Tell whether a chance event is to come."""
        return self.course.stage < ACTS

    def legal_actions(self, player: int | None = None) -> list[int]:
        """Return the legal ids of a seat, by default of whoever is to move; at a chance node its outcomes."""
        course = self.course
        if course.stage == ACTS and (player is None or player == course.turn):
            return course.legal()
        if player is not None:
            legal: list[int] = super().legal_actions(player)
            return legal
        return [event for event, _ in course.chances()] if course.stage < ACTS else []

    def _legal_actions(self, player: int) -> list[int]:
        return self.course.legal()

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return what can come next and its probabilities."""
        return self.course.chances()

    def _apply_action(self, action: int) -> None:
        self.course.apply(action)

    def _action_to_string(self, player: int, action: int) -> str:
        return self.course.chance_text(action) if player == _CHANCE else ENDS_TEXTS[action]

    def rewards(self) -> list[float]:
        """Return what each seat earned by the last action or chance event."""
        return self.course.rewards()

    def returns(self) -> list[float]:
        """Return what each seat has earned so far."""
        return self.course.returns()

    def information_state_string(self, player: int | None = None) -> str:
        """Return all that a seat was told so far, by default the seat to move."""
        return self.course.seen[self._seat(player)]

    def resample_from_infostate(self, player_id: int, probability_sampler: Callable[[], float]) -> FivesupState:
        """Return a state in which the seat has seen the same, drawn from all that it can be in.

        Its history is that of a game: a new state to which it is applied becomes this one.
        """
        state: FivesupState = self.get_game().new_initial_state()
        for event in resample(self.course, self._seat(player_id), probability_sampler):
            state.apply_action(event)
        return state

    def _seat(self, player: int | None) -> int:
        seat = self.current_player() if player is None else player
        if not 0 <= seat < len(self.course.seen):
            raise ValueError(f"player must be a seat, 0 .. {len(self.course.seen) - 1}, not {seat}")
        return seat

    def __str__(self) -> str:
        return " / ".join(self.course.seen)


class InformationObserver:
    """What a seat was told so far: as text, and in games of one round as a tensor (`InformationTensor`)."""

    def __init__(self, setup: Setup) -> None:
        self._information = None if setup.options.plays_match else InformationTensor(setup)
        self.tensor = self._information.tensor if self._information else None
        self.dict = self._information.sections if self._information else {}

    def set_from(self, state: FivesupState, player: int) -> None:
        """Write `tensor`, and with it `dict`, for a seat."""
        if self._information:
            self._information.write(state.course, player)

    def string_from(self, state: FivesupState, player: int) -> str:
        """Return the text of all that a seat was told so far."""
        return state.information_state_string(player)


class ViewObserver:
    """What a seat sees of the round: the project's observation as a tensor, the text of its view as a string.

    While a later round is dealt, this is the round before; before the first is dealt, there is nothing to see.
    """

    def __init__(self) -> None:
        self.tensor = np.zeros(OBS_SIZE, np.float32)
        self.dict = {"observation": self.tensor}
        self._observation = np.zeros(OBS_SIZE, np.int8)

    def set_from(self, state: FivesupState, player: int) -> None:
        """Write `tensor` for a seat."""
        self._observation[:] = 0
        if state.course.is_dealt:
            write_observation_of(state.course.states, player, self._observation)
        self.tensor[:] = self._observation

    def string_from(self, state: FivesupState, player: int) -> str:
        """Return the text of a seat's view."""
        return position_text(state.course.view(player)) if state.course.is_dealt else ""


def setup_of(parameters: Mapping[str, Any]) -> Setup:
    """Return the setup that the parameters of the game stand for.

    Raises:
        ValueError: a parameter is impossible; names it.
    """
    given = dict(parameters)
    scores, starter, deal = given.pop("scores"), given.pop("starter"), given.pop("deal")
    without = read_tiles("without", given.pop("without").split())
    return Setup(
        Options(without=tuple(tile_name(tile) for tile in without), **given),
        scores=_numbers("scores", scores) or None,
        starter=None if starter == BY_LOT else starter,
        deal=deal,
    )


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split())
    except ValueError:
        raise ValueError(f"{name} must be ints with spaces between them, not {text!r}") from None


def utility_bounds(setup: Setup) -> tuple[float, float]:
    """Return bounds of what a seat can earn in a game: true ones, which play need not reach.

    No side gains more than it needs to reach the target (R22). A side loses points only by its partner's tiles when it
    goes out (R15), at most once a round and never more than all pips of the set.
    """
    options = setup.options
    if options.reward == "win":
        return -1.0, 1.0
    gain = options.target - min(setup.start_scores)
    pips = sum(int(PIPS[tile]) for tile in tile_ids(setup.tiles))
    loss = setup.round_limit * int(rounded(pips)) if options.num_players == MAX_SEATS else 0
    if options.reward == "points":
        return -float(loss), float(gain)
    return -float(gain + loss), float(gain + loss)


pyspiel.register_game(_game_type(), FivesupGame)
