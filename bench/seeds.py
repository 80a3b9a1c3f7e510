"""`newsift bench seeds`: what many seeds cost, and how many posts are read for them.

The seeds are passages of real articles, the posts those of news publishers. Times are CPU times on
one thread.
"""

import gc
import json
from os import getpid
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

import encoder
from bench.measure import Report, ResultTable, describe, resident
from bench.texts import read_articles, read_posts
from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from train.protocol.peers import ReadOnce
from worker.match.matcher import Matcher, prepare_index
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlRecord, ControlReducer

WORDS = 60  # of a passage
BATCH = 1_000  # posts
EVENTS = 500
CHANGES = 9  # seeds that are changed one after another
RATE = 0.001  # of the background
HEADER = (
    "seeds", "start s", "a change ms", "KB a seed", "compare µs a post", "posts read %",
    "µs with a total rate", "then read %", "raised by",
)  # fmt: skip
REMARKS = (
    "Start: control records read, articles embedded, thresholds and index made. A change: one",
    f"seed's record, until the next batch can be matched; the median of {CHANGES}. Compare: posts",
    "that were skimmed, with the skim thresholds. Posts that some seed has read, with thresholds",
    f"at {RATE:g} of the background for each seed; and for all seeds together",
    "(matching.total_rate), which raises the thresholds by the last column.",
)


def measure_seeds(
    data: Path | None, articles: Path | None, counts: tuple[int, ...], posts: int, model: str,
    report: Report,
) -> list[ResultTable]:  # fmt: skip
    texts, source = read_posts(data, posts)
    passages = passages_of(articles)[: max(counts) + CHANGES]
    if len(passages) < max(counts) + CHANGES:
        raise InputError(f"--seeds: the articles have {len(passages):,} passages; give fewer")
    rows = []
    with encoder.load(model, device="cpu", threads=1) as enc:
        vectors = enc.skim(texts)
        enc.thresholds(enc.articles(passages[:1]))  # compiled
        for count in counts:
            report(f"{count:,} seeds")
            rows.append(_row(enc, passages[:count], passages[-CHANGES:], vectors))
    where = describe() | {"posts": f"{len(texts):,} of {source}"}
    return [ResultTable.where(where), ResultTable("seeds", "Many seeds", HEADER, rows, REMARKS)]


def passages_of(articles: Path | None) -> list[str]:
    """Distinct passages of WORDS words each, cut from the articles."""
    return list(dict.fromkeys(
        " ".join(words[at : at + WORDS])
        for _, text in read_articles(articles, 10**9)
        for words in [text.split()]
        for at in range(0, len(words) - WORDS + 1, WORDS)
    ))  # fmt: skip


def _row(enc: Encoder, passages: list[str], more: list[str], vectors: Embeddings) -> list[float]:
    gc.collect()
    memory, start = resident(getpid()), process_time()
    topic, articles = ControlReducer(values=False), ReadOnce(enc.articles)
    embedder = SeedEmbedder(enc, ThresholdRules(RATE), embed=articles)
    topic.apply(_record(number, text, number) for number, text in enumerate(passages))
    seeds = embedder.make(topic.snapshot())
    prepare_index(seeds)
    start_s = process_time() - start
    gc.collect()
    memory_mb = resident(getpid()) - memory
    gc.freeze()  # as a worker does once it is ready
    changes = []
    for number, text in enumerate(more):
        start = process_time()
        topic.apply([_record(number * len(passages) // len(more), text, len(passages) + number)])
        seeds = embedder.make(topic.snapshot())
        prepare_index(seeds)
        changes.append(process_time() - start)
    gc.unfreeze()
    compared = _compare(seeds, vectors)
    rules = ThresholdRules(RATE, total=True)
    total = SeedEmbedder(enc, rules, embed=articles).make(topic.snapshot())
    costs = start_s, 1000 * median(changes), 1024 * memory_mb / len(seeds)
    return [len(seeds), *costs, *compared, *_compare(total, vectors), total.raised]


def _record(number: int, text: str, offset: int) -> ControlRecord:
    value = json.dumps({"text": text, "event": f"event {number % EVENTS}"}).encode()
    return ControlRecord(f"{number:07d}".encode(), value, offset=offset)


def _compare(seeds: SeedSet, skimmed: Embeddings) -> tuple[float, float]:
    """µs of CPU for a post, and how many posts of 100 are read."""
    sieve = Matcher(seeds, most=1, thresholds=seeds.skim_thresholds)
    times = np.zeros(BATCH, np.int64)
    sieve.match(skimmed[:BATCH], times[: len(skimmed[:BATCH])])
    start, read = process_time(), 0
    for at in range(0, len(skimmed), BATCH):
        posts = skimmed[at : at + BATCH]
        read += int((sieve.match(posts, times[: len(posts)]).counts > 0).sum())
    return 1e6 * (process_time() - start) / len(skimmed), 100 * read / len(skimmed)
