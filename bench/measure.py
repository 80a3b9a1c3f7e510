"""Measuring: rows in turn, ratios within a round, medians over the rounds; and tables."""

import math
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any

from train.protocol.report import align
from worker.errors import RunError

Run = Callable[[], int]  # does one batch of work and returns its number of items
Report = Callable[[str], None]  # shows progress
RowKey = tuple[str, int]  # name and threads
Rates = dict[RowKey, list[float]]  # items a second of each round

REST_S = 0.03


class NotAvailable(RunError):
    """A row that cannot run here; the message has the reason and the remedy."""


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median of at least one value, the lowest and the highest."""
    return statistics.median(values), min(values), max(values)


def interleave(
    runs: Mapping[RowKey, Run],
    rounds: int,
    seconds: float,
    report: Report = lambda line: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rates:
    """Run each row once a round for a fixed time; the first round warms up and is dropped."""
    rates: Rates = {key: [] for key in runs}
    for i in range(rounds + 1):
        for (name, threads), run in runs.items():
            report(f"round {i} of {rounds}: {name}, {threads}")
            set_threads(threads)
            time.sleep(REST_S)  # until the threads of the previous row are idle
            rate = rate_of(run, seconds, clock)
            if i > 0:
                rates[name, threads].append(rate)
    return rates


def rate_of(run: Run, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Items a second, over whole batches for at least this time."""
    items, start = 0, clock()
    while True:
        items += run()
        elapsed = clock() - start
        if elapsed >= seconds:
            return items / elapsed


def ratio(rates: Sequence[float], reference: Sequence[float]) -> float | None:
    """The median over the rounds; None if one of both did not run."""
    if not rates or not reference:
        return None
    return statistics.median(a / b for a, b in zip(rates, reference, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    rank = min(max(ceil(share * len(values)), 1), len(values))
    return sorted(values)[rank - 1]


def set_threads(threads: int) -> None:
    """Set the threads of torch and of the Rust tokenizers, which are global."""
    import torch

    torch.set_num_threads(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"


def describe() -> dict[str, str]:
    """The CPU, and the versions of Python and packages."""
    name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    versions = (f"{package} {version(package)}" for package in ("numpy", "numba", "torch"))
    return {
        "cpu": f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores",
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
    }


Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class ResultTable:
    key: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    remarks: Sequence[str] = ()

    def render(self) -> str:
        """Text for a terminal; without a header the remarks alone."""
        rows = [[cell_text(cell) for cell in row] for row in self.rows]
        return "\n".join([self.title, "", *align(self.header, rows), *self.remarks])

    def plain(self) -> dict[str, Any]:
        rows = [dict(zip(self.header, row, strict=True)) for row in self.rows]
        return {"rows": rows, "remarks": list(self.remarks)}

    @classmethod
    def where(cls, facts: Mapping[str, str]) -> "ResultTable":
        lines = [f"{key}: {value}" for key, value in facts.items()]
        return cls("where", "Where and on what", (), (), lines)


def cell_text(cell: Cell) -> str:
    """A float has three significant digits."""
    if isinstance(cell, float):
        return number(cell)
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


def number(value: float) -> str:
    """Three significant digits, but 61,234 stays whole."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{places}f}" if places < 6 else f"{value:.1e}"
