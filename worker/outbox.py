"""Letters to topics, packed by partition, and the one producer that carries them for a while."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.admin import DescribeConfigsRequest

import worker.metadata  # noqa: F401 - no producer makes a topic

PARCEL_BYTES = 2**18
TOPIC = 2  # what kind of thing settings are asked of
SIZE = "max.message.bytes"
PARTITION = DefaultPartitioner()  # by the key, as Java's clients do it


@dataclass(frozen=True, slots=True)
class Letter:
    """A record with its topic, ready to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    source: int  # which message of the batch it comes from


@dataclass(frozen=True, slots=True)
class Parcel:
    """Letters to one partition that travel together."""

    topic: str
    partition: int
    letters: list[Letter]
    packed: Any
    fits: bool  # as far as the broker has told what the topic takes


class Producer(Protocol):
    """As much of aiokafka's producer as is used, and whether the broker answers it."""

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Send what is left and disconnect."""

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic."""

    def new_batch(self, size: int) -> Any:
        """An empty batch to fill, of so many bytes, or of one record."""

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Awaitable[Any]:
        """Hand over a batch; what comes back is done when it is acknowledged."""

    async def answers(self, topics: Sequence[str]) -> bool:
        """Whether the broker, asked now, has a leader for every partition of these topics."""

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        """How many bytes a batch may have, by topic, where the broker tells."""


class KafkaProducer(AIOKafkaProducer):  # type: ignore[misc]
    """aiokafka's idempotent producer."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(
            **settings, acks="all", enable_idempotence=True, max_batch_size=PARCEL_BYTES
        )

    async def answers(self, topics: Sequence[str]) -> bool:
        """Whether the broker, asked now, has a leader for every partition of these topics."""
        if not await self.client.force_metadata_update():
            return False
        known = self.client.cluster
        return all(
            known.partitions_for_topic(topic)
            and known.partitions_for_topic(topic) == known.available_partitions_for_topic(topic)
            for topic in topics
        )

    def new_batch(self, size: int) -> BatchBuilder:
        """An empty batch to fill, of so many bytes, or of one record.

        The bytes are those that the broker compares with max.message.bytes: header included.
        """
        return BatchBuilder(size, 0)

    async def limits(self, topics: Sequence[str]) -> dict[str, int]:
        """How many bytes a batch may have, by topic, where the broker tells."""
        asked = DescribeConfigsRequest([(TOPIC, topic, [SIZE]) for topic in topics])
        said = await self.client.send(self.client.get_random_node(), asked)
        return {
            topic: int(value)
            for _, _, _, topic, settings in said.resources
            for name, value, *_ in settings
            if name == SIZE
        }


class Gone(Exception):
    """The producer was given up before it had delivered."""


class Link:
    """One producer, as long as it is in use."""

    def __init__(self, producer: Producer, room: Mapping[str, int]) -> None:
        self.producer = producer
        self._room = room  # for parcels to a topic whose broker does not tell its limit
        self._limits: dict[str, int] = {}
        self._gone = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = 0

    def cut(self) -> None:
        """Tell whoever waits for an acknowledgement that none will come."""
        self._gone.set()

    def retire(self) -> asyncio.Task[None]:
        """Use it no more: it leaves once nobody waits for an acknowledgement."""
        return asyncio.ensure_future(self._leave())

    async def ask(self, topics: Sequence[str]) -> None:
        """Ask the broker how large a batch may be."""
        self._limits = await self.producer.limits(topics)

    async def pack(self, letters: Sequence[Letter]) -> list[Parcel]:
        """The letters by partition, those of one key in their order, in parcels of some size."""
        places = {
            topic: sorted(await self.producer.partitions_for(topic))
            for topic in {letter.topic for letter in letters}
        }
        parcels = self._parcels(letters, places)
        if not all(parcel.fits for parcel in parcels):
            await self.ask(list(places))  # somebody may have raised the limit
            parcels = self._parcels(letters, places)
        return parcels

    def _parcels(
        self, letters: Sequence[Letter], places: Mapping[str, Sequence[int]]
    ) -> list[Parcel]:
        sorted_in: dict[tuple[str, int], list[Letter]] = defaultdict(list)
        for letter in letters:
            known = places[letter.topic]
            sorted_in[letter.topic, PARTITION(letter.key, known, known)].append(letter)
        return [p for place, some in sorted_in.items() for p in self._packed(*place, some)]

    def _packed(self, topic: str, partition: int, letters: list[Letter]) -> Iterator[Parcel]:
        """Letters to one partition as parcels; one that is very large travels alone."""
        limit = self._limits.get(topic)
        size = min(PARCEL_BYTES, self._room.get(topic, PARCEL_BYTES) if limit is None else limit)
        while letters:
            packed, count = self.producer.new_batch(size), 0
            while count < len(letters) and _added(packed, letters[count]):
                count += 1
            packed.close()
            fits = limit is None or packed.size() <= limit
            yield Parcel(topic, partition, letters[:count], packed, fits)
            letters = letters[count:]

    async def acknowledged(self, parcel: Parcel) -> None:
        """Send a parcel and return when it is acknowledged; Gone if the producer leaves before."""
        work = asyncio.ensure_future(self._send(parcel))
        gone = asyncio.ensure_future(self._gone.wait())
        self._busy += 1
        self._idle.clear()
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Gone
            work.result()
        finally:
            gone.cancel()
            work.cancel()
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def _send(self, parcel: Parcel) -> None:
        send = self.producer.send_batch
        await (await send(parcel.packed, parcel.topic, partition=parcel.partition))

    async def _leave(self) -> None:
        # Stopped any sooner, aiokafka would forget the batches that wait for their turn.
        await self._idle.wait()
        with suppress(KafkaError):
            await self.producer.stop()


def _added(packed: Any, letter: Letter) -> bool:
    return (
        packed.append(
            timestamp=None, key=letter.key, value=letter.value, headers=list(letter.headers)
        )
        is not None
    )


OpenProducer = Callable[[], Producer]
