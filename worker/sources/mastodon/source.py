"""A stream of Mastodon as a source: what it missed comes from the timeline, before what is new."""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from time import monotonic, time

from aiohttp import ClientSession
from yarl import URL

from worker.config.secret import Secret
from worker.sources.backoff import Backoff
from worker.sources.frame import Frame, Gap, Mark
from worker.sources.http import losing
from worker.sources.mastodon.feeds import StreamAddress
from worker.sources.mastodon.instance import look, refuse_closed
from worker.sources.mastodon.statuses import LATE_S, Newest, id_before, made_at
from worker.sources.mastodon.streaming import streamed
from worker.sources.mastodon.timeline import Catching, Timeline
from worker.sources.source import CLOSED, LIMITED, Arrivals, LostError

STALL_S = 45.0  # three of the heartbeats that a stream sends every 15 s
HEALTHY_S = 60.0  # after which a connection was one, posts or none
MOST_PAGES = 3_000  # of 40 statuses: some 50 minutes at 300 requests in 5 minutes


class Mastodon:
    """One public stream of an instance, of which nothing is left out that its timeline has."""

    name = "mastodon"

    def __init__(
        self,
        address: StreamAddress,
        token: Secret,
        stall_s: float = STALL_S,
        most_pages: int = MOST_PAGES,
    ) -> None:
        self.place = address.place
        self._stall_s = min(stall_s, STALL_S)
        self._address, self._token, self._most_pages = address, token, most_pages
        self._newest = Newest()
        self._foreign: Mark | None = None  # the state of another instance, once that is told
        self._pauses = Backoff(0.5, 60.0)
        self._limited = Backoff(30.0, 300.0)

    async def arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        """The statuses since the mark, then those of the stream as they come."""
        with losing(self.place):
            url = await self._stream(session)
            missed = await self._missed(session, mark)
            async for frames in self._caught_up(missed):
                yield frames
            async with aclosing(streamed(session, url, self._headers(), self._stall_s)) as stream:
                await anext(stream)
                async for frames in self._caught_up(missed):
                    yield frames
                if lost := self._gap(missed, mark):
                    yield lost
                yield self._newest.note()  # from here on nothing is missed
                stood = monotonic()
                async for events in stream:
                    if monotonic() - stood > HEALTHY_S:
                        self._pauses.reset()
                    arrived = [self._newest.event(told) for told in events]
                    yield [frame for frame in arrived if frame is not None]
        raise LostError(CLOSED, f"{self.place}: the stream ended")

    def backoff(self, lost: LostError) -> Backoff:
        """Half a second to a minute; longer where there were too many requests."""
        return self._limited if lost.reason == LIMITED else self._pauses

    async def _stream(self, session: ClientSession) -> URL:
        """Where to stream from, once the instance says that it shows the stream at all."""
        instance = await look(session, self._address.host, self._headers())
        refuse_closed(instance, self._address.feed, self.place)
        if self._address.exact is not None:
            return self._address.exact
        return self._address.feed.stream(instance.streaming(self._address.host))

    async def _missed(self, session: ClientSession, mark: Mark | None) -> Catching:
        """The timeline since the mark; since now where nothing came yet."""
        url = self._address.feed.timeline(self._address.host)
        timeline = Timeline(session, url, self._headers())
        if mark is not None and mark.place == self.place:
            self._newest.raise_to(str(mark.cursor))
            return Catching(timeline, id_before(str(mark.cursor), LATE_S), self._most_pages)
        if self._newest.id is None:
            await self._begin(timeline)
        known = self._newest.id
        return Catching(timeline, known or "", self._most_pages if known else 0)

    async def _begin(self, timeline: Timeline) -> None:
        """Note what there is already; where that fails, the stream begins all the same."""
        with suppress(LostError), losing(self.place):
            if (last := await timeline.newest()) is not None:
                self._newest.raise_to(last)

    async def _caught_up(self, missed: Catching) -> AsyncIterator[list[Frame]]:
        async for page in missed.pages():
            arrived = [self._newest.status(status, id) for id, status in page]
            yield [frame for frame in arrived if frame is not None]

    def _gap(self, missed: Catching, mark: Mark | None) -> Gap | None:
        """What the timeline could not give of what was missed; what another place has, once."""
        if mark is None or mark == self._foreign:
            return None
        if mark.place != self.place:
            self._foreign = mark
            said = f"the state is of {mark.place}, whose ids {self.place} does not know"
            return Gap(said, _ago(mark.at))
        since = made_at(missed.since) or mark.at
        if missed.ended_early:
            return Gap("more was missed than is asked for", _ago(since))
        return None if missed.there else Gap("no timeline can be read to fill it from", _ago(since))

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token.reveal()}"}


def _ago(at: float | None) -> float | None:
    return None if at is None else max(0.0, time() - at)
