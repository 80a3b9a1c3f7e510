"""A control topic on the embedded broker, and readers of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from newsift.broker.server import Broker
from tests.worker.small_encoder import small_encoder
from worker.config.limits import Limits
from worker.metrics.registry import Metrics
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState
from worker.stream.control import Control, MakeSeeds

TOPIC = "seed-articles"
State = tuple[dict[str, str], set[str]]  # articles by seed id, ids of refused seeds


class ControlBench:
    """A broker with a control topic and a producer; each reader notes why posts are held up."""

    def __init__(
        self, address: str, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer
    ) -> None:
        self.address, self.admin, self.producer = address, admin, producer
        self.metrics = Metrics()
        self.reasons: list[tuple[str, State | None]] = []  # of a pause, and the seeds then
        self.sets: list[set[str]] = []  # the ids of each that was made
        self.unfit: Exception | None = None

    async def publish(self, *records: tuple[str, str | bytes | None]) -> None:
        """Write articles, deletions (None), bad JSON ("{") or values as they are."""
        for key, value in records:
            if isinstance(value, str):
                value = b"{" if value == "{" else json.dumps({"text": value}).encode()
            await self.producer.send_and_wait(TOPIC, value, key=key.encode())

    async def create(self, partitions: int = 1) -> None:
        policy = {"cleanup.policy": "compact"}
        await self.admin.create_topics([NewTopic(TOPIC, partitions, 1, topic_configs=policy)])

    async def delete(self) -> None:
        await self.admin.delete_topics([TOPIC])

    def check(self) -> None:
        if self.unfit is not None:
            raise self.unfit

    async def reader(self) -> tuple[Control, MakeSeeds]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address, auto_offset_reset="none", group_id=None
        )

        def note(reason: str) -> None:
            self.reasons.append((reason, state(control) if control.seeds else None))

        control = Control(consumer, TOPIC, self.metrics, Limits(), self.check, note)
        embedder = SeedEmbedder(small_encoder(), 0.01, 0.4)
        await control.start()

        def make(state: ControlState) -> SeedSet:
            seeds = embedder.make(state)
            self.sets.append({seed.id for seed in seeds.seeds})
            return seeds

        await control.embed(make)
        return control, make

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Control]:
        """A reader that follows the topic while the block lasts."""
        control, make = await self.reader()
        task = asyncio.ensure_future(control.follow(make))
        try:
            yield control
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await control.stop()


@asynccontextmanager
async def control_topic() -> AsyncIterator[ControlBench]:
    """A broker of its own, which creates a topic for any client that allows it."""
    broker = Broker(auto_create=True)
    await broker.start()
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    producer = AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    bench = ControlBench(broker.address, admin, producer)
    await bench.create()
    try:
        yield bench
    finally:
        await producer.stop()
        await admin.close()
        await broker.stop()


def state(control: Control) -> State:
    assert control.seeds is not None
    live = {seed.id: seed.text for seed in control.seeds.seeds if isinstance(seed, Seed)}
    return live, {seed.id for seed in control.seeds.refused}
