"""Posts of Bluesky from a Jetstream, with other hosts to fall back on.

v1 is `/subscribe` (docs/README.md §5.1), v2 `/xrpc/network.bsky.jetstream.subscribeEvents`
(lexicons/network/bsky/jetstream/subscribeEvents.json), both of github.com/bluesky-social/jetstream.
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
    ERROR_BYTES,
    UnreadableFrameError,
    answer_error,
    connection_errors,
    endpoint,
    is_refusal,
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
    SourceMark,
)
from newsift.web.addresses import excerpt, http_url
from worker.errors import AccessError
from worker.posts.languages import Languages

POSTS = "app.bsky.feed.post"
V1, V2 = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
LEXICON = "network.bsky.jetstream.subscribeEvents#"
FIRST_TIME_CURSOR = 10**15  # larger cursors are times, smaller ones numbers of the instance
US_PER_SECOND = 10**6
MAX_CURSOR = 2**63 - 1
KEY_BYTES = 2**12  # ten times the length of an address
REWIND_S = 10.0  # cursors for another host go back this far, as clocks differ


class Langs(msgspec.Struct):
    langs: list[str] | None = None


class JetstreamCommit(msgspec.Struct, gc=False):
    """The fields of a commit that v1 and v2 share."""

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


class JetstreamFrame(msgspec.Struct, gc=False):
    """A frame of v2: a message, or an error that ends the connection."""

    type: str = msgspec.field(name="$type", default="")
    payload: Payload | None = None
    error: str = ""
    message: str = ""


V1_EVENT = msgspec.json.Decoder(V1Event)
V2_FRAME = msgspec.json.Decoder(JetstreamFrame)
LANGS = msgspec.json.Decoder(Langs)


class JetstreamNotice(msgspec.Struct, frozen=True):
    name: str
    text: str
    is_error: bool


class Jetstream:
    """The requests and messages of one interface."""

    def __init__(self, url: URL, collections: Collection[str], langs: Collection[str]) -> None:
        path = url.path.rstrip("/")
        if not path.endswith((V1, V2)):
            raise InputError(
                f"--url: the path {url.path!r} belongs to no Jetstream; give {V1}, or {V2}"
            )
        self.is_v2 = path.endswith(V2)
        self._key = "collections" if self.is_v2 else "wantedCollections"
        self.url, self._langs = (
            self._request_url(url, collections),
            Languages.parse(",".join(langs)),
        )
        self.place = f"{url.host}:{url.port}{path}"
        # Posts of all languages arrive every second.
        self.expects_traffic = self._key not in url.query and POSTS in collections

    def _request_url(self, url: URL, collections: Collection[str]) -> URL:
        """Parameters of the URL are not overwritten."""
        query = {self._key: list(collections)}
        if self.is_v2 and "collections" not in url.query:
            query["kinds"] = ["commit"]
        query = {key: values for key, values in query.items() if key not in url.query}
        return url.extend_query([(key, value) for key, values in query.items() for value in values])

    def cursor_after(self, mark: SourceMark | None) -> int | None:
        """The cursor to resume from; None if only new posts can be read."""
        if mark is None:
            return None
        if mark.place == self.place:
            if not isinstance(mark.cursor, int) or not 0 <= mark.cursor <= MAX_CURSOR:
                raise InputError(f"--state: the cursor {mark.cursor!r} belongs to no Jetstream; "
                                 "delete the file to start from new posts")  # fmt: skip
            return mark.cursor
        return time_cursor(mark.at)

    def read(self, value: bytes) -> SourceFrame | JetstreamNotice:
        """The frame of a message. A message that cannot be read is passed on as it is."""
        try:
            return self._read_v2(value) if self.is_v2 else self._read_v1(value)
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
            return SourceFrame(value)

    def _read_v1(self, value: bytes) -> SourceFrame:
        event = V1_EVENT.decode(value)
        at = None if event.time_us is None else event.time_us / US_PER_SECOND
        return self._frame(value, event.did, event.commit, event.time_us, at)

    def _read_v2(self, value: bytes) -> SourceFrame | JetstreamNotice:
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
        """The key is the record's address, else its author; an unwanted record has no value."""
        if cursor is not None and not 0 <= cursor <= MAX_CURSOR:
            cursor = None
        key = did
        if did and commit is not None and commit.collection and commit.rkey:
            key = f"at://{did}/{commit.collection}/{commit.rkey}"
            if self._langs.codes and commit.record:
                langs = LANGS.decode(commit.record).langs
                if langs and not any(map(self._langs.accepts, langs)):
                    return SourceFrame(b"", None, cursor, at)
        encoded = key.encode() if key else None
        return SourceFrame(
            value, encoded if encoded and len(encoded) <= KEY_BYTES else None, cursor, at
        )


def time_cursor(at: float | None, offset_s: float = -REWIND_S) -> int | None:
    """A cursor for any host: a little before this time; None if the time is invalid."""
    if at is None or not FIRST_TIME_CURSOR <= at * US_PER_SECOND <= MAX_CURSOR:
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
MAX_SILENT_S = 60.0  # a larger span from the cursor to the first frame means posts are missing
MAX_SKIP_S = 600.0  # per attempt to skip an unreadable frame
TOO_OLD_NAME = "CursorTooOld"
REMEDY = "check --url and its query"
NUMBER = re.compile(r"\b[0-9]{1,18}\b")
log = logging.getLogger("newsift.collect")


class Refusal(msgspec.Struct):
    """Why a Jetstream refuses a connection."""

    error: str = ""
    message: str = ""


REFUSAL = msgspec.json.Decoder(Refusal)


class TooOldError(Exception):
    """The host no longer has the posts at this cursor."""

    def __init__(self, cursor: int, message: str) -> None:
        super().__init__(message)
        self.cursor, self.message = cursor, message


class Bluesky:
    """Posts from one Jetstream, or from the next one when it fails."""

    name = "bluesky"

    def __init__(
        self, urls: Sequence[str], collections: Collection[str], langs: Collection[str],
        stall_s: float,
    ) -> None:  # fmt: skip
        endpoints = [endpoint(url, "ws", "wss", "http", "https") for url in urls or HOSTS]
        self._hosts = [Jetstream(url, collections or (POSTS,), langs) for url in endpoints]
        self._current = 0  # its index
        self._retry_at = [0.0] * len(self._hosts)  # no earlier, as each host asked
        self._failed = False
        self._refusing = set[int]()  # indexes of hosts that refused since the last connection
        # The mark before an unreadable frame, and the seconds that are skipped after it.
        self._unread_after: SourceMark | None = None
        self._skip_s = 0.0
        self._fallback_cursors: list[int | None] = []  # in place of the mark's, which is too old
        self._stall_s = stall_s
        self._backoff = Backoff(0.25, 30.0)

    @property
    def place(self) -> str:
        """Cursors of one host and interface are not valid for another."""
        return self._hosts[self._current].place

    def backoff(self, lost: LostError) -> Backoff:
        """250 ms to 30 s, as in the Jetstream's own client."""
        return self._backoff

    async def arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        """Posts since the mark, after a Gap if the host no longer has all of them."""
        try:
            async with aclosing(self._arrivals(session, mark)) as arrivals:
                async for arrival in arrivals:
                    yield arrival
        except LostError as lost:
            if isinstance(lost, UnreadableFrameError):
                self._skip_unreadable(mark)
            self._retry_at[self._current] = monotonic() + lost.wait
            lost.wait = max(0.0, min(self._retry_at) - monotonic())
            raise

    def _skip_unreadable(self, mark: SourceMark | None) -> None:
        """Skip a growing span where the same unreadable frame comes again and again."""
        again = mark is not None and mark == self._unread_after
        self._fallback_cursors = []
        self._skip_s = min(max(1.0, 2 * self._skip_s), MAX_SKIP_S) if again else 0.0
        self._unread_after = mark

    def _choose_host(self) -> Jetstream:
        """The previous host, or the next after a failure; hosts that asked to wait come last."""
        if self._failed and len(self._hosts) > 1:
            count, now = len(self._hosts), monotonic()
            others = [(self._current + step) % count for step in range(1, count + 1)]
            self._current = min(others, key=lambda index: max(0.0, self._retry_at[index] - now))
            self._fallback_cursors = []
        self._failed = True
        return self._hosts[self._current]

    async def _arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        host = self._choose_host()
        async with self._connection(session, host, mark) as (socket, cursor):
            yield ()
            first, behind_cursor = True, cursor != host.cursor_after(mark)
            async for message in self._messages(socket, host):
                frame = host.read(message)
                if isinstance(frame, JetstreamNotice):
                    if frame.name == TOO_OLD_NAME and cursor is not None:
                        self._choose_fallback(cursor, frame.text, mark)
                    behind_cursor = _handle_notice(frame, host.place) or behind_cursor
                    continue
                if first and frame.cursor is not None:
                    first, self._failed, self._fallback_cursors = False, False, []
                    if mark is None or frame.cursor != mark.cursor:
                        self._unread_after, self._skip_s = None, 0.0
                    if mark is not None and (gap := _gap(host, mark, frame.at, behind_cursor)):
                        yield gap
                yield (frame,)

    async def _messages(
        self, socket: ClientWebSocketResponse, host: Jetstream
    ) -> AsyncIterator[bytes]:
        """Messages of the socket. On a stall the current fallback cursor is dropped."""
        try:
            async for text in socket_texts(socket, host.place, self._stall_s):
                yield text
        except LostError as lost:
            if lost.reason == STALLED and host.expects_traffic and len(self._fallback_cursors) > 1:
                del self._fallback_cursors[0]
            raise

    def _choose_fallback(self, cursor: int, message: str, mark: SourceMark | None) -> None:
        """Try the next cursor: the oldest the host names, one by time, then new posts only."""
        if self._fallback_cursors:
            del self._fallback_cursors[0]
            return
        floor = next((int(n) for n in NUMBER.findall(message) if int(n) > cursor), None)
        time = None if mark is None else time_cursor(mark.at)
        self._fallback_cursors = [value for value in (floor, time) if value is not None] + [None]

    @asynccontextmanager
    async def _connection(
        self, session: ClientSession, host: Jetstream, mark: SourceMark | None
    ) -> AsyncIterator[tuple[ClientWebSocketResponse, int | None]]:
        """The connection and the cursor that it was opened with."""
        if mark is not None and not self._fallback_cursors:
            if self._skip_s and (later := time_cursor(mark.at, self._skip_s)):
                self._fallback_cursors = [later, None]
            elif mark.place != host.place:
                self._fallback_cursors = [host.cursor_after(mark), None]
        while True:
            cursor = (
                self._fallback_cursors[0] if self._fallback_cursors else host.cursor_after(mark)
            )
            try:
                socket = await self._connect(session, host, cursor)
                break
            except TooOldError as error:
                log.warning("%s no longer has the posts after cursor %s", host.place, cursor)
                self._choose_fallback(error.cursor, error.message, mark)
        try:
            yield socket, cursor
        finally:
            await socket.close()

    async def _connect(
        self, session: ClientSession, host: Jetstream, cursor: int | None
    ) -> ClientWebSocketResponse:
        url = host.url if cursor is None else host.url.update_query(cursor=str(cursor))
        limits = ClientWSTimeout(ws_receive=self._stall_s, ws_close=1.0)
        try:
            with connection_errors(host.place):
                socket = await session.ws_connect(
                    url, timeout=limits, max_msg_size=MAX_FRAME_BYTES,
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
        self, session: ClientSession, url: URL, cursor: int | None, why: WSServerHandshakeError
    ) -> None:
        """Raise the error for an answer that opened no web socket."""
        refusal = await _fetch_refusal(session, url) if why.status == 400 else Refusal()
        if refusal.error == TOO_OLD_NAME and cursor is not None:
            raise TooOldError(cursor, refusal.message)
        detail = excerpt(f"{refusal.error} {refusal.message}")
        error = answer_error(url.host, why.status, why.headers or {}, detail, REMEDY)
        if isinstance(error, AccessError):
            self._refusing.add(self._current)
            if len(self._refusing) < len(self._hosts):
                raise LostError(BUSY, str(error))
        raise error


async def _fetch_refusal(session: ClientSession, url: URL) -> Refusal:
    """aiohttp does not read the body of such an answer, so it is requested by a plain GET."""
    plain = http_url(url)
    with connection_errors(str(url.host)):
        async with session.get(plain, allow_redirects=False) as answer:
            body = await answer.content.read(ERROR_BYTES)
            is_refused = is_refusal(answer.status)
    try:
        return REFUSAL.decode(body) if is_refused else Refusal()
    except (msgspec.MsgspecError, RecursionError):
        return Refusal("", excerpt(body))


def _handle_notice(notice: JetstreamNotice, place: str) -> bool:
    """Log a notice, raise an error. Returns whether the cursor was too old."""
    message = f"{place} says {excerpt(notice.name)}: {excerpt(notice.text)}"
    if notice.is_error:
        raise LostError(TOO_OLD if notice.name == TOO_OLD_NAME else ANNOUNCED, message)
    log.warning("%s", message)
    return notice.name == "OutdatedCursor"


def _gap(host: Jetstream, mark: SourceMark, first: float | None, behind_cursor: bool) -> Gap | None:
    """What is missing between the mark and the first frame."""
    if host.cursor_after(mark) is None:
        return Gap(f"{host.place} cannot continue from {mark.cursor} of {mark.place}")
    seconds = None if mark.at is None or first is None else max(first - mark.at, 0.0)
    # v1 skips without a notice.
    silent_gap = not host.is_v2 and seconds is not None and seconds > MAX_SILENT_S
    if not behind_cursor and not silent_gap:
        return None
    return Gap(f"{host.place} no longer has all posts after cursor {mark.cursor}", seconds)
