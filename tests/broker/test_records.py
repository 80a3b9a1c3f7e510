import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import TopicPartition
from kafka.errors import MessageSizeTooLargeError

from tests.broker.clients import consumer, create, gather, producer, read, read_to_end, until, write
from tests.broker.raw_requests import NO_ERROR, Idempotent

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]
ROWS: list[Row] = [
    (b"key", b"value", ()),
    (None, b"without a key", ()),
    (b"deleted", None, ()),
    (b"", b"", (("empty", b""),)),
    (b"\x00\xff", "naïve 🚢 مرحبا".encode() * 50, (("schema", b"newsift.match/1"), ("a", b"1"))),
    (b"key", b"twice the same header", (("h", b"1"), ("h", b"2"))),
]


@pytest.mark.parametrize("codec", CODECS)
async def test_both_clients_read_what_both_write(
    address: str, unique: str, codec: str | None
) -> None:
    create(address, unique)
    with producer(address, compression_type=codec) as client:
        for key, value, headers in ROWS:
            client.send(unique, value, key=key, headers=list(headers), partition=0)
    async with AIOKafkaProducer(bootstrap_servers=address, compression_type=codec) as writer:
        for key, value, headers in ROWS:
            await writer.send_and_wait(unique, value, key=key, headers=list(headers), partition=0)
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    records: list[Any] = []
    async with (
        AIOKafkaConsumer(unique, bootstrap_servers=address, **settings) as reader,
        asyncio.timeout(30),
    ):
        while len(records) < 2 * len(ROWS):
            batches = await reader.getmany(timeout_ms=100)
            records += [record for rows in batches.values() for record in rows]
    for result in (records, read(address, unique, 2 * len(ROWS))):
        assert [(each.key, each.value, tuple(each.headers)) for each in result] == ROWS * 2


def test_offsets_follow_the_order_of_writing(address: str, unique: str) -> None:
    create(address, unique)
    values = [b"%d" % n for n in range(500)]
    answer = write(address, unique, list(values), linger_ms=5)
    assert [each.offset for each in answer] == list(range(500))
    records = read(address, unique, 500)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(500))


def test_a_record_stays_in_its_partition(address: str, unique: str) -> None:
    create(address, unique, 3)
    for part in range(3):
        write(address, unique, [b"%d" % part] * (part + 1), partition=part)
    records = read(address, unique, 6)
    assert all(record.value == b"%d" % record.partition for record in records)
    assert sorted(record.offset for record in records if record.partition == 2) == [0, 1, 2]


def test_a_record_above_the_limit_is_refused(address: str, unique: str) -> None:
    create(address, f"{unique}-small", max_message_bytes="2000")
    with pytest.raises(MessageSizeTooLargeError):
        write(address, f"{unique}-small", [b"x" * 3000], retries=0)
    create(address, unique)
    large = bytes(range(256)) * 4000  # 1,024,000 bytes; a broker takes 1,048,588 by default
    roomy: dict[str, Any] = {"max_request_size": 2**22, "retries": 0}
    write(address, unique, [large], **roomy)
    with pytest.raises(MessageSizeTooLargeError):
        write(address, unique, [large + large], **roomy)
    write(address, unique, [b"after"])
    assert [record.value for record in read(address, unique, 2)] == [large, b"after"]


def test_a_fetch_smaller_than_a_record_still_makes_progress(address: str, unique: str) -> None:
    create(address, unique)
    values: list[bytes | None] = [b"%d" % n * 50_000 for n in range(5)]
    write(address, unique, values, batch_size=1)
    records = read(address, unique, 5, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    assert [record.value for record in records] == values


def test_a_record_has_the_timestamp_of_its_producer(address: str, unique: str) -> None:
    create(address, unique)
    with producer(address) as client:
        client.send(unique, b"old", partition=0, timestamp_ms=1_600_000_000_123)
    (record,) = read(address, unique, 1)
    assert (record.timestamp, record.timestamp_type) == (1_600_000_000_123, 0)


def test_a_fetch_returns_as_soon_as_a_record_arrives(address: str, unique: str) -> None:
    create(address, unique)
    with consumer(address, fetch_max_wait_ms=25_000, request_timeout_ms=60_000) as client:
        client.assign([TopicPartition(unique, 0)])
        assert client.poll(timeout_ms=300) == {}
        write(address, unique, [b"now"])
        records: list[Any] = []
        until(lambda: gather(client, records), patience=15)


# Apache Kafka compacts only closed segments, so they close early here.
EAGER: dict[str, Any] = {
    "cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "100", "max_compaction_lag_ms": "200",
}  # fmt: skip


def stored_rows(address: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    rows = [(record.key, record.value) for record in read_to_end(address, topic)]
    return [row for row in rows if row[0] != b"nudge"]


def nudge(address: str, topic: str) -> None:
    time.sleep(0.11)
    write(address, topic, [b"x"], key=b"nudge")


def compacted_to(address: str, topic: str, expected: list[tuple[bytes, bytes | None]]) -> bool:
    nudge(address, topic)
    return stored_rows(address, topic) == expected


def test_the_latest_records_remain_with_their_offsets(address: str, unique: str) -> None:
    create(address, unique, **EAGER)
    write(address, unique, [b"1"], key=b"deleted")
    write(address, unique, [b"0", b"1", b"2"], key=b"a")
    write(address, unique, [None], key=b"deleted")
    until(lambda: compacted_to(address, unique, [(b"a", b"2")]))
    records = [record for record in read_to_end(address, unique) if record.key == b"a"]
    assert [record.offset for record in records] == [3]
    sent = write(address, unique, [b"3"], key=b"a")[0]
    part = TopicPartition(unique, 0)
    with consumer(address) as client:
        assert client.end_offsets([part])[part] == sent.offset + 1


def test_a_topic_that_is_not_compacted_keeps_all_records(address: str, unique: str) -> None:
    create(address, unique, segment_ms="100")
    write(address, unique, [b"0", b"1"], key=b"a")
    nudge(address, unique)
    nudge(address, unique)
    assert stored_rows(address, unique) == [(b"a", b"0"), (b"a", b"1")]


OUT_OF_ORDER = 45
DUPLICATE = 46
FENCED = {47, 90}  # invalid producer epoch; fenced


def values(address: str, topic: str) -> list[bytes]:
    return [record.value for record in read_to_end(address, topic)]


def test_a_repeated_batch_is_stored_once_and_a_gap_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer, other = Idempotent(address, unique), Idempotent(address, unique)
    first = producer.send(0, [b"a", b"b"])
    second = producer.send(2, [b"c"])
    again = producer.send(0, [b"a", b"b"])
    assert [each.error_code for each in (first, second, again)] == [NO_ERROR] * 3
    assert [each.base_offset for each in (first, second, again)] == [0, 2, 0]
    assert producer.send(7, [b"lost four"]).error_code == OUT_OF_ORDER
    assert other.send(0, [b"d"]).error_code == NO_ERROR
    assert values(address, unique) == [b"a", b"b", b"c", b"d"]
    producer.wire.close()
    other.wire.close()


def test_a_batch_older_than_the_window_is_not_stored_again(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    for n in range(8):
        assert producer.send(n, [b"%d" % n]).error_code == NO_ERROR
    assert producer.send(0, [b"0"]).error_code in {DUPLICATE, OUT_OF_ORDER}
    assert values(address, unique) == [b"%d" % n for n in range(8)]
    producer.wire.close()


def test_an_older_epoch_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    assert producer.send(0, [b"a"], epoch=producer.epoch + 1).error_code == NO_ERROR
    assert producer.send(1, [b"b"], epoch=producer.epoch).error_code in FENCED
    assert values(address, unique) == [b"a"]
    producer.wire.close()


def test_a_damaged_batch_is_refused(address: str, unique: str) -> None:
    create(address, unique)
    producer = Idempotent(address, unique)
    whole = producer.batch(0, [b"a" * 100])
    damaged = bytearray(whole)
    damaged[-20] ^= 1
    assert producer.produce(bytes(damaged)).error_code == 2
    assert producer.produce(whole).error_code == NO_ERROR
    assert values(address, unique) == [b"a" * 100]
    producer.wire.close()
