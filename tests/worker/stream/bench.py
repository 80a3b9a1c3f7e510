"""An ingest with a fake consumer that tests feed, and a loop whose time flies."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import TopicPartition

from tests.worker.small import Mail
from tests.worker.stream.fakes import FakeConsumer
from worker.metrics.registry import Metrics
from worker.stream.ingest import Ingest
from worker.stream.ledger import Ledger
from worker.stream.offsets import Positions

PLACE = TopicPartition("tweets", 0)


class Bench:
    """An ingest with a ledger of two batches and a consumer that a test feeds."""

    def __init__(self) -> None:
        self.consumer, self.ledger, self.metrics = FakeConsumer(), Ledger(2), Metrics()
        self.failures: list[Exception] = []
        self.positions = Positions(
            self.consumer, "tweets", self.ledger, self.metrics, self.failures.append
        )
        self.ingest = Ingest(
            self.consumer, "tweets", self.positions, self.ledger, self.metrics, posts=100, size=1000
        )
        self.offset = 0

    def feed(self, count: int = 1) -> None:
        mails = [Mail(b"x", offset=self.offset + n) for n in range(count)]
        self.offset += count
        self.consumer.ready.append({PLACE: mails})

    async def met(self, condition: Callable[[], object]) -> None:
        """Let everybody work until this holds."""
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[-1])


Story = Callable[[Bench], Awaitable[None]]


class Hurried(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to whatever is waited for."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__(Jumping(self.skip))

    def skip(self, seconds: float) -> None:
        self._skipped += seconds

    def time(self) -> float:
        return super().time() + self._skipped


class Jumping(selectors.DefaultSelector):
    """A selector that waits for no time to pass."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> Any:
        self._skip(timeout or 0.0)
        return super().select(0)


def play(story: Story, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Bench:
    async def run() -> Bench:
        bench = Bench()
        await bench.ingest.start()
        bench.consumer.places = {PLACE}
        reading = asyncio.ensure_future(bench.ingest.read())
        try:
            await story(bench)
        finally:
            reading.cancel()
        return bench

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(run())
