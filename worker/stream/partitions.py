"""A worker's partitions: how far each is read and committed, its lag, and what is remembered of it.

A rebalance revokes all partitions and assigns most of them to the same workers again. What was
remembered of a partition still holds if no other worker has committed in it meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from worker import crashpoint
from worker.kafka.consumers import MAX_REVOKE_S
from worker.match.groups import StoryGroups
from worker.metrics.registry import Metrics
from worker.stream.ledger import Batch, Ledger, Offsets
from worker.stream.transactions import OpenTransactions

MAX_COMMIT_WAIT_S = 1.0
MIN_COMMIT_S = 0.5  # The commit gets this part of the time of a revoke.
UNKNOWN_OFFSET = -1  # No broker has answered.
log = logging.getLogger("newsift.ingest")


@dataclass(slots=True, eq=False)
class Tenure:
    """What the worker remembers of a partition while it is assigned, and shortly after."""

    committed: int | None  # the offset at which another worker would go on
    groups: StoryGroups = field(default_factory=StoryGroups)
    revoked_at: float = inf  # while assigned; else by the event loop's clock


class Tenures:
    """The tenures of this worker's partitions, and of those that it lost a short time ago.

    Partitions change on the event loop; a thread looks them up.
    """

    def __init__(self, keep_s: float) -> None:
        """`keep_s` is how long a partition may be away."""
        self._keep_s = keep_s
        self._current: dict[int, Tenure] = {}
        self._away: dict[int, Tenure] = {}
        self.ready = asyncio.Event()  # cleared while it is undecided which tenures continue
        self.ready.set()

    def __getitem__(self, partition: int) -> Tenure:
        """An empty tenure for a partition that is gone; a batch of an older epoch may name it."""
        tenure = self._current.get(partition) or self._away.get(partition)
        return tenure or Tenure(None)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commits the offsets of this worker."""
        for partition, offset in offsets.items():
            self[partition].committed = offset

    def revoke(self) -> None:
        """Tenures are kept while their partitions may come back."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for tenure in self._current.values():
            tenure.revoked_at = now
        self._away |= self._current
        self._current = {}
        self.ready.clear()
        if self._away:
            loop.call_later(self._keep_s, self._expire, now)

    def assign(self, partitions: Iterable[int], committed: Mapping[int, int | None]) -> None:
        """A tenure continues if no other worker has committed in its partition."""
        for partition in partitions:
            offset = committed.get(partition, UNKNOWN_OFFSET)
            tenure = self._away.pop(partition, None)
            if tenure is None or tenure.committed != offset:
                tenure = Tenure(offset)
            tenure.revoked_at = inf
            self._current[partition] = tenure
        self.ready.set()

    def _expire(self, revoked_at: float) -> None:
        self._away = {
            partition: tenure
            for partition, tenure in self._away.items()
            if tenure.revoked_at > revoked_at
        }


@dataclass(frozen=True, slots=True)
class Backlog:
    """The lag of a partition, as the worker and `newsift status` count it."""

    first: int
    committed: int | None
    end: int  # the last stable offset, where posts are read committed

    @property
    def done(self) -> int:
        """The committed offset; a new group begins at the earliest post."""
        return max(self.committed or 0, self.first)

    @property
    def lag(self) -> int:
        """Includes the markers and gaps between posts."""
        return max(self.end - self.done, 0)


class Positions(ConsumerRebalanceListener):  # type: ignore[misc]
    """How far each of this worker's partitions is read and committed.

    A batch is committed when it is done. Where nothing is in flight, the read position is
    committed: after the last post there may be transaction markers, aborted records and compacted
    gaps, which no batch contains.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str,
        ledger: Ledger,
        tenures: Tenures,
        metrics: Metrics,
        fail: Callable[[Exception], None],
    ) -> None:
        self._consumer, self._topic = consumer, topic
        self._ledger, self._tenures = ledger, tenures
        self._metrics, self._fail = metrics, fail
        self._read_offsets: Offsets = {}  # all before is in the ledger, or done
        self._committed: dict[TopicPartition, int | None] = {}  # as far as this worker knows
        self._commit_lock = asyncio.Lock()
        self._transactions = OpenTransactions(metrics)
        self._silent_partitions: set[int] = set()

    def follow(self, batch: Batch) -> None:
        """Partitions with posts in flight are committed by their batches alone."""
        for place in batch.ends:
            self._read_offsets.pop(place, None)

    def set_read(self, offsets: Offsets) -> None:
        """All records before these offsets are in the ledger."""
        self._read_offsets |= offsets

    async def commit(self) -> bool:
        """Commits finished batches in offset order; False if there is nothing to commit."""
        async with self._commit_lock:
            done, idle = self._ledger.committable(), self._idle_positions()
            epoch, began = self._ledger.epoch, perf_counter()
            if not done and not idle:
                return False
            try:
                await self._consumer.commit(idle | done)
            except (CommitFailedError, IllegalStateError) as error:
                log.info("not committed, as the group rebalances: %s", error)
                return False
            offsets = {place.partition: offset for place, offset in (idle | done).items()}
            self._tenures.commit(offsets)
            if done:
                crashpoint.reached("committed")
            self._metrics.stage("commit", perf_counter() - began)
            if self._ledger.epoch == epoch:  # else what is in the ledger now is other batches
                self._committed |= idle | done
                self._ledger.record_commit(done)
            return True

    async def keep_committing(self) -> None:
        """Commits offsets as soon as they can be committed."""
        while True:
            while await self.commit():
                pass
            # aiokafka does not signal a position past markers and gaps.
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_COMMIT_WAIT_S):
                    await self._ledger.wait_for_change()

    async def settle(self, timeout_s: float) -> None:
        """Waits at most this long for what is in flight."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ledger.wait_until(lambda: not self._ledger.unfinished)
        except TimeoutError:
            log.info("%d batches were not finished in time", self._ledger.unfinished)

    def drop(self) -> None:
        """Drops what is in flight; nothing more is committed in this assignment."""
        self._begin_epoch()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Restores what this worker remembers of the partitions."""
        self._begin_epoch()  # a position read since the last one may be of the old assignment
        self._metrics.count_rebalance()
        numbers = _join_numbers(place.partition for place in assigned) or "none"
        log.info("partitions of %s to read: %s", self._topic, numbers)
        offsets: dict[TopicPartition, int | None] = {}
        try:
            async with asyncio.timeout(MAX_REVOKE_S):
                offsets = await self._consumer.committed_offsets(assigned)
        except (KafkaError, TimeoutError) as error:
            log.info("story groups start again: %s", type(error).__name__)
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self._fail(error)
        for place, offset in offsets.items():
            self._committed.setdefault(place, offset)
        self._tenures.assign(
            (place.partition for place in assigned),
            {place.partition: offset for place, offset in offsets.items()},
        )

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Finishes and commits what is in flight, and forgets the rest."""
        try:
            async with asyncio.timeout(MAX_REVOKE_S):
                await self.settle(MAX_REVOKE_S - MIN_COMMIT_S)
                await self.commit()
        except TimeoutError:
            log.warning("the broker accepted no commit before the rebalance")
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self._fail(error)
        finally:
            self._forget(revoked)

    async def backlogs(self) -> dict[int, Backlog]:
        """The lag of each partition whose leader answers."""
        self._transactions.observe(self._consumer)
        epoch, committed = self._ledger.epoch, self._committed
        bounds = await self._consumer.bounds()
        self._log_silent({p.partition for p in self._consumer.assignment() - bounds.keys()})
        answers = await self._consumer.committed_offsets(bounds.keys() - committed.keys())
        for place, offset in answers.items():
            committed.setdefault(place, offset)
        if self._ledger.epoch != epoch:
            return {}
        return {
            place.partition: Backlog(first, committed[place], end)
            for place, (first, end) in bounds.items()
        }

    async def start_over(self, loss: Offsets) -> None:
        """Continue at the earliest post if the next one was deleted, and count the loss.

        The new position is committed, so that a restart does not report the loss again.
        """
        epoch = self._ledger.epoch
        begin = await self._consumer.beginning_offsets(list(loss))
        if self._ledger.epoch != epoch:
            return  # reassigned: the new owner starts over itself
        for place, offset in loss.items():
            first = begin[place]
            self._report_loss(place, offset, first)
            self._consumer.seek(place, first)
            self._committed.setdefault(place, offset)
            self._read_offsets[place] = first
        await self.commit()

    def _idle_positions(self) -> Offsets:
        """Read positions of partitions with nothing in flight."""
        busy, committed = self._ledger.places, self._committed
        return {
            place: offset
            for place, offset in self._read_offsets.items()
            if place not in busy and place in committed and committed[place] != offset
        }

    def _forget(self, revoked: set[TopicPartition]) -> None:
        if batches := self._begin_epoch():
            log.info("%d batches in flight are left to the next owner of the partitions", batches)
        self._tenures.revoke()
        self._metrics.remove_lag(sorted(place.partition for place in revoked))

    def _begin_epoch(self) -> int:
        """Returns the number of batches that were dropped."""
        self._read_offsets, self._committed = {}, {}
        return self._ledger.drop()

    def _log_silent(self, silent: set[int]) -> None:
        """Logs once which partitions no broker answers for."""
        if silent - self._silent_partitions:
            log.warning("no broker answers for partition %s: waiting", _join_numbers(silent))
        if self._silent_partitions and not silent:
            log.info("the brokers answer for every partition again")
        self._silent_partitions = silent

    def _report_loss(self, place: TopicPartition, offset: int, first: int) -> None:
        where = f"{place.topic}, partition {place.partition}"
        self._metrics.offsets_lost(max(first - offset, 1))
        if offset < first:
            log.error(
                "%d offsets of %s, from %d on, were deleted before they were read; going on at %d",
                first - offset, where, offset, first,
            )  # fmt: skip
            return
        log.error(
            "%s ends before offset %d, which is next: the topic was recreated or cut short; the "
            "loss is unknown; reading continues with what it has, from %d on", where, offset, first,
        )  # fmt: skip


def _join_numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
