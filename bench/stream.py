"""`newsift bench stream`: the worker on a broker: posts a second, latency, start, memory."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

import encoder
from bench.measure import NotAvailable, ResultTable, Say, describe, percentile, ratio, spread
from bench.texts import ROOT, Article, read_articles, read_posts
from encoder import Encoder
from encoder.errors import InputError
from newsift.cli.processes import free_port, worker_process
from newsift.cli.worker import faust

PARTITIONS = 4
SAMPLE = 4096

Record = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StreamScene:
    """Topics with names of their own on one broker."""

    kafka: str
    name: str
    width: int = PARTITIONS  # of the topics that the worker reads or writes

    @classmethod
    def fresh(cls, kafka: str, width: int = PARTITIONS) -> "StreamScene":
        """A scene whose topics nobody has used before."""
        return cls(kafka, f"bench-{int(time.time() * 1000):x}", width)

    def topic(self, role: str) -> str:
        """The name of the topic in this role: posts, matches, rejected, or a set of seeds."""
        return f"{self.name}-{role}"

    def partitions(self, role: str) -> list[TopicPartition]:
        """The partitions of a topic that the worker reads or writes."""
        return [TopicPartition(self.topic(role), p) for p in range(self.width)]

    def create(self, role: str, partitions: int, configs: dict[str, str]) -> None:
        """Make a topic."""
        topic = NewTopic(self.topic(role), partitions, 1, topic_configs=configs)
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            admin.create_topics([topic])

    def publish(self, role: str, records: Iterable[Record]) -> int:
        """Write records to a topic, compressed, until the broker has them; says how many."""
        sent = 0
        with KafkaProducer(
            bootstrap_servers=self.kafka, linger_ms=20, batch_size=2**17, compression_type="gzip"
        ) as producer:
            for key, value in records:
                producer.send(self.topic(role), value, key=key)
                sent += 1
            producer.flush()
        return sent

    @contextmanager
    def commits(self, group: str) -> Iterator[Callable[[], int]]:
        """Counts how many posts a group has committed, as often as it is called."""
        with KafkaConsumer(
            bootstrap_servers=self.kafka, group_id=group, enable_auto_commit=False
        ) as consumer:
            yield lambda: sum(consumer.committed(part) or 0 for part in self.partitions("posts"))


def post_records(texts: Sequence[str], count: int) -> Iterator[Record]:
    """So many plain posts with ids of their own, the texts over and over."""
    for i, text in enumerate(islice(cycle(texts), count)):
        yield record(str(i), {"id": str(i), "text": text})


def seed_records(articles: Sequence[Article], threshold: float | None) -> Iterator[Record]:
    """The articles as seeds with one threshold for all; None: automatic ones."""
    for i, (title, text) in enumerate(articles):
        yield record(f"seed-{i:05}", {"title": title, "text": text, "threshold": threshold})


def record(key: str, value: dict[str, object]) -> Record:
    return key.encode(), json.dumps(value, ensure_ascii=False).encode()


def threshold_for(
    enc: Encoder, texts: Sequence[str], articles: Sequence[Article], share: float
) -> float:
    """The score that this share of the posts reaches with at least one of the articles."""
    best, _ = enc.posts(texts[:SAMPLE]).search(enc.articles(articles), k=1)
    cut: float = np.quantile(best[:, 0], 1 - share).item()
    return min(max(cut, 1e-6), 1.0)


READY_PATIENCE = 300.0  # seconds until a worker with many seeds is ready
TICK = os.sysconf("SC_CLK_TCK")


class WatchedProcess(Protocol):
    """What a watched worker is asked for."""

    @property
    def pid(self) -> int: ...

    def check(self) -> None: ...

    def wait_until_ready(self, patience: float) -> float: ...


@dataclass(frozen=True, slots=True)
class WatchedWorker:
    """`faust -A worker worker` on a scene's topics, with a consumer group of its own."""

    process: WatchedProcess
    group: str

    def wait_until_ready(self) -> float:
        """Wait until it takes posts, and say for how many seconds."""
        return self.process.wait_until_ready(READY_PATIENCE)

    def check(self) -> None:
        """Refuse to go on with a worker that has ended."""
        self.process.check()

    def resident(self) -> float:
        """Megabytes in memory now."""
        return self._megabytes("VmRSS")

    def peak(self) -> float:
        """Megabytes in memory, at most so far."""
        return self._megabytes("VmHWM")

    def _megabytes(self, key: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(key))
        return int(line.split()[1]) / 1024

    def cpu(self) -> float:
        """Seconds of CPU used since the start, all threads together."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def running_worker(
    scene: StreamScene, seeds: str, own: Mapping[str, str] | None = None
) -> Iterator[WatchedWorker]:
    """A worker on the scene's topics while the block lasts, with the seeds of this role.

    It may have settings of its own, by the names of their variables.
    """
    group = f"{scene.name}-{seeds}-{time.time_ns():x}"
    topics = {role: scene.topic(role) for role in ("posts", "matches", "rejected")}
    topics["seeds"] = scene.topic(seeds)
    settings = {f"NEWSIFT_TOPICS__{role.upper()}": name for role, name in topics.items()}
    # Forbidden to keep compiled modules, Python would compile them all at every start.
    settings |= {"NEWSIFT_KAFKA__GROUP": group, "PYTHONDONTWRITEBYTECODE": "", **(own or {})}
    with (
        tempfile.TemporaryDirectory() as folder,
        worker_process(scene.kafka, Path(folder), settings) as process,
    ):
        yield WatchedWorker(process, group)


SLICE = 0.005  # seconds between two handfuls of posts
WARM = 5.0


def latencies(
    scene: StreamScene, worker: WatchedWorker, texts: Sequence[str], rate: int, seconds: float,
    warm: float = WARM,
) -> list[float]:  # fmt: skip
    """Milliseconds from a post's timestamp to its match at a consumer, without the first ones."""
    stopped = threading.Event()
    arrivals: list[tuple[int, float]] = []
    reader = threading.Thread(target=collect, args=(scene, stopped, arrivals))
    reader.start()
    try:
        began = time.time()
        pace(scene, texts, rate, seconds + warm)
        time.sleep(2)
        worker.check()
    finally:
        stopped.set()
        reader.join()
    return [seen * 1e3 - sent for sent, seen in arrivals if sent / 1e3 > began + warm]


def pace(scene: StreamScene, texts: Sequence[str], rate: int, seconds: float) -> None:
    """Send posts at a steady rate, a few at a time."""
    records, sent, began = post_records(texts, int(rate * seconds)), 0, time.perf_counter()
    with KafkaProducer(bootstrap_servers=scene.kafka, linger_ms=0) as producer:
        while due := int((time.perf_counter() - began) * rate) - sent + 1:
            handful = list(islice(records, due))
            if not handful:
                break
            for key, value in handful:
                producer.send(scene.topic("posts"), value, key=key)
            sent += len(handful)
            time.sleep(SLICE)
        producer.flush()


def collect(
    scene: StreamScene, stopped: threading.Event, arrivals: list[tuple[int, float]]
) -> None:
    """Note for every match when its post was sent and when the match was here."""
    with KafkaConsumer(bootstrap_servers=scene.kafka, fetch_max_wait_ms=100) as consumer:
        parts = scene.partitions("matches")
        consumer.assign(parts)
        consumer.seek_to_end()
        for part in parts:
            consumer.position(part)
        while not stopped.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                seen = time.time()
                sources = (json.loads(record.value)["source"] for record in records)
                arrivals.extend((source["timestamp"], seen) for source in sources)


CHUNK = 100_000
AHEAD = 400_000
STALLED = 300.0


class MemoryReading(NamedTuple):
    """The posts done, the megabytes resident, and the CPU µs of each post since the last one."""

    posts: int
    resident: float
    cost: float


def memory(
    scene: StreamScene, seeds: str, texts: Sequence[str], posts: int, say: Say
) -> list[MemoryReading]:
    """What the worker holds and what a post costs it, ten times on the way."""
    done, ended = [0], threading.Event()

    def feed() -> None:
        """Publish all posts, never too many ahead of the worker, so that no disk fills."""
        records, sent = post_records(texts, posts), 0
        while sent < posts and not ended.is_set():
            if sent - done[0] > AHEAD:
                time.sleep(0.2)
                continue
            chunk = min(CHUNK, posts - sent)
            sent += scene.publish("posts", (next(records) for _ in range(chunk)))

    with running_worker(scene, seeds) as worker:
        worker.wait_until_ready()
        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            return readings(worker, scene, posts, done, say)
        finally:
            ended.set()
            feeder.join()


def readings(
    worker: WatchedWorker, scene: StreamScene, posts: int, done: list[int], say: Say
) -> list[MemoryReading]:
    """The worker's memory and CPU at every tenth of the way."""
    rows: list[MemoryReading] = []
    moved, before, spent = time.monotonic(), 0, worker.cpu()
    with scene.commits(worker.group) as committed:
        while done[0] < posts:
            worker.check()
            time.sleep(0.5)
            now = committed()
            if now > done[0]:
                done[0], moved = now, time.monotonic()
            elif time.monotonic() - moved > STALLED:
                raise NotAvailable(f"no post was committed for {STALLED:g} s, after {now:,}")
            if done[0] >= (len(rows) + 1) * posts // 10:
                used = worker.cpu()
                cost = 1e6 * (used - spent) / (done[0] - before)
                rows.append(MemoryReading(done[0], worker.resident(), cost))
                before, spent = done[0], used
                say(f"{done[0]:,} of {posts:,} posts, {rows[-1].resident:.0f} MB, {cost:.1f} µs")
    return rows


EMPTY_POSTS = 40_000
RUN_PATIENCE = 900.0
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


class Measured(NamedTuple):
    """Posts a second, and where it is known the microseconds of CPU for a post."""

    rate: float
    cpu: float | None = None


Measure = Callable[[], Measured]


def encoder_row(model: str, texts: Sequence[str]) -> Measure:
    """Text to embeddings in a fresh process, on all cores, without any Kafka."""

    def measure() -> Measured:
        done = subprocess.run(
            [sys.executable, "-c", ENCODE, model], input=json.dumps(list(texts)),
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NotAvailable(f"the encoder failed: {done.stderr.strip().splitlines()[-1]}")
        return Measured(float(done.stdout))

    return measure


def worker_row(scene: StreamScene, seeds: str, posts: int) -> Measure:
    """The worker from its first commit to its last, over all posts of the topic."""

    def measure() -> Measured:
        with running_worker(scene, seeds) as worker:
            worker.wait_until_ready()
            return watch(worker, scene, posts)

    return measure


def watch(worker: WatchedWorker, scene: StreamScene, posts: int) -> Measured:
    """The rate and the CPU between the first commit that is seen and the last."""
    with scene.commits(worker.group) as committed:
        first = last = committed()
        began = ended = time.perf_counter()
        cpu = worker.cpu()
        while last < posts:
            worker.check()
            if time.perf_counter() - began > RUN_PATIENCE:
                done = f"{last:,} of {posts:,} posts"
                raise NotAvailable(f"{done} were committed in {RUN_PATIENCE:g} s")
            time.sleep(0.1)
            last, ended = committed(), time.perf_counter()
            if first == 0:
                first, began, cpu = last, ended, worker.cpu()
    timed = last - first
    if timed < posts / 4:
        raise NotAvailable(f"{posts:,} posts were over too soon to be timed; take more")
    return Measured(timed / (ended - began), (worker.cpu() - cpu) / timed * 1e6)


def empty_row(scene: StreamScene, posts: int) -> Measure:
    """Faust's own way: one event after the other, into an agent that does nothing."""
    env = dict(os.environ) | {
        "BENCH_KAFKA": scene.kafka,
        "BENCH_TOPIC": scene.topic("posts"),
        "BENCH_POSTS": str(min(posts, EMPTY_POSTS)),
    }

    def measure() -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*faust(), "-A", "bench.empty_agent", "--datadir", folder,
                 "worker", "--without-web"],
                cwd=ROOT, env=env, capture_output=True, text=True, check=False,
                timeout=RUN_PATIENCE,
            )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("rate ")]
        if not lines:
            raise NotAvailable(f"Faust's empty agent ended with {done.returncode}")
        return Measured(float(lines[-1].split()[1]))

    return measure


PARTS = ("start", "speed", "latency", "memory")
SHARE = 0.02
POSTS = 98_304
FEW, MANY = 10, 12_704
RATE = 1_000  # posts a second, for the latency
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
MODEL = "default"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the command line asks for."""

    kafka: str | None
    data: Path | None
    articles: Path | None
    posts: int
    rounds: int
    seconds: float
    memory_posts: int
    only: frozenset[str]

    def wants(self, part: str) -> bool:
        """Whether a part was asked for; the long one is measured only by name."""
        return part in self.only if self.only else part != "memory"


def measure_stream(options: StreamOptions, say: Say) -> list[ResultTable]:
    """Measure everything asked for on the broker given, or on the embedded one."""
    odd = options.only - set(PARTS)
    if odd:
        raise InputError(f"--only: {', '.join(sorted(odd))} is no part; choose from {PARTS}")
    with broker(options.kafka) as kafka:
        stage = StreamStage(options, kafka, say)
        return [stage.where(), *(getattr(stage, part)() for part in filter(options.wants, PARTS))]


class StreamStage:
    """What every part is measured on: each sets its own scene on the one broker."""

    def __init__(self, options: StreamOptions, kafka: str, say: Say) -> None:
        self.options, self.kafka, self.say = options, kafka, say
        self.posts, self.source = read_posts(options.data, POSTS)
        self.articles = read_articles(options.articles or options.data, MANY)
        self.sets = sorted({min(FEW, len(self.articles)), len(self.articles)})
        with encoder.load(MODEL, device="cpu") as enc:
            self.cuts = {
                count: threshold_for(enc, self.posts, self.articles[:count], SHARE)
                for count in self.sets
            }

    def where(self) -> ResultTable:
        """The machine, the broker and the texts."""
        counts = f"{len(self.posts):,} posts, {len(self.articles):,} articles"
        return ResultTable.where(describe() | {
            "broker": self.options.kafka or "the embedded one; a real Kafka by --kafka",
            "texts": f"{counts}: {self.source}",
            "matches": f"thresholds set so that {SHARE:.0%} of the posts match",
        })  # fmt: skip

    def start(self) -> ResultTable:
        """From the start of the process to ready, and what it then holds."""
        scene = self._scene(self.sets)
        rows = []
        for count in self.sets:
            with running_worker(scene, seeds_of(count)) as worker:
                rows.append((f"{count:,} seeds", worker.wait_until_ready(), worker.resident()))
        return ResultTable("start", "Start", ("start to ready", "seconds", "MB resident"), rows)

    def speed(self) -> ResultTable:
        """Posts a second of every row, round by round."""
        scene, count = self._scene(self.sets), self.options.posts
        self.say(f"publishing {count:,} posts")
        scene.publish("posts", post_records(self.posts, count))
        rows = {"encoder: text → embeddings": encoder_row(MODEL, self.posts)}
        for seeds in self.sets:
            rows[f"worker, {seeds:,} seeds"] = worker_row(scene, seeds_of(seeds), count)
        rows["Faust's agent that does nothing"] = empty_row(scene, count)
        return speed_part(rounds_of(rows, self.options.rounds, self.say))

    def latency(self) -> ResultTable:
        """From a post's timestamp to its match at a consumer."""
        seeds = self.sets[0]
        scene = self._scene([seeds])
        self.say(f"{RATE:,} posts a second")
        with running_worker(scene, seeds_of(seeds)) as worker:
            worker.wait_until_ready()
            milliseconds = latencies(scene, worker, self.posts, RATE, self.options.seconds)
        if not milliseconds:
            raise NotAvailable("no match came; give other posts with --data")
        title = f"Produce → match at {RATE:,} posts/s, {len(milliseconds):,} matches"
        values = [percentile(milliseconds, share) for share in SHARES.values()]
        return ResultTable("latency", title, ("", *SHARES), [("ms", *values)])

    def memory(self) -> ResultTable:
        """What the worker holds, and what a post costs it, after every tenth of many posts."""
        few, posts = self.sets[0], self.options.memory_posts
        scene = self._scene([few], {"retention.bytes": str(2**28), "segment.bytes": str(2**26)})
        readings = memory(scene, seeds_of(few), self.posts, posts, self.say)
        _, held, cost = readings[0]
        rows = [
            (at.posts, at.resident, at.resident / held, at.cost, at.cost / cost) for at in readings
        ]
        header = ("posts", "MB resident", "× the first", "CPU µs a post", "× the first's")
        return ResultTable("memory", "Memory and cost", header, rows)

    def _scene(self, sets: Sequence[int], limits: Mapping[str, str] | None = None) -> StreamScene:
        """New topics, and these sets of seeds on control topics of their own."""
        scene = StreamScene.fresh(self.kafka)
        for role in ("posts", "matches", "rejected"):
            scene.create(role, PARTITIONS, dict(limits or {}))
        for count in sets:
            self.say(f"publishing {count:,} seeds")
            scene.create(seeds_of(count), 1, {"cleanup.policy": "compact"})
            seeds = seed_records(self.articles[:count], self.cuts[count])
            scene.publish(seeds_of(count), seeds)
        return scene


def rounds_of(rows: Mapping[str, Measure], rounds: int, say: Say) -> dict[str, list[Measured]]:
    """Every row once a round; a row that cannot run ends the bench with its reason."""
    results: dict[str, list[Measured]] = {name: [] for name in rows}
    for i in range(rounds):
        for name, measure in rows.items():
            say(f"round {i + 1} of {rounds}: {name}")
            results[name].append(measure())
    return results


def speed_part(results: Mapping[str, list[Measured]]) -> ResultTable:
    """The table of rates, with ratios to the encoder and to Faust's empty agent."""
    rates = {name: [one.rate for one in measured] for name, measured in results.items()}
    against = ("× encoder", "× empty agent")
    header = ("row", "posts/s", "lowest", "highest", *against, "CPU µs a post")
    first, *_, last = rates.values()
    rows = []
    for name, mine in rates.items():
        cpu = [one.cpu for one in results[name] if one.cpu is not None]
        ratios = ratio(mine, first), ratio(mine, last)
        rows.append((name, *spread(mine), *ratios, median(cpu) if cpu else None))
    return ResultTable("speed", "Posts a second, the rows interleaved", header, rows)


@contextmanager
def broker(address: str | None) -> Iterator[str]:
    """The broker named, or the embedded one in a process of its own."""
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
    """Its topic of seeds."""
    return f"seeds-{count}"
