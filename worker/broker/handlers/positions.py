"""The positions of groups: committed and fetched."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import OffsetCommitResponse, OffsetFetchResponse

from worker.broker.codes import Code, Refused, code_of
from worker.broker.members import Committed
from worker.broker.settings import Cluster
from worker.broker.wire import Call

MOST_METADATA = 4096
NOTHING = Committed(-1)


async def commit_positions(cluster: Cluster, call: Call) -> Any:
    """Keep the positions of a group, if a present member or a group without members says so."""
    body = call.body
    generation = body.generation_id_or_member_epoch
    refused = code_of(cluster.groups.check_commit, body.group_id, body.member_id, generation)
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    part = kind.OffsetCommitResponsePartition

    def kept(topic: str, asked: Any) -> Any:
        code = refused or code_of(_keep, cluster, body.group_id, topic, asked)
        return part(partition_index=asked.partition_index, error_code=code)

    topics = [
        kind(name=topic.name, partitions=[kept(topic.name, each) for each in topic.partitions])
        for topic in body.topics
    ]
    return OffsetCommitResponse(version=call.version, topics=topics)


async def fetch_positions(cluster: Cluster, call: Call) -> Any:
    """The positions that groups have committed; -1 where there is none."""
    kind = OffsetFetchResponse
    if call.version < 8:
        topics = _positions(
            cluster, call.body.group_id, call.body.topics, kind.OffsetFetchResponseTopic,
            kind.OffsetFetchResponseTopic.OffsetFetchResponsePartition,
        )  # fmt: skip
        return kind(version=call.version, topics=topics)
    of_group = kind.OffsetFetchResponseGroup
    groups = []
    for asked in call.body.groups:
        code = code_of(_check_member, cluster, asked)
        topics = _positions(
            cluster, asked.group_id, [] if code else asked.topics,
            of_group.OffsetFetchResponseTopics,
            of_group.OffsetFetchResponseTopics.OffsetFetchResponsePartitions,
        )  # fmt: skip
        groups.append(of_group(group_id=asked.group_id, topics=topics, error_code=code))
    return kind(version=call.version, groups=groups)


def _check_member(cluster: Cluster, asked: Any) -> None:
    if asked.member_id:
        cluster.groups.existing(asked.group_id).known(asked.member_id)


def _keep(cluster: Cluster, group: str, topic: str, asked: Any) -> None:
    cluster.topics[topic].log(asked.partition_index)
    metadata = asked.committed_metadata or ""
    if len(metadata.encode()) > MOST_METADATA:
        raise Refused(Code.OFFSET_METADATA_TOO_LARGE, f"more than {MOST_METADATA} bytes")
    cluster.groups.made(group).offsets[topic, asked.partition_index] = Committed(
        asked.committed_offset, asked.committed_leader_epoch, metadata
    )


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

    def position(name: str, index: int) -> Any:
        kept = offsets.get((name, index), NOTHING)
        return part(
            partition_index=index, committed_offset=kept.offset,
            committed_leader_epoch=kept.leader_epoch, metadata=kept.metadata, error_code=Code.NONE,
        )  # fmt: skip

    return [
        kind(name=name, partitions=[position(name, index) for index in indexes])
        for name, indexes in wanted.items()
    ]
