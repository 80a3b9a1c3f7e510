"""The control topic: read to its end, then followed. Each change makes a new seed set."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from worker.config.limits import Limits
from worker.errors import BrokerError
from worker.kafka.topic_identity import TopicIdentity, read_identity
from worker.metrics.registry import Metrics
from worker.posts.outcome import Unreadable
from worker.seeds.reducer import MAX_READ_PAUSE_S
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlReducer, ControlState
from worker.stream.outage import Outage
from worker.stream.transactions import OpenTransactions

POLL_MS = 500
BACKOFF_S = 0.5
IDENTITY_CHECK_S = 2.0
MAX_LOGGED = 10
REMEDY = (
    "posts wait until it has seeds (`newsift topics create`, `newsift seeds import FILE`), "
    "or until the worker is restarted"
)
MakeSeeds = Callable[[ControlState], SeedSet]  # ready to match
log = logging.getLogger("newsift.control")


class Control:
    """The reader of the control topic, without a group: every worker reads every record.

    `seeds` is the set for the next batch. It is replaced as a whole after the new articles are
    embedded, in a thread apart from the hot path. A topic that was created again is read from its
    beginning. A topic that is missing, or empty where this worker had seeds, pauses the posts: lost
    seeds must not look like an empty set.
    """

    def __init__(
        self,
        consumer: Any,
        topic: str,
        metrics: Metrics,
        limits: Limits,
        check_topics: Callable[[], None],
        on_hold: Callable[[str], None],
    ) -> None:
        self._consumer, self._topic, self._metrics, self._limits = consumer, topic, metrics, limits
        self._check_topics = check_topics  # raises what makes a topic unfit
        self._on_hold = on_hold
        self._transactions = OpenTransactions(metrics)
        self._partition = TopicPartition(topic, 0)
        self._identity: TopicIdentity | None = None
        self._checked_at = self._answered_at = 0.0
        self._reducer = ControlReducer(limits, values=False)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="seeds")
        self._seeds_since = 0.0
        self._reported: frozenset[tuple[str, str, str]] = frozenset()
        self._had_seeds = False  # whether the topic had seeds before it was lost
        self._task: asyncio.Task[None] | None = None  # that follows
        self.seeds: SeedSet | None = None
        self.hold_reason = ""  # why posts wait
        self.cluster_id = ""  # Kafka's, once it has answered

    async def start(self) -> None:
        """Reads the records that exist now."""
        self._consumer.assign([self._partition])  # else it does not ask for the topic at all
        # A fetch that waits for records would hold up the rest.
        self._consumer.pause(self._partition)
        await self._consumer.start()
        self._identity = await self._read_identity()
        if self._identity is None:
            raise UnknownTopicOrPartitionError(self._topic)
        self.cluster_id = self._identity.cluster_id
        await self._read()
        self._answered_at = time.time()

    async def stop(self) -> None:
        """Also ends `follow`, which would take the closed consumer for a broker that is away."""
        if self._task is not None:
            self._task.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)
        await self._consumer.stop()

    async def embed(self, make: MakeSeeds) -> None:
        """Makes a seed set of the current records, in a thread, and puts it in place."""
        seeds = await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: make(self._reducer.snapshot())
        )
        log.info("%d seeds, set %s", len(seeds), seeds.digest)
        self._log_idle(seeds)
        self.seeds, self._seeds_since = seeds, time.time()
        self._had_seeds = bool(seeds) or (self._had_seeds and bool(self.hold_reason))
        self._metrics.name_events(seed.event for seed in seeds.seeds)
        self.report_metrics()

    async def follow(self, make: MakeSeeds) -> None:
        """Applies new records until `stop`."""
        self._task = asyncio.current_task()
        outage = Outage(log, "reading the control topic")
        while True:
            checked_at = self._checked_at
            try:
                await self._step(make)
            except (KafkaError, BrokerError) as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                outage.report_failure(error)
                await asyncio.sleep(BACKOFF_S)
            else:
                if self._checked_at != checked_at:  # the broker has answered
                    outage.report_success()

    def report_metrics(self) -> None:
        """Also runs between changes, because seeds expire."""
        seeds = self.seeds
        if seeds is None:
            return
        self._transactions.observe(self._consumer)
        expired = int((seeds.expiry <= int(time.time() * 1000)).sum())
        counts = {
            "live": len(seeds) - expired, "refused": len(seeds.refused), "expired": expired,
            "paused": len(seeds.paused), "stale": len(seeds.stale),
        }  # fmt: skip
        self._metrics.seeds(counts, seeds.digest, self._seeds_since)

    async def _step(self, make: MakeSeeds) -> None:
        """Applies new records; sometimes checks whether the topic was created again."""
        began = time.time()
        if began - self._answered_at > MAX_READ_PAUSE_S:
            self._identity, self._checked_at = None, 0.0  # tombstones may be gone
        try:
            records = await self._records()
        except OffsetOutOfRangeError:
            self._identity, self._checked_at = None, 0.0  # records that were read are there no more
            records = []
        if records and self._identity is not None:  # else all is read again below
            self._apply(records)
            await self.embed(make)
        elif self.hold_reason and self._identity is not None and self.seeds:
            self._hold("")
        if time.monotonic() - self._checked_at > IDENTITY_CHECK_S:
            await self._check_identity(make)
            self._checked_at, self._answered_at = time.monotonic(), began

    async def _read_identity(self) -> TopicIdentity | None:
        return await read_identity(self._consumer.client, self._topic)

    async def _check_identity(self, make: MakeSeeds) -> None:
        """Reads the topic again if it was replaced."""
        current = await self._read_identity()
        if current is not None:
            self.cluster_id = current.cluster_id
        if current is None:
            self._hold(f"the control topic {self._topic} is gone")
            self._identity = None
        elif current != self._identity:
            await asyncio.to_thread(self._check_topics)
            self._identity = None  # until it is read to its end
            self._reducer = ControlReducer(self._limits, values=False)
            await self._read()
            log.warning("the control topic %s was recreated or reset, or not read for long: it is "
                        "read again", self._topic)  # fmt: skip
            seeds = self._reducer.snapshot().seeds.values()
            is_empty = self._had_seeds and all(seed.paused for seed in seeds)
            if is_empty:
                self._hold(f"the control topic {self._topic} was made again and is empty")
            await self.embed(make)
            if not is_empty:
                self._hold("")  # only now: a batch is taken at once, with the seeds there are
            self._identity = current

    async def _read(self) -> None:
        """Reads the topic from the beginning to the current end."""
        begin = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        end = (await self._consumer.end_offsets([self._partition]))[self._partition]
        self._consumer.seek(self._partition, begin)
        self._consumer.resume(self._partition)
        # Compaction leaves gaps on the way.
        while end > begin and await self._consumer.position(self._partition) < end:
            self._apply(await self._records())
        self._reducer.finish()

    def _hold(self, why: str) -> None:
        """Pauses the posts for a reason; "" resumes them."""
        if why == self.hold_reason:
            return
        if why:
            seeds = f", and with it {len(self.seeds)} seeds" if self.seeds else ""
            log.error("%s%s: %s", why, seeds, REMEDY)
        else:
            log.warning("the control topic %s has its seeds again", self._topic)
        self.hold_reason = why
        self._on_hold(why)

    def _apply(self, records: Sequence[Any]) -> None:
        for record in records:
            if isinstance(record, Unreadable):
                log.error("%s; the seeds in them are unknown", record)
                self._metrics.unreadable("seeds", record.count)
                self._reducer.skip(record.count)
        self._reducer.apply(r for r in records if not isinstance(r, Unreadable))

    async def _records(self) -> list[Any]:
        batches = await self._consumer.getmany(timeout_ms=POLL_MS)
        return [record for batch in batches.values() for record in batch]

    def _log_idle(self, seeds: SeedSet) -> None:
        """Logs refused and stale seeds once, the first few of many."""
        refusals = [(seed.id, "refused", seed.reason) for seed in seeds.refused]
        idle = [*refusals, *((profile.id, "stale", profile.reason) for profile in seeds.stale)]
        fresh = [entry for entry in idle if entry not in self._reported]
        for entry in fresh[:MAX_LOGGED]:
            log.warning("seed %r is %s: %s", *entry)
        if len(fresh) > MAX_LOGGED:
            log.warning("%d seeds more are refused or stale; see `newsift seeds list`",
                        len(fresh) - MAX_LOGGED)  # fmt: skip
        self._reported = frozenset(idle)
