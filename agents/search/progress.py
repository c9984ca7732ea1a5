"""How much of a long command is done, as lines on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def teller(total: int, what: str, lines: int) -> Callable[[int], None]:
    """Return a function that takes how much is done, and prints that some `lines` times until all is.

    Args:
        total: how much there is to do.
        what: its unit, in the plural.
        lines: how many are printed.
    """
    began, told = time.perf_counter(), 0

    def tell(done: int) -> None:
        nonlocal told
        if done * lines // total > told:
            told = done * lines // total
            print(f"{done} of {total} {what}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    return tell
