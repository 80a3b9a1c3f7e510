"""The log of one partition: record batches by offset, idempotent producers, compaction."""

import struct
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from newsift.broker.batches import (
    ATTRIBUTES_OFFSET,
    CODEC_BITS,
    CRC_OFFSET,
    HEADER,
    MAX_UNPACKED_BYTES,
    OFFSET_AND_LENGTH,
    Header,
    check_header,
    checksum,
    unpacked_batch,
)
from newsift.broker.codes import Code, RequestError

MAX_LOOP_BYTES = 2**15  # larger batches are checked in a thread, and so are compressed ones
LEADER_EPOCH = struct.pack(">i", 0)


@dataclass(slots=True)
class StoredBatch:
    base: int  # offset of the first record
    last: int  # offset of the last record
    max_timestamp: int
    data: bytes
    delete_at_ms: int | None = None  # when compaction may delete its tombstones


def read_header(data: bytes) -> Header:
    """The header of one complete batch, after its checksum and counts were checked."""
    if len(data) > HEADER.size and len(data) > Header.parse(data).length + OFFSET_AND_LENGTH:
        raise RequestError(Code.INVALID_RECORD, "a partition takes exactly one batch in a request")
    header = check_header(data)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise RequestError(Code.INVALID_RECORD, "the record batch miscounts its records")
    return header


def with_offset(data: bytes, offset: int) -> bytes:
    """The batch with this base offset and LEADER_EPOCH; its checksum covers neither."""
    view = memoryview(data)
    return b"".join((struct.pack(">q", offset), view[8:12], LEADER_EPOCH, view[16:]))


def checks_in_loop(data: bytes) -> bool:
    """Whether a batch is cheap enough to be checked in the event loop."""
    return len(data) <= MAX_LOOP_BYTES and not (
        len(data) > ATTRIBUTES_OFFSET + 1 and data[ATTRIBUTES_OFFSET + 1] & CODEC_BITS
    )


def read_records(data: bytes) -> list[Any]:
    """The records as aiokafka reads them; RequestError if the batch is damaged."""
    return list(DefaultRecordBatch(unpacked_batch(data)))


MAX_PRODUCER_BATCHES = 5  # as many as a producer may have in flight
MAX_PRODUCERS = 1000
SEQUENCE_MODULUS = 2**31

Batches = deque[tuple[int, int, int]]  # first sequence, last sequence, base offset


class ProducerSequences:
    """The last sequence numbers of a partition's most recent producers."""

    def __init__(self) -> None:
        self._producers: dict[int, tuple[int, Batches]] = {}  # by id: the epoch, the last batches

    def find_duplicate(self, header: Header) -> int | None:
        """The offset at which this batch is already stored; None if it is new."""
        if header.producer_id not in self._producers:
            return None
        epoch, batches = self._producers[header.producer_id]
        if header.producer_epoch < epoch:
            raise RequestError(
                Code.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: epoch {header.producer_epoch} is over",
            )
        due = 0
        if header.producer_epoch == epoch:
            for first, last, offset in batches:
                if (first, last) == (header.base_sequence, last_sequence(header)):
                    return offset
            due = (batches[-1][1] + 1) % SEQUENCE_MODULUS
        if header.base_sequence != due:
            raise RequestError(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}: sequence {header.base_sequence}, expected {due}",
            )
        return None

    def remember(self, header: Header, offset: int) -> None:
        epoch, batches = self._producers.pop(header.producer_id, (None, Batches()))
        if epoch != header.producer_epoch:
            batches = Batches(maxlen=MAX_PRODUCER_BATCHES)
        batches.append((header.base_sequence, last_sequence(header), offset))
        self._producers[header.producer_id] = header.producer_epoch, batches
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]


def last_sequence(header: Header) -> int:
    """Sequence numbers start again at 0 after 2^31 - 1."""
    return (header.base_sequence + header.last_offset_delta) % SEQUENCE_MODULUS


BATCH_OVERHEAD_BYTES = 300  # of Python's objects for a batch


@dataclass(slots=True)
class MemoryBudget:
    limit: int
    size: int = 0

    @property
    def excess(self) -> int:
        return self.size - self.limit


class Log:
    """An append-only list of record batches, trimmed at its start and compacted."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.start = 0
        self.end = 0
        self.size = 0
        self.dirty = 0  # bytes appended since the last compaction
        self.sequences = ProducerSequences()
        self._budget = budget
        self._batches: list[StoredBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def batches(self) -> tuple[StoredBatch, ...]:
        return tuple(self._batches)

    def append(self, data: bytes, header: Header) -> int:
        """Store a checked batch. Returns its offset."""
        base = self.end
        last = base + header.last_offset_delta
        self._batches.append(StoredBatch(base, last, header.max_timestamp, with_offset(data, base)))
        self.end = last + 1
        self.dirty += len(data)
        self._count(len(data), 1)
        return base

    def read(self, offset: int, max_bytes: int, at_least_one: bool) -> list[bytes]:
        """The batches from the one that holds this offset, as many as fit."""
        if not self.start <= offset <= self.end:
            raise RequestError(
                Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{self.start}, {self.end}]"
            )
        result: list[bytes] = []
        for index in range(self._index_of(offset), len(self._batches)):
            data = self._batches[index].data
            max_bytes -= len(data)
            if max_bytes < 0 and (result or not at_least_one):
                break
            result.append(data)
        return result

    def find_time(self, timestamp: int) -> tuple[int, int] | None:
        """Time and offset of the first record that is not older; None if there is none."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in read_records(batch.data):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.timestamp, record.offset
        return None

    def delete_before(self, offset: int) -> None:
        """Batches that also hold later offsets stay."""
        self._drop(self._index_of(offset))
        self.start = max(self.start, offset)

    def drop_bytes(self, size: int) -> None:
        """Delete the oldest batches until this much memory is free."""
        count = 0
        while size > 0 and count < len(self._batches):
            size -= len(self._batches[count].data) + BATCH_OVERHEAD_BYTES
            count += 1
        self._drop(count)

    def replace(self, batches: list[StoredBatch]) -> None:
        size, count = self.size, len(self._batches)
        self._batches = batches
        self.dirty = 0
        self._count(sum(len(batch.data) for batch in batches) - size, len(batches) - count)

    def delete(self) -> None:
        self._drop(len(self._batches))

    def _index_of(self, offset: int) -> int:
        """The index of the batch that holds an offset, or of the first after it."""
        return bisect_left(self._batches, offset, key=lambda batch: batch.last)

    def _drop(self, count: int) -> None:
        if count:
            self.start = max(self.start, self._batches[count - 1].last + 1)
            self._count(-sum(len(batch.data) for batch in self._batches[:count]), -count)
            del self._batches[:count]

    def _count(self, size: int, batches: int) -> None:
        self.size += size
        self._budget.size += size + batches * BATCH_OVERHEAD_BYTES


def compact(log: Log, now: int, delete_retention: int) -> None:
    """Delete all but the latest record of each key, and tombstones after their retention.

    Times are milliseconds. The newest record always stays, as in Kafka: a consumer that reads to
    the end gets a record.
    """
    records_by_batch = [_readable_records(batch) for batch in log.batches]
    latest = {record.key: record.offset for records in records_by_batch for record in records}
    newest = records_by_batch[-1][-1] if records_by_batch and records_by_batch[-1] else None
    remaining = []
    for batch, records in zip(log.batches, records_by_batch, strict=True):
        rest = [
            record
            for record in records
            if record is newest or (record.key is not None and latest[record.key] == record.offset)
        ]
        result: StoredBatch | None = batch
        if records:
            result = _compact_batch(batch, records, rest, newest, now, delete_retention)
        if result is not None:
            remaining.append(result)
    log.replace(remaining)


def needs_compaction(log: Log, now: int, dirty_ratio: float) -> bool:
    """Whether the dirty ratio is reached, or the retention of a tombstone has ended."""
    has_old_tombstone = any(
        batch.delete_at_ms is not None and now >= batch.delete_at_ms for batch in log.batches
    )
    return has_old_tombstone or (log.dirty > 0 and log.dirty >= dirty_ratio * log.size)


def _readable_records(batch: StoredBatch) -> list[Any]:
    """Empty for a damaged batch, which is not compacted."""
    try:
        return read_records(batch.data)
    except RequestError:
        return []


def _compact_batch(
    batch: StoredBatch, records: list[Any], rest: list[Any], newest: Any, now: int, retention: int
) -> StoredBatch | None:
    """None if no record of the batch is needed."""
    delete_at_ms = None
    if any(record.value is None for record in rest):
        delete_at_ms = now + retention if batch.delete_at_ms is None else batch.delete_at_ms
        if now >= delete_at_ms:
            rest = [record for record in rest if record is newest or record.value is not None]
            delete_at_ms = None
    if not rest:
        return None
    if len(rest) == len(records):
        return replace(batch, delete_at_ms=delete_at_ms)
    return _rebuild_batch(batch, rest, delete_at_ms)


def _rebuild_batch(batch: StoredBatch, records: list[Any], delete_at_ms: int | None) -> StoredBatch:
    """The base and last offset of the batch stay, so the deleted records leave gaps."""
    codec = Header.parse(batch.data).codec
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, MAX_UNPACKED_BYTES)
    for record in records:
        builder.append(
            record.offset - batch.base, record.timestamp, record.key, record.value, record.headers
        )
    data = bytearray(builder.build())
    header = Header.parse(data)._replace(
        base_offset=batch.base, last_offset_delta=batch.last - batch.base
    )
    HEADER.pack_into(data, 0, *header)
    struct.pack_into(">I", data, CRC_OFFSET, checksum(data))
    return StoredBatch(batch.base, batch.last, header.max_timestamp, bytes(data), delete_at_ms)
