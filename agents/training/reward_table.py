"""The table of winning chances that self-play is paid by: the stored one, or that of a file, which the run copies.

The copy lies in the folder of the run, so that a run can be gone on with wherever it is started from, and whatever has
become of the file.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from agents.search.winning_chances import WinningChances, load_winning_chances
from agents.training.config import Config
from fivesup_env.rules.state import TARGET

_COPY: Final = "winning_chances.npz"


def reward_table(config: Config, run: Path | None = None) -> WinningChances:
    """Return the table by which a configuration pays.

    Args:
        config: its `ppo.winning_chances` is "" for the stored table.
        run: the folder of the run, for the copy there; None for the file itself.

    Raises:
        ValueError: the file cannot be read, or is no table for as many seats and the whole game; names key and file.
    """
    text = config.ppo.winning_chances
    if not text:
        return load_winning_chances(config.num_players)
    path = Path(text) if run is None else run / _COPY
    try:
        return load_winning_chances(config.num_players, target=TARGET, path=path)
    except (OSError, ValueError) as error:
        raise ValueError(f"ppo.winning_chances: {error}") from None


def copy_reward_table(config: Config, run: Path) -> None:
    """Copy the file of a configuration, if it names one, into the folder of the run."""
    if config.ppo.winning_chances:
        shutil.copyfile(config.ppo.winning_chances, run / _COPY)
