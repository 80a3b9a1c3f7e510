"""Compaction: of every key only the latest record stays, at the offset it had."""

from worker.broker.batch import StoredBatch, StoredRecord, closed, read_records, rebuilt, records_of
from worker.broker.codes import Refused
from worker.broker.log import Log
from worker.kafka.batches.header import Header


def compact(log: Log, now: int, delete_retention: int, lag: int = 0) -> None:
    """Thin out a log: older records of a key go, and tombstones once their time is over.

    Batches younger than the lag stay as they are. The newest record always stays, as in Kafka: who
    reads to the end finds something there. Times are milliseconds.
    """
    batches = log.batches
    held = next((i for i, b in enumerate(batches) if lag and b.max_timestamp > now - lag), None)
    contents = [_contents(batch) for batch in batches[:held]]
    latest = {r.key: r.offset for rows in contents if rows is not None for r in rows}
    kept = []
    for batch, rows in zip(batches[:held], contents, strict=True):
        newest = batch is batches[-1]
        left: StoredBatch | None = batch
        if rows is not None:
            left = _thinned(batch, rows, latest, now, delete_retention, newest)
        if left is not None:
            kept.append(left)
    young = batches[len(contents) :]
    log.replace([*kept, *young], dirty=sum(len(batch.data) for batch in young))


def is_due(log: Log, now: int, dirty_ratio: float) -> bool:
    """Whether enough is new, or the time of a tombstone is over."""
    over = any(batch.horizon is not None and now >= batch.horizon for batch in log.batches)
    return over or (log.dirty > 0 and log.dirty >= dirty_ratio * log.size)


def _contents(batch: StoredBatch) -> list[StoredRecord] | None:
    """The records of a batch; None for one that cannot be read, which stays as it came."""
    try:
        return read_records(batch.data)
    except Refused:
        return None


def _thinned(
    batch: StoredBatch, rows: list[StoredRecord], latest: dict[bytes | None, int], now: int,
    retention: int, newest: bool,
) -> StoredBatch | None:  # fmt: skip
    last = rows[-1] if newest and rows else None
    kept = [r for r in rows if r is last or (r.key is not None and latest[r.key] == r.offset)]
    horizon = None
    if any(r.is_tombstone for r in kept):
        horizon = now + retention if batch.horizon is None else batch.horizon
        if now >= horizon:
            kept, horizon = [r for r in kept if r is last or not r.is_tombstone], None
    if not kept:
        return None
    if len(kept) == len(rows):
        return StoredBatch(batch.base, batch.last, batch.max_timestamp, batch.data, horizon)
    return _cut(batch, kept, horizon)


def _cut(batch: StoredBatch, kept: list[StoredRecord], horizon: int | None) -> StoredBatch:
    """The batch with these records alone; its base and last offset stay, so the rest are gaps."""
    header = Header.of(batch.data)
    body = records_of(batch.data, header)
    newest = max(r.timestamp for r in kept)
    left = closed(b"".join(body[r.start : r.end] for r in kept), header)
    data = rebuilt(header._replace(record_count=len(kept), max_timestamp=newest), left)
    return StoredBatch(batch.base, batch.last, newest, data, horizon)
