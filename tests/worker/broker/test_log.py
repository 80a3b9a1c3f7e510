"""The log of a partition, against a list of all that was ever appended to it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.worker.broker.batches import Row, append, batch, numbered, position_after, rows
from worker.broker.codes import Code, Refused
from worker.broker.compaction import compact
from worker.broker.log import OVERHEAD, Budget, Log

MANY = 2**30
keys = st.sampled_from([b"a", b"b", b"c", b"d"])
values = st.none() | st.binary(max_size=30)


def read_all(log: Log, offset: int) -> list[Row]:
    """Fetch after fetch, as a consumer does, one small answer at a time."""
    found: list[Row] = []
    while offset < log.end:
        answer = log.read(offset, 100, at_least_one=True)
        found += [row for row in rows(answer) if row.offset >= offset]
        if not answer:
            break
        offset = position_after(answer)
    return found


@dataclass
class Model:
    """What a reader should see."""

    rows: list[Row] = field(default_factory=list)
    end: int = 0


class LogMachine(RuleBasedStateMachine):
    """Appends, trims and compactions in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(MANY)
        self.log = Log(self.budget)
        self.model = Model()
        self.start = 0

    @rule(
        records=st.lists(st.tuples(keys, values), min_size=1, max_size=5), codec=st.integers(0, 4)
    )
    def add(self, records: list[tuple[bytes, bytes | None]], codec: int) -> None:
        offset = append(self.log, batch(records, codec=codec))
        assert offset == self.model.end
        for n, (key, value) in enumerate(records):
            self.model.rows.append(Row(offset + n, 1_000 + n, key, value))
        self.model.end += len(records)

    @rule(wanted=st.integers(0, 1000))
    def drop_bytes(self, wanted: int) -> None:
        used, size = self.budget.used, len(self.log)
        self.log.drop_bytes(wanted)
        assert used - self.budget.used >= wanted or len(self.log) == 0 or not size

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.end))
        start = self.log.start
        self.log.delete_before(offset)
        assert self.log.start == max(start, offset)

    @initialize(retention=st.sampled_from([0, 1000]))
    def choose_retention(self, retention: int) -> None:
        self.retention = retention

    @rule()
    def compact(self) -> None:
        compact(self.log, now=10, delete_retention=self.retention)
        seen = self.visible()
        latest = {row.key: row.offset for row in seen}
        self.model.rows = [
            row
            for row in seen
            if row is seen[-1]
            or (latest[row.key] == row.offset and (row.value is not None or self.retention))
        ]

    def visible(self) -> list[Row]:
        return [row for row in self.model.rows if row.offset >= self.log.start]

    @invariant()
    def reads_the_same(self) -> None:
        assert self.log.start >= self.start
        self.start = self.log.start
        assert self.log.end == self.model.end
        found = read_all(self.log, self.log.start)
        assert [(r.offset, r.key, r.value) for r in found] == [
            (r.offset, r.key, r.value) for r in self.visible()
        ]

    @invariant()
    def counts_what_it_holds(self) -> None:
        held = [len(each.data) for each in self.log.batches]
        assert self.log.size == sum(held)
        assert self.budget.used == sum(held) + OVERHEAD * len(held)

    @precondition(lambda self: self.log.end > self.log.start)
    @rule(data=st.data())
    def read_from(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.start, self.log.end - 1))
        expected = [row.offset for row in self.visible() if row.offset >= offset]
        assert [row.offset for row in read_all(self.log, offset)] == expected


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestLog = LogMachine.TestCase


def made(*counts: int) -> Log:
    log = Log(Budget(MANY))
    for count in counts:
        append(log, numbered(count))
    return log


@pytest.mark.parametrize("offset", [-1, 6])
def test_an_offset_out_of_range_is_refused(offset: int) -> None:
    with pytest.raises(Refused) as caught:
        made(3, 2).read(offset, MANY, at_least_one=True)
    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE


def test_a_read_gives_one_batch_even_where_it_does_not_fit() -> None:
    log = made(3, 2)
    assert len(log.read(0, 1, at_least_one=True)) == 1
    assert log.read(0, 1, at_least_one=False) == []
    assert len(log.read(0, log.size, at_least_one=False)) == 2
    assert log.read(5, MANY, at_least_one=True) == []


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=5), st.integers(0, 55)
)
def test_offset_by_time_is_the_first_record_not_older(times: list[list[int]], wanted: int) -> None:
    log = Log(Budget(MANY))
    for each in times:
        append(log, batch([(b"k", b"v")] * len(each), times=each))
    flat = [time for each in times for time in each]
    expected = next(((t, n) for n, t in enumerate(flat) if t >= wanted), None)
    assert log.at_time(wanted) == expected


def test_a_tombstone_outlives_its_retention_only() -> None:
    log = Log(Budget(MANY))
    append(log, batch([(b"a", b"1"), (b"b", b"2")]))
    append(log, batch([(b"a", None), (b"c", b"3")]))
    kept = [(b"b", b"2"), (b"a", None), (b"c", b"3")]
    compact(log, now=0, delete_retention=100)
    compact(log, now=99, delete_retention=100)
    assert [(r.key, r.value) for r in rows(log.read(0, MANY, True))] == kept
    compact(log, now=100, delete_retention=100)
    assert [(r.key, r.value) for r in rows(log.read(0, MANY, True))] == [kept[0], kept[2]]
    assert (log.start, log.end) == (0, 4)


def test_the_newest_record_stays_so_that_a_reader_finds_the_end() -> None:
    log = Log(Budget(MANY))
    append(log, batch([(b"a", b"1")]))
    append(log, batch([(b"a", None)]))
    for now in (0, 1, 1000):
        compact(log, now, delete_retention=0)
        assert [(r.key, r.value) for r in rows(log.read(0, MANY, True))] == [(b"a", None)]
