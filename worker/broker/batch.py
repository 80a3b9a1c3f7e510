"""Record batches as they lie on the wire: the header, its checks, and the records inside."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafka.codec import (
    gzip_decode,
    gzip_encode,
    lz4_decode,
    lz4_encode,
    snappy_decode,
    snappy_encode,
    zstd_decode,
    zstd_encode,
)
from kafka.record.util import calc_crc32c, decode_varint

from worker.broker.codes import Code, Refused

HEADER = struct.Struct(">qiibIhiqqqhii")
OFFSET_AND_LENGTH = 12
CRC = 17  # where the checksum stands; it covers all that follows it
ATTRIBUTES = 21
CODEC = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
LEADER_EPOCH = struct.pack(">i", 0)


class Header(NamedTuple):
    """The fixed part of a record batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


@dataclass(slots=True)
class Batch:
    """A record batch at rest in a log, whole and as it came, with the offsets it was given."""

    base: int
    last: int
    max_timestamp: int
    data: bytes
    horizon: int | None = None  # when compaction may take its tombstones


class Record(NamedTuple):
    """One record inside a batch: where its bytes stand, and what offsets and compaction need."""

    start: int
    end: int
    timestamp: int
    offset: int
    key: bytes | None
    is_tombstone: bool


Codec = Callable[[bytes], bytes]
CODECS: dict[int, tuple[Codec, Codec]] = {
    1: (gzip_encode, gzip_decode),
    2: (snappy_encode, snappy_decode),
    3: (lz4_encode, lz4_decode),
    4: (zstd_encode, zstd_decode),
}


def read_header(data: bytes) -> Header:
    """The header of the one whole batch that these bytes hold, checksum and claims checked."""
    if len(data) < HEADER.size:
        raise Refused(Code.CORRUPT_MESSAGE, f"{len(data)} bytes are too few for a record batch")
    if data[16] != 2:
        raise Refused(Code.INVALID_RECORD, f"message format {data[16]} is not format 2")
    header = Header(*HEADER.unpack_from(data))
    if header.length + OFFSET_AND_LENGTH != len(data):
        small = header.length + OFFSET_AND_LENGTH < len(data)
        code = Code.INVALID_RECORD if small else Code.CORRUPT_MESSAGE
        raise Refused(code, "a partition takes exactly one whole record batch in a request")
    if calc_crc32c(memoryview(data)[ATTRIBUTES:]) != header.crc:
        raise Refused(Code.CORRUPT_MESSAGE, "the record batch has a wrong checksum")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise Refused(Code.INVALID_RECORD, "the record batch miscounts its records")
    if header.attributes & CODEC > max(CODECS):
        raise Refused(Code.INVALID_RECORD, f"compression {header.attributes & CODEC} is unknown")
    return header


def placed(data: bytes, offset: int) -> bytes:
    """The batch with its place in the log written in; the checksum does not cover it."""
    view = memoryview(data)
    return b"".join((struct.pack(">q", offset), view[8:12], LEADER_EPOCH, view[16:]))


def stamped(data: bytes, header: Header, now: int) -> bytes:
    """The batch with the broker's time of arrival in place of its producer's times."""
    attributes = header.attributes | APPEND_TIME
    return rebuilt(header._replace(attributes=attributes, max_timestamp=now), data[HEADER.size :])


def rebuilt(header: Header, body: bytes) -> bytes:
    """A batch of this header and this body, length and checksum made anew."""
    length = HEADER.size - OFFSET_AND_LENGTH + len(body)
    data = bytearray(HEADER.pack(*header._replace(length=length, crc=0)) + body)
    struct.pack_into(">I", data, CRC, calc_crc32c(memoryview(data)[ATTRIBUTES:]))
    return bytes(data)


def opened(data: bytes, header: Header) -> bytes:
    """The records of a batch without their compression."""
    codec = header.attributes & CODEC
    body = data[HEADER.size :]
    return bytes(CODECS[codec][1](body)) if codec else body


def closed(body: bytes, header: Header) -> bytes:
    """Records compressed as their batch says."""
    codec = header.attributes & CODEC
    return bytes(CODECS[codec][0](body)) if codec else body


def records(body: bytes, header: Header) -> Iterator[Record]:
    """Every record of an opened batch; a malformed one is refused."""
    at = 0
    try:
        for _ in range(header.record_count):
            record = _record(body, at, header)
            yield record
            at = record.end
    except (IndexError, ValueError) as error:
        raise Refused(Code.INVALID_RECORD, f"record at byte {at} is malformed") from error


def read_records(data: bytes) -> list[Record]:
    """The records of a stored batch; of a damaged or wrongly compressed one, a refusal."""
    header = Header(*HEADER.unpack_from(data))
    try:
        body = opened(data, header)
    except Exception as error:  # each codec fails in a way of its own
        raise Refused(Code.CORRUPT_MESSAGE, "the record batch cannot be decompressed") from error
    return list(records(body, header))


def _record(body: bytes, at: int, header: Header) -> Record:
    length, inside = decode_varint(body, at)
    end = inside + length
    if not inside < end <= len(body):
        raise ValueError(length)
    timestamp_delta, inside = decode_varint(body, inside + 1)  # after a byte of attributes
    offset_delta, inside = decode_varint(body, inside)
    key_length, inside = decode_varint(body, inside)
    key = None if key_length < 0 else body[inside : inside + key_length]
    value_length, inside = decode_varint(body, inside + max(key_length, 0))
    if inside + max(value_length, 0) > end:
        raise ValueError(value_length)
    timestamp = header.first_timestamp + timestamp_delta
    if header.attributes & APPEND_TIME:
        timestamp = header.max_timestamp
    return Record(at, end, timestamp, header.base_offset + offset_delta, key, value_length < 0)
