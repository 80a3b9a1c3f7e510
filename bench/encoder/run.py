"""`newsift bench encoder`: all rows in one interleaved run, and the tables made of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import machine
from bench.encoder import tables
from bench.encoder.accuracy import deviations
from bench.encoder.rows import ROWS
from bench.encoder.start import fresh_starts
from bench.encoder.workload import Workload
from bench.measure import NotAvailable, Rates, RowKey, Run, Say, interleave, set_threads
from bench.part import Part, number
from encoder.errors import InputError

PARTS = ("single", "start", "errors")


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """What the command line asks for, and how much of everything is measured."""

    data: Path | None = None
    model: str = "default"
    threads: tuple[int, ...] = (1, 2)
    only: frozenset[str] = frozenset()
    rounds: int = 7
    seconds: float = 140.0
    posts: int = 98_304
    earlier: int = 32_768
    peer_posts: int = 256
    single_seconds: float = 3.0
    starts: int = 3
    checked: int = 200

    def wants(self, name: str) -> bool:
        """Whether a row or part was asked for by name, or nothing was."""
        return not self.only or name in self.only


QUICK = EncoderOptions(
    rounds=2, seconds=12.0, posts=16_384, earlier=8_192, peer_posts=64, single_seconds=0.5,
    starts=1, checked=30,
)  # fmt: skip


def measure_encoder(options: EncoderOptions, say: Say) -> list[Part]:
    """Measure everything asked for, the rows interleaved, the other parts after them."""
    odd = options.only - ROWS.keys() - set(PARTS)
    if odd:
        names = ", ".join(sorted({*ROWS, *PARTS}))
        raise InputError(f"--only: {', '.join(sorted(odd))} is no row; choose from {names}")
    work = Workload(options.data, options.model, options.posts, options.earlier, options.peer_posts)
    rates, absent = measured(work, options, say)
    parts = [where(work)]
    if rates or absent:
        parts.append(tables.speed(rates, absent))
    return parts + the_rest(work, options, say)


def where(work: Workload) -> Part:
    """The machine, the texts and the model."""
    enc = work.encoder(1)
    mean = float(np.diff(work.tokens.offsets).mean())
    return Part.where(machine.describe() | {
        "texts": f"{len(work.posts):,} posts, {number(mean)} tokens each: {work.source}",
        "read before": f"{len(work.earlier):,} posts, others than these",
        "model": f"{work.model}: vocabulary {enc.model.vocabulary.size:,}, path {enc.path}",
    })  # fmt: skip


def measured(work: Workload, options: EncoderOptions, say: Say) -> tuple[Rates, dict[RowKey, str]]:
    """The rates of every row that runs here, and the reason for every row that does not."""
    runs: dict[RowKey, Run] = {}
    absent: dict[RowKey, str] = {}
    for key in ((name, t) for t in options.threads for name in filter(options.wants, ROWS)):
        say(f"preparing {key[0]}, {key[1]}")
        try:
            runs[key] = ROWS[key[0]].prepare(work, key[1])
        except NotAvailable as error:
            absent[key] = str(error)
    slot = options.seconds / max(1, len(runs) * (options.rounds + 1))
    return interleave(runs, options.rounds, slot, say), absent


def the_rest(work: Workload, options: EncoderOptions, say: Say) -> list[Part]:
    """The parts that are no rates: one post alone, the start and the errors."""
    makers: dict[str, Callable[[], Part]] = {
        "single": lambda: tables.single(times_alone(work, options.single_seconds)),
        "start": lambda: tables.start(fresh_starts(options.model, options.starts)),
        "errors": lambda: tables.errors(deviations(work, options.checked), options.checked),
    }
    made = []
    for name in filter(options.wants, PARTS):
        say(f"part: {name}")
        try:
            made.append(makers[name]())
        except NotAvailable as error:
            made.append(Part(name, f"No {name}", (), (), {"absent": str(error)}, [str(error)]))
    return made


def times_alone(work: Workload, seconds: float) -> list[float]:
    """The seconds that each post takes alone, text in, embedding out; at least five of them."""
    set_threads(1)
    posts, enc = work.batches(work.posts, 1), work.encoder(1)
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 5 or time.perf_counter() < end:
        text = next(posts)
        began = time.perf_counter()
        enc.posts(text)
        found.append(time.perf_counter() - began)
    return found
