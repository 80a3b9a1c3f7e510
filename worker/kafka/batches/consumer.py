"""aiokafka's consumer with bounds on what it unpacks, and a compiled walk over records."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.protocol.fetch import FetchRequest

from encoder.support.jit import jit
from worker.kafka.batches.header import Bytes, walk
from worker.kafka.batches.opener import Opener, UnpackBudget

_walk = jit()(walk)


def fast_walk(body: Bytes, count: int, last_delta: int, most: int) -> int:
    """`walk`, compiled."""
    return int(_walk(np.frombuffer(body, np.uint8), count, last_delta, most))


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
    """The records of a partition, without deserializers."""

    def _consumer_record(self, place: TopicPartition, record: Any) -> ConsumerRecord:
        topic, partition = place
        return ConsumerRecord(
            topic, partition, record.offset, record.timestamp,
            record.key, record.value, tuple(record.headers),
        )  # fmt: skip


class FetchResult(fetcher.FetchResult):  # type: ignore[misc]
    """aiokafka's, with fewer calls in Python for each record."""

    _partition_records: Any

    def getall(self, max_records: int | None = None) -> list[ConsumerRecord]:
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            return []
        records = list(islice(self._partition_records._records_iterator, max_records))
        self._update_position()
        if max_records is None or len(records) < max_records:
            self._partition_records = None
        return records


fetcher.PartitionRecords, fetcher.FetchResult = PartitionRecords, FetchResult  # it has no option


OnBatch = Callable[[str, int, int, int, int], None]


class OpeningConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """aiokafka's consumer with bounds on what it unpacks and on what it reads ahead.

    Read ahead are at most `fetch_max_bytes` packed and `batch_bytes` unpacked, and one batch more
    each, however many brokers there are. Brokers share the packed bytes equally; each may send one
    batch at least, as Kafka does. They are unpacked one response after the other, while there is
    room.

    A batch that cannot be read, or unpacks to more than `batch_bytes`, becomes one `Unreadable`
    message. `on_batch` is called with topic, partition, first and last offset and unpacked bytes of
    each readable batch, by the thread that unpacks it.
    """

    def __init__(
        self, batch_bytes: int, on_batch: OnBatch = lambda *_: None, **settings: Any
    ) -> None:
        super().__init__(check_crcs=False, **settings)  # the opener does
        self._opener, self._on_batch = Opener(batch_bytes, fast_walk), on_batch
        self._turn, self._polled = asyncio.Lock(), asyncio.Event()
        self._send = self._client.send
        self._client.send = self._send_and_open

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """An unreadable batch becomes one message.

        Raises what has ended aiokafka's fetching, which otherwise returns nothing for ever.
        """
        records = await super().getmany(*places, timeout_ms=timeout_ms, max_records=max_records)
        self._polled.set()
        fetching = self._fetcher.error_future
        if not records and fetching.done() and (error := fetching.exception()):
            raise error.__cause__ or error
        if not self._opener.has_marked:
            return dict(records)
        find_marker = self._opener.unreadable_batch
        return {place: [find_marker(row) or row for row in rows] for place, rows in records.items()}

    @property
    def buffered(self) -> int:
        """Unpacked bytes that are read ahead."""
        results = self._fetcher._records.values()
        parts = (getattr(result, "_partition_records", None) for result in results)
        return sum(part._records.size_in_bytes() for part in parts if part is not None)

    async def _send_and_open(self, node: Any, request: Any, **group: Any) -> Any:
        """Send a request; the response to a fetch is unpacked in a thread, before aiokafka sees it.

        aiokafka would unpack it without a bound in the event loop.
        """
        if not isinstance(request, FetchRequest):
            return await self._send(node, request, **group)
        leaders = {self._client.cluster.leader_for_partition(place) for place in self.assignment()}
        request._max_bytes //= max(len(leaders), 1)
        answer = await self._send(node, request, **group)
        if any(part[-1] for _, parts in answer.topics for part in parts):
            async with self._turn:
                while (buffered := self.buffered) > self._opener.limit // 2:
                    self._polled.clear()
                    await self._polled.wait()
                room = self._opener.budget(buffered)
                await asyncio.to_thread(
                    _open_batches, answer, request, self._opener, room, self._on_batch
                )
        return answer


def _open_batches(
    answer: Any, request: FetchRequest, opener: Opener, room: UnpackBudget, on_batch: OnBatch
) -> None:
    """Replaces the fetched batches of each partition, which are the last field of a part."""
    starts = {
        (topic, partition): offset
        for topic, parts in request.topics
        for partition, offset, _ in parts
    }

    def open_part(topic: str, part: tuple[Any, ...]) -> tuple[Any, ...]:
        start, end = starts[topic, part[0]], part[2]
        on_opened = partial(on_batch, topic, part[0])
        return (*part[:-1], opener.open_batches(part[-1] or b"", start, end, room, on_opened))

    answer.topics = [
        (topic, [open_part(topic, part) for part in parts]) for topic, parts in answer.topics
    ]
