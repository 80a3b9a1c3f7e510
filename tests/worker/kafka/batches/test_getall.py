"""The worker's own getall beside aiokafka's, for any batches and any numbers of records at once."""

import struct
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.kafka.batches.made import record, sealed
from worker.kafka.batches.consumer import FetchResult, PartitionRecords
from worker.kafka.batches.header import CONTROL_BIT, TRANSACTIONAL_BIT

TIME_OF_APPEND_BIT = 0x08
PLACE = TopicPartition("tweets", 0)
Kind = tuple[type[Any], type[Any]]
OURS: Kind = (PartitionRecords, FetchResult)
AIOKAFKA: Kind = (PartitionRecords.__base__, FetchResult.__base__)


@dataclass
class Assignment:
    """What aiokafka knows of the one partition."""

    position: int = 0
    active: bool = True
    paused: bool = False
    log: list[int] = field(default_factory=list)

    def state_value(self, _: TopicPartition) -> "Assignment":
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position
        self.log.append(position)


optional = st.none() | st.binary(max_size=3)
rows = st.lists(st.tuples(optional, optional, st.integers(1, 3)), max_size=5)
batches = st.lists(
    st.tuples(rows, st.integers(-1, 3), st.integers(0, 3), st.booleans(), st.booleans()),
    max_size=6,
)


def written(parts: Any) -> bytes:
    """Batches with gaps, some of transactions that end well or not."""
    data, base = b"", 0
    for written_rows, producer, gap, of_append, marker in parts:
        offset, body = -1, b""
        for key, value, step in written_rows:
            offset += step
            body += record(offset, offset, key, value, [("a", b"1")])
        last = offset + gap
        bits = TIME_OF_APPEND_BIT * of_append + TRANSACTIONAL_BIT * (producer >= 0)
        if last >= 0:
            data += sealed(
                body, 0, base, len(written_rows), attributes=bits, producer_id=producer,
                last_offset_delta=last,
            )  # fmt: skip
            base += last + 1
        if marker and producer >= 0:
            key = struct.pack(">hh", 0, producer % 2)
            bits = TRANSACTIONAL_BIT | CONTROL_BIT
            body = record(0, 0, key, b"")
            data += sealed(body, 0, base, 1, attributes=bits, producer_id=producer)
            base += 1
    return data


def read(
    kind: Kind, data: bytes, start: int, aborted: Any, isolation: int, numbers: list[int | None]
) -> Any:
    records, result = kind
    assignment = Assignment(start)
    part = records(PLACE, MemoryRecords(data), aborted, start, None, None, False, isolation)
    fetched = result(PLACE, assignment=assignment, partition_records=part, backoff=0)
    rows = []
    for number in [*numbers, None]:
        if not fetched.has_more():
            break
        rows.append([
            (r.offset, r.timestamp, r.key, r.value, r.headers) for r in fetched.getall(number)
        ])  # fmt: skip
    return rows, assignment.log, fetched.has_more()


@given(
    batches, st.integers(0, 30), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30))),
    st.sampled_from([READ_COMMITTED, READ_UNCOMMITTED]),
    st.lists(st.none() | st.integers(1, 6), max_size=9),
)  # fmt: skip
def test_getall_gives_what_that_of_aiokafka_gives(
    parts: Any, start: int, aborted: Any, isolation: int, numbers: list[int | None]
) -> None:
    arguments = written(parts), start, aborted, isolation, numbers
    assert read(OURS, *arguments) == read(AIOKAFKA, *arguments)
