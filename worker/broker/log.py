"""The log of one partition: batches in order of offset, read by offset and by time."""

from bisect import bisect_left
from dataclasses import dataclass

from worker.broker.batch import StoredBatch, placed, read_records
from worker.broker.codes import Code, Refused
from worker.broker.sequences import Sequences
from worker.kafka.batches.header import Header

OVERHEAD = 300  # bytes that Python keeps beside the data of a batch


@dataclass(slots=True)
class Budget:
    """The memory that all logs of a broker share."""

    limit: int
    used: int = 0

    @property
    def over(self) -> int:
        """How many bytes are to be given back."""
        return self.used - self.limit


class Log:
    """An append-only sequence of record batches, trimmed at its front and thinned by compaction."""

    def __init__(self, budget: Budget) -> None:
        self.start = 0
        self.end = 0
        self.size = 0
        self.dirty = 0  # bytes that came since the last compaction
        self.sequences = Sequences()
        self._budget = budget
        self._batches: list[StoredBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def batches(self) -> tuple[StoredBatch, ...]:
        """The batches that are there, oldest first."""
        return tuple(self._batches)

    def append(self, data: bytes, header: Header) -> int:
        """Store a checked batch at the end; the offset it got."""
        base = self.end
        last = base + header.last_offset_delta
        self._batches.append(StoredBatch(base, last, header.max_timestamp, placed(data, base)))
        self.end = last + 1
        self.dirty += len(data)
        self._count(len(data), 1)
        return base

    def read(self, offset: int, max_bytes: int, at_least_one: bool) -> list[bytes]:
        """The batches from the one that holds this offset, as many as fit."""
        if not self.start <= offset <= self.end:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not in [{self.start}, {self.end}]"
            )
        found: list[bytes] = []
        for at in range(self._at(offset), len(self._batches)):
            data = self._batches[at].data
            max_bytes -= len(data)
            if max_bytes < 0 and (found or not at_least_one):
                break
            found.append(data)
        return found

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """Time and offset of the first record that is not older; None if there is none."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in read_records(batch.data):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.timestamp, record.offset
        return None

    def delete_before(self, offset: int) -> None:
        """Move the start up to an offset and forget the batches that lie wholly before it."""
        self._drop(self._at(offset))
        self.start = max(self.start, offset)

    def drop_bytes(self, wanted: int) -> None:
        """Forget the oldest batches until that many bytes of memory are free."""
        count = 0
        while wanted > 0 and count < len(self._batches):
            wanted -= len(self._batches[count].data) + OVERHEAD
            count += 1
        self._drop(count)

    def replace(self, batches: list[StoredBatch]) -> None:
        """Put what compaction left in place of what was there."""
        size, count = self.size, len(self._batches)
        self._batches = batches
        self.dirty = 0
        self._count(sum(len(batch.data) for batch in batches) - size, len(batches) - count)

    def delete(self) -> None:
        """Forget everything."""
        self._drop(len(self._batches))

    def _at(self, offset: int) -> int:
        """Where the batch stands that holds an offset, or the first after it."""
        return bisect_left(self._batches, offset, key=lambda batch: batch.last)

    def _drop(self, count: int) -> None:
        if count:
            self.start = max(self.start, self._batches[count - 1].last + 1)
            self._count(-sum(len(batch.data) for batch in self._batches[:count]), -count)
            del self._batches[:count]

    def _count(self, size: int, batches: int) -> None:
        self.size += size
        self._budget.used += size + batches * OVERHEAD
