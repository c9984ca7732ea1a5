"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that comes to be when all has been written; one of that name is kept until then, or if that fails.

    Text is UTF-8 with line feeds.

    Raises:
        OSError: the file cannot be written.
    """
    target = os.path.realpath(path)
    part = f"{target}.{os.getpid()}.part"
    form: dict[str, Any] = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": "\n"}
    try:
        with open(part, **form) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
