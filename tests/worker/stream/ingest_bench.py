"""An ingest with a fake consumer that tests feed, and an event loop that waits for no time."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition

from tests.worker.small_encoder import Mail
from tests.worker.stream.fake_clients import FakeConsumer
from worker.config import StreamConfig
from worker.metrics.registry import Metrics
from worker.stream.ingest import Ingest
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Positions, Tenures

PLACE = TopicPartition("tweets", 0)


class Bench:
    def __init__(self) -> None:
        self.consumer, self.ledger, self.metrics = FakeConsumer(), Ledger(2), Metrics()
        self.tenures = Tenures(30)
        self.failures: list[Exception] = []
        self.positions = Positions(
            *(self.consumer, "tweets", self.ledger, self.tenures, self.metrics),
            self.failures.append,
        )
        config = StreamConfig(batch_posts=2_000, batch_bytes=10_000)
        self.ingest = Ingest(
            self.consumer, "tweets", self.positions, self.ledger, self.metrics, config
        )
        self.offset = 0

    def feed(self, count: int = 1) -> None:
        mails = [Mail(b"x", offset=self.offset + n) for n in range(count)]
        self.offset += count
        self.consumer.ready.append({PLACE: mails})

    async def wait_for(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    async def take(self) -> Batch:
        """The oldest batch that nobody has taken, once there is one."""
        await self.wait_for(lambda: len(self.ledger) > 0)
        batch = self.ledger.take()
        assert batch is not None
        return batch

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[-1])


class FastLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__(FastSelector(self.skip))

    def skip(self, seconds: float) -> None:
        self._skipped += seconds

    def time(self) -> float:
        return super().time() + self._skipped


class FastSelector(selectors.DefaultSelector):
    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> Any:
        self._skip(timeout or 0.0)
        return super().select(0)
