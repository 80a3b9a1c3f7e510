"""What aiokafka lacks, in one place: each part says what is to be reported to aio-libs/aiokafka.

Everything here stands on aiokafka's private parts, and no other module of ours touches one. A part
goes when a release has what it waits for; tests/worker/kafka/test_aiokafka_repairs.py then fails.
"""

import asyncio
import gzip
import math
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any

import aiokafka.client
import aiokafka.consumer.consumer
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import IllegalStateError, KafkaError, RecordTooLargeError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetCommitResponse_v3
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v1
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.types import Array, Int32, Int64, Schema, String
from aiokafka.record.default_records import DefaultRecordBatch

from worker.errors import FencedError
from worker.kafka.batches import StandIn, WholeBatches
from worker.posts.outcome import Unreadable

NO_LEADER = -1
FENCED_INSTANCE_ID = 82
# a static member's: instance id and UUID
MEMBER_ID = re.compile(r"(.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_EPOCH = -1
Offsets = dict[TopicPartition, int]

# To report: consumers and producers allow the broker to make each topic that they ask about; an
# option allow_auto_create_topics, as Java's clients have. Each of them asks by this name.
aiokafka.client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)

# To report: gzip is unpacked 8 KB at a time, and waits for the interpreter's lock after each. Its
# level is no option; 9, which is used, takes four times as long as 3 for a tenth less.
_records: Any = sys.modules[DefaultRecordBatch.__module__]
_records.gzip_decode = gzip.decompress
_records.gzip_encode = partial(zlib.compress, level=3, wbits=31)


def in_sync_replicas(client: AIOKafkaClient, topic: str, partition: int) -> int:
    """To report: a cluster's metadata tell a partition's leader, not its replicas in sync."""
    return len(client.cluster._partitions[topic][partition].isr)


def sticky_assignor() -> type[StickyPartitionAssignor]:
    """To report: the assignor keeps its state in its class; so each consumer has one of its own."""
    return type("StickyAssignor", (StickyPartitionAssignor,), {})


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """aiokafka's record without what nobody reads; the garbage collector does not track it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of a fetched partition; a batch that cannot be read is one `Unreadable`.

    To report: a consumer stops for ever at a batch that it cannot read; skipping it needs a seek
    to an offset that the error does not tell.
    """

    end: int | None = None

    def __init__(self, place: Any, batches: Any, aborted: Any, start: int, *options: Any) -> None:
        whole = WholeBatches(batches, place, start, lambda: self.end)
        super().__init__(place, whole, aborted, start, *options)

    def _consumer_record(self, place: TopicPartition, record: Any) -> ConsumerRecord | Unreadable:
        if isinstance(record, StandIn):
            return record.checksum
        topic, partition = place
        return ConsumerRecord(
            topic, partition, record.offset, record.timestamp,
            record.key, record.value, tuple(record.headers),
        )  # fmt: skip


class FetchResult(fetcher.FetchResult):  # type: ignore[misc]
    def __init__(self, place: TopicPartition, *, assignment: Any, **fields: Any) -> None:
        super().__init__(place, assignment=assignment, **fields)
        fields["partition_records"].end = assignment.state_value(place).highwater


fetcher.PartitionRecords, fetcher.FetchResult = PartitionRecords, FetchResult


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]
    """Reports offsets by partition, and reads ahead one response of each broker."""

    @property
    def client(self) -> AIOKafkaClient:
        """To report: a producer's client is public, a consumer's is not."""
        return self._client

    async def start(self) -> None:
        """Connect.

        To report: partitions that are used up are fetched while others still have records, so the
        buffer grows with the number of partitions. Here a broker is asked again only when its last
        response is used up.
        """
        await super().start()
        self._fetcher._prefetch_backoff = math.inf

    async def getmany(self, *places: TopicPartition, **options: Any) -> dict[Any, list[Any]]:
        """To report: when the task that fetches has failed, nothing is returned for ever."""
        try:
            records: dict[Any, list[Any]] = await super().getmany(*places, **options)
        except RecordTooLargeError as error:  # a batch of a false length; aiokafka is past it
            _, place, offset, _ = error.args
            detail = "the record batch says that it is longer than what there is"
            return {place: [Unreadable(place.topic, place.partition, offset, offset, detail)]}
        fetching = self._fetcher.error_future
        if not records and fetching.done() and (failure := fetching.exception()):
            raise failure.__cause__ or failure
        return records

    async def positions(self) -> Offsets:
        """The read position of each partition, past transaction markers."""
        offsets = {}
        for place in self.assignment():
            with suppress(TimeoutError, IllegalStateError):
                async with asyncio.timeout(0):  # without a position yet, it would be waited for
                    offsets[place] = await self.position(place)
        return offsets

    async def committed_offsets(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """To report: `committed` takes one partition, with a request for each."""
        if not places:
            return {}
        answers = await self._coordinator.fetch_committed_offsets(list(places))
        offsets = {place: answers[place].offset if place in answers else -1 for place in places}
        return {place: None if offset < 0 else offset for place, offset in offsets.items()}

    async def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first and the end offset of each partition whose leader answers.

        To report: `end_offsets` fails for all partitions if one leader cannot be reached. Here the
        leaders are asked one by one.
        """
        leader_of = self.client.cluster.leader_for_partition
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in self.assignment():
            if (leader := leader_of(place)) not in (None, NO_LEADER):
                by_leader[leader].append(place)
        answers = await asyncio.gather(*(self._bounds(places) for places in by_leader.values()))
        return {place: bound for part in answers for place, bound in part.items()}

    async def _bounds(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        try:
            async with asyncio.timeout(self._request_timeout_ms / 2000):  # half of it
                firsts, ends = await asyncio.gather(
                    self.beginning_offsets(places), self.end_offsets(places)
                )
        except (KafkaError, TimeoutError):
            return {}
        return {place: (firsts[place], ends[place]) for place in places}


class Coordinator(GroupCoordinator):  # type: ignore[misc]
    """A group's coordinator, with the instance id in every request.

    To report: the instance is named where it joins, but not in heartbeats and commits. A broker
    calls a worker whose id another has taken over an unknown member, which then joins again and
    takes the id back, for ever. Here the first that is fenced ends the worker. And nobody tells the
    sticky assignor its generation, without which it cannot tell old claims from new ones.
    """

    _fenced: FencedError | None = None
    _leader = ""

    async def _send_req(self, request: Any) -> Any:
        """Remembers the group's leader, and whether this instance is fenced."""
        instance = self._group_instance_id
        if instance is not None and isinstance(request, HeartbeatRequest):
            request = _Heartbeat(self.group_id, self.generation, self.member_id, instance)
        if instance is not None and isinstance(request, OffsetCommitRequest):
            request = _OffsetCommit(
                self.group_id, self.generation, self.member_id, instance, request._topics
            )
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
        To report: an instance that leads again forgets to watch the topics for the group.
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
