from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from aiokafka.errors import NotEnoughReplicasError, UnknownTopicOrPartitionError
from aiokafka.record.memory_records import MemoryRecords

from tests.broker.clients import create, read_to_end
from tests.broker.raw_requests import Wire, fetch_request
from tests.broker.server import Server, opened
from worker.config import Config, KafkaConfig
from worker.errors import BrokerError
from worker.kafka import delivery
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, ProducerRecord
from worker.kafka.sending import sending
from worker.kafka.settings import aiokafka_producer_settings

CODECS = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}
VALUE = b"x" * 10_000


@asynccontextmanager
async def delivering(make: Callable[[], KafkaProducer], topic: str) -> AsyncIterator[Delivery]:
    made = Delivery(make, [topic], 1.0, lambda _: None)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize("codec", CODECS)
async def test_every_producer_compresses(address: str, unique: str, codec: str) -> None:
    create(address, unique)
    config = Config(kafka=KafkaConfig(bootstrap_servers=address, compression=codec))
    with sending(config) as outbox:
        outbox.send(unique, VALUE, b"command")
        outbox.settle()
    async with delivering(
        lambda: KafkaProducer(aiokafka_producer_settings(config)), unique
    ) as stream:
        letter = ProducerRecord(unique, b"stream", VALUE, (), 0)
        await stream.deliver([letter], lambda letter: letter)
    with closing(Wire(address)) as wire:
        answer = wire.ask(fetch_request(unique, 0, version=11))
    batches, codecs = MemoryRecords(bytes(answer.responses[0].partitions[0].records)), list[int]()
    while batches.has_next():
        codecs.append(batches.next_batch().compression_type)
    assert codecs == [CODECS[codec]] * 2
    assert [row.value for row in read_to_end(address, unique)] == [VALUE] * 2


def test_a_command_whose_broker_ends_closes_its_producer_at_once(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_past_the_end() -> None:
        outbox.send(unique, VALUE, b"a")
        outbox.settle()
        server.stop()
        for n in range(100):
            outbox.send(unique, VALUE, f"{n}".encode())
        outbox.settle()

    monkeypatch.setattr("worker.kafka.sending.ANSWER_MS", 500)
    with opened("embedded", tmp_path) as server:
        create(server.address, unique, 2)
        config = Config(kafka=KafkaConfig(bootstrap_servers=server.address, request_timeout_s=0.5))
        with pytest.raises(BrokerError), sending(config) as outbox:
            send_past_the_end()
        assert outbox.delivered == 1
        assert outbox._producer._closed  # else it would wait again when it is collected


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_S", "MAX_REFUSED_S", "MAX_RETRY_S"):
        monkeypatch.setattr(delivery, name, getattr(delivery, name) / 10)


async def test_a_letter_without_a_key_to_a_compacted_topic_ends_the_delivery(
    server: Server, unique: str
) -> None:
    create(server.address, unique, cleanup_policy="compact")
    made: list[KafkaProducer] = []

    def make() -> KafkaProducer:
        made.append(KafkaProducer({"bootstrap_servers": server.address}))
        return made[-1]

    good, bad = (ProducerRecord(unique, key, b"good", (), 0) for key in (b"k", None))
    async with delivering(make, unique) as stream:
        await stream.deliver([good], lambda letter: letter)
        with pytest.raises(BrokerError, match=f"topic {unique}: .* without a key"):
            await stream.deliver([bad], lambda letter: letter)
    assert len(made) <= 10
    assert [row.value for row in read_to_end(server.address, unique)] == [b"good"]


async def test_an_obstacle_to_writing_is_reported(server: Server, unique: str) -> None:
    create(server.address, unique, min_insync_replicas="2")
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
