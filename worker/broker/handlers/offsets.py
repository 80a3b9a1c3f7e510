"""Offsets of logs: earliest, latest, by time, by epoch; and moving the start of a log."""

from typing import Any

from kafka.protocol.admin import DeleteRecordsResponse
from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse

from worker.broker.codes import Code, Refused
from worker.broker.handlers.fetch import check_epoch
from worker.broker.log import Log
from worker.broker.settings import Cluster
from worker.broker.wire import Call

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL = -1, -2, -3, -4
NOWHERE = (-1, -1)


async def list_offsets(cluster: Cluster, call: Call) -> Any:
    """The offset of a time in each partition; -1 where no record is as young."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    return ListOffsetsResponse(
        version=call.version,
        topics=[
            kind(name=t.name, partitions=[_offset(cluster, t.name, p) for p in t.partitions])
            for t in call.body.topics
        ],
    )


async def offset_for_leader_epoch(cluster: Cluster, call: Call) -> Any:
    """The end of the only epoch there is, 0."""
    kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    return OffsetForLeaderEpochResponse(
        version=call.version,
        topics=[
            kind(topic=t.topic, partitions=[_epoch_end(cluster, t.topic, p) for p in t.partitions])
            for t in call.body.topics
        ],
    )


async def delete_records(cluster: Cluster, call: Call) -> Any:
    """Move the start of each log up to an offset; -1 is its end."""
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult
    return DeleteRecordsResponse(
        version=call.version,
        topics=[
            kind(name=t.name, partitions=[_deleted(cluster, t.name, p) for p in t.partitions])
            for t in call.body.topics
        ],
    )


def _offset(cluster: Cluster, name: str, part: Any) -> Any:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
    code, epoch, (time, offset) = Code.NONE, 0, NOWHERE
    try:
        log = cluster.topics[name].log(part.partition_index)
        check_epoch(part.current_leader_epoch)
        time, offset = _position(log, part.timestamp)
    except Refused as refused:
        code = refused.code
    if offset < 0:
        epoch = -1
    return kind(
        partition_index=part.partition_index, error_code=code, timestamp=time, offset=offset,
        leader_epoch=epoch,
    )  # fmt: skip


def _position(log: Log, timestamp: int) -> tuple[int, int]:
    if timestamp == LATEST:
        return -1, log.end
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start
    if timestamp == NEWEST:
        return log.newest() or NOWHERE
    if timestamp < 0:
        raise Refused(Code.INVALID_REQUEST, f"timestamp {timestamp} means nothing here")
    return log.at_time(timestamp) or NOWHERE


def _epoch_end(cluster: Cluster, name: str, part: Any) -> Any:
    kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset
    try:
        end = cluster.topics[name].log(part.partition).end
        check_epoch(part.current_leader_epoch)
    except Refused as refused:
        return kind(error_code=refused.code, partition=part.partition)
    epoch, end = (0, end) if part.leader_epoch == 0 else NOWHERE
    return kind(error_code=Code.NONE, partition=part.partition, leader_epoch=epoch, end_offset=end)


def _deleted(cluster: Cluster, name: str, part: Any) -> Any:
    kind = DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult
    index = part.partition_index
    try:
        topic = cluster.topics[name]
        log = topic.log(index)
        if not topic.config.is_trimmed:
            raise Refused(Code.POLICY_VIOLATION, f"{name} is compacted, and never trimmed")
        offset = log.end if part.offset == -1 else part.offset
        if not 0 <= offset <= log.end:
            raise Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is past {log.end}")
        log.delete_before(offset)
    except Refused as refused:
        return kind(partition_index=index, low_watermark=-1, error_code=refused.code)
    return kind(partition_index=index, low_watermark=log.start, error_code=Code.NONE)
