"""Train an agent by self-play: python train.py --config configs/smoke.yaml."""

from __future__ import annotations

import argparse
import os
import sys

# Idle torch threads sleep: spinning ones would take the cores from the environment's own work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> int:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train an agent by self-play.")
    parser.add_argument("--config", required=True, metavar="FILE", help="a YAML file such as configs/smoke.yaml")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    arguments = parser.parse_args()

    from agents.config import read_config
    from agents.selfplay import train

    try:
        config = read_config(arguments.config)
    except (OSError, ValueError) as error:
        print(f"train.py: error: {error}", file=sys.stderr)
        return 2
    run = train(config, progress_bar=not arguments.no_progress)
    checkpoint = run / "checkpoints" / "last"
    print(f"checkpoint: {checkpoint}")
    print(f"evaluate:   python evaluate.py {checkpoint} random greedy --matches 1000 --seed 1")
    print(f"curves:     tensorboard --logdir {run}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
