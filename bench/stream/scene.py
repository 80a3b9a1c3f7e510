"""What all rows of the stream share: a broker with posts and seeds on it."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from bench.posts import Article
from encoder import Encoder

PARTITIONS = 4
SAMPLE = 4096


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

    def create(self, role: str, partitions: int, configs: dict[str, str]) -> None:
        """Make a topic."""
        admin = KafkaAdminClient(bootstrap_servers=self.kafka)
        topic = NewTopic(self.topic(role), partitions, 1, topic_configs=configs)
        try:
            admin.create_topics([topic])
        finally:
            admin.close()

    def publish(self, role: str, records: Iterable[tuple[bytes, bytes]]) -> int:
        """Write records to a topic and wait until the broker has them; says how many."""
        producer = KafkaProducer(bootstrap_servers=self.kafka, linger_ms=20, batch_size=2**17)
        sent = 0
        try:
            for key, value in records:
                producer.send(self.topic(role), value, key=key)
                sent += 1
            producer.flush()
        finally:
            producer.close()
        return sent

    def committed(self, group: str) -> int:
        """How many posts a group has committed."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.kafka, group_id=group, enable_auto_commit=False
        )
        try:
            parts = [TopicPartition(self.topic("posts"), p) for p in range(PARTITIONS)]
            return sum(consumer.committed(part) or 0 for part in parts)
        finally:
            consumer.close()


def post_records(texts: Sequence[str], count: int) -> Iterator[tuple[bytes, bytes]]:
    """So many plain posts with ids of their own, the texts over and over."""
    for i, text in enumerate(islice(cycle(texts), count)):
        value = {"id": str(i), "text": text}
        yield str(i).encode(), json.dumps(value, ensure_ascii=False).encode()


def seed_records(articles: Sequence[Article], threshold: float) -> Iterator[tuple[bytes, bytes]]:
    """The articles as seeds with one threshold for all."""
    for i, (title, text) in enumerate(articles):
        value = {"title": title, "text": text, "threshold": threshold}
        yield f"seed-{i:05}".encode(), json.dumps(value, ensure_ascii=False).encode()


def threshold_for(
    enc: Encoder, texts: Sequence[str], articles: Sequence[Article], share: float
) -> float:
    """The score that this share of the posts reaches with at least one of the articles."""
    posts = enc.posts(texts[:SAMPLE])
    best = np.zeros(len(posts), np.float32)
    for start in range(0, len(articles), 512):
        seeds = enc.articles(articles[start : start + 512])
        np.maximum(best, posts.similarity(seeds).max(axis=1), out=best)
    cut: float = np.quantile(best, 1 - share).item()
    return min(max(cut, 1e-6), 1.0)
