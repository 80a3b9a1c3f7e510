"""What the worker tells over HTTP: /metrics, /healthz, /readyz and /seeds."""

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from worker.config import Web as WebConfig
from worker.errors import ConfigError
from worker.metrics import CONTENT_TYPE, Metrics
from worker.records import rfc3339
from worker.seeds import NEVER, SeedSet

PORT = 6066
TRIES = 100  # ports after the default one
GRACE_S = 1.0  # for answers under way when the worker ends

log = logging.getLogger("newsift.web")


@dataclass(frozen=True, slots=True)
class State:
    """How the worker is at this moment: a reason for each thing that it is not."""

    not_healthy: str = ""
    not_ready: str = ""
    seeds: SeedSet | None = None


class Web:
    """The worker's web server, on the event loop that starts it."""

    def __init__(self, config: WebConfig, metrics: Metrics, state: Callable[[], State]) -> None:
        self._config = config
        self._metrics = metrics
        self._state = state
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen: on the configured port, or on the first free one from the default on."""
        app = web.Application()
        app.add_routes([
            web.get("/metrics", self._get_metrics), web.get("/healthz", self._get_health),
            web.get("/readyz", self._get_ready), web.get("/seeds", self._get_seeds),
        ])  # fmt: skip
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE_S)
        await self._runner.setup()
        try:
            await self._listen(self._runner)
        except ConfigError:
            await self.stop()
            raise
        self.port = self._runner.addresses[0][1]
        if self._config.port is None and self.port != PORT:
            log.warning("web: port %d is taken; listening on %d", PORT, self.port)
        log.info("web: http://%s:%d/metrics", self._config.host, self.port)

    async def stop(self) -> None:
        """Stop listening; harmless if it never began."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _listen(self, runner: web.AppRunner) -> None:
        fixed = self._config.port
        ports = range(PORT, PORT + TRIES) if fixed is None else [fixed]
        for port in ports:
            try:
                return await web.TCPSite(runner, self._config.host, port).start()
            except OSError as error:
                if error.errno == errno.EADDRINUSE and port != ports[-1]:
                    continue
                raise self._refusal(port, error) from error
        return None

    def _refusal(self, port: int, error: OSError) -> ConfigError:
        if error.errno == errno.EADDRINUSE and self._config.port is None:
            said = f"null: ports {PORT} to {port} are all taken; set web.port to a free one"
            return ConfigError(f"web.port: {said}")
        if error.errno == errno.EADDRINUSE:
            return ConfigError(f"web.port: {port} is taken; free it, or give another or null")
        if error.errno == errno.EACCES:
            return ConfigError(f"web.port: {port} is not allowed for this user; give 1024 or more")
        reason = error.strerror or error
        return ConfigError(f"web.host: {self._config.host} is no address of this host ({reason}); "
                           "give 127.0.0.1, or 0.0.0.0 for all")  # fmt: skip

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return _verdict("healthy", self._state().not_healthy)

    async def _get_ready(self, _request: web.Request) -> web.Response:
        state = self._state()
        return _verdict("ready", state.not_ready or state.not_healthy)

    async def _get_seeds(self, _request: web.Request) -> web.Response:
        seeds = self._state().seeds
        if seeds is None:
            return _answer({"reason": "the control topic is not yet read to its end"}, 503)
        return _answer(seeds_listed(seeds))


def seeds_listed(seeds: SeedSet) -> dict[str, Any]:
    """A set of seeds as /seeds shows it: what each compares with, and why the refused are."""
    live = [
        {
            "id": seed.id, "title": seed.title, "event": seed.event, "url": seed.url,
            "version": seed.version, "threshold": round(float(threshold), 6),
            "expires_at": None if expiry == NEVER else rfc3339(int(expiry) / 1000),
        }
        for seed, threshold, expiry in zip(seeds.seeds, seeds.thresholds, seeds.expiry, strict=True)
    ]  # fmt: skip
    refused = [{"id": seed.id, "reason": seed.reason} for seed in seeds.refused]
    return {"seed_set": seeds.digest, "live": live, "refused": refused}


def _verdict(word: str, reason: str) -> web.Response:
    return _answer({word: not reason, "reason": reason}, 503 if reason else 200)


def _answer(found: dict[str, Any], status: int = 200) -> web.Response:
    return web.json_response(found, status=status, headers={"Cache-Control": "no-store"})
