"""Messages of formats 0 and 1, from before Kafka 0.11, converted to batches of format 2."""

import struct
import zlib
from itertools import pairwise
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from worker.kafka.batches.header import (
    APPEND_TIME,
    CODEC,
    HEADER,
    LENGTH,
    MAGIC,
    Header,
    split_frames,
    uncompressed,
)
from worker.kafka.batches.unpack import unpacked
from worker.kafka.unreadable import bad, too_large

CHECKED_FROM = 16  # the checksum covers the bytes from the magic on
HEAD = struct.Struct(">qiIbb")
TIME = struct.Struct(">q")
OVERHEAD = 32  # bytes of the limit that a packed message counts for beside its own
WIDEST = 2**31 - 1  # from the first to the last offset of a batch
LAST_CODEC = {0: 2, 1: 3}  # format 0 knows no lz4, neither knows zstd


class OldMessage(NamedTuple):
    """One message of an old format."""

    offset: int
    timestamp: int
    attributes: int
    key: bytes | None
    value: bytes | None


def renewed(data: memoryview, limit: int) -> tuple[bytes, bytes]:
    """The header and the body of a batch with this message, or with those packed in it."""
    outer = _message(data)
    messages = _inner(outer, data[MAGIC], limit) if outer.attributes & CODEC else [outer]
    base, stamped = messages[0].offset, outer.attributes & APPEND_TIME
    if any(a.offset >= b.offset for a, b in pairwise(messages)):
        raise bad("the offsets of the packed messages do not count up")
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, WIDEST)
    for each in messages:
        if each.offset - base > WIDEST:
            raise bad("the packed messages lie too far apart")
        builder.append(each.offset - base, each.timestamp, each.key, each.value, [])
    batch = bytes(builder.build())
    body, newest = batch[HEADER.size :], max(each.timestamp for each in messages)
    header = Header.of(batch)._replace(
        base_offset=base, attributes=stamped, max_timestamp=outer.timestamp if stamped else newest
    )
    return uncompressed(header, body), body


def _message(data: memoryview) -> OldMessage:
    """The message in these bytes, after checking its checksum and lengths."""
    try:
        offset, _length, crc, magic, attributes = HEAD.unpack_from(data)
        if zlib.crc32(data[CHECKED_FROM:]) != crc:
            raise bad("the message has a wrong checksum")
        at, timestamp = HEAD.size, -1
        if magic == 1:
            (timestamp,) = TIME.unpack_from(data, at)
            at += TIME.size
        key, at = _sized(data, at)
        value, at = _sized(data, at)
    except struct.error as error:
        raise bad("the message is cut off") from error
    if at != len(data):
        raise bad("the message has bytes that belong to nothing")
    return OldMessage(offset, timestamp, attributes, key, value)


def _sized(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = LENGTH.unpack_from(data, at)
    at += LENGTH.size
    if size > len(data) - at:
        raise bad(f"the message has a key or a value of {size} bytes, and not as many")
    return (None, at) if size < 0 else (bytes(data[at : at + size]), at + size)


def _inner(outer: OldMessage, magic: int, limit: int) -> list[OldMessage]:
    """The messages packed in another's value, with their offsets."""
    codec = outer.attributes & CODEC
    if outer.value is None or codec > LAST_CODEC[magic]:
        raise bad(f"message format {magic} has no compression {codec}")
    messages, room = list[OldMessage](), limit
    for data in split_frames(memoryview(unpacked(codec, outer.value, limit))):
        room -= len(data) + OVERHEAD
        if room < 0:
            raise too_large(limit)
        message = _message(data)
        if message.attributes & CODEC or data[MAGIC] != magic:
            raise bad("the packed messages are packed again, or of another format")
        messages.append(message)
    if not messages:
        raise bad("the message has nothing packed in it")
    ahead = outer.offset - messages[-1].offset if magic else 0  # those of format 1 count from 0
    return [message._replace(offset=message.offset + ahead) for message in messages]
