"""Record batches as a broker hands them out: read, or passed over as one message, never a raise."""

from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from tests.hostile.fuzz.target import Target
from tests.worker.kafka.batches.made import CODECS, PACK, batch, fixed, sealed, values
from worker.kafka.batches.consumer import fast_walk
from worker.kafka.batches.header import HEADER
from worker.kafka.batches.opener import Opener

RAW, FIXED, PACKED = range(3)
LIMIT = 2**20
START, END = 3, 2**41
TOKENS = [
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00" * 8, b"\x00", b"\x01",
    b"\xff\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01", b"\x02", b"\x7f", b"\x10\x00\x00\x00\x01\x02a",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x82SNAPPY\x00", b"\x00" * 300,
]  # fmt: skip


def opened() -> Target:
    """What is put between the broker and the client, by the plain and by the compiled walk.

    Three bytes at the start of an input say what is done with the rest: taken as it is, its
    checksum mended first, or packed by a codec as the body of a sound batch of so many records, so
    that all of it is reached.
    """
    whole = [batch(values(5), codec, base) for codec in CODECS.values() for base in (0, 2, 9)]
    corpus = [bytes([mode, 0, 0]) + data for data in whole for mode in (RAW, FIXED)]
    corpus += [bytes([RAW, 0, 0]) + whole[0] + whole[2], bytes([RAW, 0, 0]) + whole[3] + whole[8]]
    for count in (1, 9):
        body = batch([(b"key", b"value", [("name", b"more")])] * count)[HEADER.size :]
        corpus += [bytes([PACKED, codec, count]) + body for codec in PACK]
    plain = Opener(LIMIT)
    quick = Opener(LIMIT, fast_walk, plain.mark)

    def feed(data: bytes) -> bool:
        given = made(data)
        result = read(quick.open_batches(given, START, END, quick.budget()))
        slow = read(plain.open_batches(given, START, END, plain.budget()))
        offsets = [row.offset for row in result]
        assert all(offset < END for offset in offsets)
        assert offsets == [row.offset for row in slow]
        return not any(map(plain.unreadable_batch, result))

    return Target(corpus, TOKENS, feed, ms_per_kb=40, largest=2**15)


def made(data: bytes) -> bytes:
    (mode, codec, count), rest = data[:3].ljust(3, b"\0"), data[3:]
    if mode % 3 == FIXED and len(rest) > HEADER.size:
        return fixed(rest)
    if mode % 3 == PACKED:
        return sealed(PACK[codec % len(PACK)](rest), codec % len(PACK), START, count)
    return rest


class Row:
    topic, partition = "fuzz", 0

    def __init__(self, record: Any) -> None:
        self.offset, self.timestamp = record.offset, record.timestamp
        self.headers = record.headers


def read(data: bytes) -> list[Row]:
    records, result, position = MemoryRecords(data), list[Row](), START
    while records.has_next():
        for record in records.next_batch():
            if record.offset >= position:
                result.append(Row(record))
                position = record.offset + 1
    return result
