"""Offsets: where a topic begins and ends, what a time means, and what happens out of range."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AsyncPartition
from aiokafka.errors import OffsetOutOfRangeError
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.broker.clients import admin, consumer, create, gather, producer, until, write


def test_an_offset_for_a_time_is_the_first_record_not_older(address: str, unique: str) -> None:
    create(address, unique)
    with producer(address) as client:
        for stamp in (1000, 2000, 3000):
            client.send(unique, b"x", partition=0, timestamp_ms=1_700_000_000_000 + stamp)
            client.flush()
    part = TopicPartition(unique, 0)

    def offset(stamp: int) -> tuple[int, int] | None:
        found = client.offsets_for_times({part: 1_700_000_000_000 + stamp})[part]
        return (found.offset, found.timestamp - 1_700_000_000_000) if found else None

    with consumer(address) as client:
        assert offset(0) == (0, 1000)
        assert offset(1000) == (0, 1000)
        assert offset(1001) == (1, 2000)
        assert offset(3000) == (2, 3000)
        assert offset(3001) is None


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", None)])
def test_a_position_past_the_end_is_reset(
    address: str, unique: str, reset: str, first: int | None
) -> None:
    create(address, unique)
    write(address, unique, [b"a", b"b"])
    part = TopicPartition(unique, 0)
    with consumer(address, auto_offset_reset=reset) as client:
        client.assign([part])
        client.seek(part, 1000)
        found: list[Any] = []
        if first is not None:
            until(lambda: gather(client, found))
            assert found[0].offset == first
        else:
            until(lambda: client.poll(timeout_ms=50) == {} and client.position(part) == 2)


async def nothing_yet(client: Any) -> None:
    while not await client.getmany(timeout_ms=50):
        pass


def test_a_client_without_a_reset_gets_an_error(address: str, unique: str) -> None:
    """What the worker relies on to count what was lost."""
    create(address, unique)
    write(address, unique, [b"a", b"b"])

    async def story() -> None:
        part = AsyncPartition(unique, 0)
        client = AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="none", fetch_max_wait_ms=50
        )
        async with asyncio.timeout(30), client:
            client.assign([part])
            client.seek(part, 1000)
            with pytest.raises(OffsetOutOfRangeError) as error:
                await nothing_yet(client)
            assert error.value.args[0] == {part: 1000}
            client.seek(part, 1)
            found: dict[Any, list[Any]] = {}
            while not found:
                found = await client.getmany(timeout_ms=50)
            assert found[part][0].offset == 1

    asyncio.run(story())


def test_a_commit_may_go_back_and_keeps_its_note(address: str, unique: str) -> None:
    create(address, unique, 2)
    part = TopicPartition(unique, 1)
    with consumer(address, unique, group_id=unique) as client:
        assert client.committed(part) is None
        until(lambda: client.poll(timeout_ms=20) == {} and client.assignment())
        for offset in (9, 3):
            client.commit({part: OffsetAndMetadata(offset, "a note", -1)})
        row = client.committed(part, metadata=True)
        assert (row.offset, row.metadata) == (3, "a note")


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
        found: list[Any] = []
        until(lambda: gather(client, found) >= 2)
        assert [record.offset for record in found] == [3, 4]
