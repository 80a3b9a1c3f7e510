"""aiokafka's consumers for long-running processes: in a group, or without one."""

import asyncio
import gzip
import logging
import math
import sys
from collections import defaultdict
from collections.abc import Awaitable, Collection
from contextlib import suppress
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import IllegalStateError, KafkaError, RecordTooLargeError
from aiokafka.record.default_records import DefaultRecordBatch

import worker.kafka.metadata  # noqa: F401 - no consumer makes a topic
from worker.config import Config
from worker.kafka.batches import StandIn, WholeBatches
from worker.kafka.membership import sticky_assignor
from worker.kafka.settings import aiokafka_settings, isolation_level
from worker.posts.outcome import Unreadable

MAX_HEARTBEAT_S = 0.25  # A worker learns of a rebalance from the answer to a heartbeat.
MAX_REVOKE_S = 1.0  # All workers wait while one gives up its partitions.
MAX_REBALANCE_S = 10.0  # A worker that does not rejoin in time is left out.
MAX_METADATA_AGE_S = 5.0  # A new or larger topic is noticed within this time.
NO_LEADER = -1
log = logging.getLogger("newsift.kafka")
Offsets = dict[TopicPartition, int]
MAX_FETCH_WAIT_MS = 100  # A new partition waits for the end of the fetch under way.


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
    """The records of a fetched partition; a batch that cannot be read is one `Unreadable`."""

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


# aiokafka has no option for it, and stops for ever at such a batch (aio-libs/aiokafka).
fetcher.PartitionRecords, fetcher.FetchResult = PartitionRecords, FetchResult
# It unpacks 8 KB at a time, and waits for the interpreter's lock after each.
vars(sys.modules[DefaultRecordBatch.__module__])["gzip_decode"] = gzip.decompress


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]
    """Reports offsets by partition, and reads ahead one response of each broker."""

    async def start(self) -> None:
        """Connect.

        aiokafka fetches for partitions that are used up while others still have records, so its
        buffer would grow with the number of partitions. Here a broker is asked again only when its
        last response is used up.
        """
        await super().start()
        self._fetcher._prefetch_backoff = math.inf

    async def getmany(self, *places: TopicPartition, **options: Any) -> dict[Any, list[Any]]:
        """Raises what has ended aiokafka's fetching, which otherwise returns nothing for ever."""
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
        if not places:
            return {}
        answers = await self._coordinator.fetch_committed_offsets(list(places))
        offsets = {place: answers[place].offset if place in answers else -1 for place in places}
        return {place: None if offset < 0 else offset for place, offset in offsets.items()}

    async def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first and the end offset of each partition whose leader answers.

        Leaders are asked one by one, so that an unreachable one hides no other's partitions.
        """
        leader_of = self._client.cluster.leader_for_partition
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


def group_consumer(config: Config) -> Consumer:
    """A member of kafka.group that commits on request."""
    kafka, size = config.kafka, config.stream.batch_bytes
    session = kafka.session_timeout_s
    return _consumer(
        config,
        group_id=kafka.group,
        group_instance_id=kafka.instance_id,
        partition_assignment_strategy=(sticky_assignor(),),
        metadata_max_age_ms=round(MAX_METADATA_AGE_S * 1000),
        session_timeout_ms=round(session * 1000),
        heartbeat_interval_ms=round(min(MAX_HEARTBEAT_S, session / 3) * 1000),
        rebalance_timeout_ms=round(MAX_REBALANCE_S * 1000),
        max_partition_fetch_bytes=size,
        fetch_max_bytes=2 * size,
        fetch_max_wait_ms=MAX_FETCH_WAIT_MS,
    )


def groupless_consumer(config: Config, **settings: Any) -> Consumer:
    """A consumer of topics that every worker reads as a whole."""
    return _consumer(config, group_id=None, **settings)


async def stop_within(work: Awaitable[object], seconds: float) -> None:
    """Await something during shutdown for at most this time; its errors are ignored.

    A client may even be cancelled by itself while its broker is away.
    """
    task = asyncio.ensure_future(work)
    await asyncio.wait({task}, timeout=seconds)
    if task.cancel():
        log.warning("leaving without waiting any longer")
    elif not task.cancelled() and (error := task.exception()):
        log.warning(
            "leaving although a client failed to stop (%s: %s)", type(error).__name__, error
        )


def _consumer(config: Config, **settings: Any) -> Consumer:
    common = aiokafka_settings(config) | {
        "isolation_level": isolation_level(config),
        "enable_auto_commit": False,
        "auto_offset_reset": "none",  # the error lets us count resets
    }
    return Consumer(check_crcs=False, **common, **settings)  # a whole batch is checked
