"""The ledger against a model that keeps every single offset, and looks at all of them each time."""

import asyncio
from dataclasses import dataclass, field

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from encoder.errors import InputError
from tests.worker.small import Mail
from worker.stream.ledger import Batch, Ledger

PARTITIONS = 3
PLACES = [TopicPartition("tweets", number) for number in range(PARTITIONS)]
counts = st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS).filter(any)


@dataclass
class Slow:
    """Every offset of every partition that was read, and whether it is finished."""

    read: list[list[Batch]] = field(default_factory=lambda: [[] for _ in PLACES])
    begin: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def committable(self) -> dict[TopicPartition, int]:
        found = {}
        for place, begin, owners in zip(PLACES, self.begin, self.read, strict=True):
            end = begin
            for owner in owners[begin:]:
                if not owner.finished:
                    break
                end += 1
            if end > begin:
                found[place] = end
        return found


@given(st.permutations(range(4)), st.integers(0, 4))
def test_turns_come_in_the_order_of_arrival(order: list[int], finished: int) -> None:
    """Whatever the order in which they are waited for, and whoever is finished without a turn."""

    async def run() -> list[int]:
        ledger, had = Ledger(4), list[int]()
        batches = [ledger.add([Mail(b"", offset=number)]) for number in range(4)]

        async def wait(number: int) -> None:
            await ledger.until(lambda: ledger.is_turn_of(batches[number]))
            had.append(number)
            ledger.pass_on(batches[number])

        waiting = [asyncio.ensure_future(wait(n)) for n in order if n != finished]
        await asyncio.sleep(0)
        if finished < 4:
            ledger.finish(batches[finished])
        await asyncio.gather(*waiting)
        return had

    assert asyncio.run(run()) == [n for n in range(4) if n != finished]


def test_a_batch_that_is_dropped_waits_for_no_turn() -> None:
    async def run() -> None:
        ledger = Ledger(2)
        ledger.add([Mail(b"", offset=0)])
        later = ledger.add([Mail(b"", offset=1)])
        second = asyncio.ensure_future(ledger.until(lambda: ledger.is_turn_of(later)))
        await asyncio.sleep(0)
        assert not second.done()
        ledger.drop()
        await asyncio.wait_for(second, 20)

    asyncio.run(run())


class Ledgers(RuleBasedStateMachine):
    """Batches come, are taken and finished in any order, committed, and dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger, self.slow = Ledger(3), Slow()
        self.taken: list[Batch] = []

    @rule(sizes=counts)
    def read(self, sizes: list[int]) -> None:
        mails = [
            Mail(b"", partition=number, offset=len(self.slow.read[number]) + at)
            for number, size in enumerate(sizes)
            for at in range(size)
        ]
        batch = self.ledger.add(mails)
        for mail in mails:
            self.slow.read[mail.partition].append(batch)

    @rule()
    def take(self) -> None:
        waiting = [b for b in self.ledger._batches if not b.taken]
        batch = self.ledger.take()
        assert batch is (waiting[0] if waiting else None)
        if batch is not None:
            self.taken.append(batch)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        batch = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        self.ledger.finish(batch)
        assert len(batch.messages) == 0

    @rule(late=counts)
    def commit(self, late: list[int]) -> None:
        """What is read while the commit is on its way is not committed by it."""
        offsets = self.ledger.committable()
        self.read(late)
        self.ledger.committed(offsets)
        for place, end in offsets.items():
            self.slow.begin[place.partition] = end

    @rule()
    def rebalance(self) -> None:
        """All is read again from what was committed; who still works on a batch works in vain."""
        self.ledger.drop()
        assert not any(self.ledger.holds(batch) for batch in self.taken)
        for number, begin in enumerate(self.slow.begin):
            del self.slow.read[number][begin:]
        self.taken.clear()

    @invariant()
    def commits_what_the_model_commits(self) -> None:
        assert self.ledger.committable() == self.slow.committable()

    @invariant()
    def keeps_what_is_not_committed(self) -> None:
        open_batches = {
            id(owner)
            for begin, owners in zip(self.slow.begin, self.slow.read, strict=True)
            for owner in owners[begin:]
        }
        assert len(self.ledger) == len(open_batches)
        assert self.ledger.full == (len(open_batches) >= 3)


TestLedger = Ledgers.TestCase


@given(counts)
def test_a_batch_ends_after_the_last_offset_of_each_partition(sizes: list[int]) -> None:
    mails = [Mail(b"", partition=n, offset=7 + i) for n, s in enumerate(sizes) for i in range(s)]
    batch = Ledger(1).add(mails)
    assert batch.ends == {PLACES[n]: 7 + s for n, s in enumerate(sizes) if s}


def test_faust_would_commit_past_a_head_that_is_not_finished_the_ledger_does_not() -> None:
    """With 10 committed and {11, 12} acked Faust commits 13; so 11's batch has to hold it back."""
    ledger = Ledger(3)
    batches = [ledger.add([Mail(b"", offset=offset)]) for offset in (10, 11, 12)]
    for batch in batches:
        assert ledger.take() is batch
    ledger.finish(batches[1])
    ledger.finish(batches[2])
    assert ledger.committable() == {}
    ledger.finish(batches[0])
    assert ledger.committable() == {PLACES[0]: 13}


def test_a_partition_is_never_committed_back_to_where_it_was() -> None:
    """One batch is committed in a partition early, as another holds it back in the other."""
    ledger, (one, two, _) = Ledger(3), PLACES
    first, both, last = (
        ledger.add([Mail(b"", partition=partition, offset=offset) for partition, offset in mails])
        for mails in ([(0, 0)], [(0, 1), (1, 0)], [(1, 1)])
    )
    for batch in (both, last):
        ledger.finish(batch)
    assert ledger.committable() == {two: 2}
    ledger.committed({two: 2})
    ledger.finish(first)
    assert ledger.committable() == {one: 2}
    ledger.committed({one: 2})
    assert len(ledger) == 0


def test_a_topic_that_was_made_anew_begins_again_at_lower_offsets() -> None:
    ledger = Ledger(3)
    for offset in (99, 4):
        ledger.finish(ledger.add([Mail(b"", offset=offset)]))
    assert ledger.committable() == {PLACES[0]: 5}
    ledger.committed({PLACES[0]: 5})
    assert len(ledger) == 0


def test_a_ledger_without_room_is_refused() -> None:
    with pytest.raises(InputError, match="in_flight: 0"):
        Ledger(0)


def test_whoever_asks_gets_the_oldest_batch_once_and_none_while_paused() -> None:
    async def run() -> None:
        ledger = Ledger(3)
        asking = [asyncio.ensure_future(ledger.next()) for _ in range(3)]
        await asyncio.sleep(0)
        ledger.pause(True)
        batches = [ledger.add([Mail(b"", offset=n)]) for n in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in asking)
        ledger.pause(False)
        assert await asyncio.gather(*asking[:2]) == batches
        assert not asking[2].done()
        asking[2].cancel()

    asyncio.run(run())
