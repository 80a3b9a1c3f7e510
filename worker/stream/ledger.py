"""What is under way: whole batches from their arrival to the commit of their offsets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from encoder.errors import InputError

if TYPE_CHECKING:
    from worker.match.records import Message

Offsets = dict[TopicPartition, int]


class Progress(Enum):
    """How far a batch has come."""

    WAITING = "waiting"
    TAKEN = "taken"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Batch:
    """Posts that are read, matched and acknowledged together."""

    epoch: int
    messages: "Sequence[Message]"
    ends: Offsets = field(init=False)  # after the last message of each partition, to be committed
    progress: Progress = Progress.WAITING
    arrived: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        self.ends = {}
        for message in self.messages:
            self.ends[TopicPartition(message.topic, message.partition)] = message.offset + 1


class Ledger:
    """The batches under way, oldest first, and what may be committed of them.

    A batch stays until its offsets are committed, so what is in flight also bounds what a crash
    can repeat. An epoch is one assignment of partitions: the batches of an older one are dropped,
    since another worker reads their posts again.
    """

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise InputError(f"slots: {slots} is not a whole number from 1")
        self.epoch = 0
        self._slots = slots
        self._batches: list[Batch] = []

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def full(self) -> bool:
        """Whether no slot is free for one more batch."""
        return len(self._batches) >= self._slots

    @property
    def waiting(self) -> int:
        """The batches that nobody has taken yet."""
        return self._count(Progress.WAITING)

    @property
    def unfinished(self) -> int:
        """The batches whose posts are not all matched and acknowledged."""
        return len(self._batches) - self._count(Progress.FINISHED)

    @property
    def places(self) -> set[TopicPartition]:
        """The partitions of which something is under way."""
        return {place for batch in self._batches for place in batch.ends}

    def add(self, messages: "Sequence[Message]") -> Batch:
        """Note what has arrived, in the order of its offsets."""
        batch = Batch(self.epoch, messages)
        self._batches.append(batch)
        return batch

    def take(self) -> Batch | None:
        """The oldest batch that nobody has taken, if there is one."""
        for batch in self._batches:
            if batch.progress is Progress.WAITING:
                batch.progress = Progress.TAKEN
                return batch
        return None

    def holds(self, batch: Batch) -> bool:
        """Whether the batch still is this worker's, by the assignment it was read under."""
        return batch.epoch == self.epoch

    def finish(self, batch: Batch) -> None:
        """Note that all a batch gave rise to is acknowledged; its posts are let go."""
        batch.progress = Progress.FINISHED
        batch.messages = ()

    def committable(self) -> Offsets:
        """How far each partition may be committed: up to its first batch that is not finished."""
        offsets: Offsets = {}
        blocked: set[TopicPartition] = set()
        for batch in self._batches:
            if batch.progress is not Progress.FINISHED:
                blocked |= batch.ends.keys()
            else:
                offsets |= {p: end for p, end in batch.ends.items() if p not in blocked}
        return offsets

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note what was committable and is committed now; let go of the batches that are done.

        Batches finish out of order, and one may be committed in one partition long before it is in
        another. What is committed must not be so again: by then the next one's is, further on.
        """
        for place, end in offsets.items():
            for batch in self._batches:
                if batch.ends.pop(place, None) == end:
                    break
        self._batches = [batch for batch in self._batches if batch.ends]

    def drop(self) -> int:
        """Begin a new epoch: forget every batch, and tell how many were not yet committed."""
        dropped = len(self._batches)
        self._batches = []
        self.epoch += 1
        return dropped

    def _count(self, progress: Progress) -> int:
        return Counter(batch.progress for batch in self._batches)[progress]
