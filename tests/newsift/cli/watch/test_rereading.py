"""What a full lane left in the topic comes later: each match once and in order, however it goes."""

import asyncio
import random
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from newsift.cli.matches import MatchFilter
from newsift.cli.watch.delivery import BacklogReader, EventQueues
from newsift.cli.watch.records import Notice, WatchCounts, notices_of
from tests.newsift.cli.test_matches import record

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


def topic(chance: random.Random, many: int) -> dict[TopicPartition, list[Any]]:
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


async def turns(chance: random.Random) -> None:
    for _ in range(chance.choice([0, 0, 1, 5])):
        await asyncio.sleep(0)


@pytest.mark.parametrize("dice", range(6))
def test_each_match_comes_once_and_in_order(dice: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
            await turns(chance)
        async with asyncio.timeout(60):
            while len(queues):
                await asyncio.sleep(0)
        assert queues.committable() == {place: len(some) for place, some in records.items()}
        reading.cancel()

    records = topic(chance, 400)
    asyncio.run(story(records))
    for place, some in records.items():
        for event in "abc":
            expected = [
                each.offset for each in some if f'"event of {event}"'.encode() in each.value
            ]
            own = [p.offset for p in came if p.place == place and p.match_id.endswith(f"-{event}")]
            assert own == expected


def test_what_was_deleted_meanwhile_is_counted_and_passed_over(
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


def fail(error: Exception) -> None:
    raise error
