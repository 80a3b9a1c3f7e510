"""The topics of a measurement, and the records on them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from bench.measure import ResultTable, describe
from bench.texts import Article
from newsift.cli.processes import free_port
from worker.config import Config, KafkaConfig
from worker.kafka.sending import Outbox, sending

PARTITIONS = 4
POSTS = 98_304
FEW = 10  # articles

Record = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class BenchTopics:
    """The topics of one measurement, on one broker."""

    kafka: str
    prefix: str  # of their names

    @classmethod
    def create(cls, kafka: str, seeds: Mapping[str, Iterable[Record]]) -> "BenchTopics":
        """New topics, with a control topic for each set of seeds, by its role."""
        topics = cls(kafka, f"bench-{int(time.time() * 1000):x}")
        names = [topics.name(role) for role in ("posts", "matches", "rejected")]
        new = [NewTopic(name, PARTITIONS, 1) for name in names]
        compact = {"cleanup.policy": "compact"}
        new += [NewTopic(topics.name(role), 1, 1, topic_configs=compact) for role in seeds]
        with KafkaAdminClient(bootstrap_servers=kafka) as admin:
            admin.create_topics(new)
        for role, records in seeds.items():
            topics.publish(role, records)
        return topics

    def name(self, role: str) -> str:
        """The name of the topic in this role: posts, matches, rejected, or a set of seeds."""
        return f"{self.prefix}-{role}"

    def partitions(self, role: str) -> list[TopicPartition]:
        return [TopicPartition(self.name(role), p) for p in range(PARTITIONS)]

    def publish(self, role: str, records: Iterable[Record]) -> None:
        """Publish compressed records and wait for the broker."""
        with self.sending(linger_ms=20) as outbox:
            for key, value in records:
                outbox.send(self.name(role), value, key)
            outbox.settle()

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
        yield _record(str(i), {"id": str(i), "text": text})


def seed_records(articles: Sequence[Article]) -> list[Record]:
    """The articles as seeds, with automatic thresholds."""
    return [
        _record(f"seed-{i:05}", {"title": title, "text": text})
        for i, (title, text) in enumerate(articles)
    ]


def _record(key: str, value: dict[str, object]) -> Record:
    return key.encode(), json.dumps(value, ensure_ascii=False).encode()


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


def where(kafka: str | None, posts: int, articles: int, source: str) -> ResultTable:
    return ResultTable.where(describe() | {
        "broker": kafka or "the embedded one; a real Kafka by --kafka",
        "texts": f"{posts:,} posts, {articles:,} articles: {source}",
        "thresholds": "automatic",
    })  # fmt: skip
