"""Play agents against each other: python evaluate.py greedy random --matches 1000 --seed 1."""

from __future__ import annotations

import sys

from agents.arena.evaluation import main

if __name__ == "__main__":
    sys.exit(main())
