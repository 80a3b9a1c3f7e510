"""What is under way: whole batches from their arrival to the commit of their offsets."""

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
        self.ends = {}
        for message in self.messages:
            self.ends[TopicPartition(message.topic, message.partition)] = message.offset + 1


class Ledger:
    """The batches under way, oldest first, and what may be committed of them.

    A batch stays until its offsets are committed, so what is in flight also bounds what a crash
    can repeat. An epoch is one assignment of partitions: the batches of an older one are dropped,
    since another worker reads their posts again. Whoever waits for something here is told of
    every change.
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
        """Whether there is no room for one more batch."""
        return len(self._batches) >= self._most

    @property
    def unfinished(self) -> int:
        """The batches whose posts are not all matched and acknowledged."""
        return sum(not batch.finished for batch in self._batches)

    @property
    def places(self) -> set[TopicPartition]:
        """The partitions of which something is under way."""
        return {place for batch in self._batches for place in batch.ends}

    def add(self, messages: "Sequence[Message]") -> Batch:
        """Note what has arrived, in the order of its offsets."""
        batch = Batch(self.epoch, messages)
        self._batches.append(batch)
        self._tell()
        return batch

    async def next(self) -> Batch:
        """The oldest batch that nobody has taken, once there is one and nothing is paused."""
        while (batch := self.take()) is None:
            await self.changed()
        return batch

    def take(self) -> Batch | None:
        """The oldest batch that nobody has taken, if there is one and nothing is paused."""
        for batch in () if self._paused else self._batches:
            if not batch.taken:
                batch.taken = True
                return batch
        return None

    def pause(self, paused: bool) -> None:
        """Hand out no batch, or hand them out again."""
        self._paused = paused
        self._tell()

    def holds(self, batch: Batch) -> bool:
        """Whether the batch still is this worker's, by the assignment it was read under."""
        return batch.epoch == self.epoch

    def is_turn_of(self, batch: Batch) -> bool:
        """Whether each older batch has had its turn, or this one is no longer under way."""
        waiting = [other for other in self._batches if not other.had_turn]
        return batch not in waiting or waiting[0] is batch

    def pass_on(self, batch: Batch) -> None:
        """Note that a batch has had its turn: it is the next one's."""
        batch.had_turn = True
        self._tell()

    def finish(self, batch: Batch) -> None:
        """Note that all a batch gave rise to is acknowledged; its posts are let go."""
        batch.taken = batch.had_turn = batch.finished = True
        batch.messages = ()
        self._tell()

    def committable(self) -> Offsets:
        """How far each partition may be committed: up to its first batch that is not finished."""
        offsets: Offsets = {}
        blocked: set[TopicPartition] = set()
        for batch in self._batches:
            if not batch.finished:
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
        self._tell()

    def drop(self) -> int:
        """Begin a new epoch: forget every batch, and tell how many were not yet committed."""
        dropped = len(self._batches)
        self._batches = []
        self.epoch += 1
        self._tell()
        return dropped

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds."""
        while not holds():
            await self.changed()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._change.wait()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
