import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AsyncPartition
from aiokafka.errors import OffsetOutOfRangeError
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.broker.clients import admin, consumer, create, gather, producer, until, write


def test_a_group_resumes_at_its_commit(address: str, unique: str) -> None:
    create(address, unique)
    write(address, unique, [b"%d" % n for n in range(10)])
    part = TopicPartition(unique, 0)
    with consumer(address, unique, group_id=unique) as client:
        result: list[Any] = []
        until(lambda: gather(client, result) == 10)
        client.commit({part: OffsetAndMetadata(4, "note", -1)})
        assert client.committed(part) == 4
    with consumer(address, unique, group_id=unique) as client:
        result = []
        until(lambda: gather(client, result))
        assert result[0].offset == 4


def test_an_offset_for_a_time_is_the_first_record_not_older(address: str, unique: str) -> None:
    create(address, unique)
    with producer(address) as client:
        for stamp in (1000, 2000, 3000):
            client.send(unique, b"x", partition=0, timestamp_ms=1_700_000_000_000 + stamp)
            client.flush()
    part = TopicPartition(unique, 0)

    def offset(stamp: int) -> tuple[int, int] | None:
        result = client.offsets_for_times({part: 1_700_000_000_000 + stamp})[part]
        return (result.offset, result.timestamp - 1_700_000_000_000) if result else None

    with consumer(address) as client:
        assert offset(0) == (0, 1000)
        assert offset(1000) == (0, 1000)
        assert offset(1001) == (1, 2000)
        assert offset(3000) == (2, 3000)
        assert offset(3001) is None


async def test_a_client_without_a_reset_gets_an_error(address: str, unique: str) -> None:
    """What the worker relies on to count what was lost."""
    create(address, unique)
    write(address, unique, [b"a", b"b"])
    part = AsyncPartition(unique, 0)
    client = AIOKafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="none", fetch_max_wait_ms=50
    )

    async def read() -> list[Any]:
        while not (result := await client.getmany(timeout_ms=50)):
            pass
        return list(result[part])

    async with asyncio.timeout(30), client:
        client.assign([part])
        client.seek(part, 1000)
        with pytest.raises(OffsetOutOfRangeError) as error:
            await read()
        assert error.value.args[0] == {part: 1000}
        client.seek(part, 1)
        assert (await read())[0].offset == 1


def test_deleted_records_move_the_beginning(address: str, unique: str) -> None:
    create(address, unique)
    write(address, unique, [b"%d" % n for n in range(5)])
    part = TopicPartition(unique, 0)
    with consumer(address) as client:
        assert (client.beginning_offsets([part]), client.end_offsets([part])) == (
            {part: 0}, {part: 5},
        )  # fmt: skip
    with admin(address) as client:
        client.delete_records({part: 3})
    with consumer(address) as client:
        assert client.beginning_offsets([part]) == {part: 3}
        client.assign([part])
        client.seek(part, 0)
        result: list[Any] = []
        until(lambda: gather(client, result) >= 2)
        assert [record.offset for record in result] == [3, 4]
