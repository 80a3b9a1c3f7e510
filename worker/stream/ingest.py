"""Ingest: reads posts from the consumer group into the ledger, in batches of bounded size."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from worker import crashpoint
from worker.config import StreamConfig
from worker.metrics.registry import Metrics
from worker.posts.outcome import Unreadable
from worker.stream.ledger import Ledger
from worker.stream.outage import Outage
from worker.stream.partitions import Positions

POLL_MS = 500
PAUSED_POLL_MS = 100
MAX_FULL_S = 1.0  # A ledger that is full for longer pauses the consumer.
BACKOFF_S = 0.5
STEP_RECORDS = 512
log = logging.getLogger("newsift.ingest")


class Ingest:
    """A batch is what has arrived when the ledger has room."""

    def __init__(
        self,
        consumer: Any,
        topic: str,
        positions: Positions,
        ledger: Ledger,
        metrics: Metrics,
        config: StreamConfig,
    ) -> None:
        self._consumer, self._topic, self._positions = consumer, topic, positions
        self._ledger, self._metrics = ledger, metrics
        self._batch_posts, self._batch_bytes = config.batch_posts, config.batch_bytes
        self._closed = False
        self._outage = Outage(log, "reading")

    async def start(self) -> None:
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self._positions)

    async def stop(self) -> None:
        await self._consumer.stop()

    async def read(self) -> None:
        """Reads batches until `close`."""
        while not self._closed:
            if self._ledger.full:
                await self._wait_for_room()
            else:
                await self._poll(POLL_MS)

    def close(self) -> None:
        """Posts in the ledger can still be committed."""
        self._closed = True

    async def _wait_for_room(self) -> None:
        """Wait until the ledger has room.

        A longer wait pauses the consumer but keeps polling; without polls the group would expel it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_FULL_S):
                await self._ledger.wait_until(lambda: not self._ledger.full)
                return
        self._metrics.begin_pause("backlog")
        while self._ledger.full and not self._closed:
            self._consumer.pause(*self._consumer.assignment())
            await self._poll(PAUSED_POLL_MS)
        self._consumer.resume(*self._consumer.paused())
        self._metrics.end_pause("backlog")

    async def _poll(self, wait_ms: int) -> None:
        try:
            records, sizes = await self._read_batch(wait_ms)
        except IllegalStateError as error:
            log.info("the group rebalances: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._outage.report_failure(error)
            await asyncio.sleep(BACKOFF_S)
        else:
            self._outage.report_success()
            if not self._closed:
                await self._take(records, sizes)

    async def _take(self, records: Sequence[Any], sizes: Sequence[int]) -> None:
        """Adds records to the ledger and remembers the read positions."""
        self._report_unreadable(records)
        for part in split_by_size(records, sizes, self._batch_bytes):
            self._positions.follow(self._ledger.add(part))
            crashpoint.reached("ingested")
        epoch = self._ledger.epoch
        offsets = await self._consumer.positions()
        if self._ledger.epoch == epoch:  # else the partition's new owner reads the rest
            self._positions.set_read(offsets)

    async def _read_batch(self, wait_ms: int) -> tuple[list[Any], list[int]]:
        """New records, about one batch of them, and their sizes.

        They are read in small steps: aiokafka unpacks as many records as are requested, and
        packed records may be large.
        """
        records, epoch = await self._step(wait_ms, self._batch_posts), self._ledger.epoch
        sizes, more = record_sizes(records), bool(records)
        while (
            more and sum(sizes) < self._batch_bytes and (room := self._batch_posts - len(records))
        ):
            try:
                messages = await self._step(0, room)
            except Exception:
                if self._ledger.epoch == epoch:  # else reading begins at the committed offset
                    self._seek_back(records)
                raise
            if self._ledger.epoch != epoch:  # it has waited for the new assignment
                records, epoch, sizes = [], self._ledger.epoch, []
            records += messages
            sizes += record_sizes(messages)
            more = bool(messages)
        return records, sizes

    async def _step(self, wait_ms: int, room: int) -> list[Any]:
        """A partition without a position gets one instead."""
        fetch = self._consumer.getmany
        try:
            records = await fetch(timeout_ms=wait_ms, max_records=min(STEP_RECORDS, room))
        except NoOffsetForPartitionError as error:
            await self._consumer.seek_to_beginning(*error.args)
            return []
        except OffsetOutOfRangeError as error:
            await self._positions.start_over(error.args[0])
            return []
        return [record for some in records.values() for record in some]

    def _seek_back(self, records: Sequence[Any]) -> None:
        """These records are read again."""
        for record in reversed(records):
            with suppress(IllegalStateError):
                first = record.first if isinstance(record, Unreadable) else record.offset
                self._consumer.seek(TopicPartition(record.topic, record.partition), first)

    def _report_unreadable(self, records: Sequence[Any]) -> None:
        """Counts and logs record batches that could not be read."""
        for record in records:
            if isinstance(record, Unreadable):
                log.error("%s", record)
                self._metrics.unreadable("posts", record.count)


def record_sizes(records: Sequence[Any]) -> list[int]:
    """Bytes of key and value."""
    return [len(record.value or b"") + len(record.key or b"") for record in records]


def split_by_size(
    records: Sequence[Any], sizes: Sequence[int], most: int
) -> Iterator[Sequence[Any]]:
    """Runs of at most this many bytes, each of at least one record."""
    if records and sum(sizes) <= most:
        yield records
        return
    start = total = 0
    for index, size in enumerate(sizes):
        if total + size > most and index > start:
            yield records[start:index]
            start, total = index, 0
        total += size
    if start < len(records):
        yield records[start:]
