"""How long one batch takes, by its size: the median and the slowest hundredth."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.measure import Run, percentile, set_threads
from bench.workload import Workload

SIZES = (1, 4, 16, 64, 256, 1024, 4096)
PASSES = 3
FEWEST = 5


@dataclass(frozen=True, slots=True)
class Latency:
    """Batches of one size through one path."""

    path: str
    size: int
    batches: int
    p50: float
    p99: float


def latencies(
    work: Workload,
    paths: Sequence[str],
    threads: int,
    seconds: float,
    progress: Callable[[str], None] = lambda line: None,
    sizes: Sequence[int] = SIZES,
) -> list[Latency]:
    """Every size that the posts fill, for so many seconds, in turns that go around three times."""
    set_threads(threads)
    full = [size for size in sizes if size <= _texts(work)]
    runs = {(path, size): _run(work, path, size, threads) for size in full for path in paths}
    for run in runs.values():
        run()
    times: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    for turn in range(PASSES):
        for (path, size), run in runs.items():
            progress(f"batches, turn {turn + 1} of {PASSES}: {path}, {size}")
            times[path, size] += timed(run, seconds / PASSES)
    return summarise(times)


def timed(run: Run, seconds: float) -> list[float]:
    """The seconds of each of as many calls as reach the time given, and of some in any case."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < FEWEST or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def summarise(times: Mapping[tuple[str, int], Sequence[float]]) -> list[Latency]:
    """The percentiles of every path and size."""
    return [
        Latency(path, size, len(t), percentile(t, 0.5), percentile(t, 0.99))
        for (path, size), t in times.items()
    ]


def _texts(work: Workload) -> int:
    return len(work.texts.earlier_posts or work.texts.posts)


def _run(work: Workload, path: str, size: int, threads: int) -> Run:
    from bench.rows import each, over

    if path == "whole":
        return each(work.earlier_batches(size), work.encoder(threads).posts)
    return over(work.id_batches(size), work.kernel(threads))
