import asyncio
from dataclasses import dataclass, field

from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.worker.small_encoder import Mail
from worker.stream.ledger import Batch, Ledger

PARTITIONS = 3
PLACES = [TopicPartition("tweets", number) for number in range(PARTITIONS)]
counts = st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS).filter(any)


@dataclass
class LedgerModel:
    """Every offset of every partition that was read, and whether it is finished."""

    read: list[list[Batch]] = field(default_factory=lambda: [[] for _ in PLACES])
    begin: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def committable(self) -> dict[TopicPartition, int]:
        result = {}
        for place, begin, owners in zip(PLACES, self.begin, self.read, strict=True):
            end = begin
            for owner in owners[begin:]:
                if not owner.finished:
                    break
                end += 1
            if end > begin:
                result[place] = end
        return result


@given(st.permutations(range(4)), st.integers(0, 4))
async def test_turns_come_in_the_order_of_arrival(order: list[int], finished: int) -> None:
    """Whatever the order in which they are waited for, and whoever is finished without a turn."""
    ledger, turns = Ledger(4), list[int]()
    batches = [ledger.add([Mail(b"", offset=number)]) for number in range(4)]

    async def wait(number: int) -> None:
        await ledger.wait_until(lambda: ledger.is_turn_of(batches[number]))
        turns.append(number)
        ledger.end_turn(batches[number])

    waiting = [asyncio.ensure_future(wait(n)) for n in order if n != finished]
    await asyncio.sleep(0)
    if finished < 4:
        ledger.finish(batches[finished])
    await asyncio.gather(*waiting)
    assert turns == [n for n in range(4) if n != finished]


async def test_a_batch_that_is_dropped_waits_for_no_turn() -> None:
    ledger = Ledger(2)
    ledger.add([Mail(b"", offset=0)])
    later = ledger.add([Mail(b"", offset=1)])
    second = asyncio.ensure_future(ledger.wait_until(lambda: ledger.is_turn_of(later)))
    await asyncio.sleep(0)
    assert not second.done()
    ledger.drop()
    await asyncio.wait_for(second, 20)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger, self.model = Ledger(3), LedgerModel()
        self.taken: list[Batch] = []

    @rule(sizes=counts)
    def read(self, sizes: list[int]) -> None:
        mails = [
            Mail(b"", partition=number, offset=len(self.model.read[number]) + at)
            for number, size in enumerate(sizes)
            for at in range(size)
        ]
        batch = self.ledger.add(mails)
        for mail in mails:
            self.model.read[mail.partition].append(batch)

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
        self.ledger.record_commit(offsets)
        for place, end in offsets.items():
            self.model.begin[place.partition] = end

    @rule()
    def rebalance(self) -> None:
        """All is read again from what was committed; who still works on a batch works in vain."""
        self.ledger.drop()
        assert not any(self.ledger.holds(batch) for batch in self.taken)
        for number, begin in enumerate(self.model.begin):
            del self.model.read[number][begin:]
        self.taken.clear()

    @invariant()
    def commits_what_the_model_commits(self) -> None:
        assert self.ledger.committable() == self.model.committable()

    @invariant()
    def keeps_what_is_not_committed(self) -> None:
        open_batches = {
            id(owner)
            for begin, owners in zip(self.model.begin, self.model.read, strict=True)
            for owner in owners[begin:]
        }
        assert len(self.ledger) == len(open_batches)
        assert self.ledger.full == (len(open_batches) >= 3)


TestLedger = LedgerMachine.TestCase


def test_a_new_topic_of_the_same_name_starts_at_lower_offsets() -> None:
    ledger = Ledger(3)
    for offset in (99, 4):
        ledger.finish(ledger.add([Mail(b"", offset=offset)]))
    assert ledger.committable() == {PLACES[0]: 5}
    ledger.record_commit({PLACES[0]: 5})
    assert len(ledger) == 0


async def test_consumers_get_the_oldest_batch_once_and_none_while_paused() -> None:
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
