"""A lock that gives up in time, a cache for a limited time, and threads that delay no exit."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from threading import Lock, Semaphore, Thread
from typing import Generic, ParamSpec, TypeVar

from encoder.errors import NewsiftError
from worker.errors import BrokerError

PATIENCE_S = 5.0
log = logging.getLogger("newsift.desk")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def lock_or_busy(lock: Lock, why: str, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Raises BrokerError if another thread holds the lock for longer than this."""
    if not lock.acquire(timeout=seconds):
        raise BrokerError(f"{why}; try again")
    try:
        yield
    finally:
        lock.release()


class TimedCache(Generic[K, V]):
    """Values by key, for `ttl_s`. One thread computes a value; others get the last one, or wait."""

    def __init__(
        self, compute: Callable[[K], V], ttl_s: float, max_entries: int = 64,
        clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        self._compute, self._max_entries, self._clock = compute, max_entries, clock
        self._ttl_s, self._patience_s = ttl_s, patience_s
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()  # with the time of expiry
        self._locks: dict[K, Lock] = {}
        self._lock = Lock()

    def get(self, key: K) -> V:
        with self._lock:
            entry = self._values.get(key)
            key_lock = self._locks.setdefault(key, Lock())
        if entry and (self._clock() < entry[1] or key_lock.locked()):
            return entry[0]
        with lock_or_busy(key_lock, "another request is computing the same", self._patience_s):
            with self._lock:
                entry = self._values.get(key)
            return entry[0] if entry and self._clock() < entry[1] else self._refresh(key)

    def _refresh(self, key: K) -> V:
        try:
            value = self._compute(key)
        except BaseException:
            with self._lock:
                if key not in self._values:
                    self._locks.pop(key, None)
            raise
        with self._lock:
            self._values[key] = value, self._clock() + self._ttl_s
            self._values.move_to_end(key)
            while len(self._values) > self._max_entries:
                self._locks.pop(self._values.popitem(last=False)[0], None)
        return value


def failure_text(error: Exception, what: str) -> str:
    """The reason for a page; the log gets the traceback of an error that nobody expects."""
    if isinstance(error, NewsiftError):
        return str(error)
    log.error("%s", what, exc_info=error)
    return f"{type(error).__name__}: {error}"


class DaemonExecutor(Executor):
    """A daemon thread for each call, `count` at once; a broker that hangs delays no exit."""

    def __init__(self, count: int) -> None:
        self._slots = Semaphore(count)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        call = partial(fn, *args, **kwargs)
        Thread(target=self._run, args=(future, call), name="desk-call", daemon=True).start()
        return future

    def _run(self, future: Future[T], call: Callable[[], T]) -> None:
        with self._slots:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - it is raised where the result is read
                    future.set_exception(error)
