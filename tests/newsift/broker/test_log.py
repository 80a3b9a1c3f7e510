import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from newsift.broker.codes import Code, RequestError
from newsift.broker.log import (
    BATCH_OVERHEAD_BYTES,
    MemoryBudget,
    read_header,
    read_records,
    with_offset,
)
from newsift.broker.topics import Topics
from tests.broker.record_batches import batch, values

pairs = st.lists(
    st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)),
    min_size=1,
    max_size=8,
)


def refusal(data: bytes) -> Code:
    with pytest.raises(RequestError) as caught:
        read_header(data)
    return caught.value.code


@given(pairs, st.sampled_from(range(5)), st.integers(0, 2**40))
def test_records_are_those_that_kafka_python_reads(
    records: list[tuple[bytes | None, bytes | None]], codec: int, offset: int
) -> None:
    data = with_offset(batch([(*pair, []) for pair in records], codec), offset)
    read_header(data)
    result = [(r.offset, r.timestamp, r.key, r.value is None) for r in read_records(data)]
    theirs = [record for each in MemoryRecords(data) for record in each]
    assert result == [(r.offset, r.timestamp, r.key, r.value is None) for r in theirs]
    assert [record.offset for record in theirs] == list(range(offset, offset + len(records)))


def test_two_batches_in_the_place_of_one_are_refused() -> None:
    assert refusal(batch(values(1)) + batch(values(1))) == Code.INVALID_RECORD


@given(st.data())
def test_a_flipped_bit_is_detected(data: st.DataObject) -> None:
    whole = bytearray(batch(values(3)))
    at = data.draw(st.integers(16, len(whole) - 1))  # the offset and the epoch are the broker's
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    assert refusal(bytes(whole)) in {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}


@given(st.binary(max_size=200))
def test_wild_bytes_are_refused(data: bytes) -> None:
    assert refusal(data) in {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}


NOW = 1_700_000_000_000
LITTLE = 100_000


class Book:
    def __init__(self, limit: int = 2**30) -> None:
        self.now = NOW
        self.budget = MemoryBudget(limit)
        self.topics = Topics(self.budget, 2, lambda: self.now)

    def create(self, name: str = "t", partitions: int = -1, **overrides: str) -> None:
        self.topics.create(name, partitions, {k.replace("_", "."): v for k, v in overrides.items()})

    def send(self, data: bytes, name: str = "t", partition: int = 0) -> int:
        topic = self.topics[name]
        header = self.topics.check_batch(topic, data)
        return self.topics.append(topic.log(partition), data, header)

    def refusal(self, data: bytes) -> Code:
        with pytest.raises(RequestError) as caught:
            self.send(data)
        return caught.value.code

    def values(self, name: str = "t") -> list[bytes | None]:
        log = self.topics[name].log(0)
        data = b"".join(log.read(log.start, 2**30, at_least_one=True))
        return [record.value for each in MemoryRecords(data) for record in each]


def test_timestamps_far_from_now_are_refused() -> None:
    book = Book()
    book.create(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    for away in (-1001, 1001):
        at = {"first_timestamp": NOW + away, "max_timestamp": NOW + away}
        assert book.refusal(batch(values(1), **at)) == Code.INVALID_TIMESTAMP
    book.send(batch(values(2), first_timestamp=NOW - 1000, max_timestamp=NOW + 1000))


def test_memory_is_bounded_and_the_fullest_log_loses_its_oldest_records() -> None:
    book = Book(LITTLE)
    book.create("small")
    book.create("full")
    book.send(batch(values(1)), "small")
    for n in range(2000):
        offset = book.send(batch([(b"k", b"x" * 200, [])]), "full")
        assert offset == n
        assert book.budget.size <= LITTLE
    assert book.values("small") == [b"value 0"]
    assert 0 < book.topics["full"].log(0).start < 2000


def test_a_compacted_topic_that_fills_the_broker_is_compacted() -> None:
    book = Book(LITTLE)
    book.create(cleanup_policy="compact")
    for n in range(2000):
        book.send(batch([(b"%d" % (n % 10), b"x" * 200, [])]))
        assert book.budget.size <= LITTLE
    asyncio.run(book.topics.clean())
    assert len(book.values()) == 10


def test_a_broker_full_of_distinct_keys_refuses_more() -> None:
    book = Book(LITTLE)
    book.create(cleanup_policy="compact")
    record = b"x" * 200
    room = LITTLE // (len(batch([(b"0000", record, [])])) + BATCH_OVERHEAD_BYTES)
    for n in range(room):
        book.send(batch([(b"%04d" % n, record, [])]))
    assert book.refusal(batch([(b"more", record, [])])) == Code.KAFKA_STORAGE_ERROR
    assert len(book.values()) == room


def test_deleting_a_topic_frees_its_memory() -> None:
    book = Book()
    book.create()
    book.send(batch(values(5)))
    book.topics.delete("t")
    assert book.budget.size == 0
    with pytest.raises(RequestError) as caught:
        book.topics.delete("t")
    assert caught.value.code == Code.UNKNOWN_TOPIC_OR_PARTITION
