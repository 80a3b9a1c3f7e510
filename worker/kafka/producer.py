"""aiokafka's idempotent producer: packs records into batches by partition and sends them once."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
    kafka_errors,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.admin import DescribeConfigsRequest
from numpy.typing import NDArray

from encoder.support.jit import jit
from worker.kafka.aiokafka_repairs import in_sync_replicas
from worker.kafka.errors import is_refusal

MAX_BATCH_BYTES = 2**18
TOPIC_RESOURCE = 2  # DescribeConfigs reads the settings of this resource type.
MAX_BYTES_SETTING = "max.message.bytes"
CODECS = {None: 0, "gzip": 1, "lz4": 3, "zstd": 4}  # Kafka's numbers
IN_SYNC_SETTING = "min.insync.replicas"


class ProducerClosedError(Exception):
    """The session was closed before the batch was acknowledged."""


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]
    errno = 87
    message = "INVALID_RECORD"
    description = "The broker refuses a record; a compacted topic takes none without a key."


kafka_errors[InvalidRecordError.errno] = InvalidRecordError  # aiokafka has no name for it


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record with its topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    source: int  # which message of the batch it comes from
    timestamp: int | None = None  # milliseconds; without one that of its sending


@dataclass(frozen=True, slots=True)
class ProducerBatch:
    """Records for one partition that are sent together."""

    topic: str
    partition: int
    records: list[ProducerRecord]
    builder: Any
    size: int  # bytes, before they are compressed
    fits: bool  # as far as the topic's limit is known


class KafkaProducer(AIOKafkaProducer):  # type: ignore[misc]
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(
            **settings, acks="all", enable_idempotence=True, max_batch_size=MAX_BATCH_BYTES
        )
        self._codec = CODECS[settings.get("compression_type")]
        self._in_sync: dict[str, int] = {}  # of a topic's replicas, as many as it must have

    async def ready(self, topics: Sequence[str]) -> None:
        """Raises an error if a record cannot be written to these topics now."""
        if not await self.client.force_metadata_update():
            raise KafkaTimeoutError("no broker answers")
        for topic in topics:
            self._check(topic)

    def _check(self, topic: str) -> None:
        """The topic exists; each partition has a leader and enough replicas in sync."""
        cluster, in_sync = self.client.cluster, self._in_sync.get(topic, 1)
        numbers = cluster.partitions_for_topic(topic)
        if not numbers:
            raise UnknownTopicOrPartitionError(topic)
        if leaderless := sorted(numbers - cluster.available_partitions_for_topic(topic)):
            raise LeaderNotAvailableError(f"no leader for {topic}, partition {leaderless[0]}")
        for number in sorted(numbers):
            isr = in_sync_replicas(self.client, topic, number)
            if isr < in_sync:
                raise NotEnoughReplicasError(
                    f"{topic}, partition {number}: {isr} in sync, {IN_SYNC_SETTING} is {in_sync}"
                )

    def new_batch(self, size: int) -> BatchBuilder:
        """An empty batch of at most this many bytes, or for one record.

        The bytes include the header and are counted before compression, so a batch is never larger
        than max.message.bytes, which the broker compares with what it gets.
        """
        return BatchBuilder(size, self._codec)

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        """max.message.bytes by topic, where the broker states it."""
        request = DescribeConfigsRequest(
            [(TOPIC_RESOURCE, topic, [MAX_BYTES_SETTING, IN_SYNC_SETTING]) for topic in topics]
        )
        answer = await self.client.send(self.client.get_random_node(), request)
        values = {
            (name, topic): int(value)
            for _, _, _, topic, settings in answer.resources
            for name, value, *_ in settings
        }
        self._in_sync |= {
            topic: n for (name, topic), n in values.items() if name == IN_SYNC_SETTING
        }
        return {topic: n for (name, topic), n in values.items() if name == MAX_BYTES_SETTING}


class ProducerSession:
    """One producer from its start to its stop."""

    def __init__(self, producer: Any, max_bytes: Mapping[str, int]) -> None:
        self.producer = producer
        self._max_bytes = max_bytes  # where the topic's limit is unknown, or is not the broker's
        self._limits: dict[str, int] = {}
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits: set[asyncio.Future[None]] = set()

    async def read_limits(self, topics: Sequence[str]) -> None:
        self._limits = await self.producer.limits(topics)

    async def send(self, records: list[ProducerRecord]) -> list[tuple[ProducerBatch, Exception]]:
        """Sends all records once; returns the batches that failed, with the errors."""
        try:
            batches = await self._pack(records)
        except KafkaError as error:
            if is_refusal(error):
                raise
            return [(ProducerBatch(records[0].topic, -1, records, None, 0, True), error)]
        errors = await asyncio.gather(*map(self._send, batches))
        return [(batch, reason) for batch, reason in zip(batches, errors, strict=True) if reason]

    def fail_waits(self) -> None:
        """Fails all waits for an acknowledgement."""
        if not self._closed.done():
            self._closed.set_result(None)

    async def close(self) -> None:
        """Disconnects after the last wait: earlier, aiokafka would drop queued batches."""
        while self._waits:
            await asyncio.wait(self._waits)
        with suppress(KafkaError):
            await self.producer.stop()

    async def _send(self, batch: ProducerBatch) -> Exception | None:
        """Returns an error that can be retried, and raises a refusal."""
        if not batch.fits:
            return MessageSizeTooLargeError()  # type: ignore[no-any-return]
        wait = asyncio.ensure_future(self._await_acknowledgement(batch))
        self._waits.add(wait)
        try:
            await asyncio.wait({wait, self._closed}, return_when=asyncio.FIRST_COMPLETED)
            if not wait.done():
                return ProducerClosedError()
            wait.result()
        except KafkaError as error:
            if is_refusal(error):
                raise
            return error  # type: ignore[no-any-return]
        finally:
            wait.cancel()
            self._waits.discard(wait)
        return None

    async def _await_acknowledgement(self, batch: ProducerBatch) -> None:
        send = self.producer.send_batch
        await (await send(batch.builder, batch.topic, partition=batch.partition))

    async def _pack(self, records: Sequence[ProducerRecord]) -> list[ProducerBatch]:
        """Batches by partition; records of one key stay in order."""
        partitions = {
            topic: sorted(await self.producer.partitions_for(topic))
            for topic in {record.topic for record in records}
        }
        batches = self._batches(records, partitions)
        if not all(batch.fits for batch in batches):
            await self.read_limits(list(partitions))  # the limit may have been raised
            batches = self._batches(records, partitions)
        return batches

    def _batches(
        self, records: Sequence[ProducerRecord], partitions_of: Mapping[str, Sequence[int]]
    ) -> list[ProducerBatch]:
        by_partition: dict[tuple[str, int], list[ProducerRecord]] = defaultdict(list)
        for record in records:
            partitions = partitions_of[record.topic]
            by_partition[record.topic, choose_partition(record.key, partitions)].append(record)
        packed = (self._pack_partition(*place, part) for place, part in by_partition.items())
        return list(chain.from_iterable(packed))

    def _pack_partition(
        self, topic: str, partition: int, records: list[ProducerRecord]
    ) -> Iterator[ProducerBatch]:
        """A very large record is a batch of its own."""
        limit = self._limits.get(topic)
        max_bytes = min(
            MAX_BATCH_BYTES,
            self._max_bytes.get(topic, MAX_BATCH_BYTES),
            MAX_BATCH_BYTES if limit is None else limit,
        )
        while records:
            builder, count = self.producer.new_batch(max_bytes), 0
            while count < len(records) and _append(builder, records[count]):
                count += 1
            builder.close()
            size = builder.size()
            fits = limit is None or size <= limit
            yield ProducerBatch(topic, partition, records[:count], builder, size, fits)
            records = records[count:]


def _append(builder: Any, record: ProducerRecord) -> bool:
    added = builder.append(
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
    )
    return added is not None


def choose_partition(key: bytes | None, partitions: Sequence[int]) -> int:
    """As Java's clients choose; any of them without a key."""
    if key is None:
        return random.choice(partitions)
    return partitions[int(key_hash(np.frombuffer(key, np.uint8))) % len(partitions)]


@jit()
def key_hash(key: NDArray[np.uint8]) -> np.int64:
    """The 31 bits of Java's murmur2; aiokafka's Python takes a tenth of the time of a match."""
    factor, mask = np.uint64(0x5BD1E995), np.uint64(0xFFFFFFFF)
    state = np.uint64(0x9747B28C ^ len(key))
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = np.uint64(0)
        for place in range(4):
            word |= np.uint64(key[at + place]) << np.uint64(8 * place)
        word = word * factor & mask
        word = (word ^ word >> np.uint64(24)) * factor & mask
        state = state * factor & mask ^ word
    if whole < len(key):
        for place in range(len(key) - whole):
            state ^= np.uint64(key[whole + place]) << np.uint64(8 * place)
        state = state * factor & mask
    state = (state ^ state >> np.uint64(13)) * factor & mask
    return np.int64((state ^ state >> np.uint64(15)) & np.uint64(0x7FFFFFFF))
