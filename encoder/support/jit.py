"""The decorator for compiled functions: without the GIL, cached on disk."""

import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core.compiler_lock import global_compiler_lock

from encoder.support.jit_cache import FOLDER, FunctionCache

FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

# A child forked while another thread compiles would find numba's lock held for ever.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


def jit(*, fast: bool = False, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Like numba.njit, without the GIL and with a cache; `fast` allows reordering float sums."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    if fast:
        options["fastmath"] = FAST_MATH
    if inline:
        options["inline"] = "always"

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if FOLDER is not None and dispatcher is not function:
            dispatcher._cache = FunctionCache(function)
        return dispatcher

    return decorate
