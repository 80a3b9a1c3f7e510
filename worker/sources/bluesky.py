"""Posts of Bluesky, by a Jetstream: one connection after the other, from one host or the next."""

import logging
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from time import monotonic

import msgspec
from aiohttp import ClientSession, ClientWSTimeout, WSServerHandshakeError
from aiohttp.client_ws import ClientWebSocketResponse
from yarl import URL

from worker.errors import AccessError
from worker.sources.backoff import Backoff
from worker.sources.frame import Gap, Mark
from worker.sources.http import TOLD_BYTES, answered, endpoint, excerpt, is_refusal, losing
from worker.sources.jetstream import POSTS, Jetstream, JetstreamSaid, time_cursor
from worker.sources.sockets import UnreadableFrameError, texts
from worker.sources.source import BUSY, STALLED, TOLD, TOO_OLD, Arrivals, LostError

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
TOO_OLD_SAID = "CursorTooOld"
NUMBER = re.compile(r"\b[0-9]{1,18}\b")
log = logging.getLogger("newsift.collect")


class Refusal(msgspec.Struct):
    """Why a Jetstream does not begin to stream."""

    error: str = ""
    message: str = ""


REFUSAL = msgspec.json.Decoder(Refusal)


class TooOld(Exception):
    """The host no longer has what stands at a cursor, and what it says of that."""

    def __init__(self, cursor: int, said: str) -> None:
        super().__init__(said)
        self.cursor, self.said = cursor, said


class Bluesky:
    """A Jetstream that posts come from, or the next one when it fails."""

    name = "bluesky"

    def __init__(
        self, urls: Sequence[str], collections: Collection[str], langs: Collection[str],
        stall_s: float,
    ) -> None:  # fmt: skip
        given = [endpoint(url, "ws", "wss", "http", "https") for url in urls or HOSTS]
        self._hosts = [Jetstream(url, collections or (POSTS,), langs) for url in given]
        self._now = 0  # which of them
        self._away = [0.0] * len(self._hosts)  # until when each asks to stay away
        self._failed = False
        self._refusing = set[int]()  # hosts, since one has let us in
        self._unread_after: Mark | None = None  # a frame that cannot be read follows it,
        self._passed_s = 0.0  # for which so much is left out
        self._instead: list[int | None] = []  # what to ask for, as the mark's cursor is too old
        self._stall_s = stall_s
        self._backoff = Backoff(0.25, 30.0)

    @property
    def place(self) -> str:
        """The host and the interface: cursors of one are not those of another."""
        return self._hosts[self._now].place

    def backoff(self, lost: LostError) -> Backoff:
        """250 ms to 30 s, as the Jetstream's own client has it."""
        return self._backoff

    async def arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        """What comes from the mark on; a gap where the host no longer has what came after it."""
        try:
            async with aclosing(self._arrivals(session, mark)) as arrivals:
                async for found in arrivals:
                    yield found
        except LostError as lost:
            if isinstance(lost, UnreadableFrameError):
                self._pass_over(mark)
            self._away[self._now] = monotonic() + lost.wait
            lost.wait = max(0.0, min(self._away) - monotonic())
            raise

    def _pass_over(self, mark: Mark | None) -> None:
        """Leave more and more out where the same frame comes again and again, and is unreadable."""
        again = mark is not None and mark == self._unread_after
        self._instead = []
        self._passed_s = min(max(1.0, 2 * self._passed_s), LONGEST_PASS_S) if again else 0.0
        self._unread_after = mark

    def _choose_host(self) -> Jetstream:
        """The host of before, or the next when it failed: who asked to stay away, last."""
        if self._failed and len(self._hosts) > 1:
            count, now = len(self._hosts), monotonic()
            others = [(self._now + step) % count for step in range(1, count + 1)]
            self._now = min(others, key=lambda each: max(0.0, self._away[each] - now))
            self._instead = []
        self._failed = True
        return self._hosts[self._now]

    async def _arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        host = self._choose_host()
        async with self._connected(session, host, mark) as (socket, cursor):
            yield ()
            first, clamped = True, cursor != host.since(mark)
            async for message in self._messages(socket, host):
                found = host.read(message)
                if isinstance(found, JetstreamSaid):
                    if found.name == TOO_OLD_SAID and cursor is not None:
                        self._ask_for_later(cursor, found.said, mark)
                    clamped = _heed(found, host.place) or clamped
                    continue
                if first and found.cursor is not None:
                    first, self._failed, self._instead = False, False, []
                    if mark is None or found.cursor != mark.cursor:
                        self._unread_after, self._passed_s = None, 0.0
                    if mark is not None and (gap := _gap(host, mark, found.at, clamped)):
                        yield gap
                yield (found,)

    async def _messages(
        self, socket: ClientWebSocketResponse, host: Jetstream
    ) -> AsyncIterator[bytes]:
        """The texts that come; where posts are wanted and none comes of a cursor, it is no good."""
        try:
            async for text in texts(socket, host.place, self._stall_s):
                yield text
        except LostError as lost:
            if lost.reason == STALLED and host.is_busy and len(self._instead) > 1:
                del self._instead[0]
            raise

    def _ask_for_later(self, cursor: int, said: str, mark: Mark | None) -> None:
        """Go on to what else to ask for: the oldest there is by number, by time, what is new."""
        if self._instead:
            del self._instead[0]
            return
        floor = next((int(n) for n in NUMBER.findall(said) if int(n) > cursor), None)
        time = None if mark is None else time_cursor(mark.at)
        self._instead = [each for each in (floor, time) if each is not None] + [None]

    @asynccontextmanager
    async def _connected(
        self, session: ClientSession, host: Jetstream, mark: Mark | None
    ) -> AsyncIterator[tuple[ClientWebSocketResponse, int | None]]:
        """A connection from the mark on, or from the oldest there is, and the cursor of it."""
        if mark is not None and not self._instead:
            if self._passed_s and (later := time_cursor(mark.at, self._passed_s)):
                self._instead = [later, None]
            elif mark.place != host.place:
                self._instead = [host.since(mark), None]
        while True:
            cursor = self._instead[0] if self._instead else host.since(mark)
            try:
                socket = await self._connect(session, host, cursor)
                break
            except TooOld as error:
                log.warning("%s no longer has what stands at the cursor %s", host.place, cursor)
                self._ask_for_later(error.cursor, error.said, mark)
        try:
            yield socket, cursor
        finally:
            await socket.close()

    async def _connect(
        self, session: ClientSession, host: Jetstream, cursor: int | None
    ) -> ClientWebSocketResponse:
        asked = host.url if cursor is None else host.url.update_query(cursor=str(cursor))
        limits = ClientWSTimeout(ws_receive=self._stall_s, ws_close=1.0)
        try:
            with losing(host.place):
                socket = await session.ws_connect(
                    asked, timeout=limits, max_msg_size=LARGEST,
                    protocols=(PROTOCOL,) if host.is_v2 else (),
                    compress=0 if host.is_v2 else 15,
                )  # fmt: skip
        except LostError as lost:
            if isinstance(lost.__cause__, WSServerHandshakeError):
                await self._turned_away(session, asked, cursor, lost.__cause__)
            raise
        self._refusing.clear()
        return socket

    async def _turned_away(
        self, session: ClientSession, asked: URL, cursor: int | None, why: WSServerHandshakeError
    ) -> None:
        """Raise what an answer means that opened no web socket."""
        said = Refusal()
        if why.status == 400:
            said = await _said(session, asked)
        if said.error == TOO_OLD_SAID and cursor is not None:
            raise TooOld(cursor, said.message)
        told = excerpt(f"{said.error} {said.message}")
        what = f"{asked.host} answers {why.status}{f' ({told})' if told else ''}"
        found = answered(why.status, why.headers or {}, what, "check --url and what it asks for")
        if isinstance(found, AccessError):
            self._refusing.add(self._now)
            if len(self._refusing) < len(self._hosts):
                raise LostError(BUSY, what)
        raise found


async def _said(session: ClientSession, asked: URL) -> Refusal:
    """Why it is refused: aiohttp leaves the words unread, so they are asked for by a plain GET."""
    plain = asked.with_scheme({"ws": "http", "wss": "https"}.get(asked.scheme, asked.scheme))
    with losing(str(asked.host)):
        async with session.get(plain, allow_redirects=False) as answer:
            body = await answer.content.read(TOLD_BYTES)
            refused = is_refusal(answer.status)
    try:
        return REFUSAL.decode(body) if refused else Refusal()
    except msgspec.MsgspecError:
        return Refusal("", excerpt(body))


def _heed(told: JetstreamSaid, place: str) -> bool:
    """Log a notice, an error ends the connection; whether it says that the cursor was too old."""
    said = f"{place} says {excerpt(told.name)}: {excerpt(told.said)}"
    if told.ends:
        raise LostError(TOO_OLD if told.name == TOO_OLD_SAID else TOLD, said)
    log.warning("%s", said)
    return told.name == "OutdatedCursor"


def _gap(host: Jetstream, mark: Mark, first: float | None, clamped: bool) -> Gap | None:
    """What is missing between the mark and the first frame; v1 says nothing of it by itself."""
    if host.since(mark) is None:
        return Gap(f"{host.place} cannot go on from {mark.cursor} of {mark.place}")
    seconds = None if mark.at is None or first is None else max(first - mark.at, 0.0)
    in_silence = not host.is_v2 and seconds is not None and seconds > CLAMPED_S
    if not clamped and not in_silence:
        return None
    return Gap(f"{host.place} does not give what came after its cursor {mark.cursor}", seconds)
