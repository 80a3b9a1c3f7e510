"""A target fed in a process of its own, so that what ends or holds it is one more failure."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from tests.hostile.fuzz.target import Target, opened

HANGS_AFTER_S = 60.0
OPENS_WITHIN_S = 600.0  # whatever has to be compiled
MOST_FAILURES = 20
LOOK_S = 0.1
NOT_YET = -1.0
NUMBER, INPUTS, REFUSED, SLOWEST = range(4)  # what the two processes share


@dataclass
class Report:
    name: str
    start: int
    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0  # milliseconds of CPU for each KB
    failures: list[str] = field(default_factory=list)

    @property
    def next(self) -> int:
        return self.start + self.inputs


def fuzz(name: str, seconds: float, start: int = 0, most: int = 2**62) -> Report:
    report = Report(name, start)
    until = time.monotonic() + seconds
    while report.inputs < most and (left := until - time.monotonic()) > 0:
        if len(report.failures) >= MOST_FAILURES or not fed(report, left, most - report.inputs):
            break
    return report


def fed(report: Report, seconds: float, most: int) -> bool:
    """Feed in one process until the time is over or it ends; whether there is reason to go on."""
    context = multiprocessing.get_context("spawn")
    shared = context.Array("d", [NOT_YET, 0, 0, 0])
    here, there = context.Pipe(duplex=False)
    job = (report.name, report.next, seconds, most, shared, there)
    with started(context.Process(target=work, args=job, daemon=True)) as process:
        there.close()
        ended = followed(process, here, shared, report)
    report.inputs += int(shared[INPUTS])
    report.refused += int(shared[REFUSED])
    report.slowest = max(report.slowest, shared[SLOWEST])
    if ended and shared[NUMBER] == NOT_YET:
        raise RuntimeError(f"{report.name}: {ended} before its first input")
    if ended:
        report.failures.append(f"{report.name} {int(shared[NUMBER])}: {ended}")
        report.inputs = max(report.inputs, int(shared[NUMBER]) + 1 - report.start)
    return bool(ended)


@contextmanager
def started(process: Any) -> Iterator[Any]:
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def followed(process: Any, here: Connection, shared: Any, report: Report) -> str:
    """Take the failures that are told until the end of the process; how it ended, if badly."""
    moved, last = time.monotonic(), (0.0, 0.0)
    while True:
        try:
            while here.poll(LOOK_S):
                report.failures.append(here.recv())
        except EOFError:
            process.join()
            return f"ended the process ({process.exitcode})" if process.exitcode else ""
        now = (shared[NUMBER], shared[INPUTS])
        if now != last:
            moved, last = time.monotonic(), now
        patience = OPENS_WITHIN_S if shared[NUMBER] == NOT_YET else HANGS_AFTER_S
        if time.monotonic() - moved > patience:
            return f"hangs for {patience:g} s"


def work(name: str, start: int, seconds: float, most: int, shared: Any, there: Connection) -> None:
    target = opened(name)
    mutator = target.mutator
    for data in target.corpus:
        target.feed(data)  # whatever is compiled or imported late is there by now
    until, failures = time.monotonic() + seconds, 0
    for number in range(start, start + most):
        if time.monotonic() > until or failures >= MOST_FAILURES:
            break
        shared[NUMBER] = number
        data = mutator.made(name, number)
        failure = attempt(target, data, shared)
        shared[INPUTS] += 1
        if failure:
            failures += 1
            there.send(f"{name} {number}: {failure}")


def attempt(target: Target, data: bytes, shared: Any) -> str:
    try:
        cost, taken = priced(target, data)
    except Exception as error:  # noqa: BLE001 - whatever comes out of it is what we look for
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        where = f"{at.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{at.tb_lineno}" if at else ""
        return f"{type(error).__name__}: {error} ({where})"[:500]
    shared[REFUSED] += not taken
    if cost > target.ms_per_kb:  # a look at the clock may come at a bad time: the best of some
        cost = min(cost, *(priced(target, data)[0] for _ in range(3)))
    shared[SLOWEST] = max(shared[SLOWEST], cost)
    if cost > target.ms_per_kb:
        return f"costs {cost:.1f} ms a KB, more than {target.ms_per_kb:g} ({len(data)} bytes)"
    return ""


def priced(target: Target, data: bytes) -> tuple[float, bool]:
    """The milliseconds of CPU that an input costs for each KB, and whether it was taken."""
    began = time.process_time()
    taken = target.feed(data)
    return (time.process_time() - began) * 1000 / max(1, len(data) / 1024), taken
