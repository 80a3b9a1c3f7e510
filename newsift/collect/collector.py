"""The collector: sends the posts of a source to Kafka and stores the acknowledged position."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from io import RawIOBase
from math import inf
from time import monotonic
from typing import Any

from aiohttp import ClientSession
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from newsift.collect.source import (
    BUSY,
    CLOSED,
    REASONS,
    Backoff,
    Gap,
    LiveSource,
    LostError,
    SourceEndedError,
    SourceFrame,
    SourcePosition,
)
from newsift.collect.state import PositionStore
from worker.config import Config, StreamConfig
from worker.errors import AccessError
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, ProducerRecord
from worker.kafka.settings import aiokafka_producer_settings
from worker.metrics.registry import MetricSpec, register_metric

FRAME_OVERHEAD_BYTES = 200  # of the Python objects of a frame


def size_of(frame: SourceFrame) -> int:
    return len(frame.value) + len(frame.key or b"") + FRAME_OVERHEAD_BYTES


class Inbox:
    """The frames that are not yet acknowledged, in order and in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        """A single list of frames may exceed `max_bytes`."""
        self._max_bytes, self.bytes = max_bytes, 0
        self._waiting: deque[SourceFrame] = deque()
        self._condition = asyncio.Condition()

    async def put(self, frames: Sequence[SourceFrame]) -> None:
        async with self._condition:
            await self._condition.wait_for(lambda: self.bytes < self._max_bytes)
            self._waiting.extend(frames)
            self.bytes += sum(map(size_of, frames))
            self._condition.notify_all()

    async def take(self, max_frames: int, max_bytes: int) -> list[SourceFrame]:
        """The next frames, at least one. The last may exceed `max_bytes`."""
        async with self._condition:
            await self._condition.wait_for(lambda: bool(self._waiting))
            frames = [self._waiting.popleft()]
            size = size_of(frames[0])
            while self._waiting and len(frames) < max_frames and size < max_bytes:
                frames.append(self._waiting.popleft())
                size += size_of(frames[-1])
        return frames

    async def release(self, frames: Sequence[SourceFrame]) -> None:
        async with self._condition:
            self.bytes -= sum(map(size_of, frames))
            self._condition.notify_all()

    async def wait_until_empty(self) -> None:
        async with self._condition:
            await self._condition.wait_for(lambda: not self.bytes)


PREFIX = "newsift_collect_"


def _metric(name: str, kind: type[Counter | Gauge], meaning: str, *labels: str) -> MetricSpec:
    return MetricSpec(PREFIX + name, kind, meaning, ("source", *labels))


COLLECTOR_METRICS = (
    _metric("received_total", Counter, "Frames received from the platform"),
    _metric("acknowledged_total", Counter, "Frames that the broker has acknowledged"),
    _metric("unsendable_total", Counter, "Frames too large for the topic, sent without a value"),
    _metric("gaps_total", Counter, "Times that posts were lost for good"),
    _metric("gap_seconds_total", Counter, "Seconds of posts lost for good, where known"),
    _metric("connected", Gauge, "1 while the collector is connected to the platform"),
    _metric("stalled", Gauge, "1 while the broker does not acknowledge"),
    _metric("lag_seconds", Gauge, "From the platform's time of the last frame to its "
            "acknowledgement"),
    _metric("last_acknowledged_timestamp_seconds", Gauge,
            "When the last frame was acknowledged, or the collector started"),
    _metric("in_flight_bytes", Gauge, "Bytes received and not yet acknowledged"),
    _metric("reconnects_total", Counter, "Connections that ended, by reason", "reason"),
)  # fmt: skip


class CollectorMetrics:
    def __init__(self, source: str) -> None:
        self._source, self._registry = source, CollectorRegistry()
        metrics = {spec.name: register_metric(spec, self._registry) for spec in COLLECTOR_METRICS}
        self._reconnects = metrics.pop(f"{PREFIX}reconnects_total")
        for reason in REASONS:
            self._reconnects.labels(source, reason)
        self._metrics = {
            name.removeprefix(PREFIX): metric.labels(source) for name, metric in metrics.items()
        }
        ProcessCollector(registry=self._registry)
        self.sent_count = self.gaps = 0
        self._metrics["last_acknowledged_timestamp_seconds"].set(time.time())

    def __getitem__(self, name: str) -> Any:
        """The metric of this name, without its prefix."""
        return self._metrics[name]

    def count_acknowledged(self, frames: Sequence[SourceFrame]) -> None:
        """Also measures the lag behind the platform."""
        now, count = time.time(), sum(bool(frame.value) for frame in frames)
        self.sent_count += count
        self._metrics["acknowledged_total"].inc(count)
        self._metrics["last_acknowledged_timestamp_seconds"].set(now)
        if (at := frames[-1].at) is not None:
            self._metrics["lag_seconds"].set(max(now - at, 0))

    def count_gap(self, gap: Gap) -> None:
        self.gaps += 1
        self._metrics["gaps_total"].inc()
        self._metrics["gap_seconds_total"].inc(gap.seconds or 0)

    def count_reconnect(self, reason: str) -> None:
        self._reconnects.labels(self._source, reason).inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)


Deliver = Callable[[Sequence[SourceFrame]], Awaitable[None]]


class TopicOutlet:
    """Sends frames to the posts topic; the key is the platform's id of the post."""

    def __init__(self, config: Config, metrics: CollectorMetrics) -> None:
        self._topic, self._metrics = config.topics.posts, metrics
        self.not_ready_reason = ""  # empty while the broker acknowledges
        self.delivery = Delivery(
            lambda: KafkaProducer(aiokafka_producer_settings(config)), (self._topic,),
            config.stream.produce_deadline_s, self._note_stall,
        )  # fmt: skip

    def _note_stall(self, is_stalled: bool) -> None:
        if self.not_ready_reason and not is_stalled:
            log.info("the broker acknowledges again")
        self.not_ready_reason = "the broker does not acknowledge" if is_stalled else ""
        self._metrics["stalled"].set(int(is_stalled))

    async def deliver(self, frames: Sequence[SourceFrame]) -> None:
        """Returns once the broker has acknowledged all frames, however long that takes."""
        records = [
            ProducerRecord(self._topic, frame.key, frame.value, frame.headers, number)
            for number, frame in enumerate(frames)
            if frame.value
        ]
        await self.delivery.deliver(records, self._without_value)

    def _without_value(self, record: ProducerRecord) -> ProducerRecord | None:
        """A record without value for a frame that is too large for the topic.

        The worker makes a dead letter of it, which names the post.
        """
        if record.value is None:
            return None
        size = len(record.value)
        log.error("frame %r has %d bytes, more than %s takes; sent without its value",
                  record.key, size, self._topic)  # fmt: skip
        self._metrics["unsendable_total"].inc()
        detail = f"{size} bytes, more than the topic takes".encode()
        headers = (*record.headers, ("reason", b"record_too_large"), ("detail", detail))
        return replace(record, value=None, headers=headers)


FULL_PIPE_S = 0.01


async def write_lines(stream: RawIOBase, frames: Sequence[SourceFrame]) -> None:
    """Write each frame on a line, for `--dry-run`. The stream has no buffer."""
    lines = [b" ".join(frame.value.splitlines()) for frame in frames if frame.value]
    unwritten = memoryview(b"".join(line + b"\n" for line in lines))
    while unwritten:
        count = stream.write(unwritten)
        if count is None:  # a pipe that does not block, and is full
            await asyncio.sleep(FULL_PIPE_S)
        else:
            unwritten = unwritten[count:]


STORE_INTERVAL_S = 1.0
MIN_HEALTHY_S = 30.0  # a connection that lasted so long counts as progress, posts or none
MAX_REFUSED_S = 3600.0  # a refusal so long after the last connection is taken as final
CLOSE_S = 2.0  # the part of stream.shutdown_s that is left for closing connections
log = logging.getLogger("newsift.collect")


class Collector:
    """Delivers the frames of a source and stores the acknowledged position.

    One task receives frames and reconnects, one delivers them in order, one stores the position. A
    connection is opened only after all frames of the one before are acknowledged, and resumes at
    the position, so that the platform sends nothing twice.
    """

    def __init__(
        self,
        source: LiveSource,
        deliver: Deliver,
        metrics: CollectorMetrics,
        config: StreamConfig,
        position_store: PositionStore,
    ) -> None:
        self._source, self._deliver, self._metrics, self._config = source, deliver, metrics, config
        self._position_store, self._position = position_store, position_store.position
        self._inbox = Inbox(config.in_flight * config.batch_bytes)
        self._used_backoffs: list[Backoff] = []  # since the last progress
        self._stop_requested, self._position_changed = asyncio.Event(), asyncio.Event()
        self._is_finished = asyncio.Event()
        self._connected_at, self._disconnected_at = inf, -inf
        self.not_ready_reason = "it is starting"  # empty while connected

    def stop(self) -> None:
        """`run` then ends once all frames are acknowledged, or after stream.shutdown_s."""
        self._stop_requested.set()

    async def run_unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Returns False if `stop` was called before `work` ended; `work` is then cancelled."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop_requested.wait())
        try:
            first, _ = await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
        if working in first:
            working.result()
        return working in first

    async def run(self, client: ClientSession) -> None:
        """Run until `stop` is called. Raises what ends it earlier."""
        stopping = asyncio.create_task(self._stop_requested.wait())
        receiving = asyncio.create_task(self._receive(client))
        sending = asyncio.create_task(self._send())
        storing = asyncio.create_task(self._store_positions())
        tasks = stopping, receiving, sending, storing
        try:
            first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in first:
                task.result()
            receiving.cancel()
            await self._drain(sending)
        finally:
            for task in (stopping, receiving, sending):
                task.cancel()
            self._is_finished.set()
            self._position_changed.set()
            await asyncio.gather(*tasks, return_exceptions=True)
        storing.result()

    async def _drain(self, sending: asyncio.Task[None]) -> None:
        self.not_ready_reason = "it is stopping"
        draining = asyncio.create_task(self._inbox.wait_until_empty())
        timeout = max(0.0, self._config.shutdown_s - CLOSE_S)
        await asyncio.wait(
            {draining, sending}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if not draining.done():
            draining.cancel()
            log.warning("stopped before all frames were acknowledged; the next start reads them "
                        "again")  # fmt: skip
        if sending.done():
            sending.result()

    async def _receive(self, client: ClientSession) -> None:
        while True:
            try:
                await self._read_connection(client)
            except SourceEndedError:
                await self._inbox.wait_until_empty()
                return
            except (LostError, AccessError) as error:
                if not self.not_ready_reason:
                    self._disconnected_at = monotonic()
                    if self._disconnected_at - self._connected_at > MIN_HEALTHY_S:
                        self._reset_backoffs()
                if isinstance(error, AccessError):
                    if monotonic() - self._disconnected_at > MAX_REFUSED_S:
                        raise
                    error = LostError(BUSY, str(error))
                self._metrics["connected"].set(0)
                self._metrics.count_reconnect(error.reason)
                self.not_ready_reason = str(error)
                await self._inbox.wait_until_empty()
                await self._pause(error)

    async def _read_connection(self, client: ClientSession) -> None:
        async with aclosing(self._source.arrivals(client, self._position)) as arrivals:
            async for arrival in arrivals:
                if isinstance(arrival, Gap):
                    self._metrics.count_gap(arrival)
                    self._position_store.count_gap(arrival)
                    span = "" if arrival.seconds is None else f", {arrival.seconds:,.0f} s of them"
                    name, why = self._source.name, arrival.why
                    log.error("posts of %s are lost for good%s: %s", name, span, why)
                    continue
                if self.not_ready_reason:
                    log.info("connected to %s", self._source.place)
                    self._metrics["connected"].set(1)
                    self.not_ready_reason, self._connected_at = "", monotonic()
                if arrival:
                    self._metrics["received_total"].inc(len(arrival))
                    await self._inbox.put(arrival)
                    self._metrics["in_flight_bytes"].set(self._inbox.bytes)
        raise LostError(CLOSED, f"{self._source.place}: the stream has ended")

    async def _pause(self, error: LostError) -> None:
        """Wait before the next connection, at least as long as the platform asks for."""
        backoff = self._source.backoff(error)
        if backoff not in self._used_backoffs:
            self._used_backoffs.append(backoff)
        seconds = max(backoff.pause(), error.wait)
        log.warning("%s; connecting again in %.1f s", error, seconds)
        await asyncio.sleep(seconds)

    def _reset_backoffs(self) -> None:
        for backoff in self._used_backoffs:
            backoff.reset()
        self._used_backoffs.clear()

    async def _send(self) -> None:
        """Deliver frames in order, and move the position once they are acknowledged."""
        while True:
            frames = await self._inbox.take(self._config.batch_posts, self._config.batch_bytes)
            await self._deliver(frames)
            self._metrics.count_acknowledged(frames)
            self._move_position(frames)
            await self._inbox.release(frames)
            self._metrics["in_flight_bytes"].set(self._inbox.bytes)

    def _move_position(self, frames: list[SourceFrame]) -> None:
        """A new cursor, or frames without one, count as progress.

        A frame without a time, such as a deletion, keeps the time of the frames before it.
        """
        last = next((frame for frame in reversed(frames) if frame.cursor is not None), None)
        if last is None or self._position is None or last.cursor != self._position.cursor:
            self._reset_backoffs()
        if last is not None:
            assert last.cursor is not None
            before = self._position.at if self._position else None
            at = next((frame.at for frame in reversed(frames) if frame.at is not None), before)
            self._position = SourcePosition(last.cursor, self._source.place, at)
            self._position_changed.set()

    async def _store_positions(self) -> None:
        """Store the position at intervals when it has moved, and at the end."""
        while not self._is_finished.is_set():
            await self._position_changed.wait()
            self._position_changed.clear()
            await self._store_position()
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_INTERVAL_S):
                    await self._is_finished.wait()
        await self._store_position()

    async def _store_position(self) -> None:
        if self._position is not None and self._position != self._position_store.position:
            await asyncio.to_thread(self._position_store.store, self._position)
