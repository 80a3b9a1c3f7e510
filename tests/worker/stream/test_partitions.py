import asyncio
import logging
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, OffsetOutOfRangeError
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.small_encoder import Mail
from tests.worker.stream.fake_clients import FakeConsumer, ended
from tests.worker.stream.ingest_bench import PLACE, Bench, FastLoop
from worker.kafka.consumers import MAX_REVOKE_S
from worker.metrics.registry import Metrics
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Backlog, Positions, Tenures

OTHER = TopicPartition("tweets", 1)


async def idle(bench: Bench) -> None:
    await bench.positions.backlogs()
    await bench.positions.commit()


async def poll_again(bench: Bench) -> None:
    polled = bench.consumer.polled
    await bench.wait_for(lambda: bench.consumer.polled > polled + 2)


async def test_with_nothing_in_flight_the_position_is_committed(bench: Bench) -> None:
    """A marker of a transaction is not a record: it only moves the position."""
    bench.consumer.ends[PLACE] = 6
    bench.feed(5)
    bench.ledger.finish(await bench.take())
    await idle(bench)
    assert bench.consumer.commits == [{PLACE: 5}]
    assert await bench.positions.backlogs() == {0: Backlog(0, 5, 6)}
    bench.consumer.at[PLACE] = 6
    await poll_again(bench)
    await idle(bench)
    await idle(bench)  # and once is enough
    assert bench.consumer.commits == [{PLACE: 5}, {PLACE: 6}]
    assert (await bench.positions.backlogs())[0].lag == 0


async def test_no_position_is_committed_past_a_batch_in_flight(bench: Bench) -> None:
    bench.consumer.places = {PLACE, OTHER}
    bench.feed(5)
    await bench.wait_for(lambda: len(bench.ledger) == 1)
    bench.consumer.at |= {PLACE: 9, OTHER: 7}
    await poll_again(bench)
    await idle(bench)
    assert bench.consumer.commits == [{OTHER: 7}]
    bench.ledger.finish(await bench.take())
    await idle(bench)
    await idle(bench)
    assert bench.consumer.commits[1:] == [{PLACE: 5}, {PLACE: 9}]


async def test_what_is_dropped_is_not_committed(bench: Bench) -> None:
    bench.feed(5)
    await bench.wait_for(lambda: len(bench.ledger) == 1)
    await poll_again(bench)
    await bench.positions.backlogs()
    bench.ingest.close()
    bench.positions.drop()
    assert not await bench.positions.commit()
    assert bench.consumer.commits == []


async def test_without_a_commit_the_lag_begins_with_the_first_post(bench: Bench) -> None:
    bench.consumer.begins[PLACE] = 10
    assert (await bench.positions.backlogs())[0].lag == 90
    bench.consumer.begins[PLACE] = 30
    assert (await bench.positions.backlogs())[0].lag == 70


async def test_a_partition_without_a_leader_hides_no_others_lag(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "newsift.ingest")
    bench.consumer.places, bench.consumer.leaderless = {PLACE, OTHER}, {OTHER}
    for _ in range(3):
        assert await bench.positions.backlogs() == {0: Backlog(0, None, 100)}
    bench.consumer.leaderless = set()
    assert set(await bench.positions.backlogs()) == {0, 1}
    assert [message for message in caplog.messages if "answer" in message] == [
        "no broker answers for partition 1: waiting",
        "the brokers answer for every partition again",
    ]


@pytest.mark.parametrize(
    ("begin", "offset", "count"), [(50, 8, 42), (0, 900, 1)], ids=["retention", "topic recreated"]
)
async def test_lost_offsets_are_counted_once_and_the_new_start_is_committed(
    bench: Bench, begin: int, offset: int, count: int
) -> None:
    bench.consumer.begins[PLACE] = begin
    bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: offset}))
    await bench.wait_for(lambda: bench.consumer.sought == {PLACE: begin})
    await bench.wait_for(lambda: bench.consumer.commits)
    assert bench.consumer.commits == [{PLACE: begin}]
    assert bench.metric("newsift_offsets_lost_total") == count


async def test_a_new_beginning_waits_for_the_batch_that_is_in_flight(bench: Bench) -> None:
    bench.feed(5)
    await bench.wait_for(lambda: len(bench.ledger) == 1)
    bench.consumer.begins[PLACE] = 50
    bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: 5}))
    await bench.wait_for(lambda: bench.consumer.sought)
    assert bench.consumer.commits == []
    bench.ledger.finish(await bench.take())
    await bench.positions.commit()
    await bench.positions.commit()
    assert bench.consumer.commits == [{PLACE: 5}, {PLACE: 50}]


moves = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 4)),  # so many records
        st.tuples(st.just("skip"), st.integers(1, 3)),  # markers, or a gap
        st.tuples(st.just("finish"), st.integers(0, 3)),  # this batch of those in flight
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("read in a commit"), st.integers(1, 4)),
    ),
    max_size=30,
)


class PositionsModel:
    """A partition that is read, and the offsets of records that are not finished."""

    def __init__(self) -> None:
        self.ledger, self.consumer = Ledger(100), FakeConsumer()
        self.positions = Positions(
            self.consumer, "tweets", self.ledger, Tenures(30), Metrics(), ended
        )
        self.consumer.places = {PLACE}
        self.at, self.open = 0, set[int]()
        self.in_flight: list[tuple[Batch, set[int]]] = []

    def read(self, count: int) -> None:
        offsets = set(range(self.at, self.at + count))
        before = len(self.ledger)
        messages = [Mail(b"x", offset=offset) for offset in sorted(offsets)]
        self.positions.follow(self.ledger.add(messages))
        self.in_flight.append((self.ledger._batches[before], offsets))
        self.open |= offsets
        self.at += count
        self.positions.set_read({PLACE: self.at})

    def skip(self, count: int) -> None:
        self.at += count
        self.positions.set_read({PLACE: self.at})

    def finish(self, nth: int) -> None:
        if self.in_flight:
            batch, offsets = self.in_flight.pop(nth % len(self.in_flight))
            self.ledger.finish(batch)
            self.open -= offsets

    async def commit(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        may = min(self.open, default=self.at)  # what comes meanwhile may not be in it
        self.consumer.on_commit = meanwhile
        before = len(self.consumer.commits)
        await self.positions.commit()
        for offsets in self.consumer.commits[before:]:
            assert offsets[PLACE] <= may


@given(moves)
async def test_no_commit_passes_a_post_that_is_not_finished(moves: list[tuple[str, int]]) -> None:
    model = PositionsModel()
    await model.positions.backlogs()
    for action, count in moves:
        if action == "commit":
            await model.commit()
        elif action == "read in a commit":
            await model.commit(lambda count=count: model.read(count))  # type: ignore[misc]
        else:
            getattr(model, action)(count)
    while model.in_flight:
        model.finish(0)
    for _ in range(2):
        await model.commit()
    assert not model.at or model.consumer.commits[-1] == {PLACE: model.at}
    assert len(model.ledger) == 0


async def test_revoking_waits_for_the_batch_in_flight_and_commits_it(bench: Bench) -> None:
    bench.feed(3)
    batch = await bench.take()
    revoking = asyncio.ensure_future(bench.positions.on_partitions_revoked({PLACE}))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not revoking.done()
    bench.ledger.finish(batch)
    await revoking
    assert bench.consumer.commits == [{PLACE: 3}]
    assert len(bench.ledger) == 0


@pytest.mark.parametrize(
    "error", [CommitFailedError(), IllegalStateError()], ids=["left", "revoked"]
)
async def test_a_refused_commit_of_a_former_member_is_harmless(
    bench: Bench, error: Exception
) -> None:
    """Stopped past its session timeout, it still believes that the partitions are its own."""
    bench.feed(3)
    batch = await bench.take()
    bench.ledger.finish(batch)
    bench.consumer.commit_error = error
    await bench.positions.commit()
    assert len(bench.ledger) == 1  # until the rebalance
    await bench.positions.on_partitions_revoked({PLACE})
    assert len(bench.ledger) == 0


async def test_a_position_of_the_old_assignment_is_not_committed_in_the_new_one(
    bench: Bench,
) -> None:
    """The ingest reads positions until the group has assigned its partitions anew."""
    await bench.positions.on_partitions_revoked({PLACE})
    bench.positions.set_read({PLACE: 24})
    bench.consumer.known = {PLACE: 50}
    await bench.positions.on_partitions_assigned({PLACE})
    await bench.positions.commit()
    assert bench.consumer.commits == []


async def test_an_error_in_the_callback_ends_the_worker(bench: Bench) -> None:
    """aiokafka only logs what a listener raises."""
    bench.feed(3)
    batch = await bench.take()
    bench.ledger.finish(batch)
    bench.consumer.commit_error = ZeroDivisionError("as the test wanted")
    await bench.positions.on_partitions_revoked({PLACE})
    [failure] = bench.failures
    assert isinstance(failure, ZeroDivisionError)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": FastLoop})], ids=["fast"])
@pytest.mark.parametrize("stuck", [False, True], ids=["commit answered", "commit never answered"])
async def test_revoking_ends_in_time_and_leaves_slow_batches_to_the_next_owner(
    bench: Bench, stuck: bool
) -> None:
    """One budget for a batch that never ends and for the commit."""
    bench.feed(3)
    bench.feed(3)
    await bench.wait_for(lambda: len(bench.ledger) == 2)
    bench.ledger.finish(await bench.take())
    bench.consumer.stuck = stuck
    loop = asyncio.get_running_loop()
    start = loop.time()
    await bench.positions.on_partitions_revoked({PLACE})
    duration = loop.time() - start
    assert len(bench.ledger) == 0
    if stuck:
        assert MAX_REVOKE_S - 0.1 < duration < MAX_REVOKE_S + 1.5
    else:
        assert bench.consumer.commits == [{PLACE: 3}]
        assert duration < MAX_REVOKE_S
