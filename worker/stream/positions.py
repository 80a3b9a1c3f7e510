"""Positions: how far each partition is read, and how far it is committed."""

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from worker import crashpoint
from worker.stream.backlog import Backlog
from worker.stream.ledger import Ledger, Offsets
from worker.watch.metrics import Metrics

if TYPE_CHECKING:
    from worker.match.records import Message

log = logging.getLogger("newsift.ingest")


class Positions:
    """How far each partition of this worker is read, and how far it is committed.

    What a batch holds is committed once the batch is done. Where no batch is under way the position
    of the reading is: beyond the last post may lie markers of transactions, records of aborted ones
    and what compaction took out, which no batch ever holds.
    """

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self._ledger, self._metrics = ledger, metrics
        self._read: Offsets = {}  # all before is in the ledger, or done
        self._committed: dict[TopicPartition, int | None] = {}  # as far as this worker knows
        self._committing = asyncio.Lock()
        self._silent: set[int] = set()

    def take(self, records: "Sequence[Message]") -> None:
        """Put what was read into the ledger, as one batch."""
        for place in self._ledger.add(records).ends:
            self._read.pop(place, None)  # what was read before may be committed before this

    def reached(self, offsets: Offsets) -> None:
        """Note the positions of the reading, once all that was read is in the ledger."""
        self._read |= offsets

    def forget(self) -> None:
        """Know nothing, as the partitions are dealt anew."""
        self._read, self._committed = {}, {}

    async def commit(self, consumer: Any) -> bool:
        """Commit what may be committed, in the order of the offsets; whether there was any."""
        async with self._committing:
            done, settled = self._ledger.committable(), self._settled()
            epoch, began = self._ledger.epoch, perf_counter()
            if not done and not settled:
                return False
            try:
                await consumer.commit(settled | done)
            except (CommitFailedError, IllegalStateError) as error:
                log.info("not committed, as the partitions are dealt anew: %s", error)
                return False
            if done:
                crashpoint.reached("committed")
            self._metrics.stage("commit", perf_counter() - began)
            if self._ledger.epoch == epoch:  # else what is in the ledger now is other batches
                self._committed |= settled | done
                self._ledger.committed(done)
            return True

    async def backlogs(self, consumer: Any) -> dict[int, Backlog]:
        """What waits in each partition whose leader answers."""
        epoch, committed = self._ledger.epoch, self._committed
        bounds = await consumer.bounds()
        self._tell({place.partition for place in consumer.assignment() - bounds.keys()})
        for place in bounds.keys() - committed.keys():
            told = await consumer.committed(place)
            committed.setdefault(place, told)
        if self._ledger.epoch != epoch:
            return {}
        return {
            place.partition: Backlog(first, committed[place], end)
            for place, (first, end) in bounds.items()
        }

    async def start_over(self, consumer: Any, lost: Offsets) -> None:
        """Go on at the earliest post where the next one is not there any more, and count it.

        The new beginning is committed, so that a restart does not report the same again.
        """
        epoch = self._ledger.epoch
        begin = await consumer.beginning_offsets(list(lost))
        if self._ledger.epoch != epoch:
            return  # dealt anew meanwhile: whoever has the partition now finds the same
        for place, offset in lost.items():
            first = begin[place]
            self._report(place, offset, first)
            consumer.seek(place, first)
            self._committed.setdefault(place, offset)
            self._read[place] = first
        await self.commit(consumer)

    def _tell(self, silent: set[int]) -> None:
        """Say once which partitions no broker answers for."""
        if silent - self._silent:
            log.warning("no broker answers for partition %s: waiting", _listed(silent))
        if self._silent and not silent:
            log.info("the brokers answer for every partition again")
        self._silent = silent

    def _report(self, place: TopicPartition, offset: int, first: int) -> None:
        where = f"{place.topic}, partition {place.partition}"
        if offset < first:
            self._metrics.offsets_lost(first - offset)
            log.error(
                "%d offsets of %s, from %d on, were deleted before they were read; going on at %d",
                first - offset, where, offset, first,
            )  # fmt: skip
            return
        self._metrics.offsets_lost(1)
        log.error(
            "%s ends before offset %d, which is next: the topic was made anew or cut short, nobody "
            "knows how much is lost; all that is there is read, from %d on", where, offset, first,
        )  # fmt: skip

    def _settled(self) -> Offsets:
        """The positions of partitions of which nothing is under way, where they are news."""
        busy, known = self._ledger.places, self._committed
        return {
            place: offset
            for place, offset in self._read.items()
            if place not in busy and place in known and known[place] != offset
        }


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
