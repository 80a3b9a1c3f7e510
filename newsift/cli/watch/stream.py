"""Matches as server-sent events.

Each client has a reader of its own, without a group. Its position is the id of the last event,
which a browser sends by itself when it reconnects (WHATWG HTML, 9.2).
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from newsift.cli.matches import MatchFilter
from newsift.cli.watch.records import WatchMetrics, first_offsets, match_record_in, with_matches
from newsift.operations.messages import notify
from newsift.web.addresses import host_and_port
from worker.config import Config, WebConfig
from worker.kafka.consumers import Consumer, Offsets, groupless_consumer, stop_within
from worker.kafka.metadata import read_identity
from worker.metrics.web import EVENT_STREAM, Site, json_answer, visit_of

MAX_LISTENERS = 32
POLL_MS = 500
MAX_POLL_RECORDS = 100
HEARTBEAT_S = 15.0  # without an event, after which the id alone is sent
MAX_STOP_S = 2.0
MAX_WRITE_S = 30.0  # for a slow listener
EVENT_ID = re.compile(r"\d{1,9}-\d{1,18}(?:,\d{1,9}-\d{1,18})*", re.ASCII)
MAX_FETCH_BYTES = 2**20
log = logging.getLogger("newsift.watch")

Position = dict[int, int]  # the next offset of each partition


class MatchStream(Site):
    """Serves /matches beside /metrics, /healthz and /readyz."""

    host_key = port_key = "--listen"

    def __init__(
        self, config: Config, listen: WebConfig, filters: MatchFilter, since: int | None,
        metrics: WatchMetrics,
    ) -> None:  # fmt: skip
        """A client without a position begins at `since`, or with the next match."""
        super().__init__(listen, metrics.render, lambda: "")
        self._full_config, self._filters = config, filters
        self._since, self._metrics = since, metrics

    def on_started(self) -> None:
        super().on_started()
        address = host_and_port(self._config.host, self.port)
        notify(f"matches are served at http://{address}/matches; Ctrl-C ends it")

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [*super().routes(), web.get("/matches", self._get_matches)]

    async def _get_matches(self, request: web.Request) -> web.StreamResponse:
        try:
            resume_at = parse_event_id(request.headers.get("Last-Event-ID", ""))
        except ValueError:
            return json_answer({"reason": "Last-Event-ID: is not an id of this server"}, 400)
        if self.streams >= MAX_LISTENERS:
            reason = f"{MAX_LISTENERS} listen already; come again later"
            return json_answer({"reason": reason}, 503)
        try:
            with self.streaming():
                self._metrics.streams.set(self.streams)
                return await self._serve(request, resume_at)
        finally:
            self._metrics.streams.set(self.streams)

    async def _serve(self, request: web.Request, resume_at: Position | None) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        consumer = groupless_consumer(
            self._full_config,
            fetch_max_bytes=MAX_FETCH_BYTES,
            max_partition_fetch_bytes=MAX_FETCH_BYTES,
        )
        transport = request.transport
        assert transport is not None
        try:
            await response.prepare(request)
            visit_of(request).disable_timeout()
            await consumer.start()
            await self._send(response, transport, consumer, resume_at)
        except (OSError, KafkaError) as error:
            log.info("a listener is gone: %s: %s", type(error).__name__, error)
            transport.abort()  # the server would wait for a client that takes nothing
        finally:
            await stop_within(consumer.stop(), MAX_STOP_S)
        return response

    async def _send(
        self, response: web.StreamResponse, transport: asyncio.Transport, consumer: Consumer,
        resume_at: Position | None,
    ) -> None:  # fmt: skip
        loop, last_write_at = asyncio.get_running_loop(), -HEARTBEAT_S
        at = await self._begin(consumer, resume_at)
        # When a partition is added the response ends: the client reconnects by itself.
        while len(consumer.partitions_for_topic(self._full_config.topics.matches) or ()) <= len(at):
            if transport.is_closing():
                return
            if loop.time() - last_write_at > HEARTBEAT_S:
                await self._write(response, b":\nid: %s\n\n" % event_id(at))
                last_write_at = loop.time()
            try:
                batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=MAX_POLL_RECORDS)
            except OffsetOutOfRangeError as error:
                at |= _seek(consumer, await consumer.beginning_offsets([*error.args[0]]))
                continue
            for record in (record for records in batches.values() for record in records):
                at[record.partition] = record.offset + 1
                if event := self._event(record, at):
                    await self._write(response, event)
                    last_write_at = loop.time()

    async def _begin(self, consumer: Consumer, resume_at: Position | None) -> Position:
        """Seek to the client's position; a partition it does not name is read from the start."""
        topic = self._full_config.topics.matches
        if (identity := await read_identity(consumer._client, topic)) is None:
            raise UnknownTopicOrPartitionError(topic)
        places = [TopicPartition(topic, part) for part in range(identity.partitions)]
        consumer.assign(places)
        if resume_at is not None:
            begin = await consumer.beginning_offsets(places)
            return _seek(consumer, {p: resume_at.get(p.partition, begin[p]) for p in places})
        return _seek(consumer, await first_offsets(consumer, places, self._since))

    def _event(self, record: Any, at: Position) -> bytes:
        """The event's id is the position after it; empty if no match is selected."""
        match_record = match_record_in(record)
        if match_record is None or not (matches := self._filters.select(match_record)):
            return b""
        return b"id: %s\nevent: match\ndata: %s\n\n" % (
            event_id(at),
            with_matches(match_record, matches),
        )

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(MAX_WRITE_S):  # a TimeoutError is an OSError
            await response.write(data)


def _seek(consumer: Consumer, offsets: Offsets) -> Position:
    for place, offset in offsets.items():
        consumer.seek(place, offset)
    return {place.partition: offset for place, offset in offsets.items()}


def event_id(at: Position) -> bytes:
    return ",".join(f"{part}-{offset}" for part, offset in sorted(at.items())).encode()


def parse_event_id(event_id: str) -> Position | None:
    """None for no id; ValueError for an invalid one."""
    if not event_id:
        return None
    if not EVENT_ID.fullmatch(event_id):
        raise ValueError(event_id)
    pairs = (part.split("-") for part in event_id.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}
