"""Offsets: how far each partition is read, how far it is committed, and what waits behind that."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from worker import crashpoint
from worker.kafka.consumers import REVOKE_S
from worker.stream.ledger import Ledger, Offsets
from worker.stream.transactions import OpenTransactions
from worker.watch.metrics import Metrics

if TYPE_CHECKING:
    from worker.match.records import Message

LOOK_S = 1.0
COMMIT_S = 2.0  # of the time to give partitions up, kept for the commit
log = logging.getLogger("newsift.ingest")


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in a partition of posts, as the worker and `newsift status` count it."""

    first: int
    committed: int | None
    end: int  # the last stable offset, where posts are read committed

    @property
    def done(self) -> int:
        """How far the workers are: a new group begins with the first post that is there."""
        return max(self.committed or 0, self.first)

    @property
    def lag(self) -> int:
        """Posts that wait, with what markers and gaps lie between them."""
        return max(self.end - self.done, 0)


class Positions(ConsumerRebalanceListener):  # type: ignore[misc]
    """How far each partition of this worker is read and committed, from its coming to its going.

    What a batch holds is committed once the batch is done. Where no batch is under way the position
    of the reading is: beyond the last post may lie markers of transactions, records of aborted ones
    and what compaction took out, which no batch ever holds.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str,
        ledger: Ledger,
        metrics: Metrics,
        fail: Callable[[Exception], None],
    ) -> None:
        self._consumer, self._topic, self._ledger = consumer, topic, ledger
        self._metrics, self._fail = metrics, fail
        self._read: Offsets = {}  # all before is in the ledger, or done
        self._committed: dict[TopicPartition, int | None] = {}  # as far as this worker knows
        self._committing = asyncio.Lock()
        self._open = OpenTransactions(metrics)
        self._silent: set[int] = set()

    def take(self, records: "Sequence[Message]") -> None:
        """Put what was read into the ledger, as one batch."""
        for place in self._ledger.add(records).ends:
            self._read.pop(place, None)  # what was read before may be committed before this

    def reached(self, offsets: Offsets) -> None:
        """Note the positions of the reading, once all that was read is in the ledger."""
        self._read |= offsets

    async def commit(self) -> bool:
        """Commit what may be committed, in the order of the offsets; whether there was any."""
        async with self._committing:
            done, settled = self._ledger.committable(), self._settled()
            epoch, began = self._ledger.epoch, perf_counter()
            if not done and not settled:
                return False
            try:
                await self._consumer.commit(settled | done)
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

    async def keep_committing(self) -> None:
        """Commit whenever there is something to commit: all that has been done by then at once."""
        while True:
            while await self.commit():
                pass
            with suppress(TimeoutError):  # of a position past markers and gaps nobody tells
                async with asyncio.timeout(LOOK_S):
                    await self._ledger.changed()

    async def settle(self, timeout_s: float) -> None:
        """Wait so long, at most, for all that is in flight."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ledger.until(lambda: not self._ledger.unfinished)
        except TimeoutError:
            log.info("%d batches were not finished in time", self._ledger.unfinished)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note which partitions are this worker's now."""
        self._metrics.rebalanced()
        numbers = _listed(place.partition for place in assigned) or "none"
        log.info("partitions of %s to read: %s", self._topic, numbers)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give partitions up: finish what is in flight, commit it, and forget the rest."""
        try:
            async with asyncio.timeout(REVOKE_S):
                await self.settle(REVOKE_S - COMMIT_S)
                await self.commit()
        except TimeoutError:
            log.warning("the broker took no commit before the partitions were dealt anew")
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self._fail(error)
        finally:
            self._forget(revoked)

    async def backlogs(self) -> dict[int, Backlog]:
        """What waits in each partition of this worker whose leader answers."""
        self._open.look(self._consumer)
        epoch, committed = self._ledger.epoch, self._committed
        bounds = await self._consumer.bounds()
        self._tell({p.partition for p in self._consumer.assignment() - bounds.keys()})
        for place in bounds.keys() - committed.keys():
            told = await self._consumer.committed(place)
            committed.setdefault(place, told)
        if self._ledger.epoch != epoch:
            return {}
        return {
            place.partition: Backlog(first, committed[place], end)
            for place, (first, end) in bounds.items()
        }

    async def start_over(self, lost: Offsets) -> None:
        """Go on at the earliest post where the next one is not there any more, and count it.

        The new beginning is committed, so that a restart does not report the same again.
        """
        epoch = self._ledger.epoch
        begin = await self._consumer.beginning_offsets(list(lost))
        if self._ledger.epoch != epoch:
            return  # dealt anew meanwhile: whoever has the partition now finds the same
        for place, offset in lost.items():
            first = begin[place]
            self._report(place, offset, first)
            self._consumer.seek(place, first)
            self._committed.setdefault(place, offset)
            self._read[place] = first
        await self.commit()

    def _settled(self) -> Offsets:
        """The positions of partitions of which nothing is under way, where they are news."""
        busy, known = self._ledger.places, self._committed
        return {
            place: offset
            for place, offset in self._read.items()
            if place not in busy and place in known and known[place] != offset
        }

    def _forget(self, revoked: set[TopicPartition]) -> None:
        """Know nothing, as the partitions are dealt anew."""
        if dropped := self._ledger.drop():
            log.info("%d batches in flight are left to whoever reads them next", dropped)
        self._read, self._committed = {}, {}
        self._metrics.revoked(sorted(place.partition for place in revoked))

    def _tell(self, silent: set[int]) -> None:
        """Say once which partitions no broker answers for."""
        if silent - self._silent:
            log.warning("no broker answers for partition %s: waiting", _listed(silent))
        if self._silent and not silent:
            log.info("the brokers answer for every partition again")
        self._silent = silent

    def _report(self, place: TopicPartition, offset: int, first: int) -> None:
        where = f"{place.topic}, partition {place.partition}"
        self._metrics.offsets_lost(max(first - offset, 1))
        if offset < first:
            log.error(
                "%d offsets of %s, from %d on, were deleted before they were read; going on at %d",
                first - offset, where, offset, first,
            )  # fmt: skip
            return
        log.error(
            "%s ends before offset %d, which is next: the topic was made anew or cut short, nobody "
            "knows how much is lost; all that is there is read, from %d on", where, offset, first,
        )  # fmt: skip


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
