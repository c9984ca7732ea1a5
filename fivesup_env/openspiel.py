"""Exact 61 Five-Up as a game of OpenSpiel: importing this module registers `fivesup` with pyspiel.

    import pyspiel
    import fivesup_env.openspiel

    game = pyspiel.load_game("fivesup(num_players=3,episode=round,reward=margin)")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyspiel
from numpy.typing import NDArray

from fivesup_env.actions import NUM_ENDS_ACTIONS
from fivesup_env.extensive import ACTS, ENDS_TEXTS, OVER, Course, Setup, resample
from fivesup_env.notation import position_text
from fivesup_env.observation import OBS_SIZE, write_observation_of
from fivesup_env.options import Options
from fivesup_env.rules.state import HAND_SIZE, TARGET

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
    "starter": -1,
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

    def make_py_observer(self, iig_obs_type: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Return an observer of the game."""
        kind = iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False)
        if kind.perfect_recall:
            return InformationObserver(self.setup)
        return ViewObserver()


class FivesupState(pyspiel.State):  # type: ignore[misc]
    """A state: a shell around a `Course`, its only attribute, as OpenSpiel copies every attribute deeply."""

    def __init__(self, game: FivesupGame) -> None:
        super().__init__(game)
        self.course = Course(game.setup)

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


_TERMINAL: Final = int(pyspiel.PlayerId.TERMINAL)
_CHANCE: Final = int(pyspiel.PlayerId.CHANCE)


class InformationObserver:
    """Information states."""

    def __init__(self, setup: Setup) -> None:
        self.tensor = None
        self.dict: dict[str, NDArray[np.float32]] = {}

    def set_from(self, state: FivesupState, player: int) -> None:
        """Write."""

    def string_from(self, state: FivesupState, player: int) -> str:
        """Return all that a seat was told so far."""
        return state.information_state_string(player)


class ViewObserver:
    """The project's observation."""

    def __init__(self) -> None:
        self.tensor = np.zeros(OBS_SIZE, np.float32)
        self.dict = {"observation": self.tensor}

    def set_from(self, state: FivesupState, player: int) -> None:
        """Write."""
        out = np.zeros(OBS_SIZE, np.int8)
        if state.course.states["round_number"][0]:
            write_observation_of(state.course.states, player, out)
        self.tensor[:] = out

    def string_from(self, state: FivesupState, player: int) -> str:
        """Return the text of the view."""
        from fivesup_env.rules.view import view

        return position_text(view(state.course.states[0], player))


def setup_of(parameters: Mapping[str, Any]) -> Setup:
    """Return the setup of the game's parameters.

    Raises:
        ValueError: a parameter is impossible; names it.
    """
    scores, starter = parameters["scores"].split(), parameters["starter"]
    options = Options(
        num_players=parameters["num_players"],
        reward=parameters["reward"],
        episode=parameters["episode"],
        max_rounds=parameters["max_rounds"],
        hand_size=parameters["hand_size"],
        target=parameters["target"],
        max_pip=parameters["max_pip"],
        without=tuple(parameters["without"].split()),
    )
    return Setup(
        options, tuple(int(score) for score in scores) or None, None if starter == -1 else starter, parameters["deal"]
    )


def utility_bounds(setup: Setup) -> tuple[float, float]:
    """Return bounds of what a seat can earn in a game."""
    options = setup.options
    if options.reward == "win":
        return -1.0, 1.0
    pips = sum(low + high for low in range(7) for high in range(low, 7))
    lost = setup.round_limit * pips if options.num_players == 4 else 0
    need = options.target - min(setup.start_scores)
    return (-(need + lost), need + lost) if options.reward == "margin" else (-lost - 1, need)


pyspiel.register_game(_game_type(), FivesupGame)
