"""The embedded broker as a process: whatever one client sends, another is served, in its bounds."""

import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.clients import create, read, write
from tests.hostile.batches import bomb, produce
from tests.hostile.target import MIB
from tests.hostile.witness import cpu_seconds, peak_memory

MOST_MEMORY = 1024 * MIB
NEWSIFT = Path(sys.executable).with_name("newsift")
TOO_LARGE = 10  # Kafka's code


@dataclass(frozen=True)
class Node:
    """A broker's process and where it listens."""

    pid: int
    address: str

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def serves(self) -> None:
        """Another client makes a topic, writes and reads, and the broker has kept its bounds."""
        topic = f"t{time.monotonic_ns()}"
        create(self.address, topic)
        write(self.address, topic, [b"value"])
        assert [record.value for record in read(self.address, topic, 1)] == [b"value"]
        assert peak_memory(self.pid) < MOST_MEMORY


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    process = subprocess.Popen(
        [NEWSIFT, "broker", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield Node(process.pid, process.stdout.readline().strip())
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_bomb_is_refused_and_the_next_batch_is_not(node: Node, policy: str) -> None:
    """The broker looks into a batch of a compacted topic, for its keys: 19 KB took 1.3 GB."""
    topic = f"bombs-{policy}"
    create(node.address, topic, cleanup_policy=policy)
    assert produce(node.address, topic, bomb("zstd", 1024 * MIB)) == TOO_LARGE
    write(node.address, topic, [b"value"], key=b"key")
    node.serves()


def test_frames_that_are_never_finished_hold_little(node: Node) -> None:
    with ExitStack() as stack:
        for _ in range(12):
            client = stack.enter_context(socket.create_connection(node.place, timeout=10))
            client.settimeout(2)
            with suppress(OSError):  # hung up on, or no more is taken
                client.sendall(struct.pack(">i", 60 * MIB) + bytes(40 * MIB))
        node.serves()


def test_a_crowd_of_connections_leaves_room_for_others(node: Node) -> None:
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(socket.create_connection(node.place, timeout=10))
        node.serves()
    node.serves()


def test_a_request_of_many_things_costs_no_more_than_a_moment(node: Node) -> None:
    """1.2 MB of names in one request kept everybody else waiting for 2.3 s."""
    names = b"".join(struct.pack(">h", 4) + b"t%03d" % (n % 1000) for n in range(200_000))
    body = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 200_000) + names
    before = cpu_seconds(node.pid)
    with socket.create_connection(node.place, timeout=10) as client:
        client.sendall(struct.pack(">i", len(body)) + body)
        assert client.recv(100) == b""
    assert cpu_seconds(node.pid) - before < 0.5
    node.serves()


def test_noise_is_hung_up_on(node: Node) -> None:
    noise = random.Random(7)
    for size in (1, 4, 8, 100, 10_000):
        with socket.create_connection(node.place, timeout=40) as client:
            client.sendall(noise.randbytes(size))
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b""
    node.serves()
