"""Compaction: of every key only the latest record stays, at the offset it had."""

import struct
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from worker.broker.batch import LARGEST, StoredBatch, read_records
from worker.broker.codes import Refused
from worker.broker.log import Log
from worker.kafka.batches.header import CRC, HEADER, Header, checksum


def compact(log: Log, now: int, delete_retention: int) -> None:
    """Thin out a log: older records of a key go, and tombstones once their time is over.

    The newest record always stays, as in Kafka: who reads to the end finds something there. Times
    are milliseconds.
    """
    contents = [_contents(batch) for batch in log.batches]
    latest = {row.key: row.offset for rows in contents for row in rows}
    newest = contents[-1][-1] if contents and contents[-1] else None
    kept = []
    for batch, rows in zip(log.batches, contents, strict=True):
        needed = [
            row
            for row in rows
            if row is newest or (row.key is not None and latest[row.key] == row.offset)
        ]
        left = _thinned(batch, rows, needed, newest, now, delete_retention) if rows else batch
        if left is not None:
            kept.append(left)
    log.replace(kept)


def is_due(log: Log, now: int, dirty_ratio: float) -> bool:
    """Whether enough is new, or the time of a tombstone is over."""
    over = any(batch.horizon is not None and now >= batch.horizon for batch in log.batches)
    return over or (log.dirty > 0 and log.dirty >= dirty_ratio * log.size)


def _contents(batch: StoredBatch) -> list[Any]:
    """The records of a batch; none of one that cannot be read, which stays as it came."""
    try:
        return read_records(batch.data)
    except Refused:
        return []


def _thinned(
    batch: StoredBatch, rows: list[Any], kept: list[Any], newest: Any, now: int, retention: int
) -> StoredBatch | None:
    """The batch with the records that are needed, and its tombstones while their time lasts."""
    horizon = None
    if any(row.value is None for row in kept):
        horizon = now + retention if batch.horizon is None else batch.horizon
        if now >= horizon:
            kept, horizon = [row for row in kept if row is newest or row.value is not None], None
    if not kept:
        return None
    if len(kept) == len(rows):
        return StoredBatch(batch.base, batch.last, batch.max_timestamp, batch.data, horizon)
    return _cut(batch, kept, horizon)


def _cut(batch: StoredBatch, kept: list[Any], horizon: int | None) -> StoredBatch:
    """The batch with these records alone; its base and last offset stay, so the rest are gaps."""
    codec = Header.of(batch.data).codec
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, LARGEST)
    for row in kept:
        builder.append(row.offset - batch.base, row.timestamp, row.key, row.value, row.headers)
    data = bytearray(builder.build())
    header = Header.of(data)._replace(
        base_offset=batch.base, last_offset_delta=batch.last - batch.base
    )
    HEADER.pack_into(data, 0, *header)
    struct.pack_into(">I", data, CRC, checksum(data))
    return StoredBatch(batch.base, batch.last, header.max_timestamp, bytes(data), horizon)
