"""`newsift bench encoder`: posts a second of text to embeddings, one post alone, the start."""

import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median

import torch

from bench.measure import (
    Report,
    ResultTable,
    Run,
    describe,
    fresh_process,
    interleave,
    percentile,
    rate_of,
    ratio,
    spread,
)
from bench.texts import read_posts
from encoder import load
from encoder.errors import InputError
from train.teacher.minilm import Teacher

BATCH = 256
MINILM_BATCH = 32
POSTS, EARLIER = 98_304, 32_768
STARTS = 3
REST_S = 0.03  # until the threads of the previous row are idle
SKIM, READ = "newsift, posts skimmed", "newsift, posts read"
MINILM = "MiniLM, sentence-transformers"


def measure_encoder(
    data: Path | None, model: str, threads: Sequence[int], rounds: int, seconds: float,
    report: Report,
) -> list[ResultTable]:  # fmt: skip
    """newsift and MiniLM on the same posts, interleaved; one post alone; the start.

    A stream has new posts of mostly old words. So newsift, which has a cache of words, reads the
    earlier posts first, and is then measured on other posts. `seconds` are those of all rows.
    """
    texts, source = read_posts(data, POSTS + EARLIER)
    first = min(EARLIER, len(texts) * EARLIER // (POSTS + EARLIER))
    posts, earlier = texts[first:], texts[:first] or texts
    runs, absent = dict[tuple[str, int], Run](), list[str]()
    for count in threads:
        report(f"preparing {count} threads")
        enc = load(model, device="cpu", threads=count)
        enc.skim(earlier)
        runs[SKIM, count] = over_batches(posts, enc.skim)
        runs[READ, count] = over_batches(posts, enc.posts)
        try:
            runs[MINILM, count] = over_batches(posts, Teacher(MINILM_BATCH).texts)
        except InputError as error:
            absent.append(f"{MINILM}, {count}: {error}")
    facts = describe() | {
        "texts": f"{len(posts):,} posts: {source}",
        "read before": f"{len(earlier):,} posts, others than these",
        "model": f"{model}, path {enc.path}",
    }
    alone = load(model, device="cpu", threads=1)
    # The first round warms up and is dropped.
    each_s = seconds / (len(runs) * (rounds + 1))
    timed = {key: partial(rate_on, key[1], run, each_s) for key, run in runs.items()}
    rates = {key: own[1:] for key, own in interleave(timed, rounds + 1, report).items()}
    return [
        ResultTable.where(facts),
        ResultTable(
            "posts",
            "Posts",
            ("row", "threads", "posts/s", "lowest", "highest", "× MiniLM"),
            [
                (title, count, *spread(own), ratio(own, rates.get((MINILM, count), [])))
                for (title, count), own in rates.items()
            ],
            absent,
        ),
        ResultTable(
            "single",
            "One post alone, 1 thread",
            ("", "p50 ms", "p99 ms", "posts"),
            [
                single(SKIM, posts, alone.skim, seconds / 50),
                single(READ, posts, alone.posts, seconds / 50),
            ],
        ),
        fresh_starts(model),
    ]


def over_batches(texts: list[str], embed: Callable[[list[str]], object]) -> Run:
    """A run that takes the next full batch of texts through a function."""
    starts = [*range(0, len(texts) - BATCH + 1, BATCH)] or [0]
    parts = cycle([texts[low : low + BATCH] for low in starts])

    def run() -> int:
        part = next(parts)
        embed(part)
        return len(part)

    return run


def rate_on(threads: int, run: Run, seconds: float) -> float:
    """Items a second, on a number of threads of torch and of the tokenizers in Rust."""
    torch.set_num_threads(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    time.sleep(REST_S)
    return rate_of(run, seconds)


def single(
    name: str, posts: list[str], embed: Callable[[list[str]], object], seconds: float
) -> tuple[str, float, float, int]:
    """How long a post takes alone, text in, embedding out; at least five of them."""
    texts, times = cycle(posts), list[float]()
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        text = [next(texts)]
        began = time.perf_counter()
        embed(text)
        times.append(1e3 * (time.perf_counter() - began))
    return name, percentile(times, 0.5), percentile(times, 0.99), len(times)


PROGRAM = """
import json, pathlib, sys, time
import encoder
enc = encoder.load(sys.argv[1], device="cpu")
enc.posts(["a van hits pedestrians in Toronto"])
embedded, status = time.time(), pathlib.Path("/proc/self/status").read_text()
resident, most = (int(status.split(key)[1].split()[0]) / 1024 for key in ("VmRSS:", "VmHWM:"))
print(json.dumps([embedded, resident, most, "torch" in sys.modules]))
"""
START_ROWS = (
    "process start to first embedding, s", "resident memory then, MB", "the most until then, MB",
    "torch imported",
)  # fmt: skip


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
