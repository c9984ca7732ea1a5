"""Make an agent that comes with the package of a checkpoint: python -m agents.training.publish CHECKPOINT net-2p.

Weights are kept in half precision, which halves the file; docs/experiments.md has results of what is in it, not of the
checkpoint. What the run was is noted in `meta.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from agents.network import NetworkAgent
from fivesup_env.files import replacing

_DATA = Path(__file__).parents[1] / "data"


def publish(checkpoint: Path, target: Path, **facts: Any) -> None:
    """Write a checkpoint of a run in half precision into another folder.

    Args:
        checkpoint: a folder within `checkpoints/` of the folder of a run.
        target: the folder to write.
        facts: more for `meta.json`.

    Raises:
        ValueError: the folder holds no checkpoint; says why.
    """
    weights = NetworkAgent.load(checkpoint).policy.state_dict()
    meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
    config = (checkpoint.parents[1] / "config.yaml").read_text(encoding="utf-8").splitlines()
    meta |= facts | {"config": [line for line in config if not line.startswith("run:")]}  # but for its own place
    target.mkdir(exist_ok=True)
    halved = {tensor.data_ptr(): tensor.half() for tensor in weights.values()}  # layers have several names
    with replacing(target / "policy.pt", binary=True) as file:
        torch.save({name: halved[tensor.data_ptr()] for name, tensor in weights.items()}, file)
    with replacing(target / "meta.json") as file:
        file.write(json.dumps(meta, indent=2) + "\n")


def main() -> int:
    """Read the command line and publish."""
    parser = argparse.ArgumentParser(description="Put a checkpoint into the package, in half precision.")
    parser.add_argument("checkpoint", type=Path, help="such as runs/2p/checkpoints/last")
    parser.add_argument("name", help="such as net-2p")
    parser.add_argument("--commit", help="that the run was made with (default: the present one)")
    arguments = parser.parse_args()
    commit = arguments.commit or subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True, cwd=_DATA
    ).stdout.strip()  # fmt: skip
    try:
        publish(arguments.checkpoint, _DATA / arguments.name, commit=commit)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
