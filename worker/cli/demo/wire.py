"""The demo's own Kafka clients: what it sends, and the matches and dead letters that it hears."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from worker.cli.demo.script import Message
from worker.cli.demo.tally import Tally, read_match
from worker.config import Config
from worker.kafka.settings import kafka_python_settings

ACK_S = 10.0


class Wire:
    """Sends messages and seeds, and files what comes back in a tally."""

    def __init__(self, producer: Any, consumer: Any, config: Config) -> None:
        self.tally = Tally()
        self._producer, self._consumer, self._topics = producer, consumer, config.topics
        self._under_way: list[tuple[Message, Any]] = []

    def send(self, message: Message) -> None:
        """Send a post, or what only looks like one."""
        # Neither key nor value is more than the client takes: what has no value needs a key.
        key = str(message.post.id).encode() if message.post else b"no post"
        sent = self._producer.send(self._topics.posts, value=message.value, key=key)
        self._under_way.append((message, sent))

    def seed(self, name: str, record: bytes | None) -> None:
        """Publish a seed, or without a record delete it, and wait for the acknowledgement."""
        sent = self._producer.send(self._topics.seeds, value=record, key=name.encode())
        sent.get(timeout=ACK_S)

    def settle(self) -> None:
        """Wait until every message is acknowledged, and note where it stands."""
        for message, sent in self._under_way:
            at = sent.get(timeout=ACK_S)
            self.tally.sent[at.partition, at.offset] = message
        self._under_way.clear()

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """The match records that arrive within this time; dead letters are filed on the way."""
        found = self._consumer.poll(timeout_ms=max(int(seconds * 1000), 1))
        now = time.time()
        records = []
        for record in (record for part in found.values() for record in part):
            if record.topic == self._topics.rejected:
                self.tally.dead_letter(record.headers)
            else:
                records.append(read_match(record.value))
                self.tally.match(records[-1], now)
        return records


@contextmanager
def wire(config: Config) -> Iterator[Wire]:
    """The clients, connected to the broker of a configuration whose topics are there."""
    import kafka

    settings = kafka_python_settings(config) | {"metrics_enabled": False}
    producer = kafka.KafkaProducer(**settings, acks="all", allow_auto_create_topics=False)
    try:
        consumer = kafka.KafkaConsumer(
            **settings, enable_auto_commit=False, allow_auto_create_topics=False
        )
        try:
            topics = (config.topics.matches, config.topics.rejected)
            parts = [
                kafka.TopicPartition(topic, part)
                for topic in topics for part in sorted(consumer.partitions_for_topic(topic))
            ]  # fmt: skip
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            yield Wire(producer, consumer, config)
        finally:
            consumer.close(autocommit=False, timeout_ms=1000)
    finally:
        producer.close(timeout=1)
