"""What strangers may cost the web server: connections, time, bytes, and whom it answers."""

import asyncio
import contextlib
import resource
import threading
from collections.abc import Iterator

import pytest

import worker.metrics.visits
import worker.metrics.web
from tests.worker.metrics.test_web import seed_set, served
from worker.config import WebConfig
from worker.metrics.visits import HEAD_BYTES, MOST, Connections, Visit, asks_for_loopback
from worker.metrics.web import Health, Web, listed_bytes
from worker.seeds.set import SeedSet

PATIENCE_S = 20.0
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def visit(web: Web, said: bytes = b"") -> Pair:
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    writer.write(said)
    return reader, writer


async def heard(pair: Pair) -> bytes:
    """All that comes until the server ends the connection."""
    reader, writer = pair
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while some := await asyncio.wait_for(reader.read(2**16), PATIENCE_S):
            found += some
    writer.transport.abort()  # what was refused is not sent to its end
    return found


async def asked(web: Web, said: bytes) -> bytes:
    return await heard(await visit(web, said))


@pytest.fixture
def few_files() -> Iterator[None]:
    """A process that may open few files: both sides of 300 connections, and little more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300 + 3 * MOST + 64, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHo", HEALTH[:-2]])
def test_whoever_says_nothing_or_little_keeps_nobody_out(said: bytes) -> None:
    async def crowd(web: Web) -> None:
        idle = [await visit(web, said) for _ in range(300)]
        assert (await asked(web, HEALTH)).startswith(b"HTTP/1.1 200 ")
        oldest = [await heard(pair) for pair in idle[: 300 - MOST]]
        assert set(oldest) == {b""}
        assert not idle[-1][0].at_eof()
        for _, writer in idle[300 - MOST :]:
            writer.close()

    served(crowd)


def test_whoever_takes_too_long_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.metrics.visits, "LONGEST_S", 0.05)

    async def slow(web: Web) -> None:
        assert await asked(web, b"GET /healthz HTTP/1.1\r\n") == b""

    served(slow)


def test_a_visit_is_one_request() -> None:
    async def twice(web: Web) -> None:
        found = await asked(web, HEALTH * 2)
        assert found.count(b"HTTP/1.1 200 ") == 1
        assert b"Connection: close" in found

    served(twice)


MIB = 2**20
ENDLESS = {
    "semicolons": b"Cookie: " + b";" * 16 * MIB,
    "pairs": b"Cookie: " + b"a=b;" * 4 * MIB,
    "hosts": b"Host: 127.0.0.1\r\n" * MIB,
    "headers": b"A: b\r\n" * 1_000_000,
    "one": b"X: " + b"y" * 16 * MIB,
}


@pytest.mark.parametrize("lines", ENDLESS.values(), ids=ENDLESS)
def test_large_headers_are_refused_with_431_that_arrives(lines: bytes) -> None:
    async def large(web: Web) -> None:
        found = await asked(web, b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 431 ")
        assert b"32,768 bytes" in found
        assert b" 200 " in await asked(web, HEALTH)

    served(large)


def test_headers_of_the_largest_size_are_taken_and_a_byte_more_is_not() -> None:
    async def large(web: Web) -> None:
        for more, code in ((0, b"200"), (1, b"431")):
            frame = HEALTH[:-2] + b"X: \r\n\r\n"
            padding = b"y" * (HEAD_BYTES - len(frame) + more)
            found = await asked(web, frame.replace(b"X: ", b"X: " + padding))
            assert found.split(b" ")[1] == code

    served(large)


class Link(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.aborted = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


class Parser(asyncio.Protocol):
    """What stands for aiohttp: it keeps what reaches it."""

    read = b""

    def data_received(self, data: bytes) -> None:
        self.read += data


def pieces(*said: bytes, size: int = 1024, body_bytes: int = 100) -> tuple[Link, list[Parser]]:
    """Send a connection these bytes in pieces until it answers or hangs up."""

    async def send() -> tuple[Link, list[Parser]]:
        parsers: list[Parser] = []

        def make() -> Parser:
            parsers.append(Parser())
            return parsers[-1]

        connection, link = Visit(make, Connections(), body_bytes), Link()
        connection.connection_made(link)
        for data in said:
            for begin in range(0, len(data), size):
                connection.data_received(data[begin : begin + size])
                if link.sent or link.aborted:
                    break
        connection.connection_lost(None)
        return link, parsers

    return asyncio.run(send())


def test_nothing_is_parsed_of_headers_that_are_refused_while_they_arrive() -> None:
    sent = 0

    def counted() -> bytes:
        nonlocal sent
        sent += 1024
        return b"y" * 1024

    async def send() -> Link:
        connection, link = Visit(pytest.fail, Connections(), 100), Link()
        connection.connection_made(link)
        connection.data_received(b"GET / HTTP/1.1\r\nX: ")
        while not link.sent:
            connection.data_received(counted())
        connection.connection_lost(None)
        return link

    assert asyncio.run(send()).sent.startswith(b"HTTP/1.1 431 ")
    assert sent == HEAD_BYTES


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


def test_of_pipelined_requests_the_parser_sees_the_first() -> None:
    first = HEAD + b"Content-Length: 3\r\n\r\nabc"
    for size in (1, 7, 1024):
        link, (parser,) = pieces(first + HEAD + b"X: y\r\n" * 10, size=size)
        assert (parser.read, link.sent) == (first, b"")


def test_bytes_after_a_request_are_bounded() -> None:
    link, (parser,) = pieces(HEALTH, b"z" * 101)
    assert link.aborted
    assert parser.read == HEALTH


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Transfer-Encoding: chunked", b"411"),
        (b"transfer-encoding : identity", b"411"),
        (b"Trailer: X\r\nTE: trailers\r\nTransfer-Encoding: chunked", b"411"),
        (b"Host: localhost", b"400"),
        (b"Content-Length: 1\r\nContent-Length: 1", b"400"),
        (b"Content-Length: +1", b"400"),
        (b"Content-Length: 1, 1", b"400"),
        (b"Content-Length: " + b"9" * 5000, b"400"),
        (b"Content-Length:", b"400"),
        (b"X: y\r\n z", b"400"),
        (b"X: y\nContent-Length: 5", b"400"),
        (b"X: y\rContent-Length: 5", b"400"),
        (b"Content-Length: 5\r\nConnection: upgrade\r\nUpgrade: websocket", b"400"),
    ],
)
def test_what_parsers_could_frame_in_two_ways_reaches_none(lines: bytes, status: bytes) -> None:
    link, parsers = pieces(HEAD + lines + b"\r\n\r\n")
    assert (link.sent.split(b" ")[1], parsers) == (status, [])


def test_what_is_not_http_is_refused_at_its_first_byte() -> None:
    link, parsers = pieces(b"\x16")
    assert (link.sent.split(b" ")[1], parsers) == (b"400", [])


def test_a_body_that_nobody_reads_is_not_taken() -> None:
    async def large(web: Web) -> None:
        said = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n"
        assert b" 200 " not in await asked(web, said + b"a" * 999_999)
        assert b" 200 " in await asked(web, HEALTH)

    served(large)


def test_a_head_alone_can_be_asked_for() -> None:
    async def ask(web: Web) -> None:
        found = await asked(web, HEALTH.replace(b"GET", b"HEAD"))
        assert found.startswith(b"HTTP/1.1 200 ")
        assert found.endswith(b"\r\n\r\n")

    served(ask)


def test_a_set_of_seeds_is_written_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked for, and away from the loop that answers others."""
    loops: list[bool] = []

    def noted(seeds: SeedSet) -> bytes:
        loops.append(threading.current_thread() is threading.main_thread())
        return listed_bytes(seeds)

    monkeypatch.setattr(worker.metrics.web, "listed_bytes", noted)
    sets = [seed_set(), seed_set()]

    async def ask(web: Web) -> None:
        said = HEALTH.replace(b"healthz", b"seeds")
        found = await asyncio.gather(*(asked(web, said) for _ in range(5)))
        assert {answer.split(b"\r\n")[0] for answer in found} == {b"HTTP/1.1 200 OK"}
        sets.pop()
        assert b" 200 " in await asked(web, said)

    served(ask, lambda: Health(seeds=sets[-1]))
    assert loops == [False, False]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_reading(method: str) -> None:
    async def ask(web: Web) -> None:
        said = f"{method} /seeds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        assert (await asked(web, said.encode())).startswith(b"HTTP/1.1 405 ")

    served(ask)


def status(host: str, listens: str = "127.0.0.1") -> bytes:
    """The answer to a request for a host."""

    async def ask(web: Web) -> bytes:
        return await asked(web, f"GET /seeds HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    return served(ask, config=WebConfig(host=listens, port=0)).split(b" ")[1]


def test_a_page_of_the_web_that_was_led_here_reads_nothing() -> None:
    assert status("evil.example:6066") == b"421"
    assert status("127.0.0.1.evil.example") == b"421"
    assert status("localhost:6066") == b"503"  # as ever: the seeds are not read yet
    assert status("evil.example:6066", listens="0.0.0.0") == b"503"


@pytest.mark.parametrize(
    ("header", "local"),
    [
        ("127.0.0.1", True), ("127.0.0.1:6066", True), ("localhost", True), ("LOCALHOST:1", True),
        ("[::1]:6066", True), ("127.8.9.1", True), ("", False), ("evil.example", False),
        ("127.0.0.1@evil.example", False), ("[::1", False), ("10.0.0.1", False),
        ("localhost.evil.example", False), ("2130706433", False),
    ],
)  # fmt: skip
def test_names_of_this_machine(header: str, local: bool) -> None:
    assert asks_for_loopback(header) is local
