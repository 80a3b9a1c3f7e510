"""Batches as producers make them, and as a stranger does: whole bytes, with sound checksums."""

import resource
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import cramjam
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import encode_varint

from newsift.broker.batches import ATTRIBUTES_OFFSET, CRC_OFFSET, HEADER, Header, checksum

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
PACK: dict[int, Callable[[bytes], bytes]] = {
    0: bytes, 1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode,
}  # fmt: skip


def batch(rows: Sequence[Row], codec: int = 0, base: int = 0, **header: int) -> bytes:
    """A batch of these records; what is named of its header says something else."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 2**30)
    for number, (key, value, headers) in enumerate(rows):
        builder.append(number, 1_000 + number, key, value, headers)
    body = bytes(builder.build())[HEADER.size :]
    return sealed(PACK[codec](body), codec, base, len(rows), **header)


def sealed(body: bytes, codec: int, base: int, count: int, **header: int) -> bytes:
    """These bytes as the body of a batch that says it has so many records, checksum and all."""
    made = Header(
        base, HEADER.size - 12 + len(body), 0, 2, 0, codec, count - 1, 1_000, 1_000 + count,
        -1, -1, -1, count,
    )._replace(**header)  # fmt: skip
    return fixed(HEADER.pack(*made) + body)


def fixed(data: bytes) -> bytes:
    return data[:CRC_OFFSET] + struct.pack(">I", checksum(data)) + data[ATTRIBUTES_OFFSET:]


def record(
    time: int, offset: int, key: bytes | None, value: bytes | None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> bytes:  # fmt: skip
    """One record; time and offset count from its batch's first."""
    parts = [b"\0", varint(time), varint(offset), _sized(key), _sized(value), varint(len(headers))]
    for name, content in headers:
        parts += [_sized(name.encode()), _sized(content)]
    body = b"".join(parts)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    made = bytearray()
    encode_varint(value, made.append)
    return bytes(made)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def values(count: int) -> list[Row]:
    return [(None, b"value %d" % number, []) for number in range(count)]


@cache  # it takes a second to pack
def bomb(codec: int, size: int) -> bytes:
    """A batch of one record whose value is that many zeros, sound in all.

    They are packed piece by piece, so that nobody here holds all.
    """
    fields = b"\0\0\0" + varint(-1) + varint(size)  # attributes, time, offset, key, value's length
    head = varint(len(fields) + size + 1) + fields
    pieces = [head, *[bytes(2**20)] * (size // 2**20), b"\0"]
    if codec == CODECS["gzip"]:
        gzip = zlib.compressobj(9, wbits=31)
        return sealed(b"".join([*map(gzip.compress, pieces), gzip.flush()]), codec, 0, 1)
    packers: dict[int, Any] = {
        3: cramjam.lz4.Compressor(content_checksum=False, block_linked=False),
        4: cramjam.zstd.Compressor(),
    }
    for piece in pieces:
        packers[codec].compress(piece)
    return sealed(bytes(packers[codec].finish()), codec, 0, 1)


def peak_memory() -> int:
    """The most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
