"""A compacted topic keeps the latest record of each key, and forgets what was deleted."""

import time
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from tests.broker.clients import consumer, create, read_to_end, until, write

# Apache Kafka compacts only closed segments, so they close early here.
EAGER: dict[str, Any] = {
    "cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "100", "max_compaction_lag_ms": "200",
}  # fmt: skip


def kept(address: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    rows = [(record.key, record.value) for record in read_to_end(address, topic)]
    return [row for row in rows if row[0] != b"nudge"]


def nudge(address: str, topic: str) -> None:
    time.sleep(0.11)
    write(address, topic, [b"x"], key=b"nudge")


def compacted_to(address: str, topic: str, wanted: list[tuple[bytes, bytes | None]]) -> bool:
    nudge(address, topic)
    return kept(address, topic) == wanted


def test_the_latest_records_remain_with_their_offsets(address: str, unique: str) -> None:
    create(address, unique, **EAGER)
    write(address, unique, [b"1"], key=b"deleted")
    write(address, unique, [b"0", b"1", b"2"], key=b"a")
    write(address, unique, [None], key=b"deleted")
    until(lambda: compacted_to(address, unique, [(b"a", b"2")]))
    found = [record for record in read_to_end(address, unique) if record.key == b"a"]
    assert [record.offset for record in found] == [3]
    sent = write(address, unique, [b"3"], key=b"a")[0]
    part = TopicPartition(unique, 0)
    with consumer(address) as client:
        assert client.end_offsets([part])[part] == sent.offset + 1


def test_a_topic_that_is_not_compacted_keeps_all_records(address: str, unique: str) -> None:
    create(address, unique, segment_ms="100")
    write(address, unique, [b"0", b"1"], key=b"a")
    nudge(address, unique)
    nudge(address, unique)
    assert kept(address, unique) == [(b"a", b"0"), (b"a", b"1")]


def test_a_record_without_a_key_is_refused(address: str, unique: str) -> None:
    create(address, unique, **EAGER)
    with pytest.raises(KafkaError):
        write(address, unique, [b"no key"], retries=0)
    assert kept(address, unique) == []
