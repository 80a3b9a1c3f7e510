"""The other side of the commands: what a test puts into the topics, and finds there."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata

from newsift.broker.handlers import API_HANDLERS
from newsift.broker.server import Address, running
from tests.broker.clients import admin, consumer, producer, read_to_end, write

POSTS, SEEDS, MATCHES, REJECTED = "tweets", "seed-articles", "matched-tweets", "rejected-tweets"
LABELS = "newsift-labels"
PARTITIONS = {POSTS: 3, SEEDS: 1, MATCHES: 3, REJECTED: 3, LABELS: 1}
CONFIGS = {LABELS: {"cleanup.policy": "compact"}}


@dataclass(frozen=True)
class Kafka:
    """A broker of a test's own, with the topics."""

    address: Address

    def make(self, *topics: str) -> None:
        with admin(self.address) as client:
            client.create_topics({
                name: {
                    "num_partitions": PARTITIONS[name], "replication_factor": 1,
                    "configs": CONFIGS.get(name, {}),
                } for name in topics
            })  # fmt: skip

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        at: int | None = None,
        partition: int | None = None,
    ) -> Any:
        with producer(self.address, max_request_size=2**25) as client:
            return client.send(
                topic, value=value, key=key, headers=list(headers), timestamp_ms=at,
                partition=partition,
            ).get(timeout=10)  # fmt: skip

    def fill(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        write(self.address, topic, values, partition=partition)

    def records(self, topic: str) -> list[Any]:
        """All records of a topic, by partition and offset."""
        return read_to_end(self.address, topic)

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets for a group that has no member."""
        with consumer(self.address, group_id=group) as client:
            places = {TopicPartition(topic, p): offset for p, offset in offsets.items()}
            client.assign(list(places))
            client.commit({place: OffsetAndMetadata(at, "", -1) for place, at in places.items()})


def hide(monkeypatch: pytest.MonkeyPatch, *topics: str) -> None:
    """From now on the user has no right to Describe them; tests/broker has Kafka's own answers."""
    key = 3  # of a request for metadata
    api = API_HANDLERS[key]

    async def handle(cluster: Any, call: Any) -> Any:
        answer = await api.handler(cluster, call)
        if call.body.topics is None:
            answer.topics = [topic for topic in answer.topics if topic.name not in topics]
        for topic in answer.topics:
            if topic.name in topics:
                topic.error_code, topic.partitions = TopicAuthorizationFailedError.errno, []
        return answer

    monkeypatch.setitem(API_HANDLERS, key, replace(api, handler=handle))


@contextmanager
def broker_of_its_own() -> Iterator[Kafka]:
    """A broker with the topics while the block lasts.

    It compacts nothing, so that tests read every record that was sent.
    """
    with running(auto_create=False, clean_interval_s=math.inf) as address:
        kafka = Kafka(address)
        kafka.make(*PARTITIONS)
        yield kafka
