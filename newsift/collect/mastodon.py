"""Mastodon: one stream of an instance, and its timeline for the posts that the stream missed.

See https://docs.joinmastodon.org/methods/streaming/ and /methods/timelines/.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import ClientSession, ClientWSTimeout, WSServerHandshakeError
from yarl import URL

from encoder.errors import InputError
from newsift.collect.http import (
    MAX_LINE_BYTES,
    EventParser,
    answer_error,
    check_answer,
    connection_errors,
    decode_answer,
    parse_endpoint,
    read_body,
    require_no_login,
    socket_texts,
)
from newsift.collect.mastodon_timeline import (
    PAGE_SIZE,
    STATUS_ID,
    TOKEN_REMEDY,
    Timeline,
    id_before,
    id_sort_key,
    parse_status_id,
    time_of_id,
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
    SourcePosition,
    seconds_since,
)
from newsift.web.addresses import excerpt, http_url, is_websocket
from newsift.web.client import stream_timeout
from worker.config.secret import Secret
from worker.errors import AccessError
from worker.posts.outcome import INSTANCE_HEADER

STREAMING_PATH = "/api/v1/streaming"
STREAM_PATHS = {
    "public": "/public",
    "public:local": "/public/local",
    "public:remote": "/public/remote",
    "hashtag": "/hashtag",
    "hashtag:local": "/hashtag/local",
}
MAX_TAG_CHARS = 500


@dataclass(frozen=True, slots=True)
class PublicStream:
    name: str = "public"  # as in Mastodon's documentation
    tag: str = ""

    def __post_init__(self) -> None:
        if self.has_tag and not 0 < len(self.tag) <= MAX_TAG_CHARS:
            raise InputError(f"--stream {self.name}: needs a tag; give --tag NAME")
        if self.tag and not self.has_tag:
            raise InputError(f"--tag: is not for the stream {self.name}; give --stream hashtag")

    @property
    def has_tag(self) -> bool:
        return self.name.startswith("hashtag")

    @property
    def origins(self) -> tuple[str, ...]:
        """The values "local" and "remote", or one of them."""
        origin = self.name.partition(":")[2]
        return (origin,) if origin else ("local", "remote")

    def url(self, host: URL) -> URL:
        url = host.with_path(STREAMING_PATH + STREAM_PATHS[self.name])
        return url.with_query(tag=self.tag) if self.has_tag else url

    def timeline(self, host: URL) -> URL:
        """The timeline with the same posts."""
        tag = f"/tag/{quote(self.tag, safe='')}" if self.has_tag else "/public"
        url = host.with_path(f"/api/v1/timelines{tag}", encoded=True)
        return url.with_query({self.origins[0]: "true"}) if len(self.origins) == 1 else url


@dataclass(frozen=True, slots=True)
class StreamAddress:
    host: URL  # without a path
    stream: PublicStream
    stream_url: URL | None = None  # if --url is the address of a stream


def stream_address(url: str, stream: str | None, tag: str | None) -> StreamAddress:
    """`url` is the address of an instance, or of one of its streams."""
    address = require_no_login(parse_endpoint(url, "https", "http", "wss", "ws"))
    web = http_url(address)
    tag = tag.removeprefix("#") if tag else ""
    if web.path in ("", "/"):
        return StreamAddress(web.origin(), PublicStream(stream or "public", tag))
    public_stream = _parse_stream(web) or PublicStream(stream or "public", tag)
    if (stream and stream != public_stream.name) or (tag and tag != public_stream.tag):
        raise InputError(
            f"--url already names the stream {public_stream.name}; omit --stream and --tag"
        )
    if is_websocket(address):  # the query of a web socket's address names the stream
        query = {"stream": public_stream.name}
        query |= {"tag": public_stream.tag} if public_stream.has_tag else {}
        address = address.update_query({**query, **address.query})
    elif address.path == STREAMING_PATH:
        address = public_stream.url(address)
    return StreamAddress(web.origin(), public_stream, address)


def _parse_stream(url: URL) -> PublicStream | None:
    """The stream that an address names by its path, or in a web socket's query."""
    names = {STREAMING_PATH + path: name for name, path in STREAM_PATHS.items()}
    name = names.get(url.path) or (url.query.get("stream") if url.path == STREAMING_PATH else None)
    if name not in STREAM_PATHS:
        return None
    return PublicStream(name, url.query.get("tag", "").removeprefix("#"))


STATUS_EVENTS = ("update", "status.update")
DELETE_EVENT = "delete"
MAX_RECENT_IDS = 50_000
OVERLAP_S = 60.0  # read again at a start, as a status of another server may arrive late


def event_value(name: str, data: bytes) -> bytes:
    """A server-sent event as one JSON object; a payload that is not a status stays a string."""
    if name not in STATUS_EVENTS or parse_status_id(data) is None:
        data = msgspec.json.encode(data.decode("utf-8", "replace"))
    return b'{"event":%b,"payload":%b}' % (msgspec.json.encode(name), data)


class MastodonEvent(NamedTuple):
    name: str
    data: bytes
    value: bytes  # the value of the record for the topic


class RecentStatuses:
    """The latest id and the recent ids, so that no status is sent twice."""

    def __init__(self, instance: str) -> None:
        self._headers = ((INSTANCE_HEADER, instance.encode()),)
        self.latest_id: str | None = None
        self._recent_ids: OrderedDict[str, None] = OrderedDict()
        self._recent_arrivals: deque[tuple[float, str]] = deque(maxlen=PAGE_SIZE)

    @property
    def cursor(self) -> str | None:
        """The latest id; if ids hold no time, the lowest id of the last OVERLAP_S seconds.

        A later status may have a lower id, and may be lost if the process dies now.
        """
        if self.latest_id is None or time_of_id(self.latest_id) is not None:
            return self.latest_id
        start = monotonic() - OVERLAP_S
        recent = (id for at, id in self._recent_arrivals if at > start)
        return min(recent, key=id_sort_key, default=self.latest_id)

    def raise_latest_id(self, id: str) -> None:
        """An earlier id is ignored."""
        if self.latest_id is None or id_sort_key(id) > id_sort_key(self.latest_id):
            self.latest_id = id

    def cursor_frame(self) -> list[SourceFrame]:
        """A frame without a post that moves the cursor."""
        if not self.latest_id:
            return []
        return [SourceFrame(b"", None, self.cursor, time_of_id(self.latest_id))]

    def status_frame(self, value: bytes, id: str) -> SourceFrame | None:
        """None if the status was sent before."""
        if id in self._recent_ids:
            return None
        self._recent_ids[id] = None
        if len(self._recent_ids) > MAX_RECENT_IDS:
            self._recent_ids.popitem(last=False)
        self._recent_arrivals.append((monotonic(), id))
        self.raise_latest_id(id)
        return SourceFrame(value, id.encode(), self.cursor, time_of_id(id), self._headers)

    def event_frame(self, event: MastodonEvent) -> SourceFrame | None:
        """None for an event without a post, or with one that was sent before."""
        if event.name == DELETE_EVENT:
            deleted_id = event.data.decode("utf-8", "replace").strip()
            key = deleted_id.encode() if STATUS_ID.fullmatch(deleted_id) else None
            return SourceFrame(event.value, key, self.cursor, headers=self._headers)
        if event.name not in STATUS_EVENTS:
            return None
        id = parse_status_id(event.data)
        if id is not None and event.name == "update":
            return self.status_frame(event.value, id)
        key = None if id is None else id.encode()
        return SourceFrame(event.value, key, self.cursor, headers=self._headers)


INSTANCE_PATH = "/api/v2/instance"
MAX_INSTANCE_BYTES = 2**22
INSTANCE_REMEDY = "give the address of a Mastodon instance to --url"


class StreamingUrls(msgspec.Struct):
    streaming: str | None = None


class InstanceConfiguration(msgspec.Struct):
    urls: StreamingUrls | None = None
    timelines_access: dict[str, Any] | None = None


class Instance(msgspec.Struct):
    """See https://docs.joinmastodon.org/entities/Instance/."""

    configuration: InstanceConfiguration | None = None

    def streaming_host(self, host: URL) -> URL:
        """`host` is that of the instance itself."""
        urls = self.configuration.urls if self.configuration else None
        if urls is None or not urls.streaming:
            return host
        try:
            url = URL(urls.streaming)
            return http_url(url).origin()
        except ValueError as error:
            message = f"{host.authority}: configuration.urls.streaming is not an address"
            raise LostError(MALFORMED, message) from error

    def require_enabled(self, stream: PublicStream, place: str) -> None:
        """Raises AccessError for a stream that the instance has disabled: it would stay silent."""
        access = (self.configuration.timelines_access if self.configuration else None) or {}
        key = "hashtag_feeds" if stream.has_tag else "live_feeds"
        setting = access.get(key)
        by_origin = setting if isinstance(setting, dict) else dict.fromkeys(stream.origins, setting)
        off = [origin for origin in stream.origins if by_origin.get(origin) == "disabled"]
        if not off:
            return
        base = stream.name.partition(":")[0]
        on = [origin for origin in stream.origins if origin not in off]
        other = f"--stream {base}:{on[0]}, or " if on and base == "public" else ""
        keys = ", ".join(f"configuration.timelines_access.{key}.{origin}" for origin in off)
        raise AccessError(
            f"{place}: does not show the stream {stream.name} ({keys}: disabled); "
            f"give {other}another instance to --url"
        )


async def fetch_instance(session: ClientSession, host: URL, headers: dict[str, str]) -> Instance:
    """An empty document if the server has none."""
    async with session.get(host.with_path(INSTANCE_PATH), headers=headers) as answer:
        if answer.status == 404:
            return Instance()
        remedy = TOKEN_REMEDY if answer.status in (401, 403) else INSTANCE_REMEDY
        await check_answer(answer, remedy)
        body = await read_body(answer, MAX_INSTANCE_BYTES)
        return decode_answer(Instance, body, f"{host.authority}: {INSTANCE_PATH}")


class SocketMessage(msgspec.Struct):
    """An event, or an error."""

    event: str = ""
    payload: str = ""
    error: str | None = None
    status: int = 500


SOCKET_MESSAGE = msgspec.json.Decoder(SocketMessage)


def _parse_socket_event(text: bytes, host: str) -> MastodonEvent:
    """Raises LostError or AccessError for an error, which ends the connection."""
    try:
        message = SOCKET_MESSAGE.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return MastodonEvent("update", text, text)  # the worker makes a dead letter of it
    if message.error is not None:
        raise answer_error(host, message.status, {}, excerpt(message.error), TOKEN_REMEDY)
    return MastodonEvent(message.event, message.payload.encode(), text)


MAX_STALL_S = 45.0  # a stream sends a heartbeat every 15 s
MAX_PAGES = 3_000  # take about 50 minutes, at 300 requests in 5 minutes
Events = AsyncGenerator[list[MastodonEvent], None]


class Mastodon:
    name = "mastodon"

    def __init__(
        self,
        address: StreamAddress,
        token: Secret,
        stall_s: float = MAX_STALL_S,
        max_pages: int = MAX_PAGES,
    ) -> None:
        self.place = address.host.host_port_subcomponent or ""
        self._stall_s = min(stall_s, MAX_STALL_S)
        self._address, self._max_pages = address, max_pages
        self._headers = {"Authorization": f"Bearer {token.reveal()}"}
        self._statuses = RecentStatuses(self.place)
        self._reported_foreign_position: SourcePosition | None = None
        self._backoff = Backoff(0.5, 60.0)
        self._limited_backoff = Backoff(30.0, 300.0)  # after too many requests

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        """The statuses of the timeline since the position, then those of the stream."""
        with connection_errors(self.place):
            url = await self._stream_url(session)
            timeline = await self._open_timeline(session, position)
            async for frames in self._timeline_frames(timeline):
                yield frames
            connect = self._websocket_events if is_websocket(url) else self._sse_events
            async with aclosing(connect(session, url)) as stream:
                await anext(stream)  # an empty list: the stream is connected
                async for frames in self._timeline_frames(timeline):
                    yield frames
                if gap := self._gap(timeline, position):
                    yield gap
                yield self._statuses.cursor_frame()  # the stream misses nothing from here on
                async for events in stream:
                    batch = [self._statuses.event_frame(event) for event in events]
                    yield [frame for frame in batch if frame is not None]
        raise LostError(CLOSED, f"{self.place}: the stream ended")

    def backoff(self, error: LostError) -> Backoff:
        return self._limited_backoff if error.reason == LIMITED else self._backoff

    async def _stream_url(self, session: ClientSession) -> URL:
        instance = await fetch_instance(session, self._address.host, self._headers)
        instance.require_enabled(self._address.stream, self.place)
        if self._address.stream_url is not None:
            return self._address.stream_url
        return self._address.stream.url(instance.streaming_host(self._address.host))

    async def _sse_events(self, session: ClientSession, url: URL) -> Events:
        """The events of a stream, after an empty list once it is connected."""
        async with session.get(
            url, headers=self._headers, timeout=stream_timeout(self._stall_s)
        ) as answer:
            await check_answer(answer, TOKEN_REMEDY)
            yield []
            parser = EventParser()
            async for chunk in answer.content.iter_any():
                if events := list(parser.feed(chunk)):
                    yield [MastodonEvent(*event, event_value(*event)) for event in events]

    async def _websocket_events(self, session: ClientSession, url: URL) -> Events:
        timeouts = ClientWSTimeout(ws_receive=self._stall_s, ws_close=1.0)
        try:
            socket = await session.ws_connect(
                url, headers=self._headers, timeout=timeouts, max_msg_size=MAX_LINE_BYTES
            )
        except WSServerHandshakeError as error:
            headers: Mapping[str, str] = error.headers or {}
            detail = excerpt(headers.get("X-Error-Message", ""))
            raise answer_error(url.host, error.status, headers, detail, TOKEN_REMEDY) from error
        async with socket:
            yield []
            async for text in socket_texts(socket, str(url.host)):
                yield [_parse_socket_event(text, str(url.host))]

    async def _open_timeline(
        self, session: ClientSession, position: SourcePosition | None
    ) -> Timeline:
        """The timeline since the position, or since now."""
        url = self._address.stream.timeline(self._address.host)
        after_id = ""
        if position is not None and position.place == self.place:
            self._statuses.raise_latest_id(str(position.cursor))
            after_id = id_before(str(position.cursor), OVERLAP_S)
        elif self._statuses.latest_id is None:
            # If this fails, the stream starts nevertheless.
            with suppress(LostError), connection_errors(self.place):
                newest_id = await Timeline(session, url, self._headers).newest_id()
                if newest_id is not None:
                    self._statuses.raise_latest_id(newest_id)
        after_id = after_id or self._statuses.latest_id or ""
        return Timeline(session, url, self._headers, after_id, self._max_pages)

    async def _timeline_frames(self, timeline: Timeline) -> AsyncIterator[list[SourceFrame]]:
        async for page in timeline.pages():
            batch = [self._statuses.status_frame(status, id) for id, status in page]
            yield [frame for frame in batch if frame is not None]

    def _gap(self, timeline: Timeline, position: SourcePosition | None) -> Gap | None:
        """The missed posts that the timeline does not have.

        A position of another instance is reported only once.
        """
        if position is None or position == self._reported_foreign_position:
            return None
        if position.place != self.place:
            self._reported_foreign_position = position
            why = f"the state belongs to {position.place}, whose ids mean nothing to {self.place}"
            return Gap(why, seconds_since(position.at))
        seconds = seconds_since(time_of_id(timeline.after_id) or position.at)
        if timeline.pages_left <= 0:
            pages = f"{self._max_pages:,} pages of the timeline"
            return Gap(f"more posts were missed than {pages} hold", seconds)
        if timeline.is_readable:
            return None
        return Gap("the instance has no timeline that fills the gap", seconds)
