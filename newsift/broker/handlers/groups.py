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

from newsift.broker.codes import Code, RequestError, code_of
from newsift.broker.groups import (
    CommittedOffset,
    ConsumerGroup,
    GroupState,
    Join,
    JoinAnswer,
    Member,
    SyncAnswer,
)
from newsift.broker.settings import Cluster
from newsift.broker.wire import Call

MOST_METADATA = 4096
NOTHING = CommittedOffset(-1)
CLASSIC = "classic"
COMMITTED = OffsetCommitResponse.OffsetCommitResponseTopic
DESCRIBED = DescribeGroupsResponse.DescribedGroup


async def commit_positions(cluster: Cluster, call: Call) -> Any:
    """Accepted from a present member, or if the group has no members."""
    body = call.body
    generation = body.generation_id_or_member_epoch
    membership = body.group_id, body.member_id, generation, body.group_instance_id
    group_code = code_of(cluster.groups.check_commit, *membership)

    def commit(topic: str, item: Any) -> Any:
        code = group_code or code_of(_commit, cluster, body.group_id, topic, item)
        kind = COMMITTED.OffsetCommitResponsePartition
        return kind(partition_index=item.partition_index, error_code=code)

    topics = [
        COMMITTED(
            name=topic.name, partitions=[commit(topic.name, each) for each in topic.partitions]
        )
        for topic in body.topics
    ]
    return OffsetCommitResponse(version=call.version, topics=topics)


async def fetch_positions(cluster: Cluster, call: Call) -> Any:
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
    for item in call.body.groups:
        code = code_of(_check_member, cluster, item)
        entries = [] if code else item.topics
        topics = _positions(cluster, item.group_id, entries, of_topic, part)
        groups.append(of_group(group_id=item.group_id, topics=topics, error_code=code))
    return kind(version=call.version, groups=groups)


async def list_groups(cluster: Cluster, call: Call) -> Any:
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
    groups = []
    for name in call.body.groups:
        try:
            group = cluster.groups.get(name)
            groups.append(_described(group) if group else _dead(name, call.version))
        except RequestError as error:
            groups.append(DESCRIBED(error_code=error.code, group_id=name))
    return DescribeGroupsResponse(version=call.version, groups=groups)


async def delete_groups(cluster: Cluster, call: Call) -> Any:
    results = [
        DeleteGroupsResponse.DeletableGroupResult(
            group_id=name, error_code=code_of(cluster.groups.delete, name)
        )
        for name in call.body.groups_names
    ]
    return DeleteGroupsResponse(version=call.version, results=results)


def _check_member(cluster: Cluster, item: Any) -> None:
    if item.member_id:
        cluster.groups.existing(item.group_id).member_of(item.member_id)


def _commit(cluster: Cluster, group: str, topic: str, item: Any) -> None:
    cluster.topics[topic].log(item.partition_index)
    metadata = item.committed_metadata or ""
    if len(metadata.encode()) > MOST_METADATA:
        raise RequestError(Code.OFFSET_METADATA_TOO_LARGE, f"more than {MOST_METADATA} bytes")
    cluster.groups.get_or_create(group).offsets[topic, item.partition_index] = CommittedOffset(
        item.committed_offset, item.committed_leader_epoch, metadata
    )


def _positions(
    cluster: Cluster, group: str, entries: Iterable[Any] | None, kind: Any, part: Any
) -> list[Any]:
    state = cluster.groups.get(group)
    offsets = state.offsets if state else {}
    partitions: dict[str, list[int]] = {}
    if entries is None:
        for name, index in offsets:
            partitions.setdefault(name, []).append(index)
    else:
        partitions = {topic.name: topic.partition_indexes for topic in entries}

    def position(name: str, index: int) -> Any:
        committed = offsets.get((name, index), NOTHING)
        return part(
            partition_index=index, committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch, metadata=committed.metadata,
            error_code=Code.NONE,
        )  # fmt: skip

    return [
        kind(name=name, partitions=[position(name, index) for index in indexes])
        for name, indexes in partitions.items()
    ]


def _described(group: ConsumerGroup) -> Any:
    member = DESCRIBED.DescribedGroupMember
    return DESCRIBED(
        error_code=Code.NONE, group_id=group.name, group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
        members=[
            member(
                member_id=each.id, group_instance_id=each.join.instance_id,
                client_id=each.join.client_id,
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


T = TypeVar("T")


async def join_group(cluster: Cluster, call: Call) -> Any:
    """Answered when all members have joined."""
    try:
        join = _read_join(cluster, call)
        group = cluster.groups.get_or_create(call.body.group_id)
        joined: JoinAnswer = await _answer(lambda answer: group.join(join, answer))
    except RequestError as error:
        joined = JoinAnswer(error.code, call.body.member_id)
    kind = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        version=call.version, error_code=joined.code, generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if call.version >= 7 else joined.protocol or "",
        leader=joined.leader, skip_assignment=joined.skip_assignment, member_id=joined.member_id,
        members=[
            kind(member_id=member, group_instance_id=instance, metadata=metadata)
            for member, instance, metadata in joined.members
        ],
    )  # fmt: skip


async def sync_group(cluster: Cluster, call: Call) -> Any:
    """Answered when the leader has assigned the partitions."""
    body = call.body
    try:
        group, member = _current_member(cluster, body)
        if body.protocol_name not in (None, group.protocol):
            raise RequestError(
                Code.INCONSISTENT_GROUP_PROTOCOL, f"the protocol is {group.protocol}"
            )
        assignments = {each.member_id: each.assignment or b"" for each in body.assignments}
        synced: SyncAnswer = await _answer(lambda answer: group.sync(member, assignments, answer))
    except RequestError as error:
        synced = SyncAnswer(error.code)
    return SyncGroupResponse(
        version=call.version, error_code=synced.code, protocol_type=synced.protocol_type,
        protocol_name=synced.protocol, assignment=synced.assignment,
    )  # fmt: skip


async def heartbeat(cluster: Cluster, call: Call) -> Any:
    try:
        group, member = _current_member(cluster, call.body)
        code = group.heartbeat(member)
    except RequestError as error:
        code = error.code
    return HeartbeatResponse(version=call.version, error_code=code)


async def leave_group(cluster: Cluster, call: Call) -> Any:
    name = call.body.group_id

    def left(member: str, instance_id: str | None = None) -> Code:
        return code_of(lambda: cluster.groups.existing(name).leave(member, instance_id))

    if call.version < 3:
        return LeaveGroupResponse(version=call.version, error_code=left(call.body.member_id))
    kind = LeaveGroupResponse.MemberResponse
    return LeaveGroupResponse(
        version=call.version,
        members=[
            kind(
                member_id=each.member_id, group_instance_id=each.group_instance_id,
                error_code=left(each.member_id, each.group_instance_id),
            )
            for each in call.body.members
        ],
    )  # fmt: skip


def _current_member(cluster: Cluster, body: Any) -> tuple[ConsumerGroup, Member]:
    group = cluster.groups.existing(body.group_id)
    return group, group.member_of(body.member_id, body.generation_id, body.group_instance_id)


def _read_join(cluster: Cluster, call: Call) -> Join:
    body, settings = call.body, cluster.settings
    session_s = body.session_timeout_ms / 1000
    if not settings.min_session_s <= session_s <= settings.max_session_s:
        raise RequestError(
            Code.INVALID_SESSION_TIMEOUT, f"a session of {session_s} s is out of range"
        )
    return Join(
        member_id=body.member_id,
        client_id=call.client_id,
        host=f"/{call.client.peer}",
        session_s=session_s,
        rebalance_s=body.rebalance_timeout_ms / 1000,
        protocol_type=body.protocol_type,
        protocols={each.name: each.metadata or b"" for each in body.protocols},
        asks_for_id=call.version >= 4,
        instance_id=body.group_instance_id,
        skips_assignment=call.version >= 9,
    )


async def _answer(ask: Callable[[Callable[[T], None]], None]) -> T:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(lambda result: None if future.done() else future.set_result(result))
    return await future
