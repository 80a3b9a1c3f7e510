"""aiokafka's idempotent producer: packs records into batches by partition and sends them once."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.admin import DescribeConfigsRequest

import worker.kafka.metadata  # noqa: F401 - no producer makes a topic
from worker.kafka.errors import is_refusal

MAX_BATCH_BYTES = 2**18
PARTITIONER = DefaultPartitioner()  # It hashes the key as Java's clients do.
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


@dataclass(frozen=True, slots=True)
class ProducerRecord:
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
    letters: list[ProducerRecord]
    packed: Any
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
        """Raises what would keep a record from these topics."""
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
        if bare := sorted(numbers - cluster.available_partitions_for_topic(topic)):
            raise LeaderNotAvailableError(f"no leader for {topic}, partition {bare[0]}")
        for number in sorted(numbers):
            isr = len(cluster._partitions[topic][number].isr)
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

    def __init__(self, producer: Any, room: Mapping[str, int]) -> None:
        self.producer = producer
        self._room = room  # for parcels to a topic whose limit is unknown
        self._limits: dict[str, int] = {}
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending: set[asyncio.Future[None]] = set()

    async def ask(self, topics: Sequence[str]) -> None:
        self._limits = await self.producer.limits(topics)

    async def send(self, letters: list[ProducerRecord]) -> list[tuple[ProducerBatch, Exception]]:
        """Sends all records once; returns the batches that failed, with the errors."""
        try:
            parcels = await self._pack(letters)
        except KafkaError as error:
            if is_refusal(error):
                raise
            return [(ProducerBatch(letters[0].topic, -1, letters, None, 0, True), error)]
        whys = await asyncio.gather(*map(self._send, parcels))
        return [(parcel, why) for parcel, why in zip(parcels, whys, strict=True) if why]

    def cut(self) -> None:
        """Fails all waits for an acknowledgement."""
        if not self._gone.done():
            self._gone.set_result(None)

    async def leave(self) -> None:
        """Disconnects after the last wait: earlier, aiokafka would drop queued batches."""
        while self._sending:
            await asyncio.wait(self._sending)
        with suppress(KafkaError):
            await self.producer.stop()

    async def _send(self, parcel: ProducerBatch) -> Exception | None:
        """Returns an error that can be retried, and raises a refusal."""
        if not parcel.fits:
            return MessageSizeTooLargeError()  # type: ignore[no-any-return]
        work = asyncio.ensure_future(self._acknowledged(parcel))
        self._sending.add(work)
        try:
            await asyncio.wait({work, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return ProducerClosedError()
            work.result()
        except KafkaError as error:
            if is_refusal(error):
                raise
            return error  # type: ignore[no-any-return]
        finally:
            work.cancel()
            self._sending.discard(work)
        return None

    async def _acknowledged(self, parcel: ProducerBatch) -> None:
        send = self.producer.send_batch
        await (await send(parcel.packed, parcel.topic, partition=parcel.partition))

    async def _pack(self, letters: Sequence[ProducerRecord]) -> list[ProducerBatch]:
        """Batches by partition; records of one key stay in order."""
        places = {
            topic: sorted(await self.producer.partitions_for(topic))
            for topic in {letter.topic for letter in letters}
        }
        parcels = self._parcels(letters, places)
        if not all(parcel.fits for parcel in parcels):
            await self.ask(list(places))  # the limit may have been raised
            parcels = self._parcels(letters, places)
        return parcels

    def _parcels(
        self, letters: Sequence[ProducerRecord], places: Mapping[str, Sequence[int]]
    ) -> list[ProducerBatch]:
        sorted_in: dict[tuple[str, int], list[ProducerRecord]] = defaultdict(list)
        for letter in letters:
            partitions = places[letter.topic]
            sorted_in[letter.topic, PARTITIONER(letter.key, partitions, partitions)].append(letter)
        return [p for place, some in sorted_in.items() for p in self._packed(*place, some)]

    def _packed(
        self, topic: str, partition: int, letters: list[ProducerRecord]
    ) -> Iterator[ProducerBatch]:
        """A very large record is a batch of its own."""
        limit = self._limits.get(topic)
        room = min(
            MAX_BATCH_BYTES, self._room.get(topic, MAX_BATCH_BYTES) if limit is None else limit
        )
        while letters:
            packed, count = self.producer.new_batch(room), 0
            while count < len(letters) and _append(packed, letters[count]):
                count += 1
            packed.close()
            size = packed.size()
            fits = limit is None or size <= limit
            yield ProducerBatch(topic, partition, letters[:count], packed, size, fits)
            letters = letters[count:]


def _append(packed: Any, letter: ProducerRecord) -> bool:
    added = packed.append(
        timestamp=letter.timestamp,
        key=letter.key,
        value=letter.value,
        headers=list(letter.headers),
    )
    return added is not None
