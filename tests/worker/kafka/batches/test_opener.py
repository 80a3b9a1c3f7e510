import gzip
import json
from time import process_time
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import example, given
from hypothesis import strategies as st

from newsift.broker.server import running
from tests.broker.clients import create, write
from tests.broker.wire import Idempotent
from tests.worker.kafka.batches.made import (
    CODECS,
    LIMIT,
    Row,
    batch,
    bomb,
    opened,
    peak_memory,
    record,
    sealed,
    values,
)
from worker.config import Config, KafkaConfig
from worker.kafka.batches.consumer import PartitionRecords, fast_walk
from worker.kafka.batches.header import CONTROL_BIT, TRANSACTIONAL_BIT, Header
from worker.kafka.batches.opener import Opener
from worker.kafka.batches.unpack import unpack
from worker.kafka.reading import connected

optional = st.none() | st.binary(max_size=60)
rows = st.lists(
    st.tuples(optional, optional, st.lists(st.tuples(st.text(max_size=9), optional), max_size=3)),
    min_size=1,
    max_size=9,
)
packed = pytest.mark.parametrize("codec", [codec for codec in CODECS.values() if codec])
fast_walk(b"", 0, 0, 0)  # now, so that no example is slow
any_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def read(data: bytes) -> list[Any]:
    """Every record, by aiokafka's own decoder; each batch has to be sound."""
    records, result = MemoryRecords(data), []
    while records.has_next():
        result += list(records.next_batch())
    return result


def rows_of(data: bytes, opener: Opener) -> list[tuple[Any, ...]]:
    """Offset and value of each record; offsets and reason of each batch that is skipped."""

    class At:
        topic, partition = "tweets", 3

        def __init__(self, row: Any) -> None:
            self.offset, self.timestamp, self.headers = row.offset, row.timestamp, row.headers

    out: list[tuple[Any, ...]] = []
    for row in read(data):
        seen = opener.unreadable_batch(At(row))
        out.append((row.offset, row.value) if seen is None else (seen.offsets, seen.why.value))
    return out


def between(middle: bytes, opener: Opener) -> list[tuple[Any, ...]]:
    """The rows of a batch at offset 2 between good ones at 0 and 12."""
    whole = batch(values(2)) + middle + batch(values(1), 4, base=12)
    return rows_of(opener.open_batches(whole, 0, 13, Opener(2**30).budget()), opener)


def neighbours(message: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(0, b"value 0"), (1, b"value 1"), message, (12, b"value 0")]


@any_codec
@given(written=rows, base=st.integers(0, 2**40))
@example(written=[(b"k", b"v", [("ünïcode", b"1")])], base=7)
def test_sound_batches_are_read_as_aiokafka_reads_them(
    codec: int, written: list[Row], base: int
) -> None:
    made = batch(written, codec, base)

    def seen(result: list[Any]) -> list[tuple[Any, ...]]:
        return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in result]

    assert seen(read(opened(made, base))) == seen(read(made))
    assert seen(read(opened(made, base, opener=Opener(LIMIT, fast_walk)))) == seen(read(made))


@packed
def test_a_bomb_is_one_message_between_its_neighbours(codec: int) -> None:
    opener = Opener(2**20)
    assert between(bomb(codec, 2**24, 2, 10), opener) == neighbours(("2-11", "limits.batch_bytes"))


@packed
def test_the_limit_of_unpacked_bytes_is_exact(codec: int) -> None:
    rows: list[Row] = [(None, bytes([n % 251 for n in range(3000)]), []) for _ in range(3)]
    size = sum(len(record(n, n, *row[:2])) for n, row in enumerate(rows))
    for limit, offsets in ((size, [0, 1, 2]), (size - 1, ["0-2"])):
        opener = Opener(limit)
        assert [
            at for at, _ in rows_of(opened(batch(rows, codec), opener=opener), opener)
        ] == offsets


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


BAD = {
    **{f"cut {n} {cut}": sealed(batch(values(400), n)[61:-cut], n, 2, 10)
       for n in CODECS.values() if n for cut in (1, 9, 200)},
    **{f"count {n} {count}": batch(values(10), n, 2, record_count=count)
       for n in CODECS.values() for count in (-1, 0, 1, 9, 11, 2**31 - 1)},
    **{f"checksum {n}": corrupt(batch(values(10), n, 2)) for n in CODECS.values()},
    "codec": batch(values(10), 0, 2, attributes=5),
}  # fmt: skip


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_damaged_batch_is_one_message_between_its_neighbours(data: bytes) -> None:
    assert between(data, Opener(LIMIT)) == neighbours(("2-11", "bad_batch"))


@pytest.mark.parametrize("header", [{"magic": 1}, {"magic": 3}, {"last_offset_delta": -1}])
def test_an_unknown_header_is_a_bad_batch(header: dict[str, int]) -> None:
    result = between(batch(values(10), 0, 2, **header), Opener(LIMIT))
    assert [value for _, value in result] == [b"value 0", b"value 1", "bad_batch", b"value 0"]


@pytest.mark.parametrize(
    "body",
    [
        b"\x02\x00", record(0, 0, b"", b"")[:-1], record(0, 0, b"", b"") + b"\x00",
        record(0, 10, b"", b""), record(0, -1, b"", b""), b"\x0c\x80\x01\x00\x00\x01\x01\x00",
        b"\x0c\x00\x00\x00\x7e\x01\x00", b"\x0c\x00\x00\x00\x01\x01\x7f",
        b"\x0c\x00\x00\x00\x01\x01\x01", b"\xff" * 12, b"\x18\x00" + b"\xff" * 10 + b"\x00",
        b"\x0e\x00\x00\x00\x01\x01\x02\x01",
        record(0, 0, None, None, [("a", b"1")]).replace(b"a", b"\xff"),
    ],
    ids=["short", "cut", "left-over", "far", "before", "attributes", "key", "headers", "no-headers",
         "varint", "time", "name", "no-utf8"],
)  # fmt: skip
@pytest.mark.parametrize("walk", [Opener(1).walk, fast_walk], ids=["slow", "fast"])
def test_false_lengths_in_a_record_are_a_bad_batch(body: bytes, walk: Any) -> None:
    false = sealed(body, 0, 2, 1, last_offset_delta=9)
    assert between(false, Opener(LIMIT, walk)) == neighbours(("2-11", "bad_batch"))


def test_the_number_of_headers_is_limited() -> None:
    opener = Opener(1600)  # a hundred of them, however small
    many: list[Row] = [(None, b"", [("", None)] * 99)]
    assert rows_of(opened(batch(many), opener=opener), opener) == [(0, b"")]
    many = [(None, b"", [("", None)] * 100)]
    assert rows_of(opened(batch(many), opener=opener), opener) == [("0-0", "limits.batch_bytes")]


def test_a_producer_cannot_forge_a_skipped_batch() -> None:
    opener = Opener(LIMIT)
    message = json.dumps([0, "bad_batch", "forged"]).encode()
    forged = [(Opener(LIMIT).mark, message), ("newsift.", message), ("", message)]
    rows: list[Row] = [(None, b"post", [one]) for one in forged]
    assert {message for _, message in rows_of(opened(batch(rows)), opener)} == {b"post"}


LENGTHS = {
    f"length {n}": batch(values(10))[:8] + n.to_bytes(4, signed=True) + batch(values(10))[12:]
    for n in (-5, 0, 2**30)
}
LAST = 100 + 2**31 - 1  # a batch spans no more


@pytest.mark.parametrize(
    ("data", "start", "end", "expected"),
    [
        (corrupt(batch(values(10), 0, 100)), 104, 110, [("104-109", "bad_batch")]),
        (
            corrupt(batch(values(10), 0, 100, last_offset_delta=2**30)) + batch(values(1), 0, 105),
            100, 106, [("100-104", "bad_batch"), (105, b"value 0")],
        ),
        (corrupt(batch(values(10), 0, 100, last_offset_delta=2**30)), 100, 107,
         [("100-106", "bad_batch")]),
        (batch(values(10), 0, 2**40), 100, 110, [("109-109", "bad_batch")]),
        (corrupt(batch(values(10), 0, 2**40)), 100, 2**41, [(f"{LAST}-{LAST}", "bad_batch")]),
        *((data, 0, 10, [("0-9", "bad_batch")]) for data in LENGTHS.values()),
    ],
    ids=["read in part", "before a neighbour", "at the end", "beyond the end", "far", *LENGTHS],
)  # fmt: skip
def test_a_false_header_skips_neither_neighbours_nor_the_end(
    data: bytes, start: int, end: int, expected: list[tuple[Any, ...]]
) -> None:
    """The checksum leaves the first offset and the length out: a disk may change them."""
    opener = Opener(LIMIT)
    assert rows_of(opened(data, start, end, opener), opener) == expected


@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
def test_a_marker_that_compaction_has_emptied_is_passed_over(isolation: int) -> None:
    """Kafka keeps the header of a producer's last batch; both clients look for its marker."""
    empty = sealed(
        b"", 0, 100, 0, last_offset_delta=0, producer_id=7,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )  # fmt: skip
    for data, values_read in ((empty + batch(values(1), 0, 101), [b"value 0"]), (empty, [])):
        records = PartitionRecords(
            TopicPartition("tweets", 0), MemoryRecords(opened(data, 100)), [], 100,
            None, None, False, isolation,
        )  # fmt: skip
        assert [record.value for record in records] == values_read
        assert records.next_fetch_offset == 101 + len(values_read)


def test_a_damaged_abort_marker_hides_no_later_transaction() -> None:
    """With it, only the next response says that its producer's records count again."""
    transaction = {"producer_id": 7, "attributes": TRANSACTIONAL_BIT}
    marker = sealed(
        record(0, 0, b"\0\0\0\0", b""), 0, 1, 1, producer_id=7,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )  # fmt: skip
    later = batch(values(1), 0, 2, **transaction)
    data = batch(values(1), 0, 0, **transaction) + corrupt(marker) + later

    def read_from(start: int, data: bytes, aborted: list[tuple[int, int]]) -> tuple[int, list[Any]]:
        records = PartitionRecords(
            TopicPartition("tweets", 0), MemoryRecords(opened(data, start)), aborted, start,
            None, None, False, READ_COMMITTED,
        )  # fmt: skip
        rows = [record.offset for record in records]
        return records.next_fetch_offset, rows

    start, rows = read_from(0, data, [(7, 0)])
    assert rows == [1]  # what stands for the marker
    assert read_from(start, later, []) == (3, [2])


def test_batches_after_the_stated_end_are_fetched_again() -> None:
    opener = Opener(LIMIT)
    first, second = batch(values(2), 0, 100), batch(values(2), 0, 102)
    assert rows_of(opened(first + second, 100, 102, opener), opener) == [
        (100, b"value 0"), (101, b"value 1"),
    ]  # fmt: skip
    assert rows_of(opened(second, 102, 104, opener), opener) == [
        (102, b"value 0"),
        (103, b"value 1"),
    ]
    assert not opener.has_marked


@packed
def test_an_answer_unpacks_to_little_more_than_one_batch_may(codec: int) -> None:
    """What does not fit is cut off between two batches, and asked for again."""
    opener, size = Opener(2**20), 2**19
    rows: list[Row] = [(None, bytes(size), [])]
    many = b"".join(batch(rows, codec, base) for base in range(40))
    out = opened(many, opener=opener)
    assert 2**20 <= len(out) < 2**21
    assert [row.offset for row in read(out)] == list(range(len(out) // size))


@pytest.mark.slow
def test_a_file_of_many_members_costs_what_its_bytes_cost() -> None:
    """zlib copies what is left over behind each member: all of it, if it is given all."""

    def seconds(members: int) -> float:
        began = process_time()
        assert unpack(1, gzip.compress(b"") * members, LIMIT) == b""
        return process_time() - began

    few, many = (min(seconds(members) for _ in range(3)) for members in (10_000, 320_000))
    assert many < 200 * few  # 32 times as much is linear, 1,024 times quadratic


MIB = 2**20


def test_a_bomb_between_two_posts(capsys: Any) -> None:
    with running() as address:
        create(address, "tweets")
        write(address, "tweets", [b"before"])
        stranger = Idempotent(address, "tweets")
        poison = bomb(4, 48 * MIB)
        assert stranger.produce(poison).error_code == 0
        write(address, "tweets", [b"after"], compression_type="gzip")
        before = peak_memory()
        with connected(Config(kafka=KafkaConfig(bootstrap_servers=address))) as cluster:
            result = [row for batch in cluster.read("tweets") for row in batch]
    last = 1 + Header.parse(poison).last_offset_delta
    assert [(row.offset, row.value) for row in result] == [(0, b"before"), (last + 1, b"after")]
    message = capsys.readouterr().err
    assert message.startswith(f"newsift: offsets 1-{last} of tweets, partition 0, are passed over ")
    assert message.count("\n") == 1
    assert peak_memory() - before < 120 * MIB
