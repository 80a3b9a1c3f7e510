"""Static membership and sticky assignment of a worker in its consumer group.

aiokafka's coordinator names the instance where it joins, but not in heartbeats and commits. A
broker calls a worker whose id another has taken over an unknown member, which then joins again and
takes the id back, for ever. Here every request names it, and the first that is fenced ends the
worker. aiokafka's sticky assignor also needs the generation, without which it cannot tell old
claims from new ones.
"""

import re
from typing import Any

import aiokafka.consumer.consumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetCommitResponse_v3
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v1
from aiokafka.protocol.types import Array, Int32, Int64, Schema, String

from worker.errors import FencedError

FENCED_INSTANCE_ID = 82  # aiokafka does not know this error code.
# a static member's: instance id and UUID
MEMBER_ID = re.compile(r"(.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_EPOCH = -1


def sticky_assignor() -> type[StickyPartitionAssignor]:
    """A class for each consumer, because aiokafka keeps the assignor's state in the class."""
    return type("StickyAssignor", (StickyPartitionAssignor,), {})


class Coordinator(GroupCoordinator):  # type: ignore[misc]
    """aiokafka's coordinator, with the instance id in every request."""

    _fenced: FencedError | None = None
    _leader = ""

    async def _send_req(self, request: Any) -> Any:
        """Remembers the group's leader, and whether this instance is fenced."""
        instance = self._group_instance_id
        if instance is not None and isinstance(request, HeartbeatRequest):
            request = _Heartbeat(self.group_id, self.generation, self.member_id, instance)
        if instance is not None and isinstance(request, OffsetCommitRequest):
            place = self.group_id, self.generation, self.member_id, instance
            request = _OffsetCommit(*place, request._topics)
        answer = await super()._send_req(request)
        self._leader = getattr(answer, "leader_id", self._leader)
        if FENCED_INSTANCE_ID in _codes(answer):
            self._fenced = FencedError(
                f"kafka.instance_id: {instance!r} belongs to another worker of the group "
                f"{self.group_id} now, or the broker has crashed and forgotten this one; give each "
                "worker an id of its own, and start this one again"
            )
        return answer

    def _push_error_to_user(self, exc: BaseException) -> Any:
        """Reports the fencing in the place of what follows from it."""
        return super()._push_error_to_user(self._fenced or exc)

    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        try:
            await super()._do_commit_offsets(assignment, offsets)
        except KafkaError as error:
            raise self._fenced or error from None

    async def _on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        assignor = self._lookup_assignor(protocol)
        if issubclass(assignor, StickyPartitionAssignor):
            assignor.on_generation_assignment(generation)
        await super()._on_join_complete(generation, member_id, protocol, assignment)
        if self._group_subscription is None and self._leads_again(member_id):
            await self._watch_partitions()

    def _leads_again(self, member_id: str) -> bool:
        """Whether this instance led the group before it restarted, and leads it now.

        The broker names its former member as the leader, so that it follows and nothing moves.
        """
        former = MEMBER_ID.fullmatch(self._leader)
        instance_id = self._group_instance_id
        return self._leader != member_id and former is not None and former[1] == instance_id

    async def _watch_partitions(self) -> None:
        """Watch the number of partitions, as the leader does for all.

        Those that were added while it restarted are in nobody's assignment: then it has the group
        assign anew.
        """
        self._group_subscription = self._subscription.subscription.topics
        self._metadata_snapshot = self._get_metadata_snapshot()
        try:
            answer = await self._send_req(DescribeGroupsRequest([self.group_id]))
        except KafkaError:
            return
        assigned = {
            place
            for *_, assignment in answer.groups[0][5]
            if assignment
            for place in ConsumerProtocol.ASSIGNMENT.decode(assignment).partitions()
        }
        if len(assigned) < sum(self._metadata_snapshot.values()):
            self.request_rejoin()


def _codes(answer: Any) -> set[int]:
    """Error codes that may say that the instance is fenced."""
    parts = getattr(answer, "topics", ())
    return {getattr(answer, "error_code", 0), *(part[-1] for _, rows in parts for part in rows)}


# Every consumer in a group is made with this class.
aiokafka.consumer.consumer.GroupCoordinator = Coordinator


class _HeartbeatResponse3(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA = 12, 3, HeartbeatResponse_v1.SCHEMA


class _Heartbeat3(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 12, 3, _HeartbeatResponse3
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class _Heartbeat(Request[_Heartbeat3]):  # type: ignore[misc]
    API_KEY = 12

    def __init__(self, *fields: Any) -> None:
        self._fields = fields

    def build(self, request_struct_class: type[_Heartbeat3]) -> _Heartbeat3:
        return request_struct_class(*self._fields)


class _OffsetCommitResponse7(Response):  # type: ignore[misc]
    API_KEY, API_VERSION, SCHEMA = 8, 7, OffsetCommitResponse_v3.SCHEMA


class _OffsetCommit7(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 8, 7, _OffsetCommitResponse7
    SCHEMA = Schema(
        ("consumer_group", String("utf-8")),
        ("consumer_group_generation_id", Int32),
        ("consumer_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", String("utf-8")),
                    ),
                ),
            ),
        ),
    )


class _OffsetCommit(Request[_OffsetCommit7]):  # type: ignore[misc]
    API_KEY = 8

    def __init__(
        self, group: str, generation: int, member: str, instance: str, topics: list[Any]
    ) -> None:
        rows = [
            (topic, [(partition, offset, NO_EPOCH, note) for partition, offset, note in parts])
            for topic, parts in topics
        ]
        self._fields = group, generation, member, instance, rows

    def build(self, request_struct_class: type[_OffsetCommit7]) -> _OffsetCommit7:
        return request_struct_class(*self._fields)
