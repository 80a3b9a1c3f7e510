"""The worker's consumers on a real broker: what they read ahead, and what they tell the group."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import TopicPartition

from newsift.broker.server import running
from tests.broker.clients import create, producer
from tests.worker.stream.fakes import met
from worker.config import Config, KafkaConfig, StreamConfig
from worker.kafka.consumers import (
    REBALANCE_S,
    REVOKE_S,
    Consumer,
    group_consumer,
    in_time,
    lone_consumer,
)

PARTITIONS = 64
POST = b"x" * 500
POSTS = 200  # in each partition
SIZE = 2**14
BATCH = 2**12  # about, of what the producer sends at once


@pytest.fixture(scope="module")
def backlog() -> Any:
    """A topic of many partitions, each with more than one fetch takes."""
    with running() as address:
        create(address, "tweets", PARTITIONS)
        with producer(address, batch_size=BATCH, linger_ms=50) as client:
            for number in range(PARTITIONS * POSTS):
                client.send("tweets", POST, partition=number % PARTITIONS)
        yield Config(
            kafka=KafkaConfig(bootstrap_servers=address), stream=StreamConfig(batch_bytes=SIZE)
        )


def held(consumer: Consumer) -> int:
    """The bytes that aiokafka holds of what it has fetched."""
    results = consumer._fetcher._records.values()
    parts = [found._partition_records for found in results if hasattr(found, "_partition_records")]
    return sum(part._records.size_in_bytes() for part in parts if part is not None)


async def reading(config: Config) -> Consumer:
    """A consumer of the posts that has read something, from the first post on."""
    consumer = group_consumer(config)
    await consumer.start()
    consumer.subscribe(["tweets"])
    await met(consumer.assignment)
    await consumer.seek_to_beginning()
    await met(lambda: held(consumer))
    return consumer


def test_what_is_read_ahead_does_not_grow_with_the_partitions(backlog: Config) -> None:
    async def run() -> None:
        consumer = await reading(backlog)
        try:
            most = 0
            for _ in range(30):
                await asyncio.sleep(0.03)  # aiokafka's own patience with the others is 0.1 s
                await consumer.getmany(timeout_ms=0, max_records=1)
                most = max(most, held(consumer))
            assert 0 < most <= 2 * SIZE + 2 * BATCH
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_a_paused_consumer_lets_go_of_what_it_has_and_reads_nothing_ahead(backlog: Config) -> None:
    async def run() -> None:
        consumer = await reading(backlog)
        try:
            consumer.pause(*consumer.assignment())
            for _ in range(10):
                await consumer.getmany(timeout_ms=30)
            assert held(consumer) == 0
            consumer.resume(*consumer.assignment())
            found = await consumer.getmany(timeout_ms=5000)
            assert all(records[0].offset == 0 for records in found.values())
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_a_partition_without_a_leader_or_an_answer_hides_no_others(
    backlog: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders are asked one by one: here half the partitions have one that never answers."""

    async def run() -> dict[TopicPartition, tuple[int, int]]:
        config = replace(backlog, kafka=replace(backlog.kafka, request_timeout_s=1.0))
        consumer = await reading(config)
        try:
            cluster = consumer._client.cluster
            own, ask = cluster.leader_for_partition, told(POSTS)

            async def never(places: list[TopicPartition]) -> Any:
                if any(place.partition % 2 for place in places):
                    await asyncio.Event().wait()
                return await ask(places)

            def leader(place: TopicPartition) -> int | None:
                return -1 if place.partition == 0 else own(place) + place.partition % 2

            monkeypatch.setattr(cluster, "leader_for_partition", leader)
            monkeypatch.setattr(consumer, "beginning_offsets", told(0))
            monkeypatch.setattr(consumer, "end_offsets", never)
            return await consumer.bounds()
        finally:
            monkeypatch.undo()
            await in_time(consumer.stop(), 5)  # a fetch that waits for the false leader cancels it

    found = asyncio.run(run())
    assert {place.partition: bound for place, bound in found.items()} == dict.fromkeys(
        range(2, PARTITIONS, 2), (0, POSTS)
    )


def told(offset: int) -> Any:
    """A question of offsets to which all partitions have the same answer."""

    async def answer(places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, offset)

    return answer


def test_a_position_that_is_not_known_is_not_waited_for(backlog: Config) -> None:
    async def run() -> None:
        consumer = group_consumer(replace(backlog, kafka=replace(backlog.kafka, group="fresh")))
        await consumer.start()
        try:
            consumer.subscribe(["tweets"])
            await met(consumer.assignment)
            async with asyncio.timeout(5):
                assert await consumer.reached() == {}  # a new group has none, until it is sought
            await consumer.seek_to_beginning()
            assert set((await consumer.reached()).values()) == {0}
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_everything_is_read_all_the_same(backlog: Config) -> None:
    async def run() -> int:
        consumer = await reading(backlog)
        seen: set[tuple[int, int]] = set()
        try:
            async with asyncio.timeout(60):
                while len(seen) < PARTITIONS * POSTS:
                    found = await consumer.getmany(timeout_ms=500)
                    seen |= {(r.partition, r.offset) for rows in found.values() for r in rows}
        finally:
            await consumer.stop()
        return len(seen)

    assert asyncio.run(run()) == PARTITIONS * POSTS


@pytest.mark.parametrize("session", [1.0, 10.0, 60.0])
def test_giving_up_partitions_fits_into_what_the_group_waits(session: float) -> None:
    """From the first word of a new deal to this member's answer: a heartbeat, the giving up."""

    async def run() -> tuple[float, float]:
        kafka = KafkaConfig(session_timeout_s=session)
        consumer = group_consumer(replace(Config(), kafka=kafka))
        rebalance, heartbeat = consumer._rebalance_timeout_ms, consumer._heartbeat_interval_ms
        await consumer.stop()
        return rebalance / 1000, heartbeat / 1000

    rebalance, heartbeat = asyncio.run(run())
    assert heartbeat + REVOKE_S < rebalance
    assert rebalance >= REBALANCE_S


@pytest.mark.parametrize("isolation", ["committed", "uncommitted"])
def test_posts_and_seeds_are_read_as_the_configuration_says(isolation: str) -> None:
    async def run() -> None:
        config = replace(Config(), kafka=KafkaConfig(isolation=isolation))
        for consumer in (group_consumer(config), lone_consumer(config)):
            assert consumer._isolation_level == f"read_{isolation}"
            await consumer.stop()

    asyncio.run(run())
