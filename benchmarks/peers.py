"""Other libraries' games, in the same run and through the same kind of Python loop: random legal actions.

The `bench` extra installs them. A peer that is not there, or fails, is named in the report.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import warnings
from functools import partial
from typing import Any

from benchmarks.environments import aec_play
from benchmarks.measure import Measure, Play, Played, Scale

OPENSPIEL_DOMINOES = "python_block_dominoes"
_OPENSPIEL_PYTHON = (OPENSPIEL_DOMINOES, "python_team_dominoes")
#: This project's game as one of OpenSpiel's, and that of one round.
OPENSPIEL_OWN = ("fivesup", "fivesup(episode=round,reward=margin)")
#: Card games written in C++. `leduc_poker` has six cards; the others are played with whole packs.
OPENSPIEL_CARDS = (
    "leduc_poker",
    "crazy_eights",
    "cribbage",
    "dou_dizhu",
    "euchre",
    "gin_rummy",
    "hanabi",
    "hearts",
    "oh_hell",
    "skat",
    "spades",
)
#: RLCard's card games.
_RLCARD = ("bridge", "doudizhu", "gin-rummy", "leduc-holdem", "limit-holdem", "no-limit-holdem", "uno")


def openspiel_name(game: str, with_tensor: bool = False) -> str:
    """Return the name of a measurement of `openspiel_measures`."""
    return f"{game}, information_state_tensor()" if with_tensor else game


def openspiel_states_name(game: str) -> str:
    """Return the name of a measurement in which every state of a game counts."""
    return f"{game}, every state"


def openspiel_measures(scale: Scale) -> list[Measure]:
    """Return OpenSpiel's dominoes (in Python) and card games (in C++).

    A step is an action of a player; chance events are on the clock, but not counted. The dominoes are measured a second
    time with the observation that an agent would need; the other loops do without. This project's game as one of
    OpenSpiel's meets its dominoes in a loop of their own, where chance events are states too.

    Raises:
        ImportError: OpenSpiel is not there.
    """
    pyspiel = importlib.import_module("pyspiel")
    importlib.import_module("open_spiel.python.games")
    importlib.import_module("fivesup_env.openspiel")

    def measure(game: str, with_tensor: bool) -> Measure:
        prepare = partial(_openspiel, pyspiel, game, with_tensor)
        return Measure("openspiel", openspiel_name(game, with_tensor), prepare, peer=True)

    dominoes = [measure(game, with_tensor) for game in _OPENSPIEL_PYTHON for with_tensor in (False, True)]
    states = [
        Measure("openspiel", openspiel_states_name(game), partial(_openspiel_states, pyspiel, game), "states", peer)
        for game, peer in ((OPENSPIEL_DOMINOES, True), *((own, False) for own in OPENSPIEL_OWN))
    ]
    return dominoes + [measure(game, False) for game in OPENSPIEL_CARDS] + states


def _openspiel(pyspiel: Any, name: str, with_tensor: bool) -> Play:
    game = pyspiel.load_game(name)
    state = game.new_initial_state()

    def play(steps: int) -> Played:
        nonlocal state
        decisions = 0
        for _ in range(steps):
            state = _openspiel_turn(game, state)
            if with_tensor:
                state.information_state_tensor()
            legal = state.legal_actions()
            decisions += len(legal) > 1
            state.apply_action(random.choice(legal))
        return Played(steps, decisions)

    return play


def _openspiel_states(pyspiel: Any, name: str) -> Play:
    game = pyspiel.load_game(name)
    state = game.new_initial_state()

    def play(steps: int) -> Played:
        nonlocal state
        for _ in range(steps):
            if state.is_terminal():
                state = game.new_initial_state()
            if state.is_chance_node():
                events, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(random.choices(events, chances)[0])
            else:
                state.apply_action(random.choice(state.legal_actions()))
        return Played(steps)

    play(1000)  # to the ends of rounds: kernels are compiled when they are first needed
    return play


def _openspiel_turn(game: Any, state: Any) -> Any:
    """Return a state in which a player is to move: this one after its chance events, or a new game."""
    while state.is_chance_node() or state.is_terminal():
        if state.is_terminal():
            state = game.new_initial_state()
        else:
            actions, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(random.choices(actions, chances)[0])
    return state


def pettingzoo_measures(scale: Scale) -> list[Measure]:
    """Return every classic game of PettingZoo."""
    package = importlib.import_module("pettingzoo.classic")
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [
        Measure("pettingzoo", name, partial(_pettingzoo, name), peer=True)
        for name in names
        if re.fullmatch(r"[a-z_]+_v\d+", name)
    ]


def _pettingzoo(name: str) -> Play:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on how the game is imported, and pygame's own
        return aec_play(importlib.import_module(f"pettingzoo.classic.{name}").env())


def rlcard_measures(scale: Scale) -> list[Measure]:
    """Return RLCard's card games.

    Raises:
        ImportError: RLCard is not there.
    """
    rlcard = importlib.import_module("rlcard")
    return [Measure("rlcard", name, partial(_rlcard, rlcard, name), peer=True) for name in _RLCARD]


def _rlcard(rlcard: Any, name: str) -> Play:
    env = rlcard.make(name)
    state, _ = env.reset()

    def play(steps: int) -> Played:
        nonlocal state
        decisions = 0
        for _ in range(steps):
            if env.is_over():
                state, _ = env.reset()
            legal = list(state["legal_actions"])
            decisions += len(legal) > 1
            state, _ = env.step(random.choice(legal))
        return Played(steps, decisions)

    return play
