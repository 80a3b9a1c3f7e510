"""A worker, or a peer's program, on the topics of a measurement: its speed and its latency."""

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from kafka import KafkaConsumer

from bench.measure import NotAvailable, resident
from bench.peer_programs import PeerJob
from bench.texts import ROOT
from bench.topics import BenchTopics, post_records
from newsift.cli.processes import worker_process

READY_TIMEOUT_S = 300.0  # for a worker with many seeds
START_TIMEOUT_S = 60.0  # until a program has committed something
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
RATE = 1_000  # posts a second, for the latency
SEND_INTERVAL_S = 0.005
WARM_UP_S = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """A worker or peer on some topics, and its consumer group."""

    pid: int
    group: str
    topics: BenchTopics
    check: Callable[[], None]  # raises if it has ended
    ready_s: float = 0.0  # from the start, of a worker

    def cpu(self) -> float:
        """Seconds of CPU since the start, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


Start = Callable[[BenchTopics], AbstractContextManager[Program]]


@contextmanager
def running_worker(
    topics: BenchTopics, seeds: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Program]:
    """A worker on these topics that is ready, with the seeds of this role.

    `settings` are those of `matching`.
    """
    group = f"{topics.prefix}-{seeds}-{time.time_ns():x}"
    names = {role: topics.name(role) for role in ("posts", "matches", "rejected")}
    names["seeds"] = topics.name(seeds)
    env = {f"NEWSIFT_TOPICS__{role.upper()}": name for role, name in names.items()}
    # With PYTHONDONTWRITEBYTECODE, Python would compile all modules at each start.
    env |= {"NEWSIFT_KAFKA__GROUP": group, "PYTHONDONTWRITEBYTECODE": ""}
    env |= {f"NEWSIFT_MATCHING__{key.upper()}": value for key, value in settings.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        worker_process(topics.kafka, Path(folder), env) as process,
    ):
        ready_s = process.wait_until_ready(READY_TIMEOUT_S)
        yield Program(process.pid, group, topics, process.check, ready_s)


@contextmanager
def running_peer(topics: BenchTopics, command: Sequence[str], job: PeerJob) -> Iterator[Program]:
    """A peer's program with its job on these topics, for the length of the block."""
    group = f"{topics.prefix}-peer-{time.time_ns():x}"
    job = msgspec.structs.replace(
        job, kafka=topics.kafka, group=group, posts=topics.name("posts"),
        matches=topics.name("matches"),
    )  # fmt: skip
    env = {"BENCH_PEER": msgspec.json.encode(job).decode(), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command, env=os.environ | env, cwd=folder, stdout=subprocess.DEVNULL
        )

        def check() -> None:
            if (code := process.poll()) is not None:
                raise NotAvailable(f"a peer's program ended with exit code {code}; see its output")

        try:
            yield Program(process.pid, group, topics, check)
        finally:
            process.kill()
            process.wait()


class Speed(NamedTuple):
    rate: float  # posts a second
    cpu: float | None = None  # µs a post, where known
    resident: float | None = None  # MB, where known


def speed_of(start: Start, topics: BenchTopics, posts: int, seconds: float) -> Speed:
    """The rate and the CPU from the first commit on, for this time or until all posts are done."""
    with start(topics) as program, topics.commits(program.group) as position:
        began = time.perf_counter()
        while not (first := position()):
            program.check()
            if time.perf_counter() - began > START_TIMEOUT_S:
                raise NotAvailable(f"nothing was committed in {START_TIMEOUT_S:g} s")
            time.sleep(0.1)
        began, cpu, last, end = time.perf_counter(), program.cpu(), first, 0.0
        while last < posts and time.perf_counter() - began < seconds:
            program.check()
            time.sleep(0.1)
            now = position()
            if now > last:  # programs commit rarely: the last commit ends the window
                last, end = now, time.perf_counter()
                cpu_s = program.cpu() - cpu
        if last - first < posts / 4 and time.perf_counter() - began < seconds:
            raise NotAvailable(f"{posts:,} posts are too few to be timed; give more with --posts")
        if last == first:
            raise NotAvailable(f"no more posts were committed in {seconds:g} s")
        cost = cpu_s / (last - first) * 1e6
        return Speed((last - first) / (end - began), cost, resident(program.pid))


def latencies_of(
    start: Start, topics: BenchTopics, texts: Sequence[str], seconds: float
) -> list[float]:
    """Milliseconds from a post's timestamp to its match at a consumer, after the warm-up."""
    stop = threading.Event()
    with start(topics) as program, ThreadPoolExecutor(1) as pool:
        arrivals = pool.submit(collect_matches, topics, stop)
        try:
            began = time.time()
            send_steadily(topics, texts, seconds + WARM_UP_S)
            time.sleep(2)
            program.check()
        finally:
            stop.set()
    since = began + WARM_UP_S
    values = [arrived * 1e3 - at for at, arrived in arrivals.result() if at / 1e3 > since]
    if not values:
        raise NotAvailable(f"no match came in {seconds:g} s; give more with --seconds")
    return values


def send_steadily(topics: BenchTopics, texts: Sequence[str], seconds: float) -> None:
    records, count, start = post_records(texts, int(RATE * seconds)), 0, time.perf_counter()
    with topics.sending(linger_ms=0) as outbox:
        while due := int((time.perf_counter() - start) * RATE) - count + 1:
            batch = list(islice(records, due))
            if not batch:
                break
            for key, value in batch:
                outbox.send(topics.name("posts"), value, key)
            count += len(batch)
            time.sleep(SEND_INTERVAL_S)
        outbox.settle()


def collect_matches(topics: BenchTopics, stop: threading.Event) -> list[tuple[int, float]]:
    """When each match's post was sent, in milliseconds, and when the match arrived."""
    arrivals: list[tuple[int, float]] = []
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
    return arrivals
