"""The posts of files: one reader for all commands; the first bytes show the format."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec

from encoder.errors import InputError
from newsift.files.documents import items
from newsift.files.messages import FileMessage, FormatError, Maker, Oddities
from newsift.files.parquet import MAGIC, ParquetTable
from newsift.files.platforms import FORMATS as OBJECT_FORMATS
from newsift.files.platforms import Objects, mend_escapes
from newsift.files.read import BOM, DASH, MAX_LINE_BYTES, chunks, find_files, lines, peek
from newsift.files.tables import (
    CP1252,
    TEXTS,
    FileOptions,
    PostColumns,
    Table,
    likely_delimiter,
    normalised,
    text_messages,
)
from worker.config.limits import Limits
from worker.errors import RunError
from worker.posts.outcome import Reason, Rejected

AUTO, JSONL, JSON, CSV, TSV, PARQUET, LINES = (
    "auto", "jsonl", "json", "csv", "tsv", "parquet", "lines",
)  # fmt: skip
FORMATS = (AUTO, JSONL, JSON, CSV, TSV, *OBJECT_FORMATS, PARQUET, LINES)
REFUSED_KINDS = {
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
MIN_COLUMNS = 3  # of a header without a known name for texts
CHECKED_BYTES = 2**16  # of a line
EXCERPT_CHARACTERS = 60


class ExportKeys(msgspec.Struct):
    """The keys of exports that are one JSON document."""

    messages: msgspec.Raw = msgspec.Raw()
    orderedItems: msgspec.Raw = msgspec.Raw()
    chats: msgspec.Raw = msgspec.Raw()


EXPORT_KEYS = msgspec.json.Decoder(ExportKeys)


def read_start(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first line that is not blank and what precedes it, or more; and all chunks."""
    return peek(pieces, lambda piece, size: b"\n" in piece.lstrip() or size > MAX_LINE_BYTES)


def recognise_format(file: Path, whole_start: bytes, options: FileOptions) -> str:
    """The format of a file: jsonl, json, csv, tsv, parquet or lines."""
    start = whole_start.removeprefix(BOM).lstrip()
    if start.startswith(MAGIC) and options.format in (AUTO, PARQUET):
        return PARQUET
    _refuse_binary(whole_start)
    if not start:
        return LINES  # an empty file
    if options.format not in (AUTO, *OBJECT_FORMATS):
        return options.format
    if start.startswith(b"{"):
        return _format_of_objects(start)
    if ARRAY.match(start):
        return JSON
    if options.format == AUTO:
        return _format_of_text(file, start, options, first_line(whole_start))
    raise FormatError(f"is not understood ({_excerpt(start)}); --format {options.format} is JSON",
                      first_line(whole_start))  # fmt: skip


def first_line(start: bytes) -> str:
    blank = start[: len(start) - len(start.lstrip())]
    number = blank.count(b"\n") + 1
    return f"line {number}"


def _refuse_binary(start: bytes) -> None:
    for magic, kind in REFUSED_KINDS.items():
        if start.startswith(magic):
            raise FormatError(f"is {kind}")
    if start[TAR_AT:].startswith(TAR):
        raise FormatError("is a tar archive; unpack it")
    if b"\0" in start[:CHECKED_BYTES].partition(b"\n")[0]:
        raise FormatError("holds NUL bytes and is no text; convert it", first_line(start))


def _format_of_objects(start: bytes) -> str:
    """Objects line by line, unless the first spans lines or is an export."""
    first, *more = [line for line in start.split(b"\n")[:9] if line.strip()]
    try:
        document = EXPORT_KEYS.decode(mend_escapes(first))
    except (msgspec.MsgspecError, RecursionError):
        closed = first.rstrip().endswith(b"}") and all(line.startswith(b"{") for line in more[:1])
        others = bool(more) and all(map(_is_object, more[:2]))
        return JSONL if closed or others else JSON
    return JSON if document.messages or document.orderedItems or document.chats else JSONL


def _is_object(line: bytes) -> bool:
    try:
        EXPORT_KEYS.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _format_of_text(file: Path, start: bytes, options: FileOptions, place: str) -> str:
    """A table by its header, or plain text by the name or through a pipe."""
    suffixes = [suffix.lower() for suffix in reversed(file.suffixes)]
    ending = next((suffix for suffix in suffixes if suffix not in PACKERS), "")
    line = start.partition(b"\n")[0][:CHECKED_BYTES].decode("latin-1")
    if ending in (".csv", ".tsv", ".tab") or options.names_columns or _is_header(line):
        return TSV if ending in (".tsv", ".tab") and "\t" in line else CSV
    if file == DASH or ending == ".txt":
        return LINES
    message = (
        f"is not understood ({_excerpt(start)}); name what it is with --format, {LINES} for text"
    )
    raise FormatError(message, place)


def _is_header(line: str) -> bool:
    try:
        cells = next(csv.reader([line], delimiter=likely_delimiter(line)), [])
    except csv.Error:
        return False
    names = [cell.strip() for cell in cells]
    if len(names) < 2 or not all(NAME.fullmatch(name) for name in names if name):
        return False
    has_text_column = any(normalised(name) in TEXTS for name in names)
    return has_text_column or (len(names) >= MIN_COLUMNS and " " not in line)


def _excerpt(start: bytes) -> str:
    line = start.partition(b"\n")[0]
    return repr(line[:EXCERPT_CHARACTERS].decode("utf-8", "replace"))


STDIN = "stdin"
MAX_BAD = 0.05  # of all rows
BATCHES_CHECKED = 2  # so that small files are read to their ends
HINTS = {
    Reason.NO_TEXT: "name what holds the text with --text-column",
    Reason.INVALID_UTF8: "convert it to UTF-8",
    Reason.UNKNOWN_FORM: "name what it is with --format, or what holds the text with --text-column",
}
TOO_LARGE = (Reason.POST_BYTES, Reason.LIST_ITEMS, Reason.MARKS)  # yet it may be a post
Batches = Iterator[list[FileMessage]]


class FileMessages:
    """The posts of one input, in batches as they arrive.

    Raises InputError for an input whose format is not recognised; a single bad row gives a rejected
    message. `report` receives how a table is read. With `blank`, empty lines of text are messages.
    """

    def __init__(
        self, file: Path, options: FileOptions, limits: Limits,
        report: Callable[[str], None] = lambda _: None, blank: bool = False,
    ) -> None:  # fmt: skip
        self.name = STDIN if file == DASH else file.name
        self._file, self._options, self._limits = file, options, limits
        self._report, self._blank = report, blank
        self._is_windows = False
        self._oddities = Oddities(options.zone)
        self._warnings = set[str]()
        self._first: Batches | None = None
        self.columns: tuple[str, ...] = ()  # of a table, after its header was read
        self.bytes_read = 0

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self._file != DASH and self._file.is_file()

    @property
    def size(self) -> int:
        """0 if the input is no file."""
        return self._file.stat().st_size if self.is_file else 0

    def check(self) -> None:
        """Raises InputError if the input is not understood."""
        batches = self._checked_batches()
        first = list(islice(batches, BATCHES_CHECKED if self.is_file else 1))
        self.bytes_read = 0
        if not self.is_file:
            self._first = chain(first, batches)

    def __iter__(self) -> Batches:
        first, self._first = self._first, None
        try:
            yield from first if first is not None else self._checked_batches()
        finally:
            for warning in self._oddities.warnings():
                if warning not in self._warnings:  # a file may be read twice
                    self._warnings.add(warning)
                    self._report(f"{self.name}: {warning}")

    def _checked_batches(self) -> Batches:
        """Raises InputError if none of the first rows is understood."""
        try:
            understood, batches = False, self._batches()
            first = next(batches, [])
            if self.is_file and all(isinstance(each.reading, Rejected) for each in first):
                first += next(batches, [])  # a last line without an end comes by itself
            for batch in chain(filter(None, [first]), batches):
                understood = understood or self._is_understood(batch)
                yield batch
        except FormatError as error:
            raise InputError(f"{error.at(self._file)}: {error}") from error

    def _is_understood(self, batch: list[FileMessage]) -> bool:
        """Raises FormatError if the rows show that the format is another."""
        bad = [(each.place, each.reading) for each in batch if isinstance(each.reading, Rejected)]
        if len(bad) < len(batch):
            return True
        for place, rejected in bad:
            if rejected.reason not in TOO_LARGE:
                hint = HINTS.get(rejected.reason, "fix it, or name the format with --format")
                raise FormatError(f"is not understood: {rejected.detail}; {hint}", place)
        return False

    def _batches(self) -> Batches:
        self.bytes_read, self._oddities = 0, Oddities(self._options.zone)

        def count(size: int) -> None:
            self.bytes_read += size

        pieces = chunks(self._file, count)
        start, pieces = read_start(pieces)
        kind = recognise_format(self._file, start, self._options)
        if kind == PARQUET:
            return self._parquet()
        if kind == JSON:
            return self._documents(pieces)
        batches = lines(pieces)
        if kind == LINES:
            return text_messages(batches, self._maker(), self._blank)
        if kind == JSONL:
            return self._objects(batches)
        return self._table(Table(batches, "\t" if kind == TSV else None))

    def _objects(self, batches: Iterator[tuple[int, list[bytes]]]) -> Batches:
        objects = Objects(self._maker(), self._options)
        for first, rows in batches:
            numbered = ((number, row) for number, row in enumerate(rows, first) if row.strip())
            if messages := [m for number, row in numbered for m in objects.messages(row, number)]:
                yield messages

    def _documents(self, pieces: Iterator[bytes]) -> Batches:
        objects = Objects(self._maker("item"), self._options)
        number = 0
        for batch in items(pieces):
            numbered = list(enumerate(batch, number + 1))
            number += len(batch)
            if messages := [
                m for n, item in numbered for m in objects.messages(item.value, n, item.prefix)
            ]:
                yield messages

    def _table(self, table: Table) -> Batches:
        maker = self._maker()
        columns = self._columns_of(table.header, table.place)
        for rows in table.batches():
            if table.encoding == CP1252 and not self._is_windows:
                self._is_windows = True
                self._report(f"{self.name}: its letters are read as {CP1252}")
            yield [
                maker.bad(row.number, row.raw, row.fault, Reason.WRONG_TYPE) if row.fault
                else maker.post(
                    columns.post(row.cells, maker.oddities), row.number, row.raw, row.cells
                )
                for row in rows
            ]  # fmt: skip

    def _parquet(self) -> Batches:
        maker = self._maker("row")
        table = ParquetTable(self._file)
        columns = self._columns_of(table.header)
        table.refuse_nested(columns.text)
        number = 0
        for rows in table.batches():
            self.bytes_read = self.size * (number + len(rows)) // table.rows
            yield [
                maker.bad(n, b"", "is longer than 16 MiB; split it", Reason.POST_BYTES)
                if row is None
                else maker.post(post := columns.post(row, maker.oddities), n, post, row)
                for n, row in enumerate(rows, number + 1)
            ]
            number += len(rows)

    def _maker(self, unit: str = "line") -> Maker:
        return Maker(self.name, self._limits, unit, self._oddities)

    def _columns_of(self, header: list[str], place: str = "") -> PostColumns:
        columns = PostColumns.from_header(header, self._options, place)
        if not self.columns:
            self._report(f"{self.name}: {columns.describe()}")
        self.columns = tuple(header)
        return columns


def open_inputs(
    files: Iterable[Path], options: FileOptions, limits: Limits,
    report: Callable[[str], None] = lambda _: None, blank: bool = False,
) -> list[FileMessages]:  # fmt: skip
    """Open the inputs. Raises InputError for one that is not understood."""
    inputs = [FileMessages(file, options, limits, report, blank) for file in find_files(files)]
    for each in inputs:
        each.check()
    return inputs


def columns_of(inputs: Iterable[FileMessages]) -> list[str]:
    return list(dict.fromkeys(name for each in inputs for name in each.columns))


def share_read(inputs: Sequence[FileMessages]) -> Callable[[object], float]:
    """The share of the inputs that was read; 0 if their size is unknown."""
    size = sum(each.size for each in inputs) if all(each.is_file for each in inputs) else 0
    return lambda _: sum(each.bytes_read for each in inputs) / size if size else 0.0


def refuse_many_bad(bad: int, rows: int) -> None:
    """Raises RunError if too many rows were bad."""
    if bad > MAX_BAD * rows:
        raise RunError(
            f"{bad:,} of {rows:,} rows could not be read, more than {MAX_BAD:.0%}; "
            "fix them, or name the format with --format"
        )
