"""The web server of a worker under attack: others get their answers."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

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
    before = len(few_files.worker.output)
    with attacked(few_files), connections(few_files.port, IDLERS, sent):
        time.sleep(1)
        assert "true" in answer(few_files.port, "/healthz")
    assert len(few_files.worker.output) - before < 10_000
