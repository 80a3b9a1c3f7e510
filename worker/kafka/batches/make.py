"""Records and batches of format 2, made by hand: for what was packed otherwise, or not at all."""

from collections.abc import Sequence

from aiokafka.record.util import encode_varint

from worker.kafka.batches.header import Header, uncompressed


def record(
    time: int, offset: int, key: bytes | None, value: bytes | None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> bytes:  # fmt: skip
    """One record; time and offset count from its batch's first."""
    parts = [b"\0", varint(time), varint(offset), _sized(key), _sized(value), varint(len(headers))]
    for name, content in headers:
        parts += [_sized(name.encode()), _sized(content)]
    body = b"".join(parts)
    return varint(len(body)) + body


def batch(
    first: int, last: int, times: tuple[int, int], records: Sequence[bytes], attributes: int = 0,
    producer_id: int = -1,
) -> tuple[bytes, bytes]:  # fmt: skip
    """The header and the body of a batch with these records; times are the first and the last."""
    body = b"".join(records)
    header = Header(
        first, 0, -1, 2, 0, attributes, last - first, *times, producer_id, -1, -1, len(records)
    )
    return uncompressed(header, body), body


def varint(value: int) -> bytes:
    """A whole number of up to 64 bits, in as few bytes as it needs."""
    made = bytearray()
    encode_varint(value, made.append)
    return bytes(made)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content
