"""Control on the embedded broker: read to the end, then followed; always what a dictionary says."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.small import ARTICLES, small_encoder
from worker.broker.server import Broker
from worker.config import Limits
from worker.control import Control
from worker.metrics import Metrics
from worker.seedcache import SeedEmbedder

PATIENCE_S = 20
Story = Callable[["Bench"], Awaitable[None]]

names = st.sampled_from(["a", "b", "c", "d"])
values = st.sampled_from([None, *ARTICLES.values(), "", "{"])


def record(value: str | None) -> bytes | None:
    """What is published: an article, nothing, or garbage."""
    return None if value is None else b"{" if value == "{" else json.dumps({"text": value}).encode()


def wanted(changes: list[tuple[str, str | None]]) -> tuple[dict[str, str], set[str]]:
    """The articles and the refused seeds after these changes, by a dictionary."""
    latest = dict(changes)
    live = {name: value for name, value in latest.items() if value and value != "{"}
    return live, {n for n, value in latest.items() if value is not None and n not in live}


class Bench:
    """A broker with a control topic, a producer for it, and readers as many as a test wants."""

    def __init__(self, address: str, producer: AIOKafkaProducer) -> None:
        self.address, self.producer = address, producer
        self.metrics = Metrics()

    async def publish(self, changes: list[tuple[str, str | None]]) -> None:
        for name, value in changes:
            await self.producer.send("seed-articles", record(value), key=name.encode())
        await self.producer.flush()

    async def reader(self) -> tuple[Control, SeedEmbedder]:
        def make() -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                bootstrap_servers=self.address, auto_offset_reset="earliest", group_id=None
            )

        control = Control(make, "seed-articles", self.metrics, Limits())
        embedder = SeedEmbedder(small_encoder(), None, 0.01, 0.4)
        await control.start()
        await control.embed(embedder)
        return control, embedder


def play(story: Story, partitions: int = 1) -> None:
    async def run() -> None:
        broker = Broker(auto_create=False)
        await broker.start()
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        policy = {"cleanup.policy": "compact"}
        await admin.create_topics([NewTopic("seed-articles", partitions, 1, topic_configs=policy)])
        await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=broker.address)
        await producer.start()
        try:
            await story(Bench(broker.address, producer))
        finally:
            await producer.stop()
            await broker.stop()

    asyncio.run(run())


def shown(control: Control) -> tuple[dict[str, str], set[str]]:
    """The articles and the refused seeds, as the next batch has them."""
    assert control.seeds is not None
    live = {seed.id: seed.text for seed in control.seeds.seeds}
    return live, {seed.id for seed in control.seeds.refused}


async def becomes(control: Control, state: tuple[dict[str, str], set[str]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while shown(control) != state:
            await asyncio.sleep(0.005)


def test_an_empty_control_topic_is_ready() -> None:
    async def story(bench: Bench) -> None:
        control, _ = await bench.reader()
        assert shown(control) == ({}, set())
        await control.stop()

    play(story)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.tuples(names, values), max_size=30),
    st.lists(st.tuples(names, values), max_size=10),
    st.integers(1, 3),
)
def test_early_and_late_readers_converge_on_what_a_dictionary_says(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]], partitions: int
) -> None:
    async def story(bench: Bench) -> None:
        await bench.publish(before)
        early, embedder = await bench.reader()
        assert shown(early) == wanted(before)
        following = asyncio.ensure_future(early.follow(embedder))
        await bench.publish(after)
        await becomes(early, wanted(before + after))
        late, _ = await bench.reader()
        assert shown(late) == wanted(before + after)
        assert late.seeds is not None
        assert early.seeds is not None
        assert late.seeds.digest == early.seeds.digest
        following.cancel()
        await early.stop()
        await late.stop()

    play(story, partitions)


def test_a_set_is_replaced_as_a_whole() -> None:
    """A batch that has begun keeps the set that it began with."""

    async def story(bench: Bench) -> None:
        control, embedder = await bench.reader()
        following = asyncio.ensure_future(control.follow(embedder))
        await bench.publish([("a", ARTICLES["flood"])])
        await becomes(control, ({"a": ARTICLES["flood"]}, set()))
        old = control.seeds
        await bench.publish([("a", ARTICLES["game"])])
        await becomes(control, ({"a": ARTICLES["game"]}, set()))
        assert old is not None
        assert [seed.text for seed in old.seeds] == [ARTICLES["flood"]]
        assert 'newsift_seeds{state="live"} 1.0' in bench.metrics.render().decode()
        following.cancel()
        await control.stop()

    play(story)
