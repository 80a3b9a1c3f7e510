"""How long partitions pause while workers restart, come and die, on Apache Kafka and under load.

python -m tests.faults.rolling --workers 8 --partitions 16 --rate 1000

Each worker has an instance id. A pause is the longest time between two commits of a partition, by
the broker's own times in its topic of offsets; the load gives each partition posts every 50 ms.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import asyncio
import itertools
import json
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml
from aiokafka import AIOKafkaProducer
from kafka import TopicPartition

from bench.stream import BenchTopics, seed_records
from bench.texts import SAMPLES, read_articles, read_posts
from tests.broker.clients import consumer
from tests.broker.server import opened
from tests.faults.process import Worker

GROUP = "rolling"
TICK_S = 0.05
BATCH_BYTES = 2**20  # of the posts of a partition in one tick
MAX_POSTS = 1000  # likewise
QUIET_S = 10.0  # of the row in which nothing happens
CALM_S = 2.0  # after every partition has a commit again
PATIENCE_S = 240.0
KILLS = 4  # workers killed and restarted, one after another
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Load(threading.Thread):
    """Writes posts at a rate, the same to each partition, and each post once.

    The texts are those of messages, with %d for the number of the post.
    """

    def __init__(
        self, address: str, topic: str, partitions: int, rate: float, texts: Sequence[bytes]
    ) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._partitions = address, topic, partitions
        self._texts, self._over = texts, threading.Event()
        self.rate, self.sent = rate, 0

    def run(self) -> None:
        asyncio.run(self._write())

    def stop(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join()

    async def _write(self) -> None:
        texts, partitions = itertools.cycle(self._texts), itertools.count()
        then, due = time.monotonic(), 0.0
        async with AIOKafkaProducer(
            bootstrap_servers=self._address, max_batch_size=BATCH_BYTES, enable_idempotence=True,
            request_timeout_ms=round(PATIENCE_S * 1000),  # a busy machine's broker starts slowly
        ) as client:  # fmt: skip
            await client.partitions_for(self._topic)
            while not self._over.is_set():
                await asyncio.sleep(TICK_S)
                now = time.monotonic()
                due, then = due + self.rate * (now - then), now
                count = min(round(due) - self.sent, MAX_POSTS * self._partitions)
                shares, rest = divmod(count, self._partitions)
                waiting = []
                for n in range(self._partitions):
                    share = shares + (n < rest)
                    partition = next(partitions) % self._partitions
                    if share:
                        batch = client.create_batch()
                        for text in itertools.islice(texts, share):
                            value = text % self.sent
                            self.sent += 1
                            assert batch.append(key=None, value=value, timestamp=None)
                        waiting.append(
                            await client.send_batch(batch, self._topic, partition=partition)
                        )
                await asyncio.gather(*waiting)


def post_templates(texts: Iterable[str]) -> list[bytes]:
    """Messages as Load takes them."""
    return [
        b'{"id":"%%d","text":%s}' % json.dumps(text).encode().replace(b"%", b"%%") for text in texts
    ]


class CommitLog:
    """The times of the group's commits by partition, as the broker recorded them."""

    def __init__(self, client: Any) -> None:
        self._client = client
        client.assign([OFFSETS])
        client.seek_to_end(OFFSETS)
        self.times: dict[int, list[float]] = defaultdict(list)

    def read(self) -> dict[int, list[float]]:
        """All times so far."""
        end = self._client.end_offsets([OFFSETS])[OFFSETS]
        while self._client.position(OFFSETS) < end:
            for records in self._client.poll(100).values():
                for record in records:
                    partition = committed_partition(record.key)
                    if partition is not None and record.value is not None:
                        self.times[partition].append(record.timestamp / 1000)
        return self.times

    def pauses(self, began: float, ended: float) -> dict[int, float]:
        """The longest pause of each partition that reaches into this time."""
        result = {}
        for partition, times in self.read().items():
            gaps = [
                later - earlier
                for earlier, later in itertools.pairwise(times)
                if later > began and earlier < ended
            ]
            result[partition] = max(gaps, default=ended - began)
        return result


def committed_partition(key: bytes) -> int | None:
    """The partition of a commit of the group; None for any other record."""
    (version,) = struct.unpack_from(">h", key)
    if version > 1:  # metadata of a group
        return None
    (size,) = struct.unpack_from(">h", key, 2)
    if key[4 : 4 + size] != GROUP.encode():
        return None
    (partition,) = struct.unpack_from(">i", key, len(key) - 4)
    return int(partition)


class Row(NamedTuple):
    """The longest pause of each partition as one thing happened."""

    own: list[float]  # of the worker's
    others: list[float]
    rebalanced: bool  # some other worker


class Fleet:
    """The workers, by instance id, and what is measured of them."""

    def __init__(self, topics: BenchTopics, folder: Path, log: CommitLog) -> None:
        self._topics, self._folder, self._log = topics, folder, log
        self._starts = itertools.count()
        self.workers: dict[str, Worker] = {}
        self._rows: dict[str, list[Row]] = defaultdict(list)

    def start(self, name: str) -> None:
        settings = {
            "kafka": {
                "bootstrap_servers": self._topics.kafka, "group": GROUP, "instance_id": name
            },
            "topics": {
                role: self._topics.name(role) for role in ("posts", "seeds", "matches", "rejected")
            },
            "model": {"device": "cpu", "threads": 1},
            "web": {"port": 0},
        }  # fmt: skip
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(settings), "utf-8")
        folder = self._folder / f"start-{next(self._starts)}"
        self.workers[name] = Worker(folder, file, fork=False)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            for name, worker in self.workers.items():
                assert worker.alive(), f"{name} ended:\n{worker.output}"
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def settled(self, since: float) -> bool:
        """Whether all partitions have an owner and a commit since."""
        owned = [p for worker in self.workers.values() for p in worker.partitions()]
        times = self._log.read()
        width = self._topics.width
        return sorted(owned) == list(range(width)) and all(
            times[p] and times[p][-1] > since for p in range(width)
        )

    @contextmanager
    def measured(self, what: str, own: Callable[[], set[int]]) -> Iterator[None]:
        began, before = time.time(), dict(self.workers)
        assignments = {name: worker.assignments() for name, worker in before.items()}
        yield
        self.wait(lambda: self.settled(time.time() - CALM_S / 2))
        time.sleep(CALM_S)
        mine, pauses = own(), self._log.pauses(began, time.time())
        row = Row(
            [pause for p, pause in pauses.items() if p in mine],
            [pause for p, pause in pauses.items() if p not in mine],
            any(
                worker.assignments() > assignments[name]
                for name, worker in before.items()
                if self.workers.get(name) is worker
            ),
        )
        self._rows[what].append(row)

    def restart(self, name: str, end: Callable[[Worker], object], what: str) -> None:
        own = self.workers[name].partitions()
        with self.measured(what, lambda: own):
            end(self.workers[name])
            self.start(name)
            self.workers[name].ready()

    def table(self) -> Iterator[str]:
        yield (
            "| what happens | times | own partitions: median, s | at most "
            "| others: median, s | at most | rebalances of others |"
        )
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for what, rows in self._rows.items():
            own = [pause for row in rows for pause in row.own]
            others = [pause for row in rows for pause in row.others]
            rebalances = sum(row.rebalanced for row in rows)
            yield f"| {what} | {len(rows)} | {figures(own)} | {figures(others)} | {rebalances} |"


def figures(pauses: Sequence[float]) -> str:
    return f"{median(pauses):.2f} | {max(pauses):.2f}" if pauses else "- | -"


def measure(address: str, folder: Path, workers: int, partitions: int, rate: float) -> None:
    topics = BenchTopics.fresh(address, partitions)
    for role in ("posts", "matches", "rejected"):
        topics.create(role, partitions, {})
    topics.create("seeds", 1, {"cleanup.policy": "compact"})
    topics.publish("seeds", seed_records(read_articles(SAMPLES / "seeds", 10), None))
    texts, source = read_posts(None, 4096)
    load = Load(address, topics.name("posts"), partitions, rate, post_templates(texts))
    with consumer(address, group_id=GROUP) as client, consumer(address) as offsets:
        # The broker makes its topic of offsets when it is asked for the first.
        places = [TopicPartition(topics.name("posts"), p) for p in range(partitions)]
        client.committed(places[0])
        fleet = Fleet(topics, folder, CommitLog(offsets))
        try:
            run(fleet, load, workers)
            load.stop()
            fleet.wait(lambda: sum(client.committed(p) or 0 for p in places) == load.sent)
        finally:
            load.stop()
            for worker in fleet.workers.values():
                worker.kill()
    print(f"{load.sent:,} posts of {source}, all committed, {rate:,.0f} a second")
    print(*fleet.table(), sep="\n")


def run(fleet: Fleet, load: Load, workers: int) -> None:
    """Restart, kill and add workers, one after another."""
    names = [f"worker-{n}" for n in range(workers)]
    for name in names:
        fleet.start(name)
    for name in names:
        fleet.workers[name].ready()
    load.start()
    fleet.wait(lambda: fleet.settled(time.time() - CALM_S))
    with fleet.measured("nothing", set):
        time.sleep(QUIET_S)
    for name in names:
        fleet.restart(name, Worker.terminate, "restart under its id")
    for name in names[:KILLS]:
        fleet.restart(name, Worker.kill, "kill -9, restart under its id")
    added = f"worker-{workers}"
    with fleet.measured("one is added", lambda: fleet.workers[added].partitions()):
        fleet.start(added)
        fleet.wait(lambda: bool(fleet.workers[added].partitions()))
    own = fleet.workers[added].partitions()
    with fleet.measured("kill -9 for good", lambda: own):
        fleet.workers.pop(added).kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.faults.rolling", description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1000, help="posts a second in total")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with opened("apache", home) as kafka:
            measure(kafka.address, home, options.workers, options.partitions, options.rate)


if __name__ == "__main__":
    main()
