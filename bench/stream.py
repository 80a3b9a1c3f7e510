"""`newsift bench stream`: the worker on a broker: posts a second, latency, start."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

import encoder
from bench.measure import NotAvailable, Report, ResultTable, describe, percentile, ratio, spread
from bench.texts import ROOT, Article, read_articles, read_posts, repeat_texts
from encoder import Encoder
from encoder.errors import InputError
from newsift.cli.processes import free_port, worker_process
from newsift.cli.worker import faust
from worker.config import Config, KafkaConfig
from worker.kafka.sending import Outbox, sending

PARTITIONS = 4
SAMPLE = 4096

Record = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class BenchTopics:
    """The topics of one measurement, on one broker."""

    kafka: str
    prefix: str  # of their names

    @classmethod
    def fresh(cls, kafka: str) -> "BenchTopics":
        return cls(kafka, f"bench-{int(time.time() * 1000):x}")

    def name(self, role: str) -> str:
        """The name of the topic in this role: posts, matches, rejected, or a set of seeds."""
        return f"{self.prefix}-{role}"

    def partitions(self, role: str) -> list[TopicPartition]:
        return [TopicPartition(self.name(role), p) for p in range(PARTITIONS)]

    def create(self, role: str, partitions: int, configs: dict[str, str]) -> None:
        topic = NewTopic(self.name(role), partitions, 1, topic_configs=configs)
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            admin.create_topics([topic])

    def publish(self, role: str, records: Iterable[Record]) -> int:
        """Publish compressed records and wait for the broker. Returns their number."""
        with self.sending(linger_ms=20) as outbox:
            for key, value in records:
                outbox.send(self.name(role), value, key)
            outbox.settle()
        return outbox.delivered

    def sending(self, linger_ms: int) -> AbstractContextManager[Outbox]:
        return sending(Config(kafka=KafkaConfig(bootstrap_servers=self.kafka)), linger_ms)

    @contextmanager
    def commits(self, group: str) -> Iterator[Callable[[], int]]:
        """Yields a function that counts the posts that a group has committed."""
        with KafkaConsumer(
            bootstrap_servers=self.kafka, group_id=group, enable_auto_commit=False
        ) as consumer:
            yield lambda: sum(consumer.committed(part) or 0 for part in self.partitions("posts"))


def post_records(texts: Sequence[str], count: int) -> Iterator[Record]:
    """Plain posts with different ids; the texts repeat."""
    for i, text in enumerate(islice(cycle(texts), count)):
        yield record(str(i), {"id": str(i), "text": text})


def seed_records(articles: Sequence[Article], threshold: float | None) -> Iterator[Record]:
    """The articles as seeds with one threshold; None for automatic thresholds."""
    for i, (title, text) in enumerate(articles):
        yield record(f"seed-{i:05}", {"title": title, "text": text, "threshold": threshold})


def record(key: str, value: dict[str, object]) -> Record:
    return key.encode(), json.dumps(value, ensure_ascii=False).encode()


def threshold_for(
    enc: Encoder, texts: Sequence[str], articles: Sequence[Article], share: float
) -> float:
    """The score that this share of the posts reaches with at least one of the articles."""
    best, _ = enc.posts(texts[:SAMPLE]).search(enc.articles(articles), k=1)
    threshold: float = np.quantile(best[:, 0], 1 - share).item()
    return min(max(threshold, 1e-6), 1.0)


READY_TIMEOUT_S = 300.0  # for a worker with many seeds
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class WatchedProcess(Protocol):
    @property
    def pid(self) -> int: ...

    def check(self) -> None: ...

    def wait_until_ready(self, patience: float) -> float: ...


@dataclass(frozen=True, slots=True)
class WatchedWorker:
    """A worker or peer on some topics, and its consumer group."""

    process: WatchedProcess
    group: str

    def wait_until_ready(self) -> float:
        """Returns the seconds until it reads posts."""
        return self.process.wait_until_ready(READY_TIMEOUT_S)

    def resident(self) -> float:
        """MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu(self) -> float:
        """Seconds of CPU since the start, of all threads."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


@contextmanager
def running_worker(topics: BenchTopics, seeds: str) -> Iterator[WatchedWorker]:
    """A worker on these topics, with the seeds of this role."""
    group = f"{topics.prefix}-{seeds}-{time.time_ns():x}"
    names = {role: topics.name(role) for role in ("posts", "matches", "rejected")}
    names["seeds"] = topics.name(seeds)
    env = {f"NEWSIFT_TOPICS__{role.upper()}": name for role, name in names.items()}
    # With PYTHONDONTWRITEBYTECODE, Python would compile all modules at each start.
    env |= {"NEWSIFT_KAFKA__GROUP": group, "PYTHONDONTWRITEBYTECODE": ""}
    with (
        tempfile.TemporaryDirectory() as folder,
        worker_process(topics.kafka, Path(folder), env) as process,
    ):
        yield WatchedWorker(process, group)


SEND_INTERVAL_S = 0.005
WARM_UP_S = 5.0


def latencies(
    topics: BenchTopics, worker: WatchedWorker, texts: Sequence[str], rate: int, seconds: float,
    warm_up_s: float = WARM_UP_S,
) -> list[float]:  # fmt: skip
    """Milliseconds from a post's timestamp to its match at a consumer, after the warm-up."""
    stop = threading.Event()
    arrivals: list[tuple[int, float]] = []
    reader = threading.Thread(target=collect_matches, args=(topics, stop, arrivals))
    reader.start()
    try:
        start = time.time()
        send_steadily(topics, texts, rate, seconds + warm_up_s)
        time.sleep(2)
        worker.process.check()
    finally:
        stop.set()
        reader.join()
    return [arrival * 1e3 - at for at, arrival in arrivals if at / 1e3 > start + warm_up_s]


def send_steadily(topics: BenchTopics, texts: Sequence[str], rate: int, seconds: float) -> None:
    records, count, start = post_records(texts, int(rate * seconds)), 0, time.perf_counter()
    with topics.sending(linger_ms=0) as outbox:
        while due := int((time.perf_counter() - start) * rate) - count + 1:
            batch = list(islice(records, due))
            if not batch:
                break
            for key, value in batch:
                outbox.send(topics.name("posts"), value, key)
            count += len(batch)
            time.sleep(SEND_INTERVAL_S)
        outbox.settle()


def collect_matches(
    topics: BenchTopics, stop: threading.Event, arrivals: list[tuple[int, float]]
) -> None:
    """Append the times at which each match's post was sent and the match arrived."""
    with KafkaConsumer(bootstrap_servers=topics.kafka, fetch_max_wait_ms=100) as consumer:
        parts = topics.partitions("matches")
        consumer.assign(parts)
        consumer.seek_to_end()
        for part in parts:
            consumer.position(part)
        while not stop.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                arrival = time.time()
                sources = (json.loads(record.value)["source"] for record in records)
                arrivals.extend((source["timestamp"], arrival) for source in sources)


EMPTY_POSTS = 40_000
RUN_TIMEOUT_S = 900.0
START_TIMEOUT_S = 60.0  # until a program has committed something
ENCODE = """
import json, sys, time
import encoder
texts = json.load(sys.stdin)
enc = encoder.load(sys.argv[1], device="cpu")
enc.posts(texts[:2000])
began = time.perf_counter()
for start in range(2000, len(texts), 1024):
    enc.posts(texts[start : start + 1024])
print((len(texts) - 2000) / (time.perf_counter() - began))
"""


class Speed(NamedTuple):
    rate: float  # posts a second
    cpu: float | None = None  # µs a post, where known


Measure = Callable[[], Speed]


def encoder_speed(texts: Sequence[str]) -> Speed:
    """Text to embeddings in a fresh process, on all cores, without Kafka."""
    process = subprocess.run(
        [sys.executable, "-c", ENCODE, MODEL], input=json.dumps(repeat_texts(texts, POSTS)),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if process.returncode:
        raise NotAvailable(f"the encoder failed: {process.stderr.strip().splitlines()[-1]}")
    return Speed(float(process.stdout))


def worker_speed(topics: BenchTopics, seeds: str, posts: int) -> Speed:
    with running_worker(topics, seeds) as worker:
        worker.wait_until_ready()
        return watch(worker, topics, posts, RUN_TIMEOUT_S)


def watch(worker: WatchedWorker, topics: BenchTopics, posts: int, seconds: float) -> Speed:
    """The rate and the CPU from the first commit on, for this time or until all posts are done."""
    with topics.commits(worker.group) as position:
        began = time.perf_counter()
        while not (first := position()):
            worker.process.check()
            if time.perf_counter() - began > START_TIMEOUT_S:
                raise NotAvailable(f"nothing was committed in {START_TIMEOUT_S:g} s")
            time.sleep(0.1)
        began, cpu, last, end = time.perf_counter(), worker.cpu(), first, 0.0
        while last < posts and time.perf_counter() - began < seconds:
            worker.process.check()
            time.sleep(0.1)
            now = position()
            if now > last:  # programs commit rarely: the last commit ends the window
                last, end = now, time.perf_counter()
                cpu_s = worker.cpu() - cpu
    if last - first < posts / 4 and time.perf_counter() - began < seconds:
        raise NotAvailable(f"{posts:,} posts are too few to be timed; give more with --posts")
    if last == first:
        raise NotAvailable(f"no more posts were committed in {seconds:g} s")
    return Speed((last - first) / (end - began), cpu_s / (last - first) * 1e6)


def empty_speed(topics: BenchTopics, posts: int) -> Speed:
    """Faust's stream of single events, into an agent that does nothing."""
    env = os.environ | {
        "BENCH_KAFKA": topics.kafka, "BENCH_TOPIC": topics.name("posts"),
        "BENCH_POSTS": str(min(posts, EMPTY_POSTS)),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        command = ["-A", "bench.empty_agent", "--datadir", folder, "worker", "--without-web"]
        process = subprocess.run(
            [*faust(), *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False,
            timeout=RUN_TIMEOUT_S,
        )  # fmt: skip
    lines = [line for line in process.stdout.splitlines() if line.startswith("rate ")]
    if not lines:
        raise NotAvailable(f"Faust's empty agent ended with {process.returncode}")
    return Speed(float(lines[-1].split()[1]))


PARTS = ("start", "speed", "latency")
SHARE = 0.02
POSTS = 98_304
FEW, MANY = 10, 12_704
RATE = 1_000  # posts a second, for the latency
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
MODEL = "default"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    kafka: str | None
    data: Path | None
    articles: Path | None
    posts: int
    rounds: int
    seconds: float
    only: frozenset[str]


def measure_stream(options: StreamOptions, report: Report) -> list[ResultTable]:
    if unknown := options.only - set(PARTS):
        raise InputError(f"--only: {', '.join(sorted(unknown))} is not a part; choose from {PARTS}")
    with broker(options.kafka) as kafka:
        parts = StreamBench(options, kafka, report)
        chosen = [part for part in PARTS if part in (options.only or PARTS)]
        return [parts.where(), *(getattr(parts, part)() for part in chosen)]


class StreamBench:
    """The parts of the bench, each with topics of its own on one broker."""

    def __init__(self, options: StreamOptions, kafka: str, report: Report) -> None:
        self.options, self.kafka, self.report = options, kafka, report
        self.posts, self.source = read_posts(options.data, POSTS)
        self.articles = read_articles(options.articles or options.data, MANY)
        self.sets = sorted({min(FEW, len(self.articles)), len(self.articles)})
        with encoder.load(MODEL, device="cpu") as enc:
            self.thresholds = {
                count: threshold_for(enc, self.posts, self.articles[:count], SHARE)
                for count in self.sets
            }

    def where(self) -> ResultTable:
        counts = f"{len(self.posts):,} posts, {len(self.articles):,} articles"
        return ResultTable.where(describe() | {
            "broker": self.options.kafka or "the embedded one; a real Kafka by --kafka",
            "texts": f"{counts}: {self.source}",
            "matches": f"thresholds set so that {SHARE:.0%} of the posts match",
        })  # fmt: skip

    def start(self) -> ResultTable:
        topics = self._make_topics(self.sets)
        rows = []
        for count in self.sets:
            with running_worker(topics, seeds_of(count)) as worker:
                rows.append((f"{count:,} seeds", worker.wait_until_ready(), worker.resident()))
        return ResultTable("start", "Start", ("start to ready", "seconds", "MB resident"), rows)

    def speed(self) -> ResultTable:
        topics, count = self._make_topics(self.sets), self.options.posts
        self.report(f"publishing {count:,} posts")
        topics.publish("posts", post_records(self.posts, count))
        rows: dict[str, Measure] = {
            "encoder: text → embeddings": partial(encoder_speed, self.posts)
        }
        for seeds in self.sets:
            rows[f"worker, {seeds:,} seeds"] = partial(worker_speed, topics, seeds_of(seeds), count)
        rows["Faust's agent that does nothing"] = partial(empty_speed, topics, count)
        return speed_part(rounds_of(rows, self.options.rounds, self.report))

    def latency(self) -> ResultTable:
        seeds = self.sets[0]
        topics = self._make_topics([seeds])
        self.report(f"{RATE:,} posts a second")
        with running_worker(topics, seeds_of(seeds)) as worker:
            worker.wait_until_ready()
            milliseconds = latencies(topics, worker, self.posts, RATE, self.options.seconds)
        if not milliseconds:
            raise NotAvailable("no match came; give other posts with --data")
        title = f"Produce → match at {RATE:,} posts/s, {len(milliseconds):,} matches"
        values = [percentile(milliseconds, share) for share in SHARES.values()]
        return ResultTable("latency", title, ("", *SHARES), [("ms", *values)])

    def _make_topics(self, sets: Sequence[int]) -> BenchTopics:
        """New topics, with a control topic for each set of seeds."""
        topics = BenchTopics.fresh(self.kafka)
        for role in ("posts", "matches", "rejected"):
            topics.create(role, PARTITIONS, {})
        for count in sets:
            self.report(f"publishing {count:,} seeds")
            topics.create(seeds_of(count), 1, {"cleanup.policy": "compact"})
            seeds = seed_records(self.articles[:count], self.thresholds[count])
            topics.publish(seeds_of(count), seeds)
        return topics


def rounds_of(rows: Mapping[str, Measure], rounds: int, report: Report) -> dict[str, list[Speed]]:
    results: dict[str, list[Speed]] = {name: [] for name in rows}
    for i in range(rounds):
        for name, measure in rows.items():
            report(f"round {i + 1} of {rounds}: {name}")
            results[name].append(measure())
    return results


def speed_part(results: Mapping[str, list[Speed]]) -> ResultTable:
    """Ratios are to the first row, the encoder, and to the last, Faust's empty agent."""
    rates = {name: [speed.rate for speed in speeds] for name, speeds in results.items()}
    ratio_names = ("× encoder", "× empty agent")
    header = ("row", "posts/s", "lowest", "highest", *ratio_names, "CPU µs a post")
    first, *_, last = rates.values()
    rows = []
    for name, values in rates.items():
        cpu = [speed.cpu for speed in results[name] if speed.cpu is not None]
        ratios = ratio(values, first), ratio(values, last)
        rows.append((name, *spread(values), *ratios, median(cpu) if cpu else None))
    return ResultTable("speed", "Posts a second, the rows interleaved", header, rows)


@contextmanager
def broker(address: str | None) -> Iterator[str]:
    """The broker at this address; None for an embedded one in another process."""
    if address is not None:
        yield address
        return
    port = free_port()
    command = [sys.executable, "-c", "from newsift.cli import main; main()"]
    process = subprocess.Popen([*command, "broker", "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def seeds_of(count: int) -> str:
    """The role of a topic with this many seeds."""
    return f"seeds-{count}"
