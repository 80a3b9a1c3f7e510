"""Lanes against an obvious list: in order, bounded, and committed no further than acknowledged."""

import asyncio
import random
from collections import defaultdict

import pytest
from aiokafka import TopicPartition

from newsift.cli.matches import MatchFilter
from newsift.cli.watch.delivery import MOST_BYTES, MOST_MATCHES, MOST_QUEUES, EventQueues
from newsift.cli.watch.records import Notice

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


def test_a_full_lane_notes_where_the_topic_holds_the_rest() -> None:
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


def test_large_matches_are_held_by_their_bytes_and_one_always_is() -> None:
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


def test_so_many_events_wait_and_then_nothing_further_is_to_be_read(
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


def test_what_a_receiver_raises_is_told_and_the_match_is_not_committed() -> None:
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
