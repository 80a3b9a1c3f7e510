"""One reader of files, pipes and standard input: lines as they come, or a whole."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from encoder.errors import InputError
from encoder.support.files import without_waiting
from worker.files.unpack import DamagedError, unpacked_text

DASH = Path("-")  # standard input; where a command writes, standard output
CHUNK = 2**18
LONGEST_LINE = 16 * 2**20
LARGEST_FILE = 2**26  # of what is read whole
WRITER_S = 3.0  # that a pipe's writer may take to come
BOM = b"\xef\xbb\xbf"


def chunks(file: Path, passed: Callable[[int], object] = int) -> Iterator[bytes]:
    """The bytes of a file as they come, unpacked and in UTF-8 where it is UTF-16; never empty.

    `passed` is told how many were read, as they are in the file.
    """
    line = 0
    with _opened(file) as raw:
        try:
            for chunk in unpacked_text(_reads(raw, passed)):
                yield chunk
                line += chunk.count(b"\n")
        except DamagedError as error:
            name = "" if file == DASH else f"{file}: "
            said = f"{name}{error.what} after line {line}; {error.remedy}"
            raise InputError(said) from error
        except OSError as error:
            said = f"{input_name(file)}: cannot be read on after line {line} ({error.strerror})"
            raise InputError(said) from error


def lines(pieces: Iterator[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file without their ends: what one chunk brought, after the first's number.

    A line that is too long comes cut: long enough to be refused, so that memory stays bounded.
    """
    rest, number = bytearray(), 1
    for chunk in pieces:
        if b"\n" not in chunk:  # no byte of a long line is copied again and again
            rest += chunk if len(rest) <= LONGEST_LINE else b""
            continue
        *rows, last = (bytes(rest) + chunk).split(b"\n")
        rest = bytearray(last)
        yield number, _bare(rows, number)
        number += len(rows)
    if rest:
        yield number, _bare([bytes(rest)], number)


def each_line(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file one by one, each with its number."""
    for first, rows in lines(chunks(file)):
        yield from enumerate(rows, first)


def too_long(line: bytes) -> str | None:
    """What is wrong with a line that came cut, if it did."""
    if len(line) <= LONGEST_LINE:
        return None
    return f"is longer than {LONGEST_LINE >> 20} MiB; split it"


def read_whole(file: Path) -> bytes:
    """All bytes of a file, a pipe or standard input; what has no end, or too many, is refused."""
    try:
        if file == DASH:
            content = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with open(file, "rb", opener=without_waiting) as raw:
                content = _begun(file, raw.fileno())
                content += raw.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(file, error) from error
    if len(content) > LARGEST_FILE:
        raise InputError(f"{input_name(file)}: is larger than {LARGEST_FILE >> 20} MiB; split it")
    return content


def _begun(file: Path, handle: int) -> bytes:
    """The first bytes of a pipe, once there is somebody who writes to it."""
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
    """The text of a file, which has to be UTF-8."""
    return text_in(read_whole(file), input_name(file))


def text_in(content: bytes, name: str) -> str:
    """The text in the bytes of a file of this name, which have to be UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is not UTF-8 at byte {error.start + 1}; convert it") from error


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        opened = nullcontext(sys.stdin.buffer) if file == DASH else file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error
    with opened as raw:
        yield raw


def _reads(raw: BinaryIO, passed: Callable[[int], object]) -> Iterator[bytes]:
    while chunk := raw.read1(CHUNK):  # type: ignore[attr-defined]
        passed(len(chunk))
        yield chunk


def _bare(rows: list[bytes], number: int) -> list[bytes]:
    if number == 1:
        rows[0] = rows[0].removeprefix(BOM)
    return [row.removesuffix(b"\r") for row in rows]


def input_name(file: Path) -> str:
    """What an input is called in what is said of it."""
    return "standard input" if file == DASH else str(file)


def _unreadable(file: Path, error: OSError) -> InputError:
    return InputError(f"{file}: cannot be read ({error.strerror})")
