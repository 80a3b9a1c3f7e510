"""`newsift bench encoder`: all rows in one interleaved run, and the tables made of them."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from bench import machine
from bench.encoder.accuracy import deviations
from bench.encoder.rows import REFERENCES, ROWS
from bench.encoder.start import STARTED, fresh_start
from bench.encoder.workload import Workload
from bench.measure import (
    NotAvailable,
    RowKey,
    Run,
    Say,
    interleave,
    percentile,
    ratio,
    set_threads,
    spread,
)
from bench.part import Part, number
from encoder.errors import InputError

POSTS, EARLIER = 98_304, 32_768
STARTS = 3
CHECKED = 200  # posts whose vectors are compared with exact ones


def measure_encoder(
    data: Path | None, model: str, threads: tuple[int, ...], only: frozenset[str], rounds: int,
    seconds: float, say: Say,
) -> list[Part]:  # fmt: skip
    """Measure the rows and parts of these names, else all; the rows interleaved."""
    work = Workload(data, model, POSTS, EARLIER)
    parts: dict[str, Callable[[], Part]] = {
        "single": lambda: single(work, seconds / 50),
        "start": lambda: fresh_starts(model),
        "errors": lambda: errors(work),
    }
    if odd := only - ROWS.keys() - parts.keys():
        names = ", ".join(sorted({*ROWS, *parts}))
        raise InputError(f"--only: {', '.join(sorted(odd))} is no row; choose from {names}")
    keys = [(name, t) for t in threads for name in ROWS if not only or name in only]
    made = [speed(work, keys, rounds, seconds, say)] if keys else []
    for name, make in parts.items():
        if not only or name in only:
            say(f"part: {name}")
            try:
                made.append(make())
            except NotAvailable as error:
                made.append(Part(name, f"No {name}", (), (), [str(error)]))
    return [where(work), *made]


def where(work: Workload) -> Part:
    """The machine, the texts and the model."""
    enc = work.encoder(1)
    mean = float(np.diff(work.tokens.offsets).mean())
    return Part.where(machine.describe() | {
        "texts": f"{len(work.posts):,} posts, {number(mean)} tokens each: {work.source}",
        "read before": f"{len(work.earlier):,} posts, others than these",
        "model": f"{work.model}: vocabulary {enc.model.vocabulary.size:,}, path {enc.path}",
    })  # fmt: skip


def speed(work: Workload, keys: list[RowKey], rounds: int, seconds: float, say: Say) -> Part:
    """The rates of every row that runs here, and the reason for every row that does not."""
    runs: dict[RowKey, Run] = {}
    absent = []
    for name, threads in keys:
        say(f"preparing {name}, {threads}")
        try:
            runs[name, threads] = ROWS[name].prepare(work, threads)
        except NotAvailable as error:
            absent.append(f"{ROWS[name].name}, {threads}: {error}")
    rates = interleave(runs, rounds, seconds / max(1, len(runs) * (rounds + 1)), say)
    rows = [
        (
            *(ROWS[name].name, threads, *spread(found)),
            *(ratio(found, rates.get((other, threads), [])) for other in REFERENCES),
        )
        for (name, threads), found in rates.items()
    ]
    header = ("row", "threads", "posts/s", "lowest", "highest", *REFERENCES.values())
    return Part("posts", "Posts", header, rows, absent)


def single(work: Workload, seconds: float) -> Part:
    """How long a post takes alone, text in, embedding out; at least five of them."""
    set_threads(1)
    posts, enc = work.batches(work.posts, 1), work.encoder(1)
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 5 or time.perf_counter() < end:
        text = next(posts)
        began = time.perf_counter()
        enc.posts(text)
        found.append(1e3 * (time.perf_counter() - began))
    row = ("whole encoder", percentile(found, 0.5), percentile(found, 0.99), len(found))
    return Part("single", "One post alone, 1 thread", ("", "p50 ms", "p99 ms", "posts"), [row])


def fresh_starts(model: str) -> Part:
    """The start of a fresh process: medians, after one that fills the caches."""
    _, *found = [fresh_start(model) for _ in range(STARTS + 1)]
    *figures, torch, path = zip(*found, strict=True)
    rows = [(name, median(values)) for name, values in zip(STARTED, figures, strict=True)]
    said = f"torch imported: {'yes' if any(torch) else 'no'}; path: {path[0]}"
    title = f"Start, warm cache, median of {STARTS}"
    return Part("start", title, ("", "fresh process"), rows, [said])


def errors(work: Workload) -> Part:
    """The largest errors of every path against float64."""
    title = f"Largest error against float64, {CHECKED} posts and all their pairs"
    header = ("path", "embedding, relative", "score")
    return Part("errors", title, header, deviations(work, CHECKED))
