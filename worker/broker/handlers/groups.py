"""Groups from outside: their positions, and as an administrator sees them."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import OffsetCommitResponse, OffsetFetchResponse

from worker.broker.codes import Code, Refused, code_of
from worker.broker.group import Group
from worker.broker.members import Committed, GroupState
from worker.broker.settings import Cluster
from worker.broker.wire import Call

MOST_METADATA = 4096
NOTHING = Committed(-1)
CLASSIC = "classic"
COMMITTED = OffsetCommitResponse.OffsetCommitResponseTopic
DESCRIBED = DescribeGroupsResponse.DescribedGroup


async def commit_positions(cluster: Cluster, call: Call) -> Any:
    """Keep the positions of a group, if a present member or a group without members says so."""
    body = call.body
    generation = body.generation_id_or_member_epoch
    refused = code_of(cluster.groups.check_commit, body.group_id, body.member_id, generation)

    def kept(topic: str, asked: Any) -> Any:
        code = refused or code_of(_keep, cluster, body.group_id, topic, asked)
        kind = COMMITTED.OffsetCommitResponsePartition
        return kind(partition_index=asked.partition_index, error_code=code)

    topics = [
        COMMITTED(name=topic.name, partitions=[kept(topic.name, each) for each in topic.partitions])
        for topic in body.topics
    ]
    return OffsetCommitResponse(version=call.version, topics=topics)


async def fetch_positions(cluster: Cluster, call: Call) -> Any:
    """The positions that groups have committed; -1 where there is none."""
    kind = OffsetFetchResponse
    if call.version < 8:
        of_topic = kind.OffsetFetchResponseTopic
        part = of_topic.OffsetFetchResponsePartition
        topics = _positions(cluster, call.body.group_id, call.body.topics, of_topic, part)
        return kind(version=call.version, topics=topics)
    of_group = kind.OffsetFetchResponseGroup
    of_topic = of_group.OffsetFetchResponseTopics
    part = of_topic.OffsetFetchResponsePartitions
    groups = []
    for asked in call.body.groups:
        code = code_of(_check_member, cluster, asked)
        wanted = [] if code else asked.topics
        topics = _positions(cluster, asked.group_id, wanted, of_topic, part)
        groups.append(of_group(group_id=asked.group_id, topics=topics, error_code=code))
    return kind(version=call.version, groups=groups)


async def list_groups(cluster: Cluster, call: Call) -> Any:
    """Every group, or those in the states and of the types asked for."""
    states = {state.lower() for state in call.body.states_filter}
    types = {kind.lower() for kind in call.body.types_filter}
    groups = [
        ListGroupsResponse.ListedGroup(
            group_id=group.name, protocol_type=group.protocol_type, group_state=group.state,
            group_type=CLASSIC,
        )
        for group in cluster.groups.values()
        if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
    ]  # fmt: skip
    return ListGroupsResponse(version=call.version, groups=groups)


async def describe_groups(cluster: Cluster, call: Call) -> Any:
    """The state and the members of groups; a group that is not there is dead."""
    groups = []
    for name in call.body.groups:
        try:
            found = cluster.groups.get(name)
            groups.append(_described(found) if found else _dead(name, call.version))
        except Refused as refused:
            groups.append(DESCRIBED(error_code=refused.code, group_id=name))
    return DescribeGroupsResponse(version=call.version, groups=groups)


async def delete_groups(cluster: Cluster, call: Call) -> Any:
    """Forget groups that nobody is in."""
    results = [
        DeleteGroupsResponse.DeletableGroupResult(
            group_id=name, error_code=code_of(cluster.groups.delete, name)
        )
        for name in call.body.groups_names
    ]
    return DeleteGroupsResponse(version=call.version, results=results)


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


def _described(group: Group) -> Any:
    member = DESCRIBED.DescribedGroupMember
    return DESCRIBED(
        error_code=Code.NONE, group_id=group.name, group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
        members=[
            member(
                member_id=each.id, group_instance_id=None, client_id=each.join.client_id,
                client_host=each.join.host, member_assignment=each.assignment,
                member_metadata=each.join.protocols.get(group.protocol or "", b""),
            )
            for each in group.members
        ],
    )  # fmt: skip


def _dead(name: str, version: int) -> Any:
    code, why = Code.NONE, None
    if version >= 6:
        code, why = Code.GROUP_ID_NOT_FOUND, f"Group {name} not found."
    return DESCRIBED(
        error_code=code, error_message=why, group_id=name, group_state=GroupState.DEAD,
        protocol_type="", protocol_data="", members=[],
    )  # fmt: skip
