"""Records in and out of the logs: produced, fetched, found by time, deleted."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kafka.protocol.admin import DeleteRecordsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.producer import ProduceResponse

from worker.broker.batch import is_light
from worker.broker.codes import Code, Refused, refuse_transactions
from worker.broker.log import Log
from worker.broker.settings import Cluster
from worker.broker.topics import Topic
from worker.broker.wire import Call
from worker.kafka.batches.header import Header

ALL = -1
LATEST, EARLIEST = -1, -2
NOWHERE = (-1, -1)
LONGEST_WAIT_S = 30.0  # whoever wants to wait longer asks again
PRODUCED = ProduceResponse.TopicProduceResponse
FETCHED = FetchResponse.FetchableTopicResponse
LISTED = ListOffsetsResponse.ListOffsetsTopicResponse
DELETED = DeleteRecordsResponse.DeleteRecordsTopicResult


async def produce(cluster: Cluster, call: Call) -> Any:
    """Store one batch a partition; with acks=0 no answer is sent."""
    responses = []
    for topic in call.body.topic_data:
        parts = [await _stored(cluster, call, topic.name, part) for part in topic.partition_data]
        responses.append(PRODUCED(name=topic.name, partition_responses=parts))
    if call.body.acks == 0:
        if any(part.error_code for each in responses for part in each.partition_responses):
            raise ConnectionAbortedError  # as Kafka does: it is all that this producer can notice
        return None
    return ProduceResponse(version=call.version, responses=responses)


async def fetch_records(cluster: Cluster, call: Call) -> Any:
    """Answer with batches; wait for them as long as the consumer is willing to.

    Sessions are not kept: every answer is a full one, which tells the client to ask in full.
    """
    body = call.body
    if body.session_id != 0 and body.session_epoch > 0:
        return FetchResponse(
            version=call.version, error_code=Code.FETCH_SESSION_ID_NOT_FOUND, responses=[]
        )
    try:
        async with asyncio.timeout(min(body.max_wait_ms / 1000, LONGEST_WAIT_S)):
            while not _is_enough(found := _look(cluster, body), body.min_bytes):
                await cluster.topics.changed.wait()
    except TimeoutError:
        found = _look(cluster, body)
    return FetchResponse(version=call.version, responses=found)


async def list_offsets(cluster: Cluster, call: Call) -> Any:
    """The offset of a time in each partition; -1 where no record is as young."""
    topics = _by_topic(LISTED, call.body.topics, lambda name, part: _offset(cluster, name, part))
    return ListOffsetsResponse(version=call.version, topics=topics)


async def delete_records(cluster: Cluster, call: Call) -> Any:
    """Move the start of each log up to an offset; -1 is its end."""
    topics = _by_topic(DELETED, call.body.topics, lambda name, part: _deleted(cluster, name, part))
    return DeleteRecordsResponse(version=call.version, topics=topics)


def _by_topic(kind: Any, asked: Iterable[Any], answer: Callable[[str, Any], Any]) -> list[Any]:
    return [kind(name=t.name, partitions=[answer(t.name, p) for p in t.partitions]) for t in asked]


async def _stored(cluster: Cluster, call: Call, name: str, part: Any) -> Any:
    kind = PRODUCED.PartitionProduceResponse
    try:
        if call.body.transactional_id is not None:
            raise refuse_transactions()
        if call.body.acks not in (ALL, 0, 1):
            raise Refused(Code.INVALID_REQUIRED_ACKS, f"acks {call.body.acks} is not -1, 0 or 1")
        topic = cluster.topics[name]
        log = topic.log(part.index)
        if call.body.acks == ALL and (wanted := topic.config["min.insync.replicas"]) > 1:
            raise Refused(Code.NOT_ENOUGH_REPLICAS, f"{name} wants {wanted} replicas")
        data = bytes(part.records or b"")
        header = await _checked(cluster, topic, data)
        offset = cluster.topics.append(topic, log, data, header)
    except Refused as refused:
        return kind(
            index=part.index, error_code=refused.code, base_offset=-1, log_append_time_ms=-1,
            log_start_offset=-1, error_message=refused.why,
        )  # fmt: skip
    return kind(
        index=part.index, error_code=Code.NONE, base_offset=offset, log_append_time_ms=-1,
        log_start_offset=log.start,
    )  # fmt: skip


async def _checked(cluster: Cluster, topic: Topic, data: bytes) -> Header:
    """The header of a batch that may be stored; where the check takes long, others are served."""
    if is_light(data):
        return cluster.topics.checked(topic, data)
    async with cluster.checking:  # one at a time, as each may unpack to a lot
        return await asyncio.to_thread(cluster.topics.checked, topic, data)


def _is_enough(found: list[Any], least: int) -> bool:
    parts = [part for topic in found for part in topic.partitions]
    return any(p.error_code for p in parts) or sum(len(p.records) for p in parts) >= least


def _look(cluster: Cluster, body: Any) -> list[Any]:
    """What the logs hold now, as much as there is room for."""
    room = most = min(body.max_bytes, cluster.settings.max_response_bytes)
    topics = []
    for topic in body.topics:
        partitions = []
        for part in topic.partitions:
            partitions.append(_fetched(cluster, body, topic.topic, part, room, room == most))
            room -= len(partitions[-1].records)
        topics.append(FETCHED(topic=topic.topic, partitions=partitions))
    return topics


def _fetched(cluster: Cluster, body: Any, name: str, part: Any, room: int, first: bool) -> Any:
    code, records = Code.NONE, b""
    log: Log | None = None
    try:
        log = cluster.topics[name].log(part.partition)
        most = min(part.partition_max_bytes, room)
        records = b"".join(log.read(part.fetch_offset, most, at_least_one=first))
    except Refused as refused:
        code = refused.code
    end, start = (log.end, log.start) if log else NOWHERE
    return FETCHED.PartitionData(
        partition_index=part.partition, error_code=code, high_watermark=end,
        last_stable_offset=end, log_start_offset=start, records=records,
        aborted_transactions=[] if body.isolation_level else None,
    )  # fmt: skip


def _offset(cluster: Cluster, name: str, part: Any) -> Any:
    code, (time, offset) = Code.NONE, NOWHERE
    try:
        time, offset = _position(cluster.topics[name].log(part.partition_index), part.timestamp)
    except Refused as refused:
        code = refused.code
    return LISTED.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, error_code=code, timestamp=time, offset=offset,
        leader_epoch=-1 if offset < 0 else 0,
    )  # fmt: skip


def _position(log: Log, timestamp: int) -> tuple[int, int]:
    if timestamp == LATEST:
        return -1, log.end
    if timestamp == EARLIEST:
        return -1, log.start
    if timestamp < 0:
        raise Refused(Code.INVALID_REQUEST, f"timestamp {timestamp} means nothing here")
    return log.at_time(timestamp) or NOWHERE


def _deleted(cluster: Cluster, name: str, part: Any) -> Any:
    code, start = Code.NONE, -1
    try:
        topic = cluster.topics[name]
        log = topic.log(part.partition_index)
        if not topic.config.is_trimmed:
            raise Refused(Code.POLICY_VIOLATION, f"{name} is compacted, and never trimmed")
        offset = log.end if part.offset == -1 else part.offset
        if not 0 <= offset <= log.end:
            raise Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is past {log.end}")
        log.delete_before(offset)
        start = log.start
    except Refused as refused:
        code = refused.code
    return DELETED.DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=start, error_code=code
    )
