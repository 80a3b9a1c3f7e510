"""A collector for tests: it follows a source from one connection to the next, and keeps all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from newsift.collect.source import Gap, LiveSource, LostError, SourceFrame, SourceMark
from newsift.web.client import client_session, stream_timeout

PATIENCE_S = 60.0


class Follower:
    def __init__(self) -> None:
        self.frames: list[SourceFrame] = []
        self.cursor_frames: list[SourceFrame] = []  # cursors alone
        self.gaps: list[Gap] = []
        self.lost: list[LostError] = []

    def mark(self, place: str, upto: int | None = None) -> SourceMark | None:
        given = [f for f in self.frames[:upto] if f.cursor is not None]
        if not given:
            return None
        at = next((f.at for f in reversed(given) if f.at is not None), None)
        return SourceMark(given[-1].cursor, place, at) if given[-1].cursor is not None else None

    def values(self) -> list[bytes]:
        return [frame.value for frame in self.frames]

    def keyed(self) -> list[str]:
        return [frame.key.decode() for frame in self.frames if frame.key is not None]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


async def first_of(source: LiveSource) -> Sequence[SourceFrame] | Gap:
    async with client_session(stream_timeout(PATIENCE_S)) as client:
        return await anext(source.arrivals(client, None))


@asynccontextmanager
async def follow(source: LiveSource, mark: SourceMark | None = None) -> AsyncIterator[Follower]:
    follower = Follower()
    task = asyncio.create_task(_follow(source, mark, follower))
    try:
        yield follower
    finally:
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(source: LiveSource, mark: SourceMark | None, follower: Follower) -> None:
    async with client_session(stream_timeout(PATIENCE_S)) as client:
        while True:
            try:
                async for result in source.arrivals(client, follower.mark(source.place) or mark):
                    if isinstance(result, Gap):
                        follower.gaps.append(result)
                    else:
                        follower.cursor_frames += [frame for frame in result if not frame.value]
                        follower.frames += [frame for frame in result if frame.value]
            except LostError as lost:
                follower.lost.append(lost)
                await asyncio.sleep(0.01)
