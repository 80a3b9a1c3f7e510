import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher

from newsift.broker.server import running
from tests.broker.clients import create, producer
from tests.worker.stream.fake_clients import met
from worker.config import Config, KafkaConfig, StreamConfig
from worker.kafka.aiokafka_repairs import Consumer
from worker.kafka.consumers import (
    MAX_REVOKE_S,
    group_consumer,
    groupless_consumer,
    stop_within,
)

PARTITIONS = 64
POST = b"x" * 500
POSTS = 200  # in each partition
SIZE = 2**14
BATCH = 2**12  # about, of what the producer sends at once


@pytest.fixture(scope="module")
def backlog() -> Any:
    with running() as address:
        create(address, "tweets", PARTITIONS)
        with producer(address, batch_size=BATCH, linger_ms=50) as client:
            for number in range(PARTITIONS * POSTS):
                client.send("tweets", POST, partition=number % PARTITIONS)
        yield Config(
            kafka=KafkaConfig(bootstrap_servers=address), stream=StreamConfig(batch_bytes=SIZE)
        )


def fetched_bytes(consumer: Consumer) -> int:
    """The bytes that aiokafka holds of what it has fetched."""
    results = consumer._fetcher._records.values()
    parts = [
        result._partition_records for result in results if hasattr(result, "_partition_records")
    ]
    return sum(part._records.size_in_bytes() for part in parts if part is not None)


@asynccontextmanager
async def reading(config: Config) -> AsyncIterator[Consumer]:
    consumer = group_consumer(config)
    await consumer.start()
    try:
        consumer.subscribe(["tweets"])
        await met(consumer.assignment)
        await consumer.seek_to_beginning()
        await met(lambda: fetched_bytes(consumer))
        yield consumer
    finally:
        await stop_within(consumer.stop(), 5)  # a fetch that waits for a false leader cancels it


async def test_read_ahead_does_not_grow_with_the_partitions_and_nothing_is_skipped(
    backlog: Config,
) -> None:
    seen: set[tuple[int, int]] = set()
    async with asyncio.timeout(60), reading(backlog) as consumer:
        while len(seen) < PARTITIONS * POSTS:
            rounds = len(seen) < 30
            batch = await consumer.getmany(
                timeout_ms=0 if rounds else 500, max_records=1 if rounds else None
            )
            assert fetched_bytes(consumer) <= 2 * SIZE + 2 * BATCH
            seen |= {(r.partition, r.offset) for rows in batch.values() for r in rows}
            await asyncio.sleep(0.03 if rounds else 0)  # aiokafka waits 0.1 s for the others


async def test_a_failure_while_fetching_is_raised(
    backlog: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka's task that fetches ends with it, and nothing would ever be read again."""

    def fail(*_: Any) -> bytes:
        raise MemoryError

    monkeypatch.setattr(fetcher, "MemoryRecords", fail)
    consumer = groupless_consumer(backlog)
    consumer.assign([TopicPartition("tweets", 0)])
    await consumer.start()
    await consumer.seek_to_beginning()

    async def read() -> None:
        async with asyncio.timeout(20):
            while True:
                await consumer.getmany(timeout_ms=50)

    with pytest.raises(MemoryError):
        await read()
    assert await AIOKafkaConsumer.getmany(consumer, timeout_ms=50) == {}  # aiokafka's own
    await stop_within(consumer.stop(), 5)


async def test_a_paused_consumer_holds_and_fetches_nothing(backlog: Config) -> None:
    async with reading(backlog) as consumer:
        consumer.pause(*consumer.assignment())
        for _ in range(10):
            await consumer.getmany(timeout_ms=30)
        assert fetched_bytes(consumer) == 0
        consumer.resume(*consumer.assignment())
        result = await consumer.getmany(timeout_ms=5000)
        assert all(records[0].offset == 0 for records in result.values())


async def test_a_partition_without_a_leader_or_an_answer_hides_no_others(
    backlog: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders are asked one by one: here half the partitions have one that never answers."""
    config = replace(backlog, kafka=replace(backlog.kafka, request_timeout_s=1.0))

    async def begin(places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end(places: list[TopicPartition]) -> dict[TopicPartition, int]:
        if any(place.partition % 2 for place in places):
            await asyncio.Event().wait()
        return dict.fromkeys(places, POSTS)

    def leader(place: TopicPartition) -> int | None:
        return -1 if place.partition == 0 else own(place) + place.partition % 2

    async with reading(config) as consumer:
        cluster = consumer.client.cluster
        own = cluster.leader_for_partition
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "leader_for_partition", leader)
            patch.setattr(consumer, "beginning_offsets", begin)
            patch.setattr(consumer, "end_offsets", end)
            bounds = await consumer.bounds()
    assert {place.partition: bound for place, bound in bounds.items()} == dict.fromkeys(
        range(2, PARTITIONS, 2), (0, POSTS)
    )


@pytest.mark.parametrize("session", [1.0, 10.0, 60.0])
async def test_a_heartbeat_and_revoking_fit_into_the_rebalance_time(session: float) -> None:
    consumer = group_consumer(replace(Config(), kafka=KafkaConfig(session_timeout_s=session)))
    rebalance, heartbeat = consumer._rebalance_timeout_ms, consumer._heartbeat_interval_ms
    await consumer.stop()
    assert heartbeat / 1000 <= session / 3
    assert heartbeat / 1000 + MAX_REVOKE_S < rebalance / 1000


@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
async def test_the_isolation_level_is_that_of_the_configuration(isolation: str) -> None:
    config = replace(Config(), kafka=KafkaConfig(isolation=isolation))
    for consumer in (group_consumer(config), groupless_consumer(config)):
        assert consumer._isolation_level == f"read_{isolation}"
        await consumer.stop()
