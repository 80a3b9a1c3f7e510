"""Where compiled kernels are kept: numba's cache, in a folder that can be written, or none."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config

FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}


def cache_root() -> Path:
    """The folder for what newsift can rebuild: NEWSIFT_CACHE, else the user's cache folder."""
    named = os.environ.get("NEWSIFT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newsift"


def sources_digest() -> str:
    """A digest of the compiled modules' text: numba itself does not notice an edited import."""
    here = Path(__file__).parent
    files = [
        here / f"{name}.py" for name in ("jit", "lexical", "pieces", "everyday", "chunks", "scan")
    ]
    digest = hashlib.sha256()
    for file in files + sorted((here / "kernel").glob("*.py")):
        digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest()[:16]


def writable_cache() -> Path | None:
    """The folder for compiled code, or nothing where no disk can be written."""
    try:
        folder = cache_root() / f"jit-{sources_digest()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):
        return None


CACHE = writable_cache()
if CACHE is not None:
    numba_config.CACHE_DIR = str(CACHE)


def jit(*, fast: bool = False, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit without the GIL and with the cache above; `fast` lets it reorder float sums."""
    options: dict[str, Any] = {
        "nogil": True,
        "cache": CACHE is not None,
        "boundscheck": False,
        "error_model": "numpy",
    }
    if fast:
        options["fastmath"] = FAST_MATH
    if inline:
        options["inline"] = "always"
    compiled: Callable[[Callable[..., Any]], Any] = numba.njit(**options)
    return compiled
