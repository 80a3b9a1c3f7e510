import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import NoOffsetForPartitionError

from tests.broker.clients import admin, create, write
from tests.worker.stream.fake_clients import ended
from worker.config import Config, KafkaConfig, TopicsConfig
from worker.errors import FencedError
from worker.kafka.aiokafka_repairs import Consumer
from worker.kafka.consumers import group_consumer
from worker.metrics.registry import Metrics
from worker.stream.ledger import Ledger
from worker.stream.partitions import Positions, Tenure, Tenures

Join = Callable[..., Any]


@pytest.fixture
async def join(address: str, unique: str) -> AsyncIterator[Join]:
    """Starts the consumer of a worker with this instance id; a class may stand around it."""

    @asynccontextmanager
    async def joined(
        instance: str | None, around: Callable[[Consumer], Any] = lambda consumer: consumer
    ) -> AsyncIterator[Any]:
        kafka = KafkaConfig(bootstrap_servers=address, group=unique, instance_id=instance)
        consumer = group_consumer(Config(kafka=kafka, topics=TopicsConfig(posts=unique)))
        member = around(consumer)
        await consumer.start()
        consumer.subscribe([unique], listener=getattr(member, "listener", None))
        try:
            yield member
        finally:
            await consumer.stop()

    async with asyncio.timeout(60):
        yield joined


async def share(*shares: int, of: list[Consumer]) -> None:
    """Read until each consumer has so many partitions."""
    while [len(each.assignment()) for each in of] != list(shares):
        for each in of:
            await read(each)


async def read(consumer: Consumer) -> dict[TopicPartition, list[Any]]:
    try:
        return await consumer.getmany(timeout_ms=20)
    except NoOffsetForPartitionError as error:
        await consumer.seek_to_beginning(*error.args)
        return {}


def generation(consumer: Consumer) -> int:
    return int(consumer._coordinator.generation)


@pytest.mark.parametrize("instance", ["leader", "other"])
async def test_a_restart_under_its_id_moves_no_partition(
    join: Join, address: str, unique: str, instance: str
) -> None:
    create(address, unique, 4)
    async with join("leader") as leader, join("other") as other:
        await share(2, 2, of=[leader, other])
        stopped, stays = (leader, other) if instance == "leader" else (other, leader)
        before = generation(stays), stopped.assignment(), stays.assignment()
        await stopped.stop()
        async with join(instance) as again:
            await share(2, of=[again])
            for each in (again, stays):
                await each.commit(dict.fromkeys(each.assignment(), 0))
            assert (generation(stays), again.assignment(), stays.assignment()) == before
            assert generation(again) == generation(stays)


async def test_a_worker_whose_id_is_taken_over_is_fenced(
    join: Join, address: str, unique: str
) -> None:
    create(address, unique)
    write(address, unique, [b"a"])
    place = TopicPartition(unique, 0)
    async with join("one") as former:
        await share(1, of=[former])
        async with join("one") as again:
            await share(1, of=[again])
            with pytest.raises(FencedError):
                await former.commit({place: 1})
            with pytest.raises(FencedError):
                await share(0, of=[former])
            assert await again.committed(place) is None
            await again.commit({place: 1})


async def test_a_leader_that_restarts_still_notices_new_partitions(
    join: Join, address: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those added after its restart, and those added while it was away."""
    monkeypatch.setattr("worker.kafka.consumers.MAX_METADATA_AGE_S", 0.2)
    create(address, unique, 2)

    def grow(partitions: int) -> None:
        with admin(address) as client:
            client.create_partitions({unique: partitions})

    async with join("leader") as leader, join("other") as other:
        await share(1, 1, of=[leader, other])
        await leader.stop()
        async with join("leader") as again:
            await share(1, 1, of=[again, other])
            await asyncio.to_thread(grow, 4)
            await share(2, 2, of=[again, other])
            await again.stop()
            await asyncio.to_thread(grow, 6)
            async with join("leader") as third:
                await share(3, 3, of=[third, other])


async def test_what_is_remembered_outlasts_a_rebalance_where_nobody_else_committed(
    join: Join, address: str, unique: str
) -> None:
    create(address, unique, 4)
    async with join(None, Owner) as one:
        while len(one.partitions) < 4:
            await one.work()
        before = await one.tenures()
        async with join(None, Owner) as two:
            while not (len(one.partitions) == len(two.partitions) == 2):
                await one.work()
                await two.work()
            assert await one.tenures() == {n: before[n] for n in one.partitions}
            other, _ = sorted(two.partitions)
            for partition in (other, *one.partitions):
                await asyncio.to_thread(write, address, unique, [b"a"], partition=partition)
            while (one.done, two.done) != (2, 1):
                await one.work()
                await two.work()
        while len(one.partitions) < 4:
            await one.work()
        after = await one.tenures()
        assert {n for n in range(4) if after[n] is before[n]} == set(range(4)) - {other}


class Owner:
    """A worker's consumer, positions and tenures; it does nothing with its posts but commit."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer, self.ledger, self.done = consumer, Ledger(3), 0
        self._tenures, metrics = Tenures(30), Metrics()
        self.listener = Positions(consumer, "posts", self.ledger, self._tenures, metrics, ended)

    @property
    def partitions(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    async def tenures(self) -> dict[int, Tenure]:
        await self._tenures.ready.wait()  # the group has assigned, but which go on is undecided
        return {n: self._tenures[n] for n in self.partitions}

    async def work(self) -> None:
        for some in (await read(self.consumer)).values():
            batch = self.ledger.add(some)
            self.listener.follow(batch)
            self.ledger.finish(batch)
            self.done += len(some)
        await self.listener.commit()


async def test_partitions_stay_where_they_are_when_a_worker_comes_and_goes(
    join: Join, address: str, unique: str
) -> None:
    create(address, unique, 6)
    async with join(None) as one, join(None) as two:
        await share(3, 3, of=[one, two])
        before = one.assignment(), two.assignment()
        assert not before[0] & before[1]
        async with join(None) as three:
            await share(2, 2, 2, of=[one, two, three])
            assert one.assignment() < before[0]
            assert two.assignment() < before[1]
        await share(3, 3, of=[one, two])
        assert len(one.assignment() & before[0]) >= 2
        assert len(two.assignment() & before[1]) >= 2
