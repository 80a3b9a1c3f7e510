"""Ingest: posts from the group's consumer into the ledger, and their offsets back to the broker."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from worker import crashpoint
from worker.kafka.consumers import REVOKE_S
from worker.posts.unreadable import Unreadable
from worker.stream.backlog import Backlog
from worker.stream.ledger import Ledger
from worker.stream.positions import Positions
from worker.stream.transactions import OpenTransactions
from worker.watch.metrics import Metrics

POLL_MS = 500
HELD_POLL_MS = 100
HOLD_S = 1.0  # so long a full ledger is waited for before the consumer is paused
COMMIT_S = 2.0  # of the time to give partitions up, kept for the commit
BACKOFF_S = 0.5
STEP = 64  # records
log = logging.getLogger("newsift.ingest")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How much a batch may hold, at most."""

    posts: int
    bytes: int


class Ingest(ConsumerRebalanceListener):  # type: ignore[misc]
    """The consumer of the posts: it alone speaks with the group."""

    def __init__(
        self,
        make: Callable[[], Any],
        topic: str,
        ledger: Ledger,
        most: BatchSize,
        metrics: Metrics,
        arrived: Callable[[], Any],
    ) -> None:
        self._make, self._topic, self._ledger = make, topic, ledger
        self._most, self._metrics, self._arrived = most, metrics, arrived
        self._consumer: Any = None
        self._changed = asyncio.Condition()
        self._positions = Positions(ledger, metrics)
        self._open = OpenTransactions(metrics)
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
        if await self._positions.commit(self._consumer):
            await self.changed()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give partitions up: finish what is in flight, commit it, and forget the rest."""
        try:
            async with asyncio.timeout(REVOKE_S):
                await self.settle(REVOKE_S - COMMIT_S)
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

    async def backlogs(self) -> dict[int, Backlog]:
        """What waits in each partition of this worker whose leader answers."""
        self._open.look(self._consumer)
        return await self._positions.backlogs(self._consumer)

    async def _forget(self, revoked: set[TopicPartition]) -> None:
        dropped = self._ledger.drop()
        if dropped:
            log.info("%d batches in flight are left to whoever reads them next", dropped)
        self._positions.forget()
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
            records, epoch = await self._gathered(wait_ms)
        except IllegalStateError as error:
            log.info("the partitions are dealt anew: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("reading failed and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)
        else:
            await self._take(records, epoch)

    async def _take(self, records: Sequence[Any], epoch: int) -> None:
        """Put what was read under an assignment into the ledger, and note how far that is.

        Dealt anew meanwhile, whoever has the partition now reads the rest.
        """
        for part in split(records, self._most.bytes):
            if self._closed or self._ledger.epoch != epoch:
                return
            self._positions.take(part)
            self._report(part)
            crashpoint.reached("ingested")
            await self._arrived()
        reached = await self._consumer.reached()
        if not self._closed and self._ledger.epoch == epoch:
            self._positions.reached(reached)

    async def _gathered(self, wait_ms: int) -> tuple[list[Any], int]:
        """What has arrived, about a batch of it, and the epoch that it was read in.

        It is taken in small steps: what is packed well may be large, and aiokafka unpacks as many
        records as it is asked for.
        """
        records, epoch = await self._step(wait_ms, self._most.posts), self._ledger.epoch
        size, more = weight(records), bool(records)
        while more and size < self._most.bytes and (room := self._most.posts - len(records)):
            try:
                found = await self._step(0, room)
            except Exception:
                self._give_back(records)
                raise
            if self._ledger.epoch != epoch:  # it has waited for the new assignment
                records, epoch, size = [], self._ledger.epoch, 0
            records += found
            size, more = size + weight(found), bool(found)
        return records, epoch

    async def _step(self, wait_ms: int, room: int) -> list[Any]:
        """The next records; a partition without a place to read from is given one instead."""
        fetch = self._consumer.getmany
        try:
            found = await fetch(timeout_ms=wait_ms, max_records=min(STEP, room))
        except NoOffsetForPartitionError as error:
            await self._consumer.seek_to_beginning(*error.args)
            return []
        except OffsetOutOfRangeError as error:
            await self._positions.start_over(self._consumer, error.args[0])
            return []
        return [record for some in found.values() for record in some]

    def _give_back(self, records: Sequence[Any]) -> None:
        """Have records handed out once more, as they got no further than here."""
        for record in reversed(records):
            with suppress(IllegalStateError):
                first = record.first if isinstance(record, Unreadable) else record.offset
                self._consumer.seek(TopicPartition(record.topic, record.partition), first)

    def _report(self, records: Sequence[Any]) -> None:
        """Tell of the batches that could not be read; each goes on as one message."""
        for record in records:
            if isinstance(record, Unreadable):
                log.error("%s", record)
                self._metrics.unreadable("posts", record.count)


def weight(records: Sequence[Any]) -> int:
    """The bytes of keys and values."""
    return sum(len(record.value or b"") + len(record.key or b"") for record in records)


def split(records: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The records in runs of no more bytes than this, of one record at least."""
    start = total = 0
    for at, record in enumerate(records):
        one = weight([record])
        if total + one > size and at > start:
            yield records[start:at]
            start, total = at, 0
        total += one
    if start < len(records):
        yield records[start:]
