"""Groups as an administrator sees them: listed, described, deleted."""

from typing import Any

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse

from worker.broker.codes import Code, Refused, code_of
from worker.broker.group import Group
from worker.broker.members import GroupState
from worker.broker.settings import Cluster
from worker.broker.wire import Call

DESCRIBED = DescribeGroupsResponse.DescribedGroup
CLASSIC = "classic"


async def list_groups(cluster: Cluster, call: Call) -> Any:
    """Every group, or those in the states and of the types asked for."""
    states = {state.lower() for state in call.body.states_filter}
    types = {kind.lower() for kind in call.body.types_filter}
    kind = ListGroupsResponse.ListedGroup
    return ListGroupsResponse(
        version=call.version,
        groups=[
            kind(
                group_id=group.name, protocol_type=group.protocol_type, group_state=group.state,
                group_type=CLASSIC,
            )
            for group in cluster.groups
            if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
        ],
    )  # fmt: skip


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
    kind = DeleteGroupsResponse.DeletableGroupResult
    results = [
        kind(group_id=name, error_code=code_of(cluster.groups.delete, name))
        for name in call.body.groups_names
    ]
    return DeleteGroupsResponse(version=call.version, results=results)


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
