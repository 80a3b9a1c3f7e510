"""Record batches made by hand: bombs, damaged ones, and the way past a broker's own checks."""

import struct
import time
import zlib
from collections.abc import Iterator
from typing import Any

import cramjam
from kafka.protocol.producer import ProduceRequest
from kafka.record.util import calc_crc32c, encode_varint

from newsift.broker.server import Address
from tests.broker.server import Server
from tests.broker.wire import Wire
from worker.kafka.batches.header import HEADER, Header

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
ZEROS = bytes(2**24)
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BLOCK = 2**15  # what Kafka's own clients put into a block of snappy


def varint(number: int) -> bytes:
    """A zigzag varint, as records have them."""
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def record(value: bytes, key: bytes | None = b"any", offset: int = 0) -> bytes:
    """One record."""
    return b"".join(record_parts(value, len(value), key, offset))


def record_parts(
    value: bytes, size: int, key: bytes | None = b"any", offset: int = 0
) -> Iterator[bytes]:
    """One record in parts: `value` again and again, until `size` bytes are full."""
    named = varint(-1) if key is None else varint(len(key)) + key
    head = b"\x00" + varint(0) + varint(offset) + named + varint(size)
    yield varint(len(head) + size + 1) + head
    for _ in range(size // len(value) if value else 0):
        yield value
    yield b"\x00"


def batch(body: bytes, count: int = 1, codec: int = 0, **fields: int) -> bytes:
    """A batch around a body; any field of its header may be wrong on purpose."""
    now = int(time.time() * 1000)
    length = HEADER.size - 12 + len(body)
    header = Header(0, length, -1, 2, 0, codec, count - 1, now, now, -1, -1, -1, count)
    data = bytearray(HEADER.pack(*header._replace(**fields)) + body)
    if "crc" not in fields:
        struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return bytes(data)


def bomb(codec: str, size: int, key: bytes = b"any") -> bytes:
    """A batch of a few KB whose records unpack to so many bytes of zeros."""
    each = 4 * len(ZEROS)
    count = size // each
    parts = (part for n in range(count) for part in record_parts(ZEROS, each, key, n))
    return batch(PACKERS[codec](parts), count, CODECS[codec])


def packed_gzip(parts: Iterator[bytes]) -> bytes:
    """The parts as gzip."""
    packer = zlib.compressobj(1, wbits=31)
    return b"".join([packer.compress(part) for part in parts] + [packer.flush()])


def packed_snappy(parts: Iterator[bytes]) -> bytes:
    """The parts as snappy in the blocks of Kafka's clients."""
    zeros = snappy_block(ZEROS[:BLOCK]) * (len(ZEROS) // BLOCK)
    return XERIAL + b"".join(zeros if part is ZEROS else snappy_block(part) for part in parts)


def snappy_block(part: bytes) -> bytes:
    """One block with its length."""
    packed = bytes(cramjam.snappy.compress_raw(part))
    return struct.pack(">i", len(packed)) + packed


def packed_lz4(parts: Iterator[bytes]) -> bytes:
    """The parts as one frame of lz4."""
    return streamed(cramjam.lz4.Compressor(content_checksum=False, block_linked=False), parts)


def packed_zstd(parts: Iterator[bytes]) -> bytes:
    """The parts as one frame of zstd, its size unsaid."""
    return streamed(cramjam.zstd.Compressor(), parts)


def streamed(packer: Any, parts: Iterator[bytes]) -> bytes:
    """The parts through a packer that takes them one by one."""
    for part in parts:
        packer.compress(part)
    return bytes(packer.finish())


PACKERS = {
    "gzip": packed_gzip, "snappy": packed_snappy, "lz4": packed_lz4, "zstd": packed_zstd,
}  # fmt: skip


def produce(address: str, topic: str, data: bytes, partition: int = 0) -> int:
    """Send a batch as it is; the broker's error code."""
    row = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=data)
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=10_000, max_version=8,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[row])],
    )  # fmt: skip
    with Wire(address) as wire:
        return int(wire.ask(request).responses[0].partition_responses[0].error_code)


def planted(server: Server, topic: str, data: bytes, partition: int = 0) -> None:
    """Put a batch into the embedded broker's log as it is, past all that would refuse it."""
    assert isinstance(server, Address)

    async def plant() -> None:
        log = server.broker.cluster.topics[topic].log(partition)
        log.append(data, Header(*HEADER.unpack_from(data)))

    server.call(plant())
