"""What is committed: batches that are done, and positions past markers and gaps, never more."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.small import Mail
from tests.worker.stream.bench import PLACE, Bench, play
from tests.worker.stream.fakes import FakeConsumer, ended
from worker.metrics.registry import Metrics
from worker.stream.ledger import Batch, Ledger
from worker.stream.offsets import Backlog, Positions

OTHER = TopicPartition("tweets", 1)


async def idle(bench: Bench) -> None:
    """What the worker does each second: look at what waits, commit what may be."""
    await bench.positions.backlogs()
    await bench.positions.commit()


async def finished(bench: Bench) -> None:
    """Finish the oldest batch."""
    await bench.met(lambda: len(bench.ledger) > 0)
    batch = bench.ledger.take()
    assert batch is not None
    bench.ledger.finish(batch)


async def turn(bench: Bench) -> None:
    """Let the reading go round."""
    polled = bench.consumer.polled
    await bench.met(lambda: bench.consumer.polled > polled + 2)


def test_with_nothing_under_way_the_position_is_committed() -> None:
    """A marker of a transaction is no record: it only moves the position."""

    async def story(bench: Bench) -> None:
        bench.consumer.ends[PLACE] = 6
        bench.feed(5)
        await finished(bench)
        await idle(bench)
        assert bench.consumer.commits == [{PLACE: 5}]
        assert await bench.positions.backlogs() == {0: Backlog(0, 5, 6)}
        bench.consumer.at[PLACE] = 6
        await turn(bench)
        await idle(bench)
        await idle(bench)  # and once is enough
        assert bench.consumer.commits == [{PLACE: 5}, {PLACE: 6}]
        assert (await bench.positions.backlogs())[0].lag == 0

    play(story)


def test_while_a_batch_is_under_way_no_position_of_its_partition_is_committed() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.places = {PLACE, OTHER}
        bench.feed(5)
        await bench.met(lambda: len(bench.ledger) == 1)
        bench.consumer.at |= {PLACE: 9, OTHER: 7}
        await turn(bench)
        await idle(bench)
        assert bench.consumer.commits == [{OTHER: 7}]
        await finished(bench)
        await idle(bench)
        await idle(bench)
        assert bench.consumer.commits[1:] == [{PLACE: 5}, {PLACE: 9}]

    play(story)


def test_without_a_commit_the_lag_begins_with_the_first_post() -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.begins[PLACE] = 10
        assert (await bench.positions.backlogs())[0].lag == 90
        bench.consumer.begins[PLACE] = 30
        assert (await bench.positions.backlogs())[0].lag == 70

    play(story)


def test_a_partition_without_a_leader_hides_no_others_lag(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.places, bench.consumer.leaderless = {PLACE, OTHER}, {OTHER}
        for _ in range(3):
            assert await bench.positions.backlogs() == {0: Backlog(0, None, 100)}
        bench.consumer.leaderless = set()
        assert set(await bench.positions.backlogs()) == {0, 1}

    with caplog.at_level(logging.INFO, "newsift.ingest"):
        play(story)
    told = [record.message for record in caplog.records if "answer" in record.message]
    assert told == [
        "no broker answers for partition 1: waiting",
        "the brokers answer for every partition again",
    ]


@pytest.mark.parametrize(
    ("begin", "offset", "count", "said"),
    [(50, 8, 42, "42 offsets of tweets, partition 0, from 8 on, were deleted"),
     (0, 900, 1, "tweets, partition 0 ends before offset 900, which is next")],
    ids=["retention", "made anew"],
)  # fmt: skip
def test_posts_that_are_gone_are_counted_and_never_again_after_a_restart(
    begin: int, offset: int, count: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(bench: Bench) -> None:
        bench.consumer.begins[PLACE] = begin
        bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: offset}))
        await bench.met(lambda: bench.consumer.sought == {PLACE: begin})
        await bench.met(lambda: bench.consumer.commits)
        assert bench.consumer.commits == [{PLACE: begin}]

    bench = play(story)
    assert bench.metric("newsift_offsets_lost_total") == count
    assert said in caplog.text


def test_a_new_beginning_waits_for_the_batch_that_is_under_way() -> None:
    async def story(bench: Bench) -> None:
        bench.feed(5)
        await bench.met(lambda: len(bench.ledger) == 1)
        bench.consumer.begins[PLACE] = 50
        bench.consumer.ready.append(OffsetOutOfRangeError({PLACE: 5}))
        await bench.met(lambda: bench.consumer.sought)
        assert bench.consumer.commits == []
        await finished(bench)
        await bench.positions.commit()
        await bench.positions.commit()
        assert bench.consumer.commits == [{PLACE: 5}, {PLACE: 50}]

    play(story)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 4)),  # so many records
        st.tuples(st.just("skip"), st.integers(1, 3)),  # markers, or a gap
        st.tuples(st.just("finish"), st.integers(0, 3)),  # this batch of those under way
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("read in a commit"), st.integers(1, 4)),
    ),
    max_size=30,
)


class Told:
    """A partition that is read, and the offsets of records that are not done yet."""

    def __init__(self) -> None:
        self.ledger, self.consumer = Ledger(100), FakeConsumer()
        self.positions = Positions(self.consumer, "tweets", self.ledger, Metrics(), ended)
        self.consumer.places = {PLACE}
        self.at, self.open = 0, set[int]()
        self.flying: list[tuple[Batch, set[int]]] = []

    def read(self, count: int) -> None:
        """One batch; its posts are in the ledger before its position is noted."""
        offsets = set(range(self.at, self.at + count))
        before = len(self.ledger)
        self.positions.take([Mail(b"x", offset=offset) for offset in sorted(offsets)])
        self.flying.append((self.ledger._batches[before], offsets))
        self.open |= offsets
        self.at += count
        self.positions.reached({PLACE: self.at})

    def skip(self, count: int) -> None:
        self.at += count
        self.positions.reached({PLACE: self.at})

    def finish(self, nth: int) -> None:
        if self.flying:
            batch, offsets = self.flying.pop(nth % len(self.flying))
            self.ledger.finish(batch)
            self.open -= offsets

    async def commit(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        may = min(self.open, default=self.at)  # what comes meanwhile may not be in it
        self.consumer.on_commit = meanwhile
        before = len(self.consumer.commits)
        await self.positions.commit()
        for offsets in self.consumer.commits[before:]:
            assert offsets[PLACE] <= may


def played(story: Callable[[Told], Awaitable[None]]) -> None:
    async def run() -> None:
        told = Told()
        await told.positions.backlogs()
        await story(told)

    asyncio.run(run())


@given(moves)
def test_whatever_happens_no_commit_passes_a_post_that_is_not_done(
    moves: list[tuple[str, int]],
) -> None:
    async def story(told: Told) -> None:
        for what, count in moves:
            if what == "commit":
                await told.commit()
            elif what == "read in a commit":
                await told.commit(lambda count=count: told.read(count))  # type: ignore[misc]
            else:
                getattr(told, what)(count)
        while told.flying:
            told.finish(0)
        for _ in range(2):
            await told.commit()
        assert not told.at or told.consumer.commits[-1] == {PLACE: told.at}
        assert len(told.ledger) == 0

    played(story)
