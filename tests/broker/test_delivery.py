"""The delivery on a real producer: what the broker refuses for good ends it, by name."""

import asyncio

import pytest
from aiokafka.errors import NotEnoughReplicasError, UnknownTopicOrPartitionError

from tests.broker.clients import create, read_to_end
from tests.broker.server import Server
from worker.errors import BrokerError
from worker.kafka import delivery
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, Letter


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BACKOFF_S", "REFUSED_S", "LONGEST_S"):
        monkeypatch.setattr(delivery, name, getattr(delivery, name) / 10)


def test_a_letter_without_a_key_to_a_compacted_topic_ends_the_delivery(
    server: Server, unique: str
) -> None:
    create(server.address, unique, cleanup_policy="compact")
    made: list[KafkaProducer] = []

    def make() -> KafkaProducer:
        made.append(KafkaProducer({"bootstrap_servers": server.address}))
        return made[-1]

    async def story() -> None:
        sending = Delivery(make, [unique], 1.0, lambda _: None)
        await sending.start()
        try:
            await sending.deliver([Letter(unique, b"k", b"good", (), 0)], lambda letter: letter)
            with pytest.raises(BrokerError, match=f"topic {unique}: .* without a key"):
                await sending.deliver([Letter(unique, None, b"bad", (), 1)], lambda letter: letter)
        finally:
            await sending.stop()

    asyncio.run(story())
    assert len(made) <= 10
    assert [row.value for row in read_to_end(server.address, unique)] == [b"good"]


def test_what_would_keep_a_record_from_its_topic_is_told(server: Server, unique: str) -> None:
    create(server.address, unique, min_insync_replicas="2")

    async def story() -> None:
        producer = KafkaProducer({"bootstrap_servers": server.address})
        await producer.start()
        try:
            await producer.limits([unique])
            with pytest.raises(NotEnoughReplicasError, match=f"{unique}, partition 0: 1 in sync"):
                await producer.ready([unique])
            with pytest.raises(UnknownTopicOrPartitionError, match=f"{unique}-none"):
                await producer.ready([f"{unique}-none"])
        finally:
            await producer.stop()

    asyncio.run(story())
