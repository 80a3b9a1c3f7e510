import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AIOTopicPartition
from aiokafka.errors import KafkaError
from aiokafka.errors import UnknownTopicOrPartitionError as AIOUnknownTopicError
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NonEmptyGroupError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)  # fmt: skip

from tests.broker.clients import admin, consumer, create, polled, read, until, write
from tests.broker.server import Server
from worker.kafka.aiokafka_repairs import Consumer
from worker.kafka.producer import KafkaProducer
from worker.kafka.topic_identity import read_identity
from worker.kafka.topics import broker_count

ONE = {"num_partitions": 1, "replication_factor": 1}


def configs(client: Any, topic: str) -> dict[str, Any]:
    result = client.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
    )["topic"][topic]
    return {name: row["value"] for name, row in result.items()}


def test_a_topic_that_is_described_by_name_is_not_made(address: str, unique: str) -> None:
    with admin(address) as client:
        for _ in range(2):
            (result,) = client.describe_topics([unique])
            assert result["error_code"] == UnknownTopicOrPartitionError.errno
        assert unique not in client.list_topics()


def test_a_topic_is_created_and_described(address: str, unique: str) -> None:
    with admin(address) as client:
        client.create_topics({unique: ONE}, validate_only=True)
        assert unique not in client.list_topics()
    create(address, unique, 3, cleanup_policy="compact")
    with admin(address) as client:
        with pytest.raises(TopicAlreadyExistsError):
            client.create_topics({unique: ONE})
        assert unique in client.list_topics()
        (result,) = client.describe_topics([unique])
        assert sorted(part["partition_index"] for part in result["partitions"]) == [0, 1, 2]
        assert all(part["leader_id"] >= 0 for part in result["partitions"])
        assert configs(client, unique)["cleanup.policy"] == "compact"
        client.create_topics({f"{unique}-d": {}}, wait_for_metadata=True)
        (result,) = client.describe_topics([f"{unique}-d"])
        assert len(result["partitions"]) == 4
        defaults = configs(client, f"{unique}-d")
        assert (defaults["cleanup.policy"], defaults["max.message.bytes"]) == ("delete", "1048588")


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("not a name!", ONE, InvalidTopicError),
        ("x" * 250, ONE, InvalidTopicError),
        ("..", ONE, InvalidTopicError),
        ("none", ONE | {"num_partitions": 0}, InvalidPartitionsError),
        ("copies", ONE | {"replication_factor": 3}, InvalidReplicationFactorError),
        ("unknown", ONE | {"configs": {"no.such.key": "1"}}, InvalidConfigurationError),
        ("value", ONE | {"configs": {"cleanup.policy": "shred"}}, InvalidConfigurationError),
        ("number", ONE | {"configs": {"retention.ms": "long"}}, InvalidConfigurationError),
    ],
)
def test_an_invalid_topic_is_refused(
    address: str, unique: str, name: str, settings: dict[str, Any], error: type[Exception]
) -> None:
    topic = f"{name}-{unique}" if name.isalpha() and len(name) < 100 else name
    with admin(address) as client:
        with pytest.raises(error):
            client.create_topics({topic: settings})
        assert topic not in client.list_topics()


def test_a_deleted_topic_can_be_created_again(address: str, unique: str) -> None:
    create(address, unique)
    write(address, unique, [b"old"])
    with admin(address) as client:
        client.delete_topics([unique])
        until(lambda: unique not in client.list_topics())
        with pytest.raises(UnknownTopicOrPartitionError):
            client.delete_topics([unique])
    create(address, unique)
    write(address, unique, [b"new"])
    (result,) = read(address, unique, 1)
    assert (result.offset, result.value) == (0, b"new")


def test_the_cluster_names_its_broker(address: str) -> None:
    with admin(address) as client:
        assert broker_count(client) == 1
        cluster = client._manager.cluster
        (broker,) = cluster.brokers()
        assert f"{broker.host}:{broker.port}" == address
        assert cluster.controller == broker
        assert cluster.cluster_id


def test_groups_are_listed_described_and_deleted(address: str, unique: str) -> None:
    create(address, unique, 2)
    with admin(address) as client:
        with consumer(address, unique, group_id=unique, client_id="the-member") as member:
            until(lambda: polled(member, 20) == [] and len(member.assignment()) == 2)
            assert unique in {group["group_id"] for group in client.list_groups()}
            described = client.describe_groups([unique])[unique]
            assert described["group_state"] == "Stable"
            assert [row["client_id"] for row in described["members"]] == ["the-member"]
            (failed,) = client.delete_groups([unique]).values()
            assert NonEmptyGroupError.__name__ in str(failed)
        until(lambda: client.describe_groups([unique])[unique]["group_state"] == "Empty")
        client.delete_groups([unique])
        assert unique not in {group["group_id"] for group in client.list_groups()}
        (failed,) = client.delete_groups([unique]).values()
        assert GroupIdNotFoundError.__name__ in str(failed)


ASKING_S = 1.0
Ask = Callable[[str, str], Coroutine[object, object, None]]


async def consume(address: str, topic: str, group: str | None) -> None:
    async with AIOKafkaConsumer(bootstrap_servers=address, group_id=group) as consumer:
        if group is None:
            consumer.assign([AIOTopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        with suppress(KafkaError):
            await consumer.getmany(timeout_ms=round(1000 * ASKING_S))


async def produce(address: str, topic: str) -> None:
    producer = KafkaProducer({"bootstrap_servers": address, "request_timeout_ms": 500})
    await producer.start()
    with suppress(KafkaError):
        await producer.partitions_for(topic)
    with pytest.raises(AIOUnknownTopicError):
        await producer.ready([topic])
    await producer.stop()


@pytest.mark.parametrize(
    "ask",
    [partial(consume, group=None), partial(consume, group="asking"), produce],
    ids=["assign", "subscribe", "produce"],
)
def test_asking_for_a_topic_does_not_make_it(server: Server, unique: str, ask: Ask) -> None:
    asyncio.run(ask(server.address, unique))
    with admin(server.address) as client:
        assert unique not in client.list_topics()


async def test_a_topic_made_again_is_another_topic(server: Server, unique: str) -> None:
    async with Consumer(bootstrap_servers=server.address, group_id=None) as consumer:
        assert await read_identity(consumer.client, unique) is None
        create(server.address, unique, partitions=3)
        first = await read_identity(consumer.client, unique)
        assert first == await read_identity(consumer.client, unique)
        with admin(server.address) as client:
            client.delete_topics([unique])
        assert await read_identity(consumer.client, unique) is None
        create(server.address, unique)
        again = await read_identity(consumer.client, unique)
    assert first is not None
    assert again is not None
    assert [first.partitions, again.partitions] == [3, 1]
    assert len({first.id, again.id, None}) == 3
