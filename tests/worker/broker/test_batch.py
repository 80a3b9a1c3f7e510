"""Batches are checked before they are believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.broker.batches import batch, numbered, rows
from tests.worker.kafka.batches.made import sealed
from worker.broker.batch import placed, read_header, read_records
from worker.broker.codes import Code, Refused
from worker.kafka.batches.header import HEADER

pairs = st.lists(
    st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)),
    min_size=1,
    max_size=8,
)


def refusal(data: bytes) -> Code:
    with pytest.raises(Refused) as caught:
        read_header(data)
    return caught.value.code


@given(pairs, st.sampled_from(range(5)), st.integers(0, 2**40))
def test_records_are_those_that_kafka_python_reads(
    records: list[tuple[bytes | None, bytes | None]], codec: int, offset: int
) -> None:
    data = placed(batch(records, codec=codec), offset)
    read_header(data)
    found = [(r.offset, r.timestamp, r.key, r.value is None) for r in read_records(data)]
    assert found == [(r.offset, r.timestamp, r.key, r.value is None) for r in rows(data)]
    assert [row.offset for row in rows(data)] == list(range(offset, offset + len(records)))


@given(st.data())
def test_a_flipped_bit_is_noticed(data: st.DataObject) -> None:
    whole = bytearray(numbered(3))
    at = data.draw(st.integers(16, len(whole) - 1))  # the offset and the epoch are the broker's
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    assert refusal(bytes(whole)) in {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}


@given(st.binary(max_size=200))
def test_wild_bytes_are_refused(data: bytes) -> None:
    assert refusal(data) in {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}


def test_a_truncated_batch_is_corrupt() -> None:
    assert refusal(numbered(3)[:-1]) == Code.CORRUPT_MESSAGE


def test_a_partition_takes_one_batch() -> None:
    assert refusal(numbered(1) + numbered(1)) == Code.INVALID_RECORD


def test_a_batch_that_miscounts_its_records_is_refused() -> None:
    lying = sealed(numbered(3)[HEADER.size :], 0, 0, 3, record_count=2)
    assert refusal(lying) == Code.INVALID_RECORD


def test_damaged_compression_is_refused_when_it_is_opened() -> None:
    bad = sealed(b"no gzip at all", 1, 0, 20)
    read_header(bad)  # the checksum is right
    with pytest.raises(Refused) as caught:
        read_records(bad)
    assert caught.value.code == Code.INVALID_RECORD
