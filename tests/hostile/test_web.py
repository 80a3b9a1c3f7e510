"""The web server of a worker under attack: others get their answers."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.broker.clients import until
from tests.hostile.attack import attacked
from tests.hostile.target import Target
from tests.hostile.witness import answer

FILES = 256
IDLERS = 300


@pytest.fixture
def few_files(target: Target) -> Iterator[Target]:
    before = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (FILES, before[1]))
    yield target
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, before)


def connections(port: int, count: int, sent: bytes) -> ExitStack:
    stack = ExitStack()
    for _ in range(count):
        made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        made.sendall(sent)
    return stack


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "], ids=["nothing", "half"]
)
def test_idle_connections_do_not_block_others(few_files: Target, sent: bytes) -> None:
    said = len(few_files.worker.said)
    with attacked(few_files), connections(few_files.port, IDLERS, sent):
        time.sleep(1)
        assert "true" in answer(few_files.port, "/healthz")
    assert len(few_files.worker.said) - said < 10_000


NONSENSE = [
    b"\x00" * 1000, b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /seeds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 9_999,
    b"GET /seeds HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100_000,
    b"GET /seeds HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
]  # fmt: skip


def test_invalid_requests_are_refused(target: Target) -> None:
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
