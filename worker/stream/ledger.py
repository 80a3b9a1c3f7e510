"""The ledger: whole batches in flight, from their arrival to the commit of their offsets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from encoder.errors import InputError

if TYPE_CHECKING:
    from worker.match.records import Message

Offsets = dict[TopicPartition, int]


@dataclass(slots=True, eq=False)
class Batch:
    """Posts that are read, matched and acknowledged together."""

    epoch: int
    messages: "Sequence[Message]"
    ends: Offsets = field(init=False)  # after the last message of each partition, to be committed
    taken: bool = False  # by an agent
    had_turn: bool = False  # at what is done in the order of the offsets
    finished: bool = False  # all that came of it is acknowledged
    arrived: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        last = {(message.topic, message.partition): message.offset for message in self.messages}
        self.ends = {TopicPartition(*place): offset + 1 for place, offset in last.items()}


class Ledger:
    """The batches in flight, oldest first, and the offsets that may be committed.

    A batch stays until its offsets are committed, so the number in flight bounds what a crash can
    repeat. An epoch is one assignment of partitions. Batches of an older epoch are dropped, since
    another worker reads their posts. Every change wakes those who wait.
    """

    def __init__(self, in_flight: int) -> None:
        if in_flight < 1:
            raise InputError(f"in_flight: {in_flight} is not a whole number from 1")
        self.epoch = 0
        self._most = in_flight
        self._batches: list[Batch] = []
        self._paused = False
        self._change = asyncio.Event()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def full(self) -> bool:
        return len(self._batches) >= self._most

    @property
    def unfinished(self) -> int:
        """Batches that are not yet acknowledged."""
        return sum(not batch.finished for batch in self._batches)

    @property
    def places(self) -> set[TopicPartition]:
        """Partitions with posts in flight."""
        return {place for batch in self._batches for place in batch.ends}

    def add(self, messages: "Sequence[Message]") -> Batch:
        """Adds a batch; batches are added in the order of offsets."""
        batch = Batch(self.epoch, messages)
        self._batches.append(batch)
        self._wake()
        return batch

    async def next(self) -> Batch:
        """Waits for a batch that is not taken, and while paused."""
        while (batch := self.take()) is None:
            await self.wait_for_change()
        return batch

    def take(self) -> Batch | None:
        """The oldest batch that is not taken; None while paused."""
        for batch in () if self._paused else self._batches:
            if not batch.taken:
                batch.taken = True
                return batch
        return None

    def pause(self, paused: bool) -> None:
        self._paused = paused
        self._wake()

    def holds(self, batch: Batch) -> bool:
        """Whether the batch belongs to the current assignment."""
        return batch.epoch == self.epoch

    def is_turn_of(self, batch: Batch) -> bool:
        """True once each older batch has had its turn, and for a dropped batch."""
        waiting = [other for other in self._batches if not other.had_turn]
        return batch not in waiting or waiting[0] is batch

    def end_turn(self, batch: Batch) -> None:
        batch.had_turn = True
        self._wake()

    def finish(self, batch: Batch) -> None:
        """All records of the batch are acknowledged."""
        batch.taken = batch.had_turn = batch.finished = True
        batch.messages = ()
        self._wake()

    def committable(self) -> Offsets:
        """The offset to commit in each partition: that of its first unfinished batch."""
        offsets: Offsets = {}
        gaps: set[TopicPartition] = set()
        for batch in self._batches:
            if not batch.finished:
                gaps |= batch.ends.keys()
            else:
                offsets |= {p: end for p, end in batch.ends.items() if p not in gaps}
        return offsets

    def record_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Release the batches that are committed in all their partitions.

        Batches finish out of order, and a batch may be committed in one partition long before
        another. An offset must not be committed twice: by then a later batch may have committed a
        higher one.
        """
        for place, end in offsets.items():
            for batch in self._batches:
                if batch.ends.pop(place, None) == end:
                    break
        self._batches = [batch for batch in self._batches if batch.ends]
        self._wake()

    def drop(self) -> int:
        """Begins a new epoch; returns how many batches were not committed."""
        count = len(self._batches)
        self._batches = []
        self.epoch += 1
        self._wake()
        return count

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.wait_for_change()

    async def wait_for_change(self) -> None:
        await self._change.wait()

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
