"""Reading of files, pipes and standard input: decompressed, in UTF-8, as lines or whole."""

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

MAX_PIECE_BYTES = 2**18  # of decompressed data
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_START = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame to skip, too
GZIP_WBITS = 31  # makes zlib expect gzip's header
ZSTD_STEP_BYTES = 2**10  # can unpack to 32 MiB at most
ZSTD_WINDOW_BYTES = 2**27  # of memory; zstd's own default
LONG_WINDOW_BYTES = 2**31  # used by some large dumps
MAX_LONG_RATIO = 100  # of unpacked to packed bytes with a long window; text has about 10
MAX_ZSTD_HEADER_BYTES = 18
BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
ZERO_PATTERNS = {"utf-16-le": [False, True] * 2, "utf-16-be": [True, False] * 2}
BOM_BYTES = 4
Pieces = Iterator[bytes]


class DamagedError(ValueError):
    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy = problem, remedy


def unpack_text(pieces: Pieces) -> Pieces:
    """Decompress, and convert to UTF-8; the first bytes show the formats."""
    head, pieces = peek(pieces, _has_bom_bytes)
    if head.startswith(GZIP_MAGIC):
        pieces = gunzip(pieces)
    elif ZSTD_START.match(head):
        pieces = _unzstd(pieces)
    # UTF-16 and UTF-32 have byte order marks; UTF-16 is also recognised by its zero bytes.
    head, pieces = peek(pieces, _has_bom_bytes)
    zeros = [byte == 0 for byte in head[:BOM_BYTES]]
    name = next((name for bom, name in BOMS.items() if head.startswith(bom)), None)
    name = name or next((name for name, pattern in ZERO_PATTERNS.items() if pattern == zeros), None)
    return pieces if name is None else _decode(pieces, name)


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


def _has_bom_bytes(_piece: bytes, size: int) -> bool:
    return size >= BOM_BYTES


def gunzip(pieces: Pieces) -> Pieces:
    """The input may have several members, and zeros as padding after them."""
    member = zlib.decompressobj(GZIP_WBITS)
    try:
        for data in pieces:
            out = bytearray()
            while data := data.lstrip(b"\0") if member.eof else data:
                if member.eof:
                    member = zlib.decompressobj(GZIP_WBITS)
                out += member.decompress(data, MAX_PIECE_BYTES - len(out))
                data = member.unused_data if member.eof else member.unconsumed_tail
                if len(out) == MAX_PIECE_BYTES:
                    yield bytes(out)
                    out.clear()
            yield from filter(None, [bytes(out)])
        while rest := member.decompress(b"", MAX_PIECE_BYTES):
            yield rest
    except zlib.error as error:
        raise _damaged_error("gzip") from error
    if not member.eof:
        raise _damaged_error("gzip")


def _unzstd(pieces: Pieces) -> Pieces:
    import zstandard

    head, pieces = peek(pieces, lambda _, size: size >= MAX_ZSTD_HEADER_BYTES)
    is_long = _window_bytes(head) > ZSTD_WINDOW_BYTES
    max_window = LONG_WINDOW_BYTES if is_long else ZSTD_WINDOW_BYTES
    decompressor = zstandard.ZstdDecompressor(max_window_size=max_window)
    frame = decompressor.decompressobj()
    bytes_read = bytes_out = 0
    try:
        for data in pieces:
            out = bytearray()
            for start in range(0, len(data), ZSTD_STEP_BYTES):
                bytes_read += ZSTD_STEP_BYTES
                if is_long and bytes_out > max(ZSTD_WINDOW_BYTES, MAX_LONG_RATIO * bytes_read):
                    ratio = f"{MAX_LONG_RATIO} times its size or more"
                    message = f"the zstd input has a long window and unpacks to {ratio}"
                    raise DamagedError(message, "unpack it with zstd -d --long=31")
                step = data[start : start + ZSTD_STEP_BYTES]
                while step:
                    frame = decompressor.decompressobj() if frame.eof else frame
                    out += frame.decompress(step)
                    step = frame.unused_data if frame.eof else b""
                while len(out) >= MAX_PIECE_BYTES:
                    bytes_out += MAX_PIECE_BYTES
                    yield bytes(out[:MAX_PIECE_BYTES])
                    del out[:MAX_PIECE_BYTES]
            yield from filter(None, [bytes(out)])
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            message = "the zstd input has a window that takes more memory than there is"
            raise DamagedError(message, "unpack it with zstd -d --long=31") from error
        raise _damaged_error("zstd") from error
    if not frame.eof:
        raise _damaged_error("zstd")


def _window_bytes(head: bytes) -> int:
    import zstandard

    try:
        return int(zstandard.get_frame_parameters(head).window_size)
    except zstandard.ZstdError:
        return 0


def _damaged_error(packer: str) -> DamagedError:
    return DamagedError(f"the {packer} input is damaged or cut off", "pack it again")


def _decode(pieces: Pieces, name: str) -> Pieces:
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for piece in pieces:
            yield from filter(None, [decoder.decode(piece).encode()])
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise DamagedError(f"the input is not {name.upper()}", "convert it to UTF-8") from error


DASH = Path("-")  # standard input; where a command writes, standard output
CHUNK_BYTES = 2**18
MAX_LINE_BYTES = 16 * 2**20
TOO_LONG = f"is longer than {MAX_LINE_BYTES >> 20} MiB"
MAX_FILE_BYTES = 2**26  # of a file that is read whole
MAX_WRITER_WAIT_S = 3.0  # for a process to open a pipe for writing
BOM = b"\xef\xbb\xbf"


def chunks(file: Path, on_read: Callable[[int], object] = int) -> Iterator[bytes]:
    """The content in non-empty chunks, decompressed and in UTF-8.

    `on_read` gets the number of bytes that were read from the file.
    """
    line = 0
    try:
        source = nullcontext(sys.stdin.buffer) if file == DASH else file.open("rb")
    except OSError as error:
        raise _read_error(file, error) from error
    with source as raw:
        try:
            for chunk in unpack_text(_reads(raw, on_read)):
                yield chunk
                line += chunk.count(b"\n")
        except DamagedError as error:
            name = "" if file == DASH else f"{file}: "
            message = f"{name}{error.problem} after line {line}; {error.remedy}"
            raise InputError(message) from error
        except OSError as error:
            message = f"{input_name(file)}: cannot be read after line {line} ({error.strerror})"
            raise InputError(message) from error


def lines(
    pieces: Iterator[bytes], carriage_returns: bool = False
) -> Iterator[tuple[int, list[bytes]]]:
    """The number of the first line of each chunk, and the lines without their ends.

    With `carriage_returns` they stay: in a quoted cell they belong to the text.
    Memory is bounded: a line that is too long is cut, but stays too long, so that it is refused.
    """
    rest, number = bytearray(), 1
    for chunk in pieces:
        if b"\n" not in chunk:  # the bytes of a long line are copied only once
            rest += chunk if len(rest) <= MAX_LINE_BYTES else b""
            continue
        *rows, last = (bytes(rest) + chunk).split(b"\n")
        rest = bytearray(last)
        yield number, _without_ends(rows, number, carriage_returns)
        number += len(rows)
    if rest:
        yield number, _without_ends([bytes(rest)], number, carriage_returns)


def too_long(line: bytes) -> str | None:
    """A message if the line is too long, else None."""
    if len(line) <= MAX_LINE_BYTES:
        return None
    return f"{TOO_LONG}; split it"


def read_whole(file: Path) -> bytes:
    """Raises InputError for a larger input than MAX_FILE_BYTES."""
    try:
        if file == DASH:
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with open(file, "rb", opener=without_waiting) as raw:
                content = _wait_for_writer(file, raw.fileno())
                content += raw.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _read_error(file, error) from error
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{input_name(file)}: is larger than {MAX_FILE_BYTES >> 20} MiB; split it")
    return content


def _wait_for_writer(file: Path, descriptor: int) -> bytes:
    """The first bytes of a pipe, once a process writes to it."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return b""
    if not stat.S_ISFIFO(mode):
        raise InputError(f"{file}: is not a regular file and no pipe")
    deadline = time.monotonic() + MAX_WRITER_WAIT_S
    while time.monotonic() < deadline:
        try:
            first = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # a writer has opened the pipe, and not yet written
            first = None
        if first != b"":
            os.set_blocking(descriptor, True)
            return first or b""
        time.sleep(0.01)
    raise InputError(f"{file}: no process writes to this pipe; give a file")


def read_text(file: Path) -> str:
    return text_in(read_whole(file), input_name(file))


def text_in(content: bytes, name: str) -> str:
    """Raises InputError for bytes that are not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is not UTF-8 at byte {error.start + 1}; convert it") from error


def _reads(raw: BinaryIO, on_read: Callable[[int], object]) -> Iterator[bytes]:
    while chunk := raw.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        on_read(len(chunk))
        yield chunk


def _without_ends(rows: list[bytes], number: int, carriage_returns: bool) -> list[bytes]:
    if number == 1:
        rows[0] = rows[0].removeprefix(BOM)
    return rows if carriage_returns else [row.removesuffix(b"\r") for row in rows]


def input_name(file: Path) -> str:
    return "standard input" if file == DASH else str(file)


def _read_error(file: Path, error: OSError) -> InputError:
    return InputError(f"{file}: cannot be read ({error.strerror})")


ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt", ".parquet")
PACKED_ENDINGS = ("", ".gz", ".zst")
DEEP_WILDCARD = re.compile(r"(?:(?<=/)|^)\*\*(?:/|$)")  # in a pattern: this folder and all below
SUFFIXES = tuple(ending + packing for ending in ENDINGS for packing in PACKED_ENDINGS)


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(file for path in paths for file in _expand(path))


def glob_files(pattern: str) -> Iterator[str]:
    """The paths of a pattern; ** does not follow links, which may form a circle."""
    before, *after = DEEP_WILDCARD.split(pattern, 1)
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
        for match in matches:
            yield from _expand(match)
    elif path != DASH and path.is_dir():
        files = sorted(map(Path, files_in_folder(str(path))))
        if not files:
            raise InputError(f"{path}: holds no file of posts ({', '.join(ENDINGS)}, .gz, .zst)")
        yield from files
    else:
        yield path


def files_in_folder(folder: str) -> Iterator[str]:
    """The files with a known ending in a folder and its subfolders, without hidden ones."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(place, name)  # noqa: PTH118 - a hundred thousand of them
