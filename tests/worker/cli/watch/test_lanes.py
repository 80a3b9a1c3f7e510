"""Lanes against an obvious list: in order, bounded, and committed no further than acknowledged."""

import asyncio
import random
from collections import defaultdict

import pytest
from aiokafka import TopicPartition

import worker.cli.watch.lanes
from worker.cli.wanted import Wanted
from worker.cli.watch.lanes import HELD, LANES, ROOM, Lanes
from worker.cli.watch.notices import Notice

PLACE = TopicPartition("matched-tweets", 0)


def fail(error: Exception) -> None:
    raise error


def notice(offset: int, size: int = 1) -> Notice:
    return Notice(PLACE, offset, f"m{offset}", "e", b"x" * size, Wanted())


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
        lanes = Lanes(gates.deliver, fail)
        event_of = {offset: chance.choice("abc") for offset in range(60)}
        for offset, event in event_of.items():
            lanes.take(PLACE, offset, {event: notice(offset)})
        for offset in chance.sample(range(60), 60):
            gates.open[offset].set()
            await turns()
            missing = set(range(60)) - set(gates.taken)
            assert lanes.committable() == {PLACE: min(missing, default=60)}
        for event in "abc":
            own = [offset for offset in gates.taken if event_of[offset] == event]
            assert own == sorted(own)
        assert len(lanes) == 0

    asyncio.run(story())


def test_a_full_lane_notes_where_the_topic_holds_the_rest() -> None:
    async def story() -> None:
        gates = Gates()
        lanes = Lanes(gates.deliver, fail)
        for offset in range(HELD + 50):
            lanes.take(PLACE, offset, {"a": notice(offset)})
            lanes.take(PLACE, offset, {})
        assert lanes.lagging() is None
        for offset in range(HELD):
            gates.open[offset].set()
        while (lane := lanes.lagging()) is None:
            await turns()
        assert lane.behind == {PLACE: HELD}
        assert lanes.committable() == {PLACE: HELD}
        lanes.take(PLACE, HELD + 50, {"a": notice(HELD + 50)})  # it waits behind those before it
        assert not lane.held
        await lanes.drop()
        assert (len(lanes), lanes.committable()) == (0, {})

    asyncio.run(story())


def test_large_matches_are_held_by_their_bytes_and_one_always_is() -> None:
    async def story() -> None:
        lanes = Lanes(Gates().deliver, fail)
        for offset in range(10):
            lanes.take(
                PLACE, offset, {"a": notice(offset, ROOM // 2), "b": notice(offset, 3 * ROOM)}
            )
        held = {lane.event: len(lane.held) for lane in lanes._lanes.values()}
        assert held == {"a": 2, "b": 1}
        await lanes.drop()

    asyncio.run(story())


def test_so_many_events_wait_and_then_nothing_further_is_to_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker.cli.watch.lanes, "LANES", 3)
    assert LANES >= 100

    async def story() -> None:
        gates = Gates()
        lanes = Lanes(gates.deliver, fail)
        full = [lanes.full]
        for offset, event in enumerate("abc"):
            lanes.take(PLACE, offset, {event: notice(offset)})
            full.append(lanes.full)
        gates.open[1].set()
        await turns()
        assert [*full, lanes.full] == [False, False, False, True, False]
        await lanes.drop()

    asyncio.run(story())


def test_what_a_receiver_raises_is_told_and_the_match_is_not_committed() -> None:
    async def story() -> None:
        told: list[Exception] = []

        async def refuse(_: Notice) -> None:
            raise OSError("gone")

        lanes = Lanes(refuse, told.append)
        lanes.take(PLACE, 7, {"a": notice(7)})
        await turns()
        assert [str(error) for error in told] == ["gone"]
        assert lanes.committable() == {PLACE: 7}

    asyncio.run(story())
