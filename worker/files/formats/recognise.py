"""What a file is, told by its first bytes; its name counts for tables and plain text alone."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from worker.files.formats.columns import SIGN, TEXTS, FileOptions
from worker.files.formats.objects import FORMATS as OF_OBJECTS
from worker.files.formats.parquet import MAGIC
from worker.files.formats.tables import likely_delimiter
from worker.files.formats.telegram import mended
from worker.files.messages import FormatError
from worker.files.read import BOM, DASH, LONGEST_LINE
from worker.files.unpack import begun

AUTO, JSONL, JSON, CSV, TSV, PARQUET, LINES = (
    "auto", "jsonl", "json", "csv", "tsv", "parquet", "lines",
)  # fmt: skip
FORMATS = (AUTO, JSONL, JSON, CSV, TSV, *OF_OBJECTS, PARQUET, LINES)
PACKED = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet; unpack it, or save it as CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet; save it as CSV",
    b"BZh": "packed by bzip2; unpack it",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"%PDF": "a PDF; give its text",
}
TAR, TAR_AT = b"ustar", 257
PACKERS = (".gz", ".zst")
ARRAY = re.compile(rb'\[\s*+(?:[\[{\]"]|\Z)')
NAME = re.compile(r"\w[\w.:/ -]{0,59}")
LEAST_COLUMNS = 3  # of a header that has no name for texts
LOOKED_AT = 2**16  # bytes of a line
TOLD = 60  # letters


class Whole(msgspec.Struct):
    """The keys of documents that are no post, however they are broken into lines."""

    messages: msgspec.Raw = msgspec.Raw()
    orderedItems: msgspec.Raw = msgspec.Raw()
    chats: msgspec.Raw = msgspec.Raw()


WHOLE = msgspec.json.Decoder(Whole)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file: at least a line, if it has one."""

    file: Path
    start: bytes

    @property
    def ending(self) -> str:
        """What the name of the file ends with, besides how it is packed."""
        suffixes = [suffix.lower() for suffix in self.file.suffixes]
        return next((suffix for suffix in reversed(suffixes) if suffix not in PACKERS), "")

    @property
    def is_text(self) -> bool:
        """Whether it may be plain text: by its name, or because it comes through a pipe."""
        return self.file == DASH or self.ending == ".txt"

    @property
    def is_table(self) -> bool:
        """Whether its name says that it is a table."""
        return self.ending in (".csv", ".tsv", ".tab")


def begun_with(file: Path, pieces: Iterator[bytes]) -> tuple[Head, Iterator[bytes]]:
    """The first chunks of a file, until there is a line, and all chunks."""
    start, pieces = begun(
        pieces, lambda piece, size: b"\n" in piece.lstrip() or size > LONGEST_LINE
    )
    return Head(file, start), pieces


def recognised(head: Head, wanted: FileOptions) -> str:
    """How a file is to be read: as jsonl, json, csv, tsv, parquet or lines."""
    start = head.start.removeprefix(BOM).lstrip()
    if start.startswith(MAGIC) and wanted.format in (AUTO, PARQUET):
        return PARQUET
    _refuse_binary(head.start)
    if not start:
        return LINES  # of which there are none
    if wanted.format not in (AUTO, *OF_OBJECTS):
        return wanted.format
    if start.startswith(b"{"):
        return _of_objects(start)
    if ARRAY.match(start):
        return JSON
    if wanted.format == AUTO:
        return _of_text(head, start, wanted)
    raise FormatError(f"is not understood ({_told(start)}); --format {wanted.format} is JSON",
                      first_line(head.start))  # fmt: skip


def first_line(start: bytes) -> str:
    """Where the first line is that holds anything."""
    blank = start[: len(start) - len(start.lstrip())]
    number = blank.count(b"\n") + 1
    return f"line {number}"


def _refuse_binary(start: bytes) -> None:
    for magic, told in PACKED.items():
        if start.startswith(magic):
            raise FormatError(f"is {told}")
    if start[TAR_AT:].startswith(TAR):
        raise FormatError("is a tar archive; unpack it")
    if b"\0" in start[:LOOKED_AT].partition(b"\n")[0]:
        raise FormatError("holds NUL bytes and is no text; convert it", first_line(start))


def _of_objects(start: bytes) -> str:
    """Objects line by line, unless the first one spans lines or is an export."""
    first, *more = [line for line in start.split(b"\n")[:9] if line.strip()]
    try:
        found = WHOLE.decode(mended(first))
    except (msgspec.MsgspecError, RecursionError):
        closed = first.rstrip().endswith(b"}") and all(line.startswith(b"{") for line in more[:1])
        others = bool(more) and all(map(_is_object, more[:2]))
        return JSONL if closed or others else JSON
    return JSON if found.messages or found.orderedItems or found.chats else JSONL


def _is_object(line: bytes) -> bool:
    try:
        WHOLE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _of_text(head: Head, start: bytes, wanted: FileOptions) -> str:
    """A table by its header, or plain text where that may be."""
    line = start.partition(b"\n")[0][:LOOKED_AT].decode("latin-1")
    if head.is_table or wanted.names_columns or _is_header(line):
        return TSV if head.ending in (".tsv", ".tab") and "\t" in line else CSV
    if head.is_text:
        return LINES
    told = f"is not understood ({_told(start)}); name what it is with --format, {LINES} for text"
    raise FormatError(told, first_line(head.start))


def _is_header(line: str) -> bool:
    """Whether a line names columns, so that nobody could take it for a post."""
    try:
        cells = next(csv.reader([line], delimiter=likely_delimiter(line)), [])
    except csv.Error:
        return False
    names = [cell.strip() for cell in cells]
    if len(names) < 2 or not all(NAME.fullmatch(name) for name in names if name):
        return False
    known = any(SIGN.sub("", name).lower() in TEXTS for name in names)
    return known or (len(names) >= LEAST_COLUMNS and " " not in line)


def _told(start: bytes) -> str:
    line = start.partition(b"\n")[0]
    return repr(line[:TOLD].decode("utf-8", "replace"))
