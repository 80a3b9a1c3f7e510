from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from newsift.broker.codes import Code
from tests.broker.clients import consumer, create, until
from tests.broker.raw_requests import Wire

SESSION_MS = 60_000


class Process:
    """One run of an instance: joins under its name, and speaks for its member."""

    def __init__(self, address: str, group: str, instance: str, *, version: int = 5) -> None:
        self.wire, self.group, self.instance = Wire(address), group, instance
        self.member, self.generation, self.version = "", -1, version
        self.wire.ask(FindCoordinatorRequest(key=group, key_type=0, max_version=3))

    def join_request(self, session_ms: int = SESSION_MS, metadata: bytes = b"mine") -> Any:
        kind = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self.group, session_timeout_ms=session_ms, rebalance_timeout_ms=SESSION_MS,
            member_id=self.member, group_instance_id=self.instance, protocol_type="consumer",
            protocols=[kind(name="sticky", metadata=metadata)], max_version=self.version,
        )  # fmt: skip

    def join(self, **options: Any) -> Any:
        answer = self.wire.ask_again(self.join_request(**options))
        if not answer.error_code:
            self.member, self.generation = answer.member_id, answer.generation_id
        return answer

    def take_part(self) -> None:
        self.join()
        self.sync(b"assigned")

    def sync(self, *assignments: bytes) -> Any:
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member,
            group_instance_id=self.instance, max_version=3,
            assignments=[kind(member_id=self.member, assignment=value) for value in assignments],
        )  # fmt: skip
        return self.wire.ask(request)

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member,
            group_instance_id=self.instance, max_version=3,
        )  # fmt: skip
        return int(self.wire.ask(request).error_code)

    def commit(self, topic: str, offset: int) -> int:
        part = OffsetCommitRequest.OffsetCommitRequestTopic
        row = part.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1,
            committed_metadata="",
        )  # fmt: skip
        request = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self.generation,
            member_id=self.member, group_instance_id=self.instance, max_version=7,
            topics=[part(name=topic, partitions=[row])],
        )  # fmt: skip
        return int(self.wire.ask(request).topics[0].partitions[0].error_code)

    def leave(self, member: str) -> int:
        kind = LeaveGroupRequest.MemberIdentity
        members = [kind(member_id=member, group_instance_id=self.instance)]
        request = LeaveGroupRequest(group_id=self.group, max_version=3, members=members)
        answer = self.wire.ask(request)
        return int(answer.error_code or answer.members[0].error_code)

    def members(self) -> list[tuple[str, str]]:
        answer = self.wire.ask(DescribeGroupsRequest(groups=[self.group], max_version=4))
        return [(each.member_id, each.group_instance_id) for each in answer.groups[0].members]


@pytest.fixture
def processes(address: str, unique: str) -> Iterator[Any]:
    with ExitStack() as stack:

        def made(instance: str, **settings: Any) -> Process:
            process = Process(address, unique, instance, **settings)
            stack.callback(process.wire.close)
            return process

        yield made


@pytest.mark.parametrize("version", [5, 9])
def test_an_instance_keeps_its_assignment_over_a_restart(processes: Any, version: int) -> None:
    """Also where it says something new about itself; an old client is not told that it leads."""
    former = processes("one", version=version)
    former.take_part()
    again = processes("one", version=version)
    joined = again.join(metadata=b"new")
    assert (joined.error_code, joined.generation_id) == (Code.NONE, former.generation)
    assert joined.member_id.startswith("one-")
    assert joined.member_id != former.member
    if version < 9:
        assert (joined.leader, joined.members) == (former.member, [])
    else:
        assert (joined.leader, joined.skip_assignment) == (joined.member_id, True)
        [member] = joined.members
        assert (member.group_instance_id, member.metadata) == ("one", b"new")
    assert again.sync().assignment == b"assigned"
    assert again.heartbeat() == Code.NONE
    assert again.members() == [(again.member, "one")]


def test_the_former_process_of_an_instance_is_fenced(
    processes: Any, address: str, unique: str
) -> None:
    create(address, unique)
    former, again = processes("one"), processes("one")
    former.take_part()
    again.join()
    assert former.heartbeat() == Code.FENCED_INSTANCE_ID
    assert former.commit(unique, 5) == Code.FENCED_INSTANCE_ID
    assert former.sync().error_code == Code.FENCED_INSTANCE_ID
    assert former.leave(former.member) == Code.FENCED_INSTANCE_ID
    assert former.join().error_code == Code.FENCED_INSTANCE_ID
    assert again.commit(unique, 3) == Code.NONE
    with consumer(address, group_id=unique) as client:
        assert client.committed(TopicPartition(unique, 0)) == 3


def test_a_member_and_an_instance_that_do_not_belong_together_are_refused(processes: Any) -> None:
    process = processes("one")
    process.take_part()
    process.instance = "other"
    assert process.heartbeat() == Code.UNKNOWN_MEMBER_ID
    assert process.leave("") == Code.UNKNOWN_MEMBER_ID


def test_an_instance_is_removed_by_its_name(processes: Any) -> None:
    process = processes("one")
    process.take_part()
    assert process.leave("") == Code.NONE
    assert process.members() == []
    assert process.heartbeat() == Code.UNKNOWN_MEMBER_ID


def test_a_join_that_waits_is_fenced_by_the_next_process(processes: Any) -> None:
    other, former, again = processes("other"), processes("one"), processes("one")
    other.take_part()
    former.wire.send(former.join_request())
    until(lambda: other.heartbeat() == Code.REBALANCE_IN_PROGRESS)
    again.wire.send(again.join_request())
    assert former.wire.receive().error_code == Code.FENCED_INSTANCE_ID
    joined = other.join()
    assert again.wire.receive().error_code == Code.NONE
    assert {member.group_instance_id for member in joined.members} == {"one", "other"}


def test_an_instance_that_stays_away_loses_its_place_when_its_session_ends(processes: Any) -> None:
    process, witness = processes("one"), processes("witness")
    process.join(session_ms=1000)
    process.sync(b"assigned")
    assert witness.members() == [(process.member, "one")]
    until(lambda: witness.members() == [])
    assert process.heartbeat() == Code.UNKNOWN_MEMBER_ID
