"""Messages of the formats 0 and 1, sound and hostile."""

import struct
import zlib
from typing import Any

import pytest
from aiokafka.codec import gzip_encode
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.kafka.batches.made import LIMIT, opened, squeezed
from tests.worker.kafka.batches.test_opener import read, rows_of
from worker.kafka.batches.opener import Opener

optional = st.none() | st.binary(max_size=60)
Pair = tuple[bytes | None, bytes | None]
FORMATS = [(magic, codec) for magic in (0, 1) for codec in range(4) if (magic, codec) != (0, 3)]
every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)


def messages(rows: list[Pair], magic: int, codec: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 2**30)
    for number, (key, value) in enumerate(rows):
        builder.append(number, 1_000 + number if magic else None, key, value)
    return bytes(builder.build())


def message(value: bytes, attributes: int, offset: int = 0, time: int = 5) -> bytes:
    sizes = struct.pack(">i", -1) + struct.pack(">i", len(value))
    return sealed(struct.pack(">bbq", 1, attributes, time) + sizes + value, offset)


def sealed(inner: bytes, offset: int = 0) -> bytes:
    return struct.pack(">qiI", offset, len(inner) + 4, zlib.crc32(inner)) + inner


def at(data: bytes, offset: int) -> bytes:
    """The message at this offset: its last packed one's."""
    return struct.pack(">q", offset) + data[8:]


@every_format
@given(rows=st.lists(st.tuples(optional, optional), min_size=1, max_size=6))
def test_old_formats_are_read_as_aiokafka_reads_them(
    magic: int, codec: int, rows: list[Pair]
) -> None:
    data = messages(rows, magic, codec)
    if codec:  # as a broker places it: the offset of the last
        data = at(data, (40 if magic else 0) + len(rows) - 1)

    def seen(result: list[Any]) -> list[tuple[Any, ...]]:
        return [
            (r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in result
        ]

    required = MemoryRecords(data)
    expected = []
    while required.has_next():
        expected += seen(list(required.next_batch()))
    assert seen(read(opened(data))) == expected


def test_the_append_time_holds_for_all_packed_messages() -> None:
    inner = message(b"a", 0, 0, 11) + message(b"b", 0, 1, 12)
    outer = message(gzip_encode(inner), 8 | 1, 7, 99)
    result = [(r.offset, r.timestamp, r.timestamp_type, r.value) for r in read(opened(outer))]
    assert result == [(6, 99, 1, b"a"), (7, 99, 1, b"b")]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_bomb_in_an_old_format_is_skipped(codec: int) -> None:
    opener = Opener(2**20)
    data = message(squeezed(codec, 2**24), codec, 9) + message(b"after", 0, 10)
    result = rows_of(opened(data, 5, opener=opener), opener)
    assert result == [("5-9", "limits.batch_bytes"), (10, b"after")]


@pytest.mark.parametrize(
    "data",
    [
        message(b"no gzip", 1), message(message(b"", 0), 4), message(gzip_encode(b""), 1),
        message(gzip_encode(message(gzip_encode(message(b"", 0)), 1)), 1),
        message(gzip_encode(message(b"", 0, 1) + message(b"", 0, 0)), 1),
        message(gzip_encode(message(b"", 0)[:-1]), 1),
        message(b"x", 0)[:-1] + b"y", message(b"x", 0)[:8] + b"\x00\x00\x00\x06" + bytes(6),
        sealed(struct.pack(">bbii", 0, 0, 100, 0)),
    ],
    ids=["gzip", "codec", "empty", "packed-twice", "order", "cut", "checksum", "tiny", "sizes"],
)  # fmt: skip
def test_a_damaged_message_is_bad(data: bytes) -> None:
    opener = Opener(LIMIT)
    result = rows_of(opened(data + message(b"after", 0, 1), opener=opener), opener)
    assert result == [("0-0", "bad_batch"), (1, b"after")]


def test_the_number_of_tiny_messages_is_limited() -> None:
    opener = Opener(100 * 66)
    packed = [gzip_encode(b"".join(message(b"", 0, n) for n in range(many))) for many in (100, 101)]
    assert len(read(opened(message(packed[0], 1, 99), opener=opener))) == 100
    result = rows_of(opened(message(packed[1], 1, 100), opener=opener), opener)
    assert result == [("0-100", "limits.batch_bytes")]
