"""A control topic on the embedded broker, with readers of it as many as a test wants."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from newsift.broker.server import Broker
from tests.worker.small import small_encoder
from worker.config.limits import Limits
from worker.metrics.registry import Metrics
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import Seed
from worker.stream.control import Control

PATIENCE_S = 60
TOPIC = "seed-articles"
Story = Callable[["Bench"], Awaitable[None]]
State = tuple[dict[str, str], set[str]]


def record(value: str | None) -> bytes | None:
    """What is published: an article, nothing, or garbage."""
    return None if value is None else b"{" if value == "{" else json.dumps({"text": value}).encode()


class Bench:
    """A broker with a control topic, a producer for it, and readers as many as a test wants."""

    def __init__(
        self, address: str, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer
    ) -> None:
        self.address, self.admin, self.producer = address, admin, producer
        self.metrics = Metrics()
        self.held: list[str] = []
        self.unfit: Exception | None = None

    async def publish(self, changes: list[tuple[str, str | None]]) -> None:
        """Write records and wait until they are there."""
        for name, value in changes:
            await self.producer.send_and_wait(TOPIC, record(value), key=name.encode())

    async def create(self, partitions: int = 1) -> None:
        """Make the control topic."""
        policy = {"cleanup.policy": "compact"}
        await self.admin.create_topics([NewTopic(TOPIC, partitions, 1, topic_configs=policy)])

    async def delete(self) -> None:
        """Delete the control topic with all it holds."""
        await self.admin.delete_topics([TOPIC])

    def check(self) -> None:
        """What the worker asks before it reads a topic that is new to it."""
        if self.unfit is not None:
            raise self.unfit

    async def reader(self) -> tuple[Control, SeedEmbedder]:
        """A reader that has read to the end."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address, auto_offset_reset="none", group_id=None
        )
        control = Control(consumer, TOPIC, self.metrics, Limits(), self.check, self.held.append)
        embedder = SeedEmbedder(small_encoder(), 0.01, 0.4)
        await control.start()
        await control.embed(embedder)
        return control, embedder


def play(story: Story) -> None:
    """Run a story on a broker of its own, which makes a topic for whoever lets it."""

    async def run() -> None:
        broker = Broker(auto_create=True)
        await broker.start()
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        producer = AIOKafkaProducer(bootstrap_servers=broker.address)
        await producer.start()
        bench = Bench(broker.address, admin, producer)
        await bench.create()
        try:
            await story(bench)
        finally:
            await producer.stop()
            await admin.close()
            await broker.stop()

    asyncio.run(run())


async def following(control: Control, embedder: SeedEmbedder, life: Story, bench: Bench) -> None:
    """Let a reader follow the topic while a part of a story takes place; then stop it."""
    task = asyncio.ensure_future(control.follow(embedder))
    try:
        await life(bench)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await control.stop()


def shown(control: Control) -> State:
    """The articles and the refused seeds, as the next batch has them."""
    assert control.seeds is not None
    live = {seed.id: seed.text for seed in control.seeds.seeds if isinstance(seed, Seed)}
    return live, {seed.id for seed in control.seeds.refused}


async def becomes(control: Control, state: State) -> None:
    """Wait until the next batch has these."""
    await met(lambda: shown(control) == state)


async def met(condition: Callable[[], object]) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
