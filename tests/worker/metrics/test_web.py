"""The worker's web server: its pages and its port."""

import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import numpy as np
import pytest
from yarl import URL

from encoder.embeddings import Embeddings
from encoder.score.lexical import SparseRows
from worker.config import WebConfig
from worker.errors import ConfigError
from worker.metrics.registry import Metrics
from worker.metrics.web import PORT, Health, Web
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER, SeedSet
from worker.seeds.state import StaleProfile

pytestmark = pytest.mark.anyio


@dataclass
class Reply:
    status: int
    body: str
    kind: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def serving(
    state: Callable[[], Health] = Health,
    config: WebConfig = WebConfig(port=0),  # noqa: B008 - it is immutable
    near: Callable[[str], bytes | None] = lambda _: None,
) -> AsyncIterator[Web]:
    web = Web(config, Metrics(), state, near)
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


async def get(path: str, *states: Health, near: Any = lambda _: None) -> list[Reply]:
    left = iter(states or [Health()])
    async with serving(lambda: next(left), near=near) as web, aiohttp.ClientSession() as session:
        replies = []
        for _ in states or [Health()]:
            url = URL(f"http://127.0.0.1:{web.port}{path}", encoded=True)
            async with session.get(url) as answer:
                kind = answer.headers["Content-Type"]
                replies.append(Reply(answer.status, await answer.text(), kind))
        return replies


def seed_set() -> SeedSet:
    seeds = (
        Seed("dam", "Dam overflows", "The dam …", "flood", "https://example.org/1", 0.25),
        Seed("fire", "", "A ferry burns.", "fire", expires_at=1_700_000_000_000),
    )
    embeddings = Embeddings(np.eye(2, dtype=np.float32), SparseRows.empty(2), 0.0, "d")
    thresholds = np.array([0.25, 0.125], np.float32)
    refused = (RefusedSeed("bad\ud800", "text: missing"),)
    return SeedSet(seeds, embeddings, thresholds, "abcdef012345", refused,
                   np.array([NEVER, 1_700_000_000_000]))  # fmt: skip


@contextmanager
def taken(*ports: int) -> Iterator[None]:
    with ExitStack() as stack:
        for port in ports:
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        yield


async def test_metrics_are_served_as_text() -> None:
    [reply] = await get("/metrics")
    assert (reply.status, reply.kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "newsift_posts_read_total 0.0\n" in reply.body


async def test_health_and_readiness_follow_the_state() -> None:
    ready = Health(cluster_id="kafka-1", group="newsift-ingest")
    reading = Health(not_ready="reading the seeds")
    healthy = await get("/healthz", ready, reading)
    assert [(each.status, each.json["healthy"]) for each in healthy] == [(200, True), (200, True)]
    not_ready, is_ready = await get("/readyz", reading, ready)
    assert (not_ready.status, not_ready.json["reason"]) == (503, "reading the seeds")
    assert (is_ready.status, is_ready.json) == (
        200, {"ready": True, "reason": "", "cluster_id": "kafka-1", "group": "newsift-ingest"},
    )  # fmt: skip


async def test_seeds_are_listed_by_their_status() -> None:
    quake = Seed("quake", "", "The earth shook.", "quake", paused=True)
    stale = StaleProfile("profile|dam", "seeds: 'dam' is paused")
    seeds = replace(seed_set(), paused=(quake,), stale=(stale,))
    [result] = await get("/seeds", Health(seeds=seeds))
    assert (result.status, result.kind) == (200, "application/json; charset=utf-8")
    dam, fire = seeds.seeds
    assert result.json == {
        "seed_set": "abcdef012345",
        "live": [
            {"id": "dam", "title": "Dam overflows", "event": "flood",
             "url": "https://example.org/1", "version": dam.version, "threshold": 0.25,
             "expires_at": None},
            {"id": "fire", "title": "", "event": "fire", "url": None, "version": fire.version,
             "threshold": 0.125, "expires_at": "2023-11-14T22:13:20.000Z"},
        ],
        "paused": [
            {"id": "quake", "title": "", "event": "quake", "url": None, "version": quake.version}
        ],
        "refused": [{"id": "bad\ud800", "reason": "text: missing"}],
        "stale": [{"id": "profile|dam", "reason": "seeds: 'dam' is paused"}],
    }  # fmt: skip


async def test_missing_pages_and_seeds_that_are_not_read_yet() -> None:
    assert (await get("/"))[0].status == 404
    [reply] = await get("/seeds")
    assert (reply.status, "control topic" in reply.json["reason"]) == (503, True)


async def test_the_default_port_taken_means_the_next(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with taken(PORT, PORT + 1):
        async with serving(config=WebConfig()) as web:
            assert web.port > PORT + 1
    assert f"port {PORT} is taken; listening on" in caplog.text


async def test_a_configured_port_taken_is_refused() -> None:
    async with serving() as first:
        web = Web(WebConfig(port=first.port), Metrics(), Health)
        with pytest.raises(ConfigError, match=rf"web\.port: {first.port} is taken"):
            await web.start()
        await web.stop()


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
async def test_a_host_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"web\.host: {host}"):
        await Web(WebConfig(host=host, port=0), Metrics(), Health).start()


@pytest.mark.parametrize(
    ("query", "status"),
    [("?event=storm", 200), ("", 404), ("?event=", 404), ("?event=%00%1b%ff", 404),
     ("?event=" + "e" * 5_000, 404), ("?event=a&event=storm", 404)],
)  # fmt: skip
async def test_near_misses_of_an_event(query: str, status: int) -> None:
    def near(event: str) -> bytes | None:
        return b'{"event": "storm"}' if event == "storm" else None

    [reply] = await get(f"/near{query}", near=near)
    assert reply.status == status
    if status == 200:
        assert reply.json == {"event": "storm"}
