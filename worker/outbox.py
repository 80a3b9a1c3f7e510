"""Letters to topics, packed by partition, and the one producer that carries them for a while."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner

PARCEL_BYTES = 2**18
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


class Producer(Protocol):
    """As much of aiokafka's producer as is used, and whether the broker answers it."""

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Send what is left and disconnect."""

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic."""

    def create_batch(self) -> Any:
        """An empty batch to fill."""

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Awaitable[Any]:
        """Hand over a batch; what comes back is done when it is acknowledged."""

    async def answers(self, topics: Sequence[str]) -> bool:
        """Whether the broker, asked now, has a leader for every partition of these topics."""


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


class Gone(Exception):
    """The producer was given up before it had delivered."""


class Link:
    """One producer, as long as it is in use."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self._gone = asyncio.Event()

    def retire(self) -> asyncio.Task[None]:
        """Use it no more: whoever waits for it is told, and it may leave in its own time."""
        self._gone.set()
        return asyncio.ensure_future(self._leave())

    async def pack(self, letters: Sequence[Letter]) -> list[Parcel]:
        """The letters by partition, those of one key in their order, in parcels of some size."""
        places = {
            topic: sorted(await self.producer.partitions_for(topic))
            for topic in {letter.topic for letter in letters}
        }
        sorted_in: dict[tuple[str, int], list[Letter]] = defaultdict(list)
        for letter in letters:
            known = places[letter.topic]
            sorted_in[letter.topic, PARTITION(letter.key, known, known)].append(letter)
        return [p for place, some in sorted_in.items() for p in self.parcels(*place, some)]

    def parcels(self, topic: str, partition: int, letters: list[Letter]) -> Iterator[Parcel]:
        """Letters to one partition as parcels; one that is very large travels alone."""
        while letters:
            packed, count = self.producer.create_batch(), 0
            while count < len(letters) and _added(packed, letters[count]):
                count += 1
            packed.close()
            yield Parcel(topic, partition, letters[:count], packed)
            letters = letters[count:]

    async def acknowledged(self, parcel: Parcel) -> None:
        """Send a parcel and return when it is acknowledged; Gone if the producer leaves before."""
        work = asyncio.ensure_future(self._send(parcel))
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Gone
            work.result()
        finally:
            gone.cancel()
            work.cancel()

    async def _send(self, parcel: Parcel) -> None:
        send = self.producer.send_batch
        await (await send(parcel.packed, parcel.topic, partition=parcel.partition))

    async def _leave(self) -> None:
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
