"""Stream: the matches as server-sent events, to whoever listens, from where he left off.

Each listener has a reader of the topic of his own, without a group: his place is the id of the last
event that he saw, which a browser sends by itself when it comes back (WHATWG HTML, 9.2).
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Any, cast

from aiohttp import web
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from worker.cli.wanted import Wanted
from worker.cli.watch.counts import WatchCounts
from worker.cli.watch.notices import narrowed, record_in
from worker.cli.watch.places import first_places
from worker.config import Config, WebConfig
from worker.kafka.consumers import Consumer, Offsets, in_time, lone_consumer
from worker.kafka.metadata import identity
from worker.watch.site import FRESH, Site, json_answer
from worker.watch.visits import Visit

LISTENERS = 32
POLL_MS = 500
STEP = 100  # records at a time
QUIET_S = 15.0  # after which an id alone shows that both sides are there, and what was passed
LEAVE_S = 2.0
SLOW_S = 30.0  # so long a listener may take to make room
PLACES = re.compile(r"\d{1,9}-\d{1,18}(?:,\d{1,9}-\d{1,18})*", re.ASCII)
FETCH = 2**20  # bytes that a listener's reader asks for at once, as there may be many
HEADERS = FRESH | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
log = logging.getLogger("newsift.watch")

Places = dict[int, int]  # the offset that is next, by partition


class MatchStream(Site):
    """/matches, beside /metrics, /healthz and /readyz."""

    host_key = port_key = "--listen"

    def __init__(
        self,
        config: Config,
        listen: WebConfig,
        wanted: Wanted,
        since: int | None,
        counts: WatchCounts,
    ) -> None:
        """Who comes without a place begins `since` then, else with what comes."""
        super().__init__(listen, counts.render, lambda: "")
        self._all, self._wanted, self._since, self._counts = config, wanted, since, counts
        self._listening: set[asyncio.Task[Any] | None] = set()

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """What is answered."""
        return [*super().routes(), web.get("/matches", self._get_matches)]

    async def stop(self) -> None:
        """End the listeners, and listen no more."""
        for task in filter(None, list(self._listening)):
            task.cancel()
        await super().stop()

    async def run(self) -> None:
        """Serve for as long as this is awaited."""
        await asyncio.Event().wait()

    async def _get_matches(self, request: web.Request) -> web.StreamResponse:
        try:
            seen = places_in(request.headers.get("Last-Event-ID", ""))
        except ValueError:
            return json_answer({"reason": "Last-Event-ID: is none that came from here"}, 400)
        if len(self._listening) >= LISTENERS:
            return json_answer({"reason": f"{LISTENERS} listen already; come again later"}, 503)
        me = asyncio.current_task()
        self._listening.add(me)
        self._counts.streams.set(len(self._listening))
        try:
            return await self._served(request, seen)
        finally:
            self._listening.discard(me)
            self._counts.streams.set(len(self._listening))

    async def _served(self, request: web.Request, seen: Places | None) -> web.StreamResponse:
        response = web.StreamResponse(headers=HEADERS)
        consumer = lone_consumer(self._all, fetch_max_bytes=FETCH, max_partition_fetch_bytes=FETCH)
        link = request.transport
        assert link is not None
        try:
            await response.prepare(request)
            cast(Visit, link.get_protocol()).stay()
            await consumer.start()
            await self._send(response, link, consumer, seen)
        except (OSError, KafkaError) as error:
            log.info("a listener is gone: %s: %s", type(error).__name__, error)
            link.abort()  # one that takes nothing would be waited for again at the end
        finally:
            await in_time(consumer.stop(), LEAVE_S)
        return response

    async def _send(
        self, response: web.StreamResponse, link: asyncio.Transport, consumer: Consumer,
        seen: Places | None,
    ) -> None:  # fmt: skip
        """Send what comes, for as long as somebody takes it."""
        loop, quiet = asyncio.get_running_loop(), -QUIET_S
        at = await self._begin(consumer, seen)
        # Of a partition that is new he hears when he comes back, which he does by himself.
        while len(consumer.partitions_for_topic(self._all.topics.matches) or ()) <= len(at):
            if link.is_closing():
                return
            if loop.time() - quiet > QUIET_S:
                await self._write(response, b":\nid: %s\n\n" % event_id(at))
                quiet = loop.time()
            try:
                found = await consumer.getmany(timeout_ms=POLL_MS, max_records=STEP)
            except OffsetOutOfRangeError as error:
                at |= _go(consumer, await consumer.beginning_offsets([*error.args[0]]))
                continue
            for record in (record for records in found.values() for record in records):
                at[record.partition] = record.offset + 1
                if event := self._event(record, at):
                    await self._write(response, event)
                    quiet = loop.time()

    async def _begin(self, consumer: Consumer, seen: Places | None) -> Places:
        """Go to where a listener left off; partitions that he has not seen are new ones."""
        topic = self._all.topics.matches
        if (which := await identity(consumer._client, topic)) is None:
            raise UnknownTopicOrPartitionError(topic)
        places = [TopicPartition(topic, part) for part in range(which.partitions)]
        consumer.assign(places)
        if seen is not None:
            begin = await consumer.beginning_offsets(places)
            return _go(consumer, {p: seen.get(p.partition, begin[p]) for p in places})
        return _go(consumer, await first_places(consumer, places, self._since))

    def _event(self, record: Any, at: Places) -> bytes:
        """A record as an event, whose id is the place after it; nothing of what is not wanted."""
        found = record_in(record)
        if found is None or not (own := self._wanted.of(found)):
            return b""
        return b"id: %s\nevent: match\ndata: %s\n\n" % (event_id(at), narrowed(found, own))

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(SLOW_S):  # a TimeoutError is an OSError: he is gone
            await response.write(data)


def _go(consumer: Consumer, offsets: Offsets) -> Places:
    """Have a consumer read on there."""
    for place, offset in offsets.items():
        consumer.seek(place, offset)
    return {place.partition: offset for place, offset in offsets.items()}


def event_id(at: Places) -> bytes:
    """What names these places."""
    return ",".join(f"{part}-{offset}" for part, offset in sorted(at.items())).encode()


def places_in(event_id: str) -> Places | None:
    """The places that an event's id names; None for no id, ValueError for one of another kind."""
    if not event_id:
        return None
    if not PLACES.fullmatch(event_id):
        raise ValueError(event_id)
    pairs = (part.split("-") for part in event_id.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}
