"""Control: the topic of seeds, read to its end and then followed; each change makes a new set."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from worker.batches.unreadable import Unreadable
from worker.config import Limits
from worker.metrics import Metrics
from worker.seedcache import SeedEmbedder
from worker.seeds import SeedBook, SeedSet
from worker.transactions import OpenTransactions

POLL_MS = 500
BACKOFF_S = 0.5
log = logging.getLogger("newsift.control")


class Control:
    """The reader of the control topic: without a group, so that every worker sees every record.

    `seeds` is what the next batch is compared with. It is replaced as a whole, once the new
    articles are embedded, in a thread of its own beside the hot path's.
    """

    def __init__(
        self, make: Callable[[], Any], topic: str, metrics: Metrics, limits: Limits
    ) -> None:
        self._make, self._topic, self._metrics = make, topic, metrics
        self._consumer: Any = None
        self._open = OpenTransactions(metrics)
        self._book = SeedBook(limits)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="seeds")
        self._since, self._events = 0.0, list[str]()
        self.seeds: SeedSet | None = None

    async def start(self) -> None:
        """Connect, and read every record that is there by now."""
        self._consumer = self._make()
        first = TopicPartition(self._topic, 0)
        self._consumer.assign([first])  # else it does not ask for the topic at all
        self._consumer.pause(first)  # a fetch that waits for records would hold up what follows
        await self._consumer.start()
        numbers = self._consumer.partitions_for_topic(self._topic) or {0}
        places = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        begins = await self._consumer.beginning_offsets(places)
        ends = await self._consumer.end_offsets(places)
        self._consumer.assign(places)
        while await self._behind({p: ends[p] for p in places if ends[p] > begins[p]}):
            self._take(await self._records())

    async def stop(self) -> None:
        """Disconnect."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._consumer is not None:
            await self._consumer.stop()

    async def embed(self, embedder: SeedEmbedder) -> None:
        """Make the set of seeds as the records say now, and put it in place."""
        made = await asyncio.get_running_loop().run_in_executor(
            self._thread, embedder.make, self._book
        )
        log.info("%d seeds, set %s", len(made), made.digest)
        for seed in made.refused:
            log.warning("seed %r is refused: %s", seed.id, seed.reason)
        self.seeds, self._since = made, time.time()
        self._events = sorted({seed.event for seed in made.seeds})
        self.describe()

    async def follow(self, embedder: SeedEmbedder) -> None:
        """Let every further record take effect, for as long as this is awaited."""
        while True:
            if self._take(await self._records()):
                await self.embed(embedder)

    def describe(self) -> None:
        """Tell the metrics of the seeds as they are at this time."""
        seeds = self.seeds
        if seeds is None:
            return
        self._open.look(self._consumer)
        expired = int((seeds.expiry <= int(time.time() * 1000)).sum())
        live, refused = len(seeds) - expired, len(seeds.refused)
        self._metrics.seeds(live, refused, expired, seeds.digest, self._since, self._events)
        self._events = []

    def _take(self, records: Iterable[Any]) -> int:
        """Let records take effect in the book, and tell how many there were."""
        count = 0
        for record in records:
            if isinstance(record, Unreadable):
                log.error("%s; whatever seeds they held are not known", record)
                self._metrics.unreadable("seeds", record.count)
                continue
            self._book.apply(record.key, record.value)
            count += 1
        return count

    async def _behind(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether some of these offsets are not reached yet; compaction leaves gaps on the way."""
        for place, end in ends.items():
            if await self._consumer.position(place) < end:
                return True
        return False

    async def _records(self) -> list[Any]:
        """What has arrived; an outage of the broker is waited for."""
        try:
            found = await self._consumer.getmany(timeout_ms=POLL_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("the control topic cannot be read and is tried again: %s", error)
            await asyncio.sleep(BACKOFF_S)
            return []
        return [record for some in found.values() for record in some]
