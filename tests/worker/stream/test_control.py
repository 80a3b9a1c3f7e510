import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import NotLeaderForPartitionError
from hypothesis import given, settings
from hypothesis import strategies as st

from newsift.broker.server import Broker
from tests.worker.event_profiles import profile_value
from tests.worker.small_encoder import ARTICLES, small_encoder
from tests.worker.stream.fake_clients import met
from worker.config.limits import Limits
from worker.errors import AccessError
from worker.kafka.aiokafka_repairs import Consumer
from worker.metrics.registry import Metrics
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlRecord, ControlReducer, ControlState
from worker.stream import control as control_module
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
        consumer = Consumer(bootstrap_servers=self.address, auto_offset_reset="none", group_id=None)

        def note(reason: str) -> None:
            self.reasons.append((reason, state(control) if control.seeds else None))

        control = Control(consumer, TOPIC, self.metrics, Limits(), self.check, note)
        embedder = SeedEmbedder(small_encoder(), ThresholdRules(0.01, 0.4))
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


Changes = list[tuple[str, str | None]]
FLOOD, GAME = ("a", ARTICLES["flood"]), ("b", ARTICLES["game"])
changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([None, *ARTICLES.values(), "", "{"])
    ),
    max_size=20,
)


@pytest.fixture
async def bench() -> AsyncIterator[ControlBench]:
    async with control_topic() as result:
        yield result


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module, "IDENTITY_CHECK_S", 0.02)
    monkeypatch.setattr(control_module, "POLL_MS", 20)


def expected(changes: Changes) -> State:
    latest = dict(changes)
    live = {name: value for name, value in latest.items() if value and value != "{"}
    return live, {n for n, value in latest.items() if value is not None and n not in live}


@settings(max_examples=6)
@given(changes, changes)
async def test_early_and_late_readers_agree_with_a_dictionary(
    before: Changes, after: Changes
) -> None:
    async with control_topic() as bench:
        await bench.publish(*before)
        async with bench.following() as early:
            assert state(early) == expected(before)
            await bench.publish(*after)
            await met(lambda: state(early) == expected(before + after))
            late, _ = await bench.reader()
            assert state(late) == state(early)
            assert late.seeds is not None
            assert early.seeds is not None
            assert late.seeds.digest == early.seeds.digest
            await late.stop()


async def test_a_stale_profile_is_logged_once(
    bench: ControlBench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.publish(FLOOD, ("profile|a", profile_value("a", dict([FLOOD]), model="0" * 64)))
    control, make = await bench.reader()
    await control.embed(make)
    assert b'newsift_seeds{state="stale"} 1.0' in bench.metrics.render()
    await control.stop()
    [message] = [m for m in caplog.messages if "profile|a" in m]
    assert "is stale: model" in message


async def test_a_topic_made_again_with_other_seeds_is_read_again(bench: ControlBench) -> None:
    """As many records as before: only the topic's id differs."""
    await bench.publish(FLOOD)
    async with bench.following() as control:
        await bench.delete()
        await bench.create()
        await bench.publish(GAME)
        await met(lambda: state(control) == ({"b": ARTICLES["game"]}, set()))
        await met(lambda: not control.hold_reason)


async def test_after_a_long_pause_the_topic_is_read_again(
    bench: ControlBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic may have compacted away the tombstone of a seed."""
    await bench.publish(FLOOD, GAME)
    async with bench.following() as control:
        await bench.publish(("b", None))
        await met(lambda: state(control) == (dict([FLOOD]), set()))
        gone = ControlRecord(b"b", json.dumps({"text": ARTICLES["game"]}).encode(), offset=1)
        control._reducer = ControlReducer(values=False)
        control._reducer.apply([gone])
        monkeypatch.setattr(control_module, "MAX_READ_PAUSE_S", -1.0)
        await bench.publish(("c", ARTICLES["game"]))
        await met(lambda: state(control) == (dict([FLOOD, ("c", ARTICLES["game"])]), set()))


async def test_no_seed_set_is_of_a_new_topic_that_is_read_in_part(
    bench: ControlBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that answers no more in the middle of it loses no seed until it does."""
    await bench.publish(FLOOD)
    async with bench.following() as control:
        consumer, reads, published = control._consumer, 0, asyncio.Event()
        getmany, beginning_offsets = consumer.getmany, consumer.beginning_offsets

        async def begin(*places: Any) -> Any:
            await published.wait()
            return await beginning_offsets(*places)

        async def fail_second(**options: Any) -> Any:
            nonlocal reads
            records = {} if reads == 1 else await getmany(max_records=1, **options)
            if records or reads == 1:
                reads += 1
            if reads == 2:
                reads += 1
                raise NotLeaderForPartitionError
            return records

        await bench.delete()
        await met(lambda: control.hold_reason)
        monkeypatch.setattr(consumer, "getmany", fail_second)
        monkeypatch.setattr(consumer, "beginning_offsets", begin)
        await bench.create()
        new = [(name, ARTICLES["game"]) for name in "bcd"]
        await bench.publish(*new)
        published.set()
        await met(lambda: state(control) == (dict(new), set()))
    assert reads > 3
    assert all(names in ({"a"}, {"b", "c", "d"}) for names in bench.sets)


async def test_a_deleted_topic_pauses_posts_until_somebody_creates_it_with_seeds(
    bench: ControlBench,
) -> None:
    await bench.publish(FLOOD)
    async with bench.following() as control:
        await bench.delete()
        await met(lambda: control.hold_reason)
        assert control.hold_reason == f"the control topic {TOPIC} is gone"
        await asyncio.sleep(1)
        assert TOPIC not in await bench.admin.list_topics()
        await bench.create()
        await bench.publish(GAME)
        await met(lambda: not control.hold_reason)
        assert bench.reasons[-1] == ("", ({"b": ARTICLES["game"]}, set()))


async def test_an_empty_new_topic_pauses_posts_until_it_has_seeds(bench: ControlBench) -> None:
    await bench.publish(FLOOD)
    async with bench.following() as control:
        await bench.delete()
        await bench.create()
        await met(lambda: "made again and is empty" in control.hold_reason)
        await met(lambda: state(control) == ({}, set()))
        await bench.publish(GAME)
        await met(lambda: not control.hold_reason)
        assert bench.reasons[-1] == ("", ({"b": ARTICLES["game"]}, set()))


@pytest.mark.parametrize("changes", [[], [FLOOD, ("a", None)]])
async def test_where_there_were_no_seeds_an_empty_topic_pauses_nothing(
    changes: Changes, bench: ControlBench
) -> None:
    await bench.publish(*changes)
    async with bench.following() as control:
        await bench.delete()
        await met(lambda: control.hold_reason)
        await bench.create()
        await met(lambda: not control.hold_reason)
        assert state(control) == ({}, set())


async def test_a_new_topic_that_fails_its_check_ends_the_worker(bench: ControlBench) -> None:
    await bench.publish(FLOOD)
    control, make = await bench.reader()
    task = asyncio.ensure_future(control.follow(make))
    bench.unfit = AccessError("partitions is 4, must be 1")
    await bench.delete()
    await bench.create(partitions=4)
    with pytest.raises(AccessError, match="partitions is 4"):
        await asyncio.wait_for(task, 20)
    await control.stop()


async def test_a_reader_that_stops_does_not_take_its_own_end_for_an_outage(
    bench: ControlBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "newsift.control")
    await bench.publish(FLOOD)
    control, make = await bench.reader()
    task = asyncio.ensure_future(control.follow(make))
    await asyncio.sleep(0.1)
    await control.stop()
    await asyncio.wait([task], timeout=20)
    assert task.cancelled()
    assert caplog.messages == []


async def test_each_refusal_is_logged_once_and_ten_at_a_time(
    bench: ControlBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "newsift.control")
    await bench.publish(*((f"bad{n:02}", "{") for n in range(25)))
    async with bench.following() as control:
        await bench.publish(("bad00", ""), FLOOD, GAME)
        await met(lambda: len(control.seeds or ()) == 2)
    assert sum("is refused: value" in line for line in caplog.messages) == 10
    assert sum("15 seeds more" in line for line in caplog.messages) == 1
    assert sum("is refused: text" in line for line in caplog.messages) == 1
    assert len(caplog.messages) == 12
