"""A collector beside a test: what it delivers, and its positions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

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


class NotedCollector(Collector):
    """Notes why connections were lost; an eager one connects again at once."""

    def __init__(self, *parts: Any, eager: bool) -> None:
        super().__init__(*parts)
        self.eager, self.lost = eager, list[LostError]()

    async def _pause(self, error: LostError) -> None:
        self.lost.append(error)
        await (asyncio.sleep(0.01) if self.eager else super()._pause(error))


@dataclass
class Collecting:
    collector: NotedCollector
    outlet: FakeOutlet
    metrics: CollectorMetrics
    task: asyncio.Task[None]

    async def until(self, seen: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not seen():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.005)

    @property
    def frames(self) -> list[SourceFrame]:
        """Without those that only move the cursor."""
        return [frame for frame in self.outlet.frames if frame.value]

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
    source: LiveSource, position: SourcePosition | None = None, size: StreamConfig | None = None,
    eager: bool = False,
) -> AsyncIterator[Collecting]:  # fmt: skip
    """Run a collector while the block lasts; it leaves in order at the end."""
    outlet, metrics = FakeOutlet(position), CollectorMetrics(source.name)
    parts = (source, outlet.deliver, metrics, size or StreamConfig(), outlet)
    collector = NotedCollector(*parts, eager=eager)
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


def follow(
    source: LiveSource, position: SourcePosition | None = None
) -> AbstractAsyncContextManager[Collecting]:
    return collecting(source, position, eager=True)


async def first_of(source: LiveSource) -> Sequence[SourceFrame] | Gap:
    async with client_session(stream_timeout(PATIENCE_S)) as client:
        return await anext(source.arrivals(client, None))
