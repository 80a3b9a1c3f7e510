"""Measuring: every row once a round, ratios within the round, medians over the rounds."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Run = Callable[[], int]
"""One batch of work; it says how many items that was."""

REST = 0.03


class NotAvailable(Exception):
    """A row that cannot run here; the message says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One line of a table: what is measured, and on how many threads."""

    stem: str
    section: str
    name: str
    unit: str
    prepare: Callable[[T, int], Run]
    threads: int = 1

    @property
    def key(self) -> str:
        """The name by which a row is asked for and compared."""
        return keyed(self.stem, self.threads)


def keyed(stem: str, threads: int) -> str:
    """The key of the row of this kind on so many threads."""
    return f"{stem}/{threads}"


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and the highest of what was measured."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


Rates = dict[str, list[float]]
"""Items a second of every row, one entry a round."""


def interleave(
    rows: Sequence[Row[T]],
    runs: Mapping[str, Run],
    rounds: int,
    seconds: float,
    progress: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rates:
    """Run every row once a round for so many seconds; the first round warms up and is dropped."""
    rates: Rates = {row.key: [] for row in rows}
    for i in range(rounds + 1):
        for row in rows:
            progress(f"round {i} of {rounds}: {row.name}")
            set_threads(row.threads)
            time.sleep(REST)  # lets the idle threads of the row before come to rest
            rate = rate_of(runs[row.key], seconds, clock)
            if i > 0:
                rates[row.key].append(rate)
    return rates


def rate_of(run: Run, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Items a second, over as many whole batches as reach the time given."""
    items, start = 0, clock()
    while True:
        items += run()
        passed = clock() - start
        if passed >= seconds:
            return items / passed


def ratios(rates: Rates, key: str, reference: str) -> Spread | None:
    """How many times as fast as the reference, round by round; nothing where one did not run."""
    mine, other = rates.get(key), rates.get(reference)
    if not mine or not other:
        return None
    return Spread.of([a / b for a, b in zip(mine, other, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    rank = -(-share * len(ordered) // 1)
    return ordered[min(max(int(rank), 1), len(ordered)) - 1]


def set_threads(threads: int) -> None:
    """Bind what reads a global: torch, and the Rust tokenizers, which look at each call."""
    import torch

    torch.set_num_threads(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
