import asyncio
import hmac
import logging
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import worker.metrics.visits
from encoder.embeddings import Embeddings
from encoder.score.lexical import SparseRows
from tests.worker.raw_http import Reply, read_all
from worker.config import WebConfig
from worker.errors import ConfigError
from worker.metrics.address_file import read_addresses
from worker.metrics.registry import Metrics
from worker.metrics.visits import (
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    Connections,
    Visit,
    names_loopback,
)
from worker.metrics.web import DEFAULT_PORT, Health, Web
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER_EXPIRES, SeedSet, SeedVectors
from worker.seeds.state import StaleProfile


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
    message = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    async with serving(lambda: next(left), near=near) as web:
        return [Reply.of(await ask(web, message)) for _ in states or [Health()]]


async def test_a_page_of_metrics_is_rendered_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, pages = Metrics(), iter([b"first", b"second"])
    monkeypatch.setattr(metrics, "render", lambda: next(pages))
    message, at = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", [100.0]
    monkeypatch.setattr("worker.metrics.web.monotonic", lambda: at[0])
    web = Web(WebConfig(port=0), metrics, Health)
    await web.start()
    bodies = []
    for at[0] in (100.0, 100.9, 101.0):
        bodies.append(Reply.of(await ask(web, message)).body)
    await web.stop()
    assert bodies == [b"first", b"first", b"second"]


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
    kind = "text/plain; version=0.0.4; charset=utf-8"
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert b"newsift_posts_read_total 0.0\n" in reply.body


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
    listed = (
        Seed("dam", "Dam overflows", "The dam …", "flood", "https://example.org/1", 0.25),
        Seed("fire", "", "A ferry burns.", "fire", expires_at=1_700_000_000_000),
    )
    embeddings = Embeddings(np.eye(2, dtype=np.float32), SparseRows.empty(2), 0.0, "d")
    vectors = SeedVectors((embeddings,), np.zeros(2, np.int32), np.arange(2))
    thresholds = np.array([0.25, 0.125], np.float32)
    refused = (RefusedSeed("bad\ud800", "text: missing"),)
    expiry = np.array([NEVER_EXPIRES, 1_700_000_000_000])
    seeds = SeedSet(
        listed, vectors, thresholds, "abcdef012345", refused, expiry,
        paused=(quake,), stale=(stale,),
    )  # fmt: skip
    [result] = await get("/seeds", Health(seeds=seeds))
    kind = "application/json; charset=utf-8"
    assert (result.status, result.headers["content-type"]) == (200, kind)
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
    with taken(DEFAULT_PORT, DEFAULT_PORT + 1):
        async with serving(config=WebConfig()) as web:
            assert web.port > DEFAULT_PORT + 1
    assert f"port {DEFAULT_PORT} is taken; listening on" in caplog.text


async def test_a_port_that_is_taken_or_a_host_of_another_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.metrics.web.MAX_PORT_TRIES", 1)
    async with serving() as first:
        for config, message in {
            WebConfig(): rf"--port: {DEFAULT_PORT} .* taken; give a free one",
            WebConfig(port=first.port): rf"--port: {first.port} is taken",
            WebConfig(host="192.0.2.1", port=0): r"web\.host: 192\.0\.2\.1",
            WebConfig(host="nowhere.invalid", port=0): r"web\.host: nowhere\.invalid",
        }.items():
            web = Web(config, Metrics(), Health)
            web.port_key = "--port"
            with taken(DEFAULT_PORT), pytest.raises(ConfigError, match=message):
                await web.start()
            await web.stop()


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


Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def connect(web: Web, request: bytes = b"") -> Pair:
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    writer.write(request)
    return reader, writer


async def ask(web: Web, message: bytes) -> bytes:
    reader, writer = await connect(web, message)
    result = await read_all(reader)
    writer.transport.abort()  # what was refused is not sent to its end
    return result


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300 + 3 * MAX_CONNECTIONS + 64, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("message", [b"", b"GET /healthz HTTP/1.1\r\nHo", HEALTH[:-2]])
async def test_idle_connections_keep_nobody_out(message: bytes) -> None:
    async with serving() as web:
        idle = [await connect(web, message) for _ in range(300)]
        assert (await ask(web, HEALTH)).startswith(b"HTTP/1.1 200 ")
        oldest = [await read_all(reader) for reader, _ in idle[: 300 - MAX_CONNECTIONS]]
        assert set(oldest) == {b""}
        assert not idle[-1][0].at_eof()
        for _, writer in idle:
            writer.close()


async def test_a_slow_request_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.metrics.visits, "MAX_REQUEST_S", 0.05)
    async with serving() as web:
        assert await ask(web, b"GET /healthz HTTP/1.1\r\n") == b""


async def test_a_connection_serves_one_get_or_head_request() -> None:
    async with serving() as web:
        result = await ask(web, HEALTH * 2)
        assert result.count(b"HTTP/1.1 200 ") == 1
        assert b"Connection: close" in result
        result = await ask(web, HEALTH.replace(b"GET", b"HEAD"))
        assert result.startswith(b"HTTP/1.1 200 ")
        assert result.endswith(b"\r\n\r\n")


MIB = 2**20
ENDLESS = {"semicolons": b"Cookie: " + b";" * 16 * MIB, "headers": b"A: b\r\n" * 1_000_000}


@pytest.mark.parametrize("lines", ENDLESS.values(), ids=ENDLESS)
async def test_large_headers_are_refused_with_431_that_arrives(lines: bytes) -> None:
    async with serving() as web:
        result = await ask(web, b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n\r\n")
        assert result.startswith(b"HTTP/1.1 431 ")
        assert b"32,768 bytes" in result
        assert b" 200 " in await ask(web, HEALTH)


async def test_the_limit_of_header_bytes_is_exact() -> None:
    async with serving() as web:
        for more, code in ((0, b"200"), (1, b"431")):
            frame = HEALTH[:-2] + b"X: \r\n\r\n"
            padding = b"y" * (MAX_HEAD_BYTES - len(frame) + more)
            result = await ask(web, frame.replace(b"X: ", b"X: " + padding))
            assert result.split(b" ")[1] == code


class Parser(asyncio.Protocol):
    read = b""

    def data_received(self, data: bytes) -> None:
        self.read += data


def sent_by(link: Mock) -> bytes:
    return b"".join(call.args[0] for call in link.write.call_args_list)


def send_in_pieces(*parts: bytes, size: int = 1024) -> tuple[Mock, list[Parser]]:
    parsers: list[Parser] = []

    def make() -> Parser:
        parsers.append(Parser())
        return parsers[-1]

    connection, link = Visit(make, Connections(), 100), Mock(spec=asyncio.Transport)
    connection.connection_made(link)
    for data in parts:
        for begin in range(0, len(data), size):
            connection.data_received(data[begin : begin + size])
            if link.write.called or link.abort.called:
                break
    connection.connection_lost(None)
    return link, parsers


async def test_too_large_headers_are_refused_while_they_arrive_and_never_parsed() -> None:
    link, parsers = send_in_pieces(HEAD + b"X: " + b"y" * MAX_HEAD_BYTES)  # and no end
    assert (sent_by(link).split(b" ")[1], parsers) == (b"431", [])


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


async def test_of_pipelined_requests_only_the_first_is_parsed() -> None:
    first = HEAD + b"Content-Length: 3\r\n\r\nabc"
    for size in (1, 7, 1024):
        link, (parser,) = send_in_pieces(first + HEAD + b"X: y\r\n" * 10, size=size)
        assert (parser.read, sent_by(link)) == (first, b"")


async def test_bytes_after_a_request_are_bounded() -> None:
    link, (parser,) = send_in_pieces(HEALTH, b"z" * 101)
    assert link.abort.called
    assert parser.read == HEALTH


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"\x16", b"400"),
        (b"Transfer-Encoding: chunked", b"411"),
        (b"transfer-encoding : identity", b"411"),
        (b"Host: localhost", b"400"),
        (b"Content-Length: 1\r\nContent-Length: 1", b"400"),
        (b"Content-Length: +1", b"400"),
        (b"Content-Length: " + b"9" * 5000, b"400"),
        (b"X: y\r\n z", b"400"),
        (b"X: y\nContent-Length: 5", b"400"),
        (b"X: y\rContent-Length: 5", b"400"),
        (b"Content-Length: 5\r\nConnection: upgrade\r\nUpgrade: websocket", b"400"),
    ],
)
async def test_ambiguous_framing_never_reaches_the_parser(lines: bytes, status: bytes) -> None:
    link, parsers = send_in_pieces(lines if lines == b"\x16" else HEAD + lines + b"\r\n\r\n")
    assert (sent_by(link).split(b" ")[1], parsers) == (status, [])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(method: str) -> None:
    async with serving() as web:
        message = f"{method} /seeds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        assert (await ask(web, message.encode())).startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    ("host", "listens", "status"),
    [
        ("evil.example:6066", "127.0.0.1", b"421"),
        ("localhost:6066", "127.0.0.1", b"503"),  # as ever: the seeds are not read yet
        ("evil.example:6066", "0.0.0.0", b"503"),
    ],
)
async def test_the_host_header_is_checked_on_loopback(
    host: str, listens: str, status: bytes
) -> None:
    async with serving(config=WebConfig(host=listens, port=0)) as web:
        reply = await ask(web, f"GET /seeds HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert reply.split(b" ")[1] == status


@pytest.mark.parametrize(
    ("header", "local"),
    [
        ("127.0.0.1", True), ("127.0.0.1:6066", True), ("localhost", True), ("LOCALHOST:1", True),
        ("[::1]:6066", True), ("127.8.9.1", True), ("", False), ("evil.example", False),
        ("127.0.0.1@evil.example", False), ("[::1", False), ("10.0.0.1", False),
        ("localhost.evil.example", False), ("2130706433", False), ("[::1]evil.example", False),
        ("[::1]:80evil", False), ("127.0.0.1:80evil", False), ("127.0.0.1/a", False),
        ("[127.0.0.1]evil", False), ("localhost:", True), ("::1", False),
    ],
)  # fmt: skip
def test_loopback_names(header: str, local: bool) -> None:
    assert names_loopback(header) is local


async def test_a_challenge_is_proven_as_its_bytes_came() -> None:
    async with serving() as web:
        [worker] = [each for each in read_addresses() if each.address.endswith(f":{web.port}")]
        head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nNewsift-Challenge: \xff\r\n\r\n"
        reply = Reply.of(await ask(web, head))
    expected = hmac.new(worker.token.encode(), b"\xff", "sha256").hexdigest()
    assert (reply.status, reply.headers["newsift-proof"]) == (200, expected)
