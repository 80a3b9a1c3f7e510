"""Mastodon: one stream of an instance, and its timeline for what the stream missed.

See https://docs.joinmastodon.org/methods/streaming/ and /methods/timelines/.
"""

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, time
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import ClientSession, ClientWSTimeout, WSServerHandshakeError
from yarl import URL

from encoder.errors import InputError
from newsift.collect.http import (
    LARGEST,
    TooLargeError,
    check_answer,
    connection_errors,
    decode_answer,
    endpoint,
    read_body,
    sent_events,
    socket_texts,
    status_error,
    without_login,
)
from newsift.collect.source import (
    CLOSED,
    LIMITED,
    MALFORMED,
    Arrivals,
    Backoff,
    Gap,
    LostError,
    SourceFrame,
    SourceMark,
)
from newsift.web.addresses import WEB_SCHEMES, excerpt, retry_after, seconds_until
from newsift.web.client import limits
from worker.config.secret import Secret
from worker.errors import AccessError

STREAMING = "/api/v1/streaming"
PATHS = {
    "public": "/public",
    "public:local": "/public/local",
    "public:remote": "/public/remote",
    "hashtag": "/hashtag",
    "hashtag:local": "/hashtag/local",
}
LONGEST_TAG = 500  # characters


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream by its documented name, and its tag."""

    name: str = "public"
    tag: str = ""

    def __post_init__(self) -> None:
        if self.name not in PATHS:
            raise InputError(f"--stream: {self.name!r}; give one of {', '.join(PATHS)}")
        if self.tags and not 0 < len(self.tag) <= LONGEST_TAG:
            raise InputError(f"--stream {self.name}: needs a tag; give --tag NAME")
        if self.tag and not self.tags:
            raise InputError(f"--tag: is not for the stream {self.name}; give --stream hashtag")

    @property
    def tags(self) -> bool:
        return self.name.startswith("hashtag")

    @property
    def parts(self) -> tuple[str, ...]:
        """The values "local" and "remote", or one of them."""
        half = self.name.partition(":")[2]
        return (half,) if half else ("local", "remote")

    def stream(self, host: URL) -> URL:
        """The address of the stream."""
        url = host.with_path(STREAMING + PATHS[self.name])
        return url.with_query(tag=self.tag) if self.tags else url

    def timeline(self, host: URL) -> URL:
        """The timeline with the same posts."""
        tag = f"/tag/{quote(self.tag, safe='')}" if self.tags else "/public"
        url = host.with_path(f"/api/v1/timelines{tag}", encoded=True)
        half = self.name.partition(":")[2]
        return url.with_query({half: "true"}) if half else url


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """What --url names: an instance, or one of its streams."""

    host: URL  # with no path: the REST API stands there
    feed: Feed
    exact: URL | None = None  # the stream's own address, where that was given

    @property
    def place(self) -> str:
        return self.host.host_port_subcomponent or ""


def stream_address(url: str, stream: str | None, tag: str | None) -> StreamAddress:
    """From --url with --stream and --tag, or all of it in the URL."""
    url_option = without_login(endpoint(url, "https", "http", "wss", "ws"))
    web = url_option.with_scheme(WEB_SCHEMES.get(url_option.scheme, url_option.scheme))
    host = web.origin()
    named = tag.removeprefix("#") if tag else ""
    if web.path in ("", "/"):
        return StreamAddress(host, Feed(stream or "public", named))
    feed_in_url = _feed_of(web)
    feed = feed_in_url or Feed(stream or "public", named)
    if (stream and stream != feed.name) or (named and named != feed.tag):
        raise InputError(f"--stream: --url is that of {feed.name} already; leave one of them out")
    return StreamAddress(host, feed, _exact(url_option, feed))


def _exact(url: URL, feed: Feed) -> URL:
    """A web socket's address names its stream in the query."""
    if url.scheme not in WEB_SCHEMES:
        return feed.stream(url) if url.path == STREAMING else url
    query = {"stream": feed.name} | ({"tag": feed.tag} if feed.tags else {})
    return url.update_query({**query, **url.query})


def _feed_of(url: URL) -> Feed | None:
    """The stream that an address names by its path, or in a web socket's query."""
    name = url.query.get("stream", "") if url.path == STREAMING else ""
    for stream, path in PATHS.items():
        if url.path == STREAMING + path:
            name = stream
    return Feed(name, url.query.get("tag", "").removeprefix("#")) if name in PATHS else None


WRITTEN = ("update", "status.update")
DELETED = "delete"
IDENTITY = re.compile(r"[0-9A-Za-z]{1,64}")
FIRST_SNOWFLAKE = 1_400_000_000_000 << 16  # ids before 2014 are none of Mastodon's
REMEMBERED = 50_000
LATE_S = 60.0  # how late a status of another server may come and still be looked for
PAGE = 40  # the most statuses that a page of a timeline may have


class Identified(msgspec.Struct):
    id: str | int


STATUS = msgspec.json.Decoder(Identified)


def order(id: str) -> tuple[int, str]:
    """Sort key of ids: a longer id is later, as Mastodon's guidelines say."""
    return len(id), id


def time_of_id(id: str) -> float | None:
    """Seconds since 1970; None if ids hold no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return (number >> 16) / 1000 if number >= FIRST_SNOWFLAKE else None


def id_before(id: str, seconds: float) -> str:
    """An id so many seconds earlier; the same id if ids hold no time."""
    time = time_of_id(id)
    return id if time is None else str(max(0, round((time - seconds) * 1000)) << 16)


def status_identity(status: bytes) -> str | None:
    """None if there is no valid id."""
    try:
        id = str(STATUS.decode(status).id)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return id if IDENTITY.fullmatch(id) else None


def event_value(name: str, data: bytes) -> bytes:
    """A server-sent event as one JSON object; a payload that is no status stays a string."""
    if name not in WRITTEN or status_identity(data) is None:
        data = msgspec.json.encode(data.decode("utf-8", "replace"))
    return b'{"event":%b,"payload":%b}' % (msgspec.json.encode(name), data)


class MastodonEvent(NamedTuple):
    """The name of an event, its data, and the bytes for the topic."""

    name: str
    data: bytes
    value: bytes


class Newest:
    """The latest id, and recent ids, so that no status is sent twice."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._recent_ids: OrderedDict[str, None] = OrderedDict()
        self._last: deque[tuple[float, str]] = deque(maxlen=PAGE)

    @property
    def cursor(self) -> str | None:
        """The latest id; if ids hold no time, the lowest of the last page.

        A later status may have a lower id, and may be under way when the process dies.
        """
        if self.id is None or time_of_id(self.id) is not None:
            return self.id
        since = monotonic() - LATE_S
        return min((id for at, id in self._last if at > since), key=order, default=self.id)

    def raise_to(self, id: str) -> None:
        """Ignored if a later id is known."""
        if self.id is None or order(id) > order(self.id):
            self.id = id

    def note(self) -> list[SourceFrame]:
        """A frame without a post that moves the cursor."""
        return [SourceFrame(b"", None, self.cursor, time_of_id(self.id))] if self.id else []

    def status(self, value: bytes, id: str) -> SourceFrame | None:
        """None if the status was sent before."""
        if id in self._recent_ids:
            return None
        self._recent_ids[id] = None
        if len(self._recent_ids) > REMEMBERED:
            self._recent_ids.popitem(last=False)
        self._last.append((monotonic(), id))
        self.raise_to(id)
        return SourceFrame(value, id.encode(), self.cursor, time_of_id(id))

    def event(self, event: MastodonEvent) -> SourceFrame | None:
        """None for an event without a post, or with one that was sent before."""
        if event.name == DELETED:
            deleted_id = event.data.decode("utf-8", "replace").strip()
            key = deleted_id.encode() if IDENTITY.fullmatch(deleted_id) else None
            return SourceFrame(event.value, key, self.cursor)
        if event.name not in WRITTEN:
            return None
        id = status_identity(event.data)
        if id is not None and event.name == "update":
            return self.status(event.value, id)
        return SourceFrame(event.value, None if id is None else id.encode(), self.cursor)


BEFORE_ALL = "0"  # an id
PAGES = (PAGE, 5, 1)  # statuses to ask for, where more are too large together
RESERVE = 5  # requests of the limit that are left to others who use the account
LARGEST_PAGE = 2**24  # bytes of a page
RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
TOKEN_REMEDY = "give a user token with the scope read:statuses"


@dataclass(frozen=True, slots=True)
class StatusPage:
    """The statuses right after an id, oldest first, and the pause before the next page."""

    statuses: list[tuple[str, bytes]]  # by id
    is_full: bool  # has as many as it may have
    pause: float


class Timeline:
    def __init__(self, session: ClientSession, url: URL, headers: Mapping[str, str]) -> None:
        self._session, self._url, self._headers = session, url, headers

    async def after(self, id: str) -> StatusPage | None:
        """The page right after an id, a short one if necessary; None if there is none."""
        for most in PAGES:
            with suppress(TooLargeError):
                return await self._page(most, min_id=id)
        return None

    async def newest(self) -> str | None:
        """The id of the last status; None if there is no timeline."""
        page = await self._page(1)
        if page is None:
            return None
        return page.statuses[-1][0] if page.statuses else BEFORE_ALL

    async def _page(self, most: int, **query: str) -> StatusPage | None:
        url = self._url.update_query(limit=most, **query)
        async with self._session.get(url, headers=self._headers) as answer:
            if answer.status == 404:
                return None
            if answer.status == 429:
                raise limited(answer.headers, f"{url.host} answers 429 for its timeline")
            await check_answer(answer, TOKEN_REMEDY)
            page = statuses(await read_body(answer, LARGEST_PAGE), f"{url.host}")
            return StatusPage(page, len(page) >= most, pause(answer.headers))


def statuses(body: bytes, host: str) -> list[tuple[str, bytes]]:
    """Sorted, oldest first, with their ids."""
    items = [bytes(raw) for raw in decode_answer(RAW_LIST, body, f"{host}: its timeline")]
    named = [(id, status) for status in items if (id := status_identity(status)) is not None]
    return sorted(named, key=lambda each: order(each[0]))


def pause(headers: Mapping[str, str]) -> float:
    """Seconds to wait by X-RateLimit."""
    left = headers.get("X-RateLimit-Remaining", "")
    return until_reset(headers) if left.isdigit() and int(left) <= RESERVE else 0.0


def until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the rate limit is reset, by the server's clock."""
    try:
        reset = datetime.fromisoformat(headers.get("X-RateLimit-Reset", "")).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return seconds_until(reset, headers)


def limited(headers: Mapping[str, str], message: str) -> LostError:
    """The error for a rate limit that is used up."""
    return LostError(LIMITED, message, max(until_reset(headers), retry_after(headers)))


class Catching:
    """Reads a timeline up to a limit of pages, as fast as the server allows."""

    def __init__(self, timeline: Timeline, since: str, most_pages: int) -> None:
        self._timeline, self.since = timeline, since
        self._left = most_pages
        self.exists = True  # whether there is a timeline that can be read

    @property
    def reached_limit(self) -> bool:
        """Whether there were more pages than the limit."""
        return self._left <= 0

    async def pages(self) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Ends after two consecutive pages that are not full."""
        short = 0
        while self._left > 0 and short < 2:
            page = await self._timeline.after(self.since)
            self._left -= 1
            if page is None:
                self.exists = False
                return
            new = [each for each in page.statuses if order(each[0]) > order(self.since)]
            if not new:
                return
            self.since = new[-1][0]
            yield new
            if not page.is_full:
                short += 1  # nearly there: the reserve is for this
                continue
            short = 0
            await asyncio.sleep(page.pause)


DOCUMENT = "/api/v2/instance"
LARGEST_DOCUMENT = 2**22  # bytes
NO_INSTANCE = "give the address of a Mastodon instance to --url"


class Urls(msgspec.Struct):
    streaming: str | None = None


class Configured(msgspec.Struct):
    """The part of an instance's document about streams."""

    urls: Urls | None = None
    timelines_access: dict[str, Any] | None = None


class Instance(msgspec.Struct):
    """See https://docs.joinmastodon.org/entities/Instance/."""

    configuration: Configured | None = None

    def streaming(self, host: URL) -> URL:
        urls = self.configuration.urls if self.configuration else None
        if urls is None or not urls.streaming:
            return host
        try:
            url = URL(urls.streaming)
            return url.with_scheme(WEB_SCHEMES.get(url.scheme, url.scheme)).origin()
        except ValueError as error:
            message = f"{host.authority}: configuration.urls.streaming is no address"
            raise LostError(MALFORMED, message) from error

    def closed(self, feed: Feed) -> dict[str, str]:
        """The parts of a feed that are shown to nobody, with their configuration keys."""
        access = (self.configuration.timelines_access if self.configuration else None) or {}
        key = "hashtag_feeds" if feed.tags else "live_feeds"
        setting = access.get(key)
        access_of = setting if isinstance(setting, dict) else dict.fromkeys(feed.parts, setting)
        prefix = f"configuration.timelines_access.{key}"
        return {
            half: f"{prefix}.{half}" for half in feed.parts if access_of.get(half) == "disabled"
        }


DECODER = msgspec.json.Decoder(Instance)


async def look(session: ClientSession, host: URL, headers: dict[str, str]) -> Instance:
    """Fetch the document of an instance; an empty one if a server has none."""
    async with session.get(host.with_path(DOCUMENT), headers=headers) as answer:
        if answer.status == 404:
            return Instance()
        await check_answer(answer, TOKEN_REMEDY if answer.status in (401, 403) else NO_INSTANCE)
        return decode_answer(
            DECODER, await read_body(answer, LARGEST_DOCUMENT), f"{host.authority}: {DOCUMENT}"
        )


def refuse_closed(instance: Instance, feed: Feed, place: str) -> None:
    """The stream of a closed feed would stay silent for ever."""
    closed = instance.closed(feed)
    if not closed:
        return
    open_half = [half for half in feed.parts if half not in closed]
    base = feed.name.partition(":")[0]
    other = f"--stream {base}:{open_half[0]}, or " if open_half and base == "public" else ""
    raise AccessError(
        f"{place}: does not show the stream {feed.name} ({', '.join(closed.values())}: disabled); "
        f"give {other}another instance to --url"
    )


Streamed = AsyncGenerator[list[MastodonEvent], None]


class SocketMessage(msgspec.Struct):
    """An event, whose payload is a string, or an error."""

    event: str = ""
    payload: str = ""
    error: str | None = None
    status: int = 500


SOCKET_MESSAGE = msgspec.json.Decoder(SocketMessage)


def streamed(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    """The events of a stream, after an empty list once it is connected."""
    by = _by_socket if url.scheme in WEB_SCHEMES else _by_sent_events
    return by(client, url, headers, stall_s)


async def _by_sent_events(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    async with client.get(url, headers=headers, timeout=limits(stall_s)) as answer:
        await check_answer(answer, TOKEN_REMEDY)
        yield []
        async for events in sent_events(answer.content.iter_any()):
            yield [
                MastodonEvent(each.name, each.data, event_value(each.name, each.data))
                for each in events
            ]


async def _by_socket(
    client: ClientSession, url: URL, headers: Mapping[str, str], stall_s: float
) -> Streamed:
    patience = ClientWSTimeout(ws_receive=stall_s, ws_close=1.0)
    try:
        socket = await client.ws_connect(
            url, headers=headers, timeout=patience, max_msg_size=LARGEST
        )
    except WSServerHandshakeError as error:
        headers_of: Mapping[str, str] = error.headers or {}
        words = excerpt(headers_of.get("X-Error-Message", ""))
        what = f"{url.host} answers {error.status}{f' ({words})' if words else ''}"
        raise status_error(error.status, headers_of, what, TOKEN_REMEDY) from error
    async with socket:
        yield []
        async for text in socket_texts(socket, str(url.host)):
            yield [_socket_event(text, str(url.host))]


def _socket_event(text: bytes, host: str) -> MastodonEvent:
    """Raises the error that ends the connection."""
    try:
        message = SOCKET_MESSAGE.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return MastodonEvent("update", text, text)  # a dead letter shows it
    if message.error is not None:
        raise status_error(
            message.status, {}, f"{host} says: {excerpt(message.error)}", TOKEN_REMEDY
        )
    return MastodonEvent(message.event, message.payload.encode(), text)


STALL_S = 45.0  # three of the heartbeats that a stream sends every 15 s
HEALTHY_S = 60.0  # after which a connection was one, posts or none
MOST_PAGES = 3_000  # of 40 statuses: some 50 minutes at 300 requests in 5 minutes


class Mastodon:
    """One public stream of an instance, completed by its timeline."""

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
        self._foreign: SourceMark | None = None  # the state of another instance, once that is told
        self._pauses = Backoff(0.5, 60.0)
        self._limited = Backoff(30.0, 300.0)

    async def arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        """The statuses since the mark, then those of the stream."""
        with connection_errors(self.place):
            url = await self._stream(session)
            missed = await self._missed(session, mark)
            async for frames in self._caught_up(missed):
                yield frames
            async with aclosing(streamed(session, url, self._headers(), self._stall_s)) as stream:
                await anext(stream)
                async for frames in self._caught_up(missed):
                    yield frames
                if gap := self._gap(missed, mark):
                    yield gap
                yield self._newest.note()  # from here on nothing is missed
                connected_at = monotonic()
                async for events in stream:
                    if monotonic() - connected_at > HEALTHY_S:
                        self._pauses.reset()
                    frames_of = [self._newest.event(event) for event in events]
                    yield [frame for frame in frames_of if frame is not None]
        raise LostError(CLOSED, f"{self.place}: the stream ended")

    def backoff(self, lost: LostError) -> Backoff:
        """Half a second to a minute; longer after too many requests."""
        return self._limited if lost.reason == LIMITED else self._pauses

    async def _stream(self, session: ClientSession) -> URL:
        """The address to stream from. Raises AccessError if the stream is closed."""
        instance = await look(session, self._address.host, self._headers())
        refuse_closed(instance, self._address.feed, self.place)
        if self._address.exact is not None:
            return self._address.exact
        return self._address.feed.stream(instance.streaming(self._address.host))

    async def _missed(self, session: ClientSession, mark: SourceMark | None) -> Catching:
        """The timeline since the mark, or since now."""
        url = self._address.feed.timeline(self._address.host)
        timeline = Timeline(session, url, self._headers())
        if mark is not None and mark.place == self.place:
            self._newest.raise_to(str(mark.cursor))
            return Catching(timeline, id_before(str(mark.cursor), LATE_S), self._most_pages)
        if self._newest.id is None:
            await self._begin(timeline)
        newest = self._newest.id
        return Catching(timeline, newest or "", self._most_pages if newest else 0)

    async def _begin(self, timeline: Timeline) -> None:
        """Note the newest status; if that fails, the stream starts all the same."""
        with suppress(LostError), connection_errors(self.place):
            if (last := await timeline.newest()) is not None:
                self._newest.raise_to(last)

    async def _caught_up(self, missed: Catching) -> AsyncIterator[list[SourceFrame]]:
        async for page in missed.pages():
            arrived = [self._newest.status(status, id) for id, status in page]
            yield [frame for frame in arrived if frame is not None]

    def _gap(self, missed: Catching, mark: SourceMark | None) -> Gap | None:
        """What the timeline does not have of the missed posts; another instance's state, once."""
        if mark is None or mark == self._foreign:
            return None
        if mark.place != self.place:
            self._foreign = mark
            why = f"the state is of {mark.place}, whose ids {self.place} does not know"
            return Gap(why, _ago(mark.at))
        since = time_of_id(missed.since) or mark.at
        if missed.reached_limit:
            return Gap("more was missed than is asked for", _ago(since))
        return (
            None if missed.exists else Gap("no timeline can be read to fill it from", _ago(since))
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token.reveal()}"}


def _ago(at: float | None) -> float | None:
    return None if at is None else max(0.0, time() - at)
