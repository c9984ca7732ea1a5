"""Finished chunks of a run in a folder: each in a file of its own, put in place whole, so that none is half there."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agents.arena.blocks import TALLY, Blocks
from fivesup_env import __version__
from fivesup_env.files import replacing
from fivesup_env.rules.state import num_sides

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from agents.arena.tournament import Plan

_GROWS: Final = "blocks"  # the one field of a plan that may be larger when a run goes on


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, which is made if need be, until the end of the block or of this process.

    The operating system holds the lock, so that a run which is killed leaves none behind. On Windows there is none.

    Raises:
        ValueError: another run is at work in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another run is at work in {folder}: wait for its end, or give another folder"
                ) from None
        yield


def claim(folder: Path, plan: Plan) -> None:
    """Make the folder that of this plan, or see that it is.

    Raises:
        ValueError: it is that of another plan, or of an unknown one; names the field.
    """
    facts = json.loads(json.dumps({"fivesup": __version__, **asdict(plan)}))
    path = folder / "plan.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"not an object, but {str(found)[:40]}")
    except FileNotFoundError:
        if any((folder / "chunks").glob("*.npz")):
            raise ValueError(f"{path} is missing, but {folder} has matches of a run") from None
        found = facts
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    for name, value in facts.items():
        if name != _GROWS and found.get(name) != value:
            raise ValueError(f"{folder} holds another run: {name} was {found.get(name)!r} there, and is {value!r} now")
    (folder / "chunks").mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(facts, indent=2).encode() + b"\n")


def save_chunk(folder: Path, pair: int, first: int, blocks: Blocks) -> None:
    """Keep a chunk that begins with block `first`."""
    told = {"reasons": blocks.forfeit_reasons, "actions": blocks.actions}
    content = io.BytesIO()
    np.savez_compressed(
        content,
        tallies=np.frombuffer(blocks.tallies.tobytes(), np.uint8),
        a_sides=blocks.a_sides,
        margins=blocks.margins,
        decisions=blocks.decisions,
        seconds=blocks.seconds,
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
    )
    write_whole(_path(folder, pair, first), content.getvalue())


def load_chunk(folder: Path, plan: Plan, pair: int, first: int, count: int) -> Blocks | None:
    """Return the chunk that begins with block `first`, or None if it is not there with `count` blocks."""
    path = _path(folder, pair, first)
    if not path.is_file():
        return None
    size = plan.block_size(pair)
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            told: dict[str, Any] = json.loads(arrays["told"].tobytes())
            tallies = np.frombuffer(arrays["tallies"].tobytes(), TALLY)
            blocks = Blocks(
                num_sides(plan.num_players),
                size,
                tallies,
                arrays["a_sides"],
                arrays["margins"],
                arrays["decisions"],
                arrays["seconds"],
                (told["reasons"][0], told["reasons"][1]),
                told["actions"],
            )
    except Exception as error:  # zipfile, zlib, numpy and json have some ten kinds of them for damage
        raise ValueError(f"{path} is damaged: {error}; delete it, and its matches are played again") from None
    return blocks if len(tallies) == count * size else None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole, or as it was before."""
    with replacing(path, binary=True) as file:
        file.write(content)


def _path(folder: Path, pair: int, first: int) -> Path:
    return folder / "chunks" / f"{pair}-{first}.npz"
