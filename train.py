"""Train an agent: python train.py --config configs/2p.yaml, and go on with it: python train.py --resume runs/2p."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.training.config import Config

# Idle torch threads sleep: spinning ones would take the cores from the environment's own work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> int:
    """Read the command line and train; return the exit status: 0, or 130 after Ctrl-C."""
    from agents.training.config import add_flags, read_config, with_flags

    parser = argparse.ArgumentParser(
        description="Train an agent: fit a network to the values of a search, and let it play itself by PPO.",
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", metavar="FILE", help="a YAML file such as configs/2p.yaml")
    source.add_argument("--resume", metavar="RUN", type=Path, help="go on with the run in this folder")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    add_flags(parser)
    arguments = parser.parse_args()

    try:
        if arguments.resume and with_flags({}, arguments):
            raise ValueError("--resume goes on with a run's own configuration: no other flags can be given")
        config = None if arguments.resume else _read(arguments)
    except (OSError, ValueError) as error:
        print(f"train.py: error: {error}", file=sys.stderr)
        return 2

    from agents.training.run import resume, train

    try:
        show = not arguments.no_progress
        run = train(config, show_progress=show) if config else resume(arguments.resume, show_progress=show)
    except ValueError as error:
        print(f"train.py: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; --resume goes on with the run", file=sys.stderr)
        return 130
    checkpoint = run / "checkpoints" / "last"
    print(f"checkpoint: {checkpoint}")
    if not read_config(run / "config.yaml").rules.changed():  # what evaluate.py plays is the whole game
        print(f"evaluate:   python evaluate.py {checkpoint} random greedy --matches 1000 --seed 1")
    print(f"curves:     tensorboard --logdir {run}")
    return 0


def _read(arguments: argparse.Namespace) -> Config:
    """Return the configuration of the file with the flags; what is wrong with the file alone is told by its name."""
    from agents.training.config import make_config, read_values, with_flags

    values = read_values(arguments.config)
    make_config(values, arguments.config)
    return make_config(with_flags(values, arguments))


if __name__ == "__main__":
    sys.exit(main())
