"""Files that are there whole, or not at all."""

from __future__ import annotations

import errno
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
    target, part = os.path.realpath(path), _part_of(path)
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


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check before long work that `replacing` can write this file; nothing changes, and its folder has to be there.

    Raises:
        OSError: it cannot be written.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    part = _part_of(path)
    with open(part, "wb"):
        pass
    os.unlink(part)


def _part_of(path: str | os.PathLike[str]) -> str:
    """Return the name under which a file is written, beside it and of this process."""
    return f"{os.path.realpath(path)}.{os.getpid()}.part"
