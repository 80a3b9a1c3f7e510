"""A server that streams, and fails in the ways a test asks for."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import Handler
from anyio.from_thread import BlockingPortal, start_blocking_portal
from yarl import URL

Json = dict[str, Any]
FIRST = 1_790_000_000_000  # milliseconds, of the first id


class FakePlatform:
    def __init__(self) -> None:
        self.streams: list[web.StreamResponse] = []
        self.requests: list[web.Request] = []
        self.answers: list[tuple[str, web.Response]] = []
        self.opened = asyncio.Event()
        self.url = URL()

    def app(self) -> web.Application:
        return web.Application(middlewares=[self._intercept])

    @web.middleware
    async def _intercept(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        early = self.early(request)
        return await handler(request) if early is None else early

    def fits(self, path: str, pattern: str) -> bool:
        return path.startswith(pattern)

    async def write(self, part: bytes) -> None:
        for stream in self.streams:
            if not isinstance(stream, web.WebSocketResponse):
                await stream.write(part)

    def cut(self) -> None:
        for stream in self.streams:
            transport = stream._req.transport if stream._req else None
            if transport is not None:
                transport.abort()
        self.end()

    def end(self) -> None:
        self.streams.clear()
        self.opened.clear()

    async def hold(self, stream: web.StreamResponse) -> web.StreamResponse:
        """Keep a stream open until it is ended."""
        self.streams.append(stream)
        self.opened.set()
        while stream in self.streams:
            await asyncio.sleep(0.01)
        return stream

    def early(self, request: web.Request) -> web.Response | None:
        self.requests.append(request)
        for index, (pattern, answer) in enumerate(self.answers):
            if self.fits(request.path, pattern):
                del self.answers[index]
                return answer
        return None


P = TypeVar("P", bound=FakePlatform)


@asynccontextmanager
async def serve(platform: P, path: str) -> AsyncIterator[P]:
    async with TestServer(platform.app()) as server:
        platform.url = server.make_url(path)
        yield platform
        platform.end()


S = TypeVar("S")


@contextmanager
def in_a_thread(opened: AbstractAsyncContextManager[S]) -> Iterator[tuple[S, BlockingPortal]]:
    """What was opened, and the way to have it do something."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as side:
        yield side, portal
