"""Ingest with a fake consumer: reading, pausing, committing, and partitions that come and go."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.small import Mail
from tests.worker.stream.fakes import FakeConsumer
from worker import ingest as module
from worker.ingest import Ingest, Limits, split
from worker.ledger import Ledger
from worker.metrics import Metrics

PLACE = TopicPartition("tweets", 0)


class Bench:
    """An ingest with a ledger of two slots and a consumer that a test feeds."""

    def __init__(self) -> None:
        self.consumer, self.ledger, self.metrics = FakeConsumer(), Ledger(2), Metrics()
        self.tickets = 0
        self.ingest = Ingest(
            lambda: self.consumer, "tweets", self.ledger, Limits(100, 1000), self.metrics, self.tell
        )
        self.offset = 0

    async def tell(self) -> None:
        self.tickets += 1

    def feed(self, count: int = 1) -> None:
        mails = [Mail(b"x", offset=self.offset + n) for n in range(count)]
        self.offset += count
        self.consumer.ready.append({PLACE: mails})

    async def met(self, condition: Callable[[], object]) -> None:
        """Let everybody work until this holds."""
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[-1])


Story = Callable[[Bench], Awaitable[None]]


def play(story: Story) -> Bench:
    async def run() -> Bench:
        bench = Bench()
        await bench.ingest.start()
        bench.consumer.places = {PLACE}
        reading = asyncio.ensure_future(bench.ingest.read())
        try:
            await story(bench)
        finally:
            reading.cancel()
        return bench

    return asyncio.run(run())


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 60))
def test_batches_hold_so_many_bytes_but_one_record_at_least(sizes: list[int], limit: int) -> None:
    mails = [Mail(b"x" * size, offset=n) for n, size in enumerate(sizes)]
    parts = list(split(mails, limit))
    assert [mail for part in parts for mail in part] == mails
    for part in parts:
        assert len(part) == 1 or sum(len(mail.value or b"") for mail in part) <= limit
    for part, after in pairwise(parts):  # none ends before it has to
        assert sum(len(mail.value or b"") for mail in [*part, after[0]]) > limit


def test_every_batch_gives_a_ticket_and_a_full_ledger_is_not_fed() -> None:
    async def story(bench: Bench) -> None:
        for _ in range(5):
            bench.feed()
        await bench.met(lambda: len(bench.ledger) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(bench.ledger), bench.tickets, len(bench.consumer.ready)) == (2, 2, 3)

    play(story)


def test_a_long_wait_pauses_the_consumer_which_is_polled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer that does not poll leaves the group."""
    monkeypatch.setattr(module, "HOLD_S", 0.0)

    async def story(bench: Bench) -> None:
        for _ in range(3):
            bench.feed()
        await bench.met(lambda: bench.consumer.held == {PLACE})
        polled = bench.consumer.polled
        await bench.met(lambda: bench.consumer.polled > polled + 5)
        assert len(bench.ledger) == 2
        for batch in (bench.ledger.take(), bench.ledger.take()):
            assert batch is not None
            bench.ledger.finish(batch)
        await bench.ingest.commit()
        await bench.met(lambda: not bench.consumer.held and len(bench.ledger) == 1)

    assert play(story).metric("newsift_paused ") == 0


def test_partitions_that_come_while_it_is_paused_are_paused_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOLD_S", 0.0)

    async def story(bench: Bench) -> None:
        for _ in range(2):
            bench.feed()
        await bench.met(lambda: bench.consumer.held == {PLACE})
        other = TopicPartition("tweets", 1)
        bench.consumer.places = {PLACE, other}
        await bench.met(lambda: bench.consumer.held == {PLACE, other})

    play(story)


def test_a_new_group_begins_at_the_earliest_post_and_that_is_no_loss() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.begins[PLACE] = 7
        bench.consumer.ready.append(NoOffsetForPartitionError(PLACE))
        await bench.met(lambda: bench.consumer.sought == {PLACE: 7})

    assert play(story).metric("newsift_offsets_lost_total") == 0


def test_posts_that_were_deleted_before_they_were_read_are_counted() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.begins[PLACE] = 50
        bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: 8}))
        await bench.met(lambda: bench.consumer.sought == {PLACE: 50})

    assert play(story).metric("newsift_offsets_lost_total") == 42


def test_a_topic_that_was_made_anew_is_counted_too() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: 900}))
        await bench.met(lambda: bench.consumer.sought == {PLACE: 0})

    assert play(story).metric("newsift_offsets_lost_total") == 1


@pytest.mark.parametrize(
    "error", [NotLeaderForPartitionError(), IllegalStateError()], ids=["leader", "state"]
)
def test_what_passes_is_waited_for(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)

    async def story(bench: Bench) -> None:
        bench.consumer.ready.append(error)
        bench.feed()
        await bench.met(lambda: len(bench.ledger) == 1)

    play(story)


def test_a_refusal_ends_reading() -> None:
    async def run() -> None:
        bench = Bench()
        await bench.ingest.start()
        bench.consumer.ready.append(GroupAuthorizationFailedError())
        with pytest.raises(GroupAuthorizationFailedError):
            await bench.ingest.read()

    asyncio.run(run())


def test_on_revoke_it_waits_for_what_is_in_flight_commits_it_and_drops_nothing() -> None:
    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        revoking = asyncio.ensure_future(bench.ingest.on_partitions_revoked({PLACE}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not revoking.done()
        bench.ledger.finish(batch)
        await bench.ingest.changed()
        await revoking
        assert bench.consumer.commits == [{PLACE: 3}]
        assert len(bench.ledger) == 0

    play(story)


def test_on_revoke_what_takes_too_long_is_left_to_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REVOKE_S", 0.01)

    async def story(bench: Bench) -> None:
        bench.feed(3)
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 2)
        done, late = bench.ledger.take(), bench.ledger.take()
        assert done is not None
        assert late is not None
        bench.ledger.finish(done)
        await bench.ingest.on_partitions_revoked({PLACE})
        assert bench.consumer.commits == [{PLACE: 3}]
        assert not bench.ledger.holds(late)

    play(story)


@pytest.mark.parametrize(
    "error", [CommitFailedError(), IllegalStateError()], ids=["left", "revoked"]
)
def test_a_zombies_commit_is_harmless(error: Exception) -> None:
    """Stopped past its session timeout, it still believes that the partitions are its own."""

    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        bench.ledger.finish(batch)
        bench.consumer.commit_error = error
        await bench.ingest.commit()
        assert len(bench.ledger) == 1  # until the partitions are dealt anew
        await bench.ingest.on_partitions_revoked({PLACE})
        assert len(bench.ledger) == 0

    play(story)


def test_what_goes_wrong_in_the_callback_is_not_swallowed() -> None:
    """aiokafka logs what a listener raises, and goes on as if nothing had been."""

    async def story(bench: Bench) -> None:
        bench.feed(3)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        bench.ledger.finish(batch)
        bench.consumer.commit_error = ZeroDivisionError("as the test wanted")
        await bench.ingest.on_partitions_revoked({PLACE})
        with pytest.raises(ZeroDivisionError):
            await bench.ingest.failed()

    play(story)


def test_closed_it_takes_nothing_more() -> None:
    async def story(bench: Bench) -> None:
        bench.ingest.close()
        bench.feed()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(bench.ledger) == 0

    play(story)


def test_the_lag_is_what_is_not_committed() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.begins[PLACE] = 10
        assert await bench.ingest.lag() == {0: 90}
        bench.feed(60)
        await bench.met(lambda: len(bench.ledger) == 1)
        batch = bench.ledger.take()
        assert batch is not None
        bench.ledger.finish(batch)
        await bench.ingest.commit()
        assert await bench.ingest.lag() == {0: 40}

    play(story)
