"""`newsift bench stream`: the worker on a broker: posts a second, latency, start."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from bench.measure import (
    Report,
    ResultTable,
    fresh_process,
    interleave,
    percentile,
    ratio,
    resident,
    spread,
)
from bench.peer_programs import NOTHING, PeerJob
from bench.programs import RATE, Speed, latencies_of, running_peer, running_worker, speed_of
from bench.texts import read_articles, read_posts
from bench.topics import (
    FEW,
    POSTS,
    BenchTopics,
    Record,
    broker,
    post_records,
    seed_records,
    where,
)

MANY = 1_000  # articles
MODEL = "default"
READ, SKIM = "read", "skim"
READERS = {READ: {}, "total_rate 0.001": {"total_rate": "0.001"}, SKIM: {"reader": "skim"}}
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
RUN_S, EMPTY_RUN_S = 60.0, 5.0  # at most, of a worker and of the agent that does nothing
ENCODE = """
import json, sys, time
import encoder
texts = json.load(sys.stdin)
enc = encoder.load(sys.argv[1], device="cpu")
enc.skim(texts[:2000])
began = time.perf_counter()
for start in range(2000, len(texts), 1024):
    enc.skim(texts[start : start + 1024])
print((len(texts) - 2000) / (time.perf_counter() - began))
"""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    kafka: str | None
    data: Path | None
    articles: Path | None
    posts: int
    rounds: int
    seconds: float


def measure_stream(options: StreamOptions, report: Report) -> list[ResultTable]:
    posts, source = read_posts(options.data, POSTS)
    articles = read_articles(options.articles or options.data, MANY)
    seeds = {
        f"seeds-{count}": seed_records(articles[:count])
        for count in sorted({min(FEW, len(articles)), len(articles)})
    }
    with broker(options.kafka) as kafka:
        bench = StreamBench(options, kafka, posts, seeds, report)
        first = where(options.kafka, len(posts), len(articles), source)
        return [first, bench.start(), bench.speed(), bench.latency()]


@dataclass(frozen=True, slots=True)
class StreamBench:
    """The parts of the bench, each with topics of its own on one broker."""

    options: StreamOptions
    kafka: str
    posts: Sequence[str]
    seeds: Mapping[str, Sequence[Record]]  # by the role of their topic
    report: Report

    def start(self) -> ResultTable:
        topics = BenchTopics.create(self.kafka, self.seeds)
        rows = []
        for role, seeds in self.seeds.items():
            with running_worker(topics, role) as worker:
                rows.append((f"{len(seeds):,} seeds", worker.ready_s, resident(worker.pid)))
        return ResultTable("start", "Start", ("start to ready", "seconds", "MB resident"), rows)

    def speed(self) -> ResultTable:
        topics, count = BenchTopics.create(self.kafka, self.seeds), self.options.posts
        self.report(f"publishing {count:,} posts")
        topics.publish("posts", post_records(self.posts, count))
        rows = {"encoder: posts skimmed": partial(encoder_speed, self.posts)}
        for role, seeds in self.seeds.items():
            for what, settings in READERS.items():
                if what == READ and len(seeds) > FEW:
                    continue  # nearly every post may match one of so many
                start = partial(running_worker, seeds=role, settings=settings)
                name = f"worker, {len(seeds):,} seeds, {what}"
                # A text that was read lately is not read again.
                timed = count if what == SKIM else min(count, len(self.posts))
                rows[name] = partial(speed_of, start, topics, timed, RUN_S)
        agent = partial(running_peer, command=(sys.executable, *NOTHING), job=PeerJob())
        rows["Faust's agent that does nothing"] = partial(
            speed_of, agent, topics, count, EMPTY_RUN_S
        )
        return speed_table(interleave(rows, self.options.rounds, self.report))

    def latency(self) -> ResultTable:
        role = next(iter(self.seeds))
        topics = BenchTopics.create(self.kafka, {role: self.seeds[role]})
        self.report(f"{RATE:,} posts a second")
        start = partial(running_worker, seeds=role)
        times = latencies_of(start, topics, self.posts, self.options.seconds)
        title = f"Produce → match at {RATE:,} posts/s, {len(times):,} matches"
        values = [percentile(times, share) for share in SHARES.values()]
        return ResultTable("latency", title, ("", *SHARES), [("ms", *values)])


def encoder_speed(texts: Sequence[str]) -> Speed:
    """Text to embeddings in a fresh process, on all cores, without Kafka."""
    return Speed(float(fresh_process(ENCODE, MODEL, [*islice(cycle(texts), POSTS)])))


def speed_table(results: Mapping[str, list[Speed]]) -> ResultTable:
    """Ratios are to the first row, the encoder, and to the last, Faust's empty agent."""
    rates = {name: [speed.rate for speed in speeds] for name, speeds in results.items()}
    header = (
        "row", "posts/s", "lowest", "highest", "× encoder", "× empty agent", "CPU µs a post",
    )  # fmt: skip
    first, *_, last = rates.values()
    rows = []
    for name, values in rates.items():
        cpu = [speed.cpu for speed in results[name] if speed.cpu is not None]
        ratios = ratio(values, first), ratio(values, last)
        rows.append((name, *spread(values), *ratios, median(cpu) if cpu else None))
    return ResultTable("speed", "Posts a second, the rows interleaved", header, rows)
