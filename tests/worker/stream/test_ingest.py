"""Ingest with a fake consumer: reading, pausing, committing, and partitions that come and go."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    NotLeaderForPartitionError,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.small import Mail
from tests.worker.stream.bench import PLACE, Bench, play
from worker.stream import ingest as module
from worker.stream.ingest import split


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 60))
def test_batches_hold_so_many_bytes_but_one_record_at_least(sizes: list[int], limit: int) -> None:
    mails = [Mail(b"x" * size, offset=n) for n, size in enumerate(sizes)]
    parts = list(split(mails, limit))
    assert [mail for part in parts for mail in part] == mails
    for part in parts:
        assert len(part) == 1 or sum(len(mail.value or b"") for mail in part) <= limit
    for part, after in pairwise(parts):  # none ends before it has to
        assert sum(len(mail.value or b"") for mail in [*part, after[0]]) > limit


def test_a_full_ledger_is_not_fed() -> None:
    async def story(bench: Bench) -> None:
        for _ in range(5):
            bench.feed()
        await bench.met(lambda: len(bench.ledger) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(bench.ledger), len(bench.consumer.ready)) == (2, 3)

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
        await bench.positions.commit()
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


def test_closed_it_takes_nothing_more() -> None:
    async def story(bench: Bench) -> None:
        bench.ingest.close()
        bench.feed()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(bench.ledger) == 0

    play(story)


def test_a_batch_is_taken_in_small_steps_and_is_whole_all_the_same() -> None:
    async def story(bench: Bench) -> None:
        bench.feed(module.STEP * 2 + 5)
        await bench.met(lambda: len(bench.ledger) == 2)
        sizes = [len(batch.messages) for batch in bench.ledger._batches]
        assert sizes == [100, module.STEP * 2 + 5 - 100]  # as many as a batch may hold

    play(story)


def test_large_posts_are_not_unpacked_beyond_a_batch_and_a_step() -> None:
    async def story(bench: Bench) -> None:
        mails = [Mail(b"x" * 500, offset=n) for n in range(90)]
        bench.consumer.ready.append({PLACE: mails})
        await bench.met(lambda: bench.ledger.full)
        assert len(bench.consumer.rest[PLACE]) == 90 - module.STEP

    play(story)


def test_what_was_handed_out_before_an_error_is_handed_out_again() -> None:
    """aiokafka's position is past it by then, and what is read next would be committed over it."""

    async def story(bench: Bench) -> None:
        fetch = bench.consumer.getmany

        async def failing(**asked: Any) -> dict[TopicPartition, list[Any]]:
            if not asked["timeout_ms"]:
                raise NotLeaderForPartitionError
            return await fetch(**asked)

        bench.consumer.getmany = failing  # type: ignore[method-assign]
        bench.feed(module.STEP * 2)
        await bench.met(lambda: bench.consumer.sought)
        assert bench.consumer.sought == {PLACE: 0}

    play(story)
