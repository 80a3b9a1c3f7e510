"""Threads that share: a lock that refuses in time, answers kept for a while, daemon workers."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Generic, NamedTuple, ParamSpec, TypeVar

from worker.errors import BrokerError

PATIENCE_S = 5.0
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def lock_or_busy(lock: Lock, why: str) -> Iterator[None]:
    """Hold a lock; refused with the reason where another holds it for too long."""
    if not lock.acquire(timeout=PATIENCE_S):
        raise BrokerError(f"{why}; try again")
    try:
        yield
    finally:
        lock.release()


class CachedValue(NamedTuple, Generic[V]):
    """An answer, and until when it is good."""

    value: V
    until: float


class TimedCache(Generic[K, V]):
    """The newest answers by what was asked; one asks, others get that of before, or wait a little.

    An answer is good for so many seconds, or so many times as long as it took to get.
    """

    def __init__(
        self, make: Callable[[K], V], seconds: float, most: int = 64, times: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._make, self._most, self._clock = make, most, clock
        self._seconds, self._times = seconds, times
        self._values: OrderedDict[K, CachedValue[V]] = OrderedDict()
        self._asking: dict[K, Lock] = {}
        self._lock = Lock()

    def of(self, key: K) -> V:
        """The answer, not older than it is good for unless another thread asks again just now."""
        with self._lock:
            cached = self._values.get(key)
            turn = self._asking.setdefault(key, Lock())
        if cached and (self._clock() < cached.until or turn.locked()):
            return cached.value
        with lock_or_busy(turn, "what another page asks for too is on its way"):
            with self._lock:
                cached = self._values.get(key)
            return cached.value if cached and self._clock() < cached.until else self._compute(key)

    def _compute(self, key: K) -> V:
        began = self._clock()
        try:
            value = self._make(key)
        except BaseException:
            with self._lock:
                if key not in self._values:
                    self._asking.pop(key, None)
            raise
        now = self._clock()
        with self._lock:
            self._values[key] = CachedValue(
                value, now + max(self._seconds, self._times * (now - began))
            )
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._asking.pop(self._values.popitem(last=False)[0], None)
        return value


class DaemonExecutor(Executor):
    """Threads that are gone with the process: a broker that does not answer keeps none of them."""

    def __init__(self, count: int) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        for number in range(count):
            Thread(target=self._serve, name=f"desk-{number}", daemon=True).start()

    def submit(self, does: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have something done, as soon as a hand is free."""
        future: Future[T] = Future()
        self._work.put(partial(_fulfil, future, partial(does, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Take no more once what waits is done."""
        for _ in range(self._count):
            self._work.put(None)

    def _serve(self) -> None:
        while work := self._work.get():
            work()


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - whoever waits for the result is told
        future.set_exception(error)
