"""Being in a group: join, sync, heartbeat, leave."""

import asyncio
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

from worker.broker.codes import Code, Refused
from worker.broker.members import Join, Joined, Synced
from worker.broker.settings import Cluster
from worker.broker.wire import Call


async def join(cluster: Cluster, call: Call) -> Any:
    """Take a consumer into its group; answered when everyone has joined."""
    future: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
    try:
        wish = _wish(cluster, call)
        cluster.groups.made(call.body.group_id).group.join(wish, lambda got: _settle(future, got))
        joined = await future
    except Refused as refused:
        joined = Joined(refused.code, call.body.member_id)
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


async def sync(cluster: Cluster, call: Call) -> Any:
    """Hand a member its partitions; answered when the leader has assigned them."""
    body = call.body
    future: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
    try:
        group = cluster.groups.existing(body.group_id)
        member = group.known(body.member_id, body.group_instance_id, body.generation_id)
        if body.protocol_name not in (None, group.protocol):
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"the protocol is {group.protocol}")
        given = {each.member_id: each.assignment or b"" for each in body.assignments}
        group.sync(member, given, lambda got: _settle(future, got))
        synced = await future
    except Refused as refused:
        synced = Synced(refused.code)
    return SyncGroupResponse(
        version=call.version, error_code=synced.code, protocol_type=synced.protocol_type,
        protocol_name=synced.protocol, assignment=synced.assignment,
    )  # fmt: skip


async def heartbeat(cluster: Cluster, call: Call) -> Any:
    """Note that a member lives, and tell it when it has to join again."""
    body = call.body
    try:
        group = cluster.groups.existing(body.group_id)
        member = group.known(body.member_id, body.group_instance_id, body.generation_id)
        code = group.heartbeat(member)
    except Refused as refused:
        code = refused.code
    return HeartbeatResponse(version=call.version, error_code=code)


async def leave(cluster: Cluster, call: Call) -> Any:
    """Let members go at their own wish."""
    if call.version < 3:
        code = _left(cluster, call.body.group_id, call.body.member_id, None)
        return LeaveGroupResponse(version=call.version, error_code=code)
    kind = LeaveGroupResponse.MemberResponse
    return LeaveGroupResponse(
        version=call.version,
        members=[
            kind(
                member_id=each.member_id, group_instance_id=each.group_instance_id,
                error_code=_left(
                    cluster, call.body.group_id, each.member_id, each.group_instance_id
                ),
            )
            for each in call.body.members
        ],
    )  # fmt: skip


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
        instance=body.group_instance_id,
        asks_for_id=call.version >= 4,
        may_skip=call.version >= 9,
    )


def _left(cluster: Cluster, group: str, member: str, instance: str | None) -> Code:
    try:
        cluster.groups.existing(group).leave(member, instance)
    except Refused as refused:
        return refused.code
    return Code.NONE


def _settle(future: "asyncio.Future[Any]", answer: object) -> None:
    if not future.done():
        future.set_result(answer)
