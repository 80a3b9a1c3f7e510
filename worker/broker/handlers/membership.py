"""Being in a group: join, sync, heartbeat, leave."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

from worker.broker.codes import Code, Refused, code_of
from worker.broker.group import Group
from worker.broker.members import Join, Joined, Member, Synced
from worker.broker.settings import Cluster
from worker.broker.wire import Call

T = TypeVar("T")


async def join_group(cluster: Cluster, call: Call) -> Any:
    """Take a consumer into its group; answered when everyone has joined."""
    try:
        wish = _wish(cluster, call)
        group = cluster.groups.made(call.body.group_id)
        joined: Joined = await _answer(lambda told: group.join(wish, told))
    except Refused as refused:
        joined = Joined(refused.code, call.body.member_id)
    kind = JoinGroupResponse.JoinGroupResponseMember
    return JoinGroupResponse(
        version=call.version, error_code=joined.code, generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if call.version >= 7 else joined.protocol or "",
        leader=joined.leader, skip_assignment=False, member_id=joined.member_id,
        members=[
            kind(member_id=member, group_instance_id=None, metadata=metadata)
            for member, metadata in joined.members
        ],
    )  # fmt: skip


async def sync_group(cluster: Cluster, call: Call) -> Any:
    """Hand a member its partitions; answered when the leader has assigned them."""
    body = call.body
    try:
        group, member = _present(cluster, body)
        if body.protocol_name not in (None, group.protocol):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"the protocol is {group.protocol}")
        given = {each.member_id: each.assignment or b"" for each in body.assignments}
        synced: Synced = await _answer(lambda told: group.sync(member, given, told))
    except Refused as refused:
        synced = Synced(refused.code)
    return SyncGroupResponse(
        version=call.version, error_code=synced.code, protocol_type=synced.protocol_type,
        protocol_name=synced.protocol, assignment=synced.assignment,
    )  # fmt: skip


async def heartbeat(cluster: Cluster, call: Call) -> Any:
    """Note that a member lives, and tell it when it has to join again."""
    try:
        group, member = _present(cluster, call.body)
        code = group.heartbeat(member)
    except Refused as refused:
        code = refused.code
    return HeartbeatResponse(version=call.version, error_code=code)


async def leave_group(cluster: Cluster, call: Call) -> Any:
    """Let members go at their own wish."""
    name = call.body.group_id

    def left(member: str) -> Code:
        return code_of(lambda: cluster.groups.existing(name).leave(member))

    if call.version < 3:
        return LeaveGroupResponse(version=call.version, error_code=left(call.body.member_id))
    kind = LeaveGroupResponse.MemberResponse
    return LeaveGroupResponse(
        version=call.version,
        members=[
            kind(
                member_id=each.member_id, group_instance_id=each.group_instance_id,
                error_code=left(each.member_id),
            )
            for each in call.body.members
        ],
    )  # fmt: skip


def _present(cluster: Cluster, body: Any) -> tuple[Group, Member]:
    group = cluster.groups.existing(body.group_id)
    return group, group.known(body.member_id, body.generation_id)


def _wish(cluster: Cluster, call: Call) -> Join:
    body, settings = call.body, cluster.settings
    session_s = body.session_timeout_ms / 1000
    if not settings.min_session_s <= session_s <= settings.max_session_s:
        raise Refused(Code.INVALID_SESSION_TIMEOUT, f"a session of {session_s} s is out of range")
    return Join(
        member_id=body.member_id,
        client_id=call.client_id,
        host=f"/{call.client.peer}",
        session_s=session_s,
        rebalance_s=body.rebalance_timeout_ms / 1000,
        protocol_type=body.protocol_type,
        protocols={each.name: each.metadata or b"" for each in body.protocols},
        asks_for_id=call.version >= 4,
    )


async def _answer(ask: Callable[[Callable[[T], None]], None]) -> T:
    """What the group answers in its time."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(lambda told: None if future.done() else future.set_result(told))
    return await future
