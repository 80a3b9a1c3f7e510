"""Record batches of format 2: the header, the checksum, and a check of the records."""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

from crc32c import crc32c

from encoder.errors import NewsiftError
from worker.posts.outcome import Reason

HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_LENGTH = struct.Struct(">i")
OFFSET_AND_LENGTH = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17  # The checksum covers all that follows it.
ATTRIBUTES_OFFSET = 21
CODEC_BITS = 0x07
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

Bytes = bytes | bytearray | memoryview


class UnreadableError(NewsiftError):
    """A record batch that is damaged or too large."""

    def __init__(self, why: Reason, detail: str) -> None:
        super().__init__(detail)
        self.why, self.detail = why, detail


class ChecksumError(UnreadableError):
    """A record batch with a wrong checksum: a disk or the network has changed it."""


def bad_batch(detail: str) -> UnreadableError:
    return UnreadableError(Reason.BAD_BATCH, detail)


def too_large_batch(limit: int) -> UnreadableError:
    return UnreadableError(
        Reason.BATCH_BYTES, f"the record batch has more than {limit} bytes once it is unpacked"
    )


class Header(NamedTuple):
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

    @classmethod
    def parse(cls, data: Bytes) -> Self:
        return cls(*HEADER.unpack_from(data))

    @property
    def codec(self) -> int:
        """0 for no compression."""
        return self.attributes & CODEC_BITS

    @property
    def last_offset(self) -> int:
        """The offset of the last record, or of the last one that compaction removed."""
        return self.base_offset + self.last_offset_delta


def checksum(data: Bytes) -> int:
    return int(crc32c(memoryview(data)[ATTRIBUTES_OFFSET:]))


def uncompressed_header(header: Header, body: Bytes) -> bytes:
    """The header of the batch with uncompressed records; its checksum is 0."""
    length = HEADER.size - OFFSET_AND_LENGTH + len(body)
    return HEADER.pack(
        *header._replace(length=length, crc=0, attributes=header.attributes & ~CODEC_BITS)
    )


def split_frames(data: memoryview) -> Iterator[memoryview]:
    """Consecutive batches, as far as their lengths are plausible."""
    start = 0
    while len(data) - start > MAGIC_OFFSET:
        (length,) = BATCH_LENGTH.unpack_from(data, start + 8)
        end = start + OFFSET_AND_LENGTH + length
        if length + OFFSET_AND_LENGTH <= MAGIC_OFFSET or end > len(data):
            return
        yield data[start:end]
        start = end


WALK_OK, TOO_MANY_RECORDS, FOREIGN_NAMES = -1, -2, -3
# The numbers in a record, in their order.
RECORD_LENGTH, TIME, OFFSET, KEY, VALUE, HEADERS, NAME, CONTENT = range(8)
HIGH_BIT, LOW_BITS = 0x80, 0x7F
MAX_NUMBER_BITS, MAX_TIME_BITS = 35, 70

Walk = Callable[[Any, int, int, int], int]


def walk(body: Any, count: int, last_delta: int, most: int) -> int:  # noqa: C901 - see below
    """WALK_OK, FOREIGN_NAMES, TOO_MANY_RECORDS, or the position of the first malformed byte.

    `most` is the limit for records and headers together.

    One loop over all numbers of all records, so that numba compiles it unchanged.
    """
    size, verdict = len(body), WALK_OK
    at = end = left = items = records = 0
    delta, field = -1, RECORD_LENGTH
    while records < count:
        began, value, shift, byte, wrong = at, 0, 0, HIGH_BIT, False
        while byte >= HIGH_BIT:
            if at >= size or shift >= (MAX_TIME_BITS if field == TIME else MAX_NUMBER_BITS):
                return began
            byte = int(body[at])
            value |= (byte & LOW_BITS) << shift
            at, shift = at + 1, shift + 7
        value = (value >> 1) ^ -(value & 1)
        if field == RECORD_LENGTH:  # and a byte of attributes, which some clients read as a number
            gap, end, at = began - end, at + value, at + 1
            wrong = gap != 0 or not at <= end <= size or body[at - 1] >= HIGH_BIT
        elif field == OFFSET:
            wrong, delta = not delta < value <= last_delta, value
        elif field == HEADERS:
            wrong, left, items = value < 0, value, items + 1 + value
        elif field >= KEY:
            value = value if value > 0 or field == NAME else 0
            wrong = not 0 <= value <= end - at
            if field == NAME and not wrong:
                for place in range(at, at + value):
                    verdict = verdict if body[place] < HIGH_BIT else FOREIGN_NAMES
            at, left = at + value, left - 1 if field == CONTENT else left
        if wrong or at > end or items > most:
            return TOO_MANY_RECORDS if items > most else began
        if field < HEADERS:
            field += 1
        elif left > 0:
            field = CONTENT if field == NAME else NAME
        else:
            field, records = RECORD_LENGTH, records + 1
    return verdict if at == size else at
