"""`kernel`: the one way in which this project compiles a function.

Numba's on-disk cache looks only at the file of the function it caches: after an edit in one file, a kernel cached
from another file would go on calling the old code. So the cache lies in a folder named by everything a kernel can
depend on: all sources of the packages involved, the versions of numba and numpy, and whether bounds are checked.
Old folders are never reused and may be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

__all__ = ["cache_folder", "inlined_kernel", "kernel"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_config: Any = numba.config  # its settings exist at run time only
_OWN_PACKAGE = __name__.partition(".")[0]


def kernel(function: _Function) -> _Function:
    """Compile `function` with `numba.njit`, cached on disk where a cache folder can be written.

    Bounds are checked when the environment variable ``NUMBA_BOUNDSCHECK=1`` is set, and the function stays plain
    Python under ``NUMBA_DISABLE_JIT=1``.
    """
    return _compiled(function, inlined=False)


def inlined_kernel(function: _Function) -> _Function:
    """`kernel`, but compiled into every kernel that calls it.

    LLVM leaves most calls of our kernels as calls, and passes each array as seven numbers. What writes an observation
    took half as long again that way.
    """
    return _compiled(function, inlined=True)


def _compiled(function: _Function, *, inlined: bool) -> _Function:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": inlined}
    folder = cache_folder(function.__module__.partition(".")[0])
    if folder is None:
        return cast(_Function, numba.njit(**options)(function))
    users_folder = _config.CACHE_DIR
    _config.CACHE_DIR = folder
    try:
        return cast(_Function, numba.njit(cache=True, **options)(function))
    finally:
        _config.CACHE_DIR = users_folder


@functools.cache
def cache_folder(package: str) -> str | None:
    """Return the folder for the compiled kernels of `package`, made if need be; None where none can be written.

    The folder lies under ``FIVESUP_CACHE_DIR`` if that is set, else under ``NUMBA_CACHE_DIR``, else in the user's
    cache folder.
    """
    base = os.environ.get("FIVESUP_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR") or _user_cache()
    folder = Path(base).expanduser() / "fivesup" / _fingerprint(package)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


def _user_cache() -> str:
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA", "~")
    return os.environ.get("XDG_CACHE_HOME", "~/.cache")


def _fingerprint(package: str) -> str:
    digest = hashlib.sha256()
    for part in (numba.__version__, np.__version__, sys.version, repr(_config.BOUNDSCHECK)):
        digest.update(part.encode())
    for name in sorted({_OWN_PACKAGE, package}):
        for source in _sources(name):
            digest.update(str(source).encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def _sources(package: str) -> list[Path]:
    try:
        spec = find_spec(package)
    except ValueError:  # a kernel of a script or notebook: its package is __main__, which has no source to find
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return []
    origin = Path(spec.origin)
    return sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
