"""What the worker tells over HTTP: /metrics, /healthz, /readyz, /seeds and /near."""

import asyncio
import errno
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from worker.config import WebConfig
from worker.errors import ConfigError
from worker.posts.times import rfc3339
from worker.seeds.profile import Compared, Profile
from worker.seeds.set import NEVER, SeedSet
from worker.watch.metrics import CONTENT_TYPE, Metrics
from worker.watch.visits import BACKLOG, Visit, asks_for_loopback, is_loopback, visits

PORT = 6066
TRIES = 100  # ports after the default one
GRACE_S = 1.0  # for answers under way when the worker ends
JSON = "application/json; charset=utf-8"
FRESH = {"Cache-Control": "no-store"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("newsift.web")


@dataclass(frozen=True, slots=True)
class Health:
    """How the worker is at this moment: why it is not ready, if so, and its seeds."""

    not_ready: str = ""
    seeds: SeedSet | None = None


class Web:
    """The worker's web server, on the event loop that starts it."""

    def __init__(
        self, config: WebConfig, metrics: Metrics, state: Callable[[], Health],
        near: Callable[[str], bytes | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._config = config
        self._metrics = metrics
        self._state, self._near = state, near
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._listing = asyncio.Lock()
        self._listed: tuple[SeedSet, bytes] | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen: on the configured port, or on the first free one from the default on."""
        app = web.Application(middlewares=[self._for_this_machine])
        app.on_response_prepare.append(_close)
        app.add_routes([
            web.get("/metrics", self._get_metrics), web.get("/healthz", self._get_health),
            web.get("/readyz", self._get_ready), web.get("/seeds", self._get_seeds),
            web.get("/near", self._get_near),
        ])  # fmt: skip
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=GRACE_S, lingering_time=0
        )
        await self._runner.setup()
        assert self._runner.server is not None
        try:
            self._server = await self._listen(visits(self._runner.server))
        except ConfigError:
            await self.stop()
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        if self._config.port is None and self.port != PORT:
            log.warning("web: port %d is taken; listening on %d", PORT, self.port)
        log.info("web: http://%s:%d/metrics", self._config.host, self.port)

    async def stop(self) -> None:
        """Stop listening; harmless if it never began."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, make: Callable[[], Visit]) -> asyncio.Server:
        loop, host, fixed = asyncio.get_running_loop(), self._config.host, self._config.port
        for port in range(PORT, PORT + TRIES) if fixed is None else [fixed]:
            try:
                return await loop.create_server(make, host, port, backlog=BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise self._refusal(port, error) from error
        taken = f"{fixed} is taken; free it, or give another or null"
        none = f"null: ports {PORT} to {port} are all taken; set web.port to a free one"
        raise ConfigError(f"web.port: {none if fixed is None else taken}")

    def _refusal(self, port: int, error: OSError) -> ConfigError:
        if error.errno == errno.EACCES:
            return ConfigError(f"web.port: {port} is not allowed for this user; give 1024 or more")
        reason = error.strerror or error
        return ConfigError(f"web.host: {self._config.host} is no address of this host ({reason}); "
                           "give 127.0.0.1, or 0.0.0.0 for all")  # fmt: skip

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return _verdict("healthy", "")

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return _verdict("ready", self._state().not_ready)

    async def _get_seeds(self, _request: web.Request) -> web.Response:
        seeds = self._state().seeds
        if seeds is None:
            return _answer({"reason": "the control topic is not yet read to its end"}, 503)
        async with self._listing:  # once for each set, away from the loop: there may be many seeds
            if self._listed is None or self._listed[0] is not seeds:
                self._listed = seeds, await asyncio.to_thread(listed_bytes, seeds)
        return web.Response(body=self._listed[1], headers=FRESH | {"Content-Type": JSON})

    async def _get_near(self, request: web.Request) -> web.Response:
        """The near misses of an event, which `labels ask` and the desk show to people."""
        found = await asyncio.to_thread(self._near, request.query.get("event", ""))
        if found is None:
            reason = "keeps no near misses of it: there is no such event in force, or too many"
            return _answer({"reason": f"event: this worker {reason}"}, 404)
        return web.Response(body=found, headers=FRESH | {"Content-Type": JSON})

    @web.middleware
    async def _for_this_machine(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what a browser was led to ask, where only this machine is to be answered."""
        hosts = request.headers.getall("Host", [])
        if is_loopback(self._config.host) and not all(map(asks_for_loopback, hosts)):
            return _answer({"reason": "Host: is not this machine; ask for 127.0.0.1"}, 421)
        return await handler(request)


def listed_bytes(seeds: SeedSet) -> bytes:
    """A set of seeds as /seeds sends it; seed by seed, so that others get their turn."""
    found = seeds_listed(seeds)
    lists = [
        f'"{name}": [{", ".join(json.dumps(row) for row in found[name])}]'
        for name in ("live", "paused", "refused", "stale")
    ]
    return f'{{"seed_set": {json.dumps(found["seed_set"])}, {", ".join(lists)}}}'.encode()


def seeds_listed(seeds: SeedSet) -> dict[str, Any]:
    """A set of seeds as /seeds shows it: what each compares with, and why the refused are."""
    live = [
        _described(seed) | {
            "threshold": round(float(threshold), 6),
            "expires_at": None if expiry == NEVER else rfc3339(int(expiry)),
        }
        for seed, threshold, expiry in zip(seeds.seeds, seeds.thresholds, seeds.expiry, strict=True)
    ]  # fmt: skip
    paused = [_described(seed) for seed in seeds.paused]
    refused = [{"id": seed.id, "reason": seed.reason} for seed in seeds.refused]
    stale = [{"id": profile.id, "reason": profile.reason} for profile in seeds.stale]
    return {"seed_set": seeds.digest, "live": live, "paused": paused, "refused": refused,
            "stale": stale}  # fmt: skip


def _described(seed: Compared) -> dict[str, Any]:
    """A seed, or a profile with the seeds that it stands for."""
    said = {"id": seed.id, "title": seed.title, "event": seed.event, "url": seed.url,
            "version": seed.version}  # fmt: skip
    return said | ({"seeds": seed.seeds} if isinstance(seed, Profile) else {})


def _verdict(word: str, reason: str) -> web.Response:
    return _answer({word: not reason, "reason": reason}, 503 if reason else 200)


def _answer(found: dict[str, Any], status: int = 200) -> web.Response:
    return web.json_response(found, status=status, headers=FRESH)


async def _close(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Connection"] = "close"
    response.force_close()
