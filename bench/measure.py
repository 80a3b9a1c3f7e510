"""Measuring: every row once a round, ratios within the round, medians over the rounds."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from math import ceil

Run = Callable[[], int]
"""One batch of work; it says how many items that was."""

Say = Callable[[str], None]
"""Where progress goes."""

RowKey = tuple[str, int]
"""A row by its name and its number of threads."""

Rates = dict[RowKey, list[float]]
"""Items a second of every row, one entry a round."""

REST = 0.03


class NotAvailable(Exception):
    """A row that cannot run here; the message says why and what to do about it."""


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median of at least one value, the lowest and the highest."""
    return statistics.median(values), min(values), max(values)


def interleave(
    runs: Mapping[RowKey, Run],
    rounds: int,
    seconds: float,
    say: Say = lambda line: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rates:
    """Run every row once a round for so many seconds; the first round warms up and is dropped."""
    rates: Rates = {key: [] for key in runs}
    for i in range(rounds + 1):
        for (name, threads), run in runs.items():
            say(f"round {i} of {rounds}: {name}, {threads}")
            set_threads(threads)
            time.sleep(REST)  # lets the idle threads of the row before come to rest
            rate = rate_of(run, seconds, clock)
            if i > 0:
                rates[name, threads].append(rate)
    return rates


def rate_of(run: Run, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Items a second, over as many whole batches as reach the time given."""
    items, start = 0, clock()
    while True:
        items += run()
        passed = clock() - start
        if passed >= seconds:
            return items / passed


def ratio(mine: Sequence[float], other: Sequence[float]) -> float | None:
    """How many times as fast as the reference, round by round; nothing where one did not run."""
    if not mine or not other:
        return None
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    rank = min(max(ceil(share * len(values)), 1), len(values))
    return sorted(values)[rank - 1]


def set_threads(threads: int) -> None:
    """Bind what reads a global: torch, and the Rust tokenizers, which look at each call."""
    import torch

    torch.set_num_threads(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
