"""Answers that cost something to get, which are good for a while, whoever asks."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Fresh(Generic[K, V]):
    """The newest answers by what was asked; one asks, and others who ask the same wait for it."""

    def __init__(self, make: Callable[[K], V], seconds: float, most: int = 64) -> None:
        self._make, self._seconds, self._most = make, seconds, most
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, Lock] = {}
        self._lock = Lock()

    def of(self, asked: K) -> V:
        """The answer, not older than it is good for."""
        with self._lock:
            turn = self._asking.setdefault(asked, Lock())
        with turn:
            with self._lock:
                at, value = self._kept.get(asked, (float("-inf"), None))
            if value is not None and time.monotonic() - at < self._seconds:
                return value
            made = self._make(asked)
            with self._lock:
                self._kept[asked] = time.monotonic(), made
                self._kept.move_to_end(asked)
                while len(self._kept) > self._most:
                    self._asking.pop(self._kept.popitem(last=False)[0], None)
            return made
