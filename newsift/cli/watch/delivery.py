"""Delivery of matches to the webhook: read, queued by event, delivered, committed."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from newsift.cli.matches import MatchFilter
from newsift.cli.services import run_together
from newsift.cli.watch.records import (
    WatchMetrics,
    WebhookCall,
    first_available,
    first_offsets,
    partition_of,
    webhook_calls,
)
from newsift.cli.watch.webhook import Webhook
from worker.config import Config
from worker.kafka.consumers import Offsets, group_consumer, groupless_consumer, stop_within

MAX_QUEUES = 128  # with so many, reading pauses
MAX_QUEUE_MATCHES = 100
MAX_QUEUE_BYTES = 2**18  # the last match may exceed it
COMMIT_INTERVAL_S = 1.0
LAG_INTERVAL_S = 5.0
BACKOFF_S = 0.5
MAX_STOP_S = 2.0  # for deliveries in progress when the command ends
POLL_MS = 500
MAX_POLL_RECORDS = 200
log = logging.getLogger("newsift.watch")

Deliver = Callable[[WebhookCall], Awaitable[None]]


@dataclass(slots=True, eq=False)
class EventQueue:
    """The undelivered matches of one event, oldest first."""

    event: str
    calls: deque[WebhookCall] = field(default_factory=deque)
    # The offsets from which matches must be read again.
    backlog: Offsets = field(default_factory=dict)
    size: int = 0
    task: asyncio.Task[None] | None = None

    def add(self, call: WebhookCall) -> bool:
        """Queue a call. Returns False if there is no room."""
        if len(self.calls) >= MAX_QUEUE_MATCHES or self.size >= MAX_QUEUE_BYTES:
            return False
        self.calls.append(call)
        self.size += len(call.value)
        return True


class EventQueues:
    """Bounded queues of undelivered matches, one for each event.

    What does not fit into a queue stays in the topic; the queue notes the offset, and reads on
    there once it is empty. So an event whose deliveries fail costs bounded memory and delays no
    other event.
    """

    def __init__(
        self, deliver: Deliver, fail: Callable[[Exception], None], reader: Any,
        filters: MatchFilter, metrics: WatchMetrics,
    ) -> None:  # fmt: skip
        """`deliver` returns once a call is acknowledged; `fail` gets what it raises.

        `reader` is a consumer without a group, which reads backlogs.
        """
        self._deliver, self._fail = deliver, fail
        self._reader, self._filters, self._metrics = reader, filters, metrics
        self._reading = asyncio.Lock()
        self._queues: dict[str, EventQueue] = {}
        self.positions: Offsets = {}  # the next offset to read of each partition

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def is_full(self) -> bool:
        return len(self._queues) >= MAX_QUEUES

    def take(self, place: TopicPartition, offset: int, calls: Mapping[str, WebhookCall]) -> None:
        for event, call in calls.items():
            queue = self._queues.setdefault(event, EventQueue(event))
            if place not in queue.backlog and not queue.add(call):
                queue.backlog[place] = offset
            queue.task = queue.task or asyncio.create_task(self._work(queue))
        self.positions[place] = offset + 1

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Continue there; backlogs beyond it are of a topic that was deleted and made again."""
        self.positions[place] = offset
        for queue in self._queues.values():
            if queue.backlog.get(place, 0) > offset:
                del queue.backlog[place]

    def committable(self) -> Offsets:
        """The offset of each partition before which everything is acknowledged."""
        offsets = dict(self.positions)
        for queue in self._queues.values():
            for call in queue.calls:
                offsets[call.place] = min(offsets[call.place], call.offset)
            for place, offset in queue.backlog.items():
                offsets[place] = min(offsets[place], offset)
        return offsets

    async def drop(self) -> None:
        """Clear everything: the next reader of the partitions delivers what was not committed."""
        tasks, self._queues, self.positions = self._tasks(), {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def settle(self, timeout_s: float) -> None:
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=timeout_s)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [queue.task for queue in self._queues.values() if queue.task is not None]

    async def _work(self, queue: EventQueue) -> None:
        try:
            while queue.calls or queue.backlog:
                if queue.calls:
                    await self._deliver(queue.calls[0])
                    queue.size -= len(queue.calls.popleft().value)
                else:
                    await self._refill(queue)
        except Exception as error:  # noqa: BLE001 - nobody awaits the task
            self._fail(error)
        else:
            del self._queues[queue.event]

    async def _refill(self, queue: EventQueue) -> None:
        try:
            async with self._reading:
                await self._read(queue)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("reading again failed and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)

    async def _read(self, queue: EventQueue) -> None:
        """Read the backlog of a queue until there is a match, or the queue has caught up."""
        self._reader.assign(list(queue.backlog))
        for place, offset in queue.backlog.items():
            self._reader.seek(place, offset)
        while queue.backlog and not queue.calls:
            try:
                batches = await self._reader.getmany(
                    timeout_ms=POLL_MS, max_records=MAX_POLL_RECORDS
                )
            except OffsetOutOfRangeError as error:
                first = await first_available(
                    self._reader, error.args[0], self._metrics, f"event {queue.event}: "
                )
                for place, offset in first.items():
                    self._reader.seek(place, offset)
                    if place in queue.backlog:
                        self._advance(queue, place, offset)
                continue
            for place, records in batches.items():
                self._refill_from(queue, place, records)

    def _refill_from(self, queue: EventQueue, place: TopicPartition, records: list[Any]) -> None:
        """Queue the matches of the event, as far as there is room."""
        for record in records:
            if place not in queue.backlog:
                return  # the main reader has reached it
            call = (webhook_calls(record, self._filters) or {}).get(queue.event)
            if call is not None and not queue.add(call):
                return
            self._advance(queue, place, record.offset + 1)

    def _advance(self, queue: EventQueue, place: TopicPartition, offset: int) -> None:
        """Advance the backlog of a queue; at the position of the main reader it is done."""
        queue.backlog[place] = offset
        if offset >= self.positions.get(place, 0):
            del queue.backlog[place]


class MatchDelivery(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(
        self, config: Config, filters: MatchFilter, since: int | None, partitions: int,
        webhook: Webhook, metrics: WatchMetrics, fail: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        """A new group begins at `since`, or with the next match.

        A partition that is added to the first `partitions` is read from its first match.
        """
        self._topic, self._filters, self._since = config.topics.matches, filters, since
        self._metrics, self._fail, self._webhook = metrics, fail, webhook
        self._consumer, self._reader = group_consumer(config), groupless_consumer(config)
        self.queues = EventQueues(webhook.deliver, fail, self._reader, filters, metrics)
        self._records_left = deque[Any]()  # records that are not yet in a queue
        self._commits: Offsets = {}
        self._epoch = 0  # the number of rebalances
        self._partitions = partitions
        self._commit_lock = asyncio.Lock()

    async def start(self) -> None:
        await self._webhook.start()
        await self._consumer.start()
        places = [TopicPartition(self._topic, number) for number in range(self._partitions)]
        offsets = await self._consumer.committed_offsets(places)
        if numbers := [place.partition for place in places if offsets[place] is not None]:
            self._partitions = max(numbers) + 1  # more were added since the group last read
        self._consumer.subscribe([self._topic], listener=self)
        await self._reader.start()

    async def stop(self) -> None:
        await self.queues.settle(MAX_STOP_S)
        await stop_within(self.commit(), MAX_STOP_S)
        await self.queues.drop()
        for part in (self._consumer, self._reader, self._webhook):
            await stop_within(part.stop(), MAX_STOP_S)

    async def run(self) -> None:
        await run_together(self._keep_reading(), self._keep_committing(), self._measure_lag())

    async def commit(self) -> None:
        async with self._commit_lock:
            offsets, own = self.queues.committable().items(), self._consumer.assignment()
            moves = {p: o for p, o in offsets if p in own and self._commits.get(p) != o}
            if not moves:
                return
            try:
                await self._consumer.commit(moves)
            except (CommitFailedError, IllegalStateError) as error:
                kind = type(error).__name__
                log.info("not committed, as the group rebalances (%s)", kind)
            else:
                self._commits |= moves

    async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        numbers = ", ".join(str(place.partition) for place in sorted(partitions)) or "none"
        log.info("partitions of %s to read: %s", self._topic, numbers)

    async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        """Commit what is acknowledged; the next reader of the partitions delivers the rest."""
        try:
            await self.queues.settle(MAX_STOP_S)
            async with asyncio.timeout(MAX_STOP_S):
                await self.commit()
        except (KafkaError, TimeoutError) as error:
            log.warning("not committed before the rebalance: %s", error)
        except Exception as error:  # noqa: BLE001 - aiokafka would swallow it
            self._fail(error)
        finally:
            self._epoch += 1
            self._records_left.clear()
            await self.queues.drop()
            self._commits = {}

    async def _keep_reading(self) -> None:
        while True:
            if self.queues.is_full:
                await self._wait_for_room()
            elif self._records_left:
                self._take(self._records_left.popleft())
            else:
                await self._poll()

    async def _wait_for_room(self) -> None:
        """Polls without reading, to stay in the group."""
        log.warning("%d events wait for the receiver: nothing more is read", len(self.queues))
        while self.queues.is_full:
            self._consumer.pause(*self._consumer.assignment())
            await self._poll()
        self._consumer.resume(*self._consumer.paused())

    async def _poll(self) -> None:
        try:
            batches = await self._records()
        except IllegalStateError as error:
            log.info("the group rebalances: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("reading failed and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)
        else:
            for records in batches.values():
                self._records_left.extend(records)
            self._metrics.waiting.set(len(self.queues))

    async def _records(self) -> dict[TopicPartition, list[Any]]:
        """Empty after partitions without a valid offset have been positioned."""
        try:
            return await self._consumer.getmany(timeout_ms=POLL_MS, max_records=MAX_POLL_RECORDS)
        except NoOffsetForPartitionError as error:
            epoch = self._epoch
            self._seek(await self._first_offsets(error.args[0]), epoch)
            await self.commit()
        except OffsetOutOfRangeError as error:
            epoch = self._epoch
            self._seek(await first_available(self._consumer, error.args[0], self._metrics), epoch)
        return {}

    async def _first_offsets(self, place: TopicPartition) -> Offsets:
        if place.partition < self._partitions:
            return await first_offsets(self._consumer, [place], self._since)
        begin: Offsets = await self._consumer.beginning_offsets([place])
        return begin

    def _take(self, record: Any) -> None:
        place, calls = partition_of(record), webhook_calls(record, self._filters)
        if calls is None:
            self._metrics.unread.inc()
            log.warning("%s-%d-%d is not a match: it is passed over", *place, record.offset)
        self.queues.take(place, record.offset, calls or {})

    def _seek(self, offsets: Offsets, epoch: int) -> None:
        """Does nothing after a rebalance: another member may be further."""
        for place, offset in offsets.items() if epoch == self._epoch else ():
            self._consumer.seek(place, offset)
            self.queues.seek(place, offset)

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            try:
                await self.commit()
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.warning("committing failed and is tried again: %s", error)

    async def _measure_lag(self) -> None:
        """Logs once when no broker answers, and once when it does again."""
        silent = False
        while True:
            bounds, assignment = await self._consumer.bounds(), self._consumer.assignment()
            positions = self.queues.committable()
            ends = ((end, positions.get(place, first)) for place, (first, end) in bounds.items())
            self._metrics.lag.set(sum(max(end - at, 0) for end, at in ends))
            if silent != bool(assignment - bounds.keys()):
                silent = not silent
                if silent:
                    log.warning("the broker does not answer: waiting")
                else:
                    log.info("the broker answers again")
            await asyncio.sleep(LAG_INTERVAL_S)
