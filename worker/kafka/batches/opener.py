"""Makes fetched batches safe: each is unpacked within its limit and checked to its end.

The result has the same records, uncompressed. An unreadable batch is replaced by one marker record,
which no producer can forge.
"""

import json
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from worker.kafka.batches.header import (
    CONTROL_BIT,
    FOREIGN_NAMES,
    HEADER,
    MAGIC_OFFSET,
    OFFSET_AND_LENGTH,
    TOO_MANY_RECORDS,
    TRANSACTIONAL_BIT,
    WALK_OK,
    Bytes,
    ChecksumError,
    Header,
    UnreadableError,
    Walk,
    bad_batch,
    checksum,
    split_frames,
    too_large_batch,
    uncompressed_header,
    walk,
)
from worker.kafka.batches.unpack import CODECS, unpack
from worker.posts.outcome import Reason, Unreadable

MIN_RECORD_BYTES = 16  # A record or header counts for this much, however small it is.
OnOpened = Callable[[int, int, int], None]
MARKER_SLACK_BYTES = 1000
MAX_OFFSET_SPAN = 2**31 - 1
REFUSED_BATCHES_PER_KEPT = 8  # A refused batch uses an eighth of the budget.


@dataclass(slots=True)
class UnpackBudget:
    left: int


@dataclass(slots=True)
class Opener:
    """Opens the batches of a response; `walk` may be the compiled one."""

    limit: int
    walk: Walk = walk
    mark: str = field(default_factory=lambda: f"newsift.{secrets.token_hex(16)}")
    has_marked: bool = False  # whether any batch could not be read so far

    def budget(self, buffered: int = 0) -> UnpackBudget:
        """What exceeds the budget of a response is cut off and fetched again."""
        return UnpackBudget(self.limit - buffered)

    def open_batches(
        self,
        data: bytes,
        start: int,
        end: int,
        room: UnpackBudget,
        on_opened: OnOpened = lambda *_: None,
    ) -> bytes:
        """The batches of a partition that was fetched from `start`; `end` is after the last one.

        `on_opened` is called with first offset, last offset and bytes of each readable batch.
        """
        view, parts, next_offset = memoryview(data), list[Bytes](), start
        frames: Sequence[memoryview] = list(split_frames(view))
        if data and not frames:
            frames = [view]  # without a plausible length it is one batch that cannot be read
        for number, frame in enumerate(frames):
            # Records written after `end` was stated come again with the next fetch.
            if room.left <= 0 or next_offset >= end:
                break
            try:
                last, part = self.open_batch(frame)
                if last < next_offset:
                    raise bad_batch("the record batch has offsets before the fetched one")
                if last >= end:  # a disk has changed the first offset, which no checksum covers
                    raise bad_batch("the record batch has offsets beyond the partition's end")
                room.left -= len(part[1]) if len(part) > 1 else 0
                on_opened(_base_offset(frame), last, sum(map(len, part)))
            except UnreadableError as error:
                following = frames[number + 1 :]
                ceiling = _base_offset(following[0]) - 1 if following else end - 1
                marker, last = self._marker(frame, next_offset, max(next_offset, ceiling), error)
                part = (marker,)
                room.left -= self.limit // REFUSED_BATCHES_PER_KEPT
                if isinstance(error, ChecksumError) and any(map(_is_transactional, following)):
                    room.left = 0  # it may have ended a transaction: the next response says which
            parts += part
            next_offset = last + 1
        return b"".join(parts)

    def open_batch(self, data: memoryview) -> tuple[int, tuple[Bytes, ...]]:
        """The last offset of a batch, and the batch: unchanged, or unpacked."""
        header = check_header(data)
        if header.record_count == 0 and len(data) == HEADER.size:
            # Compaction keeps the header of a control batch; both clients fail without its marker.
            plain = header._replace(attributes=header.attributes & ~CONTROL_BIT)
            return header.last_offset, (uncompressed_header(plain, b""),)
        if header.codec == 0:
            self._check(header, data[HEADER.size :])
            return header.last_offset, (data,)
        body = unpack(header.codec, data[HEADER.size :], self.limit)
        self._check(header, body)
        return header.last_offset, (uncompressed_header(header, body), body)

    def unreadable_batch(self, record: Any) -> Unreadable | None:
        """The batch whose marker this record is, if it is one."""
        if not (record.headers and record.headers[0][0] == self.mark):
            return None
        first, why, detail = json.loads(record.headers[0][1])
        place = (record.topic, record.partition, first, record.offset)
        return Unreadable(*place, record.timestamp, Reason(why), detail)

    def _check(self, header: Header, body: Bytes) -> None:
        """Refuse records whose number, lengths or order contradict the header."""
        if len(body) > self.limit:
            raise too_large_batch(self.limit)
        most = self.limit // MIN_RECORD_BYTES
        walked = self.walk(body, header.record_count, header.last_offset_delta, most)
        if walked == TOO_MANY_RECORDS:
            raise UnreadableError(
                Reason.BATCH_BYTES, f"the record batch has more than {most} records and headers"
            )
        if walked == FOREIGN_NAMES:
            _decode_names(header, body)
        elif walked != WALK_OK:
            raise bad_batch(f"the record batch is malformed at byte {walked} of its records")

    def _marker(
        self, data: memoryview, start: int, ceiling: int, error: UnreadableError
    ) -> tuple[bytes, int]:
        """A batch with one marker record, and the offset of that record."""
        first, last, stamp, transactional, producer = start, start, round(time() * 1000), 0, -1
        if len(data) >= HEADER.size and data[MAGIC_OFFSET] == 2:
            header = Header.parse(data)
            first, last = max(start, header.base_offset), max(start, header.last_offset)
            if header.crc == checksum(data):
                stamp = header.max_timestamp if header.max_timestamp > 0 else stamp
                transactional = int(bool(header.attributes & TRANSACTIONAL_BIT))
                producer = header.producer_id
        # An older format: the offset of the last message packed in it.
        elif len(data) > MAGIC_OFFSET:
            last = max(start, _base_offset(data))
        last = min(last, ceiling, start + MAX_OFFSET_SPAN)
        first = min(first, last)
        self.has_marked = True
        value = json.dumps([first, error.why, error.detail]).encode()
        builder = DefaultRecordBatchBuilder(
            2, 0, transactional, producer, -1, -1, len(value) + MARKER_SLACK_BYTES
        )
        builder.append(last - first, stamp, None, None, [(self.mark, value)])
        return first.to_bytes(8, signed=True) + bytes(builder.build()[8:]), last


def check_header(data: Bytes) -> Header:
    """The header of one batch, after its checksum, length and counts were checked."""
    if len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] != 2:
        raise bad_batch(
            f"message format {data[MAGIC_OFFSET]} is not read; Kafka writes format 2 since 0.11"
        )
    if len(data) < HEADER.size:
        raise bad_batch(f"{len(data)} bytes are too few for a record batch")
    header = Header.parse(data)
    if header.length != len(data) - OFFSET_AND_LENGTH:
        raise bad_batch(f"the record batch has {len(data)} bytes, and not as many as it says")
    if header.crc != checksum(data):
        raise ChecksumError(Reason.BAD_BATCH, "the record batch has a wrong checksum")
    if header.codec not in CODECS:
        raise bad_batch(f"compression {header.codec} is unknown")
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise bad_batch(f"the record batch counts {header.record_count} records to its last offset")
    return header


def _decode_names(header: Header, body: Bytes) -> None:
    """Refuses header names that are not UTF-8, as the clients do."""
    try:
        for _ in DefaultRecordBatch(b"".join((uncompressed_header(header, body), body))):
            pass
    except UnicodeDecodeError as error:
        raise bad_batch("the name of a header is not UTF-8") from error


def _is_transactional(data: memoryview) -> bool:
    return len(data) >= HEADER.size and bool(Header.parse(data).attributes & TRANSACTIONAL_BIT)


def _base_offset(data: memoryview) -> int:
    return int.from_bytes(data[:8], signed=True)


def bound_consumer(consumer: Any, batch_bytes: int) -> Any:
    """The consumer with a bound on the unpacked size of a batch; made with check_crcs=False.

    An unreadable batch is reported on standard error, counted by topic in the consumer's
    `unreadable`, and skipped.
    """
    opener, fetcher = Opener(batch_bytes), consumer._fetcher
    consumer.unreadable = Counter[str]()
    handle, poll = fetcher._handle_fetch_response, consumer.poll

    def take(node: Any, starts: Any, sent_at: float, answer: Any) -> None:
        room = opener.budget()
        for topic in answer.responses:
            for part in topic.partitions:
                if part.records:
                    start = starts[topic.topic, part.partition_index]
                    end = part.high_watermark
                    part.records = opener.open_batches(bytes(part.records), start, end, room)
        handle(node, starts, sent_at, answer)

    def read(*places: Any, **settings: Any) -> dict[Any, list[Any]]:
        records = poll(*places, **settings)
        counts = consumer.unreadable
        return {place: list(_readable(rows, opener, counts)) for place, rows in records.items()}

    fetcher._handle_fetch_response, consumer.poll = take, read
    return consumer


def _readable(rows: Sequence[Any], opener: Opener, counts: Counter[str]) -> Iterator[Any]:
    for row in rows:
        if (passed := opener.unreadable_batch(row)) is None:
            yield row
        else:
            counts[passed.topic] += passed.count
            sys.stderr.write(f"newsift: {passed}\n")
