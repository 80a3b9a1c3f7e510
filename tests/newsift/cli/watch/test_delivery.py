import asyncio
import random
from collections import defaultdict
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import (
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

import newsift.cli.watch.delivery
from newsift.cli.matches import MatchFilter
from newsift.cli.watch.delivery import MAX_QUEUE_BYTES, Deliver, EventQueues, MatchDelivery
from newsift.cli.watch.records import WatchMetrics, WebhookCall, partition_of, webhook_calls
from tests.newsift.cli.test_matches import record
from tests.worker.stream.fakes import FakeConsumer, met
from worker.config import Config

PLACE = TopicPartition("matched-tweets", 0)


def fail(error: Exception) -> None:
    raise error


def queues_of(
    deliver: Deliver, reader: Any = None, metrics: WatchMetrics | None = None, fail: Any = fail
) -> EventQueues:
    return EventQueues(deliver, fail, reader, MatchFilter(), metrics or WatchMetrics())


def call(offset: int, size: int = 1) -> WebhookCall:
    return WebhookCall(PLACE, offset, f"m{offset}", "e", b"x" * size, MatchFilter())


class Gates:
    def __init__(self) -> None:
        self.open: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.taken: list[int] = []

    async def deliver(self, call: WebhookCall) -> None:
        await self.open[call.offset].wait()
        self.taken.append(call.offset)

    def open_all(self, count: int) -> None:
        for offset in range(count):
            self.open[offset].set()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.cli.watch.delivery.MAX_QUEUE_MATCHES", 5)


def take(queues: EventQueues, record: Any) -> None:
    calls = webhook_calls(record, MatchFilter()) or {}
    queues.take(partition_of(record), record.offset, calls)


@pytest.mark.parametrize("dice", [1, 2, 3])
async def test_no_more_is_committable_than_what_is_acknowledged(dice: int) -> None:
    gates, chance = Gates(), random.Random(dice)
    queues = queues_of(gates.deliver)
    event_of = {offset: chance.choice("abc") for offset in range(60)}
    for offset, event in event_of.items():
        queues.take(PLACE, offset, {event: call(offset)})
    for offset in chance.sample(range(60), 60):
        gates.open[offset].set()
        await turns()
        missing = set(range(60)) - set(gates.taken)
        assert queues.committable() == {PLACE: min(missing, default=60)}
    for event in "abc":
        own = [offset for offset in gates.taken if event_of[offset] == event]
        assert own == sorted(own)
    assert len(queues) == 0


async def test_a_queue_is_bounded_by_bytes_but_holds_one() -> None:
    queues = queues_of(Gates().deliver)
    for offset in range(10):
        half, large = call(offset, MAX_QUEUE_BYTES // 2), call(offset, 3 * MAX_QUEUE_BYTES)
        queues.take(PLACE, offset, {"a": half, "b": large})
    held = {queue.event: len(queue.calls) for queue in queues._queues.values()}
    assert held == {"a": 2, "b": 1}
    await queues.drop()


async def test_the_number_of_waiting_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.cli.watch.delivery.MAX_QUEUES", 3)
    gates = Gates()
    queues = queues_of(gates.deliver)
    full = [queues.is_full]
    for offset, event in enumerate("abc"):
        queues.take(PLACE, offset, {event: call(offset)})
        full.append(queues.is_full)
    gates.open[1].set()
    await turns()
    assert [*full, queues.is_full] == [False, False, False, True, False]
    await queues.drop()


async def test_an_error_of_the_receiver_is_reported_and_commits_nothing() -> None:
    output: list[Exception] = []

    async def refuse(_: WebhookCall) -> None:
        raise OSError("gone")

    queues = queues_of(refuse, fail=output.append)
    queues.take(PLACE, 7, {"a": call(7)})
    await turns()
    assert [str(error) for error in output] == ["gone"]
    assert queues.committable() == {PLACE: 7}


TOPIC = [TopicPartition("matched-tweets", part) for part in range(2)]


class FakeReader:
    """A consumer of a topic in memory, whose first records may be gone."""

    def __init__(self, records: dict[TopicPartition, list[Any]]) -> None:
        self.records, self.first = records, 0
        self._at: dict[TopicPartition, int] = {}

    def assign(self, places: list[TopicPartition]) -> None:
        self._at = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at[place] = offset

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        await asyncio.sleep(0)
        return dict.fromkeys(places, self.first)

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        if lost := {place: at for place, at in self._at.items() if at < self.first}:
            raise OffsetOutOfRangeError(lost)
        result = {}
        for place, at in self._at.items():
            result[place] = self.records[place][at : at + min(7, max_records)]
            self._at[place] += len(result[place])
        return result


def stored(place: TopicPartition, offset: int, value: bytes) -> Any:
    return ConsumerRecord(*place, offset, 0, 0, None, value, None, -1, len(value), ())


def topic_of(chance: random.Random, many: int) -> dict[TopicPartition, list[Any]]:
    result: dict[TopicPartition, list[Any]] = {place: [] for place in TOPIC}
    for number in range(many):
        place = chance.choice(TOPIC)
        seeds = {name: 0.5 for name in "abc" if chance.random() < 0.6}
        value = record(str(number), "text", **seeds) if seeds else b"{"
        result[place].append(stored(place, len(result[place]), value))
    return result


@pytest.mark.usefixtures("small_queues")
@pytest.mark.parametrize("dice", range(6))
async def test_the_backlog_comes_once_in_order(dice: int) -> None:
    chance, came = random.Random(dice), list[WebhookCall]()

    async def deliver(call: WebhookCall) -> None:
        await turns(chance.choice([0, 1, 30]))
        came.append(call)

    records = topic_of(chance, 400)
    queues = queues_of(deliver, FakeReader(records))
    left = {place: list(some) for place, some in records.items()}
    while any(left.values()):
        place = chance.choice([place for place, some in left.items() if some])
        take(queues, left[place].pop(0))
        bound = {place: some[0].offset for place, some in left.items() if some}
        assert all(queues.committable().get(p, 0) <= at for p, at in bound.items())
        await turns(chance.choice([0, 0, 1, 5]))
    await met(lambda: not len(queues))
    assert queues.committable() == {place: len(some) for place, some in records.items()}
    for place, some in records.items():
        for event in "abc":
            expected = [
                each.offset for each in some if f'"event of {event}"'.encode() in each.value
            ]
            own = [p.offset for p in came if p.place == place and p.match_id.endswith(f"-{event}")]
            assert own == expected


@pytest.mark.usefixtures("small_queues")
async def test_counts_and_passes_over_a_deleted_backlog() -> None:
    gates, metrics = Gates(), WatchMetrics()
    records = [stored(PLACE, at, record(str(at))) for at in range(30)]
    reader = FakeReader({PLACE: records})
    queues = queues_of(gates.deliver, reader, metrics)
    for each in records:
        take(queues, each)
    reader.first = 20
    gates.open_all(30)
    await met(lambda: not len(queues))
    assert gates.taken == [*range(5), *range(20, 30)]
    assert b"newsift_watch_offsets_lost_total 15.0" in metrics.render()


@pytest.mark.usefixtures("small_queues")
async def test_a_topic_that_was_made_again_is_delivered_whole() -> None:
    """The backlog of the earlier topic lies beyond the position of the main reader."""
    gates, records = Gates(), [stored(PLACE, n, record(str(n))) for n in range(30)]
    queues = queues_of(gates.deliver, FakeReader({PLACE: records}))
    for each in records[:8]:
        take(queues, each)
    queues.seek(PLACE, 0)
    for each in records[:3]:
        take(queues, each)
    assert queues.committable() == {PLACE: 0}
    gates.open_all(30)
    await met(lambda: not len(queues))
    assert gates.taken == [*range(5), *range(3)]
    assert queues.committable() == {PLACE: 3}


class Consumer(FakeConsumer):
    """It has a partition from which the first 30 records were deleted."""

    def __init__(self, place: TopicPartition, error: KafkaError) -> None:
        super().__init__()
        self.places, self.begins, self.ends = {place}, {place: 30}, {place: 40}
        self.ready.append(error)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.ends[place] for place in places}


def delivery_of(
    monkeypatch: pytest.MonkeyPatch, consumer: Consumer, metrics: WatchMetrics
) -> MatchDelivery:
    """It delivers a topic of four partitions."""
    for name in ("group_consumer", "groupless_consumer"):
        monkeypatch.setattr(newsift.cli.watch.delivery, name, lambda _: consumer)
    return MatchDelivery(Config(), MatchFilter(), None, 4, AsyncMock(), metrics, fail)


@pytest.mark.parametrize(
    ("error", "lost"),
    [(OffsetOutOfRangeError({PLACE: 5}), 25), (TopicAuthorizationFailedError("matches"), None)],
)
async def test_counts_deleted_matches_and_ends_on_a_refusal(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError, lost: int | None
) -> None:
    consumer, metrics = Consumer(PLACE, error), WatchMetrics()
    for name in ("BACKOFF_S", "COMMIT_INTERVAL_S"):
        monkeypatch.setattr(newsift.cli.watch.delivery, name, 0.0)
    task = asyncio.create_task(delivery_of(monkeypatch, consumer, metrics).run())
    await met(lambda: task.done() or consumer.commits == [{PLACE: 30}])
    if lost is None:
        with pytest.raises(TopicAuthorizationFailedError):
            task.result()
    task.cancel()
    assert f"newsift_watch_offsets_lost_total {lost or 0}.0".encode() in metrics.render()


LAST = TopicPartition(PLACE.topic, 3)


@pytest.mark.parametrize(("committed", "begin"), [({}, 40), ({PLACE: 7}, 30)], ids=["new", "added"])
async def test_a_new_group_begins_with_the_next_match_and_an_added_partition_with_its_first(
    monkeypatch: pytest.MonkeyPatch, committed: dict[TopicPartition, int], begin: int
) -> None:
    consumer = Consumer(LAST, NoOffsetForPartitionError(LAST))
    consumer.known = committed
    delivery = delivery_of(monkeypatch, consumer, WatchMetrics())
    await delivery.start()
    await delivery._poll()
    assert consumer.commits == [{LAST: begin}]
