"""A small web server of a process that runs long: /metrics, /healthz and /readyz."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from aiohttp import web

from worker.config import WebConfig
from worker.errors import ConfigError
from worker.watch.metrics import CONTENT_TYPE
from worker.watch.visits import (
    ACCEPTED,
    HEAD_BYTES,
    QUEUE,
    Connections,
    Visit,
    asks_for_loopback,
    is_loopback,
)

PORT = 6066
TRIES = 100  # ports after the default one
GRACE_S = 1.0  # for answers under way when the process ends
LINGER_S = 1.0  # for the rest of a body that nobody reads, so that the client reads the answer
FRESH = {"Cache-Control": "no-store"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("newsift.web")


class Site:
    """What is served of a process, on the event loop that starts it."""

    host_key, port_key = "web.host", "web.port"  # what refusals name
    first_port = PORT
    body_bytes = 2**14  # of a request: nothing here reads one

    def __init__(
        self, config: WebConfig, render: Callable[[], bytes], not_ready: Callable[[], str]
    ) -> None:
        """`render` its metrics, and why it is not ready, if so."""
        self._config, self._render, self._not_ready = config, render, not_ready
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self.port = 0

    async def start(self) -> None:
        """Listen: on the configured port, or on the first free one from the default on."""
        app = web.Application(middlewares=[self._for_this_machine], client_max_size=self.body_bytes)
        app.on_response_prepare.append(_close)
        self.prepare(app)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=GRACE_S,
            lingering_time=LINGER_S,
            max_field_size=HEAD_BYTES,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        try:
            make = partial(Visit, self._runner.server, self._connections, self.body_bytes)
            self._server = await self._listen(make)
        except ConfigError:
            await self.stop()
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        if self._config.port is None and self.port != self.first_port:
            log.warning("web: port %d is taken; listening on %d", self.first_port, self.port)
        self.began()

    def began(self) -> None:
        """Say where it listens."""
        log.info("web: http://%s:%d/metrics", self._config.host, self.port)

    def prepare(self, app: web.Application) -> None:
        """Give the application what it needs beside its routes."""

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """What is answered."""
        return [
            web.get("/metrics", self._get_metrics), web.get("/healthz", self._get_health),
            web.get("/readyz", self._get_ready),
        ]  # fmt: skip

    async def stop(self) -> None:
        """Stop listening; harmless if it never began."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._connections.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, make: Callable[[], Visit]) -> asyncio.Server:
        loop, host, fixed = asyncio.get_running_loop(), self._config.host, self._config.port
        first = self.first_port
        for port in range(first, first + TRIES) if fixed is None else [fixed]:
            try:
                server = await loop.create_server(make, host, port, backlog=ACCEPTED)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise self._refusal(port, error) from error
            else:
                # asyncio accepts as many at once as the kernel keeps: let that keep more.
                for each in server.sockets:
                    with socket.socket(fileno=os.dup(each.fileno())) as listening:
                        listening.listen(QUEUE)
                return server
        taken = f"{fixed} is taken; free it, or give another"
        none = f"null: ports {first} to {port} are all taken; set web.port to a free one"
        raise ConfigError(f"{self.port_key}: {none if fixed is None else taken}")

    def _refusal(self, port: int, error: OSError) -> ConfigError:
        if error.errno == errno.EACCES:
            told = f"{port} is not allowed for this user; give 1024 or more"
            return ConfigError(f"{self.port_key}: {told}")
        reason = error.strerror or error
        told = f"{self._config.host} is no address of this host ({reason})"
        return ConfigError(f"{self.host_key}: {told}; give 127.0.0.1, or 0.0.0.0 for all")

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._render(), headers={"Content-Type": CONTENT_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return verdict("healthy", "")

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return verdict("ready", self._not_ready())

    @web.middleware
    async def _for_this_machine(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what a browser was led to ask, where only this machine is to be answered."""
        hosts = request.headers.getall("Host", [])
        if is_loopback(self._config.host) and not all(map(asks_for_loopback, hosts)):
            return json_answer({"reason": "Host: is not this machine; ask for 127.0.0.1"}, 421)
        return await handler(request)


def verdict(word: str, reason: str, **more: str) -> web.Response:
    """Whether a process is healthy or ready, and why not."""
    return json_answer({word: not reason, "reason": reason, **more}, 503 if reason else 200)


def json_answer(found: dict[str, Any], status: int = 200) -> web.Response:
    """Something as JSON, which nobody is to keep."""
    return web.json_response(found, status=status, headers=FRESH)


async def _close(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Connection"] = "close"
    response.force_close()
