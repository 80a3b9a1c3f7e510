"""Every request in every version, and the answers that no ordinary client asks for."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl

from newsift.broker.codes import Code
from newsift.broker.handlers import TABLE
from tests.newsift.broker.asking import Asking
from tests.newsift.broker.batches import batch, numbered

VERSIONS = [(key, v) for key, api in sorted(TABLE.items()) for v in range(api.low, api.high + 1)]
TRANSACTION, TOPIC = 1, 2


@pytest.fixture
def broker() -> Iterator[Asking]:
    asking = Asking()
    asking.cluster.topics.create("t", 2)
    yield asking
    asking.close()


def produce(broker: Asking, data: bytes, *, name: str = "t", index: int = 0, **more: Any) -> Any:
    kind = producer.ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=index, records=data)
    topic = kind(name=name, partition_data=[part])
    request = producer.ProduceRequest(**{"acks": -1, "topic_data": [topic], **more})
    response = broker.ask(request)
    return response and response.responses[0].partition_responses[0]


def fetch(broker: Asking, offset: int, **more: Any) -> Any:
    kind = consumer.FetchRequest.FetchTopic
    part = kind.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=2**20,
        current_leader_epoch=-1, last_fetched_epoch=-1, log_start_offset=-1,
    )  # fmt: skip
    fields = {
        "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip
    request = consumer.FetchRequest(
        **{**fields, "topics": [kind(topic="t", partitions=[part])], **more}
    )
    return broker.ask(request)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_version_is_read_answered_and_understood(
    broker: Asking, key: int, version: int
) -> None:
    api = TABLE[key]
    response = broker.ask(api.request(version=version), version)
    assert response is None or key == response.API_KEY
    assert (response is None) == (key == 0), "acks=0, the default, is not answered"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, Code.NONE),
        ({"acks": 1}, Code.NONE),
        ({"acks": 2}, Code.INVALID_REQUIRED_ACKS),
        ({"name": "nowhere"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 2}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": -1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"transactional_id": "x"}, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_what_produce_answers(broker: Asking, more: dict[str, Any], code: Code) -> None:
    response = produce(broker, numbered(3), **more)
    assert response.error_code == code
    assert response.base_offset == (0 if code == Code.NONE else -1)


def test_without_acks_a_failure_ends_the_connection(broker: Asking) -> None:
    assert produce(broker, numbered(1), acks=0) is None
    with pytest.raises(ConnectionAbortedError):
        produce(broker, b"nonsense", acks=0)
    assert broker.cluster.topics["t"].log(0).end == 1


def test_one_node_is_too_few_for_two_replicas_in_sync(broker: Asking) -> None:
    broker.cluster.topics.create("safe", 1, {"min.insync.replicas": "2"})
    assert produce(broker, numbered(1), name="safe").error_code == Code.NOT_ENOUGH_REPLICAS
    assert produce(broker, numbered(1), name="safe", acks=1).error_code == Code.NONE


def test_old_message_formats_are_refused(broker: Asking) -> None:
    data = bytearray(numbered(1))
    data[16] = 1
    assert produce(broker, bytes(data)).error_code == Code.INVALID_RECORD


@pytest.mark.parametrize(
    ("offset", "more", "code"),
    [
        (0, {}, Code.NONE),
        (3, {}, Code.NONE),
        (4, {}, Code.OFFSET_OUT_OF_RANGE),
        (-1, {}, Code.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_fetch_answers(broker: Asking, offset: int, more: dict[str, Any], code: Code) -> None:
    produce(broker, numbered(3))
    part = fetch(broker, offset, **more).responses[0].partitions[0]
    assert (part.error_code, part.high_watermark) == (code, 3)
    assert bool(part.records) == (code == Code.NONE and offset < 3)


def test_fetch_sessions_are_not_kept(broker: Asking) -> None:
    assert fetch(broker, 0, session_id=0, session_epoch=0).session_id == 0
    code = fetch(broker, 0, session_id=5, session_epoch=3).error_code
    assert code == Code.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_no_one_coordinates_transactions(broker: Asking, version: int) -> None:
    request = metadata.FindCoordinatorRequest
    keys = {"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}
    group = broker.ask(request(**keys), version)
    result = group.coordinators[0] if version >= 4 else group
    assert (result.error_code, result.host, result.port) == (0, "broker.test", 9092)
    if version:
        other = broker.ask(request(key_type=TRANSACTION, **keys), version)
        result = other.coordinators[0] if version >= 4 else other
        assert result.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_there_is_no_login(broker: Asking) -> None:
    response = broker.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"))
    assert (response.error_code, response.mechanisms) == (Code.ILLEGAL_SASL_STATE, [])


def test_metadata_makes_topics_only_where_it_may(broker: Asking) -> None:
    def ask(name: str, may: bool) -> int:
        kind = metadata.MetadataRequest.MetadataRequestTopic
        request = metadata.MetadataRequest(
            topics=[kind(name=name, topic_id=None)], allow_auto_topic_creation=may
        )
        return int(broker.ask(request).topics[0].error_code)

    assert ask("new", may=False) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("new", may=True) == Code.NONE
    assert ask("not good", may=True) == Code.INVALID_TOPIC_EXCEPTION
    assert set(broker.cluster.topics) == {"t", "new"}


@pytest.mark.parametrize(
    ("operation", "value", "policy"),
    [(0, "compact", "compact"), (1, None, "delete")],
)  # fmt: skip
def test_settings_are_set_and_unset(
    broker: Asking, operation: int, value: str | None, policy: str
) -> None:
    start = "compact" if operation else "delete"
    broker.cluster.topics.create("s", 1, {"cleanup.policy": start})
    request = admin.IncrementalAlterConfigsRequest
    entry = request.AlterConfigsResource.AlterableConfig(
        name="cleanup.policy", config_operation=operation, value=value
    )
    resource = request.AlterConfigsResource(resource_type=TOPIC, resource_name="s", configs=[entry])
    for validate_only in (True, False):
        response = broker.ask(request(resources=[resource], validate_only=validate_only))
        assert response.responses[0].error_code == Code.NONE
        now = broker.cluster.topics["s"].config.text("cleanup.policy")
        assert now == (start if validate_only else policy)


@pytest.mark.parametrize(
    ("offset", "code", "start"),
    [(2, Code.NONE, 2), (-1, Code.NONE, 3), (4, Code.OFFSET_OUT_OF_RANGE, 0)],
)
def test_records_are_deleted_up_to_an_offset(
    broker: Asking, offset: int, code: Code, start: int
) -> None:
    produce(broker, numbered(3))
    kind = admin.DeleteRecordsRequest.DeleteRecordsTopic
    part = kind.DeleteRecordsPartition(partition_index=0, offset=offset)
    response = broker.ask(admin.DeleteRecordsRequest(topics=[kind(name="t", partitions=[part])]))
    assert response.topics[0].partitions[0].error_code == code
    assert broker.cluster.topics["t"].log(0).start == start
    assert bool(fetch(broker, 0).responses[0].partitions[0].error_code) == (start > 0)


def test_offsets_by_time(broker: Asking) -> None:
    produce(broker, batch([(b"k", b"v")] * 3, times=[10, 30, 20]))

    def ask(timestamp: int) -> tuple[int, int, int]:
        kind = consumer.ListOffsetsRequest.ListOffsetsTopic
        part = kind.ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, current_leader_epoch=-1
        )
        request = consumer.ListOffsetsRequest(topics=[kind(name="t", partitions=[part])])
        result = broker.ask(request).topics[0].partitions[0]
        return result.error_code, result.timestamp, result.offset

    assert [ask(n) for n in (-1, -2)] == [(0, -1, 3), (0, -1, 0)]
    assert [ask(n) for n in (0, 11, 31)] == [(0, 10, 0), (0, 30, 1), (0, -1, -1)]
    assert ask(-9) == (Code.INVALID_REQUEST, -1, -1)
