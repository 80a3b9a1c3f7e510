"""Record batches that a stranger sends to the embedded broker: checked to their end, or refused."""

from aiokafka.record.memory_records import MemoryRecords

from newsift.broker.batches import HEADER, unpacked_batch
from newsift.broker.codes import RequestError
from tests.broker.record_batches import CODECS, PACK, batch, fixed, sealed, values
from tests.hostile.fuzz.target import Target

RAW, FIXED, PACKED = range(3)
TOKENS = [
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00" * 8, b"\x00", b"\x01",
    b"\xff\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01", b"\x02", b"\x7f", b"\x10\x00\x00\x00\x01\x02a",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x82SNAPPY\x00", b"\x00" * 300,
]  # fmt: skip


def opened() -> Target:
    """What the broker unpacks is what aiokafka reads.

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

    def feed(data: bytes) -> bool:
        try:
            records = MemoryRecords(unpacked_batch(made(data)))
        except RequestError:
            return False
        while records.has_next():
            list(records.next_batch())
        return True

    return Target(corpus, TOKENS, feed, ms_per_kb=40, largest=2**15)


def made(data: bytes) -> bytes:
    (mode, codec, count), rest = data[:3].ljust(3, b"\0"), data[3:]
    if mode % 3 == FIXED and len(rest) > HEADER.size:
        return fixed(rest)
    if mode % 3 == PACKED:
        return sealed(PACK[codec % len(PACK)](rest), codec % len(PACK), 0, count)
    return rest
