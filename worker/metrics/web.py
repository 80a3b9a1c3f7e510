"""The web servers of long-running processes: /metrics, /healthz and /readyz; /seeds and /near."""

import asyncio
import errno
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import Any, cast

from aiohttp import web

from worker.config import WebConfig
from worker.errors import ConfigError
from worker.metrics.address_file import (
    CHALLENGE_HEADER,
    PROOF_HEADER,
    WorkerAddress,
    remove_address,
    write_address,
)
from worker.metrics.registry import CONTENT_TYPE, Metrics
from worker.metrics.visits import (
    ACCEPT_BACKLOG,
    KERNEL_BACKLOG,
    MAX_HEAD_BYTES,
    Connections,
    Visit,
    is_loopback,
    names_loopback,
)
from worker.posts.times import rfc3339
from worker.seeds.profile import Profile, SeedOrProfile
from worker.seeds.set import NEVER_EXPIRES, SeedSet

DEFAULT_PORT = 6066
MAX_PORT_TRIES = 100
SHUTDOWN_GRACE_S = 1.0
PAGE_S = 1.0  # A page of metrics is served again for so long.
MAX_LINGER_S = 1.0  # The rest of a body is read, so that the client reads the answer.
NO_STORE = {"Cache-Control": "no-store"}
EVENT_STREAM = NO_STORE | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("newsift.web")


class Site:
    """Runs on the event loop that starts it."""

    host_key, port_key = "web.host", "web.port"  # what refusals name
    first_port = DEFAULT_PORT
    body_bytes = 2**14  # of a request: nothing here reads one

    def __init__(
        self, config: WebConfig, render: Callable[[], bytes], not_ready: Callable[[], str]
    ) -> None:
        """`not_ready` gives the reason why the process is not ready, or ""."""
        self._config, self._render, self._not_ready = config, render, not_ready
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self._page, self._rendered_at, self._page_lock = b"", -inf, asyncio.Lock()
        self._streams: set[asyncio.Task[Any] | None] = set()
        self.port = 0

    async def start(self) -> None:
        """Listens on the configured port, or on the first free one from the default on."""
        app = web.Application(middlewares=[self._for_this_machine], client_max_size=self.body_bytes)
        app.on_response_prepare.append(_close_connection)
        self.prepare(app)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_GRACE_S,
            lingering_time=MAX_LINGER_S,
            max_field_size=MAX_HEAD_BYTES,
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
        self.on_started()

    def on_started(self) -> None:
        """Is called once the server listens."""
        log.info("web: http://%s:%d/metrics", self._config.host, self.port)

    def prepare(self, app: web.Application) -> None:
        """Configure the application beyond its routes."""

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [
            web.get("/metrics", self._get_metrics), web.get("/healthz", self._get_health),
            web.get("/readyz", self._get_ready),
        ]  # fmt: skip

    async def stop(self) -> None:
        """May be called without `start`."""
        for task in filter(None, list(self._streams)):
            task.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        self._connections.end()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def run(self) -> None:
        await asyncio.Event().wait()

    @property
    def streams(self) -> int:
        """Responses that go on until their client leaves, or `stop` ends them."""
        return len(self._streams)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        task = asyncio.current_task()
        self._streams.add(task)
        try:
            yield
        finally:
            self._streams.discard(task)

    async def _listen(self, make: Callable[[], Visit]) -> asyncio.Server:
        loop, host, own_port = asyncio.get_running_loop(), self._config.host, self._config.port
        first = self.first_port
        for port in range(first, first + MAX_PORT_TRIES) if own_port is None else [own_port]:
            try:
                server = await loop.create_server(make, host, port, backlog=ACCEPT_BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise self._refusal(port, error) from error
            else:
                # asyncio accepts as many at once as the kernel keeps: let that keep more.
                for server_socket in server.sockets:
                    with socket.socket(fileno=os.dup(server_socket.fileno())) as listening:
                        listening.listen(KERNEL_BACKLOG)
                return server
        if own_port is None:
            raise ConfigError(f"{self.port_key}: {first} to {port} are all taken; give a free one")
        raise ConfigError(f"{self.port_key}: {own_port} is taken; free it, or give another")

    def _refusal(self, port: int, error: OSError) -> ConfigError:
        if error.errno == errno.EACCES:
            return ConfigError(
                f"{self.port_key}: {port} is not allowed for this user; give 1024 or more"
            )
        return ConfigError(
            f"{self.host_key}: {self._config.host} is not an address of this host "
            f"({error.strerror or error}); give 127.0.0.1, or 0.0.0.0 for all"
        )

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        """Rendered at most once a second, in a thread: it takes some milliseconds."""
        async with self._page_lock:
            if monotonic() - self._rendered_at >= PAGE_S:
                self._page = await asyncio.to_thread(self._render)
                self._rendered_at = monotonic()
        return web.Response(body=self._page, headers={"Content-Type": CONTENT_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return status_answer("healthy", "")

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return status_answer("ready", self._not_ready())

    @web.middleware
    async def _for_this_machine(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses requests of foreign pages where only this machine is served."""
        hosts = request.headers.getall("Host", [])
        if is_loopback(self._config.host) and not all(map(names_loopback, hosts)):
            return json_answer({"reason": "Host: is not this machine; ask for 127.0.0.1"}, 421)
        return await handler(request)


def visit_of(request: web.Request) -> Visit:
    if request.transport is None:
        raise ConnectionResetError
    return cast(Visit, request.transport.get_protocol())


def status_answer(word: str, reason: str, **more: str) -> web.Response:
    """503 with a reason, else 200."""
    return json_answer({word: not reason, "reason": reason, **more}, 503 if reason else 200)


def json_answer(content: dict[str, Any], status: int = 200) -> web.Response:
    """A JSON response that must not be cached."""
    return web.json_response(content, status=status, headers=NO_STORE)


async def _close_connection(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Connection"] = "close"
    response.force_close()


JSON_TYPE = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Health:
    not_ready: str = ""  # the reason
    seeds: SeedSet | None = None
    cluster_id: str = ""  # Kafka's, as far as it is known
    group: str = ""


class Web(Site):
    """The worker's web server, with /seeds and /near."""

    def __init__(
        self, config: WebConfig, metrics: Metrics, health: Callable[[], Health],
        near: Callable[[str], bytes | None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(config, metrics.render, lambda: health().not_ready)
        self._health, self._near = health, near
        self._list_lock = asyncio.Lock()
        self._seed_list: tuple[SeedSet, bytes] | None = None
        self._address: WorkerAddress | None = None

    def on_started(self) -> None:
        super().on_started()
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._config.host, self._config.host)
        self._address = write_address(
            f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        )

    async def stop(self) -> None:
        if self._address is not None:
            remove_address(self._address)
        await super().stop()

    def prepare(self, app: web.Application) -> None:
        app.on_response_prepare.append(self._prove)

    async def _prove(self, request: web.Request, response: web.StreamResponse) -> None:
        """Shows that this is the worker whose token the client has read."""
        challenge = request.headers.get(CHALLENGE_HEADER)
        if challenge is not None and self._address is not None:
            response.headers[PROOF_HEADER] = self._address.proof(challenge)

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        routes = [web.get("/seeds", self._get_seeds), web.get("/near", self._get_near)]
        return [*super().routes(), *routes]

    async def _get_ready(self, _request: web.Request) -> web.Response:
        """Names the cluster and the group too, because a caller may expect another worker."""
        health = self._health()
        return status_answer(
            "ready", health.not_ready, cluster_id=health.cluster_id, group=health.group
        )

    async def _get_seeds(self, _request: web.Request) -> web.Response:
        seeds = self._health().seeds
        if seeds is None:
            return json_answer({"reason": "the control topic is not yet read to its end"}, 503)
        # Once for each set, in a thread: there may be many seeds.
        async with self._list_lock:
            if self._seed_list is None or self._seed_list[0] is not seeds:
                self._seed_list = seeds, await asyncio.to_thread(seed_list_bytes, seeds)
        return web.Response(body=self._seed_list[1], headers=NO_STORE | {"Content-Type": JSON_TYPE})

    async def _get_near(self, request: web.Request) -> web.Response:
        """The response of /near, for `labels ask` and the desk."""
        answer = await asyncio.to_thread(self._near, request.query.get("event", ""))
        if answer is None:
            reason = "keeps no near misses of it: there is no such event in force, or too many"
            return json_answer({"reason": f"event: this worker {reason}"}, 404)
        return web.Response(body=answer, headers=NO_STORE | {"Content-Type": JSON_TYPE})


def seed_list_bytes(seeds: SeedSet) -> bytes:
    """Seed by seed, so that other tasks get their turn."""
    content = seed_list(seeds)
    lists = [
        f'"{name}": [{", ".join(json.dumps(row) for row in content[name])}]'
        for name in ("live", "paused", "refused", "stale")
    ]
    return f'{{"seed_set": {json.dumps(content["seed_set"])}, {", ".join(lists)}}}'.encode()


def seed_list(seeds: SeedSet) -> dict[str, Any]:
    """The response of /seeds."""
    live = [
        _seed_fields(seed) | {
            "threshold": round(float(threshold), 6),
            "expires_at": None if expiry == NEVER_EXPIRES else rfc3339(int(expiry)),
        }
        for seed, threshold, expiry in zip(seeds.seeds, seeds.thresholds, seeds.expiry, strict=True)
    ]  # fmt: skip
    paused_seeds = [_seed_fields(seed) for seed in seeds.paused]
    refusals = [{"id": seed.id, "reason": seed.reason} for seed in seeds.refused]
    stale = [{"id": profile.id, "reason": profile.reason} for profile in seeds.stale]
    return {"seed_set": seeds.digest, "live": live, "paused": paused_seeds, "refused": refusals,
            "stale": stale}  # fmt: skip


def _seed_fields(seed: SeedOrProfile) -> dict[str, Any]:
    entry = {"id": seed.id, "title": seed.title, "event": seed.event, "url": seed.url,
            "version": seed.version}  # fmt: skip
    return entry | ({"seeds": seed.seeds} if isinstance(seed, Profile) else {})
