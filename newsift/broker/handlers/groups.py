"""Requests about consumer groups: membership, offsets, administration."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)

from newsift.broker.codes import Code, RequestError, run_for_code
from newsift.broker.groups import (
    CommittedOffset,
    ConsumerGroup,
    GroupState,
    Join,
    JoinResult,
    Member,
    SyncResult,
)
from newsift.broker.settings import Cluster
from newsift.broker.wire import Call

T = TypeVar("T")

MAX_METADATA_BYTES = 4096
NO_OFFSET = CommittedOffset(-1)
CLASSIC = "classic"
CommitTopic = OffsetCommitResponse.OffsetCommitResponseTopic
DescribedGroup = DescribeGroupsResponse.DescribedGroup


async def commit_offsets(cluster: Cluster, call: Call) -> Any:
    """Store offsets. The sender must be a current member, unless the group is empty."""
    body = call.body
    generation = body.generation_id_or_member_epoch
    membership = body.group_id, body.member_id, generation, body.group_instance_id
    group_code = run_for_code(cluster.groups.check_commit, *membership)

    def commit(topic: str, item: Any) -> Any:
        code = group_code or run_for_code(_commit, cluster, body.group_id, topic, item)
        return CommitTopic.OffsetCommitResponsePartition(
            partition_index=item.partition_index, error_code=code
        )

    topics = [
        CommitTopic(
            name=topic.name, partitions=[commit(topic.name, item) for item in topic.partitions]
        )
        for topic in body.topics
    ]
    return OffsetCommitResponse(topics=topics)


async def fetch_offsets(cluster: Cluster, call: Call) -> Any:
    Response = OffsetFetchResponse
    if call.version < 8:
        Topic = Response.OffsetFetchResponseTopic
        Partition = Topic.OffsetFetchResponsePartition
        topics = _topics_with_offsets(
            cluster, call.body.group_id, call.body.topics, Topic, Partition
        )
        return Response(topics=topics)
    Group = Response.OffsetFetchResponseGroup
    Topic = Group.OffsetFetchResponseTopics
    Partition = Topic.OffsetFetchResponsePartitions
    groups = []
    for item in call.body.groups:
        code = run_for_code(_check_member, cluster, item)
        entries = [] if code else item.topics
        topics = _topics_with_offsets(cluster, item.group_id, entries, Topic, Partition)
        groups.append(Group(group_id=item.group_id, topics=topics, error_code=code))
    return Response(groups=groups)


async def list_groups(cluster: Cluster, call: Call) -> Any:
    states = {state.lower() for state in call.body.states_filter}
    types = {name.lower() for name in call.body.types_filter}
    groups = [
        ListGroupsResponse.ListedGroup(
            group_id=group.name, protocol_type=group.protocol_type, group_state=group.state,
            group_type=CLASSIC,
        )
        for group in cluster.groups.values()
        if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
    ]  # fmt: skip
    return ListGroupsResponse(groups=groups)


async def describe_groups(cluster: Cluster, call: Call) -> Any:
    groups = []
    for name in call.body.groups:
        try:  # `cluster.groups` raises at every access for an oversized request
            group = cluster.groups.get(name)
            groups.append(_describe(group) if group else _describe_missing(name, call.version))
        except RequestError as error:
            groups.append(DescribedGroup(error_code=error.code, group_id=name))
    return DescribeGroupsResponse(groups=groups)


async def delete_groups(cluster: Cluster, call: Call) -> Any:
    results = [
        DeleteGroupsResponse.DeletableGroupResult(
            group_id=name, error_code=run_for_code(cluster.groups.delete, name)
        )
        for name in call.body.groups_names
    ]
    return DeleteGroupsResponse(results=results)


def _check_member(cluster: Cluster, item: Any) -> None:
    if item.member_id:
        cluster.groups.require(item.group_id).require_member(item.member_id)


def _commit(cluster: Cluster, group: str, topic: str, item: Any) -> None:
    cluster.topics[topic].log(item.partition_index)
    metadata = item.committed_metadata or ""
    if len(metadata.encode()) > MAX_METADATA_BYTES:
        raise RequestError(Code.OFFSET_METADATA_TOO_LARGE, f"more than {MAX_METADATA_BYTES} bytes")
    cluster.groups.get_or_create(group).offsets[topic, item.partition_index] = CommittedOffset(
        item.committed_offset, item.committed_leader_epoch, metadata
    )


def _topics_with_offsets(
    cluster: Cluster, group: str, entries: Iterable[Any] | None, Topic: Any, Partition: Any
) -> list[Any]:
    state = cluster.groups.get(group)
    offsets = state.offsets if state else {}
    partitions: dict[str, list[int]] = {}
    if entries is None:
        for name, index in offsets:
            partitions.setdefault(name, []).append(index)
    else:
        partitions = {topic.name: topic.partition_indexes for topic in entries}

    def partition(name: str, index: int) -> Any:
        position = offsets.get((name, index), NO_OFFSET)
        return Partition(
            partition_index=index, committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch, metadata=position.metadata,
            error_code=Code.NONE,
        )  # fmt: skip

    return [
        Topic(name=name, partitions=[partition(name, index) for index in indexes])
        for name, indexes in partitions.items()
    ]


def _describe(group: ConsumerGroup) -> Any:
    DescribedMember = DescribedGroup.DescribedGroupMember
    return DescribedGroup(
        error_code=Code.NONE, group_id=group.name, group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
        members=[
            DescribedMember(
                member_id=member.id, group_instance_id=member.join.instance_id,
                client_id=member.join.client_id,
                client_host=member.join.host, member_assignment=member.assignment,
                member_metadata=member.join.protocols.get(group.protocol or "", b""),
            )
            for member in group.members
        ],
    )  # fmt: skip


def _describe_missing(name: str, version: int) -> Any:
    code, message = Code.NONE, None
    if version >= 6:
        code, message = Code.GROUP_ID_NOT_FOUND, f"Group {name} not found."
    return DescribedGroup(
        error_code=code, error_message=message, group_id=name, group_state=GroupState.DEAD,
        protocol_type="", protocol_data="", members=[],
    )  # fmt: skip


async def join_group(cluster: Cluster, call: Call) -> Any:
    """The answer is sent when all members have joined."""
    try:
        join = _read_join(cluster, call)
        group = cluster.groups.get_or_create(call.body.group_id)
        result: JoinResult = await _await_result(lambda callback: group.join(join, callback))
    except RequestError as error:
        result = JoinResult(error.code, call.body.member_id)
    JoinedMember = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        error_code=result.code, generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol if call.version >= 7 else result.protocol or "",
        leader=result.leader, skip_assignment=result.skip_assignment, member_id=result.member_id,
        members=[
            JoinedMember(member_id=member, group_instance_id=instance, metadata=metadata)
            for member, instance, metadata in result.members
        ],
    )  # fmt: skip


async def sync_group(cluster: Cluster, call: Call) -> Any:
    """The answer is sent when the leader has assigned the partitions."""
    body = call.body
    try:
        group, member = _current_member(cluster, body)
        if body.protocol_name not in (None, group.protocol):
            raise RequestError(
                Code.INCONSISTENT_GROUP_PROTOCOL, f"the protocol is {group.protocol}"
            )
        assignments = {item.member_id: item.assignment or b"" for item in body.assignments}
        result: SyncResult = await _await_result(
            lambda callback: group.sync(member, assignments, callback)
        )
    except RequestError as error:
        result = SyncResult(error.code)
    return SyncGroupResponse(
        error_code=result.code, protocol_type=result.protocol_type,
        protocol_name=result.protocol, assignment=result.assignment,
    )  # fmt: skip


async def heartbeat(cluster: Cluster, call: Call) -> Any:
    try:
        group, member = _current_member(cluster, call.body)
        code = group.heartbeat(member)
    except RequestError as error:
        code = error.code
    return HeartbeatResponse(error_code=code)


async def leave_group(cluster: Cluster, call: Call) -> Any:
    name = call.body.group_id

    def leave_code(member: str, instance_id: str | None = None) -> Code:
        return run_for_code(lambda: cluster.groups.require(name).leave(member, instance_id))

    if call.version < 3:
        return LeaveGroupResponse(error_code=leave_code(call.body.member_id))
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=item.member_id, group_instance_id=item.group_instance_id,
                error_code=leave_code(item.member_id, item.group_instance_id),
            )
            for item in call.body.members
        ],
    )  # fmt: skip


def _current_member(cluster: Cluster, body: Any) -> tuple[ConsumerGroup, Member]:
    group = cluster.groups.require(body.group_id)
    return group, group.require_member(body.member_id, body.generation_id, body.group_instance_id)


def _read_join(cluster: Cluster, call: Call) -> Join:
    body, settings = call.body, cluster.settings
    session_s = body.session_timeout_ms / 1000
    if not settings.min_session_s <= session_s <= settings.max_session_s:
        raise RequestError(
            Code.INVALID_SESSION_TIMEOUT,
            f"the session timeout of {session_s} s is not in "
            f"[{settings.min_session_s}, {settings.max_session_s}]",
        )
    return Join(
        member_id=body.member_id,
        client_id=call.client_id,
        host=f"/{call.client.peer}",  # Java brokers print addresses as "/host"
        session_s=session_s,
        rebalance_s=body.rebalance_timeout_ms / 1000,
        protocol_type=body.protocol_type,
        protocols={item.name: item.metadata or b"" for item in body.protocols},
        asks_for_id=call.version >= 4,
        instance_id=body.group_instance_id,
        skips_assignment=call.version >= 9,
    )


async def _await_result(start: Callable[[Callable[[T], None]], None]) -> T:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    start(lambda result: None if future.done() else future.set_result(result))
    return await future
