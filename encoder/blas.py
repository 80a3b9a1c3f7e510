"""Small matrix products on one thread: shared out, they wait for cores that are busy elsewhere."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def libraries() -> ThreadpoolController:
    """The BLAS libraries that are loaded; found once, as looking for them takes milliseconds."""
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """A block in which numpy's matrix products stay on the calling thread."""
    limited: AbstractContextManager[Any] = libraries().limit(limits=1, user_api="blas")
    return limited
