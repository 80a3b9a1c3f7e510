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
from newsift.web.addresses import excerpt
from worker.errors import AccessError
from worker.posts.languages import Languages

POSTS = "app.bsky.feed.post"
V1, V2 = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
LEXICON = "network.bsky.jetstream.subscribeEvents#"
MICROSECONDS = 10**15  # from here on a cursor is a time, below it a number of the instance
SECOND = 10**6
LARGEST_CURSOR = 2**63 - 1
KEY_BYTES = 2**12  # an address has a tenth of it
REWIND_S = 10.0  # on another host, whose clock is another


class Langs(msgspec.Struct):
    langs: list[str] | None = None


class JetstreamCommit(msgspec.Struct, gc=False):
    """A commit in v1, or what v2 says of one."""

    collection: str | None = None
    rkey: str | None = None
    record: msgspec.Raw = msgspec.Raw()


class FirstEvent(msgspec.Struct, gc=False):
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


FIRST = msgspec.json.Decoder(FirstEvent)
SECOND_FORM = msgspec.json.Decoder(JetstreamFrame)
LANGS = msgspec.json.Decoder(Langs)


class JetstreamNotice(msgspec.Struct, frozen=True):
    name: str
    text: str
    ends: bool


class Jetstream:
    """The requests and messages of one interface."""

    def __init__(self, url: URL, collections: Collection[str], langs: Collection[str]) -> None:
        path = url.path.rstrip("/")
        if not path.endswith((V1, V2)):
            raise InputError(
                f"--url: the path {url.path!r} is none of a Jetstream; give {V1}, or {V2}"
            )
        self.is_v2 = path.endswith(V2)
        self._key = "collections" if self.is_v2 else "wantedCollections"
        self.url, self._langs = self._request_url(url, collections), Languages.of(",".join(langs))
        self.place = f"{url.host}:{url.port}{path}"
        self.is_busy = self._key not in url.query and POSTS in collections  # some come each second

    def _request_url(self, url: URL, collections: Collection[str]) -> URL:
        """Parameters that the URL has already are not overwritten."""
        query = {self._key: list(collections)}
        if self.is_v2 and "collections" not in url.query:
            query["kinds"] = ["commit"]
        query = {key: values for key, values in query.items() if key not in url.query}
        return url.extend_query([(key, each) for key, values in query.items() for each in values])

    def since(self, mark: SourceMark | None) -> int | None:
        """The cursor to resume from; None if only new posts can be read."""
        if mark is None:
            return None
        if mark.place == self.place:
            if not isinstance(mark.cursor, int) or not 0 <= mark.cursor <= LARGEST_CURSOR:
                raise InputError(f"--state: the cursor {mark.cursor!r} is none of a Jetstream; "
                                 "delete the file to begin with what is new")  # fmt: skip
            return mark.cursor
        return time_cursor(mark.at)

    def read(self, value: bytes) -> SourceFrame | JetstreamNotice:
        """The frame of a message. A message that cannot be read is passed on as it is."""
        try:
            return self._second(value) if self.is_v2 else self._first(value)
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
            return SourceFrame(value)

    def _first(self, value: bytes) -> SourceFrame:
        event = FIRST.decode(value)
        change, at = event.commit, None if event.time_us is None else event.time_us / SECOND
        return self._frame(value, event.did, change, event.time_us, at)

    def _second(self, value: bytes) -> SourceFrame | JetstreamNotice:
        frame = SECOND_FORM.decode(value)
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
        self, value: bytes, did: str | None, change: JetstreamCommit | None, cursor: int | None,
        at: float | None,
    ) -> SourceFrame:  # fmt: skip
        """The key is the record's address, else its author; an unwanted record has no value."""
        if cursor is not None and not 0 <= cursor <= LARGEST_CURSOR:
            cursor = None
        key = did
        if did and change is not None and change.collection and change.rkey:
            key = f"at://{did}/{change.collection}/{change.rkey}"
            if self._langs.wanted and change.record:
                langs = LANGS.decode(change.record).langs
                if langs and not any(map(self._langs.keep, langs)):
                    return SourceFrame(b"", None, cursor, at)
        encoded = key.encode() if key else None
        return SourceFrame(
            value, encoded if encoded and len(encoded) <= KEY_BYTES else None, cursor, at
        )


def time_cursor(at: float | None, later_s: float = -REWIND_S) -> int | None:
    """A cursor for any host: a little before this time; None if the time is invalid."""
    if at is None or not MICROSECONDS <= at * SECOND <= LARGEST_CURSOR:
        return None
    return round((at + later_s) * SECOND)


HOSTS = (
    "wss://jetstream.us-east.bsky.network/xrpc/network.bsky.jetstream.subscribeEvents",
    "wss://jetstream.us-west.bsky.network/xrpc/network.bsky.jetstream.subscribeEvents",
    "wss://jetstream2.us-east.bsky.network/subscribe",
    "wss://jetstream2.us-west.bsky.network/subscribe",
)
PROTOCOL = "xrpc.v1.json"
LARGEST = 2**24  # bytes of a frame
CLAMPED_S = 60.0  # from the cursor to the first frame: there was more between them once
LONGEST_PASS_S = 600.0  # by frames that cannot be read, at once
TOO_OLD_NAME = "CursorTooOld"
REMEDY = "check --url and what it asks for"
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
        self._now = 0  # which of them
        self._away = [0.0] * len(self._hosts)  # until when each asks to stay away
        self._failed = False
        self._refusing = set[int]()  # hosts, since one has let us in
        self._unread_after: SourceMark | None = None  # a frame that cannot be read follows it,
        self._skip_s = 0.0  # for which so much is left out
        self._instead: list[int | None] = []  # what to ask for, as the mark's cursor is too old
        self._stall_s = stall_s
        self._backoff = Backoff(0.25, 30.0)

    @property
    def place(self) -> str:
        """Cursors of one host and interface are not valid for another."""
        return self._hosts[self._now].place

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
                self._pass_over(mark)
            self._away[self._now] = monotonic() + lost.wait
            lost.wait = max(0.0, min(self._away) - monotonic())
            raise

    def _pass_over(self, mark: SourceMark | None) -> None:
        """Skip a growing span where the same unreadable frame comes again and again."""
        again = mark is not None and mark == self._unread_after
        self._instead = []
        self._skip_s = min(max(1.0, 2 * self._skip_s), LONGEST_PASS_S) if again else 0.0
        self._unread_after = mark

    def _choose_host(self) -> Jetstream:
        """The previous host, or the next after a failure; hosts that asked to wait come last."""
        if self._failed and len(self._hosts) > 1:
            count, now = len(self._hosts), monotonic()
            others = [(self._now + step) % count for step in range(1, count + 1)]
            self._now = min(others, key=lambda each: max(0.0, self._away[each] - now))
            self._instead = []
        self._failed = True
        return self._hosts[self._now]

    async def _arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        host = self._choose_host()
        async with self._connected(session, host, mark) as (socket, cursor):
            yield ()
            first, clamped = True, cursor != host.since(mark)
            async for message in self._messages(socket, host):
                message_read = host.read(message)
                if isinstance(message_read, JetstreamNotice):
                    if message_read.name == TOO_OLD_NAME and cursor is not None:
                        self._ask_for_later(cursor, message_read.text, mark)
                    clamped = _handle_notice(message_read, host.place) or clamped
                    continue
                if first and message_read.cursor is not None:
                    first, self._failed, self._instead = False, False, []
                    if mark is None or message_read.cursor != mark.cursor:
                        self._unread_after, self._skip_s = None, 0.0
                    if mark is not None and (gap := _gap(host, mark, message_read.at, clamped)):
                        yield gap
                yield (message_read,)

    async def _messages(
        self, socket: ClientWebSocketResponse, host: Jetstream
    ) -> AsyncIterator[bytes]:
        """A cursor after which no posts arrive is dropped."""
        try:
            async for text in socket_texts(socket, host.place, self._stall_s):
                yield text
        except LostError as lost:
            if lost.reason == STALLED and host.is_busy and len(self._instead) > 1:
                del self._instead[0]
            raise

    def _ask_for_later(self, cursor: int, message: str, mark: SourceMark | None) -> None:
        """Try the next cursor: the oldest the host names, one by time, then new posts only."""
        if self._instead:
            del self._instead[0]
            return
        floor = next((int(n) for n in NUMBER.findall(message) if int(n) > cursor), None)
        time = None if mark is None else time_cursor(mark.at)
        self._instead = [each for each in (floor, time) if each is not None] + [None]

    @asynccontextmanager
    async def _connected(
        self, session: ClientSession, host: Jetstream, mark: SourceMark | None
    ) -> AsyncIterator[tuple[ClientWebSocketResponse, int | None]]:
        """The connection and the cursor that it was opened with."""
        if mark is not None and not self._instead:
            if self._skip_s and (later := time_cursor(mark.at, self._skip_s)):
                self._instead = [later, None]
            elif mark.place != host.place:
                self._instead = [host.since(mark), None]
        while True:
            cursor = self._instead[0] if self._instead else host.since(mark)
            try:
                socket = await self._connect(session, host, cursor)
                break
            except TooOldError as error:
                log.warning("%s no longer has what stands at the cursor %s", host.place, cursor)
                self._ask_for_later(error.cursor, error.message, mark)
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
                    url, timeout=limits, max_msg_size=LARGEST,
                    protocols=(PROTOCOL,) if host.is_v2 else (),
                    compress=0 if host.is_v2 else 15,
                )  # fmt: skip
        except LostError as lost:
            if isinstance(lost.__cause__, WSServerHandshakeError):
                await self._turned_away(session, url, cursor, lost.__cause__)
            raise
        self._refusing.clear()
        return socket

    async def _turned_away(
        self, session: ClientSession, url: URL, cursor: int | None, why: WSServerHandshakeError
    ) -> None:
        """Raise the error for an answer that opened no web socket."""
        refusal = await _fetch_refusal(session, url) if why.status == 400 else Refusal()
        if refusal.error == TOO_OLD_NAME and cursor is not None:
            raise TooOldError(cursor, refusal.message)
        words = excerpt(f"{refusal.error} {refusal.message}")
        error = answer_error(url.host, why.status, why.headers or {}, words, REMEDY)
        if isinstance(error, AccessError):
            self._refusing.add(self._now)
            if len(self._refusing) < len(self._hosts):
                raise LostError(BUSY, str(error))
        raise error


async def _fetch_refusal(session: ClientSession, url: URL) -> Refusal:
    """aiohttp does not read the body of such an answer, so it is requested by a plain GET."""
    plain = url.with_scheme({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme))
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
    if notice.ends:
        raise LostError(TOO_OLD if notice.name == TOO_OLD_NAME else ANNOUNCED, message)
    log.warning("%s", message)
    return notice.name == "OutdatedCursor"


def _gap(host: Jetstream, mark: SourceMark, first: float | None, clamped: bool) -> Gap | None:
    """What is missing between the mark and the first frame; v1 does not report it."""
    if host.since(mark) is None:
        return Gap(f"{host.place} cannot go on from {mark.cursor} of {mark.place}")
    seconds = None if mark.at is None or first is None else max(first - mark.at, 0.0)
    in_silence = not host.is_v2 and seconds is not None and seconds > CLAMPED_S
    if not clamped and not in_silence:
        return None
    return Gap(f"{host.place} does not give what came after its cursor {mark.cursor}", seconds)
