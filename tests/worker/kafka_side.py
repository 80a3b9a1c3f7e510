"""The other side of the commands: what a test puts into the topics, and finds there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from newsift.broker.server import Address, running

POSTS, SEEDS, MATCHES, REJECTED = "tweets", "seed-articles", "matched-tweets", "rejected-tweets"
LABELS = "newsift-labels"
PARTITIONS = {POSTS: 3, SEEDS: 1, MATCHES: 3, REJECTED: 3, LABELS: 1}
CONFIGS = {LABELS: {"cleanup.policy": "compact"}}

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class Kafka:
    """A broker of a test's own, with the topics."""

    address: Address

    def make(self, *topics: str) -> None:
        """Create topics."""
        admin = KafkaAdminClient(bootstrap_servers=str(self.address))
        admin.create_topics([
            NewTopic(name, PARTITIONS[name], 1, topic_configs=CONFIGS.get(name)) for name in topics
        ])  # fmt: skip
        admin.close()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        at: int | None = None,
        partition: int | None = None,
    ) -> Any:
        """Put a record into a topic, and say where it went."""
        producer = KafkaProducer(bootstrap_servers=str(self.address), max_request_size=2**25)
        sent = producer.send(
            topic, value=value, key=key, headers=list(headers), timestamp_ms=at, partition=partition
        )
        found = sent.get(timeout=10)
        producer.close()
        return found

    def fill(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """Put many values into a partition, in order."""
        producer = KafkaProducer(bootstrap_servers=str(self.address))
        for value in values:
            producer.send(topic, value=value, partition=partition)
        producer.close()

    def records(self, topic: str) -> list[Any]:
        """All records of a topic, by partition and offset."""
        with self.consumer() as consumer:
            parts = [TopicPartition(topic, part) for part in range(PARTITIONS[topic])]
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            left = sum(consumer.end_offsets(parts).values())
            found: list[Any] = []
            while sum(consumer.position(part) for part in parts) < left:
                found += [one for many in consumer.poll(500).values() for one in many]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets for a group that has no member."""
        from kafka.structs import OffsetAndMetadata

        with self.consumer(group_id=group) as consumer:
            places = {TopicPartition(topic, p): offset for p, offset in offsets.items()}
            consumer.assign(list(places))
            consumer.commit({place: OffsetAndMetadata(at, "", -1) for place, at in places.items()})

    @contextmanager
    def consumer(self, **settings: Any) -> Iterator[Any]:
        """A consumer that is closed at the end."""
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        consumer = KafkaConsumer(bootstrap_servers=str(self.address), **settings)
        try:
            yield consumer
        finally:
            consumer.close()


@contextmanager
def broker_of_its_own() -> Iterator[Kafka]:
    """A broker with the topics while the block lasts."""
    with running(auto_create=False) as address:
        kafka = Kafka(address)
        kafka.make(*PARTITIONS)
        yield kafka
