"""The filtered stream of X as a source: what was published while it was away is told as a gap."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from time import time

from aiohttp import ClientResponse, ClientSession

from worker.config.secret import Secret
from worker.sources.backoff import Backoff
from worker.sources.frame import Frame, Gap, Mark
from worker.sources.http import endpoint, limits, losing, whole, without_login
from worker.sources.lines import LineParser
from worker.sources.source import BUSY, CLOSED, LIMITED, Arrivals, EnoughError, LostError
from worker.sources.x.rule_book import RuleBook
from worker.sources.x.said import delivered_id, posted_at, turned_away, until_window

STREAM = "https://api.x.com/2/tweets/search/stream"
STALL_S = 25.0  # a keep-alive comes every 20 s
HEALTHY_S = 30.0  # after which a connection was one
LARGEST = 2**20  # bytes of an answer that is an error
NO_RULES = 409
NO_POST = "0"  # an id
# What worker/posts/x.py reads: the whole text of long posts and of what was reposted, and whose.
FIELDS = {
    "tweet.fields": "author_id,created_at,lang,note_tweet,referenced_tweets",
    "expansions": "author_id,referenced_tweets.id,referenced_tweets.id.author_id",
    "user.fields": "username",
}


class XStream:
    """The filtered stream of the app that a token belongs to."""

    name = "x"

    def __init__(
        self,
        url: str,
        token: Secret,
        rules: Path | None = None,
        limit: int | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        given = without_login(endpoint(url, "https", "http"))
        self._url = given.with_query({**FIELDS, **given.query})
        self.place = given.host_port_subcomponent or ""
        self._headers = {"Authorization": f"Bearer {token.reveal()}"}
        self.rules = RuleBook(given, self._headers, rules)
        self._left, self._stall = limit, limits(min(stall_s, STALL_S))
        self._newest: str | None = None
        self._alive: float | None = None  # when something came last
        # As https://docs.x.com/x-api/fundamentals/handling-disconnections asks.
        self._pauses = {
            BUSY: Backoff(5.0, 320.0, jitter=0.0),
            LIMITED: Backoff(60.0, 960.0, jitter=0.0),
            CLOSED: Backoff(0.0, 16.0, factor=1.0, step=0.25, jitter=0.0),
        }

    def backoff(self, lost: LostError) -> Backoff:
        """At once, then a quarter of a second more each; longer for answers of HTTP."""
        return self._pauses.get(lost.reason, self._pauses[CLOSED])

    async def arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        """The posts of one connection, after a gap if there was another before."""
        window = 0.0
        try:
            with losing(self.place):
                await self.rules.step(session)
                asked = session.get(self._url, headers=self._headers, timeout=self._stall)
                async with asked as answer:
                    await self._check(answer)
                    window = time() + until_window(answer.headers)
                    if gap := self._gap(mark):
                        yield gap
                    async with self.rules.in_step(session), aclosing(self._told(answer)) as told:
                        async for frames in told:
                            yield frames
                raise LostError(CLOSED, f"{self.place}: the stream ended")
        except LostError as lost:
            lost.wait = max(lost.wait, window - time())  # it was the last of 50 in 15 minutes
            raise

    async def _told(self, answer: ClientResponse) -> AsyncGenerator[list[Frame], None]:
        """What comes by a connection, and a note at each sign of life besides."""
        yield [self._sign_of_life()]
        lines, stood = LineParser(), time()
        async for chunk in answer.content.iter_any():
            self._alive = time()
            if self._alive - stood > HEALTHY_S:
                self._begin_again()
            frames, end = self._frames(lines.feed(chunk))
            yield frames or [self._sign_of_life()]
            if end is not None:
                raise end

    async def _check(self, answer: ClientResponse) -> None:
        if answer.status == 200:
            return
        if answer.status == NO_RULES and self.rules.file:
            self.rules.forget()
            raise LostError(BUSY, f"{self.place}: has no rules any more")
        body = await whole(answer, LARGEST)
        raise turned_away(answer.status, answer.headers, body, self.place)

    def _gap(self, mark: Mark | None) -> Gap | None:
        """What was published since something came last: X gives nothing twice."""
        if mark is None:
            return None
        self._newest = self._newest or str(mark.cursor)
        last = max(self._alive or 0.0, mark.at or 0.0)
        return Gap("X gives nothing twice", max(0.0, time() - last) if last else None)

    def _frames(self, lines: Iterator[bytes]) -> tuple[list[Frame], Exception | None]:
        """The frames of lines, as many as are wanted, and by what the connection ends, if so."""
        found = list[Frame]()
        try:
            for line in filter(None, map(bytes.strip, lines)):
                found.append(self._frame(line))
                if self._left is not None:
                    self._left -= 1
                    if self._left <= 0:
                        return found, EnoughError()
        except LostError as lost:
            return found, lost
        return found, None

    def _begin_again(self) -> None:
        """The connection stood for a while: the next may be made at once, posts or none."""
        for backoff in self._pauses.values():
            backoff.reset()

    def _sign_of_life(self) -> Frame:
        """Notes that nothing was missed up to now."""
        self._alive = time()
        return Frame(b"", None, self._newest or NO_POST, self._alive)

    def _frame(self, line: bytes) -> Frame:
        id = delivered_id(line, self.place)
        if id is None:
            return Frame(line, None, self._newest)
        if self._newest is None or (len(id), id) > (len(self._newest), self._newest):
            self._newest = id
        return Frame(line, id.encode(), self._newest, posted_at(id))
