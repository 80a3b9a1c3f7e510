import logging
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest, JoinGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from newsift.broker.handlers import API_HANDLERS
from newsift.broker.server import Address, running
from newsift.broker.wire import BadFrameError, Client, decode_call

REQUESTS = [
    MetadataRequest(version=9, topics=[MetadataRequest.MetadataRequestTopic(name="t")]),
    FetchRequest(version=11, max_wait_ms=1, min_bytes=1, topics=[]),
    JoinGroupRequest(version=5, group_id="g", member_id="", protocol_type="consumer"),
    CreateTopicsRequest(version=4, topics=[]),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Address]:
    with running(max_request_bytes=100_000) as address:
        yield address


def frame(request: object) -> bytes:
    request.with_header(correlation_id=5, client_id="test")  # type: ignore[attr-defined]
    return bytes(request.encode(header=True))  # type: ignore[attr-defined]


def exchange(address: str, data: bytes, *, hang_up: bool = True) -> bytes:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        try:
            connection.sendall(data)
            if hang_up:
                connection.shutdown(socket.SHUT_WR)
            return connection.recv(2**16)
        except (ConnectionError, TimeoutError):
            return b""  # a request to wait, perhaps


def is_alive(address: str) -> bool:
    request = frame(ApiVersionsRequest(version=0))
    answer = exchange(address, struct.pack(">i", len(request)) + request, hang_up=False)
    return bool(ApiVersionsResponse.decode(answer[8:], version=0).error_code == 0)


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_request_ends_only_its_connection(broker: Address, data: st.DataObject) -> None:
    whole = bytearray(frame(data.draw(st.sampled_from(REQUESTS))))
    for at in data.draw(st.lists(st.integers(4, len(whole) - 1), max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(8, len(whole)))])
    exchange(broker, struct.pack(">i", len(cut)) + cut)
    assert is_alive(broker)


@given(st.sampled_from(sorted(API_HANDLERS)), st.integers(-1, 15), st.binary(max_size=200))
def test_a_call_is_read_or_a_bad_frame(key: int, version: int, rest: bytes) -> None:
    data = struct.pack(">hhi", key, version, 5) + rest
    try:
        call = decode_call(data, API_HANDLERS, Client("", "", 0))
    except BadFrameError:
        return
    assert (call.api_key, call.correlation_id) == (key, 5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">i", 2**31 - 1), "not within"),
        (struct.pack(">i", -1), "not within"),
        (struct.pack(">i", 100_001), "not within"),
        (b"GET / HTTP/1.1\r\n\r\n", "not within"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "wants TLS"),
        (struct.pack(">ihhi", 8, 9999, 0, 1), "request 9999 is not served"),
        (struct.pack(">ihhi", 8, 3, 999, 1), "version 999 is not served"),
        (struct.pack(">ihhi", 8, 3, 1, 1), "malformed"),
        (struct.pack(">ihhihiib", 19, 19, 4, 1, -1, -1, 1000, 0), "malformed (topics is null)"),
        (struct.pack(">i", 50) + b"short", "hung up inside"),
        (b"\x00", "hung up inside"),
    ],
    ids=[
        "huge", "negative", "over the limit", "http", "tls", "unknown", "too new", "no body",
        "null", "truncated", "truncated length",
    ],
)  # fmt: skip
def test_a_closed_connection_is_logged_in_one_line(
    broker: Address, caplog: pytest.LogCaptureFixture, data: bytes, message: str
) -> None:
    with caplog.at_level(logging.WARNING, "newsift.broker"):
        assert exchange(broker, data) == b""
        assert is_alive(broker)
    (record,) = (each for each in caplog.records if each.name.startswith("newsift.broker"))
    assert record.getMessage().startswith("127.0.0.1: ")
    assert message in record.getMessage()


def test_a_newer_client_gets_the_versions_that_are_served(broker: Address) -> None:
    request = struct.pack(">hhi", 18, 99, 7) + b"whatever comes then"
    answer = exchange(broker, struct.pack(">i", len(request)) + request, hang_up=False)
    assert struct.unpack_from(">i", answer, 4) == (7,)
    response = ApiVersionsResponse.decode(answer[8:], version=0)
    assert response.error_code == 35
    served = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert served == {key: (api.low, api.high) for key, api in API_HANDLERS.items()}
    assert not {24, 25, 26, 28} & set(served), "nothing transactional is offered"
