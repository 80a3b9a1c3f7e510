"""No client of the stream makes a topic by asking about it, where the broker would allow it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from tests.broker.clients import admin, create
from tests.broker.server import Server
from worker.kafka.metadata import identity
from worker.kafka.producer import KafkaProducer

ASKING_S = 1.0
Ask = Callable[[str, str], Coroutine[object, object, None]]


async def assign(address: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=address, group_id=None)
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    await _polled(consumer)


async def subscribe(address: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=address, group_id=f"{topic}-group")
    await consumer.start()
    consumer.subscribe([topic])
    await _polled(consumer)


async def produce(address: str, topic: str) -> None:
    producer = KafkaProducer({"bootstrap_servers": address, "request_timeout_ms": 500})
    await producer.start()
    with suppress(KafkaError):
        await producer.partitions_for(topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        await producer.ready([topic])
    await producer.stop()


async def _polled(consumer: AIOKafkaConsumer) -> None:
    with suppress(KafkaError):
        await consumer.getmany(timeout_ms=round(1000 * ASKING_S))
    await consumer.stop()


@pytest.mark.parametrize("ask", [assign, subscribe, produce])
def test_asking_for_a_topic_does_not_make_it(server: Server, unique: str, ask: Ask) -> None:
    asyncio.run(ask(server.address, unique))
    with admin(server.address) as client:
        assert unique not in client.list_topics()


def test_a_topic_made_again_is_another_topic(server: Server, unique: str) -> None:
    async def told() -> object:
        consumer = AIOKafkaConsumer(bootstrap_servers=server.address, group_id=None)
        await consumer.start()
        try:
            return await identity(consumer._client, unique)
        finally:
            await consumer.stop()

    assert asyncio.run(told()) is None
    create(server.address, unique, partitions=3)
    first = asyncio.run(told())
    assert first == asyncio.run(told())
    with admin(server.address) as client:
        client.delete_topics([unique])
    assert asyncio.run(told()) is None
    create(server.address, unique)
    again = asyncio.run(told())
    assert [found.partitions for found in (first, again)] == [3, 1]  # type: ignore[attr-defined]
    assert len({first.id, again.id, None}) == 3  # type: ignore[attr-defined]
