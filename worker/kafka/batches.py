"""Record batches, each read whole; both clients would stop for ever at one that cannot be read."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from typing import Any

from aiokafka.errors import CorruptRecordException

from worker.posts.outcome import Unreadable


class WholeBatches:
    """The fetched batches of a partition, in the place of a client's own `MemoryRecords`.

    A batch that cannot be read becomes one record. What follows it is fetched again: it may have
    ended a transaction, and only the next response says so.
    """

    def __init__(self, batches: Any, place: Any, start: int, end: Callable[[], int | None]) -> None:
        """`start` is the offset from which they were fetched, `end` that of the partition's end."""
        self._batches, self._place, self._end_offset = batches, place, end
        self._next, self._stopped = start, False

    def size_in_bytes(self) -> int:
        return int(self._batches.size_in_bytes())

    def has_next(self) -> bool:
        """Batches written after the end was stated come again with the next fetch."""
        return self._next < self._end and not self._stopped and bool(self._batches.has_next())

    def next_batch(self) -> "WholeBatch | StandIn | None":
        if not self.has_next():
            return None
        batch = None
        try:
            batch = self._batches.next_batch()
            if not batch.validate_crc():
                raise CorruptRecordException("its checksum is wrong")
            if not self._next < batch.next_offset <= self._end:
                raise CorruptRecordException("its offsets are not those that were fetched")
            whole = WholeBatch(batch)
        except Exception as error:  # noqa: BLE001 - each codec fails in a way of its own
            self._stopped = True
            return self._stand_in(batch, error)
        self._next = batch.next_offset
        return whole

    @property
    def _end(self) -> float:
        end = self._end_offset()
        return inf if end is None else end

    def _stand_in(self, batch: Any, error: Exception) -> "StandIn":
        """Its header may be false: neither a batch that follows nor the end is passed over."""
        ends = [self._end, getattr(batch, "next_offset", 0)]
        with suppress(Exception):
            ends.append(self._batches.next_batch().base_offset)
        last = int(max(min(ends) - 1, self._next))
        first = min(max(getattr(batch, "base_offset", 0), self._next), last)
        detail = f"the record batch cannot be read: {type(error).__name__}: {error}"
        return StandIn(Unreadable(self._place.topic, self._place.partition, first, last, detail))


class WholeBatch:
    """A client's own batch, its records read before the first is used."""

    def __init__(self, batch: Any) -> None:
        self._batch, records = batch, list(batch)
        self._records = iter(records)
        # Compaction keeps the header of a control batch; the clients fail without its marker.
        self.is_control_batch = bool(records) and bool(batch.is_control_batch)

    def validate_crc(self) -> bool:
        return True  # checked before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def __next__(self) -> Any:
        return next(self._records)


class StandIn:
    """Batch and record in one, as both clients know them, in the place of what is unreadable."""

    magic, leader_epoch, producer_id = 2, -1, None
    is_control_batch = is_transactional = False
    timestamp, timestamp_type, key, value, headers, size_in_bytes = -1, 0, None, None, (), 0

    def __init__(self, message: Unreadable) -> None:
        self.checksum = message  # which the clients hand on as it is
        self.offset = self.last_offset = message.offset
        self.base_offset, self.next_offset = message.first, message.offset + 1

    def has_producer_id(self) -> bool:
        return False

    def __iter__(self) -> Iterator["StandIn"]:
        yield self
