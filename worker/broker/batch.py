"""Record batches as they lie in a log: checked before they are kept, and read again."""

import struct
from dataclasses import dataclass
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch

from worker.broker.codes import Code, Refused
from worker.kafka.batches.header import (
    ATTRIBUTES,
    CODEC,
    HEADER,
    MAGIC,
    OFFSET_AND_LENGTH,
    Header,
)
from worker.kafka.batches.opener import Opener, trusted
from worker.kafka.batches.walk import walk
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


def _short_walk(body: Any, count: int, last_delta: int, most: int) -> int:
    return walk(body, count, last_delta, min(most, MOST_RECORDS))


_opener = Opener(LARGEST, _short_walk)


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


def is_light(data: bytes) -> bool:
    """Whether a batch is checked so soon that nobody has to wait for it."""
    return len(data) <= LIGHT and not (len(data) > ATTRIBUTES + 1 and data[ATTRIBUTES + 1] & CODEC)


def unpacked_batch(data: bytes) -> bytes:
    """The batch, not compressed; one that is too large, or is not as it says, is refused."""
    try:
        return b"".join(_opener.read(memoryview(data))[1])
    except UnreadableError as error:
        large = error.why is Reason.BATCH_BYTES
        code = Code.MESSAGE_TOO_LARGE if large else Code.INVALID_RECORD
        raise Refused(code, error.detail) from error


def read_records(data: bytes) -> list[Any]:
    """The records of a batch as aiokafka reads them; of one that is not sound, a refusal."""
    return list(DefaultRecordBatch(unpacked_batch(data)))
