"""What the worker tells over HTTP beside what every process does: /seeds and /near."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from worker.config import WebConfig
from worker.posts.times import rfc3339
from worker.seeds.profile import Compared, Profile
from worker.seeds.set import NEVER, SeedSet
from worker.watch.metrics import Metrics
from worker.watch.site import FRESH, Site, json_answer, verdict

JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Health:
    """How the worker is at this moment: why it is not ready, if so, its seeds, and whose it is."""

    not_ready: str = ""
    seeds: SeedSet | None = None
    cluster_id: str = ""  # Kafka's, as far as it is known
    group: str = ""


class Web(Site):
    """The worker's web server, on the event loop that starts it."""

    def __init__(
        self, config: WebConfig, metrics: Metrics, state: Callable[[], Health],
        near: Callable[[str], bytes | None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(config, metrics.render, lambda: state().not_ready)
        self._state, self._near = state, near
        self._listing = asyncio.Lock()
        self._listed: tuple[SeedSet, bytes] | None = None

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """What is answered."""
        mine = [web.get("/seeds", self._get_seeds), web.get("/near", self._get_near)]
        return [*super().routes(), *mine]

    async def _get_ready(self, _request: web.Request) -> web.Response:
        """Beside it which Kafka is read, and in which group: who asks may look for another's."""
        now = self._state()
        return verdict("ready", now.not_ready, cluster_id=now.cluster_id, group=now.group)

    async def _get_seeds(self, _request: web.Request) -> web.Response:
        seeds = self._state().seeds
        if seeds is None:
            return json_answer({"reason": "the control topic is not yet read to its end"}, 503)
        async with self._listing:  # once for each set, away from the loop: there may be many seeds
            if self._listed is None or self._listed[0] is not seeds:
                self._listed = seeds, await asyncio.to_thread(listed_bytes, seeds)
        return web.Response(body=self._listed[1], headers=FRESH | {"Content-Type": JSON})

    async def _get_near(self, request: web.Request) -> web.Response:
        """The near misses of an event, which `labels ask` and the desk show to people."""
        found = await asyncio.to_thread(self._near, request.query.get("event", ""))
        if found is None:
            reason = "keeps no near misses of it: there is no such event in force, or too many"
            return json_answer({"reason": f"event: this worker {reason}"}, 404)
        return web.Response(body=found, headers=FRESH | {"Content-Type": JSON})


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
