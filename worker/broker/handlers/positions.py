"""The positions of groups: committed, fetched and deleted."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)

from worker.broker.codes import Code, Refused
from worker.broker.groups import NOTHING, Committed
from worker.broker.settings import Cluster
from worker.broker.wire import Call

MOST_METADATA = 4096


async def commit(cluster: Cluster, call: Call) -> Any:
    """Keep the positions of a group, if a present member or a group without members says so."""
    body, code = call.body, Code.NONE
    try:
        cluster.groups.check_commit(
            body.group_id, body.member_id, body.group_instance_id,
            body.generation_id_or_member_epoch,
        )  # fmt: skip
    except Refused as refused:
        code = refused.code
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    part = kind.OffsetCommitResponsePartition
    topics = []
    for topic in body.topics:
        codes = [
            (p, code or _keep(cluster, body.group_id, topic.name, p)) for p in topic.partitions
        ]
        parts = [part(partition_index=p.partition_index, error_code=each) for p, each in codes]
        topics.append(kind(name=topic.name, partitions=parts))
    return OffsetCommitResponse(version=call.version, topics=topics)


async def fetch(cluster: Cluster, call: Call) -> Any:
    """The positions that groups have committed; -1 where there is none."""
    kind = OffsetFetchResponse
    if call.version < 8:
        topics = _positions(
            cluster, call.body.group_id, call.body.topics, kind.OffsetFetchResponseTopic,
            kind.OffsetFetchResponseTopic.OffsetFetchResponsePartition,
        )  # fmt: skip
        return kind(version=call.version, topics=topics)
    groups = []
    for asked in call.body.groups:
        code = _membership(cluster, asked)
        topics = _positions(
            cluster, asked.group_id, [] if code else asked.topics,
            kind.OffsetFetchResponseGroup.OffsetFetchResponseTopics,
            kind.OffsetFetchResponseGroup.OffsetFetchResponseTopics.OffsetFetchResponsePartitions,
        )  # fmt: skip
        groups.append(
            kind.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=code)
        )
    return kind(version=call.version, groups=groups)


async def delete(cluster: Cluster, call: Call) -> Any:
    """Forget the positions of a group in partitions that none of its members reads."""
    found = cluster.groups.get(call.body.group_id)
    if found is None:
        return OffsetDeleteResponse(
            version=call.version, error_code=Code.GROUP_ID_NOT_FOUND, topics=[]
        )
    code = Code.GROUP_SUBSCRIBED_TO_TOPIC if found.group.members else Code.NONE
    kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
    part = kind.OffsetDeleteResponsePartition
    topics = []
    for topic in call.body.topics:
        indexes = [p.partition_index for p in topic.partitions]
        for index in () if code else indexes:
            found.offsets.pop((topic.name, index), None)
        parts = [part(partition_index=index, error_code=code) for index in indexes]
        topics.append(kind(name=topic.name, partitions=parts))
    return OffsetDeleteResponse(version=call.version, topics=topics)


def _keep(cluster: Cluster, group: str, name: str, part: Any) -> Code:
    try:
        cluster.topics[name].log(part.partition_index)
    except Refused as refused:
        return refused.code
    metadata = part.committed_metadata or ""
    if len(metadata.encode()) > MOST_METADATA:
        return Code.OFFSET_METADATA_TOO_LARGE
    cluster.groups.made(group).offsets[name, part.partition_index] = Committed(
        part.committed_offset, part.committed_leader_epoch, metadata
    )
    return Code.NONE


def _positions(
    cluster: Cluster, group: str, asked: Iterable[Any] | None, kind: Any, part: Any
) -> list[Any]:
    found = cluster.groups.get(group)
    offsets = found.offsets if found else {}
    wanted: dict[str, list[int]] = {}
    if asked is None:
        for name, index in offsets:
            wanted.setdefault(name, []).append(index)
    else:
        wanted = {topic.name: topic.partition_indexes for topic in asked}
    return [
        kind(name=n, partitions=[_position(part, i, offsets.get((n, i), NOTHING)) for i in indexes])
        for n, indexes in wanted.items()
    ]


def _position(part: Any, index: int, committed: Committed) -> Any:
    return part(
        partition_index=index, committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch, metadata=committed.metadata,
        error_code=Code.NONE,
    )  # fmt: skip


def _membership(cluster: Cluster, asked: Any) -> Code:
    """Whether someone who says which member it is, is one."""
    if not asked.member_id:
        return Code.NONE
    try:
        cluster.groups.existing(asked.group_id).known(asked.member_id, None)
    except Refused as refused:
        return refused.code
    return Code.NONE
