"""The web server under attack: whoever holds connections or feigns a host gets nowhere."""

import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from newsift.operations.workers import Identity, kafka_cluster_id, own_workers
from tests.broker.clients import until
from tests.hostile.attack import attacked
from tests.hostile.target import Target
from tests.hostile.witness import answer
from worker.config import Config, KafkaConfig

FILES = 256
IDLERS = 300


@pytest.fixture
def few_files(target: Target) -> Iterator[Target]:
    """A worker that may have no more than 256 files open."""
    before = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (FILES, before[1]))
    yield target
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, before)


def connections(port: int, count: int, sent: bytes) -> ExitStack:
    """So many connections that send this and no more."""
    stack = ExitStack()
    for _ in range(count):
        made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        made.sendall(sent)
    return stack


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "], ids=["nothing", "half"]
)
def test_idle_connections_hold_nobody_up(few_files: Target, sent: bytes) -> None:
    said = len(few_files.worker.said)
    with attacked(few_files), connections(few_files.port, IDLERS, sent):
        time.sleep(1)
        assert "true" in answer(few_files.port, "/healthz")
    assert len(few_files.worker.said) - said < 10_000


def test_a_header_that_never_ends_is_hung_up_on(target: Target) -> None:
    with socket.create_connection(("127.0.0.1", target.port), timeout=20) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        client.settimeout(20)
        while client.recv(1000):
            pass


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6066", "127.0.0.1.evil.example"])
def test_a_feigned_host_reads_nothing(target: Target, host: str) -> None:
    """A page of the web whose name comes to point at this machine would read it otherwise."""
    with pytest.raises(ConnectionError, match="4"):
        answer(target.port, "/seeds", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:1234", "[::1]"])
def test_this_machine_reads_what_it_likes(target: Target, host: str) -> None:
    assert "flood" in answer(target.port, "/seeds", host)


NONSENSE = [
    b"\x00" * 1000, b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /seeds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 9_999,
    b"GET /seeds HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100_000,
    b"GET /seeds HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
]  # fmt: skip


MIB = 2**20
LARGE = {
    "semicolons": b"Cookie: " + b";" * 16 * MIB,
    "pairs": b"Cookie: " + b"a=b;" * 4 * MIB,
    "hosts": b"Host: localhost\r\n" * MIB,
    "headers": b"A: b\r\n" * 1_000_000,
}


@pytest.mark.parametrize("lines", LARGE.values(), ids=LARGE)
def test_headers_of_16_mib_are_refused_after_32_kib(target: Target, lines: bytes) -> None:
    with attacked(target):
        answer, sent = answer_while_sending(target.port, b"GET /seeds HTTP/1.1\r\n" + lines)
    assert answer.split(b" ")[1] == b"431"
    assert sent < MIB  # what the sockets hold on both sides; the rest was not asked for


def answer_while_sending(port: int, data: bytes) -> tuple[bytes, int]:
    """The first bytes of an answer, and how many bytes were sent before it came."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        sent = 0
        while not select.select([client], [], [], 0.001)[0]:
            sent += client.send(data[sent : sent + 2**13])
        return client.recv(1000), sent


@pytest.mark.parametrize(
    "body",
    [
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * MIB,
        b"\r\n" + b"GET /seeds HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100_000,
        b"Content-Length: 1\r\nContent-Length: 99\r\n\r\n" + b"x" * MIB,
    ],
    ids=["trailers", "pipelined", "two lengths"],
)
def test_what_follows_a_request_costs_nothing(target: Target, body: bytes) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + body
    with attacked(target):
        try:
            answer, sent = answer_while_sending(target.port, request)
        except OSError:
            return  # the server hung up while more was being sent
    assert sent < len(request)
    # The server may hang up before its answer is on its way: then the client reads an end.
    assert not answer or answer.split(b" ")[1] in (b"411", b"200", b"400")


def test_what_is_no_request_is_refused(target: Target) -> None:
    with attacked(target):
        for sent in NONSENSE:
            with socket.create_connection(("127.0.0.1", target.port), timeout=5) as client:
                try:
                    client.sendall(sent)
                    client.shutdown(socket.SHUT_WR)
                    assert b"root:" not in client.recv(1000)
                except OSError:
                    pass
        until(lambda: "true" in answer(target.port, "/healthz"))


def test_a_worker_is_asked_by_those_of_its_own_kafka_and_group_alone(target: Target) -> None:
    """Whoever runs another worker on this machine would be believed otherwise."""
    kafka = KafkaConfig(bootstrap_servers=target.server.address, group=target.group)
    cluster_id = kafka_cluster_id(Config(kafka=kafka))
    address = f"127.0.0.1:{target.port}"
    assert own_workers([address], Identity(cluster_id, target.group)) == [address]
    assert own_workers([address], Identity(cluster_id, "another")) == []
    assert own_workers([address], Identity("another", target.group)) == []
