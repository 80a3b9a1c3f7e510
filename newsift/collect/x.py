"""X: the filtered stream of the API v2. Its rules, which select the posts, are set at X.

See https://docs.x.com/x-api/posts/filtered-stream/introduction and the pages on streams of
https://docs.x.com/x-api/fundamentals/.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from time import time

import msgspec
from aiohttp import ClientResponse, ClientSession

from newsift.collect.http import (
    LineParser,
    answer_error,
    connection_errors,
    parse_endpoint,
    read_body,
    require_no_login,
)
from newsift.collect.source import (
    ANNOUNCED,
    BUSY,
    CLOSED,
    LIMITED,
    Arrivals,
    Backoff,
    Gap,
    LostError,
    SourceEndedError,
    SourceFrame,
    SourcePosition,
    seconds_since,
)
from newsift.files.platforms import IdObject
from newsift.web.addresses import excerpt, retry_after, seconds_until
from newsift.web.client import stream_timeout
from worker.config.secret import Secret
from worker.errors import AccessError

STREAM_URL = "https://api.x.com/2/tweets/search/stream"
MAX_STALL_S = 25.0  # X sends a keep-alive every 20 s
MAX_ERROR_BYTES = 2**20
LOWEST_ID = "0"
# The fields that worker/posts/x.py reads: long texts, reposted posts and their authors.
FIELDS = {
    "tweet.fields": "author_id,created_at,lang,note_tweet,referenced_tweets",
    "expansions": "author_id,referenced_tweets.id,referenced_tweets.id.author_id",
    "user.fields": "username",
}
POST_ID = re.compile(r"[0-9]{1,19}")
ID_EPOCH_MS = 1_288_834_974_657  # ids hold the milliseconds since this time
MIN_TIMED_ID = 2**48  # smaller ids, from before 2011, hold no time
TOO_MANY_REQUESTS = (429, 420)  # X used 420 before 429
REMEDIES = {
    401: "give the bearer token of an app",
    402: "buy credits for the app, then start again",
    403: "give the app access to the filtered stream",
    404: "give the address of the filtered stream to --url",
    409: "set rules at X, at the same address plus /rules",
}


class Problem(msgspec.Struct):
    """An error of X, which may have inner errors."""

    title: str | None = None
    detail: str | None = None
    type: str | None = None  # an address, whose last part is the name
    disconnect_type: str | None = None
    connection_issue: str | None = None
    errors: list["Problem"] | None = None

    def message(self) -> str:
        inner = self.errors[0].message() if self.errors else ""
        title = self.disconnect_type or self.connection_issue or self.title
        parts = dict.fromkeys((title, self.detail or inner))
        return excerpt(": ".join(part for part in parts if part))

    @property
    def name(self) -> str:
        return (self.type or "").rpartition("/")[2]

    def is_disconnect(self) -> bool:
        return (
            bool(self.disconnect_type or self.connection_issue)
            or self.name in ("operational-disconnect", "streaming-connection", "usage-capped")
            or any(error.is_disconnect() for error in self.errors or ())
        )

    def is_limit(self) -> bool:
        """Whether there were too many connections, requests or posts."""
        return (
            self.connection_issue == "TooManyConnections"
            or self.name in ("usage-capped", "rate-limit-exceeded")
            or any(error.is_limit() for error in self.errors or ())
        )


class StreamLine(Problem):
    """A post under `data`, or a problem."""

    data: IdObject | None = None


LINE = msgspec.json.Decoder(StreamLine)


def time_of_id(id: str) -> float | None:
    """Seconds since 1970; None if the id holds no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return ((number >> 22) + ID_EPOCH_MS) / 1000 if number >= MIN_TIMED_ID else None


def parse_post_id(line: bytes, place: str) -> str | None:
    """None if the line holds no valid post.

    Raises LostError for a line that ends the connection.
    """
    try:
        event = LINE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if event.data is not None:
        id = str(event.data.id)
        return id if POST_ID.fullmatch(id) else None
    if event.is_disconnect():
        reason = LIMITED if event.is_limit() else ANNOUNCED
        raise LostError(reason, f"{place} says: {event.message()}")
    return None


def refusal_error(
    status: int, headers: Mapping[str, str], body: bytes, place: str
) -> LostError | AccessError:
    """The error for an answer that is not a stream: LostError if a retry may help."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
        detail = problem.message()
    except (msgspec.MsgspecError, RecursionError):
        problem, detail = Problem(), excerpt(body)
    if status in TOO_MANY_REQUESTS or problem.is_limit():
        message = f"{place} answers {status}{f' ({detail})' if detail else ''}"
        return LostError(LIMITED, message, max(seconds_until_reset(headers), retry_after(headers)))
    remedy = REMEDIES.get(status, "correct the request")
    return answer_error(place, status, headers, detail, remedy)


def seconds_until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the next window of the rate limit; 0 if requests are left in this one."""
    if headers.get("x-rate-limit-remaining", "0").strip() != "0":
        return 0.0
    try:
        return seconds_until(float(headers.get("x-rate-limit-reset", "")), headers)
    except ValueError:
        return 0.0


class XStream:
    name = "x"

    def __init__(
        self,
        url: str,
        token: Secret,
        limit: int | None = None,
        stall_s: float = MAX_STALL_S,
    ) -> None:
        endpoint = require_no_login(parse_endpoint(url, "https", "http"))
        self._url = endpoint.with_query({**FIELDS, **endpoint.query})
        self.place = endpoint.host_port_subcomponent or ""
        self._headers = {"Authorization": f"Bearer {token.reveal()}"}
        self._posts_left = limit
        self._timeout = stream_timeout(min(stall_s, MAX_STALL_S))
        self._newest_id: str | None = None
        self._active_at: float | None = None  # when data arrived last
        # As https://docs.x.com/x-api/fundamentals/handling-disconnections asks.
        self._backoffs = {
            BUSY: Backoff(5.0, 320.0, jitter=0.0),
            LIMITED: Backoff(60.0, 960.0, jitter=0.0),
            CLOSED: Backoff(0.0, 16.0, factor=1.0, step=0.25, jitter=0.0),
        }

    def backoff(self, error: LostError) -> Backoff:
        return self._backoffs.get(error.reason, self._backoffs[CLOSED])

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        """X sends no post twice, so each connection after the first starts with a Gap."""
        reset_at = 0.0
        try:
            with connection_errors(self.place):
                request = session.get(self._url, headers=self._headers, timeout=self._timeout)
                async with request as answer:
                    await self._check(answer)
                    reset_at = time() + seconds_until_reset(answer.headers)
                    if position is not None:
                        self._newest_id = self._newest_id or str(position.cursor)
                        last = max(self._active_at or 0.0, position.at or 0.0)
                        yield Gap("X sends no post twice", seconds_since(last or None))
                    async with aclosing(self._read_stream(answer)) as stream:
                        async for frames in stream:
                            yield frames
                raise LostError(CLOSED, f"{self.place}: the stream ended")
        except LostError as lost:
            # X allows 50 connections in 15 minutes.
            lost.wait = max(lost.wait, reset_at - time())
            raise

    async def _read_stream(self, answer: ClientResponse) -> AsyncGenerator[list[SourceFrame], None]:
        """The posts of a connection, and a frame without a post at each keep-alive."""
        yield [self._keep_alive_frame()]
        lines = LineParser()
        async for chunk in answer.content.iter_any():
            frames, error = self._frames(lines.feed(chunk))
            yield frames or [self._keep_alive_frame()]
            if error is not None:
                raise error

    async def _check(self, answer: ClientResponse) -> None:
        if answer.status == 200:
            return
        body = await read_body(answer, MAX_ERROR_BYTES)
        raise refusal_error(answer.status, answer.headers, body, self.place)

    def _frames(self, lines: Iterator[bytes]) -> tuple[list[SourceFrame], Exception | None]:
        """The frames of the lines, and the error that ends the connection after them."""
        self._active_at = time()
        frames = list[SourceFrame]()
        try:
            for line in filter(None, map(bytes.strip, lines)):
                frames.append(self._frame(line))
                if self._posts_left is not None:
                    self._posts_left -= 1
                    if self._posts_left <= 0:
                        return frames, SourceEndedError()
        except LostError as lost:
            return frames, lost
        return frames, None

    def _keep_alive_frame(self) -> SourceFrame:
        """A frame without a post that moves the time of the position."""
        self._active_at = time()
        return SourceFrame(b"", None, self._newest_id or LOWEST_ID, self._active_at)

    def _frame(self, line: bytes) -> SourceFrame:
        id = parse_post_id(line, self.place)
        if id is None:
            return SourceFrame(line, None, self._newest_id)
        if self._newest_id is None or (len(id), id) > (len(self._newest_id), self._newest_id):
            self._newest_id = id
        return SourceFrame(line, id.encode(), self._newest_id, time_of_id(id))
