"""Record batches beside aiokafka's own reading, and what both clients make of damaged ones."""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from newsift.broker.batches import CONTROL_BIT, TRANSACTIONAL_BIT
from newsift.broker.server import running
from tests.broker.clients import create, write
from tests.broker.raw_requests import plant
from tests.broker.record_batches import CODECS, Row, batch, record, sealed, values
from worker.config import Config, KafkaConfig
from worker.kafka.aiokafka_repairs import FetchResult, PartitionRecords
from worker.kafka.reading import connected
from worker.posts.outcome import Unreadable

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
    highwater: int | None = None
    log: list[int] = field(default_factory=list)

    def state_value(self, _: TopicPartition) -> "Assignment":
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position
        self.log.append(position)


optional = st.none() | st.binary(max_size=3)
rows = st.lists(st.tuples(optional, optional, st.integers(1, 3)), max_size=5)
batches = st.lists(
    st.tuples(rows, st.integers(-1, 3), st.integers(0, 3), st.booleans(), st.booleans()), max_size=6
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


def fetched(kind: Kind, data: bytes, aborted: Any, isolation: int, assignment: Assignment) -> Any:
    """A fetched partition as aiokafka's consumer holds it."""
    records, result = kind
    start = assignment.position
    part = records(PLACE, MemoryRecords(data), aborted, start, None, None, False, isolation)
    return result(PLACE, assignment=assignment, partition_records=part, backoff=0)


def read(kind: Kind, data: bytes, aborted: Any, isolation: int, numbers: list[int | None]) -> Any:
    assignment = Assignment()
    part = fetched(kind, data, aborted, isolation, assignment)
    rows = []
    for number in [*numbers, None]:
        if not part.has_more():
            break
        rows.append([
            (r.offset, r.timestamp, r.key, r.value, r.headers) for r in part.getall(number)
        ])  # fmt: skip
    return rows, assignment.log, part.has_more()


@given(
    batches, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30))),
    st.sampled_from([READ_COMMITTED, READ_UNCOMMITTED]),
    st.lists(st.none() | st.integers(1, 6), max_size=9),
)  # fmt: skip
def test_sound_batches_are_read_as_aiokafka_reads_them(
    parts: Any, aborted: Any, isolation: int, numbers: list[int | None]
) -> None:
    arguments = written(parts), aborted, isolation, numbers
    assert read(OURS, *arguments) == read(AIOKAFKA, *arguments)


def read_to_the_end(
    parts: list[bytes], start: int, end: int, isolation: int = READ_UNCOMMITTED,
    aborted: tuple[Any, ...] = (),
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Offset and value of each record, and the offsets of what cannot be read.

    The broker sends the parts from the one at the position on, and the transactions that it knows
    as aborted from there.
    """
    assignment, seen = Assignment(start, highwater=end), list[tuple[Any, ...]]()
    while assignment.position < end:
        position = assignment.position
        while len(parts) > 1 and int.from_bytes(parts[1][:8]) <= position:
            parts = parts[1:]
        known = [each for each in aborted if each[1] >= position]
        for row in fetched(OURS, b"".join(parts), known, isolation, assignment).getall():
            seen.append((row.offsets,) if isinstance(row, Unreadable) else (row.offset, row.value))
        assert assignment.position > position
    return seen


def between(middle: bytes) -> list[tuple[Any, ...]]:
    """What is read of a batch at offset 2 between good ones at 0 and 12."""
    return read_to_the_end([batch(values(2)), middle, batch(values(1), 4, base=12)], 0, 13)


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


BAD = {
    **{f"cut {n} {cut}": sealed(batch(values(400), n)[61:-cut], n, 2, 10)
       for n in CODECS.values() if n for cut in (9, 200)},
    **{f"count {n} {count}": batch(values(10), n, 2, record_count=count)
       for n in CODECS.values() for count in (1, 9, 11, 2**31 - 1)},
    **{f"checksum {n}": corrupt(batch(values(10), n, 2)) for n in CODECS.values()},
    "codec": batch(values(10), 0, 2, attributes=5),
}  # fmt: skip


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_damaged_batch_is_one_message_between_its_neighbours(data: bytes) -> None:
    assert between(data) == [(0, b"value 0"), (1, b"value 1"), ("2-11",), (12, b"value 0")]


@pytest.mark.parametrize(
    "body",
    [
        record(0, 0, b"", b"")[:-1], record(0, 0, b"", b"") + b"\x00",
        b"\x0c\x00\x00\x00\x7e\x01\x00", b"\x0c\x00\x00\x00\x01\x01\x7f", b"\xff" * 12,
        record(0, 0, None, None, [("a", b"1")]).replace(b"a", b"\xff"),
    ],
    ids=["cut", "left-over", "key", "headers", "varint", "no-utf8"],
)  # fmt: skip
def test_false_lengths_in_a_record_are_a_damaged_batch(body: bytes) -> None:
    assert between(sealed(body, 0, 2, 1, last_offset_delta=9))[2:] == [("2-11",), (12, b"value 0")]


@pytest.mark.parametrize(
    ("parts", "start", "end", "expected"),
    [
        ([corrupt(batch(values(10), 0, 100))], 104, 110, [("104-109",)]),
        (
            [corrupt(batch(values(10), 0, 100, last_offset_delta=2**30)), batch(values(1), 0, 105)],
            100, 106, [("100-104",), (105, b"value 0")],
        ),
        ([corrupt(batch(values(10), 0, 100, last_offset_delta=2**30))], 100, 107, [("100-106",)]),
        ([batch(values(10), 0, 2**40)], 100, 110, [("109-109",)]),
    ],
    ids=["read in part", "before a neighbour", "at the end", "beyond the end"],
)  # fmt: skip
def test_a_false_header_skips_neither_neighbours_nor_the_end(
    parts: list[bytes], start: int, end: int, expected: list[tuple[Any, ...]]
) -> None:
    """The checksum leaves the first offset out: a disk may change it."""
    assert read_to_the_end(parts, start, end) == expected


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_a_marker_that_compaction_has_emptied_is_passed_over(isolation: int) -> None:
    """Kafka keeps the header of a producer's last batch; both clients look for its marker."""
    empty = sealed(
        b"", 0, 100, 0, last_offset_delta=0, producer_id=7,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )  # fmt: skip
    later = batch(values(1), 0, 101)
    assert read_to_the_end([empty, later], 100, 102, isolation) == [(101, b"value 0")]
    assert read_to_the_end([empty], 100, 101, isolation) == []


def test_a_damaged_abort_marker_hides_no_later_transaction() -> None:
    """With it, only the next response says that its producer's records count again."""
    transaction = {"producer_id": 7, "attributes": TRANSACTIONAL_BIT}
    marker = sealed(
        record(0, 0, b"\0\0\0\0", b""), 0, 1, 1, producer_id=7,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )  # fmt: skip
    first, later = (batch(values(1), 0, base, **transaction) for base in (0, 2))
    seen = read_to_the_end([first, corrupt(marker), later], 0, 3, READ_COMMITTED, ((7, 0),))
    assert seen == [("1-1",), (2, b"value 0")]


def test_batches_after_the_stated_end_are_fetched_again() -> None:
    assignment = Assignment(100, highwater=102)
    data = batch(values(2), 0, 100) + batch(values(2), 0, 102)
    rows = fetched(OURS, data, [], READ_UNCOMMITTED, assignment).getall()
    assert ([row.offset for row in rows], assignment.position) == ([100, 101], 102)


def test_commands_report_a_damaged_batch_and_go_on(capsys: Any) -> None:
    many: list[Row] = values(10)
    with running() as address:
        create(address, "tweets")
        write(address, "tweets", [b"before"])
        plant(address, "tweets", corrupt(batch(many)))
        write(address, "tweets", [b"after"], compression_type="gzip")
        with connected(Config(kafka=KafkaConfig(bootstrap_servers=address))) as cluster:
            result = [row for part in cluster.read("tweets") for row in part]
            assert cluster.unreadable("tweets") == 10
    assert [(row.offset, row.value) for row in result] == [(0, b"before"), (11, b"after")]
    message = capsys.readouterr().err
    assert message.startswith("newsift: offsets 1-10 of tweets, partition 0, are passed over ")
    assert message.count("\n") == 1
