"""Fetched batches made safe: each is unpacked within its limit and walked to its end.

What comes out is what came in, uncompressed, so that a client reads it without a second thought.
A batch that is not read is replaced by one record that says so, which no producer can forge.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from worker.kafka.batches.header import (
    HEADER,
    MAGIC,
    OFFSET_AND_LENGTH,
    TRANSACTIONAL,
    Bytes,
    Header,
    checksum,
    split_frames,
    uncompressed,
)  # fmt: skip
from worker.kafka.batches.legacy import WIDEST, renewed
from worker.kafka.batches.unpack import CODECS, unpacked
from worker.kafka.batches.walk import CROWDED, FOREIGN, GOOD, Walk, walk
from worker.posts.outcome import Reason
from worker.posts.unreadable import Unreadable, UnreadableError, bad, too_large

SMALLEST = 16  # bytes of the limit that a record or a header counts for, however small it is
Note = Callable[[int, int, int], None]
ROOMY = 1000  # bytes beside what a marker says
COST = 8  # so many batches that were refused, after all the work, count as one that is kept


@dataclass(slots=True)
class Room:
    """How many more bytes may be unpacked for one answer of a broker."""

    left: int


@dataclass(slots=True)
class Opener:
    """Opens what a broker sent; `walk` may be the compiled one."""

    limit: int
    walk: Walk = walk
    mark: str = field(default_factory=lambda: f"newsift.{secrets.token_hex(16)}")
    has_marked: bool = False  # whether any batch was not read, so far

    def room(self) -> Room:
        """The room for one answer: what is over is cut off, and asked for again."""
        return Room(self.limit)

    def opened(
        self, data: bytes, start: int, end: int, room: Room, note: Note = lambda *_: None
    ) -> bytes:
        """The batches of a partition that was asked for from `start`; `end` is after its last.

        `note` is called with the first and last offset of each that can be read, and its bytes.
        """
        view, parts, at = memoryview(data), list[Bytes](), start
        frames: Sequence[memoryview] = list(split_frames(view))
        if data and not frames:
            frames = [view]  # no length to go by: then it is one batch that cannot be read
        for number, frame in enumerate(frames):
            if room.left <= 0 or at >= end:  # written since the end was stated: comes again
                break
            try:
                last, part = self.read(frame)
                if last < at:
                    raise bad("the record batch has offsets that are over")
                if last >= end:  # a disk has changed the first offset, which no checksum covers
                    raise bad("the record batch has offsets beyond the partition's end")
                room.left -= len(part[1]) if len(part) > 1 else 0
                note(_offset(frame), last, sum(map(len, part)))
            except UnreadableError as error:
                following = frames[number + 1 :]
                ceiling = _offset(following[0]) - 1 if following else end - 1
                marker, last = self._marker(frame, at, max(at, ceiling), error)
                part = (marker,)
                room.left -= self.limit // COST
            parts += part
            at = last + 1
        return b"".join(parts)

    def read(self, data: memoryview) -> tuple[int, tuple[Bytes, ...]]:
        """The last offset of a batch, and the batch: as it is, or its header and its records."""
        if len(data) > MAGIC and data[MAGIC] < 2:
            made = renewed(data, self.limit)
            return Header.of(made[0]).last_offset, made
        header = trusted(data)
        if header.codec == 0:
            self._check(header, data[HEADER.size :])
            return header.last_offset, (data,)
        if header.record_count == 0 and len(data) == HEADER.size:
            return header.last_offset, (uncompressed(header, b""),)
        body = unpacked(header.codec, data[HEADER.size :], self.limit)
        self._check(header, body)
        return header.last_offset, (uncompressed(header, body), body)

    def seen(self, found: Any) -> Unreadable | None:
        """What a record of a client says, if it stands for a batch."""
        if not (found.headers and found.headers[0][0] == self.mark):
            return None
        first, why, detail = json.loads(found.headers[0][1])
        place = (found.topic, found.partition, first, found.offset)
        return Unreadable(*place, found.timestamp, Reason(why), detail)

    def _check(self, header: Header, body: Bytes) -> None:
        """Refuse records that are not as many, as long or in such an order as they say."""
        if len(body) > self.limit:
            raise too_large(self.limit)
        most = self.limit // SMALLEST
        found = self.walk(body, header.record_count, header.last_offset_delta, most)
        if found == CROWDED:
            raise UnreadableError(
                Reason.BATCH_BYTES, f"the record batch has more than {most} records and headers"
            )
        if found == FOREIGN:
            _decode_names(header, body)
        elif found != GOOD:
            raise bad(f"the record batch is malformed at byte {found} of its records")

    def _marker(
        self, data: memoryview, at: int, ceiling: int, error: UnreadableError
    ) -> tuple[bytes, int]:
        """A batch of the one record that stands for a batch, and its offset."""
        first, last, stamp, transactional, producer = at, at, round(time() * 1000), 0, -1
        if len(data) >= HEADER.size and data[MAGIC] == 2:
            header = Header.of(data)
            first, last = max(at, header.base_offset), max(at, header.last_offset)
            if header.crc == checksum(data):
                stamp = header.max_timestamp if header.max_timestamp > 0 else stamp
                transactional = int(bool(header.attributes & TRANSACTIONAL))
                producer = header.producer_id
        elif len(data) > MAGIC:  # a message of old, whose offset is the last that is packed in it
            last = max(at, _offset(data))
        last = min(last, ceiling, at + WIDEST)
        first = min(first, last)
        self.has_marked = True
        said = json.dumps([first, error.why, error.detail]).encode()
        made = DefaultRecordBatchBuilder(2, 0, transactional, producer, -1, -1, len(said) + ROOMY)
        made.append(last - first, stamp, None, None, [(self.mark, said)])
        return first.to_bytes(8, signed=True) + bytes(made.build()[8:]), last


def trusted(data: Bytes) -> Header:
    """The header of the one whole batch that these bytes hold, its checksum and claims checked."""
    if len(data) > MAGIC and data[MAGIC] != 2:
        raise bad(f"message format {data[MAGIC]} is none that Kafka has written")
    if len(data) < HEADER.size:
        raise bad(f"{len(data)} bytes are too few for a record batch")
    header = Header.of(data)
    if header.length != len(data) - OFFSET_AND_LENGTH:
        raise bad(f"the record batch has {len(data)} bytes, and not as many as it says")
    if header.crc != checksum(data):
        raise bad("the record batch has a wrong checksum")
    if header.codec not in CODECS:
        raise bad(f"compression {header.codec} is unknown")
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise bad(f"the record batch counts {header.record_count} records to its last offset")
    return header


def _decode_names(header: Header, body: Bytes) -> None:
    """Refuse names of headers that are no UTF-8, as the clients do; the lengths are sound."""
    try:
        for _ in DefaultRecordBatch(b"".join((uncompressed(header, body), body))):
            pass
    except UnicodeDecodeError as error:
        raise bad("the name of a header is no UTF-8") from error


def _offset(data: memoryview) -> int:
    return int.from_bytes(data[:8], signed=True)
