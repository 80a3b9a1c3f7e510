"""Flow: what becomes of a batch: it is matched, what came of it is delivered, and it is done."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from time import perf_counter

import numpy as np
import numpy.typing as npt

from worker import crashpoint
from worker.config import TopicsConfig
from worker.judge.bursts import Bursts
from worker.judge.drift import Drift
from worker.judge.near import NearWatch
from worker.kafka.delivery import Delivery
from worker.kafka.producer import Letter
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import Record, to_dead_letter, without_input_headers
from worker.posts.read import Reason
from worker.posts.times import rfc3339
from worker.seeds.set import SeedSet
from worker.stream.grouping import Grouping
from worker.stream.ledger import Batch, Ledger
from worker.stream.rejected import RejectedBytes
from worker.watch.metrics import Metrics

THREADS = min(2, os.cpu_count() or 1)  # batches at a time: while one is in the kernel, the next
log = logging.getLogger("newsift.stream")


class Flow:
    """The steps that Faust's agent takes each batch through; one dealt anew meanwhile is let be."""

    def __init__(
        self,
        pipeline: Pipeline,
        seeds: Callable[[], SeedSet],
        delivery: Delivery,
        ledger: Ledger,
        topics: TopicsConfig,
        metrics: Metrics,
        drift: Drift,
        near: NearWatch,
        rejected_bytes: RejectedBytes,
    ) -> None:
        self._pipeline, self._seeds, self._delivery = pipeline, seeds, delivery
        self._ledger, self._topics, self._metrics = ledger, topics, metrics
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sift")
        self._grouping, self._group_lock = Grouping(), Lock()
        self._bursts, self._epoch = Bursts(0), -1
        self.drift, self.near, self.finished = drift, near, 0
        self._rejected_bytes = rejected_bytes

    def prepare(self, seeds: SeedSet) -> None:
        """Make what the measures beside the matching need of seeds that are to come."""
        self.near.prepare(seeds)
        self.drift.prepare(seeds)

    async def match(self, batch: Batch) -> Outcome:
        """Decode, encode and match a batch under one set of seeds, and group its matches."""
        run = asyncio.get_running_loop().run_in_executor
        try:
            outcome, grouped = await run(self._threads, self._matched, batch, self._seeds())
            if not grouped:
                await self._ledger.until(lambda: self._ledger.is_turn_of(batch))
                await run(self._threads, self._group, batch, outcome)
        finally:
            self._ledger.pass_on(batch)
        return outcome

    async def deliver(self, batch: Batch, outcome: Outcome) -> None:
        """Write what came of a batch, and wait until the broker has acknowledged all of it."""
        if not (outcome.records and self._ledger.holds(batch)):
            return
        began = perf_counter()

        def shrink(letter: Letter) -> Letter | None:
            """A dead letter in the place of a match that the broker finds too large."""
            if letter.topic == self._topics.rejected:
                return bare(letter)
            outcome.rejected[Reason.RECORD_TOO_LARGE] += 1
            said = f"its match record of {len(letter.value or b'')} bytes is too large"
            message = batch.messages[letter.source]
            return self._letter(
                to_dead_letter(letter.source, message, Reason.RECORD_TOO_LARGE, said)
            )

        letters = [self._bounded(batch, self._letter(each)) for each in outcome.records]
        await self._delivery.deliver(letters, shrink)
        self._metrics.stage("produce", perf_counter() - began)

    def finish(self, batch: Batch, outcome: Outcome) -> None:
        """Count a batch as done, all that came of it being acknowledged: it may be committed."""
        if not self._ledger.holds(batch):
            return
        crashpoint.reached("produced")
        at = time.time()
        self._metrics.batch(outcome, ages((message.timestamp for message in batch.messages), at))
        self._metrics.progress(at)
        self._tell_bursts(batch.epoch, outcome, int(at // 60))
        self.finished += 1
        self._ledger.finish(batch)

    def _matched(self, batch: Batch, seeds: SeedSet) -> tuple[Outcome, bool]:
        """What a batch comes to, and whether its matches are grouped: in its turn at once."""
        self._metrics.stage("wait", perf_counter() - batch.arrived)
        edges = self.near.edges(seeds)
        outcome = self._pipeline.run(batch.messages, seeds, now, edges)
        if self._ledger.holds(batch):
            self.near.add(edges, outcome.nears, len(outcome.best))
        if outcome.sample is not None:
            counted = outcome.hits, outcome.told, outcome.sample
            self.drift.add(seeds, len(outcome.best), *counted)
        if outcome.matched and not self._ledger.is_turn_of(batch):
            return outcome, False
        if outcome.matched:
            self._group(batch, outcome)
        return outcome, True

    def _tell_bursts(self, epoch: int, outcome: Outcome, minute: int) -> None:
        """Tell of each event that has more new stories than its history lets expect."""
        if epoch != self._epoch:  # other partitions, other rates
            self._bursts, self._epoch = Bursts(minute), epoch
        for burst in self._bursts.add(outcome.stories, minute):
            self._metrics.burst(burst.event)
            log.warning(
                "event %s: a burst of %d new stories in the minute of %s, after %d in %d minutes",
                *(burst.event, burst.stories, rfc3339(burst.minute * 60_000), burst.before),
                burst.minutes,
            )

    def _group(self, batch: Batch, outcome: Outcome) -> None:
        began = perf_counter()
        with self._group_lock:  # one that is dropped meanwhile may meet the first of the next epoch
            if self._ledger.holds(batch):
                self._grouping.place(batch, outcome)
        self._metrics.stage("group", perf_counter() - began)

    def _bounded(self, batch: Batch, letter: Letter) -> Letter:
        """The letter, without its value where those of its record batch carry enough already."""
        if letter.topic != self._topics.rejected or not letter.value:
            return letter
        message = batch.messages[letter.source]
        place = message.topic, message.partition, message.offset
        fits = self._rejected_bytes.take(batch.epoch, *place, len(letter.value))
        return letter if fits else replace(letter, value=None)

    def _letter(self, record: Record) -> Letter:
        topic = self._topics.matches if record.kind == "match" else self._topics.rejected
        written = record.timestamp
        if written is not None:  # a broker refuses what comes from the future
            written = min(written, round(time.time() * 1000))
        return Letter(topic, record.key, record.value, record.headers, record.source, written)


def bare(letter: Letter) -> Letter | None:
    """A dead letter without the input's value, else without its headers; None if it is bare."""
    if letter.value is not None:
        return replace(letter, value=None)
    own = without_input_headers(letter.headers)
    return replace(letter, headers=own) if len(own) < len(letter.headers) else None


def ages(timestamps: Iterable[int | None], at: float) -> npt.NDArray[np.float64]:
    """Seconds since each of Kafka's timestamps [n]; of some posts it has none: None, or -1."""
    stamps = [stamp for stamp in timestamps if stamp is not None and stamp >= 0]
    return np.maximum(at - np.array(stamps, float) / 1000, 0)


def now() -> str:
    """The time, as a match record has it."""
    return rfc3339(int(time.time() * 1000))
