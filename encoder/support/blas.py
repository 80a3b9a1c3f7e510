"""Small matrix products on one thread: shared out, they wait for cores that are busy elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from encoder.support.threads import PerProcess


@cache
def libraries() -> ThreadpoolController:
    """The BLAS libraries that are loaded; found once, as looking for them takes milliseconds."""
    return ThreadpoolController()


class Limit:
    """The limit of the whole process: set by the first block that begins, undone by the last."""

    def __init__(self) -> None:
        self._lock, self._blocks = Lock(), 0
        self._set: Any = None

    def begin(self) -> None:
        """A block begins."""
        with self._lock:
            if self._blocks == 0:
                self._set = libraries().limit(limits=1, user_api="blas")
            self._blocks += 1

    def end(self) -> None:
        """A block ends."""
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._set.restore_original_limits()


limit = PerProcess(Limit)


@contextmanager
def one_thread() -> Iterator[None]:
    """A block in which numpy's matrix products stay on the calling thread."""
    ours = limit.get()
    ours.begin()
    try:
        yield
    finally:
        ours.end()
