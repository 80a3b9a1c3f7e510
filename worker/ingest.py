"""Ingest: posts from the group's consumer into the ledger, and their offsets back to the broker."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from worker import crashpoint
from worker.ledger import Ledger, Offsets
from worker.metrics import Metrics

POLL_MS = 500
HELD_POLL_MS = 100
HOLD_S = 1.0  # so long a full ledger is waited for before the consumer is paused
REVOKE_S = 5.0
BACKOFF_S = 0.5
log = logging.getLogger("newsift.ingest")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may hold."""

    posts: int
    size: int  # bytes


class Ingest(ConsumerRebalanceListener):  # type: ignore[misc]
    """The consumer of the posts: it alone speaks with the group."""

    def __init__(
        self,
        make: Callable[[], Any],
        topic: str,
        ledger: Ledger,
        limits: Limits,
        metrics: Metrics,
        arrived: Callable[[], Any],
    ) -> None:
        self._make, self._topic, self._ledger = make, topic, ledger
        self._limits, self._metrics, self._arrived = limits, metrics, arrived
        self._consumer: Any = None
        self._changed = asyncio.Condition()
        self._committing = asyncio.Lock()
        self._done: Offsets = {}  # what is committed, as far as this worker knows
        self._failure: asyncio.Queue[Exception] = asyncio.Queue()
        self._closed = False

    async def start(self) -> None:
        """Connect and join the group."""
        self._consumer = self._make()
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)

    async def stop(self) -> None:
        """Leave the group."""
        if self._consumer is not None:
            await self._consumer.stop()

    async def read(self) -> None:
        """Read posts until `close`: what has arrived when a slot is free is one batch."""
        while not self._closed:
            if self._ledger.full:
                await self._hold()
            else:
                await self._poll(POLL_MS)

    def close(self) -> None:
        """Take no more posts; those that are read already can still be committed."""
        self._closed = True

    async def changed(self) -> None:
        """Say that a batch was finished or let go."""
        async with self._changed:
            self._changed.notify_all()

    async def settle(self, timeout_s: float) -> None:
        """Wait so long, at most, for all that is in flight, and commit what has been finished."""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._changed:
                    await self._changed.wait_for(lambda: not self._ledger.unfinished)
        except TimeoutError:
            log.info("%d batches were not finished in time", self._ledger.unfinished)

    async def commit(self) -> None:
        """Commit what may be committed, in the order of the offsets."""
        async with self._committing:
            offsets, epoch = self._ledger.committable(), self._ledger.epoch
            if not offsets:
                return
            began = perf_counter()
            try:
                await self._consumer.commit(offsets)
            except (CommitFailedError, IllegalStateError) as error:
                log.info("not committed, as the partitions are dealt anew: %s", error)
                return
            crashpoint.reached("committed")
            self._metrics.stage("commit", perf_counter() - began)
            if self._ledger.epoch != epoch:
                return  # dealt anew meanwhile: what is in the ledger now is other batches
            self._done |= offsets
            self._ledger.committed(offsets)
        await self.changed()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give partitions up: finish what is in flight, commit it, and forget the rest."""
        try:
            if len(self._ledger):
                await self.settle(REVOKE_S)
                async with asyncio.timeout(REVOKE_S):
                    await self.commit()
        except TimeoutError:
            log.warning("the broker took no commit before the partitions were dealt anew")
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self.fail(error)
        finally:
            await self._forget(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note which partitions are this worker's now."""
        self._metrics.rebalanced()
        numbers = ", ".join(str(place.partition) for place in sorted(assigned)) or "none"
        log.info("partitions of %s to read: %s", self._topic, numbers)

    def fail(self, error: Exception) -> None:
        """Let whoever watches know that reading cannot go on."""
        self._failure.put_nowait(error)

    async def failed(self) -> None:
        """Wait until reading cannot go on, and raise the reason."""
        raise await self._failure.get()

    async def lag(self) -> dict[int, int]:
        """How many posts each partition holds that are not yet committed."""
        assigned: set[TopicPartition] = self._consumer.assignment()
        ends = await self._consumer.end_offsets(sorted(assigned)) if assigned else {}
        behind = {}
        for place, end in ends.items():
            if place not in self._done:
                self._done[place] = await self._first(place)
            behind[place.partition] = max(0, end - self._done[place])
        return behind

    async def _first(self, place: TopicPartition) -> int:
        """Where reading of a partition begins: at what is committed, else at the earliest post."""
        committed = await self._consumer.committed(place)
        if committed is not None:
            return int(committed)
        return int((await self._consumer.beginning_offsets([place]))[place])

    async def _forget(self, revoked: set[TopicPartition]) -> None:
        dropped = self._ledger.drop()
        if dropped:
            log.info("%d batches in flight are left to whoever reads them next", dropped)
        self._done = {}
        self._metrics.revoked(sorted(place.partition for place in revoked))
        await self.changed()

    async def _hold(self) -> None:
        """Wait for a free slot.

        A longer wait pauses the consumer and goes on polling: one that does not leaves the group.
        """
        try:
            async with asyncio.timeout(HOLD_S):
                async with self._changed:
                    await self._changed.wait_for(lambda: not self._ledger.full)
            return
        except TimeoutError:
            self._metrics.paused("backlog")
        while self._ledger.full and not self._closed:
            self._consumer.pause(*self._consumer.assignment())
            await self._poll(HELD_POLL_MS)
        self._consumer.resume(*self._consumer.paused())
        self._metrics.resumed("backlog")

    async def _poll(self, wait_ms: int) -> None:
        """Take what has arrived into the ledger."""
        try:
            found = await self._fetched(wait_ms)
        except IllegalStateError as error:
            log.info("the partitions are dealt anew: %s", error)
            return
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("reading failed and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)
            return
        records = [record for some in found.values() for record in some if not self._closed]
        epoch = self._ledger.epoch
        for part in split(records, self._limits.size):
            if self._ledger.epoch != epoch:
                return  # dealt anew meanwhile: whoever has the partition now reads the rest
            self._ledger.add(part)
            crashpoint.reached("ingested")
            await self._arrived()

    async def _fetched(self, wait_ms: int) -> dict[TopicPartition, list[Any]]:
        """What has arrived; a partition without a place to read from is given one instead."""
        fetch = self._consumer.getmany
        try:
            found: dict[TopicPartition, list[Any]] = await fetch(
                timeout_ms=wait_ms, max_records=self._limits.posts
            )
        except NoOffsetForPartitionError as error:
            await self._consumer.seek_to_beginning(*error.args)
            return {}
        except OffsetOutOfRangeError as error:
            await self._start_over(error.args[0])
            return {}
        return found

    async def _start_over(self, lost: Offsets) -> None:
        """Go on at the earliest post where the next one is not there any more, and count it."""
        begin = await self._consumer.beginning_offsets(list(lost))
        for place, offset in lost.items():
            # A topic that was made anew is shorter: then nobody knows how many, but it is told.
            count = max(1, begin[place] - offset)
            self._metrics.offsets_lost(count)
            log.error(
                "%d posts of %s, partition %d, from offset %d on were deleted before they were "
                "read; going on at %d", count, place.topic, place.partition, offset, begin[place],
            )  # fmt: skip
            self._consumer.seek(place, begin[place])


def split(records: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The records in runs of no more bytes than this, of one record at least."""
    start = total = 0
    for at, record in enumerate(records):
        weight = len(record.value or b"") + len(record.key or b"")
        if total + weight > size and at > start:
            yield records[start:at]
            start, total = at, 0
        total += weight
    if start < len(records):
        yield records[start:]
