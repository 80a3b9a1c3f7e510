"""`newsift bench encoder`: posts a second of every path, one post alone, the start, the errors."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bench.measure import (
    NotAvailable,
    Report,
    ResultTable,
    RowKey,
    Run,
    describe,
    interleave,
    number,
    percentile,
    ratio,
    set_threads,
    spread,
)
from bench.texts import ROOT, read_posts
from encoder import Encoder, load
from encoder.backends.gated_mean import GatedMeanKernel
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.weights import I32, I64
from encoder.support.threads import ThreadPool
from encoder.text.tokenizer import Tokenizer, Tokens
from train.teacher.minilm import Teacher

BATCH = 256
MINILM_BATCH, MINILM_POSTS = 32, 256
POSTS, EARLIER = 98_304, 32_768
STARTS = 3
CHECK_POSTS = 200  # posts whose vectors are compared with exact ones

IdBatch = tuple[I32, I64]


class Workload:
    """The same real posts for every row, and what a row needs to read them.

    A stream has new posts of mostly old words. So a path with a cache of words reads the earlier
    posts first, and is then measured on other posts.
    """

    def __init__(self, data: Path | None, model: str) -> None:
        texts, self.source = read_posts(data, POSTS + EARLIER)
        count = min(EARLIER, len(texts) * EARLIER // (POSTS + EARLIER))
        self.posts, self.earlier = texts[count:], texts[:count] or texts
        self.model = model
        self.encoder = cache(self._encoder)

    def _encoder(self, threads: int) -> Encoder:
        """The whole encoder on the CPU with a number of threads, after the earlier posts."""
        enc = load(self.model, device="cpu", threads=threads)
        enc.posts(self.earlier)
        return enc

    @cached_property
    def tokens(self) -> Tokens:
        """All posts as ids."""
        model = self.encoder(1).model
        return Tokenizer(model.vocabulary, model.idf, model.weights.config).posts(self.posts)

    def batches(self, texts: list[str], size: int) -> Iterator[list[str]]:
        """Full batches in order, repeated for ever; too few texts make one batch."""
        return cycle([texts[low : low + size] for low in starts(len(texts), size)])

    def ids(self, low: int, size: int) -> IdBatch:
        """Some posts as ids and offsets."""
        offsets = self.tokens.offsets[low : low + size + 1]
        ids = np.ascontiguousarray(self.tokens.ids[offsets[0] : offsets[-1]])
        return ids, offsets - offsets[0]


def starts(count: int, size: int) -> list[int]:
    """The starts of the full batches; 0 if none is full."""
    return [*range(0, count - size + 1, size)] or [0]


class BenchRow(NamedTuple):
    """One line of the table: what is measured, and how it is prepared for a number of threads."""

    name: str
    prepare: Callable[[Workload, int], Run]


def kernel(work: Workload, threads: int) -> Run:
    """A run that takes the next batches of ids through the kernel, one on each thread."""
    batches = cycle([work.ids(low, BATCH) for low in starts(len(work.posts), BATCH)])
    path, pool = GatedMeanKernel(work.encoder(1).model.weights), ThreadPool(threads)

    def forward(batch: IdBatch) -> int:
        path.forward(*batch, Side.POST)
        return len(batch[1]) - 1

    return lambda: sum(pool.map(forward, islice(batches, threads)))


def over_texts(batches: Iterator[list[str]], embed: Callable[[list[str]], object]) -> Run:
    """A run that takes the next batch of texts through a function."""

    def run() -> int:
        texts = next(batches)
        embed(texts)
        return len(texts)

    return run


def whole(work: Workload, posts: list[str], threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out."""
    return over_texts(work.batches(posts, BATCH), work.encoder(threads).posts)


def minilm(work: Workload) -> Run:
    """MiniLM as sentence-transformers runs it."""
    try:
        teacher = Teacher(MINILM_BATCH)
    except InputError as error:
        raise NotAvailable(str(error)) from error
    return over_texts(work.batches(work.posts, MINILM_POSTS), teacher.texts)


ROWS = {
    "kernel": BenchRow("gated mean, kernel: ids → vectors", kernel),
    "whole": BenchRow(
        "whole encoder: text → embeddings", lambda work, t: whole(work, work.posts, t)
    ),
    "again": BenchRow(
        "whole encoder, texts it has read before", lambda work, t: whole(work, work.earlier, t)
    ),
    "minilm": BenchRow("MiniLM, sentence-transformers", lambda work, _: minilm(work)),
}


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    data: Path | None
    model: str
    threads: tuple[int, ...]
    only: frozenset[str]  # names of rows and parts; all if empty
    rounds: int
    seconds: float  # of all rows together


def measure_encoder(options: EncoderOptions, report: Report) -> list[ResultTable]:
    """Measure the rows, interleaved, and the parts."""
    model, only, seconds = options.model, options.only, options.seconds
    work = Workload(options.data, model)
    parts: dict[str, Callable[[], ResultTable]] = {
        "single": lambda: single(work, seconds / 50),
        "start": lambda: fresh_starts(model),
        "errors": lambda: errors(work),
    }
    if unknown := only - ROWS.keys() - parts.keys():
        names = ", ".join(sorted({*ROWS, *parts}))
        raise InputError(f"--only: {', '.join(sorted(unknown))} is not a row; choose from {names}")
    keys = [(name, t) for t in options.threads for name in ROWS if not only or name in only]
    mean = float(np.diff(work.tokens.offsets).mean())
    tables = [ResultTable.where(describe() | {
        "texts": f"{len(work.posts):,} posts, {number(mean)} tokens each: {work.source}",
        "read before": f"{len(work.earlier):,} posts, others than these",
        "model": f"{work.model}, path {work.encoder(1).path}",
    })]  # fmt: skip
    tables += [speed(work, keys, options.rounds, seconds, report)] if keys else []
    for name, make in parts.items():
        if not only or name in only:
            report(f"part: {name}")
            tables.append(make())
    return tables


def speed(
    work: Workload, keys: list[RowKey], rounds: int, seconds: float, report: Report
) -> ResultTable:
    """The rates of every row that runs here, and the reason for every row that does not."""
    runs: dict[RowKey, Run] = {}
    absent = []
    for name, threads in keys:
        report(f"preparing {name}, {threads}")
        try:
            runs[name, threads] = ROWS[name].prepare(work, threads)
        except NotAvailable as error:
            absent.append(f"{ROWS[name].name}, {threads}: {error}")
    rates = interleave(runs, rounds, seconds / max(1, len(runs) * (rounds + 1)), report)
    rows = [
        (ROWS[name].name, threads, *spread(values),
         ratio(values, rates.get(("minilm", threads), [])))
        for (name, threads), values in rates.items()
    ]  # fmt: skip
    header = ("row", "threads", "posts/s", "lowest", "highest", "× MiniLM")
    return ResultTable("posts", "Posts", header, rows, absent)


def single(work: Workload, seconds: float) -> ResultTable:
    """How long a post takes alone, text in, embedding out; at least five of them."""
    set_threads(1)
    posts, enc = work.batches(work.posts, 1), work.encoder(1)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        text = next(posts)
        began = time.perf_counter()
        enc.posts(text)
        times.append(1e3 * (time.perf_counter() - began))
    row = ("whole encoder", percentile(times, 0.5), percentile(times, 0.99), len(times))
    header = ("", "p50 ms", "p99 ms", "posts")
    return ResultTable("single", "One post alone, 1 thread", header, [row])


PROGRAM = """
import json, pathlib, sys, time
import encoder
enc = encoder.load(sys.argv[1], device="cpu")
loaded = time.time()
enc.posts(["a van hits pedestrians in Toronto"])
embedded, status = time.time(), pathlib.Path("/proc/self/status").read_text()
memory = [int(status.split(key)[1].split()[0]) / 1024 for key in ("VmRSS:", "VmHWM:")]
print(json.dumps([loaded, embedded, time.process_time(), *memory, "torch" in sys.modules]))
"""
START_ROWS = (
    "process start to loaded model, s", "process start to first embedding, s",
    "CPU time of all threads until then, s", "resident memory then, MB", "peak memory, MB",
    "torch imported",
)  # fmt: skip


def fresh_start(model: str) -> list[float]:
    """Start a process, load the model and embed one post: the figures of START_ROWS."""
    # With PYTHONDONTWRITEBYTECODE, Python would compile all of numba at every start.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROGRAM, model]
    began = time.time()
    child = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if child.returncode != 0:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotAvailable(f"a fresh process failed: {last}")
    loaded_at, embedded_at, *others = json.loads(child.stdout.splitlines()[-1])
    return [loaded_at - began, embedded_at - began, *others]


def fresh_starts(model: str) -> ResultTable:
    """The start of a fresh process: medians, after one that fills the caches."""
    _, *figures = [fresh_start(model) for _ in range(STARTS + 1)]
    rows = list(zip(START_ROWS, map(median, zip(*figures, strict=True)), strict=True))
    return ResultTable("start", f"Start, warm cache, median of {STARTS}", ("", "fresh"), rows)


def errors(work: Workload) -> ResultTable:
    """The kernel's largest errors against float64 by the torch model."""
    ids, offsets = work.ids(0, CHECK_POSTS)
    weights = work.encoder(1).model.weights
    with torch.inference_mode():
        model = Siamese.from_weights(weights).double().eval()
        exact = model(torch.from_numpy(ids).long(), torch.from_numpy(offsets), Side.POST).numpy()
    vectors = np.asarray(GatedMeanKernel(weights).forward(ids, offsets, Side.POST), np.float64)
    title = f"Largest error against float64, {CHECK_POSTS} posts and all their pairs"
    header = ("path", "embedding, relative", "score")
    return ResultTable("errors", title, header, [("kernel", *deviation(vectors, exact))])


def deviation(vectors: NDArray[np.float64], exact: NDArray[np.float64]) -> tuple[float, float]:
    """The largest relative distance of a vector, and of a cosine between any two."""
    lengths = np.linalg.norm(exact, axis=1)
    real = lengths > 0
    distance = np.linalg.norm(vectors - exact, axis=1)
    a, b = (x[real] / np.linalg.norm(x[real], axis=1, keepdims=True) for x in (vectors, exact))
    far = (distance[real] / lengths[real]).max(initial=0)
    return float(far), float(np.abs(a @ a.T - b @ b.T).max(initial=0))
