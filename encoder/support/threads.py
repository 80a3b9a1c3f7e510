"""Thread pools and thread counts that are safe after a fork."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class PerProcess(Generic[T]):
    """A value that each process creates for itself, as a forked copy may be locked."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[int, T] = {}  # by process

    def get(self) -> T:
        """Return this process's value; create it on the first call."""
        process = os.getpid()
        value = self._values.get(process)
        # Of threads that begin together each makes one, and all get the first.
        return self._values.setdefault(process, self._make()) if value is None else value

    def take(self) -> T | None:
        """Remove and return this process's value, if there is one."""
        return self._values.pop(os.getpid(), None)


class ThreadPool:
    """A thread pool; threads start on first use and end with `close`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = PerProcess(lambda: ThreadPoolExecutor(count, thread_name_prefix="encoder"))

    def map(
        self, work: Callable[[T], R], jobs: Iterable[T], threads: int | None = None
    ) -> Iterator[R]:
        """Yield the results in order; `threads` limits how many of the pool's are used at a time.

        A single job runs in the calling thread, as do all jobs for one thread or after `close`.
        """
        threads = self._count if threads is None else min(threads, self._count)
        rest = iter(jobs)
        first = list(islice(rest, 2 if threads > 1 else 0))
        most = threads if threads < self._count else 2 * self._count  # jobs in flight
        if len(first) < 2:
            yield from map(work, chain(first, rest))
            return
        in_flight = deque[Future[R]]()
        try:
            for job in chain(first, rest):
                in_flight.append(self._submit(work, job))
                if len(in_flight) == most:
                    yield in_flight.popleft().result()
            while in_flight:
                yield in_flight.popleft().result()
        finally:  # a job failed, or the caller stopped iterating
            for future in in_flight:
                future.cancel()

    def close(self) -> None:
        """Finish the jobs in flight and end the threads."""
        pool = self._pool.take()
        if pool is not None:
            pool.shutdown()

    def _submit(self, work: Callable[[T], R], job: T) -> Future[R]:
        try:
            return self._pool.get().submit(work, job)
        except RuntimeError:  # closed, or the interpreter is exiting
            future = Future[R]()
            future.set_result(work(job))
            return future


def available_cpus(root: Path = Path("/")) -> int:
    """Return the number of CPUs that affinity and cgroup quotas allow."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return max(1, min([count, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """Yield the CPU quota of each cgroup of this process, innermost first."""
    mounts = root / "sys/fs/cgroup"
    for line in filter(None, _words(root / "proc/self/cgroup", "\n")):
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = mounts / "cpu" if controllers else mounts  # version 1, 2
        inner = Path(path.lstrip("/"))
        for group in (inner, *inner.parents):
            yield from _quota(mount / group)


def _quota(group: Path) -> Iterator[float]:
    """Yield the quota of one cgroup of version 2 or 1, if it has one."""
    words = _words(group / "cpu.max")
    if not words:
        words = [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
        yield int(words[0]) / int(words[1])


def _words(file: Path, separator: str | None = None) -> list[str]:
    """Split the content of a file; an unreadable file gives no words."""
    try:
        return file.read_text().strip().split(separator)
    except (OSError, ValueError):
        return []


@cache
def blas_libraries() -> ThreadpoolController:
    """The loaded BLAS libraries; cached, as the search takes milliseconds."""
    return ThreadpoolController()


class BlasLimit:
    """A limit on BLAS threads: set by the first block to start, restored by the last to end."""

    def __init__(self) -> None:
        self._lock, self._blocks = Lock(), 0
        self._set: Any = None

    def begin(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._set = blas_libraries().limit(limits=1, user_api="blas")
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._set.restore_original_limits()


blas_limit = PerProcess(BlasLimit)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run numpy's matrix products in the calling thread within the block."""
    limit = blas_limit.get()
    limit.begin()
    try:
        yield
    finally:
        limit.end()
