"""Courier: matches out of the topic into their lanes, and committed once they are acknowledged."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from worker.cli.wanted import Wanted
from worker.cli.watch.counts import WatchCounts
from worker.cli.watch.lanes import Lanes
from worker.cli.watch.notices import notices_of, partition_of
from worker.cli.watch.places import first_kept, first_places
from worker.cli.watch.rereading import Rereader
from worker.cli.watch.running import together
from worker.cli.watch.webhook import Webhook
from worker.config import Config
from worker.kafka.consumers import Offsets, group_consumer, in_time, lone_consumer

POLL_MS = 500
STEP = 200  # records at a time
COMMIT_S = 1.0
LOOK_S = 5.0
BACKOFF_S = 0.5
LEAVE_S = 2.0  # for what is being delivered when the command ends
log = logging.getLogger("newsift.watch")


class Courier(ConsumerRebalanceListener):  # type: ignore[misc]
    """The reading of the matches by a group, for a receiver that acknowledges each."""

    def __init__(
        self, config: Config, wanted: Wanted, since: int | None, webhook: Webhook,
        counts: WatchCounts, fail: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        """`config` names the group; one that is new begins `since` then, else with what comes."""
        self._topic, self._wanted, self._since = config.topics.matches, wanted, since
        self._counts, self._fail = counts, fail
        self._webhook = webhook
        self.lanes = Lanes(webhook.deliver, fail)
        self._consumer = group_consumer(config)
        self._again = Rereader(lone_consumer(config), self.lanes, wanted, counts)
        self._read = deque[Any]()  # records that are in no lane yet, as too many events wait
        self._committed: Offsets = {}
        self._epoch = 0  # how often the partitions were dealt anew
        self._committing = asyncio.Lock()

    async def start(self) -> None:
        """Connect and join the group."""
        await self._webhook.start()
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        await self._again.start()

    async def stop(self) -> None:
        """Finish what is being delivered, commit what is done, and leave the group."""
        await self.lanes.settle(LEAVE_S)
        await in_time(self.commit(), LEAVE_S)
        await self.lanes.drop()
        for part in (self._consumer, self._again, self._webhook):
            await in_time(part.stop(), LEAVE_S)

    async def run(self) -> None:
        """Read, deliver and commit for as long as this is awaited."""
        await together(
            self._keep_reading(), self._keep_committing(), self._keep_looking(), self._again.run()
        )

    async def commit(self) -> None:
        """Commit what is acknowledged, where it is news."""
        async with self._committing:
            found, mine = self.lanes.committable(), self._consumer.assignment()
            news = {p: at for p, at in found.items() if p in mine and self._committed.get(p) != at}
            if not news:
                return
            try:
                await self._consumer.commit(news)
            except (CommitFailedError, IllegalStateError) as error:
                kind = type(error).__name__
                log.info("not committed, as the partitions are dealt anew (%s)", kind)
            else:
                self._committed |= news

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Say which partitions are read here now."""
        numbers = ", ".join(str(place.partition) for place in sorted(assigned)) or "none"
        log.info("partitions of %s to read: %s", self._topic, numbers)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Commit what is done; the rest is delivered by whoever reads the partitions next."""
        try:
            await self.lanes.settle(LEAVE_S)
            async with asyncio.timeout(LEAVE_S):
                await self.commit()
        except (KafkaError, TimeoutError) as error:
            log.warning("not committed before the partitions were dealt anew: %s", error)
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self._fail(error)
        finally:
            self._epoch += 1
            self._read.clear()
            await self.lanes.drop()
            self._committed = {}

    async def _keep_reading(self) -> None:
        while True:
            if self.lanes.full:
                await self._hold()
            elif self._read:
                self._take(self._read.popleft())
            else:
                await self._poll(POLL_MS)

    async def _hold(self) -> None:
        """Read no more until fewer events wait; one that does not poll leaves the group."""
        log.warning("%d events wait for the receiver: nothing more is read", len(self.lanes))
        while self.lanes.full:
            self._consumer.pause(*self._consumer.assignment())
            await self._poll(POLL_MS)
        self._consumer.resume(*self._consumer.paused())

    async def _poll(self, wait_ms: int) -> None:
        try:
            found = await self._records(wait_ms)
        except IllegalStateError as error:
            log.info("the partitions are dealt anew: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("reading failed and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)
        else:
            for records in found.values():
                self._read.extend(records)
            self._counts.waiting.set(len(self.lanes))

    async def _records(self, wait_ms: int) -> dict[TopicPartition, list[Any]]:
        """What has arrived; a partition without a place to read from is given one instead."""
        try:
            return await self._consumer.getmany(timeout_ms=wait_ms, max_records=STEP)
        except NoOffsetForPartitionError as error:
            await self._begin(list(error.args))
        except OffsetOutOfRangeError as error:
            await self._begin_anew(error.args[0])
        return {}

    def _take(self, record: Any) -> None:
        place, notices = partition_of(record), notices_of(record, self._wanted)
        if notices is None:
            self._counts.unread.inc()
            log.warning("%s-%d-%d is no match: it is passed over", *place, record.offset)
        self.lanes.take(place, record.offset, notices or {})

    async def _begin(self, places: list[TopicPartition]) -> None:
        """Begin partitions of which the group knows nothing, and have that kept."""
        epoch = self._epoch
        self._seek(await first_places(self._consumer, places, self._since), epoch)
        await self.commit()

    async def _begin_anew(self, lost: Offsets) -> None:
        """Go on with the first record that is there, where the next one was deleted."""
        epoch = self._epoch
        self._seek(await first_kept(self._consumer, lost, self._counts), epoch)

    def _seek(self, offsets: Offsets, epoch: int) -> None:
        """Go on there, unless the partitions were dealt anew: then somebody may be further."""
        for place, offset in offsets.items() if epoch == self._epoch else ():
            self._consumer.seek(place, offset)
            self.lanes.reached[place] = offset

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            try:
                await self.commit()
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.warning("committing failed and is tried again: %s", error)

    async def _keep_looking(self) -> None:
        """Measure what waits, and say once when no broker answers, and when it does again."""
        silent = False
        while True:
            bounds, mine = await self._consumer.bounds(), self._consumer.assignment()
            done = self.lanes.committable()
            ends = ((end, done.get(place, first)) for place, (first, end) in bounds.items())
            self._counts.lag.set(sum(max(end - at, 0) for end, at in ends))
            if silent != (mine - bounds.keys() != set()):
                silent = not silent
                say = log.warning if silent else log.info
                say("the broker does not answer: waiting" if silent else "the broker answers again")
            await asyncio.sleep(LOOK_S)
