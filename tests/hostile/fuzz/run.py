"""A target fed in a process of its own, so that what ends or holds it is one more failure."""

import multiprocessing
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from tests.hostile.fuzz.target import Target, opened

HANGS_AFTER_S = 60.0
OPENS_WITHIN_S = 600.0  # whatever has to be compiled
MAX_FAILURES = 20


@dataclass(frozen=True)
class Result:
    """The outcome of one input; `cost` in milliseconds of CPU for each KB."""

    is_taken: bool = False
    cost: float = 0.0
    failure: str = ""


@dataclass
class Report:
    name: str
    start: int
    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0  # milliseconds of CPU for each KB
    failures: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        if result.failure:
            self.failures.append(f"{self.name} {self.start + self.inputs}: {result.failure}")
        self.inputs += 1
        self.refused += not result.is_taken
        self.slowest = max(self.slowest, result.cost)


def fuzz(name: str, seconds: float, start: int = 0, most: int = 2**62) -> Report:
    """Feed a target from the input of this number on; a new process after each that ends badly."""
    report, ends_at, reason = Report(name, start), time.monotonic() + seconds, "started"
    while reason and len(report.failures) < MAX_FAILURES and report.inputs < most:
        if (left := ends_at - time.monotonic()) <= 0:
            break
        reason = _feed(report, left, most - report.inputs)
        if reason:
            report.add(Result(failure=reason))
    return report


def _feed(report: Report, seconds: float, most: int) -> str:
    """Feed in one process; why it ended before its time, else an empty string."""
    context, before = multiprocessing.get_context("spawn"), report.inputs
    here, there = context.Pipe(duplex=False)
    job = (report.name, report.start + report.inputs, seconds, most, there)
    process = context.Process(target=work, args=job, daemon=True)
    process.start()
    there.close()
    patience = OPENS_WITHIN_S
    try:
        while here.poll(patience):
            report.add(here.recv())
            patience = HANGS_AFTER_S
    except EOFError:
        process.join()
        reason = f"ended the process ({process.exitcode})" if process.exitcode else ""
    else:
        reason = f"hangs for {patience:g} s"
    finally:
        process.kill()
        process.join()
    if reason and report.inputs == before:
        raise RuntimeError(f"{report.name}: {reason} before its first input")
    return reason


def work(name: str, start: int, seconds: float, most: int, there: Connection) -> None:
    """Feed a target and send each result to the other process."""
    target = opened(name)
    for data in target.corpus:
        target.feed(data)  # whatever is compiled or imported late is there by now
    ends_at, failures = time.monotonic() + seconds, 0
    for number in range(start, start + most):
        if time.monotonic() > ends_at or failures >= MAX_FAILURES:
            break
        result = attempt(target, target.mutator.made(name, number))
        failures += bool(result.failure)
        there.send(result)


def attempt(target: Target, data: bytes) -> Result:
    try:
        cost, is_taken = priced(target, data)
        if cost > target.ms_per_kb:  # a look at the clock may come at a bad time: the best of some
            cost = min(cost, *(priced(target, data)[0] for _ in range(3)))
    except Exception as error:  # noqa: BLE001 - whatever comes out of it is what we look for
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        where = f"{at.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{at.tb_lineno}" if at else ""
        return Result(failure=f"{type(error).__name__}: {error} ({where})"[:500])
    is_slow = cost > target.ms_per_kb
    limit = f"more than {target.ms_per_kb:g} ({len(data)} bytes)"
    return Result(is_taken, cost, f"costs {cost:.1f} ms a KB, {limit}" if is_slow else "")


def priced(target: Target, data: bytes) -> tuple[float, bool]:
    """The milliseconds of CPU that an input costs for each KB, and whether it was taken."""
    began = time.process_time()
    is_taken = target.feed(data)
    return (time.process_time() - began) * 1000 / max(1, len(data) / 1024), is_taken
