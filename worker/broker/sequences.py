"""What a partition remembers of its idempotent producers, so that a retry is stored once."""

from collections import deque
from dataclasses import dataclass, field

from worker.broker.codes import Code, Refused
from worker.kafka.batches.header import Header

REMEMBERED_BATCHES = 5  # as many as a producer may have in flight
REMEMBERED_PRODUCERS = 1000
WRAP = 2**31


@dataclass(slots=True)
class ProducerState:
    """The last batches of one producer: (first sequence, last sequence, base offset)."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )


class Sequences:
    """The sequence numbers of all producers of one partition; the least recent are forgotten."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}

    def duplicate_of(self, header: Header) -> int | None:
        """The offset at which this very batch already stands; None if it is new and in order."""
        known = self._producers.get(header.producer_id)
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            raise Refused(
                Code.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: epoch {header.producer_epoch} is over",
            )
        if header.producer_epoch > known.epoch:
            self._expect(header, 0)
            return None
        for first, last, offset in known.batches:
            if (first, last) == (header.base_sequence, last_sequence(header)):
                return offset
        self._expect(header, (known.batches[-1][1] + 1) % WRAP)
        return None

    def remember(self, header: Header, offset: int) -> None:
        """Note a batch that was just stored at this offset."""
        known = self._producers.pop(header.producer_id, None)
        if known is None or known.epoch != header.producer_epoch:
            known = ProducerState(header.producer_epoch)
        known.batches.append((header.base_sequence, last_sequence(header), offset))
        self._producers[header.producer_id] = known
        if len(self._producers) > REMEMBERED_PRODUCERS:
            del self._producers[next(iter(self._producers))]

    def _expect(self, header: Header, sequence: int) -> None:
        if header.base_sequence != sequence:
            raise Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}: sequence {header.base_sequence}, "
                f"expected {sequence}",
            )


def last_sequence(header: Header) -> int:
    """The sequence number of a batch's last record; they start again at 0 after 2^31 - 1."""
    return (header.base_sequence + header.last_offset_delta) % WRAP
