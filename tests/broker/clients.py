"""What many tests of a broker do: create a topic, write to it, read it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

PATIENCE_S = 60.0  # how long a test waits for what must happen; none waits without need


@contextmanager
def admin(address: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=address)
    try:
        yield client
    finally:
        client.close()


def create(address: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic with these partitions and configs, named with underscores for dots."""
    expected = {
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": {key.replace("_", "."): value for key, value in configs.items()},
    }
    with admin(address) as client:
        client.create_topics({topic: expected}, wait_for_metadata=True)


@contextmanager
def producer(address: str, **settings: Any) -> Iterator[Any]:
    client = KafkaProducer(bootstrap_servers=address, **settings)
    try:
        yield client
        client.flush(timeout=PATIENCE_S)
    finally:
        client.close(timeout=5)


def write(
    address: str, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None,
    partition: int = 0, **settings: Any,
) -> list[Any]:  # fmt: skip
    with producer(address, **settings) as client:
        waiting = [client.send(topic, value, key=key, partition=partition) for value in values]
        return [each.get(timeout=PATIENCE_S) for each in waiting]


def write_keyed(
    address: str, topic: str, rows: Iterable[tuple[bytes | None, bytes | None]], **settings: Any
) -> None:
    """Write keys and values to the first partition; an error if the broker refuses one."""
    with producer(address, **settings) as client:
        for each in [client.send(topic, value, key=key, partition=0) for key, value in rows]:
            each.get(timeout=PATIENCE_S)


@contextmanager
def consumer(address: str, *topics: str, **settings: Any) -> Iterator[Any]:
    defaults = {
        "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50,
        "heartbeat_interval_ms": 100,
    }  # fmt: skip
    client = KafkaConsumer(bootstrap_servers=address, **(defaults | settings))
    try:
        if topics:
            # A leader that joins before it knows the topic hands out nothing, and stays so.
            until(lambda: all(client.partitions_for_topic(topic) for topic in topics))
            client.subscribe(topics)
        yield client
    finally:
        client.close(autocommit=False)


def read(address: str, topic: str, count: int, **settings: Any) -> list[Any]:
    with consumer(address, **settings) as client:
        client.assign([TopicPartition(topic, n) for n in client.partitions_for_topic(topic) or ()])
        result: list[Any] = []
        until(lambda: gather(client, result) >= count)
        return result


def read_to_end(address: str, topic: str) -> list[Any]:
    with consumer(address) as client:
        parts = [TopicPartition(topic, n) for n in client.partitions_for_topic(topic) or ()]
        if not parts:
            return []  # no such topic
        client.assign(parts)
        ends = client.end_offsets(parts)
        result: list[Any] = []

        def at_end() -> bool:
            result.extend(polled(client))
            return all(client.position(part) >= ends[part] for part in parts)

        until(at_end)
        return sorted(result, key=lambda record: (record.partition, record.offset))


def polled(client: Any, timeout_ms: int = 100) -> list[Any]:
    return [record for rows in client.poll(timeout_ms=timeout_ms).values() for record in rows]


def gather(client: Any, records: list[Any]) -> int:
    records.extend(polled(client))
    return len(records)


def until(holds: Callable[[], Any], patience: float = PATIENCE_S) -> None:
    """Call this until it holds; a test that would wait for ever fails here."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "what must happen did not"
        time.sleep(0.005)
