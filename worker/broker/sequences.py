"""What a partition remembers of its idempotent producers, so that a retry is stored once."""

from collections import deque

from worker.broker.codes import Code, Refused
from worker.kafka.batches.header import Header

REMEMBERED_BATCHES = 5  # as many as a producer may have in flight
REMEMBERED_PRODUCERS = 1000
WRAP = 2**31

Batches = deque[tuple[int, int, int]]  # first sequence, last sequence, base offset


class Sequences:
    """The sequence numbers of all producers of one partition; the least recent are forgotten."""

    def __init__(self) -> None:
        self._producers: dict[int, tuple[int, Batches]] = {}  # by id: the epoch, the last batches

    def duplicate_of(self, header: Header) -> int | None:
        """The offset at which this very batch already stands; None if it is new and in order."""
        if header.producer_id not in self._producers:
            return None
        epoch, batches = self._producers[header.producer_id]
        if header.producer_epoch < epoch:
            raise Refused(
                Code.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: epoch {header.producer_epoch} is over",
            )
        expected = 0
        if header.producer_epoch == epoch:
            for first, last, offset in batches:
                if (first, last) == (header.base_sequence, last_sequence(header)):
                    return offset
            expected = (batches[-1][1] + 1) % WRAP
        if header.base_sequence != expected:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}: sequence {header.base_sequence}, "
                f"expected {expected}",
            )
        return None

    def remember(self, header: Header, offset: int) -> None:
        """Note a batch that was just stored at this offset."""
        epoch, batches = self._producers.pop(header.producer_id, (None, Batches()))
        if epoch != header.producer_epoch:
            batches = Batches(maxlen=REMEMBERED_BATCHES)
        batches.append((header.base_sequence, last_sequence(header), offset))
        self._producers[header.producer_id] = header.producer_epoch, batches
        if len(self._producers) > REMEMBERED_PRODUCERS:
            del self._producers[next(iter(self._producers))]


def last_sequence(header: Header) -> int:
    """The sequence number of a batch's last record; they start again at 0 after 2^31 - 1."""
    return (header.base_sequence + header.last_offset_delta) % WRAP
