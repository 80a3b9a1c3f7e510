"""How many threads to use, and what of them survives a fork: threads do not, nor do held locks."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class PerProcess(Generic[T]):
    """Something that a forked child makes for itself, as its copy of the parent's may be locked."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None

    def get(self) -> T:
        """This process's own; made now if there is none yet."""
        made, process = self._made, os.getpid()
        if made is None or made[0] != process:
            made = self._made = (process, self._make())
        return made[1]

    def take(self) -> T | None:
        """This process's own, if it was made, which is forgotten here."""
        made, self._made = self._made, None
        return made[1] if made is not None and made[0] == os.getpid() else None


class Crew:
    """So many threads that do jobs side by side: started when first needed, ended by `close`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = PerProcess(lambda: ThreadPoolExecutor(count, thread_name_prefix="encoder"))

    def map(self, work: Callable[[T], R], jobs: Iterable[T]) -> Iterator[R]:
        """What comes of each job, in order, with two for each thread under way.

        A job that is alone is done by whoever asks, as are all where the crew is closed meanwhile.
        """
        rest = iter(jobs)
        begun = list(islice(rest, 2 if self._count > 1 else 0))
        if len(begun) < 2:
            yield from map(work, chain(begun, rest))
            return
        under_way = deque[Future[R]]()
        try:
            for job in chain(begun, rest):
                under_way.append(self._begun(work, job))
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

    def _begun(self, work: Callable[[T], R], job: T) -> Future[R]:
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
    found = _words(group / "cpu.max")
    if not found:
        found = [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
    if len(found) == 2 and found[0].isdecimal() and found[1].isdecimal() and int(found[1]):
        yield int(found[0]) / int(found[1])


def _words(file: Path, between: str | None = None) -> list[str]:
    """What a file of the kernel's says; nothing where there is none."""
    try:
        return file.read_text().strip().split(between)
    except (OSError, ValueError):
        return []
