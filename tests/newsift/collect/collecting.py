"""A collector beside a test: what it delivers is kept, and what it marks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from newsift.collect.collector import Collector, CollectorMetrics
from newsift.collect.source import Gap, LiveSource, SourceFrame, SourceMark
from newsift.web.client import client_session, stream_timeout
from worker.config import StreamConfig

PATIENCE_S = 60.0


@dataclass
class FakeOutlet:
    """An outlet that keeps what is delivered, the marks too, and can be held up."""

    mark: SourceMark | None = None
    frames: list[SourceFrame] = field(default_factory=list)
    marks: list[SourceMark] = field(default_factory=list)
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

    def store(self, mark: SourceMark) -> None:
        self.mark = mark
        if not self.crashed:
            self.marks.append(mark)

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
    source: LiveSource, mark: SourceMark | None = None, size: StreamConfig | None = None
) -> AsyncIterator[Collecting]:
    """Run a collector while the block lasts; it leaves in order at the end."""
    outlet, metrics = FakeOutlet(mark), CollectorMetrics(source.name)
    collector = Collector(source, outlet, metrics, size or StreamConfig(), outlet)
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
