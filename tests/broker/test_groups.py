"""Consumer groups: who has which partition, who must rejoin, whose word counts no more."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.broker.clients import admin, consumer, create, gather, until, write
from tests.broker.wire import ILLEGAL_GENERATION, NO_ERROR, REBALANCE, UNKNOWN_MEMBER, Member


def committed(address: str, group: str, topic: str, partition: int = 0) -> int | None:
    with admin(address) as client:
        found = client.list_group_offsets({group: None})[group]
    row = found.get(TopicPartition(topic, partition))
    return row.offset if row else None


def one_member(address: str, group: str, **settings: Any) -> Member:
    member = Member(address, group, **settings)
    assert member.join() == NO_ERROR
    assert member.sync({member.id: b"all"}) == (NO_ERROR, b"all")
    return member


def two_members(address: str, group: str, **settings: Any) -> tuple[Member, Member]:
    first = one_member(address, group, **settings)
    second = Member(address, group, **settings)
    second.ask_to_join()
    if (code := second.joined()) != NO_ERROR:  # MEMBER_ID_REQUIRED: ask again under its new id
        assert code == 79
        second.ask_to_join()
    until(lambda: first.heartbeat() == REBALANCE)
    first.ask_to_join()
    assert first.joined() == NO_ERROR
    assert second.joined() == NO_ERROR
    assert first.generation == second.generation
    assert (first.leader, second.leader) == (True, False)
    assert sorted(first.members) == sorted([first.id, second.id])
    assert first.sync({first.id: b"1", second.id: b"2"}) == (NO_ERROR, b"1")
    assert second.sync() == (NO_ERROR, b"2")
    return first, second


def test_a_member_that_leaves_makes_the_others_rejoin(address: str, unique: str) -> None:
    first, second = two_members(address, unique)
    assert first.heartbeat() == second.heartbeat() == NO_ERROR
    generation = first.generation
    second.leave()
    assert first.heartbeat() == REBALANCE
    assert first.join() == NO_ERROR
    assert first.generation > generation
    assert first.members == [first.id]
    first.leave()


def test_a_silent_member_is_dropped_after_its_session_and_cannot_commit(
    address: str, unique: str
) -> None:
    create(address, unique)
    first, second = two_members(address, unique, session_ms=1000)
    assert second.commit(unique, 0, 5) == NO_ERROR
    began = time.monotonic()
    until(lambda: first.heartbeat() == REBALANCE, patience=15)
    assert time.monotonic() - began > 0.5, "dropped although its session had not ended"
    assert first.join() == NO_ERROR
    assert first.members == [first.id]
    assert first.sync({first.id: b"all"})[0] == NO_ERROR
    assert second.heartbeat() == UNKNOWN_MEMBER
    assert second.commit(unique, 0, 99) == UNKNOWN_MEMBER
    first.generation -= 1
    assert first.commit(unique, 0, 99) == first.heartbeat() == ILLEGAL_GENERATION
    assert committed(address, unique, unique) == 5
    second.wire.close()
    first.wire.close()


def settled(consumers: Sequence[Any], wanted: int) -> bool:
    """Poll all, so that they can rebalance; whether they share all partitions, none twice.

    A poll that is too short for joining begins it anew each time.
    """
    for each in consumers:
        each.poll(timeout_ms=300)
    shares = [each.assignment() for each in consumers]
    return all(shares) and sum(map(len, shares)) == wanted == len(set().union(*shares))


def test_two_kafka_python_consumers_share_a_topic_and_one_takes_over(
    address: str, unique: str
) -> None:
    create(address, unique, 4)
    with consumer(address, unique, group_id=unique) as first:
        until(lambda: settled([first], 4))
        with consumer(address, unique, group_id=unique) as second:
            until(lambda: settled([first, second], 4))
        until(lambda: settled([first], 4))


def test_two_aiokafka_consumers_share_a_topic_and_one_takes_over(address: str, unique: str) -> None:
    create(address, unique, 4)

    def joining() -> Any:
        return AIOKafkaConsumer(
            unique, bootstrap_servers=address, group_id=unique, heartbeat_interval_ms=100,
            fetch_max_wait_ms=50,
        )  # fmt: skip

    async def shares(*clients: Any) -> None:
        while any(len(each.assignment()) != 4 // len(clients) for each in clients):
            for each in clients:
                await each.getmany(timeout_ms=20)

    async def story() -> None:
        async with asyncio.timeout(30), joining() as first:
            await shares(first)
            async with joining() as second:
                await shares(first, second)
                assert not first.assignment() & second.assignment()
            await shares(first)

    asyncio.run(story())


def test_a_group_resumes_at_its_commit(address: str, unique: str) -> None:
    create(address, unique)
    write(address, unique, [b"%d" % n for n in range(10)])
    part = TopicPartition(unique, 0)
    with consumer(address, unique, group_id=unique) as client:
        found: list[Any] = []
        until(lambda: gather(client, found) == 10)
        client.commit({part: OffsetAndMetadata(4, "note", -1)})
        assert client.committed(part) == 4
    with consumer(address, unique, group_id=unique) as client:
        found = []
        until(lambda: gather(client, found))
        assert found[0].offset == 4
