"""Lanes: what a receiver has not acknowledged yet, of each event by itself, in order and bounded.

A lane that is full leaves the rest in the topic, and notes from where on: so one event that nobody
takes costs no more memory the longer it lasts, and holds up no other.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from worker.cli.watch.notices import Notice
from worker.kafka.consumers import Offsets

LANES = 128  # events that wait; while there are more, nothing further is read
HELD = 100  # matches of an event that are held at once
ROOM = 2**18  # bytes of them, from which on no further one is held

Deliver = Callable[[Notice], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Lane:
    """The matches of one event that wait, oldest first."""

    event: str
    held: deque[Notice] = field(default_factory=deque)
    behind: Offsets = field(default_factory=dict)  # from here on they wait in the topic
    size: int = 0
    task: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more can be held."""
        return len(self.held) < HELD and self.size < ROOM


class Lanes:
    """The lanes of all events for which something waits."""

    def __init__(self, deliver: Deliver, fail: Callable[[Exception], None]) -> None:
        """`deliver` returns once a notice is acknowledged; what it raises goes to `fail`."""
        self._deliver, self._fail = deliver, fail
        self._lanes: dict[str, Lane] = {}
        self._change = asyncio.Event()
        self.reached: Offsets = {}  # as far as the topic is read

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def full(self) -> bool:
        """Whether so many events wait that nothing further is to be read."""
        return len(self._lanes) >= LANES

    def take(self, place: TopicPartition, offset: int, notices: Mapping[str, Notice]) -> None:
        """Put what was read at an offset into the lanes of its events."""
        for event, notice in notices.items():
            lane = self._lanes.setdefault(event, Lane(event))
            if place not in lane.behind and not self.hold(lane, notice):
                lane.behind[place] = offset
        self.reached[place] = offset + 1

    def hold(self, lane: Lane, notice: Notice) -> bool:
        """Have a notice delivered after those before it, if there is room."""
        if not lane.has_room:
            return False
        lane.held.append(notice)
        lane.size += len(notice.value)
        if lane.task is None:
            lane.task = asyncio.create_task(self._work(lane))
        return True

    def is_current(self, lane: Lane) -> bool:
        """Whether a lane is still one of these, or was dropped meanwhile."""
        return self._lanes.get(lane.event) is lane

    def lagging(self) -> Lane | None:
        """A lane that has delivered all it held, while more waits in the topic."""
        waiting = (lane for lane in self._lanes.values() if lane.behind and not lane.held)
        return next(waiting, None)

    def caught_up(self, lane: Lane) -> None:
        """Let go of a lane for which nothing waits any more."""
        if not lane.held and not lane.behind and self.is_current(lane):
            del self._lanes[lane.event]
        self._tell()

    def committable(self) -> Offsets:
        """How far each partition may be committed: all before is acknowledged."""
        found = dict(self.reached)
        for lane in self._lanes.values():
            for notice in lane.held:
                found[notice.place] = min(found[notice.place], notice.offset)
            for place, offset in lane.behind.items():
                found[place] = min(found[place], offset)
        return found

    async def drop(self) -> None:
        """Forget all of it: whoever reads the partitions next delivers what was not committed."""
        dropped = list(self._lanes.values())
        tasks = [lane.task for lane in dropped if lane.task is not None]
        self._lanes, self.reached = {}, {}
        for lane in dropped:
            lane.behind.clear()  # whoever reads for it stops
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tell()

    async def settle(self, timeout_s: float) -> None:
        """Wait so long, at most, for what is being delivered at this moment."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._change.wait()

    async def _work(self, lane: Lane) -> None:
        """Deliver what a lane holds, one after the other."""
        try:
            while lane.held:
                await self._deliver(lane.held[0])
                lane.size -= len(lane.held.popleft().value)
                self._tell()
        except Exception as error:  # noqa: BLE001 - a task would keep it to itself
            self._fail(error)
        lane.task = None
        self.caught_up(lane)

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
