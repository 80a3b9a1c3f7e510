"""`newsift bench encoder`: posts a second of every path, one post alone, the start."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from bench.measure import (
    NotAvailable,
    Report,
    ResultTable,
    Run,
    describe,
    fresh_process,
    interleave,
    number,
    percentile,
    rate_of,
    ratio,
    spread,
)
from bench.texts import read_posts
from encoder import Encoder, load
from encoder.backends.gated_mean import GatedMeanKernel
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import I32, I64
from encoder.support.threads import ThreadPool
from encoder.text.tokenizer import Tokenizer
from train.teacher.minilm import Teacher

BATCH = 256
MINILM_BATCH = 32
POSTS, EARLIER = 98_304, 32_768
STARTS = 3
REST_S = 0.03  # until the threads of the previous row are idle


class Workload:
    """The same real posts for every row, and the encoders that read them.

    A stream has new posts of mostly old words. So a path with a cache of words reads the earlier
    posts first, and is then measured on other posts.
    """

    def __init__(self, data: Path | None, model: str) -> None:
        texts, self.source = read_posts(data, POSTS + EARLIER)
        count = min(EARLIER, len(texts) * EARLIER // (POSTS + EARLIER))
        self.posts, self.earlier = texts[count:], texts[:count] or texts
        self.model = model
        self.encoder = cache(self._encoder)
        model_read = self.encoder(1).model
        config = model_read.weights.config
        self.tokens = Tokenizer(model_read.vocabulary, model_read.idf, config).posts(self.posts)

    def _encoder(self, threads: int) -> Encoder:
        """The whole encoder on the CPU with a number of threads, after the earlier posts."""
        enc = load(self.model, device="cpu", threads=threads)
        enc.posts(self.earlier)
        return enc

    def ids(self, low: int) -> tuple[I32, I64]:
        """A batch of posts as ids and offsets."""
        offsets = self.tokens.offsets[low : low + BATCH + 1]
        ids = np.ascontiguousarray(self.tokens.ids[offsets[0] : offsets[-1]])
        return ids, offsets - offsets[0]


def starts(count: int) -> list[int]:
    """The starts of the full batches; 0 if none is full."""
    return [*range(0, count - BATCH + 1, BATCH)] or [0]


def over_texts(texts: list[str], embed: Callable[[list[str]], object]) -> Run:
    """A run that takes the next full batch of texts through a function."""
    parts = cycle([texts[low : low + BATCH] for low in starts(len(texts))])

    def run() -> int:
        part = next(parts)
        embed(part)
        return len(part)

    return run


def kernel(work: Workload, threads: int) -> Run:
    """A run that takes the next batches of ids through the kernel, one on each thread."""
    parts = cycle([work.ids(low) for low in starts(len(work.posts))])
    path, pool = GatedMeanKernel(work.encoder(1).model.weights), ThreadPool(threads)

    def forward(batch: tuple[I32, I64]) -> int:
        path.forward(*batch, Side.POST)
        return len(batch[1]) - 1

    return lambda: sum(pool.map(forward, islice(parts, threads)))


def whole(work: Workload, threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out."""
    return over_texts(work.posts, work.encoder(threads).posts)


def again(work: Workload, threads: int) -> Run:
    return over_texts(work.earlier, work.encoder(threads).posts)


def minilm(work: Workload, _: int) -> Run:
    """MiniLM as sentence-transformers runs it."""
    try:
        teacher = Teacher(MINILM_BATCH)
    except InputError as error:
        raise NotAvailable(str(error)) from error
    return over_texts(work.posts, teacher.texts)


# By its name for --only: how a row is called, and how it is prepared for a number of threads.
ROWS: dict[str, tuple[str, Callable[[Workload, int], Run]]] = {
    "kernel": ("gated mean, kernel: ids → vectors", kernel),
    "whole": ("whole encoder: text → embeddings", whole),
    "again": ("whole encoder, texts it has read before", again),
    "minilm": ("MiniLM, sentence-transformers", minilm),
}
PARTS = ("single", "start")


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
    if unknown := options.only - {*ROWS, *PARTS}:
        names = ", ".join(sorted({*ROWS, *PARTS}))
        raise InputError(f"--only: {', '.join(sorted(unknown))} is not a row; choose from {names}")
    only, work = options.only or {*ROWS, *PARTS}, Workload(options.data, options.model)
    mean = float(np.diff(work.tokens.offsets).mean())
    tables = [ResultTable.where(describe() | {
        "texts": f"{len(work.posts):,} posts, {number(mean)} tokens each: {work.source}",
        "read before": f"{len(work.earlier):,} posts, others than these",
        "model": f"{work.model}, path {work.encoder(1).path}",
    })]  # fmt: skip
    if rows := [name for name in ROWS if name in only]:
        tables.append(speed(work, rows, options, report))
    if "single" in only:
        tables.append(single(work, options.seconds / 50))
    if "start" in only:
        tables.append(fresh_starts(options.model))
    return tables


def speed(work: Workload, rows: list[str], options: EncoderOptions, report: Report) -> ResultTable:
    """All rows, interleaved; the first round warms up and is dropped."""
    runs: dict[tuple[str, int], Run] = {}
    absent = []
    for threads in options.threads:
        for name in rows:
            title, prepare = ROWS[name]
            report(f"preparing {name}, {threads}")
            try:
                runs[title, threads] = prepare(work, threads)
            except NotAvailable as error:
                absent.append(f"{title}, {threads}: {error}")
    seconds = options.seconds / max(1, len(runs) * (options.rounds + 1))
    timed = {key: partial(rate_on, key[1], run, seconds) for key, run in runs.items()}
    rates = {key: own[1:] for key, own in interleave(timed, options.rounds + 1, report).items()}
    table = [
        (title, threads, *spread(own), ratio(own, rates.get((ROWS["minilm"][0], threads), [])))
        for (title, threads), own in rates.items()
    ]
    header = ("row", "threads", "posts/s", "lowest", "highest", "× MiniLM")
    return ResultTable("posts", "Posts", header, table, absent)


def rate_on(threads: int, run: Run, seconds: float) -> float:
    """Items a second, on a number of threads of torch and of the tokenizers in Rust."""
    torch.set_num_threads(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    time.sleep(REST_S)
    return rate_of(run, seconds)


def single(work: Workload, seconds: float) -> ResultTable:
    """How long a post takes alone, text in, embedding out; at least five of them."""
    posts, enc = cycle(work.posts), work.encoder(1)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        text = [next(posts)]
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
enc.posts(["a van hits pedestrians in Toronto"])
embedded, status = time.time(), pathlib.Path("/proc/self/status").read_text()
resident = int(status.split("VmRSS:")[1].split()[0]) / 1024
print(json.dumps([embedded, resident, "torch" in sys.modules]))
"""
START_ROWS = ("process start to first embedding, s", "resident memory then, MB", "torch imported")


def fresh_start(model: str) -> list[float]:
    """Start a process, load the model and embed one post: the figures of START_ROWS."""
    began = time.time()
    embedded_at, *others = json.loads(fresh_process(PROGRAM, model))
    return [embedded_at - began, *others]


def fresh_starts(model: str) -> ResultTable:
    """The start of a fresh process: medians, after one that fills the caches."""
    _, *figures = [fresh_start(model) for _ in range(STARTS + 1)]
    rows = list(zip(START_ROWS, map(median, zip(*figures, strict=True)), strict=True))
    return ResultTable("start", f"Start, warm cache, median of {STARTS}", ("", "fresh"), rows)
