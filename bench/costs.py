"""`newsift bench costs`: what a post, a seed and a worker cost, for `newsift plan`.

A worker runs over the same posts with few seeds and with many. Costs follow from these runs, and
predict others, which are measured beside them.
"""

import gzip
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaConsumer

import encoder
from bench.jetstream import CID, V1, events
from bench.measure import Report, ResultTable, describe
from bench.stream import (
    FEW,
    MANY,
    MODEL,
    PARTITIONS,
    POSTS,
    SHARE,
    BenchTopics,
    Record,
    broker,
    running_worker,
    seed_records,
    threshold_for,
    watch,
)
from bench.texts import Article, read_articles, read_posts, repeat_texts
from encoder.errors import InputError
from newsift.operations.capacity import FIRST_SEEDS, Costs
from worker.config import StreamConfig

BATCH = StreamConfig().batch_posts
PACK = 100  # records that are compressed together
MATCHES = 2_000  # records whose size is measured
SEEDS, AUTOMATIC = "seeds", "automatic"  # control topics: seeds with and without thresholds
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
COMMAND = "newsift bench costs"


@dataclass(frozen=True, slots=True)
class Run:
    """A configuration of a worker."""

    seeds: int
    share: float = SHARE  # of the posts match
    partitions: int = PARTITIONS
    batch: int = BATCH

    def __str__(self) -> str:
        text = f"{self.seeds:,} seeds, {self.share:.0%} match"
        if self.batch != BATCH:
            text += f", {self.partitions} partitions, batches of {self.batch:,}"
        return text


class RunCosts(NamedTuple):
    """The costs of a run."""

    cpu_us: float  # of a post
    start_s: float  # of CPU, until the worker was ready
    memory_mb: float  # peak

    @classmethod
    def best(cls, rounds: Sequence["RunCosts"]) -> "RunCosts":
        """The least CPU of several rounds, since other work only adds to it; the most memory."""
        cpu, start, memory = zip(*rounds, strict=True)
        return cls(min(cpu), min(start), max(memory))


class Sizes(NamedTuple):
    """Bytes of a record, and of a compressed one among others."""

    plain: float
    compressed: float

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Sizes":
        """The means over some records."""
        contents = [key + value for key, value in records]
        packs = [b"".join(contents[at : at + PACK]) for at in range(0, len(contents), PACK)]
        return cls(
            sum(map(len, contents)) / len(contents),
            sum(len(gzip.compress(pack)) for pack in packs) / len(contents),
        )


def frames(texts: Sequence[str], count: int) -> Iterator[Record]:
    """Posts as Bluesky sends them, with ids that compress as badly as real ones."""
    letters = random.Random(0).choices
    for number, event in enumerate(events(texts, count, V1)):
        for zeros, length in (
            (f"{number:024}", 24),
            (CID[7:], len(CID[7:])),
            (f"{number:013}", 13),
        ):
            event = event.replace(zeros, "".join(letters(BASE32, k=length)))
        yield str(number).encode(), event.encode()


class FittedRuns(NamedTuple):
    """The runs that costs are computed from."""

    few: Run
    first: Run  # FIRST_SEEDS seeds, as far as there are so many
    many: Run
    matching: Run  # as many seeds, which more posts match, and many match several

    @classmethod
    def up_to(cls, seeds: int) -> "FittedRuns":
        first = min(FIRST_SEEDS, seeds)
        return cls(Run(min(FEW, seeds)), Run(first), Run(seeds), Run(first, 10 * SHARE))

    def costs(
        self, costs_by_run: Mapping[Run, RunCosts], encode_us: float, posts: Sizes, matches: Sizes
    ) -> Costs:
        """Costs with which these runs are predicted exactly."""
        few, first, many, matching = (costs_by_run[run] for run in self)
        more = self.many.seeds - self.few.seeds
        match_us = max(0.0, first.cpu_us - few.cpu_us) / (self.first.seeds - self.few.seeds)
        more_match_us = match_us
        if beyond := self.many.seeds - self.first.seeds:
            more_match_us = max(0.0, many.cpu_us - first.cpu_us) / beyond
        matched_us = max(0.0, matching.cpu_us - first.cpu_us) / (
            self.matching.share - self.first.share
        )
        start_s = max(0.0, many.start_s - few.start_s) / more
        memory_mb = max(0.0, many.memory_mb - few.memory_mb) / more
        others = encode_us + self.few.seeds * match_us + self.few.share * matched_us
        values = {
            "share": self.few.share,
            "python_us": few.cpu_us - others,
            "encode_us": encode_us,
            "match_ns": match_us * 1e3,
            "more_match_ns": more_match_us * 1e3,
            "matched_us": matched_us,
            "start_s": few.start_s - self.few.seeds * start_s,
            "start_ms": start_s * 1e3,
            "memory_mb": few.memory_mb - self.few.seeds * memory_mb,
            "memory_kb": memory_mb * 1e3,
            "post_bytes": posts.plain,
            "packed_post_bytes": posts.compressed,
            "packed_match_bytes": matches.compressed,
        }
        return Costs(
            machine=describe()["cpu"],
            date=datetime.now(UTC).date().isoformat(),
            command=COMMAND,
            posts=f"posts of Bluesky, {posts.plain:.0f} bytes each",
            **{name: float(f"{value:.4g}") for name, value in values.items()},
        )


def validation_runs(seeds: int) -> list[Run]:
    """Runs between the fitted ones; the last has other partitions and batches."""
    return [Run(seeds // 4), Run(seeds * 2 // 5, 4 * SHARE, 4 * PARTITIONS, BATCH // 4)]


def measure_costs(
    kafka: str | None, data: Path | None, posts: int, rounds: int, report: Report
) -> tuple[Costs, list[ResultTable]]:
    """The costs, and a table of runs beside what the costs predict for them."""
    texts, source = read_posts(data, POSTS)
    articles = read_articles(data, MANY)
    if len(articles) < 10 * FEW:
        raise InputError(f"--data: {len(articles)} articles; give {10 * FEW} or more")
    fits, validation = FittedRuns.up_to(len(articles)), validation_runs(len(articles))
    records = list(frames(texts, posts))
    with broker(kafka) as address:
        runs = CostRuns(address, articles, records, texts)
        costs_by_run: dict[Run, list[RunCosts]] = {run: [] for run in (*fits, *validation)}
        for number in range(rounds):
            for run, costs_of_run in costs_by_run.items():
                report(f"round {number + 1} of {rounds}: {run}")
                costs_of_run.append(runs.measure(run))
        matches = runs.matches(fits.few)
    best = {run: RunCosts.best(several) for run, several in costs_by_run.items()}
    costs = fits.costs(best, encode_us(texts), Sizes.of(records), Sizes.of(matches))
    where = describe() | {
        "broker": kafka or "the embedded one; a real Kafka by --kafka",
        "texts": f"{len(texts):,} posts, {len(articles):,} articles: {source}",
        "workers": f"of one thread; {posts:,} posts, the best of {rounds} rounds",
    }
    return costs, [
        ResultTable.where(where),
        prediction(costs, {run: best[run] for run in fits}, "fitted", "Fitted"),
        prediction(costs, {run: best[run] for run in validation}, "predicted", "Not fitted"),
    ]


def prediction(
    costs: Costs, costs_by_run: Mapping[Run, RunCosts], key: str, title: str
) -> ResultTable:
    rows = []
    for run, actual in costs_by_run.items():
        run_costs = costs.with_share(run.share)
        cpu_us, memory = run_costs.cpu_us(run.seeds), run_costs.peak_mb(run.seeds)
        start = run_costs.start_cpu_s(run.seeds)
        rows.append((
            str(run), actual.cpu_us, cpu_us, f"{cpu_us / actual.cpu_us - 1:+.0%}",
            actual.memory_mb, memory, actual.start_s, start,
        ))  # fmt: skip
    header = ("run", "CPU µs a post", "predicted", "off by", "peak MB", "predicted MB",
              "start CPU s", "predicted s")  # fmt: skip
    return ResultTable(key, title, header, rows)


class CostRuns:
    """The topics of the runs on one broker, each filled once."""

    def __init__(
        self, kafka: str, articles: Sequence[Article], records: Sequence[Record],
        texts: Sequence[str],
    ) -> None:  # fmt: skip
        self._kafka, self._articles = kafka, articles
        self._records, self._texts = records, texts
        self._topics_by_run: dict[Run, BenchTopics] = {}

    def measure(self, run: Run) -> RunCosts:
        """Start a worker with automatic thresholds, then one that reads all posts."""
        topics = self._prepare(run)
        settings = {"NEWSIFT_MODEL__THREADS": "1", "NEWSIFT_STREAM__BATCH_POSTS": str(run.batch)}
        with running_worker(topics, AUTOMATIC, settings) as worker:
            worker.wait_until_ready()
            start, peak = worker.cpu(), worker.peak()
        with running_worker(topics, SEEDS, settings) as worker:
            worker.wait_until_ready()
            result = watch(worker, topics, len(self._records))
            assert result.cpu is not None
            return RunCosts(result.cpu, start, max(peak, worker.peak()))

    def matches(self, run: Run) -> list[Record]:
        topics = self._prepare(run)
        with KafkaConsumer(bootstrap_servers=self._kafka, consumer_timeout_ms=10_000) as consumer:
            consumer.assign(topics.partitions("matches"))
            consumer.seek_to_beginning()
            return [(record.key, record.value) for record in islice(consumer, MATCHES)]

    def _prepare(self, run: Run) -> BenchTopics:
        if run not in self._topics_by_run:
            topics = self._topics_by_run[run] = BenchTopics.fresh(self._kafka, run.partitions)
            for role in ("posts", "matches", "rejected"):
                topics.create(role, run.partitions, {})
            articles = self._articles[: run.seeds]
            with encoder.load(MODEL, device="cpu") as enc:
                threshold = threshold_for(enc, self._texts, articles, run.share)
            for role, own_threshold in ((SEEDS, threshold), (AUTOMATIC, None)):
                topics.create(role, 1, {"cleanup.policy": "compact"})
                topics.publish(role, seed_records(articles, own_threshold))
            topics.publish("posts", self._records)
        return self._topics_by_run[run]


def encode_us(texts: Sequence[str]) -> float:
    """The CPU of a post's embedding, on one thread."""
    texts = repeat_texts(texts, POSTS)
    with encoder.load(MODEL, device="cpu", threads=1) as enc:
        enc.posts(texts[:BATCH])
        began = time.process_time()
        for at in range(BATCH, len(texts), BATCH):
            enc.posts(texts[at : at + BATCH])
        return (time.process_time() - began) / (len(texts) - BATCH) * 1e6
