"""Bytes as they come, unpacked where they are gzip or zstd, and in UTF-8 where they are UTF-16."""

import codecs
import zlib
from collections.abc import Callable, Iterator
from itertools import chain

PIECE = 2**18  # bytes at most, however far they expand
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
GZIP_WRAPPER = 31
ZSTD_STEP = 2**10  # bytes that can unpack to 32 MiB at once, and not to more
ZSTD_WINDOW = 2**27  # bytes that have to stay in memory; zstd's own default
LONG_WINDOW = 2**31  # of the largest dumps there are
LONG_RATIO = 100  # what such a dump may unpack to, as often as its own size: text has a tenth of it
ZSTD_HEADER = 18  # bytes at most
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
TOLD_BY = 4  # bytes
Pieces = Iterator[bytes]


class DamagedError(ValueError):
    """Bytes that cannot be unpacked or decoded: which, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what, self.remedy = what, remedy


def unpacked_text(pieces: Pieces) -> Pieces:
    """The bytes of a text, told by the first ones how they are packed and in which letters."""
    head, pieces = begun(pieces, _tells)
    if head.startswith(GZIP_MAGIC):
        pieces = _gunzipped(pieces)
    elif head.startswith(ZSTD_MAGIC):
        pieces = _unzstd(pieces)
    return _in_utf8(pieces)


def begun(pieces: Pieces, enough: Callable[[bytes, int], bool]) -> tuple[bytes, Pieces]:
    """The first bytes, up to a piece that makes enough with so many in all, and all pieces."""
    taken: list[bytes] = []
    size = 0
    for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if enough(piece, size):
            break
    return b"".join(taken), chain(taken, pieces)


def _tells(_piece: bytes, size: int) -> bool:
    return size >= TOLD_BY


def _gunzipped(packed: Pieces) -> Pieces:
    """What gzip packed, in one member or several; zeros behind them are padding."""
    member = zlib.decompressobj(GZIP_WRAPPER)
    try:
        for data in packed:
            out = bytearray()
            while data := data.lstrip(b"\0") if member.eof else data:
                if member.eof:
                    member = zlib.decompressobj(GZIP_WRAPPER)
                out += member.decompress(data, PIECE - len(out))
                data = member.unused_data if member.eof else member.unconsumed_tail
                if len(out) == PIECE:
                    yield bytes(out)
                    out.clear()
            yield from filter(None, [bytes(out)])
        while rest := member.decompress(b"", PIECE):
            yield rest
    except zlib.error as error:
        raise _damaged("gzip") from error
    if not member.eof:
        raise _damaged("gzip")


def _unzstd(packed: Pieces) -> Pieces:
    """What zstd packed, in one frame or several."""
    import zstandard

    head, packed = begun(packed, lambda _, size: size >= ZSTD_HEADER)
    is_long = _window(head) > ZSTD_WINDOW
    packer = zstandard.ZstdDecompressor(max_window_size=LONG_WINDOW if is_long else ZSTD_WINDOW)
    frame = packer.decompressobj()
    taken = made = 0
    try:
        for data in packed:
            out = bytearray()
            for start in range(0, len(data), ZSTD_STEP):
                taken += ZSTD_STEP
                if is_long and made > max(ZSTD_WINDOW, LONG_RATIO * taken):
                    told = (
                        f"the zstd input has a long window and unpacks {LONG_RATIO} times and more"
                    )
                    raise DamagedError(told, "unpack it with zstd -d --long=31")
                step = data[start : start + ZSTD_STEP]
                while step:
                    frame = packer.decompressobj() if frame.eof else frame
                    out += frame.decompress(step)
                    step = frame.unused_data if frame.eof else b""
                while len(out) >= PIECE:
                    made += PIECE
                    yield bytes(out[:PIECE])
                    del out[:PIECE]
            yield from filter(None, [bytes(out)])
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            told = "the zstd input has a window that takes more memory than there is"
            raise DamagedError(told, "unpack it with zstd -d --long=31") from error
        raise _damaged("zstd") from error
    if not frame.eof:
        raise _damaged("zstd")


def _window(head: bytes) -> int:
    """The bytes that the first frame wants to refer back to."""
    import zstandard

    try:
        return int(zstandard.get_frame_parameters(head).window_size)
    except zstandard.ZstdError:
        return 0


def _damaged(packer: str) -> DamagedError:
    return DamagedError(f"the {packer} input is damaged or cut off", "pack it anew")


def _in_utf8(pieces: Pieces) -> Pieces:
    """The text in UTF-8 where its first bytes tell that it is UTF-16, else as it is."""
    head, pieces = begun(pieces, _tells)
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    name = marked or _unmarked(head)
    return pieces if name is None else _decoded(pieces, name)


def _unmarked(head: bytes) -> str | None:
    """UTF-16 without its mark, by the zero in each of its first two letters."""
    zeros = [byte == 0 for byte in head[:TOLD_BY]]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False, True, False] else None


def _decoded(pieces: Pieces, name: str) -> Pieces:
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for piece in pieces:
            yield from filter(None, [decoder.decode(piece).encode()])
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise DamagedError(f"the input is not {name.upper()}", "convert it to UTF-8") from error
