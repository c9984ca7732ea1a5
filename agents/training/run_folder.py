"""The folders of training runs: a new one that describes itself, and the configuration that one was begun with."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, TypeVar

from agents.training.config import as_yaml, make_settings, read_values

_T = TypeVar("_T")


def unused(base: Path) -> Path:
    """Return a path at which there is nothing yet: this one, or with the lowest number behind it, as "runs/2p-2"."""
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def new_run_folder(config: Any) -> Path:
    """Make the folder that `config.run` names, with what it is and what started it; an earlier run is never touched."""
    run = unused(Path(config.run))
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(as_yaml(config), encoding="utf-8")
    (run / "command.txt").write_text(shlex.join(sys.argv) + "\n", encoding="utf-8")
    return run


def read_run(kind: type[_T], folder: Path) -> _T:
    """Return the configuration of a run.

    Args:
        kind: the dataclass of its settings.
        folder: of the run.

    Raises:
        ValueError: the folder holds no run, or its configuration is none of this kind; says what.
    """
    file = folder / "config.yaml"
    try:
        return make_settings(kind, read_values(file), str(file))
    except OSError as error:
        raise ValueError(f"{folder} holds no run: {error}") from None
