"""Samples of the offsets of a topic."""

from collections.abc import Iterator
from itertools import zip_longest
from math import ceil
from random import Random

from worker.kafka.reading import Offsets


def sample_spans(
    begins: Offsets, ends: Offsets, most: int, windows: int, random: Random
) -> Iterator[tuple[Offsets, Offsets]]:
    """Spans with about `most` messages in all. Each has at most one window of every partition.

    A partition has at most one window more than `windows`.
    """
    share = most / max(sum(ends[n] - begins[n] for n in ends), 1)
    by_partition = [
        [
            (number, *window)
            for window in sample_windows(begins[number], ends[number], share, windows, random)
        ]
        for number in ends
    ]
    for span in zip_longest(*by_partition):
        start, end = dict(ends), dict(ends)  # empty for a partition without further windows
        for number, first, after in filter(None, span):
            start[number], end[number] = first, after
        yield start, end


def sample_windows(
    begin: int, end: int, share: float, most: int, random: Random
) -> Iterator[tuple[int, int]]:
    """Windows with this share of a partition, evenly spaced from a random offset on."""
    size = end - begin
    step = max(1, ceil(size / most), ceil(1 / share)) if share < 1 else max(1, size)
    width = max(1, round(step * min(share, 1)))
    shift = random.randrange(step) if width < step else step
    for start in range(begin + shift - step, end, step):
        low, high = max(start, begin), min(start + width, end)
        if low < high:
            yield low, high
