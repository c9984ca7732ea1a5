"""Agents that the tests invite as guests, each in a process of its own: most of them misbehave, at certain keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# Keys, and what they make `Moody` do.
RAISE, DIE, EXIT, LOOP, PRINT, WHO, UNSENDABLE, UNREADABLE, SEED = range(1000, 1009)

RARE = 150  # of how many keys one makes a guest of `rarely` misbehave


class Unreadable:
    """Can be sent, but not be read where it arrives."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def loop() -> Any:
    print("looping", flush=True)
    while True:
        pass


def noise() -> None:
    print("noise " * 50_000)
    print("noise " * 50_000, file=sys.stderr)


class Keyed:
    """Takes the legal id that the key picks; misbehaves at keys of its own."""

    def __init__(self, misbehave: Callable[[int], Any] = lambda key: None) -> None:
        self.misbehave = misbehave
        self.seed = -1

    def reset(self, seed: int) -> None:
        self.seed = seed

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        for key in keys.tolist():
            answer = self.misbehave(key)
            if answer is not None:
                return answer
        legal = [np.flatnonzero(mask) for mask in masks]
        return np.array([ids[key % len(ids)] for ids, key in zip(legal, keys.tolist(), strict=True)])


class Moody(Keyed):
    """Misbehaves at the keys above."""

    def __init__(self) -> None:
        moods: dict[int, Callable[[], Any]] = {
            RAISE: lambda: [][0],
            DIE: lambda: os._exit(3),
            EXIT: lambda: sys.exit("enough"),
            LOOP: loop,
            PRINT: noise,
            WHO: lambda: os.getpid(),
            UNSENDABLE: lambda: lambda: None,
            UNREADABLE: Unreadable,
            SEED: lambda: self.seed,
        }
        super().__init__(lambda key: moods[key]() if key in moods else None)


class Ready(Keyed):
    """Plays only after a reset."""

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        if self.seed == -1:
            raise RuntimeError("not ready")
        return super().act(views, masks, keys)


def refuses() -> Keyed:
    """An agent that never plays."""
    return Keyed(lambda key: [][0])


def rarely(misbehave: Callable[[], Any]) -> Keyed:
    """An agent that misbehaves at one of `RARE` keys."""
    return Keyed(lambda key: misbehave() if key % RARE == 0 else None)


def dies_rarely() -> Keyed:
    return rarely(lambda: os._exit(3))


def loops_rarely() -> Keyed:
    return rarely(loop)


def loops() -> Keyed:
    return Keyed(lambda key: loop())


class Clairvoyant(Keyed):
    """Goes by tiles that only the full state shows."""

    sees_all = True

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        return super().act(views, masks, keys + np.bitwise_xor.reduce(views["hands"], axis=1) + views["seed"])


class Diary(Keyed):
    """Answers with all that it was asked so far."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def reset(self, seed: int) -> None:
        self.asked.append(f"reset {seed}")

    def act(self, views: Any, masks: Any, keys: Any) -> Any:
        self.asked.append(f"act {len(views)}")
        return self.asked


# Factories that give no agent


def fails() -> None:
    raise LookupError("no cards today")


def leaves() -> None:
    sys.exit("not at home")


def crashes() -> None:
    os._exit(3)


def nothing() -> None:
    return None


house_number = 61


class Stubborn(Keyed):
    """Cannot be reset."""

    def reset(self, seed: int) -> None:
        raise LookupError(f"not {seed}")
