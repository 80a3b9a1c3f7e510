"""The web server: what it answers, and which port it takes."""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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

T = TypeVar("T")


@dataclass
class Reply:
    status: int
    body: str
    kind: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def served(
    use: Callable[[Web], Awaitable[T]],
    state: Callable[[], Health] = Health,
    config: WebConfig = WebConfig(port=0),  # noqa: B008 - it cannot change
) -> T:
    """What comes of using a server while it runs."""

    async def run() -> T:
        web = Web(config, Metrics(), state)
        await web.start()
        try:
            return await use(web)
        finally:
            await web.stop()

    return asyncio.run(run())


def get(path: str, state: Callable[[], Health] = Health) -> Reply:
    async def ask(web: Web) -> Reply:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{web.port}{path}") as answer,
        ):
            return Reply(answer.status, await answer.text(), answer.headers["Content-Type"])

    return served(ask, state)


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
    """Hold some ports, unless somebody else does already."""
    with ExitStack() as stack:
        for port in ports:
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        yield


def test_metrics() -> None:
    found = get("/metrics")
    assert (found.status, found.kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "newsift_posts_read_total 0.0\n" in found.body


def test_healthy_and_ready() -> None:
    found = get("/healthz")
    assert (found.status, found.json) == (200, {"healthy": True, "reason": ""})
    found = get("/readyz", lambda: Health(cluster_id="kafka-1", group="newsift-ingest"))
    said = {"ready": True, "reason": "", "cluster_id": "kafka-1", "group": "newsift-ingest"}
    assert (found.status, found.json) == (200, said)


def test_what_is_not_ready_says_why() -> None:
    state = Health(not_ready="reading the seeds")
    assert get("/healthz", lambda: state).status == 200
    found = get("/readyz", lambda: state)
    assert (found.status, found.json["ready"]) == (503, False)
    assert found.json["reason"] == "reading the seeds"


def test_the_state_is_asked_for_each_time() -> None:
    states = iter([Health(not_ready="soon"), Health()])

    async def ask(web: Web) -> list[int]:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{web.port}/readyz"
            return [(await session.get(url)).status for _ in range(2)]

    assert served(ask, lambda: next(states)) == [503, 200]


def test_seeds() -> None:
    quake = Seed("quake", "", "The earth shook.", "quake", paused=True)
    stale = StaleProfile("profile|dam", "seeds: 'dam' is paused")
    seeds = replace(seed_set(), paused=(quake,), stale=(stale,))
    found = get("/seeds", lambda: Health(seeds=seeds))
    assert (found.status, found.kind) == (200, "application/json; charset=utf-8")
    dam, fire = seeds.seeds
    assert found.json == {
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


def test_seeds_before_they_are_read() -> None:
    found = get("/seeds")
    assert found.status == 503
    assert "control topic" in found.json["reason"]


def test_other_paths_are_not_there() -> None:
    assert get("/").status == 404


def test_the_default_port_taken_means_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async def port(web: Web) -> int:
        return web.port

    caplog.set_level(logging.INFO)
    with taken(PORT, PORT + 1):
        assert served(port, config=WebConfig()) > PORT + 1
    assert f"port {PORT} is taken; listening on" in caplog.text


def test_two_workers_on_one_host_need_no_flags() -> None:
    async def second(first: Web) -> tuple[int, int]:
        web = Web(WebConfig(), Metrics(), Health)
        await web.start()
        await web.stop()
        return first.port, web.port

    one, other = served(second, config=WebConfig())
    assert one != other


def test_a_configured_port_taken_is_refused() -> None:
    async def second(first: Web) -> None:
        web = Web(WebConfig(port=first.port), Metrics(), Health)
        with pytest.raises(ConfigError, match=rf"web\.port: {first.port} is taken; free it"):
            await web.start()
        await web.stop()

    served(second)


def test_a_host_that_is_not_here_is_refused() -> None:
    async def start(host: str) -> None:
        await Web(WebConfig(host=host, port=0), Metrics(), Health).start()

    for host in ("192.0.2.1", "nowhere.invalid"):
        with pytest.raises(ConfigError, match=rf"web\.host: {host} is no address of this host"):
            asyncio.run(start(host))


def test_stopping_what_never_began_is_harmless() -> None:
    asyncio.run(Web(WebConfig(), Metrics(), Health).stop())


def test_near_misses_of_an_event_whatever_its_name() -> None:
    asked: list[str] = []

    def near(event: str) -> bytes | None:
        asked.append(event)
        return b'{"event": "storm"}' if event == "storm" else None

    async def ask(web: Web) -> list[tuple[int, str]]:
        async with aiohttp.ClientSession() as session:
            found = []
            for name in ("?event=storm", "", "?event=", "?event=%00%1b%ff", "?event=" + "e" * 5_000,
                         "?event=a&event=storm"):  # fmt: skip
                reply = await session.get(
                    URL(f"http://127.0.0.1:{web.port}/near{name}", encoded=True)
                )
                found.append((reply.status, await reply.text()))
            return found

    async def run() -> list[tuple[int, str]]:
        web = Web(WebConfig(port=0), Metrics(), Health, near)
        await web.start()
        try:
            return await ask(web)
        finally:
            await web.stop()

    (first, *others) = asyncio.run(run())
    assert first == (200, '{"event": "storm"}')
    assert {status for status, _ in others} == {404}
    assert all("keeps no near misses" in json.loads(body)["reason"] for _, body in others)
    assert asked[-1] == "a"
