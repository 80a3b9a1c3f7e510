"""Answers that cost something to get, which are good for a while, whoever asks."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from worker.desk.turn import one_at_a_time

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(NamedTuple, Generic[V]):
    """An answer, and until when it is good."""

    value: V
    until: float


class Fresh(Generic[K, V]):
    """The newest answers by what was asked; one asks, others get that of before, or wait a little.

    An answer is good for so many seconds, or so many times as long as it took to get.
    """

    def __init__(
        self, make: Callable[[K], V], seconds: float, most: int = 64, times: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._make, self._most, self._clock = make, most, clock
        self._seconds, self._times = seconds, times
        self._kept: OrderedDict[K, Kept[V]] = OrderedDict()
        self._asking: dict[K, Lock] = {}
        self._lock = Lock()

    def of(self, asked: K) -> V:
        """The answer, not older than it is good for unless another thread asks again just now."""
        with self._lock:
            kept = self._kept.get(asked)
            turn = self._asking.setdefault(asked, Lock())
        if kept and (self._clock() < kept.until or turn.locked()):
            return kept.value
        with one_at_a_time(turn, "what another page asks for too is on its way"):
            with self._lock:
                kept = self._kept.get(asked)
            return kept.value if kept and self._clock() < kept.until else self._made(asked)

    def _made(self, asked: K) -> V:
        began = self._clock()
        try:
            value = self._make(asked)
        except BaseException:
            with self._lock:
                if asked not in self._kept:
                    self._asking.pop(asked, None)
            raise
        now = self._clock()
        with self._lock:
            self._kept[asked] = Kept(value, now + max(self._seconds, self._times * (now - began)))
            self._kept.move_to_end(asked)
            while len(self._kept) > self._most:
                self._asking.pop(self._kept.popitem(last=False)[0], None)
        return value
