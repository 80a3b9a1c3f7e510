"""The collector: sends the posts of a source to Kafka and keeps the acknowledged position."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any, BinaryIO, Protocol

from aiohttp import ClientSession
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from newsift.collect.source import (
    BUSY,
    CLOSED,
    REASONS,
    Backoff,
    EnoughError,
    Gap,
    LiveSource,
    LostError,
    SourceFrame,
    SourceMark,
)
from newsift.collect.state import MarkStore
from worker.config import Config, StreamConfig
from worker.errors import AccessError
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, ProducerRecord
from worker.kafka.settings import aiokafka_producer_settings
from worker.metrics.registry import MetricSpec, register_metric

FRAME_BYTES = 200  # that a frame takes beside what it holds


def size_of(frame: SourceFrame) -> int:
    return len(frame.value) + len(frame.key or b"") + FRAME_BYTES


class Inbox:
    """Frames that are not yet acknowledged, in bounded memory and in order."""

    def __init__(self, room: int) -> None:
        """`room` in bytes; one list of frames may exceed it."""
        self._room, self.bytes = room, 0
        self._waiting: deque[SourceFrame] = deque()
        self._changed = asyncio.Condition()

    async def put(self, frames: Sequence[SourceFrame]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.bytes < self._room)
            self._waiting.extend(frames)
            self.bytes += sum(map(size_of, frames))
            self._changed.notify_all()

    async def take(self, count: int, size: int) -> list[SourceFrame]:
        """The next frames, at least one, up to a number and a size."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting))
            frames = [self._waiting.popleft()]
            size_so_far = size_of(frames[0])
            while self._waiting and len(frames) < count and size_so_far < size:
                frames.append(self._waiting.popleft())
                size_so_far += size_of(frames[-1])
        return frames

    async def done(self, frames: Sequence[SourceFrame]) -> None:
        """Free the room of acknowledged frames."""
        async with self._changed:
            self.bytes -= sum(map(size_of, frames))
            self._changed.notify_all()

    async def drained(self) -> None:
        """Wait until all frames are acknowledged."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.bytes)


ROWS = (
    ("received_total", Counter, "Frames that came from the platform"),
    ("acknowledged_total", Counter, "Frames that the broker has acknowledged"),
    ("unsendable_total", Counter, "Frames too large for the topic, sent without their value"),
    ("gaps_total", Counter, "Times that posts were lost for good"),
    ("gap_seconds_total", Counter, "Seconds of the platform lost for good, where they are known"),
    ("connected", Gauge, "1 while a connection to the platform stands"),
    ("stalled", Gauge, "1 while the broker does not acknowledge"),
    ("lag_seconds", Gauge, "From the platform's time of the last frame to its acknowledgement"),
    ("last_acknowledged_timestamp_seconds", Gauge,
     "When a frame was last acknowledged, or it began"),
    ("in_flight_bytes", Gauge, "Bytes that came and are not yet acknowledged"),
)  # fmt: skip
PREFIX = "newsift_collect_"
COLLECTED = tuple(MetricSpec(PREFIX + name, kind, says, ("source",)) for name, kind, says in ROWS)
RECONNECTS = MetricSpec(
    f"{PREFIX}reconnects_total", Counter, "Connections that ended, by why", ("source", "reason")
)


class Counts:
    """The metrics of a collector, in a registry of their own."""

    def __init__(self, source: str, clock: Callable[[], float] = time.time) -> None:
        self._source, self._clock = source, clock
        self._registry = CollectorRegistry()
        self._metrics = {
            row.name.removeprefix(PREFIX): register_metric(row, self._registry).labels(source)
            for row in COLLECTED
        }
        self._reconnects = register_metric(RECONNECTS, self._registry)
        for reason in REASONS:
            self._reconnects.labels(source, reason)
        ProcessCollector(registry=self._registry)
        self.sent = self.gaps = 0
        self._metrics["last_acknowledged_timestamp_seconds"].set(clock())

    def __getitem__(self, name: str) -> Any:
        """The metric of this name, without its prefix."""
        return self._metrics[name]

    def acknowledged(self, frames: Sequence[SourceFrame]) -> None:
        """Also measures the lag behind the platform."""
        now = self._clock()
        count = sum(bool(frame.value) for frame in frames)
        self.sent += count
        self._metrics["acknowledged_total"].inc(count)
        self._metrics["last_acknowledged_timestamp_seconds"].set(now)
        if (at := frames[-1].at) is not None:
            self._metrics["lag_seconds"].set(max(now - at, 0))

    def gap(self, gap: Gap) -> None:
        self.gaps += 1
        self._metrics["gaps_total"].inc()
        self._metrics["gap_seconds_total"].inc(gap.seconds or 0)

    def reconnect(self, reason: str) -> None:
        self._reconnects.labels(self._source, reason).inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)


class Outlet(Protocol):
    async def deliver(self, frames: Sequence[SourceFrame]) -> None: ...


class TopicOutlet:
    """Sends frames to the posts topic; the key is the platform's id of the post."""

    def __init__(self, config: Config, counts: Counts, stalled: Callable[[bool], None]) -> None:
        self._topic, self._counts = config.topics.posts, counts
        self._delivery = Delivery(
            lambda: KafkaProducer(aiokafka_producer_settings(config)), (self._topic,),
            config.stream.produce_deadline_s, stalled,
        )  # fmt: skip

    async def start(self) -> None:
        await self._delivery.start()

    async def stop(self) -> None:
        await self._delivery.stop()

    async def deliver(self, frames: Sequence[SourceFrame]) -> None:
        """Returns once the broker has acknowledged all, however long that takes."""
        letters = [
            ProducerRecord(self._topic, frame.key, frame.value, (), number)
            for number, frame in enumerate(frames)
            if frame.value
        ]
        await self._delivery.deliver(letters, self._without_value)

    def _without_value(self, letter: ProducerRecord) -> ProducerRecord | None:
        """A record for a frame that is too large for the topic.

        The worker makes a dead letter of it, which names the post, and the other frames go on.
        """
        if letter.value is None:
            return None
        size = len(letter.value)
        log.error("frame %r has %d bytes, more than %s takes; sent without its value",
                  letter.key, size, self._topic)  # fmt: skip
        self._counts["unsendable_total"].inc()
        detail = f"{size} bytes, more than the topic takes".encode()
        headers = (("reason", b"record_too_large"), ("detail", detail))
        return replace(letter, value=None, headers=headers)


class PrintOutlet:
    """Writes each frame on a line, without a buffer, for `--dry-run`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def deliver(self, frames: Sequence[SourceFrame]) -> None:
        lines = [b" ".join(frame.value.splitlines()) for frame in frames if frame.value]
        left = memoryview(b"".join(line + b"\n" for line in lines))
        while left:
            left = left[self._stream.write(left) :]


STORE_EVERY_S = 1.0  # a mark more often would only wear the disk
HEALTHY_S = 30.0  # after which a connection was one, posts or none
BELIEVE_REFUSAL_S = 3600.0  # for so long who let us in may refuse before it is believed
LEAVE_S = 2.0  # of the time for a shutdown, for the connections
log = logging.getLogger("newsift.collect")


class Collector:
    """Sends the frames of a source to an outlet and stores the acknowledged position.

    One task receives frames and reconnects, one delivers them in order, and one stores the mark.
    Everything received is acknowledged before the next connection, which resumes at the mark, so
    that the platform sends nothing twice.
    """

    def __init__(
        self,
        source: LiveSource,
        outlet: Outlet,
        counts: Counts,
        size: StreamConfig,
        mark_store: MarkStore,
    ) -> None:
        self._source, self._outlet, self._counts, self._size = source, outlet, counts, size
        self._mark_store, self._mark = mark_store, mark_store.mark
        self._inbox = Inbox(size.in_flight * size.batch_bytes)
        self._waited: list[Backoff] = []  # since it last got on
        self._mark_changed, self._leaving = asyncio.Event(), asyncio.Event()
        self._stop_event = asyncio.Event()
        self._let_in = -inf  # when a connection last ended
        self._connected_at = inf
        self.not_ready_reason = "it is starting"  # why it is not ready

    def leave(self) -> None:
        """Stop receiving, and end once all frames are acknowledged or the time is over."""
        self._leaving.set()

    async def before_leaving(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work`. Returns False if `leave` was called first; `work` is then cancelled."""
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            done, _ = await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            leaving.cancel()
        if working in done:
            working.result()
        return working in done

    async def run(self, client: ClientSession) -> None:
        """Run until `leave` is called. Raises what ends it earlier."""
        leaving = asyncio.create_task(self._leaving.wait())
        receiving = asyncio.create_task(self._receive(client))
        sending = asyncio.create_task(self._send())
        keeping = asyncio.create_task(self._keep_marks())
        every = leaving, receiving, sending, keeping
        try:
            done, _ = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            receiving.cancel()
            await self._settle(sending)
        finally:
            for task in (leaving, receiving, sending):
                task.cancel()
            self._stop_event.set()
            self._mark_changed.set()
            await asyncio.gather(*every, return_exceptions=True)
        keeping.result()

    async def _settle(self, sending: asyncio.Task[None]) -> None:
        """Wait for acknowledgements, as long as a shutdown may take."""
        self.not_ready_reason = "it is leaving"
        drained = asyncio.create_task(self._inbox.drained())
        in_time = max(0.0, self._size.shutdown_s - LEAVE_S)
        await asyncio.wait({drained, sending}, timeout=in_time, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
            log.warning("leaving before all was acknowledged; the next start asks for it again")
        if sending.done():
            sending.result()

    async def _receive(self, client: ClientSession) -> None:
        while True:
            try:
                await self._connection(client)
            except EnoughError:
                await self._inbox.drained()
                return
            except (LostError, AccessError) as error:
                if not self.not_ready_reason:
                    self._let_in = monotonic()
                    if self._let_in - self._connected_at > HEALTHY_S:
                        self._reset_pauses()
                lost = self._worth_another(error)
                self._counts["connected"].set(0)
                self._counts.reconnect(lost.reason)
                self.not_ready_reason = str(lost)
                await self._inbox.drained()
                await self._stay_away(lost)

    def _worth_another(self, error: LostError | AccessError) -> LostError:
        """A refusal ends the command unless the platform has accepted us recently."""
        if isinstance(error, LostError):
            return error
        if monotonic() - self._let_in > BELIEVE_REFUSAL_S:
            raise error
        return LostError(BUSY, str(error))

    async def _connection(self, client: ClientSession) -> None:
        async with aclosing(self._source.arrivals(client, self._mark)) as arrivals:
            async for arrived in arrivals:
                if isinstance(arrived, Gap):
                    self._note(arrived)
                    continue
                if self.not_ready_reason:
                    log.info("connected to %s", self._source.place)
                    self._counts["connected"].set(1)
                    self.not_ready_reason, self._connected_at = "", monotonic()
                if arrived:
                    self._counts["received_total"].inc(len(arrived))
                    await self._inbox.put(arrived)
                    self._counts["in_flight_bytes"].set(self._inbox.bytes)
        raise LostError(CLOSED, f"{self._source.place}: the stream has ended")

    async def _stay_away(self, lost: LostError) -> None:
        """Wait before the next connection, at least as long as the platform asks for."""
        backoff = self._source.backoff(lost)
        if backoff not in self._waited:
            self._waited.append(backoff)
        seconds = max(backoff.pause(), lost.wait)
        log.warning("%s; connecting again in %.1f s", lost, seconds)
        await asyncio.sleep(seconds)

    def _reset_pauses(self) -> None:
        for backoff in self._waited:
            backoff.reset()
        self._waited.clear()

    async def _send(self) -> None:
        """Deliver frames in order, and move the mark once they are acknowledged."""
        while True:
            frames = await self._inbox.take(self._size.batch_posts, self._size.batch_bytes)
            await self._outlet.deliver(frames)
            self._counts.acknowledged(frames)
            self._advance(frames)
            await self._inbox.done(frames)
            self._counts["in_flight_bytes"].set(self._inbox.bytes)

    def _advance(self, frames: list[SourceFrame]) -> None:
        """Move the mark. A new cursor resets the backoff."""
        last = next((frame for frame in reversed(frames) if frame.cursor is not None), None)
        if last is None or self._mark is None or last.cursor != self._mark.cursor:
            self._reset_pauses()
        if last is not None:
            assert last.cursor is not None
            self._mark = SourceMark(last.cursor, self._source.place, last.at)
            self._mark_changed.set()

    async def _keep_marks(self) -> None:
        """Store the mark at intervals when it has moved, and at the end."""
        while not self._stop_event.is_set():
            await self._mark_changed.wait()
            self._mark_changed.clear()
            await self._store_mark()
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_EVERY_S):
                    await self._stop_event.wait()
        await self._store_mark()

    async def _store_mark(self) -> None:
        if self._mark is not None and self._mark != self._mark_store.mark:
            await asyncio.to_thread(self._mark_store.store, self._mark)

    def _note(self, gap: Gap) -> None:
        self._counts.gap(gap)
        self._mark_store.count_gap(gap)
        span = "" if gap.seconds is None else f", {gap.seconds:,.0f} s of them"
        log.error("posts of %s are lost for good%s: %s", self._source.name, span, gap.why)
