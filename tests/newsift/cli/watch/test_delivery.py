"""Queues, the backlog and the consumer: in order, bounded, and committed as acknowledged."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

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
from newsift.cli.watch.delivery import (
    MOST_BYTES,
    MOST_MATCHES,
    MOST_QUEUES,
    BacklogReader,
    EventQueues,
    MatchDelivery,
)
from newsift.cli.watch.records import Notice, WatchCounts, notices_of
from newsift.cli.watch.webhook import Webhook
from tests.newsift.cli.test_matches import record
from worker.config import Config

PLACE = TopicPartition("matched-tweets", 0)


def fail(error: Exception) -> None:
    raise error


def notice(offset: int, size: int = 1) -> Notice:
    return Notice(PLACE, offset, f"m{offset}", "e", b"x" * size, MatchFilter())


class Gates:
    """A receiver that takes what a test lets through."""

    def __init__(self) -> None:
        self.open: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.taken: list[int] = []

    async def deliver(self, notice: Notice) -> None:
        await self.open[notice.offset].wait()
        self.taken.append(notice.offset)


async def turns() -> None:
    """Let everybody do what they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("dice", [1, 2, 3])
def test_no_more_is_committable_than_what_is_acknowledged(dice: int) -> None:
    async def story() -> None:
        gates, chance = Gates(), random.Random(dice)
        queues = EventQueues(gates.deliver, fail)
        event_of = {offset: chance.choice("abc") for offset in range(60)}
        for offset, event in event_of.items():
            queues.take(PLACE, offset, {event: notice(offset)})
        for offset in chance.sample(range(60), 60):
            gates.open[offset].set()
            await turns()
            missing = set(range(60)) - set(gates.taken)
            assert queues.committable() == {PLACE: min(missing, default=60)}
        for event in "abc":
            own = [offset for offset in gates.taken if event_of[offset] == event]
            assert own == sorted(own)
        assert len(queues) == 0

    asyncio.run(story())


def test_a_full_queue_keeps_its_place_in_the_topic() -> None:
    async def story() -> None:
        gates = Gates()
        queues = EventQueues(gates.deliver, fail)
        for offset in range(MOST_MATCHES + 50):
            queues.take(PLACE, offset, {"a": notice(offset)})
            queues.take(PLACE, offset, {})
        assert queues.next_backlog() is None
        for offset in range(MOST_MATCHES):
            gates.open[offset].set()
        while (queue := queues.next_backlog()) is None:
            await turns()
        assert queue.backlog == {PLACE: MOST_MATCHES}
        assert queues.committable() == {PLACE: MOST_MATCHES}
        queues.take(
            PLACE, MOST_MATCHES + 50, {"a": notice(MOST_MATCHES + 50)}
        )  # it waits behind those before it
        assert not queue.notices
        await queues.drop()
        assert (len(queues), queues.committable()) == (0, {})

    asyncio.run(story())


def test_a_queue_is_bounded_by_bytes_but_holds_one() -> None:
    async def story() -> None:
        queues = EventQueues(Gates().deliver, fail)
        for offset in range(10):
            queues.take(
                PLACE,
                offset,
                {"a": notice(offset, MOST_BYTES // 2), "b": notice(offset, 3 * MOST_BYTES)},
            )
        held = {queue.event: len(queue.notices) for queue in queues._queues.values()}
        assert held == {"a": 2, "b": 1}
        await queues.drop()

    asyncio.run(story())


def test_the_number_of_waiting_events_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("newsift.cli.watch.delivery.MOST_QUEUES", 3)
    assert MOST_QUEUES >= 100

    async def story() -> None:
        gates = Gates()
        queues = EventQueues(gates.deliver, fail)
        full = [queues.full]
        for offset, event in enumerate("abc"):
            queues.take(PLACE, offset, {event: notice(offset)})
            full.append(queues.full)
        gates.open[1].set()
        await turns()
        assert [*full, queues.full] == [False, False, False, True, False]
        await queues.drop()

    asyncio.run(story())


def test_an_error_of_the_receiver_is_reported_and_commits_nothing() -> None:
    async def story() -> None:
        output: list[Exception] = []

        async def refuse(_: Notice) -> None:
            raise OSError("gone")

        queues = EventQueues(refuse, output.append)
        queues.take(PLACE, 7, {"a": notice(7)})
        await turns()
        assert [str(error) for error in output] == ["gone"]
        assert queues.committable() == {PLACE: 7}

    asyncio.run(story())


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


def topic_of(chance: random.Random, many: int) -> dict[TopicPartition, list[Any]]:
    """Records of three events in two partitions, some of several events."""
    result: dict[TopicPartition, list[Any]] = {place: [] for place in TOPIC}
    for number in range(many):
        place = chance.choice(TOPIC)
        seeds = {name: 0.5 for name in "abc" if chance.random() < 0.6}
        value = record(str(number), "text", **seeds) if seeds else b"{"
        result[place].append(
            ConsumerRecord(*place, len(result[place]), 0, 0, None, value, None, -1, len(value), ())
        )
    return result


async def some_turns(chance: random.Random) -> None:
    for _ in range(chance.choice([0, 0, 1, 5])):
        await asyncio.sleep(0)


@pytest.mark.parametrize("dice", range(6))
def test_the_backlog_comes_once_and_in_order(dice: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.cli.watch.delivery.MOST_MATCHES", 5)
    chance, came = random.Random(dice), list[Notice]()

    async def deliver(notice: Notice) -> None:
        for _ in range(chance.choice([0, 1, 30])):
            await asyncio.sleep(0)
        came.append(notice)

    async def story(records: dict[TopicPartition, list[Any]]) -> None:
        queues, reader = EventQueues(deliver, fail), FakeReader(records)
        reading = asyncio.create_task(
            BacklogReader(reader, queues, MatchFilter(), WatchCounts()).run()
        )
        left = {place: list(some) for place, some in records.items()}
        while any(left.values()):
            place = chance.choice([place for place, some in left.items() if some])
            result = left[place].pop(0)
            queues.take(place, result.offset, notices_of(result, MatchFilter()) or {})
            bound = {place: some[0].offset for place, some in left.items() if some}
            assert all(queues.committable().get(p, 0) <= at for p, at in bound.items())
            await some_turns(chance)
        async with asyncio.timeout(60):
            while len(queues):
                await asyncio.sleep(0)
        assert queues.committable() == {place: len(some) for place, some in records.items()}
        reading.cancel()

    records = topic_of(chance, 400)
    asyncio.run(story(records))
    for place, some in records.items():
        for event in "abc":
            expected = [
                each.offset for each in some if f'"event of {event}"'.encode() in each.value
            ]
            own = [p.offset for p in came if p.place == place and p.match_id.endswith(f"-{event}")]
            assert own == expected


def test_counts_and_passes_over_a_deleted_backlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("newsift.cli.watch.delivery.MOST_MATCHES", 5)
    values = [record(str(number)) for number in range(30)]
    place, came, counts, go = TOPIC[0], list[int](), WatchCounts(), asyncio.Event()
    records = {
        place: [
            ConsumerRecord(*place, at, 0, 0, None, value, None, -1, len(value), ())
            for at, value in enumerate(values)
        ]
    }

    async def deliver(notice: Notice) -> None:
        await go.wait()
        came.append(notice.offset)

    async def story() -> None:
        queues, reader = EventQueues(deliver, fail), FakeReader(records)
        for each in records[place]:
            queues.take(place, each.offset, notices_of(each, MatchFilter()) or {})
        reader.first = 20
        reading = asyncio.create_task(BacklogReader(reader, queues, MatchFilter(), counts).run())
        go.set()
        async with asyncio.timeout(60):
            while len(queues):
                await asyncio.sleep(0)
        reading.cancel()

    asyncio.run(story())
    assert came == [*range(5), *range(20, 30)]
    assert b"newsift_watch_offsets_lost_total 15.0" in counts.render()


class FakeConsumer:
    """A consumer of one partition that raises what a test has put by, call by call."""

    def __init__(self) -> None:
        self.errors: dict[str, list[KafkaError]] = {}
        self.at: int | None = None
        self.committed: list[int] = []

    def _maybe(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        self._maybe("getmany")
        if self.at is None:
            raise NoOffsetForPartitionError(PLACE)
        return {PLACE: []}

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        self._maybe("end_offsets")
        return dict.fromkeys(places, 40)

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 30)

    async def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        return {PLACE: (30, 40)}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self._maybe("commit")
        self.committed.append(offsets[PLACE])

    def resume(self, *_: TopicPartition) -> None:
        """Nothing was held back."""

    def paused(self) -> set[TopicPartition]:
        return set()

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def pause(self, *_: TopicPartition) -> None:
        """The topic is short."""

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.at = offset


def run(
    monkeypatch: pytest.MonkeyPatch, consumer: FakeConsumer,
    story: Callable[[MatchDelivery], Awaitable[None]],
) -> WatchCounts:  # fmt: skip
    """Run a courier with this consumer for as long as the story lasts."""
    counts = WatchCounts()
    for name in ("group_consumer", "lone_consumer"):
        monkeypatch.setattr(newsift.cli.watch.delivery, name, lambda _: consumer)
    monkeypatch.setattr("newsift.cli.watch.delivery.BACKOFF_S", 0.0)
    monkeypatch.setattr("newsift.cli.watch.delivery.COMMIT_S", 0.0)

    def fail(error: Exception) -> None:
        raise error

    async def told() -> None:
        webhook: Webhook = Webhook.__new__(Webhook)
        courier = MatchDelivery(Config(), MatchFilter(), None, webhook, counts, fail)
        work = asyncio.create_task(courier.run())
        done, _ = await asyncio.wait({work, asyncio.ensure_future(story(courier))}, timeout=60,
                                     return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        assert done, "waited in vain"
        work.cancel()
        for each in done:
            each.result()

    asyncio.run(told())
    return counts


def test_counts_matches_that_were_deleted_before_they_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = FakeConsumer()
    consumer.at, consumer.errors = 5, {"getmany": [OffsetOutOfRangeError({PLACE: 5})]}

    async def story(_: MatchDelivery) -> None:
        while consumer.committed != [30]:
            await asyncio.sleep(0)

    counts = run(monkeypatch, consumer, story)
    assert b"newsift_watch_offsets_lost_total 25.0" in counts.render()


def test_an_error_that_waiting_does_not_cure_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer()
    consumer.errors = {"getmany": [TopicAuthorizationFailedError("matched-tweets")]}

    async def story(_: MatchDelivery) -> None:
        await asyncio.sleep(60)

    with pytest.raises(TopicAuthorizationFailedError):
        run(monkeypatch, consumer, story)
