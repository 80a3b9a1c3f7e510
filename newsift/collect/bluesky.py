"""Bluesky: posts from a Jetstream, with other hosts as a fallback.

Version 1 of the interface is `/subscribe` (docs/README.md §5.1), version 2
`/xrpc/network.bsky.jetstream.subscribeEvents` (lexicons/network/bsky/jetstream/
subscribeEvents.json), both of github.com/bluesky-social/jetstream.
"""

import logging
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from time import monotonic

import msgspec
from aiohttp import ClientSession, ClientWSTimeout, WSServerHandshakeError
from aiohttp.client_ws import ClientWebSocketResponse
from yarl import URL

from encoder.errors import InputError
from newsift.collect.http import (
    MAX_ERROR_BYTES,
    UnreadableFrameError,
    answer_error,
    connection_errors,
    is_refusal,
    parse_endpoint,
    socket_texts,
)
from newsift.collect.source import (
    ANNOUNCED,
    BUSY,
    STALLED,
    TOO_OLD,
    Arrivals,
    Backoff,
    Gap,
    LostError,
    SourceFrame,
    SourcePosition,
)
from newsift.web.addresses import excerpt, http_url
from worker.errors import AccessError
from worker.posts.languages import Languages

POST_COLLECTION = "app.bsky.feed.post"
V1_PATH, V2_PATH = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
LEXICON = "network.bsky.jetstream.subscribeEvents#"
MIN_TIME_CURSOR = 10**15  # smaller cursors are sequence numbers of one host
US_PER_SECOND = 10**6
MAX_CURSOR = 2**63 - 1
MAX_KEY_BYTES = 2**12
REWIND_S = 10.0  # by how much the clocks of two hosts may differ


class Langs(msgspec.Struct):
    langs: list[str] | None = None


class JetstreamCommit(msgspec.Struct, gc=False):
    collection: str | None = None
    rkey: str | None = None
    record: msgspec.Raw = msgspec.Raw()


class V1Event(msgspec.Struct, gc=False):
    did: str | None = None
    time_us: int | None = None
    commit: JetstreamCommit | None = None


class Payload(JetstreamCommit, gc=False):
    type: str = msgspec.field(name="$type", default="")
    did: str | None = None
    seq: int | None = None
    time: str | None = None
    name: str = ""
    message: str = ""


class V2Frame(msgspec.Struct, gc=False):
    """A message, or an error that ends the connection."""

    type: str = msgspec.field(name="$type", default="")
    payload: Payload | None = None
    error: str = ""
    message: str = ""


V1_EVENT = msgspec.json.Decoder(V1Event)
V2_FRAME = msgspec.json.Decoder(V2Frame)
LANGS = msgspec.json.Decoder(Langs)


class JetstreamNotice(msgspec.Struct, frozen=True):
    name: str
    text: str
    is_error: bool


class JetstreamHost:
    """One host: its address with all parameters, and the parser of its messages."""

    def __init__(self, url: URL, collections: Collection[str], langs: Collection[str]) -> None:
        path = url.path.rstrip("/")
        if not path.endswith((V1_PATH, V2_PATH)):
            raise InputError(
                f"--url: the path {url.path!r} belongs to no Jetstream; give {V1_PATH}, or "
                f"{V2_PATH}"
            )
        self.is_v2 = path.endswith(V2_PATH)
        # Parameters of the URL are not overwritten.
        key = "collections" if self.is_v2 else "wantedCollections"
        query = [] if key in url.query else [(key, name) for name in collections]
        if self.is_v2 and key not in url.query and "kinds" not in url.query:
            query.append(("kinds", "commit"))
        self.url, self._langs = url.extend_query(query), Languages.parse(",".join(langs))
        self.place = f"{url.host}:{url.port}{path}"
        # Posts of all languages arrive every second.
        self.expects_traffic = key not in url.query and POST_COLLECTION in collections

    def cursor_after(self, position: SourcePosition | None) -> int | None:
        """The cursor to resume from; None if only new posts can be read."""
        if position is None:
            return None
        if position.place == self.place:
            if not isinstance(position.cursor, int) or not 0 <= position.cursor <= MAX_CURSOR:
                raise InputError(
                    f"--state: the cursor {position.cursor!r} belongs to no Jetstream; delete the "
                    "file to start from new posts"
                )
            return position.cursor
        return time_cursor(position.at)

    def parse(self, value: bytes) -> SourceFrame | JetstreamNotice:
        """An unreadable message becomes a frame without key and cursor."""
        try:
            if self.is_v2:
                return self._parse_v2(value)
            event = V1_EVENT.decode(value)
            at = None if event.time_us is None else event.time_us / US_PER_SECOND
            return self._frame(value, event.did, event.commit, event.time_us, at)
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
            return SourceFrame(value)

    def _parse_v2(self, value: bytes) -> SourceFrame | JetstreamNotice:
        frame = V2_FRAME.decode(value)
        if frame.type == "error":
            return JetstreamNotice(frame.error, frame.message, True)
        payload = frame.payload
        if payload is None:
            return SourceFrame(value)
        if payload.type == f"{LEXICON}info":
            return JetstreamNotice(payload.name, payload.message, False)
        at = None if payload.time is None else datetime.fromisoformat(payload.time).timestamp()
        return self._frame(value, payload.did, payload, payload.seq, at)

    def _frame(
        self, value: bytes, did: str | None, commit: JetstreamCommit | None, cursor: int | None,
        at: float | None,
    ) -> SourceFrame:  # fmt: skip
        """The key is the record's address, or else its author.

        A record in a language that was not asked for becomes a frame without value.
        """
        if cursor is not None and not 0 <= cursor <= MAX_CURSOR:
            cursor = None
        key = did
        if did and commit is not None and commit.collection and commit.rkey:
            key = f"at://{did}/{commit.collection}/{commit.rkey}"
            if self._langs.codes and commit.record:
                langs = LANGS.decode(commit.record).langs
                if langs and not any(map(self._langs.accepts, langs)):
                    return SourceFrame(b"", None, cursor, at)
        key_bytes = key.encode() if key else b""
        fits = 0 < len(key_bytes) <= MAX_KEY_BYTES
        return SourceFrame(value, key_bytes if fits else None, cursor, at)


def time_cursor(at: float | None, offset_s: float = -REWIND_S) -> int | None:
    """A cursor that is valid for any host; None if the time is unknown or invalid."""
    if at is None or not MIN_TIME_CURSOR <= at * US_PER_SECOND <= MAX_CURSOR:
        return None
    return round((at + offset_s) * US_PER_SECOND)


HOSTS = (
    "wss://jetstream.us-east.bsky.network/xrpc/network.bsky.jetstream.subscribeEvents",
    "wss://jetstream.us-west.bsky.network/xrpc/network.bsky.jetstream.subscribeEvents",
    "wss://jetstream2.us-east.bsky.network/subscribe",
    "wss://jetstream2.us-west.bsky.network/subscribe",
)
PROTOCOL = "xrpc.v1.json"
MAX_FRAME_BYTES = 2**24
MAX_QUIET_S = 60.0  # more time from the cursor to the first frame means that posts are missing
MAX_SKIP_S = 600.0  # per attempt to skip an unreadable frame
CURSOR_TOO_OLD, OUTDATED_CURSOR = "CursorTooOld", "OutdatedCursor"
REMEDY = "check --url and its query"
NUMBER = re.compile(r"\b[0-9]{1,18}\b")
log = logging.getLogger("newsift.collect")


class Refusal(msgspec.Struct):
    error: str = ""
    message: str = ""


class CursorTooOldError(Exception):
    """The host no longer has the posts at the cursor; the message may name its oldest one."""


class Bluesky:
    name = "bluesky"

    def __init__(
        self, urls: Sequence[str], collections: Collection[str], langs: Collection[str],
        stall_s: float,
    ) -> None:  # fmt: skip
        endpoints = [parse_endpoint(url, "ws", "wss", "http", "https") for url in urls or HOSTS]
        self._hosts = [
            JetstreamHost(url, collections or (POST_COLLECTION,), langs) for url in endpoints
        ]
        self._host_index = 0
        self._retry_at = [0.0] * len(self._hosts)  # the time before which a host is not asked
        self._has_failed = False
        self._refusing = set[int]()  # indexes of hosts that refused since the last connection
        # The position before an unreadable frame, and the seconds that are skipped after it.
        self._unread_after: SourcePosition | None = None
        self._skip_s = 0.0
        self._fallback_cursors: list[int | None] = []  # tried in turn before the position's
        self._stall_s = stall_s
        self._backoff = Backoff(0.25, 30.0)  # as in the Jetstream's own client

    @property
    def place(self) -> str:
        """Cursors of one host and interface are not valid for another."""
        return self._hosts[self._host_index].place

    def backoff(self, error: LostError) -> Backoff:
        return self._backoff

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        try:
            async with aclosing(self._arrivals(session, position)) as arrivals:
                async for arrival in arrivals:
                    yield arrival
        except LostError as lost:
            if isinstance(lost, UnreadableFrameError):
                self._skip_unreadable(position)
            self._retry_at[self._host_index] = monotonic() + lost.wait
            lost.wait = max(0.0, min(self._retry_at) - monotonic())
            raise

    def _skip_unreadable(self, position: SourcePosition | None) -> None:
        """Skip a growing span while unreadable frames follow the same position."""
        is_repeated = position is not None and position == self._unread_after
        self._fallback_cursors = []
        self._skip_s = min(max(1.0, 2 * self._skip_s), MAX_SKIP_S) if is_repeated else 0.0
        self._unread_after = position

    def _choose_host(self) -> JetstreamHost:
        """The previous host, or the next after a failure; hosts that asked to wait come last."""
        if self._has_failed and len(self._hosts) > 1:
            count, now = len(self._hosts), monotonic()
            others = [(self._host_index + step) % count for step in range(1, count + 1)]
            self._host_index = min(others, key=lambda index: max(0.0, self._retry_at[index] - now))
            self._fallback_cursors = []
        self._has_failed = True  # until the first frame arrives
        return self._hosts[self._host_index]

    async def _arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        host = self._choose_host()
        async with self._connection(session, host, position) as (socket, cursor):
            yield ()
            is_first, starts_late = True, cursor != host.cursor_after(position)
            async for message in self._messages(socket, host):
                frame = host.parse(message)
                if isinstance(frame, JetstreamNotice):
                    if frame.name == CURSOR_TOO_OLD:
                        self._use_fallback_cursors(cursor, frame.text, position)
                    _handle_notice(frame, host.place)
                    starts_late = starts_late or frame.name == OUTDATED_CURSOR
                    continue
                if is_first and frame.cursor is not None:
                    is_first, self._has_failed, self._fallback_cursors = False, False, []
                    if position is None or frame.cursor != position.cursor:
                        self._unread_after, self._skip_s = None, 0.0
                    if position and (gap := _gap(host, position, frame.at, starts_late)):
                        yield gap
                yield (frame,)

    async def _messages(
        self, socket: ClientWebSocketResponse, host: JetstreamHost
    ) -> AsyncIterator[bytes]:
        """A stall drops the current fallback cursor."""
        try:
            async for text in socket_texts(socket, host.place, self._stall_s):
                yield text
        except LostError as lost:
            if lost.reason == STALLED and host.expects_traffic and len(self._fallback_cursors) > 1:
                del self._fallback_cursors[0]
            raise

    def _use_fallback_cursors(
        self, cursor: int | None, message: str, position: SourcePosition | None
    ) -> None:
        """The next cursor: the oldest one in the host's message, one by time, then new posts."""
        if cursor is None:
            return
        if self._fallback_cursors:
            del self._fallback_cursors[0]
            return
        oldest = next((int(n) for n in NUMBER.findall(message) if int(n) > cursor), None)
        time = None if position is None else time_cursor(position.at)
        self._fallback_cursors = [value for value in (oldest, time) if value is not None] + [None]

    @asynccontextmanager
    async def _connection(
        self, session: ClientSession, host: JetstreamHost, position: SourcePosition | None
    ) -> AsyncIterator[tuple[ClientWebSocketResponse, int | None]]:
        """An open web socket, and the cursor that it was opened with."""
        if position is not None and not self._fallback_cursors:
            if self._skip_s and (later := time_cursor(position.at, self._skip_s)):
                self._fallback_cursors = [later, None]
            elif position.place != host.place:
                self._fallback_cursors = [host.cursor_after(position), None]
        while True:
            cursor = (
                self._fallback_cursors[0] if self._fallback_cursors else host.cursor_after(position)
            )
            try:
                socket = await self._connect(session, host, cursor)
                break
            except CursorTooOldError as error:
                log.warning("%s no longer has the posts after cursor %s", host.place, cursor)
                self._use_fallback_cursors(cursor, str(error), position)
        try:
            yield socket, cursor
        finally:
            await socket.close()

    async def _connect(
        self, session: ClientSession, host: JetstreamHost, cursor: int | None
    ) -> ClientWebSocketResponse:
        url = host.url if cursor is None else host.url.update_query(cursor=str(cursor))
        timeouts = ClientWSTimeout(ws_receive=self._stall_s, ws_close=1.0)
        try:
            with connection_errors(host.place):
                socket = await session.ws_connect(
                    url, timeout=timeouts, max_msg_size=MAX_FRAME_BYTES,
                    protocols=(PROTOCOL,) if host.is_v2 else (),
                    compress=0 if host.is_v2 else 15,
                )  # fmt: skip
        except LostError as lost:
            if isinstance(lost.__cause__, WSServerHandshakeError):
                await self._raise_handshake_error(session, url, cursor, lost.__cause__)
            raise
        self._refusing.clear()
        return socket

    async def _raise_handshake_error(
        self, session: ClientSession, url: URL, cursor: int | None, failure: WSServerHandshakeError
    ) -> None:
        refusal = await _fetch_refusal(session, url) if failure.status == 400 else Refusal()
        if refusal.error == CURSOR_TOO_OLD and cursor is not None:
            raise CursorTooOldError(refusal.message)
        detail = excerpt(f"{refusal.error} {refusal.message}")
        error = answer_error(url.host, failure.status, failure.headers or {}, detail, REMEDY)
        if isinstance(error, AccessError):
            self._refusing.add(self._host_index)
            if len(self._refusing) < len(self._hosts):
                raise LostError(BUSY, str(error))
        raise error


async def _fetch_refusal(session: ClientSession, url: URL) -> Refusal:
    """A plain GET, as aiohttp does not read the body of a refused handshake."""
    with connection_errors(str(url.host)):
        async with session.get(http_url(url), allow_redirects=False) as answer:
            body = await answer.content.read(MAX_ERROR_BYTES)
            is_refused = is_refusal(answer.status)
    try:
        return msgspec.json.decode(body, type=Refusal) if is_refused else Refusal()
    except (msgspec.MsgspecError, RecursionError):
        return Refusal("", excerpt(body))


def _handle_notice(notice: JetstreamNotice, place: str) -> None:
    """Log a notice, or raise LostError for an error."""
    message = f"{place} says {excerpt(notice.name)}: {excerpt(notice.text)}"
    if notice.is_error:
        raise LostError(TOO_OLD if notice.name == CURSOR_TOO_OLD else ANNOUNCED, message)
    log.warning("%s", message)


def _gap(
    host: JetstreamHost, position: SourcePosition, first_at: float | None, starts_late: bool
) -> Gap | None:
    if host.cursor_after(position) is None:
        return Gap(f"{host.place} cannot continue from {position.cursor} of {position.place}")
    seconds = None if position.at is None or first_at is None else max(first_at - position.at, 0.0)
    # v1 skips without a notice.
    has_skipped = not host.is_v2 and seconds is not None and seconds > MAX_QUIET_S
    if not starts_late and not has_skipped:
        return None
    return Gap(f"{host.place} no longer has all posts after cursor {position.cursor}", seconds)
