"""Decompression with a bound on the output, whatever the packed bytes claim."""

import struct
import threading
import zlib
from collections.abc import Callable, Iterator

import cramjam
import lz4.frame
import zstandard

from newsift.broker.codes import Code, RequestError

Bytes = bytes | bytearray | memoryview

XERIAL_MAGIC = b"\x82SNAPPY\x00"  # Eight bytes with versions follow.
XERIAL_HEADER_BYTES = 16
FIRST_READ_BYTES = 2**16  # Each further read is twice as long.
MAX_STEP_BYTES = 2**20
_thread_state = threading.local()  # a zstd unpacker is for one thread
GZIP_PIECE_BYTES = 2**14
GZIP_WINDOW_BITS = 31  # For zlib this means a gzip header and trailer.


def bad_batch(detail: str) -> RequestError:
    return RequestError(Code.INVALID_RECORD, detail)


def too_large_batch(limit: int) -> RequestError:
    detail = f"the record batch has more than {limit} bytes once it is unpacked"
    return RequestError(Code.MESSAGE_TOO_LARGE, detail)


def unpack(codec: int, data: Bytes, limit: int) -> Bytes:
    """Raises for damaged data, and for more bytes than the limit."""
    parts: list[bytes] = []
    room = limit
    try:
        for part in CODECS[codec](data, limit):
            parts.append(part)
            room -= len(part)
            if room < 0:
                raise too_large_batch(limit)
    except RequestError:
        raise
    except Exception as error:  # each codec fails in a way of its own
        raise bad_batch(f"the record batch cannot be unpacked ({type(error).__name__})") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _copy(data: Bytes, _limit: int) -> Iterator[bytes]:
    yield bytes(data)


def _gzip(data: Bytes, limit: int) -> Iterator[bytes]:
    """Every member of the data; in pieces, because zlib copies what follows a member."""
    view, start, room, member = memoryview(data), 0, limit, None
    while start < len(view):
        member = member or zlib.decompressobj(GZIP_WINDOW_BITS)
        piece = view[start : start + GZIP_PIECE_BYTES]
        part = member.decompress(piece, room + 1)
        start += len(piece) - len(member.unused_data) - len(member.unconsumed_tail)
        room, member = room - len(part), None if member.eof else member
        yield part
    if member is not None:
        raise bad_batch("the record batch is cut off inside its gzip")


def _lz4(packed: Bytes, _limit: int) -> Iterator[bytes]:
    """Bytes after the first frame are ignored."""
    frame, step = lz4.frame.LZ4FrameDecompressor(), FIRST_READ_BYTES
    data: Bytes = packed
    while not frame.eof:
        part = frame.decompress(data, max_length=step)
        if not part and not frame.eof:
            raise bad_batch("the record batch is cut off inside its lz4")
        data, step = b"", min(2 * step, MAX_STEP_BYTES)
        yield part


def _zstd(data: Bytes, _limit: int) -> Iterator[bytes]:
    """Every frame; a declared size is ignored."""
    unpacker = getattr(_thread_state, "zstd", None)
    if unpacker is None:  # Making one takes as long as a post.
        unpacker = _thread_state.zstd = zstandard.ZstdDecompressor()
    with unpacker.stream_reader(data, read_across_frames=True) as reader:
        step = FIRST_READ_BYTES
        while part := reader.read(step):
            yield part
            step = min(2 * step, MAX_STEP_BYTES)


def _snappy(data: Bytes, limit: int) -> Iterator[bytes]:
    """The declared size is checked first."""
    room = limit
    for block in _snappy_blocks(data):
        size = cramjam.snappy.decompress_raw_len(block)
        room -= size
        if room < 0:
            raise too_large_batch(limit)
        yield bytes(cramjam.snappy.decompress_raw(block))


def _snappy_blocks(data: Bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    if len(view) <= XERIAL_HEADER_BYTES or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield view
        return
    start = XERIAL_HEADER_BYTES
    while start < len(view):
        (size,) = struct.unpack_from(">i", view, start)
        start += 4
        if not 0 < size <= len(view) - start:
            raise bad_batch(f"the record batch has a snappy block of {size} bytes, and not as many")
        yield view[start : start + size]
        start += size


CODECS: dict[int, Callable[[Bytes, int], Iterator[bytes]]] = {
    0: _copy, 1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd,
}  # fmt: skip
