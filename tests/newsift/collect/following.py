"""A collector beside a test: what it delivers, and its positions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from newsift.collect.collector import Collector, CollectorMetrics
from newsift.collect.source import Gap, LiveSource, LostError, SourceFrame, SourcePosition
from newsift.collect.state import PositionStore
from newsift.web.client import client_session, stream_timeout
from worker.config import StreamConfig

PATIENCE_S = 60.0


@dataclass
class FakeOutlet(PositionStore):
    """An outlet that keeps what is delivered, the positions too, and can be held up."""

    position: SourcePosition | None = None
    frames: list[SourceFrame] = field(default_factory=list)
    positions: list[SourcePosition] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    tried: list[int] = field(default_factory=list)
    error: Exception | None = None
    crashed: bool = False  # from here on nothing is delivered or kept

    def __post_init__(self) -> None:
        self.free.set()

    async def deliver(self, frames: Sequence[SourceFrame]) -> None:
        self.tried.append(len(frames))
        await self.free.wait()
        if self.error is not None:
            raise self.error
        if not self.crashed:
            self.frames += frames

    def store(self, position: SourcePosition) -> None:
        self.position = position
        if not self.crashed:
            self.positions.append(position)

    def count_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)

    @property
    def keys(self) -> list[str]:
        return [(f.key or b"").decode() for f in self.frames if f.value]


@dataclass
class Collecting:
    collector: Collector
    outlet: FakeOutlet
    metrics: CollectorMetrics
    task: asyncio.Task[None]

    async def until(self, seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not seen():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.005)

    def counted(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self.metrics.render().decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"newsift_collect_{name}" and labels.items() <= sample.labels.items()
        )


@asynccontextmanager
async def collecting(
    source: LiveSource, position: SourcePosition | None = None, size: StreamConfig | None = None
) -> AsyncIterator[Collecting]:
    """Run a collector while the block lasts; it leaves in order at the end."""
    outlet, metrics = FakeOutlet(position), CollectorMetrics(source.name)
    collector = Collector(source, outlet.deliver, metrics, size or StreamConfig(), outlet)
    async with client_session(stream_timeout(60)) as client:
        task = asyncio.create_task(collector.run(client))
        try:
            yield Collecting(collector, outlet, metrics, task)
            collector.stop()
            async with asyncio.timeout(PATIENCE_S):
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Follower:
    def __init__(self) -> None:
        self.frames: list[SourceFrame] = []
        self.cursor_frames: list[SourceFrame] = []  # cursors alone
        self.gaps: list[Gap] = []
        self.lost: list[LostError] = []

    def position(self, place: str, upto: int | None = None) -> SourcePosition | None:
        given = [f for f in self.frames[:upto] if f.cursor is not None]
        if not given:
            return None
        at = next((f.at for f in reversed(given) if f.at is not None), None)
        return SourcePosition(given[-1].cursor, place, at) if given[-1].cursor is not None else None

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
async def follow(
    source: LiveSource, position: SourcePosition | None = None
) -> AsyncIterator[Follower]:
    follower = Follower()
    task = asyncio.create_task(_follow(source, position, follower))
    try:
        yield follower
    finally:
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(source: LiveSource, position: SourcePosition | None, follower: Follower) -> None:
    async with client_session(stream_timeout(PATIENCE_S)) as client:
        while True:
            try:
                async for result in source.arrivals(
                    client, follower.position(source.place) or position
                ):
                    if isinstance(result, Gap):
                        follower.gaps.append(result)
                    else:
                        follower.cursor_frames += [frame for frame in result if not frame.value]
                        follower.frames += [frame for frame in result if frame.value]
            except LostError as lost:
                follower.lost.append(lost)
                await asyncio.sleep(0.01)
