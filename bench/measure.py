"""Measuring: rows in turn, ratios within a round, medians over the rounds; and tables."""

import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from bench.texts import ROOT
from train.protocol.report import align
from worker.errors import RunError

Row = TypeVar("Row")
Result = TypeVar("Result")
Run = Callable[[], int]  # does one batch of work and returns its number of items
Report = Callable[[str], None]  # shows progress


class NotAvailable(RunError):
    """A row that cannot run here; the message has the reason and the remedy."""


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median of at least one value, the lowest and the highest."""
    return statistics.median(values), min(values), max(values)


def interleave(
    runs: Mapping[Row, Callable[[], Result]], rounds: int, report: Report
) -> dict[Row, list[Result]]:
    """Run each row once a round, so that what else the machine does falls on all of them."""
    results: dict[Row, list[Result]] = {row: [] for row in runs}
    for number in range(rounds):
        for row, run in runs.items():
            report(f"round {number + 1} of {rounds}: {row}")
            results[row].append(run())
    return results


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
    rank = min(max(math.ceil(share * len(values)), 1), len(values))
    return sorted(values)[rank - 1]


def fresh_process(program: str, model: str, texts: Sequence[str] = ()) -> str:
    """What a program in Python prints that is given a model, and texts as JSON on its input."""
    # With PYTHONDONTWRITEBYTECODE, Python would compile all modules at each start.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.run(
        [sys.executable, "-c", program, model], input=json.dumps(texts), env=env, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotAvailable(f"a fresh process failed: {last}")
    return child.stdout


def resident(pid: int) -> float:
    """The memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def describe() -> dict[str, str]:
    """The CPU, and the versions of Python and packages."""
    name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    versions = (f"{package} {version(package)}" for package in ("numpy", "numba", "torch"))
    return {
        "cpu": f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores",
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
    }


Cell = str | int | float | None
TableRow = dict[str, Any]  # cells by the names of their columns


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
    def of(
        cls, key: str, title: str, rows: Sequence[TableRow], remarks: Sequence[str]
    ) -> "ResultTable":
        """A table of at least one row, each with its cells by the names of their columns."""
        return cls(key, title, list(rows[0]), [list(row.values()) for row in rows], remarks)

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
