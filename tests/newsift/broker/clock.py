"""A clock that goes where a test puts it."""

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Put:
    def __init__(self) -> None:
        self.is_off = False

    def cancel(self) -> None:
        self.is_off = True


class Clock:
    """Time and timers of an event loop, without the waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Put, Callable[[], Any]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Put:
        put = Put()
        entry = (self.now + delay, next(self._order), put, lambda: callback(*args))
        heapq.heappush(self._due, entry)
        return put

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self.now, _, put, call = heapq.heappop(self._due)
            if not put.is_off:
                call()
        self.now = until
