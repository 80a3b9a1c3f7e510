import asyncio
from collections.abc import Callable
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

from tests.worker.small_encoder import Mail
from tests.worker.stream.ingest_bench import PLACE, Bench
from worker.stream import ingest as module
from worker.stream.ingest import split_by_size


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 60))
def test_batches_are_bounded_in_bytes(sizes: list[int], limit: int) -> None:
    mails = [Mail(b"x" * size, offset=n) for n, size in enumerate(sizes)]
    parts = list(split_by_size(mails, sizes, limit))
    assert [mail for part in parts for mail in part] == mails
    for part in parts:
        assert len(part) == 1 or sum(len(mail.value or b"") for mail in part) <= limit
    for part, after in pairwise(parts):  # none ends before it has to
        assert sum(len(mail.value or b"") for mail in [*part, after[0]]) > limit


@pytest.mark.parametrize(
    "error", [NotLeaderForPartitionError(), IllegalStateError()], ids=["leader", "state"]
)
async def test_temporary_errors_are_retried(
    bench: Bench, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)

    bench.consumer.ready.append(error)
    bench.feed()
    await bench.wait_for(lambda: len(bench.ledger) == 1)


async def test_a_lasting_error_ends_reading() -> None:
    bench = Bench()
    await bench.ingest.start()
    bench.consumer.ready.append(GroupAuthorizationFailedError())
    with pytest.raises(GroupAuthorizationFailedError):
        await bench.ingest.read()


async def test_a_closed_ingest_takes_nothing_more(bench: Bench) -> None:
    bench.ingest.close()
    bench.feed()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(bench.ledger) == 0


async def test_large_posts_are_not_unpacked_beyond_a_batch_and_a_step(bench: Bench) -> None:
    mails = [Mail(b"x" * 500, offset=n) for n in range(module.STEP_RECORDS + 26)]
    bench.consumer.ready.append({PLACE: mails})
    await bench.wait_for(lambda: bench.ledger.full)
    assert len(bench.consumer.rest[PLACE]) == 26


def fail_next_steps(bench: Bench, before: Callable[[], object] = lambda: None) -> None:
    """Let a fetch fail where it takes what has arrived beside the records of its first step."""
    fetch = bench.consumer.getmany

    async def failing(**options: Any) -> dict[TopicPartition, list[Any]]:
        if not options["timeout_ms"]:
            before()
            raise NotLeaderForPartitionError
        return await fetch(**options)

    bench.consumer.getmany = failing  # type: ignore[method-assign]
    bench.feed(module.STEP_RECORDS * 2)


async def test_messages_read_just_before_an_error_are_read_again(bench: Bench) -> None:
    """aiokafka's position is past it by then, and what is read next would be committed over it."""
    fail_next_steps(bench)
    await bench.wait_for(lambda: bench.consumer.sought)
    assert bench.consumer.sought == {PLACE: 0}


async def test_what_an_old_assignment_has_read_moves_no_position_of_the_new_one(
    bench: Bench,
) -> None:
    """It begins where the group has committed: batches in flight are dropped and read again."""
    fail_next_steps(bench, bench.ledger.drop)
    await bench.wait_for(lambda: bench.ledger.epoch > 0)
    bench.feed()
    await bench.wait_for(lambda: not bench.consumer.ready)
    assert not bench.consumer.sought


async def test_a_full_ledger_pauses_all_partitions_but_polling_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that does not poll leaves the group."""
    monkeypatch.setattr(module, "MAX_FULL_S", 0.0)
    for _ in range(3):
        bench.feed()
    await bench.wait_for(lambda: bench.consumer.held == {PLACE})
    polled = bench.consumer.polled
    await bench.wait_for(lambda: bench.consumer.polled > polled + 5)
    assert len(bench.ledger) == 2
    other = TopicPartition("tweets", 1)
    bench.consumer.places = {PLACE, other}
    await bench.wait_for(lambda: bench.consumer.held == {PLACE, other})
    for _ in range(2):
        bench.ledger.finish(await bench.take())
    await bench.positions.commit()
    await bench.wait_for(lambda: not bench.consumer.held and len(bench.ledger) == 1)
    assert bench.metric("newsift_paused ") == 0


async def test_a_new_group_starts_at_the_earliest_post_and_counts_no_loss(bench: Bench) -> None:
    bench.consumer.begins[PLACE] = 7
    bench.consumer.ready.append(NoOffsetForPartitionError(PLACE))
    await bench.wait_for(lambda: bench.consumer.sought == {PLACE: 7})
    assert bench.metric("newsift_offsets_lost_total") == 0
