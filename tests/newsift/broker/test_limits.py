import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from newsift.broker.batches import HEADER
from newsift.broker.codes import Code
from newsift.broker.server import Address, running
from newsift.broker.wire import MAX_ITEMS
from tests.broker.clients import create, write
from tests.broker.raw_requests import Idempotent, Wire
from tests.broker.record_batches import CODECS, batch, bomb, peak_memory, sealed, values

MIB = 2**20
packed = pytest.mark.parametrize("codec", [codec for codec in CODECS.values() if codec])
REFUSED = {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}


@pytest.fixture(scope="module")
def broker() -> Iterator[Address]:
    with running() as address:
        create(address, "t")
        create(address, "compacted", cleanup_policy="compact")
        yield address


@pytest.fixture
def stranger(broker: Address) -> Iterator[Idempotent]:
    made = Idempotent(broker, "t")
    yield made
    assert made.send(0, [b"on the same line"]).error_code == Code.NONE
    made.wire.close()


def dialled(address: Address) -> socket.socket:
    host, port = address.address.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def is_served(address: Address) -> bool:
    with closing(Wire(address)) as wire:
        return bool(wire.ask(MetadataRequest(version=1, topics=None)).controller_id == 0)


def has_hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(10) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("codec", [1, 3, 4])  # snappy packs a megabyte of nothing but 20-fold
@pytest.mark.parametrize("topic", ["t", "compacted"])
def test_a_bomb_is_refused_before_it_is_unpacked(
    stranger: Idempotent, codec: int, topic: str
) -> None:
    poison = bomb(codec, (128 if codec == 3 else 512) * MIB)  # lz4 packs least
    before = peak_memory()
    stranger.topic = topic
    assert stranger.produce(poison).error_code == Code.MESSAGE_TOO_LARGE
    assert peak_memory() - before < 200 * MIB
    stranger.topic = "t"


@packed
def test_a_batch_that_cannot_be_unpacked_is_refused(stranger: Idempotent, codec: int) -> None:
    whole = batch(values(100), codec)[HEADER.size :]
    for body in (whole[:-9], b"no such thing", b""):
        assert stranger.produce(sealed(body, codec, 0, 100)).error_code in REFUSED


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_with_a_wrong_count_is_refused(stranger: Idempotent, codec: int) -> None:
    body = batch(values(100), codec)[HEADER.size :]
    for count in (1, 99, 101, 2**31 - 1):
        assert stranger.produce(sealed(body, codec, 0, count)).error_code in REFUSED


def test_a_batch_with_too_many_headers_is_refused(stranger: Idempotent) -> None:
    headers: Any = [("", None)] * 2**17
    many = batch([(None, b"", headers)], 4)
    assert stranger.produce(many).error_code == Code.MESSAGE_TOO_LARGE


def test_a_request_with_too_many_names_ends_its_connection(broker: Address) -> None:
    topic, fetched = MetadataRequest.MetadataRequestTopic, FetchRequest.FetchTopic
    produced = ProduceRequest.TopicProduceData
    names = [topic(name=f"n{n}") for n in range(MAX_ITEMS + 1)]
    parts = [fetched.FetchPartition(partition=n, partition_max_bytes=9) for n in range(MAX_ITEMS)]
    rows = [produced.PartitionProduceData(index=n) for n in range(MAX_ITEMS)]
    for request in (
        MetadataRequest(version=9, topics=names),
        FetchRequest(version=11, max_wait_ms=9, topics=[fetched(topic="t", partitions=parts)]),
        ProduceRequest(version=8, acks=-1, topic_data=[produced(name="t", partition_data=rows)]),
    ):
        with closing(Wire(broker)) as wire, pytest.raises(ConnectionError):
            wire.ask(request)
        assert is_served(broker)


def test_unfinished_frames_share_a_bounded_memory() -> None:
    with running(max_buffered_bytes=MIB) as address:
        frame = struct.pack(">i", 10 * MIB) + bytes(MIB // 2 - 2**16)
        first, second, third = (dialled(address) for _ in range(3))
        for each in (first, second):
            each.sendall(frame)
        with closing(first), closing(second), closing(third):
            deadline = time.monotonic() + 20
            while address.broker._buffer.size < MIB - 2**18:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            third.sendall(frame)
            assert has_hung_up(third)
            assert is_served(address)


def test_a_slow_frame_and_an_idle_client_are_disconnected() -> None:
    with running(max_frame_s=0.2) as address, closing(dialled(address)) as slow:
        slow.sendall(struct.pack(">i", 1000) + b"x")
        assert has_hung_up(slow)
        assert address.broker._buffer.size == 0
    with running(max_idle_s=0.2) as address, closing(dialled(address)) as idle:
        assert has_hung_up(idle)


def test_one_connection_too_many_is_refused_alone() -> None:
    with running(max_connections=2) as address:
        first, second, third = (dialled(address) for _ in range(3))
        with closing(first), closing(second):
            with closing(third):
                assert has_hung_up(third)
            second.close()
            write(address, "made", [b"there is room again"])
