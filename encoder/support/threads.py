"""How many threads to use, and what of them survives a fork: threads do not, nor do held locks."""

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
    """Something that a forked child makes for itself, as its copy of the parent's may be locked."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._instance: tuple[int, T] | None = None

    def get(self) -> T:
        """This process's own; made now if there is none yet."""
        instance, process = self._instance, os.getpid()
        if instance is None or instance[0] != process:
            instance = self._instance = (process, self._make())
        return instance[1]

    def take(self) -> T | None:
        """This process's own, if it was made, which is forgotten here."""
        instance, self._instance = self._instance, None
        return instance[1] if instance is not None and instance[0] == os.getpid() else None


class Crew:
    """So many threads that do jobs side by side: started when first needed, ended by `close`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = PerProcess(lambda: ThreadPoolExecutor(count, thread_name_prefix="encoder"))

    def map(self, work: Callable[[T], R], jobs: Iterable[T]) -> Iterator[R]:
        """What comes of each job, in order, with two for each thread under way.

        A single job runs in the calling thread, as do all once the crew is closed.
        """
        rest = iter(jobs)
        begun = list(islice(rest, 2 if self._count > 1 else 0))
        if len(begun) < 2:
            yield from map(work, chain(begun, rest))
            return
        under_way = deque[Future[R]]()
        try:
            for job in chain(begun, rest):
                under_way.append(self._submitted(work, job))
                if len(under_way) == 2 * self._count:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:  # one failed, or nobody asks any further
            for each in under_way:
                each.cancel()

    def close(self) -> None:
        """End the threads, once they have done what they began."""
        pool = self._pool.take()
        if pool is not None:
            pool.shutdown()

    def _submitted(self, work: Callable[[T], R], job: T) -> Future[R]:
        try:
            return self._pool.get().submit(work, job)
        except RuntimeError:  # closed, or the interpreter ends
            done = Future[R]()
            done.set_result(work(job))
            return done


def available_cpus(root: Path = Path("/")) -> int:
    """How many CPUs this process may use, by its affinity and by the quotas of its cgroups."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return max(1, min([count, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """The CPUs that each cgroup of this process may use, from its own up to the outermost."""
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
    """The quota of one cgroup, of version 2 or 1, if it has one."""
    words = _words(group / "cpu.max")
    if not words:
        words = [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
        yield int(words[0]) / int(words[1])


def _words(file: Path, between: str | None = None) -> list[str]:
    """What a file of the kernel's says; nothing where there is none."""
    try:
        return file.read_text().strip().split(between)
    except (OSError, ValueError):
        return []


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
        with self._lock:
            if self._blocks == 0:
                self._set = libraries().limit(limits=1, user_api="blas")
            self._blocks += 1

    def end(self) -> None:
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
