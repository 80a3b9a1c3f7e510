"""Records go through a broker unchanged, whatever client wrote and whatever client reads."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import TopicPartition
from kafka.errors import MessageSizeTooLargeError

from tests.broker.clients import consumer, create, gather, producer, read, until, write

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


def seen(records: Sequence[Any]) -> list[Row]:
    return [(record.key, record.value, tuple(record.headers)) for record in records]


async def write_async(address: str, topic: str, codec: str | None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address, compression_type=codec) as client:
        for key, value, headers in ROWS:
            await client.send_and_wait(topic, value, key=key, headers=list(headers), partition=0)


async def read_async(address: str, topic: str, count: int) -> list[Any]:
    settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    found: list[Any] = []
    async with AIOKafkaConsumer(topic, bootstrap_servers=address, **settings) as client:
        async with asyncio.timeout(30):
            while len(found) < count:
                batches = await client.getmany(timeout_ms=100)
                found += [record for rows in batches.values() for record in rows]
    return found


def write_sync(address: str, topic: str, codec: str | None) -> None:
    with producer(address, compression_type=codec) as client:
        for key, value, headers in ROWS:
            client.send(topic, value, key=key, headers=list(headers), partition=0)


@pytest.mark.parametrize("codec", CODECS)
def test_both_clients_read_what_both_write(address: str, unique: str, codec: str | None) -> None:
    create(address, unique)
    write_sync(address, unique, codec)
    asyncio.run(write_async(address, unique, codec))
    assert seen(read(address, unique, 2 * len(ROWS))) == ROWS * 2
    assert seen(asyncio.run(read_async(address, unique, 2 * len(ROWS)))) == ROWS * 2


def test_offsets_follow_the_order_of_writing(address: str, unique: str) -> None:
    create(address, unique)
    values = [b"%d" % n for n in range(500)]
    told = write(address, unique, list(values), linger_ms=5)
    assert [each.offset for each in told] == list(range(500))
    found = read(address, unique, 500)
    assert [record.value for record in found] == values
    assert [record.offset for record in found] == list(range(500))


def test_a_record_stays_in_its_partition(address: str, unique: str) -> None:
    create(address, unique, 3)
    for part in range(3):
        write(address, unique, [b"%d" % part] * (part + 1), partition=part)
    found = read(address, unique, 6)
    assert all(record.value == b"%d" % record.partition for record in found)
    assert sorted(record.offset for record in found if record.partition == 2) == [0, 1, 2]


def test_the_same_key_goes_to_the_same_partition_from_both_clients(
    address: str, unique: str
) -> None:
    create(address, unique, 4)
    keys = [b"seed-%d" % n for n in range(20)]

    async def other() -> None:
        async with AIOKafkaProducer(bootstrap_servers=address) as client:
            for key in keys:
                await client.send_and_wait(unique, b"async", key=key)

    asyncio.run(other())
    with producer(address) as client:
        for key in keys:
            client.send(unique, b"sync", key=key)
    places: dict[bytes, set[int]] = {}
    for record in read(address, unique, 40):
        places.setdefault(record.key, set()).add(record.partition)
    assert {len(parts) for parts in places.values()} == {1}
    assert len(set.union(*places.values())) > 1


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
    found = read(address, unique, 5, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    assert [record.value for record in found] == values


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
        found: list[Any] = []
        until(lambda: gather(client, found), patience=15)
