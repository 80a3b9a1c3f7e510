import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka import KafkaAdminClient

from newsift.broker.server import Address, running
from tests.broker.clients import create, read_to_end
from tests.worker.command_processes import said_until_ended_by, started
from worker.errors import ConfigError

MIB = 2**20


@pytest.fixture
def broker() -> Iterator[Address]:
    with running(retention_bytes=4 * MIB) as address:
        yield address


def test_dropped_connections_neither_lose_nor_repeat_a_record(broker: Address) -> None:
    create(broker, "t", 4)
    sent = [b"%d" % n for n in range(300)]

    async def story() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker, enable_idempotence=True, retry_backoff_ms=20
        )
        async with producer:
            waiting = []
            for n, value in enumerate(sent):
                waiting.append(await producer.send("t", value, partition=0))
                if n % 100 == 50:
                    await asyncio.to_thread(broker.call, broker.broker.drop_connections())
            await asyncio.gather(*waiting)

    asyncio.run(story())
    assert [record.value for record in read_to_end(broker, "t")] == sent


def test_topics_are_not_created_by_use_where_that_is_off() -> None:
    async def story(address: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=address, request_timeout_ms=500) as producer:
            with pytest.raises(KafkaError):
                await producer.send_and_wait("t", b"v")

    with running(auto_create=False) as address:
        asyncio.run(story(address))
        assert "t" not in address.broker.cluster.topics


def test_a_client_gets_the_address_that_it_connected_to() -> None:
    with running(host="0.0.0.0") as address, KafkaAdminClient(bootstrap_servers=address) as admin:
        assert [node["host"] for node in admin.describe_cluster()["brokers"]] == ["127.0.0.1"]


def test_a_port_in_use_is_refused(broker: Address) -> None:
    port = int(broker.address.rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"127.0.0.1:{port} .*choose another"), running(port=port):
        pass


@pytest.mark.parametrize(
    "option",
    [{"host": ""}, {"port": 70_000}, {"partitions": 0}, {"retention_bytes": 10}, {"port": -1}],
)
def test_an_invalid_setting_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))), running(**option):
        pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_prints_its_address_and_ends_on_a_signal(
    number: signal.Signals, code: int
) -> None:
    with started("broker", "--port", "0", "--partitions", "3") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            assert admin.list_topics() == []
        message = said_until_ended_by(number, process)
    assert process.returncode == code
    said = message.splitlines()[0]
    assert said == f"A Kafka broker in memory, at {address}; Ctrl-C ends it and all it holds."
