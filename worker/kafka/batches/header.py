"""The fixed part of a record batch of format 2, and the checksum over what follows it."""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH = struct.Struct(">i")
OFFSET_AND_LENGTH = 12
MAGIC = 16
CRC = 17  # where the checksum stands; it covers all that follows it
ATTRIBUTES = 21
CODEC = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

Bytes = bytes | bytearray | memoryview


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

    @classmethod
    def of(cls, data: Bytes) -> Self:
        """The header that these bytes begin with."""
        return cls(*HEADER.unpack_from(data))

    @property
    def codec(self) -> int:
        """The number of the compression; 0 is none."""
        return self.attributes & CODEC

    @property
    def last_offset(self) -> int:
        """The offset of its last record, or of the last that compaction has taken."""
        return self.base_offset + self.last_offset_delta


def checksum(data: Bytes) -> int:
    """The CRC-32C that a whole batch should state."""
    return int(crc32c(memoryview(data)[ATTRIBUTES:]))


def uncompressed(header: Header, body: Bytes) -> bytes:
    """The header of the same batch with these records, not compressed; the checksum is left out."""
    length = HEADER.size - OFFSET_AND_LENGTH + len(body)
    return HEADER.pack(
        *header._replace(length=length, crc=0, attributes=header.attributes & ~CODEC)
    )


def split_frames(data: memoryview) -> Iterator[memoryview]:
    """The messages or batches that lie one after another, as far as their lengths make sense."""
    at = 0
    while len(data) - at > MAGIC:
        (length,) = LENGTH.unpack_from(data, at + 8)
        end = at + OFFSET_AND_LENGTH + length
        if length + OFFSET_AND_LENGTH <= MAGIC or end > len(data):
            return
        yield data[at:end]
        at = end
