"""One reader of files, pipes and standard input: found, unpacked, as lines or whole."""

import codecs
import glob
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from encoder.errors import InputError
from encoder.support.files import without_waiting

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
ZEROS = {"utf-16-le": [False, True] * 2, "utf-16-be": [True, False] * 2}
MARK_BYTES = 4
Pieces = Iterator[bytes]


class DamagedError(ValueError):
    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what, self.remedy = what, remedy


def unpacked_text(pieces: Pieces) -> Pieces:
    """Decompressed and in UTF-8, as the first bytes tell."""
    head, pieces = peek(pieces, _has_mark)
    if head.startswith(GZIP_MAGIC):
        pieces = gunzipped(pieces)
    elif head.startswith(ZSTD_MAGIC):
        pieces = _unzstd(pieces)
    return _in_utf8(pieces)


def peek(pieces: Pieces, enough: Callable[[bytes, int], bool]) -> tuple[bytes, Pieces]:
    """The first pieces until `enough`, joined, and all pieces."""
    pieces_read: list[bytes] = []
    size = 0
    for piece in pieces:
        pieces_read.append(piece)
        size += len(piece)
        if enough(piece, size):
            break
    return b"".join(pieces_read), chain(pieces_read, pieces)


def _has_mark(_piece: bytes, size: int) -> bool:
    return size >= MARK_BYTES


def gunzipped(packed: Pieces) -> Pieces:
    """One member or several; zeros after them are padding."""
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
    import zstandard

    head, packed = peek(packed, lambda _, size: size >= ZSTD_HEADER)
    is_long = _window(head) > ZSTD_WINDOW
    packer = zstandard.ZstdDecompressor(max_window_size=LONG_WINDOW if is_long else ZSTD_WINDOW)
    frame = packer.decompressobj()
    bytes_read = unpacked = 0
    try:
        for data in packed:
            out = bytearray()
            for start in range(0, len(data), ZSTD_STEP):
                bytes_read += ZSTD_STEP
                if is_long and unpacked > max(ZSTD_WINDOW, LONG_RATIO * bytes_read):
                    message = (
                        f"the zstd input has a long window and unpacks {LONG_RATIO} times and more"
                    )
                    raise DamagedError(message, "unpack it with zstd -d --long=31")
                step = data[start : start + ZSTD_STEP]
                while step:
                    frame = packer.decompressobj() if frame.eof else frame
                    out += frame.decompress(step)
                    step = frame.unused_data if frame.eof else b""
                while len(out) >= PIECE:
                    unpacked += PIECE
                    yield bytes(out[:PIECE])
                    del out[:PIECE]
            yield from filter(None, [bytes(out)])
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            message = "the zstd input has a window that takes more memory than there is"
            raise DamagedError(message, "unpack it with zstd -d --long=31") from error
        raise _damaged("zstd") from error
    if not frame.eof:
        raise _damaged("zstd")


def _window(head: bytes) -> int:
    import zstandard

    try:
        return int(zstandard.get_frame_parameters(head).window_size)
    except zstandard.ZstdError:
        return 0


def _damaged(packer: str) -> DamagedError:
    return DamagedError(f"the {packer} input is damaged or cut off", "pack it again")


def _in_utf8(pieces: Pieces) -> Pieces:
    """UTF-16 and UTF-32 by their marks, UTF-16 also by the zeros of two letters."""
    head, pieces = peek(pieces, _has_mark)
    zeros = [byte == 0 for byte in head[:MARK_BYTES]]
    name = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    name = name or next((name for name, pattern in ZEROS.items() if pattern == zeros), None)
    return pieces if name is None else _decode(pieces, name)


def _decode(pieces: Pieces, name: str) -> Pieces:
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for piece in pieces:
            yield from filter(None, [decoder.decode(piece).encode()])
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise DamagedError(f"the input is not {name.upper()}", "convert it to UTF-8") from error


DASH = Path("-")  # standard input; where a command writes, standard output
CHUNK = 2**18
MAX_LINE_BYTES = 16 * 2**20
MAX_FILE_BYTES = 2**26  # of what is read whole
WRITER_S = 3.0  # that a pipe's writer may take to come
BOM = b"\xef\xbb\xbf"


def chunks(file: Path, on_read: Callable[[int], object] = int) -> Iterator[bytes]:
    """Decompressed, in UTF-8, never empty.

    `on_read` is called with the number of bytes read from the file.
    """
    line = 0
    try:
        source = nullcontext(sys.stdin.buffer) if file == DASH else file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error
    with source as raw:
        try:
            for chunk in unpacked_text(_reads(raw, on_read)):
                yield chunk
                line += chunk.count(b"\n")
        except DamagedError as error:
            name = "" if file == DASH else f"{file}: "
            message = f"{name}{error.what} after line {line}; {error.remedy}"
            raise InputError(message) from error
        except OSError as error:
            message = f"{input_name(file)}: cannot be read on after line {line} ({error.strerror})"
            raise InputError(message) from error


def lines(pieces: Iterator[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of each chunk without their ends, after the number of the first.

    A line that is too long is cut, but still too long, so that it is refused in bounded memory.
    """
    rest, number = bytearray(), 1
    for chunk in pieces:
        if b"\n" not in chunk:  # no byte of a long line is copied again and again
            rest += chunk if len(rest) <= MAX_LINE_BYTES else b""
            continue
        *rows, last = (bytes(rest) + chunk).split(b"\n")
        rest = bytearray(last)
        yield number, _without_ends(rows, number)
        number += len(rows)
    if rest:
        yield number, _without_ends([bytes(rest)], number)


def too_long(line: bytes) -> str | None:
    """The message for a line that was cut."""
    if len(line) <= MAX_LINE_BYTES:
        return None
    return f"is longer than {MAX_LINE_BYTES >> 20} MiB; split it"


def read_whole(file: Path) -> bytes:
    """Raises InputError for an input that is too large."""
    try:
        if file == DASH:
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with open(file, "rb", opener=without_waiting) as raw:
                content = _wait_for_writer(file, raw.fileno())
                content += raw.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(file, error) from error
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{input_name(file)}: is larger than {MAX_FILE_BYTES >> 20} MiB; split it")
    return content


def _wait_for_writer(file: Path, handle: int) -> bytes:
    """The first bytes of a pipe, once somebody writes to it."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return b""
    if not stat.S_ISFIFO(mode):
        raise InputError(f"{file}: is no regular file and no pipe")
    ends = time.monotonic() + WRITER_S
    while time.monotonic() < ends:
        try:
            first = os.read(handle, CHUNK)
        except BlockingIOError:  # somebody is there, and takes his time
            first = None
        if first != b"":
            os.set_blocking(handle, True)
            return first or b""
        time.sleep(0.01)
    raise InputError(f"{file}: nobody writes to this pipe; give a file")


def read_text(file: Path) -> str:
    """Raises InputError for a file that is not UTF-8."""
    return text_in(read_whole(file), input_name(file))


def text_in(content: bytes, name: str) -> str:
    """Raises InputError for bytes that are not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is not UTF-8 at byte {error.start + 1}; convert it") from error


def _reads(raw: BinaryIO, on_read: Callable[[int], object]) -> Iterator[bytes]:
    while chunk := raw.read1(CHUNK):  # type: ignore[attr-defined]
        on_read(len(chunk))
        yield chunk


def _without_ends(rows: list[bytes], number: int) -> list[bytes]:
    if number == 1:
        rows[0] = rows[0].removeprefix(BOM)
    return [row.removesuffix(b"\r") for row in rows]


def input_name(file: Path) -> str:
    return "standard input" if file == DASH else str(file)


def _unreadable(file: Path, error: OSError) -> InputError:
    return InputError(f"{file}: cannot be read ({error.strerror})")


ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt", ".parquet")
PACKED = ("", ".gz", ".zst")
DEEP = re.compile(r"(?:(?<=/)|^)\*\*(?:/|$)")  # in a pattern: this folder and all below
SUFFIXES = tuple(ending + packed for ending in ENDINGS for packed in PACKED)


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(file for path in paths for file in _expand(path))


def glob_files(pattern: str) -> Iterator[str]:
    """The paths of a pattern; ** does not follow links, which may form a circle."""
    before, *after = DEEP.split(pattern, 1)
    if not after:
        yield from glob.iglob(pattern)  # noqa: PTH207 - any path
        return
    for folder in glob.iglob(before) if before else ["."]:  # noqa: PTH207
        for place, folders, _ in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from glob_files(f"{glob.escape(place)}/{after[0] or '*'}")


def _expand(path: Path) -> Iterator[Path]:
    if path != DASH and not path.exists() and glob.has_magic(str(path)):
        matches = sorted(set(map(Path, glob_files(str(path)))))
        if not matches:
            raise InputError(f"{path}: there is no such file; fix the pattern")
        for each in matches:
            yield from _expand(each)
    elif path != DASH and path.is_dir():
        files = sorted(map(Path, files_inside(str(path))))
        if not files:
            raise InputError(f"{path}: holds no file of posts ({', '.join(ENDINGS)}, .gz, .zst)")
        yield from files
    else:
        yield path


def files_inside(folder: str) -> Iterator[str]:
    """The files with a known ending in a folder and below, without hidden ones."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(place, name)  # noqa: PTH118 - a hundred thousand of them
