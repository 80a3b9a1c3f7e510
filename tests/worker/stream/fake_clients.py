"""A producer and a consumer without a broker, which fail when a test says so."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartitionError,
)

from worker.kafka.producer import InvalidRecordError

Sent = tuple[str, int, bytes | None, bytes | None]  # topic, partition, key, value


PATIENCE_S = 60


async def met(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


def ended(error: Exception) -> None:
    raise error


class FakeBatch:
    """A batch of at most so many bytes, but of one record at least."""

    def __init__(self, limit: int) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self._limit = limit
        self.closed = False

    def append(self, *, timestamp: int | None, key: Any, value: Any, headers: Any) -> object | None:
        size = len(key or b"") + len(value or b"")
        if self.records and self.size() + size > self._limit:
            return None
        self.records.append((key, value))
        return object()

    def size(self) -> int:
        return sum(len(key or b"") + len(value or b"") for key, value in self.records)

    def close(self) -> None:
        self.closed = True


class FakeCluster:
    """What the producers of one test write to, and how it behaves at each attempt."""

    def __init__(self) -> None:
        self.written: list[Sent] = []
        self.attempts = 0
        self.made: list[FakeProducer] = []
        self.answering = True
        self.missing: str | None = None  # a topic
        self.away = False  # nothing is acknowledged and nobody can connect
        self.errors: deque[KafkaError | None] = deque()  # one for each attempt, None is success
        self.stuck = 0  # so many producers, from the first on, never hear an acknowledgement
        self.parcel = 1000
        self.limit: int | None = None  # for each batch
        self.announces = True  # what its limit is
        self.announced: int | None = None  # if it is another than it enforces
        self.refused = 0
        self.unfit: bytes | None = None  # a value that no topic takes
        self.back = asyncio.Event()

    def producer(self) -> "FakeProducer":
        self.made.append(FakeProducer(self))
        return self.made[-1]


class FakeProducer:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._stuck = len(cluster.made) < cluster.stuck
        self._burnt: set[tuple[str, int]] = set()  # where a batch was refused
        self.stopped = False

    async def start(self) -> None:
        if self._cluster.away:
            raise NotLeaderForPartitionError

    async def stop(self) -> None:
        self.stopped = True

    async def partitions_for(self, topic: str) -> set[int]:
        return {0, 1, 2, 3}

    def new_batch(self, size: int) -> FakeBatch:
        return FakeBatch(min(size, self._cluster.parcel))

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        limit = self._cluster.announced or self._cluster.limit
        return {} if limit is None or not self._cluster.announces else dict.fromkeys(topics, limit)

    async def ready(self, topics: Sequence[str]) -> None:
        if self._cluster.missing is not None:
            raise UnknownTopicOrPartitionError(self._cluster.missing)
        if not self._cluster.answering:
            raise NotEnoughReplicasError

    async def send_batch(self, batch: FakeBatch, topic: str, *, partition: int) -> Awaitable[None]:
        assert batch.closed
        self._cluster.attempts += 1
        fate = self._cluster.errors.popleft() if self._cluster.errors else None
        return asyncio.ensure_future(self._acknowledge(batch, topic, partition, fate))

    async def _acknowledge(
        self, batch: FakeBatch, topic: str, partition: int, fate: KafkaError | None
    ) -> None:
        if self._stuck:
            await asyncio.Event().wait()
        if self._cluster.away:
            await self._cluster.back.wait()
        if fate is not None:
            raise fate
        if any(value == self._cluster.unfit for _, value in batch.records if value):
            raise InvalidRecordError
        if (topic, partition) in self._burnt:
            raise OutOfOrderSequenceNumber
        if self._cluster.limit is not None and batch.size() > self._cluster.limit:
            self._burnt.add((topic, partition))
            self._cluster.refused += 1
            raise MessageSizeTooLargeError
        self._cluster.written += [(topic, partition, key, value) for key, value in batch.records]


class FakeConsumer:
    def __init__(self) -> None:
        self.ready: deque[dict[TopicPartition, list[Any]] | Exception] = deque()
        self.rest: dict[TopicPartition, list[Any]] = {}  # of what a fetch has brought
        self.listener: Any = None
        self.places: set[TopicPartition] = set()
        self.at: dict[TopicPartition, int] = {}  # the positions, as far as a test has moved them
        self.commits: list[dict[TopicPartition, int]] = []
        self.commit_error: Exception | None = None
        self.begins: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.stable: dict[TopicPartition, int] = {}
        self.polled_at = 0  # milliseconds
        self.leaderless: set[TopicPartition] = set()
        self.known: dict[TopicPartition, int] = {}  # what was committed before
        self.sought: dict[TopicPartition, int] = {}
        self.polled = 0
        self.held: set[TopicPartition] = set()
        self.on_commit: Callable[[], None] = lambda: None
        self.stuck = False  # no commit is ever answered

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.listener = listener

    async def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        self.polled += 1
        await asyncio.sleep(0)
        if not self.rest and timeout_ms and self.ready and not self.held:
            fetched = self.ready.popleft()
            if isinstance(fetched, Exception):
                raise fetched
            self.rest = fetched
        taken: dict[TopicPartition, list[Any]] = {}
        for place, records in list(self.rest.items()):
            room = max_records - sum(map(len, taken.values()))
            taken[place], left = records[:room], records[room:]
            self.rest |= {place: left}
            if not left:
                del self.rest[place]
            if taken[place]:
                self.at[place] = taken[place][-1].offset + 1
        return {place: records for place, records in taken.items() if records}

    async def positions(self) -> dict[TopicPartition, int]:
        return {place: self.at[place] for place in self.places if place in self.at}

    async def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        return {
            place: (self.begins.get(place, 0), self.ends.get(place, 100))
            for place in self.places - self.leaderless
        }

    def highwater(self, place: TopicPartition) -> int | None:
        return self.ends.get(place)

    def last_stable_offset(self, place: TopicPartition) -> int | None:
        return self.stable.get(place)

    def last_poll_timestamp(self, place: TopicPartition) -> int:
        return self.polled_at

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.on_commit()
        await asyncio.sleep(0)
        if self.stuck:
            await asyncio.Event().wait()
        if self.commit_error is not None:
            raise self.commit_error
        self.commits.append(dict(offsets))

    def assignment(self) -> set[TopicPartition]:
        return self.places

    def paused(self) -> set[TopicPartition]:
        return set(self.held)

    def pause(self, *places: TopicPartition) -> None:
        self.held |= set(places)

    def resume(self, *places: TopicPartition) -> None:
        self.held -= set(places)

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.begins.get(place, 0) for place in places}

    async def committed_offsets(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        return {place: self.known.get(place) for place in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.sought[place] = self.at[place] = offset

    async def seek_to_beginning(self, *places: TopicPartition) -> None:
        for place in places:
            self.seek(place, self.begins.get(place, 0))
