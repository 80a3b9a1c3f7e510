"""Record batches as kafka-python's own producer makes them, and as its consumer reads them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords


class Row(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    times: Sequence[int] | None = None,
    codec: int = 0,
) -> bytes:
    """One batch of (key, value) pairs."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 2**30)
    for index, (key, value) in enumerate(records):
        builder.append(index, times[index] if times else 1_000 + index, key, value, [])
    return bytes(builder.build())


def numbered(count: int) -> bytes:
    return batch([(b"k%d" % n, b"v%d" % n) for n in range(count)])


def rows(data: bytes | Iterable[bytes]) -> list[Row]:
    whole = data if isinstance(data, bytes) else b"".join(data)
    return [
        Row(record.offset, record.timestamp, record.key, record.value)
        for each in MemoryRecords(whole)
        for record in each
    ]
