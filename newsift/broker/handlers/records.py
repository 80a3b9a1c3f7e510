"""Requests about records: produce, fetch, offsets by time, delete."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kafka.protocol.admin import DeleteRecordsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.producer import ProduceResponse

from newsift.broker.batches import Header
from newsift.broker.codes import Code, RequestError, transactions_error
from newsift.broker.log import Log, checks_in_loop
from newsift.broker.settings import Cluster
from newsift.broker.topics import Topic
from newsift.broker.wire import Call

ACKS_ALL = -1
LATEST, EARLIEST = -1, -2
NO_POSITION = (-1, -1)
MAX_WAIT_S = 30.0  # for new records; the consumer then sends another request
ProducedTopic = ProduceResponse.TopicProduceResponse
FetchedTopic = FetchResponse.FetchableTopicResponse
ListedTopic = ListOffsetsResponse.ListOffsetsTopicResponse
DeletedTopic = DeleteRecordsResponse.DeleteRecordsTopicResult


async def produce(cluster: Cluster, call: Call) -> Any:
    """One batch for each partition; acks=0 gets no answer."""
    responses = []
    for topic in call.body.topic_data:
        parts = [await _store(cluster, call, topic.name, part) for part in topic.partition_data]
        responses.append(ProducedTopic(name=topic.name, partition_responses=parts))
    if call.body.acks == 0:
        if any(part.error_code for topic in responses for part in topic.partition_responses):
            raise ConnectionAbortedError  # as Kafka: this producer notices nothing else
        return None
    return ProduceResponse(responses=responses)


async def fetch_records(cluster: Cluster, call: Call) -> Any:
    """Waits for records as long as the consumer allows.

    There are no fetch sessions: every answer is complete, so clients send complete requests.
    """
    body = call.body
    if body.session_id != 0 and body.session_epoch > 0:
        return FetchResponse(error_code=Code.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    try:
        async with asyncio.timeout(min(body.max_wait_ms / 1000, MAX_WAIT_S)):
            while not _is_enough(topics := _read_logs(cluster, body), body.min_bytes):
                await cluster.topics.change.wait()
    except TimeoutError:
        topics = _read_logs(cluster, body)
    return FetchResponse(responses=topics)


async def list_offsets(cluster: Cluster, call: Call) -> Any:
    """-1 if no record is as new as the time."""
    topics = _by_topic(
        ListedTopic, call.body.topics, lambda name, part: _offset(cluster, name, part)
    )
    return ListOffsetsResponse(topics=topics)


async def delete_records(cluster: Cluster, call: Call) -> Any:
    """Offset -1 stands for the end of the log."""
    topics = _by_topic(
        DeletedTopic, call.body.topics, lambda name, part: _delete_partition(cluster, name, part)
    )
    return DeleteRecordsResponse(topics=topics)


def _by_topic(type_: Any, entries: Iterable[Any], answer: Callable[[str, Any], Any]) -> list[Any]:
    return [
        type_(name=t.name, partitions=[answer(t.name, p) for p in t.partitions]) for t in entries
    ]


async def _store(cluster: Cluster, call: Call, name: str, part: Any) -> Any:
    partition_type = ProducedTopic.PartitionProduceResponse
    try:
        if call.body.transactional_id is not None:
            raise transactions_error()
        if call.body.acks not in (ACKS_ALL, 0, 1):
            raise RequestError(
                Code.INVALID_REQUIRED_ACKS, f"acks {call.body.acks} is not -1, 0 or 1"
            )
        topic = cluster.topics[name]
        log = topic.log(part.index)
        if call.body.acks == ACKS_ALL and (replicas := topic.config["min.insync.replicas"]) > 1:
            raise RequestError(Code.NOT_ENOUGH_REPLICAS, f"{name} wants {replicas} replicas")
        data = bytes(part.records or b"")
        header = await _check_batch(cluster, topic, data)
        if cluster.topics[name] is not topic:  # deleted and created again during the check
            raise RequestError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{name} was deleted")
        offset = cluster.topics.append(log, data, header)
    except RequestError as error:
        return partition_type(
            index=part.index, error_code=error.code, base_offset=-1, log_append_time_ms=-1,
            log_start_offset=-1, error_message=error.message,
        )  # fmt: skip
    return partition_type(
        index=part.index, error_code=Code.NONE, base_offset=offset, log_append_time_ms=-1,
        log_start_offset=log.start,
    )  # fmt: skip


async def _check_batch(cluster: Cluster, topic: Topic, data: bytes) -> Header:
    """A heavy check runs in a thread, so that other requests are served."""
    if checks_in_loop(data):
        return cluster.topics.check_batch(topic, data)
    async with cluster.batch_check:  # one at a time, as a batch may unpack to many bytes
        return await asyncio.to_thread(cluster.topics.check_batch, topic, data)


def _is_enough(topics: list[Any], min_bytes: int) -> bool:
    parts = [part for topic in topics for part in topic.partitions]
    return any(p.error_code for p in parts) or sum(len(p.records) for p in parts) >= min_bytes


def _read_logs(cluster: Cluster, body: Any) -> list[Any]:
    """As much as fits into the answer."""
    room = max_bytes = min(body.max_bytes, cluster.settings.max_response_bytes)
    topics = []
    for topic in body.topics:
        partitions = []
        for part in topic.partitions:
            partitions.append(
                _fetch_partition(cluster, body, topic.topic, part, room, room == max_bytes)
            )
            room -= len(partitions[-1].records)
        topics.append(FetchedTopic(topic=topic.topic, partitions=partitions))
    return topics


def _fetch_partition(
    cluster: Cluster, body: Any, name: str, part: Any, room: int, first: bool
) -> Any:
    code, records = Code.NONE, b""
    log: Log | None = None
    try:
        log = cluster.topics[name].log(part.partition)
        max_bytes = min(part.partition_max_bytes, room)
        records = b"".join(log.read(part.fetch_offset, max_bytes, at_least_one=first))
    except RequestError as error:
        code = error.code
    end, start = (log.end, log.start) if log else NO_POSITION
    return FetchedTopic.PartitionData(
        partition_index=part.partition, error_code=code, high_watermark=end,
        last_stable_offset=end, log_start_offset=start, records=records,
        aborted_transactions=[] if body.isolation_level else None,
    )  # fmt: skip


def _offset(cluster: Cluster, name: str, part: Any) -> Any:
    code, (time, offset) = Code.NONE, NO_POSITION
    try:
        time, offset = _position(cluster.topics[name].log(part.partition_index), part.timestamp)
    except RequestError as error:
        code = error.code
    return ListedTopic.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, error_code=code, timestamp=time, offset=offset,
        leader_epoch=-1 if offset < 0 else 0,
    )  # fmt: skip


def _position(log: Log, timestamp: int) -> tuple[int, int]:
    if timestamp == LATEST:
        return -1, log.end
    if timestamp == EARLIEST:
        return -1, log.start
    if timestamp < 0:
        raise RequestError(Code.INVALID_REQUEST, f"timestamp {timestamp} is not supported")
    return log.find_time(timestamp) or NO_POSITION


def _delete_partition(cluster: Cluster, name: str, part: Any) -> Any:
    code, start = Code.NONE, -1
    try:
        topic = cluster.topics[name]
        log = topic.log(part.partition_index)
        if not topic.config.is_trimmed:
            raise RequestError(Code.POLICY_VIOLATION, f"{name} is compacted, and never trimmed")
        offset = log.end if part.offset == -1 else part.offset
        if not 0 <= offset <= log.end:
            raise RequestError(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is past {log.end}")
        log.delete_before(offset)
        start = log.start
    except RequestError as error:
        code = error.code
    return DeletedTopic.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=start, error_code=code
    )
