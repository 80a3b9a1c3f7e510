"""What all rows of the stream share: a broker with posts and seeds on it."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from bench.texts import Article
from encoder import Encoder

PARTITIONS = 4
SAMPLE = 4096

Record = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Scene:
    """Topics with names of their own on one broker."""

    kafka: str
    name: str

    @classmethod
    def fresh(cls, kafka: str) -> "Scene":
        """A scene whose topics nobody has used before."""
        return cls(kafka, f"bench-{int(time.time() * 1000):x}")

    def topic(self, role: str) -> str:
        """The name of the topic in this role: posts, matches, rejected, or a set of seeds."""
        return f"{self.name}-{role}"

    def partitions(self, role: str) -> list[TopicPartition]:
        """The partitions of a topic that the worker reads or writes."""
        return [TopicPartition(self.topic(role), p) for p in range(PARTITIONS)]

    def create(self, role: str, partitions: int, configs: dict[str, str]) -> None:
        """Make a topic."""
        topic = NewTopic(self.topic(role), partitions, 1, topic_configs=configs)
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            admin.create_topics([topic])

    def publish(self, role: str, records: Iterable[Record]) -> int:
        """Write records to a topic and wait until the broker has them; says how many."""
        sent = 0
        with KafkaProducer(
            bootstrap_servers=self.kafka, linger_ms=20, batch_size=2**17
        ) as producer:
            for key, value in records:
                producer.send(self.topic(role), value, key=key)
                sent += 1
            producer.flush()
        return sent

    def committed(self, group: str) -> int:
        """How many posts a group has committed."""
        with KafkaConsumer(
            bootstrap_servers=self.kafka, group_id=group, enable_auto_commit=False
        ) as consumer:
            return sum(consumer.committed(part) or 0 for part in self.partitions("posts"))


def post_records(texts: Sequence[str], count: int) -> Iterator[Record]:
    """So many plain posts with ids of their own, the texts over and over."""
    for i, text in enumerate(islice(cycle(texts), count)):
        yield record(str(i), {"id": str(i), "text": text})


def seed_records(articles: Sequence[Article], threshold: float) -> Iterator[Record]:
    """The articles as seeds with one threshold for all."""
    for i, (title, text) in enumerate(articles):
        yield record(f"seed-{i:05}", {"title": title, "text": text, "threshold": threshold})


def record(key: str, value: dict[str, object]) -> Record:
    """A key and a value as Kafka takes them."""
    return key.encode(), json.dumps(value, ensure_ascii=False).encode()


def threshold_for(
    enc: Encoder, texts: Sequence[str], articles: Sequence[Article], share: float
) -> float:
    """The score that this share of the posts reaches with at least one of the articles."""
    best, _ = enc.posts(texts[:SAMPLE]).search(enc.articles(articles), k=1)
    cut: float = np.quantile(best[:, 0], 1 - share).item()
    return min(max(cut, 1e-6), 1.0)
