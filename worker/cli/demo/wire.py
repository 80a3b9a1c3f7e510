"""The demo's own Kafka clients: what it sends, and the matches and dead letters that it hears."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from worker.cli.demo.script import Cue
from worker.cli.demo.tally import Tally
from worker.config import Config
from worker.files.matches import read_match
from worker.kafka.settings import kafka_python_settings
from worker.match.records import MatchRecord

ACK_S = 10.0


class Wire:
    """Sends messages and seeds, and files what comes back in a tally."""

    def __init__(self, producer: Any, consumer: Any, config: Config) -> None:
        self.tally = Tally()
        self._producer, self._consumer, self._topics = producer, consumer, config.topics
        self._under_way: list[tuple[Cue, Any]] = []

    def send(self, cue: Cue) -> None:
        """Send a post, or what only looks like one."""
        # Neither key nor value is more than the client takes: what has no value needs a key.
        key = str(cue.post.id).encode() if cue.post else b"no post"
        self._under_way.append((cue, self._producer.send(self._topics.posts, cue.value, key)))

    def seed(self, name: str, record: bytes | None) -> None:
        """Publish a seed, or without a record delete it, and wait for the acknowledgement."""
        self._producer.send(self._topics.seeds, record, name.encode()).get(timeout=ACK_S)

    def settle(self) -> None:
        """Wait until every message is acknowledged, and note where it stands."""
        for cue, sent in self._under_way:
            at = sent.get(timeout=ACK_S)
            self.tally.sent[at.partition, at.offset] = cue
        self._under_way.clear()

    def hear(self, seconds: float) -> Iterator[MatchRecord]:
        """The match records that arrive within this time; dead letters are filed on the way."""
        found = self._consumer.poll(timeout_ms=max(int(seconds * 1000), 1))
        now = time.time()
        for record in (record for part in found.values() for record in part):
            if record.topic == self._topics.rejected:
                self.tally.dead_letter(record.headers)
            elif match := read_match(record.value):
                self.tally.match(match, now)
                yield match


@contextmanager
def wire(config: Config) -> Iterator[Wire]:
    """The clients, connected to the broker of a configuration whose topics are there."""
    import kafka

    settings = kafka_python_settings(config) | {
        "metrics_enabled": False, "allow_auto_create_topics": False,
    }  # fmt: skip
    with (
        closing(kafka.KafkaProducer(**settings, acks="all")) as producer,
        closing(kafka.KafkaConsumer(**settings, enable_auto_commit=False)) as consumer,
    ):
        parts = [
            kafka.TopicPartition(topic, part)
            for topic in (config.topics.matches, config.topics.rejected)
            for part in sorted(consumer.partitions_for_topic(topic))
        ]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        yield Wire(producer, consumer, config)
