"""Record batches as they lie on the wire: the header, its checks, and the records inside."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from kafka.record.util import decode_varint

from worker.broker.codes import Code, Refused
from worker.kafka.batches.header import (
    APPEND_TIME,
    ATTRIBUTES,
    CODEC,
    CRC,
    HEADER,
    MAGIC,
    OFFSET_AND_LENGTH,
    Header,
    checksum,
)  # fmt: skip
from worker.kafka.batches.opener import trusted
from worker.kafka.batches.unpack import unpacked
from worker.kafka.batches.walk import CROWDED, FOREIGN, GOOD, walk
from worker.posts.outcome import Reason
from worker.posts.unreadable import UnreadableError

LARGEST = 2**26  # bytes that a batch may unpack to
MOST_RECORDS = 2**17  # in a batch, each header counted as one more
LIGHT = 2**15  # bytes that are checked at once; longer ones, and packed ones, in a thread
LEADER_EPOCH = struct.pack(">i", 0)


@dataclass(slots=True)
class StoredBatch:
    """A record batch at rest in a log, whole and as it came, with the offsets it was given."""

    base: int
    last: int
    max_timestamp: int
    data: bytes
    horizon: int | None = None  # when compaction may take its tombstones


class StoredRecord(NamedTuple):
    """One record inside a batch: where its bytes stand, and what offsets and compaction need."""

    start: int
    end: int
    timestamp: int
    offset: int
    key: bytes | None
    is_tombstone: bool


ENCODERS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode,
}  # fmt: skip


def read_header(data: bytes) -> Header:
    """The header of the one whole batch that these bytes hold, checksum and claims checked."""
    if len(data) > MAGIC and data[MAGIC] != 2:
        raise Refused(Code.INVALID_RECORD, f"message format {data[MAGIC]} is not format 2")
    if len(data) > HEADER.size and len(data) > Header.of(data).length + OFFSET_AND_LENGTH:
        raise Refused(Code.INVALID_RECORD, "a partition takes exactly one batch in a request")
    try:
        header = trusted(data)
    except UnreadableError as error:
        raise Refused(Code.CORRUPT_MESSAGE, error.detail) from error
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise Refused(Code.INVALID_RECORD, "the record batch miscounts its records")
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
    struct.pack_into(">I", data, CRC, checksum(data))
    return bytes(data)


def is_light(data: bytes) -> bool:
    """Whether a batch is checked so soon that nobody has to wait for it."""
    return len(data) <= LIGHT and not (len(data) > ATTRIBUTES + 1 and data[ATTRIBUTES + 1] & CODEC)


def check_records(data: bytes, header: Header) -> None:
    """Refuse a batch whose records are not as many, as long or in such an order as it says."""
    body = records_of(data, header)
    found = walk(body, header.record_count, header.last_offset_delta, MOST_RECORDS)
    if found == CROWDED:
        raise Refused(
            Code.MESSAGE_TOO_LARGE, f"the batch has more than {MOST_RECORDS} records and headers"
        )
    if found not in (GOOD, FOREIGN):
        raise Refused(Code.INVALID_RECORD, f"the batch is malformed at byte {found} of its records")


def records_of(data: bytes, header: Header) -> bytes:
    """The records of a batch without their compression, if they are not too large."""
    try:
        return bytes(unpacked(header.codec, memoryview(data)[HEADER.size :], LARGEST))
    except UnreadableError as error:
        large = error.why is Reason.BATCH_BYTES
        code = Code.MESSAGE_TOO_LARGE if large else Code.CORRUPT_MESSAGE
        raise Refused(code, error.detail) from error


def closed(body: bytes, header: Header) -> bytes:
    """Records compressed as their batch says."""
    return bytes(ENCODERS[header.codec](body)) if header.codec else body


def records(body: bytes, header: Header) -> Iterator[StoredRecord]:
    """Every record of an opened batch; a malformed one is refused."""
    at = 0
    try:
        for _ in range(header.record_count):
            record = _record(body, at, header)
            yield record
            at = record.end
    except (IndexError, ValueError) as error:
        raise Refused(Code.INVALID_RECORD, f"record at byte {at} is malformed") from error


def read_records(data: bytes) -> list[StoredRecord]:
    """The records of a stored batch; of a damaged or wrongly compressed one, a refusal."""
    header = Header.of(data)
    return list(records(records_of(data, header), header))


def _record(body: bytes, at: int, header: Header) -> StoredRecord:
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
    return StoredRecord(
        at, end, timestamp, header.base_offset + offset_delta, key, value_length < 0
    )
