"""`newsift bench collect`: events a second from a local Jetstream to the broker."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.jetstream import V1, V2
from bench.measure import NotAvailable, Report, ResultTable, describe, spread
from bench.stream import PARTITIONS, BenchTopics, WatchedWorker, broker
from bench.texts import ROOT
from newsift.cli.processes import WorkerProcess, free_port

INTERFACES = {"v1 /subscribe": V1, "v2 subscribeEvents": V2}
TIMEOUT_S = 600.0
SAMPLE_S = 0.05
GOAL = 5_000  # events a second on one core


class CollectSpeed(NamedTuple):
    """Events a second by the clock, and the microseconds of CPU for one."""

    rate: float
    cpu: float


def measure_collect(
    kafka: str | None, data: Path | None, events: int, rounds: int, report: Report
) -> list[ResultTable]:
    """Measure both interfaces in turn, the Jetstream and the broker in processes of their own."""
    speeds_by_interface: dict[str, list[CollectSpeed]] = {name: [] for name in INTERFACES}
    with broker(kafka) as address, replaying(events, data) as port:
        for number in range(rounds):
            for name, path in INTERFACES.items():
                report(f"round {number + 1} of {rounds}: {name}")
                speeds_by_interface[name].append(
                    measure_speed(address, f"ws://127.0.0.1:{port}{path}", events)
                )
    rows = [
        (name, *spread([speed.rate for speed in speeds]), cpu, 1e6 / cpu)
        for name, speeds in speeds_by_interface.items()
        for cpu in [median(speed.cpu for speed in speeds)]
    ]
    rates = ("events/s", "lowest", "highest")
    header = ("interface", *rates, "CPU µs an event", "events/s of one core")
    remark = f"goal: {GOAL:,} events/s on one core; {events:,} events a round, {rounds} rounds"
    where = describe() | {"broker": kafka or "the embedded one; a real Kafka by --kafka"}
    return [
        ResultTable.where(where),
        ResultTable("collect", "newsift collect bluesky", header, rows, [remark]),
    ]


@contextmanager
def replaying(events: int, data: Path | None) -> Iterator[int]:
    """A Jetstream in a process of its own; yields its port."""
    command = [sys.executable, "-m", "bench.jetstream", str(events)]
    command += [str(data)] if data else []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline()
            if not port:
                raise NotAvailable("the local Jetstream did not start; see its output above")
            yield int(port)
        finally:
            process.terminate()


@contextmanager
def collector(kafka: str, url: str, topic: str) -> Iterator[WorkerProcess]:
    port = free_port()
    env = os.environ | {"NEWSIFT_TOPICS__POSTS": topic, "NEWSIFT_WEB__PORT": str(port)}
    command = [sys.executable, "-c", "from newsift.cli import main; main()", "collect", "bluesky"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command += ["--url", url, "--kafka", kafka, "--state", f"{folder}/state.json"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=env, stderr=output)
        try:
            yield WorkerProcess(process, port, log)
        finally:
            process.kill()
            process.wait()


def measure_speed(kafka: str, url: str, events: int) -> CollectSpeed:
    """The rate between the first sample with an acknowledgement and the last."""
    topics = BenchTopics.fresh(kafka)
    topics.create("posts", PARTITIONS, {})
    with collector(kafka, url, topics.name("posts")) as process:
        worker = WatchedWorker(process, "")
        samples: list[tuple[float, float, int]] = []  # time, CPU seconds, events
        ends = time.perf_counter() + TIMEOUT_S
        while not samples or samples[-1][2] < events:
            process.check()
            if time.perf_counter() > ends:
                raise NotAvailable(
                    f"{events:,} events took more than {TIMEOUT_S:g} s; give fewer with --events"
                )
            time.sleep(SAMPLE_S)
            count = sum(process.counter_values("newsift_collect_acknowledged_total").values())
            if count:
                samples.append((time.perf_counter(), worker.cpu(), count))
    return between(samples)


def between(samples: Sequence[tuple[float, float, int]]) -> CollectSpeed:
    """The rate and the CPU between the first sample and the last."""
    (first_time, first_cpu, first), (last_time, last_cpu, last) = samples[0], samples[-1]
    if last - first < last / 4:
        raise NotAvailable(f"{last:,} events are too few to be timed; give more with --events")
    count, seconds = last - first, last_time - first_time
    return CollectSpeed(count / seconds, (last_cpu - first_cpu) / count * 1e6)
