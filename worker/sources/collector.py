"""The collector: from a source to the topic of posts, and never past what was acknowledged."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import aclosing, suppress
from math import inf
from time import monotonic
from typing import Any

from aiohttp import ClientSession

from worker.config import StreamConfig
from worker.errors import AccessError
from worker.sources.backoff import Backoff
from worker.sources.counts import Counts
from worker.sources.frame import Frame, Gap, Mark
from worker.sources.inbox import Inbox
from worker.sources.outlet import Outlet
from worker.sources.source import BUSY, CLOSED, EnoughError, LiveSource, LostError
from worker.sources.state import Unkept

STORE_EVERY_S = 1.0  # a mark more often would only wear the disk
REFUSED_S = 3600.0  # for so long who let us in may refuse before it is believed
LEAVE_S = 2.0  # of the time for a shutdown, for the connections
log = logging.getLogger("newsift.collect")


class Collector:
    """Brings what a source gives to an outlet, and keeps how far that was acknowledged.

    One task takes frames in and makes the next connection when one ends, one delivers them in
    order, and one keeps the mark. What has been taken in is acknowledged before the next connection
    is made, so that a platform is asked from the mark on and gives nothing twice.
    """

    def __init__(
        self,
        source: LiveSource,
        outlet: Outlet,
        counts: Counts,
        size: StreamConfig,
        keeper: Unkept,
    ) -> None:
        self._source, self._outlet, self._counts, self._size = source, outlet, counts, size
        self._keeper, self._mark = keeper, keeper.mark
        self._inbox = Inbox(size.in_flight * size.batch_bytes)
        self._waited: list[Backoff] = []  # since it last got on
        self._moved, self._leaving = asyncio.Event(), asyncio.Event()
        self._ended = asyncio.Event()
        self._let_in = -inf  # when a connection stood last
        self.missing = "it is starting"  # why it is not ready

    def leave(self) -> None:
        """Take nothing more in, and end once all that came is acknowledged, or in time."""
        self._leaving.set()

    async def before_leaving(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether something was done before it was told to leave; it goes no further then."""
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
        """Go on until told to leave; what ends it before is raised."""
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
            self._ended.set()
            self._moved.set()
            await asyncio.gather(*every, return_exceptions=True)
        keeping.result()

    async def _settle(self, sending: asyncio.Task[None]) -> None:
        """Wait, as long as a shutdown may take, for what was taken in to be acknowledged."""
        self.missing = "it is leaving"
        drained = asyncio.create_task(self._inbox.drained())
        in_time = max(0.0, self._size.shutdown_s - LEAVE_S)
        await asyncio.wait({drained, sending}, timeout=in_time, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            drained.cancel()
            log.warning("leaving before all was acknowledged; the next start asks for it again")
        if sending.done():
            sending.result()

    async def _receive(self, client: ClientSession) -> None:
        """Take in what comes, by one connection after the other."""
        while True:
            try:
                await self._connection(client)
            except EnoughError:
                await self._inbox.drained()
                return
            except (LostError, AccessError) as error:
                if not self.missing:
                    self._let_in = monotonic()
                lost = self._worth_another(error)
                self._counts.connected(False)
                self._counts.reconnect(lost.reason)
                self.missing = str(lost)
                await self._inbox.drained()
                await self._stay_away(lost)

    def _worth_another(self, error: LostError | AccessError) -> LostError:
        """A refusal ends it, unless who let us in of late may be failing and not mean it."""
        if isinstance(error, LostError):
            return error
        if monotonic() - self._let_in > REFUSED_S:
            raise error
        return LostError(BUSY, str(error))

    async def _connection(self, client: ClientSession) -> None:
        """Take in what comes by one connection, which is asked from the mark on."""
        place = self._source.place
        async with aclosing(self._source.arrivals(client, self._mark)) as arrivals:
            async for found in arrivals:
                if isinstance(found, Gap):
                    self._note(found)
                    continue
                if self.missing:
                    log.info("connected to %s", self._source.place)
                    self._counts.connected(True)
                    self.missing = ""
                await self._take(found)
        raise LostError(CLOSED, f"{place}: the stream has ended")

    async def _take(self, frames: Sequence[Frame]) -> None:
        if frames:
            self._counts.received(len(frames))
            await self._inbox.put(frames)
            self._counts.in_flight(self._inbox.bytes)

    async def _stay_away(self, lost: LostError) -> None:
        """Wait before the next connection, as long as the platform asks for."""
        backoff = self._source.backoff(lost)
        if backoff not in self._waited:
            self._waited.append(backoff)
        seconds = max(backoff.pause(), lost.wait)
        log.warning("%s; connecting again in %.1f s", lost, seconds)
        await asyncio.sleep(seconds)

    async def _send(self) -> None:
        """Deliver what came, in order, and move the mark once it is acknowledged."""
        while True:
            frames = await self._inbox.take(self._size.batch_posts, self._size.batch_bytes)
            await self._outlet.deliver(frames)
            self._counts.acknowledged(frames)
            self._advance(frames)
            await self._inbox.done(frames)
            self._counts.in_flight(self._inbox.bytes)

    def _advance(self, frames: list[Frame]) -> None:
        """Note how far it was acknowledged; where that is news, it got on."""
        last = next((frame for frame in reversed(frames) if frame.cursor is not None), None)
        if last is None or self._mark is None or last.cursor != self._mark.cursor:
            for backoff in self._waited:
                backoff.reset()
            self._waited.clear()
        if last is not None:
            assert last.cursor is not None
            self._mark = Mark(last.cursor, self._source.place, last.at)
            self._moved.set()

    async def _keep_marks(self) -> None:
        """Keep the mark whenever it has moved, now and then; at the end once more."""
        while not self._ended.is_set():
            await self._moved.wait()
            self._moved.clear()
            await self._keep()
            with suppress(TimeoutError):
                async with asyncio.timeout(STORE_EVERY_S):
                    await self._ended.wait()
        await self._keep()

    async def _keep(self) -> None:
        if self._mark is not None and self._mark != self._keeper.mark:
            await asyncio.to_thread(self._keeper.store, self._mark)

    def _note(self, gap: Gap) -> None:
        """Count and tell that posts are lost for good."""
        self._counts.gap(gap)
        self._keeper.note(gap)
        span = "" if gap.seconds is None else f", {gap.seconds:,.0f} s of them"
        log.error("posts of %s are lost for good%s: %s", self._source.name, span, gap.why)
