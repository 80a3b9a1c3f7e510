"""The steps that a batch takes: match, group into stories, deliver, finish."""

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import perf_counter
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import I64
from worker import crashpoint
from worker.config import TopicsConfig
from worker.kafka.delivery import Delivery
from worker.kafka.producer import ProducerRecord
from worker.match.near import NearWatch
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import (
    Record,
    to_dead_letter,
    with_group,
    without_input_headers,
)
from worker.metrics.registry import Metrics
from worker.posts.read import Reason
from worker.posts.times import rfc3339
from worker.seeds.set import SeedSet
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Tenures


def group_matches(batch: Batch, outcome: Outcome, tenures: Tenures) -> None:
    """Write its group into each match record and count the groups of each event.

    Batches come one at a time, in the order of their offsets.
    """
    matches = [
        (index, record.story_key) for index, record in enumerate(outcome.records)
        if record.story_key is not None
    ]  # fmt: skip
    partitions: defaultdict[int, list[int]] = defaultdict(list)
    for number, (index, _) in enumerate(matches):
        partitions[batch.messages[outcome.records[index].source].partition].append(number)
    vectors = Embeddings.concat(outcome.vectors)  # a row for each match
    for partition, numbers in partitions.items():
        keys = [matches[number][1] for number in numbers]
        groups = tenures[partition].groups.place(keys, vectors[numbers])
        for number, group in zip(numbers, groups, strict=True):
            index, key = matches[number]
            record = outcome.records[index]
            outcome.records[index] = with_group(record, group)
            if group.new:
                outcome.stories.update(key.events)


# Python code of one batch runs beside compiled code of another.
MATCH_THREADS = min(2, os.cpu_count() or 1)
log = logging.getLogger("newsift.stream")


class BatchDroppedError(BaseException):
    """Ends the work on a batch that another worker reads again; no single post is its cause."""


class Matching(NamedTuple):
    """How a batch becomes records."""

    pipeline: Pipeline
    near: NearWatch


class Output(NamedTuple):
    """Where records go."""

    delivery: Delivery
    topics: TopicsConfig


class Flow:
    """The steps that Faust's agent takes each batch through.

    Batches of a revoked assignment are skipped.
    """

    def __init__(
        self,
        matching: Matching,
        seeds: Callable[[], SeedSet],
        output: Output,
        ledger: Ledger,
        tenures: Tenures,
        metrics: Metrics,
    ) -> None:
        """`seeds` gives the set for the next batch."""
        self._pipeline, self.near = matching
        self._delivery, self._topics = output
        self._seeds, self._ledger, self._tenures, self._metrics = seeds, ledger, tenures, metrics
        self._executor = ThreadPoolExecutor(MATCH_THREADS, thread_name_prefix="sift")
        self._group_lock = Lock()
        self.finished = self.portions_read = 0  # batches, and portions of the posts of one

    async def match(self, batch: Batch) -> Outcome:
        """Decodes, encodes and matches a batch under one seed set, and groups its matches."""
        run = asyncio.get_running_loop().run_in_executor
        try:
            await self._tenures.ready.wait()
            outcome, is_grouped = await run(
                self._executor, self._run_pipeline, batch, self._seeds()
            )
            if not is_grouped:
                await self._ledger.wait_until(lambda: self._ledger.is_turn_of(batch))
                await run(self._executor, self._group, batch, outcome)
        except BatchDroppedError:
            return Outcome()
        finally:
            self._ledger.end_turn(batch)
        return outcome

    async def deliver(self, batch: Batch, outcome: Outcome) -> None:
        """Returns once the broker has acknowledged all records of a batch."""
        if not (outcome.records and self._ledger.holds(batch)):
            return
        began = perf_counter()

        def shrink(outgoing_record: ProducerRecord) -> ProducerRecord | None:
            """A dead letter in the place of a match that is too large for the broker."""
            if outgoing_record.topic == self._topics.rejected:
                return smaller_record(outgoing_record)
            outcome.rejected[Reason.RECORD_TOO_LARGE] += 1
            detail = f"its match record of {len(outgoing_record.value or b'')} bytes is too large"
            message = batch.messages[outgoing_record.source]
            return self._producer_record(
                to_dead_letter(outgoing_record.source, message, Reason.RECORD_TOO_LARGE, detail)
            )

        outgoing = [self._producer_record(record) for record in outcome.records]
        await self._delivery.deliver(outgoing, shrink)
        self._metrics.stage("produce", perf_counter() - began)

    def finish(self, batch: Batch, outcome: Outcome) -> None:
        """The batch may be committed from here on."""
        if not self._ledger.holds(batch):
            return
        crashpoint.reached("produced")
        time_s = time.time()
        self._metrics.batch(outcome, seconds_since(outcome.timestamps, time_s))
        self._metrics.progress(time_s)
        self.finished += 1
        self._ledger.finish(batch)

    def _run_pipeline(self, batch: Batch, seeds: SeedSet) -> tuple[Outcome, bool]:
        """Matches a batch; also returns whether the matches are grouped already."""
        self._metrics.stage("wait", perf_counter() - batch.arrived)
        edges = self.near.edges(seeds)
        go_on = partial(self._go_on, batch)
        outcome = self._pipeline.run(batch.messages, seeds, now, edges, go_on)
        if self._ledger.holds(batch):
            self.near.add(edges, outcome.nears, len(outcome.best) - outcome.linking)
        if outcome.matched and not self._ledger.is_turn_of(batch):
            return outcome, False
        if outcome.matched:
            self._group(batch, outcome)
        return outcome, True

    def _go_on(self, batch: Batch) -> None:
        """Notes that a portion of its posts was read; gives up a batch that is dropped."""
        self.portions_read += 1
        if not self._ledger.holds(batch):
            raise BatchDroppedError

    def _group(self, batch: Batch, outcome: Outcome) -> None:
        began = perf_counter()
        with self._group_lock:  # a dropped batch may still run beside the first of the next epoch
            if self._ledger.holds(batch):
                group_matches(batch, outcome, self._tenures)
        self._metrics.stage("group", perf_counter() - began)

    def _producer_record(self, record: Record) -> ProducerRecord:
        topic = self._topics.matches if record.kind == "match" else self._topics.rejected
        timestamp_ms = record.timestamp
        if timestamp_ms is not None:  # a broker refuses what comes from the future
            timestamp_ms = min(timestamp_ms, round(time.time() * 1000))
        return ProducerRecord(
            topic, record.key, record.value, record.headers, record.source, timestamp_ms
        )


def smaller_record(record: ProducerRecord) -> ProducerRecord | None:
    """First without its value, then without the input's headers; None if neither helps."""
    if record.value is not None:
        return replace(record, value=None)
    worker_headers = without_input_headers(record.headers)
    if len(worker_headers) == len(record.headers):
        return None
    return replace(record, headers=worker_headers)


def seconds_since(timestamps: I64, time_s: float) -> NDArray[np.float64]:
    """A missing timestamp, which is negative, is left out."""
    seconds: NDArray[np.float64] = time_s - timestamps[timestamps >= 0] / 1000
    return np.maximum(seconds, 0)


def now() -> str:
    """The current time, in the form of a match record."""
    return rfc3339(int(time.time() * 1000))
