"""Frames that came and are not yet acknowledged, in bounded memory."""

import asyncio
from collections import deque
from collections.abc import Sequence

from worker.sources.frame import Frame

FRAME_BYTES = 200  # that a frame takes beside what it holds


def size_of(frame: Frame) -> int:
    """The bytes that a frame takes."""
    return len(frame.value) + len(frame.key or b"") + FRAME_BYTES


class Inbox:
    """Takes frames in while there is room, gives them out in order, and keeps count of both."""

    def __init__(self, room: int) -> None:
        """`room` for so many bytes of what is not acknowledged; one list may stand out of it."""
        self._room, self.bytes = room, 0
        self._waiting: deque[Frame] = deque()
        self._changed = asyncio.Condition()

    async def put(self, frames: Sequence[Frame]) -> None:
        """Take frames in, once there is room."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.bytes < self._room)
            self._waiting.extend(frames)
            self.bytes += sum(map(size_of, frames))
            self._changed.notify_all()

    async def take(self, count: int, size: int) -> list[Frame]:
        """The next frames, once there are any: so many, of so many bytes, or at least one."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting))
            found = [self._waiting.popleft()]
            taken = size_of(found[0])
            while self._waiting and len(found) < count and taken < size:
                found.append(self._waiting.popleft())
                taken += size_of(found[-1])
        return found

    async def done(self, frames: Sequence[Frame]) -> None:
        """Make room again: these are acknowledged."""
        async with self._changed:
            self.bytes -= sum(map(size_of, frames))
            self._changed.notify_all()

    async def drained(self) -> None:
        """Wait until all that came is acknowledged."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.bytes)
