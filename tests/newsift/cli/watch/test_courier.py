"""The courier with a consumer that fails: what passes is tried again, the rest ends the command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

import newsift.cli.watch.delivery
from newsift.cli.matches import MatchFilter
from newsift.cli.watch.delivery import MOST_QUEUES, EventQueues, MatchDelivery
from newsift.cli.watch.records import Notice, WatchCounts
from newsift.cli.watch.webhook import Webhook
from tests.newsift.cli.test_matches import record
from worker.config import Config

PLACE = TopicPartition("matched-tweets", 0)


class FakeConsumer:
    """A consumer of one partition that raises what a test has put by, call by call."""

    def __init__(self) -> None:
        self.errors: dict[str, list[KafkaError]] = {}
        self.at: int | None = None
        self.committed: list[int] = []
        self.records: list[Any] = []

    def _maybe(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        self._maybe("getmany")
        if self.at is None:
            raise NoOffsetForPartitionError(PLACE)
        result, self.records = self.records, []
        return {PLACE: result}

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
        self.is_paused = True

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


def test_a_beginning_that_cannot_be_found_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = FakeConsumer()
    consumer.errors = {
        "end_offsets": [KafkaConnectionError(), KafkaConnectionError()],
        "getmany": [KafkaConnectionError()], "commit": [KafkaConnectionError()],
    }  # fmt: skip

    async def story(_: MatchDelivery) -> None:
        while consumer.committed != [40]:
            await asyncio.sleep(0)

    run(monkeypatch, consumer, story)
    assert consumer.at == 40


def test_what_was_deleted_before_it_was_read_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer()
    consumer.at, consumer.errors = 5, {"getmany": [OffsetOutOfRangeError({PLACE: 5})]}

    async def story(_: MatchDelivery) -> None:
        while consumer.committed != [30]:
            await asyncio.sleep(0)

    counts = run(monkeypatch, consumer, story)
    assert b"newsift_watch_offsets_lost_total 25.0" in counts.render()


def test_partitions_that_were_dealt_anew_meanwhile_are_left_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever had one in between may have got further than the end that was asked for before."""
    consumer = FakeConsumer()

    async def story(courier: MatchDelivery) -> None:
        await courier.on_partitions_revoked({PLACE})
        courier._seek({PLACE: 7}, courier._epoch - 1)
        assert consumer.at != 7

    run(monkeypatch, consumer, story)


def test_no_more_events_wait_than_there_are_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many one read brings; and all that one record names share its bytes."""
    consumer, many = FakeConsumer(), MOST_QUEUES * 3 // 4
    named = ({f"{at}-{each}": 0.5 for each in range(many)} for at in range(4))
    values = [record("1", "text", **seeds) for seeds in named]
    consumer.at, consumer.records = 0, [
        ConsumerRecord(*PLACE, at, 0, 0, None, value, None, -1, len(value), ())
        for at, value in enumerate(values)
    ]  # fmt: skip

    async def story(courier: MatchDelivery) -> None:
        async def never(_: Notice) -> None:
            await asyncio.Event().wait()

        courier.queues = EventQueues(never, lambda _: None)
        while not hasattr(consumer, "is_paused"):
            await asyncio.sleep(0)
        assert len(courier.queues) == 2 * many
        held = {id(queue.notices[0].value) for queue in courier.queues._queues.values()}
        assert len(held) == 2
        assert courier.queues.committable() == {PLACE: 0}
        await courier.on_partitions_revoked({PLACE})
        for _ in range(20):
            await asyncio.sleep(0)
        assert courier.queues.committable() == {}

    monkeypatch.setattr("newsift.cli.watch.delivery.LEAVE_S", 0.0)
    run(monkeypatch, consumer, story)


def test_what_waiting_does_not_cure_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer()
    consumer.errors = {"getmany": [TopicAuthorizationFailedError("matched-tweets")]}

    async def story(_: MatchDelivery) -> None:
        await asyncio.sleep(60)

    with pytest.raises(TopicAuthorizationFailedError):
        run(monkeypatch, consumer, story)
