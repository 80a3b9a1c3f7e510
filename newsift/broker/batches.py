"""Record batches of format 2, as clients send them: header, checksum, a check of the records."""

import struct
from typing import Any, NamedTuple, Self

from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from newsift.broker.codes import Code, RequestError
from newsift.broker.unpack import CODECS, Bytes, unpack

HEADER = struct.Struct(">qiibIhiqqqhii")
OFFSET_AND_LENGTH = 12
MAGIC_OFFSET, FORMAT = 16, 2
CRC_OFFSET = 17  # The checksum covers all that follows it.
ATTRIBUTES_OFFSET = 21
CODEC_BITS = 0x07
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

MAX_UNPACKED_BYTES = 2**26
MAX_RECORDS = 2**17  # in a batch, each header counted as one more


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


def checksum(data: Bytes) -> int:
    return int(crc32c(memoryview(data)[ATTRIBUTES_OFFSET:]))


def check_header(data: Bytes) -> Header:
    """The header of one batch, after its checksum, length and counts were checked."""
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] != FORMAT:
        detail = f"message format {data[MAGIC_OFFSET]} is not format {FORMAT}"
        raise RequestError(Code.INVALID_RECORD, detail)
    if len(data) < HEADER.size:
        raise damaged(f"{len(data)} bytes are too few for a record batch")
    header = Header.parse(data)
    if header.length != len(data) - OFFSET_AND_LENGTH:
        raise damaged(f"the record batch has {len(data)} bytes, and not as many as it says")
    if header.crc != checksum(data):
        raise damaged("the record batch has a wrong checksum")
    if header.codec not in CODECS:
        raise damaged(f"compression {header.codec} is unknown")
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise damaged(f"the record batch counts {header.record_count} records to its last offset")
    return header


def damaged(detail: str) -> RequestError:
    return RequestError(Code.CORRUPT_MESSAGE, detail)


def unpacked_batch(data: bytes) -> bytes:
    """The batch without compression, after its records were checked to its end."""
    header, view = check_header(data), memoryview(data)[HEADER.size :]
    body = view if header.codec == 0 else unpack(header.codec, view, MAX_UNPACKED_BYTES)
    walked = walk(body, header.record_count, header.last_offset_delta, MAX_RECORDS)
    if walked == TOO_MANY_RECORDS:
        detail = f"the record batch has more than {MAX_RECORDS} records and headers"
        raise RequestError(Code.MESSAGE_TOO_LARGE, detail)
    if walked not in (WALK_OK, FOREIGN_NAMES):
        detail = f"the record batch is malformed at byte {walked} of its records"
        raise RequestError(Code.INVALID_RECORD, detail)
    plain = header._replace(
        length=HEADER.size - OFFSET_AND_LENGTH + len(body), crc=0,
        attributes=header.attributes & ~CODEC_BITS,
    )  # fmt: skip
    whole = HEADER.pack(*plain) + bytes(body)
    if walked == FOREIGN_NAMES:  # UTF-8, as the clients read it?
        try:
            list(DefaultRecordBatch(whole))
        except UnicodeDecodeError as error:
            detail = "the name of a header is not UTF-8"
            raise RequestError(Code.INVALID_RECORD, detail) from error
    return whole if header.codec else data


WALK_OK, TOO_MANY_RECORDS, FOREIGN_NAMES = -1, -2, -3
# The numbers in a record, in their order.
RECORD_LENGTH, TIME, OFFSET, KEY, VALUE, HEADERS, NAME, CONTENT = range(8)
HIGH_BIT, LOW_BITS = 0x80, 0x7F
MAX_NUMBER_BITS, MAX_TIME_BITS = 35, 70


def walk(body: Any, count: int, last_delta: int, most: int) -> int:  # noqa: C901 - one loop over all numbers of all records
    """WALK_OK, FOREIGN_NAMES, TOO_MANY_RECORDS, or the position of the first malformed byte.

    `most` is the limit for records and headers together.
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
