"""Texts from a file or a pipe: plain lines or JSON lines, gzip or not, one row at a time."""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from encoder.errors import InputError
from worker.cli.common import say

LONGEST_LINE = 16 * 2**20
GZIP_MAGIC = b"\x1f\x8b"
FORMATS = ("auto", "lines", "jsonl")


@dataclass(frozen=True, slots=True)
class Row:
    """One text of the input, with the id and the title that came with it."""

    text: str
    title: str = ""
    id: object = None
    size: int = 0  # bytes of the line


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that holds no text, and why."""

    line: int
    reason: str


@contextmanager
def opened(file: Path | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input, unpacked if they are gzip."""
    try:
        source = _stdin() if file is None else file.open("rb")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    with source as raw:
        packed = raw.peek(2)[:2] == GZIP_MAGIC
        yield cast(BinaryIO, gzip.GzipFile(fileobj=raw) if packed else raw)


def _stdin() -> AbstractContextManager[BufferedReader]:
    if sys.stdin.isatty():
        say("reading one text a line; Ctrl-D on an empty line ends it")
    return nullcontext(cast(BufferedReader, sys.stdin.buffer))


def read_rows(stream: BinaryIO, form: str = "auto", field: str = "text") -> Iterator[Row | BadRow]:
    """Every row of the stream in order; `auto` takes a first line that begins with { as JSON."""
    for number, line in _lines(stream):
        if form == "auto":
            form = "jsonl" if line.lstrip().startswith(b"{") else "lines"
        if form == "jsonl" and not line.strip():
            continue
        try:
            yield _row(line, form, field)
        except ValueError as error:
            yield BadRow(number, str(error))


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Every line without its end, numbered from 1; one that is too long comes cut, not whole."""
    number = 0
    try:
        while line := stream.readline(LONGEST_LINE + 1):
            number += 1
            rest = line
            while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
                rest = stream.readline(LONGEST_LINE + 1)
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"the gzip input is damaged after line {number}; pack it anew") from error
    except OSError as error:
        raise InputError(f"the input ends after line {number} ({error.strerror})") from error


def _row(line: bytes, form: str, field: str) -> Row:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"is longer than {LONGEST_LINE >> 20} MiB; split it")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start + 1}; convert the file") from None
    return Row(text, size=len(line)) if form == "lines" else _json_row(text, field, len(line))


def _json_row(line: str, field: str, size: int) -> Row:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON; mend it, or use --format lines for plain text") from None
    if not isinstance(value, dict):
        raise ValueError('is no JSON object; write {"text": …}, or use --format lines')
    text, title = value.get(field), value.get("title") or ""
    if not isinstance(text, str):
        raise ValueError(f"has no text under {field!r}; name its key with --field")
    if not isinstance(title, str):
        raise ValueError("has a 'title' that is no text; write it as a string")
    return Row(text, title, value.get("id"), size)
