"""A Jetstream that speaks the documented forms, and does to a client what theirs may do.

Forms: docs/README.md §5.1 and §5.2 and lexicons/network/bsky/jetstream/subscribeEvents.json of
https://github.com/bluesky-social/jetstream, read in August 2026. Only its filters are left out.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web
from multidict import MultiDict

from newsift.collect.bluesky import V1_PATH, V2_PATH

BASE = 1_779_719_009_000_000  # the time of the first event, in microseconds
STEP = 20_000_000  # microseconds from one event to the next
LISTENING = web.AppKey("listening", set[asyncio.Future[None]])
LEXICON = "network.bsky.jetstream.subscribeEvents#"
End = Callable[[web.Request, web.WebSocketResponse], Awaitable[None]]
Fault = Callable[["JetstreamSide", web.Request], Awaitable[web.StreamResponse]]


def address(number: int) -> str:
    return f"at://did:plc:a{number}/app.bsky.feed.post/k{number}"


def event(number: int, version: int) -> str:
    post = {"$type": "app.bsky.feed.post", "text": f"post {number}", "langs": ["en"]}
    commit = {"rev": "r", "operation": "create", "collection": "app.bsky.feed.post",
              "rkey": f"k{number}", "record": post, "cid": "bafy"}  # fmt: skip
    did, at = f"did:plc:a{number}", BASE + number * STEP
    if version == 1:
        return json.dumps({"did": did, "time_us": at, "kind": "commit", "commit": commit})
    time = datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="microseconds")
    payload = {"$type": f"{LEXICON}commit", "seq": number + 1, "did": did,
            "time": time.replace("+00:00", "Z")}  # fmt: skip
    return json.dumps({"$type": "message", "payload": payload | commit})


class JetstreamSide:
    """A server with events, which it sends from the cursor on; faults come first, one a visit."""

    def __init__(self, version: int, count: int) -> None:
        self.version, self.path = version, V1_PATH if version == 1 else V2_PATH
        self.events = [event(number, version) for number in range(count)]
        self.floor = 0  # the oldest event that it still has
        self.faults: deque[Fault] = deque()
        self.requests: list[MultiDict[str]] = []
        self.port = self.sent = 0  # of the events so many were sent in this visit

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{self.path}"

    @property
    def cursors(self) -> list[int | None]:
        return [int(one["cursor"]) if "cursor" in one else None for one in self.requests]

    def cursor_of(self, number: int) -> int:
        return BASE + number * STEP if self.version == 1 else number + 1

    def start_of(self, cursor: int | None) -> int:
        """The first event that a cursor asks for, were all still there."""
        if cursor is None:
            return 0
        if cursor >= 10**15:
            return max(0, -(-(cursor - BASE) // STEP))
        return cursor - 1 if self.version == 2 else 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if "Upgrade" in request.headers:
            self.requests.append(MultiDict(request.query))
            if self.faults:
                return await self.faults.popleft()(self, request)
        given = request.query.get("cursor")
        cursor = None if given is None else int(given)
        first = self.start_of(cursor)
        clamped = first < self.floor
        if clamped and self.version == 2 and cursor is not None and cursor < 10**15:
            payload = f"subscribe: cursor too old: cursor {cursor} below lookback floor "
            payload += f"{self.floor + 1}; re-backfill from your last seq"
            return web.json_response({"error": "CursorTooOld", "message": payload}, status=400)
        socket = await opened(request)
        if clamped and self.version == 2:
            info = {"$type": f"{LEXICON}info", "name": "OutdatedCursor", "message": "resumed"}
            await socket.send_str(json.dumps({"$type": "message", "payload": info}))
        await self.stream(socket, max(first, self.floor))
        return socket

    async def stream(self, socket: web.WebSocketResponse, first: int) -> None:
        while not socket.closed:
            for text in self.events[first:]:
                await socket.send_str(text)
            self.sent = first = max(first, len(self.events))
            await asyncio.sleep(0.01)


async def opened(request: web.Request) -> web.WebSocketResponse:
    """A web socket; whoever sends data on it is cut off, as v2 does it."""
    deflated = request.path == V1_PATH and "compress" in request.query  # v1 alone negotiates it
    socket = web.WebSocketResponse(protocols=("xrpc.v1.json",), compress=deflated)
    await socket.prepare(request)

    async def listen() -> None:
        await socket.receive()
        await socket.close()

    request.app[LISTENING].add(asyncio.ensure_future(listen()))
    return socket


def refuse_with(status: int, **headers: str) -> Fault:
    async def refuse(_side: JetstreamSide, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, text="not now")

    return refuse


def after(count: int, end: End) -> Fault:
    """Send so many events from the cursor on, then do something else."""

    async def cut(side: JetstreamSide, request: web.Request) -> web.StreamResponse:
        socket = await opened(request)
        given = request.query.get("cursor")
        first = side.start_of(None if given is None else int(given))
        for text in side.events[first : first + count]:
            await socket.send_str(text)
        await end(request, socket)
        return socket

    return cut


def send_and_close(*texts: str) -> End:
    async def end(_request: web.Request, socket: web.WebSocketResponse) -> None:
        for text in texts:
            await socket.send_str(text)
        await socket.close()

    return end


async def abort(request: web.Request, _socket: web.WebSocketResponse) -> None:
    """Break the connection without a word: the client sees 1006."""
    assert request.transport is not None
    request.transport.abort()


async def half_a_frame(request: web.Request, _socket: web.WebSocketResponse) -> None:
    assert request.transport is not None
    request.transport.write(b"\x81\x7e\x03\xe8" + b'{"did": "did:plc:a"}')
    await asyncio.sleep(0.05)
    request.transport.close()


async def fall_silent(_request: web.Request, _socket: web.WebSocketResponse) -> None:
    await asyncio.sleep(60)


async def ping_in_silence(_request: web.Request, socket: web.WebSocketResponse) -> None:
    """Show that the connection stands, again and again, and send nothing more."""
    for _ in range(600):
        await socket.ping()
        await asyncio.sleep(0.1)


async def binary(_request: web.Request, socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\x28\xb5\x2f\xfd")


@asynccontextmanager
async def serve_jetstream(side: JetstreamSide) -> AsyncIterator[JetstreamSide]:
    app = web.Application()
    app[LISTENING] = set()
    app.add_routes([web.get(side.path, side.serve)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", side.port).start()
    side.port = runner.addresses[0][1]
    try:
        yield side
    finally:
        await runner.cleanup()
