import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol import metadata, producer, sasl
from kafka.protocol.api_header import ResponseClassRegistry

from newsift.broker.batches import Header
from newsift.broker.codes import Code
from newsift.broker.handlers import API_HANDLERS
from newsift.broker.log import MAX_LOOP_BYTES
from newsift.broker.settings import Cluster, Settings
from newsift.broker.topics import Topic
from newsift.broker.wire import Client, decode_call, encode_answer
from tests.broker.raw_requests import fetch_request, produce_request
from tests.broker.record_batches import batch, values

CLIENT = Client("127.0.0.1", "broker.test", 9092)


class Asking:
    def __init__(self, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.cluster = Cluster.create(Settings(**settings))

    def close(self) -> None:
        self.cluster.groups.forget_members()
        self.loop.close()

    def ask(self, request: Any, version: int | None = None) -> Any:
        api = API_HANDLERS[request.API_KEY]
        request.API_VERSION = api.high if version is None else version
        request.with_header(correlation_id=9, client_id="asking")
        call = decode_call(bytes(request.encode(header=True)), API_HANDLERS, CLIENT)
        response = self.loop.run_until_complete(api.handler(self.cluster, call))
        if response is None:
            return None
        kind = ResponseClassRegistry.get_response_class(request.header)
        return kind.decode(encode_answer(call, response), header=True, framed=True)


VERSIONS = [
    (key, v) for key, api in sorted(API_HANDLERS.items()) for v in range(api.low, api.high + 1)
]


@pytest.fixture
def broker() -> Iterator[Asking]:
    asking = Asking()
    asking.cluster.topics.create("t", 2)
    yield asking
    asking.close()


def produce(broker: Asking, data: bytes, name: str = "t", **more: Any) -> Any:
    response = broker.ask(produce_request(name, data, **more))
    return response and response.responses[0].partition_responses[0]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_version_is_read_answered_and_understood(
    broker: Asking, key: int, version: int
) -> None:
    api = API_HANDLERS[key]
    response = broker.ask(api.request(version=version), version)
    assert response is None or key == response.API_KEY
    assert (response is None) == (key == 0), "acks=0, the default, is not answered"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, Code.NONE),
        ({"acks": 1}, Code.NONE),
        ({"acks": 2}, Code.INVALID_REQUIRED_ACKS),
        ({"name": "safe"}, Code.NOT_ENOUGH_REPLICAS),
        ({"name": "safe", "acks": 1}, Code.NONE),
        ({"name": "nowhere"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 2}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": -1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"transactional_id": "x"}, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_produce_answers_with_a_code(broker: Asking, more: dict[str, Any], code: Code) -> None:
    broker.cluster.topics.create("safe", 1, {"min.insync.replicas": "2"})
    response = produce(broker, batch(values(3)), **more)
    assert response.error_code == code
    assert response.base_offset == (0 if code == Code.NONE else -1)


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_for_a_topic_that_is_deleted_during_its_check_is_refused(
    broker: Asking, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    topics, check = broker.cluster.topics, broker.cluster.topics.check_batch

    async def delete() -> None:
        topics.delete("t")
        if again:
            topics.create("t", 2)

    def check_batch(topic: Topic, data: bytes) -> Header:
        asyncio.run_coroutine_threadsafe(delete(), broker.loop).result()
        return check(topic, data)

    monkeypatch.setattr(topics, "check_batch", check_batch)
    data = batch([(b"k", b"v" * MAX_LOOP_BYTES, [])])  # it is checked in a thread
    assert produce(broker, data).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert topics.budget.size == 0


def test_without_acks_a_failure_ends_the_connection(broker: Asking) -> None:
    assert produce(broker, batch(values(1)), acks=0) is None
    with pytest.raises(ConnectionAbortedError):
        produce(broker, b"nonsense", acks=0)
    assert broker.cluster.topics["t"].log(0).end == 1


@pytest.mark.parametrize(
    ("offset", "code"),
    [(0, Code.NONE), (3, Code.NONE), (4, Code.OFFSET_OUT_OF_RANGE), (-1, Code.OFFSET_OUT_OF_RANGE)],
)
def test_fetch_answers_with_a_code(broker: Asking, offset: int, code: Code) -> None:
    produce(broker, batch(values(3)))
    part = broker.ask(fetch_request("t", offset)).responses[0].partitions[0]
    assert (part.error_code, part.high_watermark) == (code, 3)
    assert bool(part.records) == (code == Code.NONE and offset < 3)
    session = broker.ask(fetch_request("t", offset, session_id=5, session_epoch=3))
    assert session.error_code == Code.FETCH_SESSION_ID_NOT_FOUND


def test_there_are_no_transactions(broker: Asking) -> None:
    coordinator = broker.ask(metadata.FindCoordinatorRequest(key="x", key_type=1), 2)
    made = broker.ask(
        producer.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
    )
    refused = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [coordinator.error_code, made.error_code] == [refused] * 2


def test_there_is_no_login(broker: Asking) -> None:
    response = broker.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"))
    assert (response.error_code, response.mechanisms) == (Code.ILLEGAL_SASL_STATE, [])
