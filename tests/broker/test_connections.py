"""What a broker does with bytes that are no requests: end that connection, and nothing else."""

import socket
import struct
from contextlib import suppress

import pytest

from tests.broker.clients import create, read, write


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1) + b"x" * 100,
        struct.pack(">i", 3) + b"\x00\x01\x02",
        struct.pack(">ihhi", 8, 9999, 0, 1),
        struct.pack(">ihhih", 10, 0, 3, 1, -1),
    ],
    ids=["http", "negative", "huge", "short", "unknown-request", "empty-produce"],
)
def test_a_frame_that_is_no_request_ends_its_connection_alone(
    address: str, unique: str, sent: bytes
) -> None:
    create(address, unique)
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as stray:
        stray.sendall(sent)
        with suppress(ConnectionResetError):
            assert stray.recv(1000) == b""
    write(address, unique, [b"others go on"])
    assert [record.value for record in read(address, unique, 1)] == [b"others go on"]


def test_a_client_that_stops_in_the_middle_of_a_frame_holds_up_nobody(
    address: str, unique: str
) -> None:
    create(address, unique)
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as stray:
        stray.sendall(struct.pack(">i", 1000) + b"x" * 10)
        write(address, unique, [b"others go on"])
        assert [record.value for record in read(address, unique, 1)] == [b"others go on"]
