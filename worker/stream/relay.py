"""The relay: one producer after the other carries letters, packed by partition."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner

from worker.kafka.errors import refused
from worker.stream.producer import PARCEL_BYTES, Letter, OpenProducer, Parcel, Producer

BACKOFF_S = 0.5
PARTITION = DefaultPartitioner()  # by the key, as Java's clients do it
log = logging.getLogger("newsift.delivery")


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


class Relay:
    """The producer in use, and those that leave once nobody waits for them."""

    def __init__(self, make: OpenProducer, topics: Sequence[str]) -> None:
        self._make, self._topics = make, topics
        self.room: dict[str, int] = {}  # for a parcel, by what was refused
        self._link: Link | None = None
        self._replacing = asyncio.Lock()
        self._leaving: dict[asyncio.Task[None], Link] = {}

    @property
    def is_replacing(self) -> bool:
        """Whether there is no producer just now."""
        return self._replacing.locked()

    @property
    def is_open(self) -> bool:
        """Whether it has begun and was not stopped."""
        return self._link is not None

    async def start(self) -> None:
        """Connect, and see that every topic of the output answers."""
        self._link = await self._open()
        await self._link.producer.ready(self._topics)

    async def stop(self) -> None:
        """Disconnect; what is not acknowledged by now is left."""
        link, self._link = self._link, None
        if link is not None:
            self._retire(link)
        for leaving in self._leaving.values():
            leaving.cut()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=1)
        for task in self._leaving:
            task.cancel()

    async def link(self) -> Link:
        """The producer in use; once it was stopped, nothing: the worker ends without waiting."""
        async with self._replacing:
            link = self._link
        return await asyncio.Future() if link is None else link

    async def replace(self, link: Link, why: str, pause_s: float) -> None:
        """Put a fresh producer in the place of one that failed; wait for the broker to be back."""
        async with self._replacing:
            if self._link is not link:
                return
            log.warning("the producer is replaced, as it cannot deliver (%s)", why)
            self._retire(link)
            await asyncio.sleep(pause_s)
            while self._link is link:
                try:
                    self._link = await self._open()
                except KafkaError as error:
                    if refused(error):
                        raise
                    await asyncio.sleep(BACKOFF_S)

    async def _open(self) -> Link:
        link = Link(self._make(), self.room)
        try:
            await link.producer.start()
            await link.ask(self._topics)
        except BaseException:
            self._retire(link)
            raise
        return link

    def _retire(self, link: Link) -> None:
        leaving = link.retire()
        self._leaving[leaving] = link
        leaving.add_done_callback(self._leaving.pop)


def _added(packed: Any, letter: Letter) -> bool:
    return (
        packed.append(
            timestamp=letter.timestamp,
            key=letter.key,
            value=letter.value,
            headers=list(letter.headers),
        )
        is not None
    )
