"""Reads the posts of files for all commands. The first bytes of a file show its format."""

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path

import msgspec

from encoder.errors import InputError
from newsift.files.documents import json_items
from newsift.files.messages import FileMessage, FormatError, MessageMaker, ValueCorrector
from newsift.files.parquet import MAGIC, ParquetTable
from newsift.files.platforms import FORMATS as OBJECT_FORMATS
from newsift.files.platforms import ObjectReader, mend_escapes
from newsift.files.read import BOM, DASH, MAX_LINE_BYTES, chunks, find_files, lines, peek
from newsift.files.tables import (
    CP1252,
    TEXT_NAMES,
    FileOptions,
    PostColumns,
    Table,
    TableRow,
    likely_delimiter,
    normalise_name,
    text_messages,
)
from worker.config.limits import Limits
from worker.errors import RunError
from worker.posts.outcome import Reason, Rejected

AUTO, JSONL, JSON, CSV, TSV, PARQUET, LINES = (
    "auto", "jsonl", "json", "csv", "tsv", "parquet", "lines",
)  # fmt: skip
FORMATS = (AUTO, JSONL, JSON, CSV, TSV, *OBJECT_FORMATS, PARQUET, LINES)
BINARY_TYPES = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet; unpack it, or save it as CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet; save it as CSV",
    b"BZh": "packed by bzip2; unpack it",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"%PDF": "a PDF; give its text",
}
TAR_MAGIC, TAR_MAGIC_OFFSET = b"ustar", 257
PACKED_ENDINGS = (".gz", ".zst")
ARRAY_START = re.compile(rb'\[\s*+(?:[\[{\]"]|\Z)')
COLUMN_NAME = re.compile(r"\w[\w.:/ -]{0,59}")
MIN_COLUMNS = 3  # of a header without a usual name for the text
MAX_CHECKED_BYTES = 2**16  # of the first line
MAX_EXCERPT_CHARS = 60
NO_TIMES = "no column of times was found (--time-column NAME names it)"


class ExportKeys(msgspec.Struct):
    """The keys of exports that are one JSON document."""

    messages: msgspec.Raw = msgspec.Raw()
    orderedItems: msgspec.Raw = msgspec.Raw()
    chats: msgspec.Raw = msgspec.Raw()


def read_start(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The input up to its first line that is not blank, or more; and all pieces."""
    return peek(pieces, lambda piece, size: b"\n" in piece.lstrip() or size > MAX_LINE_BYTES)


def recognise_format(file: Path, raw_start: bytes, options: FileOptions) -> str:
    """jsonl, json, csv, tsv, parquet or lines."""
    start = raw_start.removeprefix(BOM).lstrip()
    if start.startswith(MAGIC) and options.format in (AUTO, PARQUET):
        return PARQUET
    _refuse_binary(raw_start)
    if not start:
        return LINES  # an empty file
    if options.format not in (AUTO, *OBJECT_FORMATS):
        return options.format
    if start.startswith(b"{"):
        return _format_of_objects(start)
    if ARRAY_START.match(start):
        return JSON
    if options.format == AUTO:
        return _format_of_text(file, start, options, first_line(raw_start))
    raise FormatError(f"is not understood ({_excerpt(start)}); --format {options.format} is JSON",
                      first_line(raw_start))  # fmt: skip


def first_line(start: bytes) -> str:
    blank = start[: len(start) - len(start.lstrip())]
    number = blank.count(b"\n") + 1
    return f"line {number}"


def _refuse_binary(start: bytes) -> None:
    for magic, description in BINARY_TYPES.items():
        if start.startswith(magic):
            raise FormatError(f"is {description}")
    if start[TAR_MAGIC_OFFSET:].startswith(TAR_MAGIC):
        raise FormatError("is a tar archive; unpack it")
    if b"\0" in start[:MAX_CHECKED_BYTES].partition(b"\n")[0]:
        raise FormatError("holds NUL bytes and is not text; convert it", first_line(start))


def _format_of_objects(start: bytes) -> str:
    """JSONL, unless the first object spans several lines or is an export."""
    first, *more = [line for line in start.split(b"\n")[:9] if line.strip()]
    if (keys := _export_keys(mend_escapes(first))) is not None:
        return JSON if keys.messages or keys.orderedItems or keys.chats else JSONL
    is_one_line = first.rstrip().endswith(b"}")
    is_one_line = is_one_line and all(line.startswith(b"{") for line in more[:1])
    are_others_objects = bool(more) and None not in map(_export_keys, more[:2])
    return JSONL if is_one_line or are_others_objects else JSON


def _export_keys(line: bytes) -> ExportKeys | None:
    try:
        return msgspec.json.decode(line, type=ExportKeys)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _format_of_text(file: Path, start: bytes, options: FileOptions, place: str) -> str:
    """A table has a header, a name or options; plain text has a name or is standard input."""
    suffixes = [suffix.lower() for suffix in reversed(file.suffixes)]
    ending = next((suffix for suffix in suffixes if suffix not in PACKED_ENDINGS), "")
    line = start.partition(b"\n")[0][:MAX_CHECKED_BYTES].decode("latin-1")
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
    if len(names) < 2 or not all(COLUMN_NAME.fullmatch(name) for name in names if name):
        return False
    has_text_column = any(normalise_name(name) in TEXT_NAMES for name in names)
    return has_text_column or (len(names) >= MIN_COLUMNS and " " not in line)


def _excerpt(start: bytes) -> str:
    line = start.partition(b"\n")[0]
    return repr(line[:MAX_EXCERPT_CHARS].decode("utf-8", "replace"))


STDIN = "stdin"
MAX_BAD_SHARE = 0.05  # of all rows
CHECKED_BATCHES = 2  # a small file is thus read to its end
HINTS = {
    Reason.NO_TEXT: "name what holds the text with --text-column",
    Reason.INVALID_UTF8: "convert it to UTF-8",
    Reason.UNKNOWN_FORM: "name what it is with --format, or what holds the text with --text-column",
}
ANY_HINT = "fix it, or name the format with --format"
SIZE_REASONS = (Reason.POST_BYTES, Reason.LIST_ITEMS, Reason.MARKS)  # of rows that may be posts
Batches = Iterator[list[FileMessage]]


class FileMessages:
    """The posts of one input, in batches as they arrive.

    Raises InputError for an input whose format is not recognised. A bad row becomes a rejected
    message. `report` gets messages such as which columns are read. With `blank`, empty lines of
    text become messages.
    """

    def __init__(
        self, file: Path, options: FileOptions, limits: Limits,
        report: Callable[[str], None] = lambda _: None, blank: bool = False, name: str = "",
    ) -> None:  # fmt: skip
        self.name = STDIN if file == DASH else name or file.name
        self._file, self._options, self._limits = file, options, limits
        self._report, self._blank = report, blank
        self._corrector = ValueCorrector(options.zone)
        self._reported = set[str]()
        self._sample: Batches | None = None  # the batches of an input that can be read only once
        self.columns: tuple[str, ...] = ()  # of a table; known after the first batch
        self.post_columns: PostColumns | None = None  # of a table: which of them make the post
        self.bytes_read = 0
        self.is_empty = False  # of a file that is checked: it has no row at all

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self._file != DASH and self._file.is_file()

    @property
    def size(self) -> int:
        """The number of bytes; 0 if the input is not a file."""
        return self._file.stat().st_size if self.is_file else 0

    def reopened(self) -> "FileMessages":
        """The same file, to be read beside this; its columns are known."""
        other = FileMessages(self._file, self._options, self._limits, name=self.name)
        other.check()
        return other

    def check(self) -> None:
        """Raises InputError if the input is not understood."""
        batches = self._checked_batches()
        first = list(islice(batches, CHECKED_BATCHES if self.is_file else 1))
        self.is_empty = self.is_file and not any(first) and not any(batches)
        self.bytes_read = 0
        if not self.is_file:
            self._sample = chain(first, batches)

    def __iter__(self) -> Generator[list[FileMessage], None, None]:
        batches, self._sample = self._sample, None
        is_empty = True
        try:
            for batch in batches if batches is not None else self._checked_batches():
                is_empty = is_empty and not batch
                yield batch
            if is_empty:
                self._report_once("is empty: it holds no row with a post")
        finally:
            for warning in self._corrector.warnings():
                self._report_once(warning)

    def _report_once(self, message: str) -> None:
        """A file may be read twice."""
        if message not in self._reported:
            self._reported.add(message)
            self._report(f"{self.name}: {message}")

    def _checked_batches(self) -> Batches:
        """Raises InputError if none of the first rows is understood."""
        try:
            is_understood, batches = False, self._batches()
            first = next(batches, [])
            if self.is_file and all(isinstance(m.reading, Rejected) for m in first):
                first += next(batches, [])  # a last line without an end is a batch of its own
            for batch in chain(filter(None, [first]), batches):
                is_understood = is_understood or self._is_understood(batch)
                yield batch
        except FormatError as error:
            raise InputError(f"{error.location(self._file)}: {error}") from error

    def _is_understood(self, batch: list[FileMessage]) -> bool:
        """Raises FormatError if the rows show that the format is another."""
        bad = [(m.place, m.reading) for m in batch if isinstance(m.reading, Rejected)]
        if len(bad) < len(batch):
            return True
        for place, rejected in bad:
            if rejected.reason not in SIZE_REASONS:
                problem, _, remedy = rejected.detail.partition("; ")
                remedy = remedy or HINTS.get(rejected.reason, ANY_HINT)
                raise FormatError(f"is not understood: {problem}; {remedy}", place)
        return False

    def _batches(self) -> Batches:
        self.bytes_read, self._corrector = 0, ValueCorrector(self._options.zone)

        def add_size(size: int) -> None:
            self.bytes_read += size

        pieces = chunks(self._file, add_size)
        start, pieces = read_start(pieces)
        format_ = recognise_format(self._file, start, self._options)
        if format_ == PARQUET:
            return self._parquet()
        if format_ in (JSON, JSONL):
            return self._objects(pieces, "item" if format_ == JSON else "line")
        batches = lines(pieces, carriage_returns=format_ in (CSV, TSV))
        if format_ == LINES:
            return text_messages(batches, self._maker(), self._blank)
        return self._table(Table(batches, "\t" if format_ == TSV else None))

    def _objects(self, pieces: Iterator[bytes], unit: str) -> Batches:
        objects = ObjectReader(self._maker(unit), self._options)
        for batch in json_items(pieces, unit):
            if messages := [message for row in batch for message in objects.messages(*row)]:
                yield messages

    def _table(self, table: Table) -> Batches:
        maker = self._maker()
        columns = self._columns_of(table.header, table.place)
        for rows in self._with_checked_ids(table.batches(), columns):
            if table.encoding == CP1252:
                self._report_once(f"its text is read as {CP1252}")
            yield [
                maker.rejected(row.number, row.raw, row.fault, Reason.WRONG_TYPE) if row.fault
                else maker.post(
                    columns.post(row.cells, maker.corrector), row.number, row.raw, row.cells
                )
                for row in rows
            ]  # fmt: skip

    def _parquet(self) -> Batches:
        maker = self._maker("row")
        table = ParquetTable(self._file)
        columns = self._columns_of(table.header)
        table.refuse_nested(columns.text)
        for rows in self._with_checked_ids(table.batches(), columns):
            self.bytes_read = self.size * rows[-1].number // table.rows
            yield [
                maker.rejected(row.number, b"", f"{row.fault}; split it", Reason.POST_BYTES)
                if row.fault
                else maker.post(
                    post := columns.post(row.cells, maker.corrector), row.number, post, row.cells
                )
                for row in rows
            ]

    def _with_checked_ids(
        self, batches: Iterator[list[TableRow]], columns: PostColumns
    ) -> Iterator[list[TableRow]]:
        # A last line without an end is a batch of its own.
        first = list(islice(batches, CHECKED_BATCHES if self.is_file else 1))
        columns.check_ids([row.cells for rows in first for row in rows], self._corrector)
        return chain(first, batches)

    def _maker(self, unit: str = "line") -> MessageMaker:
        return MessageMaker(self.name, self._limits, unit, self._corrector)

    def _columns_of(self, header: list[str], place: str = "") -> PostColumns:
        self.columns = tuple(header)  # first: they can be chosen among where none has the texts
        self.post_columns = columns = PostColumns.from_header(header, self._options, place)
        self._report_once(columns.describe())
        if columns.time is None and self._options.time is None:
            self._report_once(NO_TIMES)
        return columns


def open_inputs(
    files: Iterable[Path], options: FileOptions, limits: Limits,
    report: Callable[[str], None] = lambda _: None, blank: bool = False,
) -> list[FileMessages]:  # fmt: skip
    """Open the inputs. Raises InputError for one that is not understood."""
    sources = find_files(files)
    names = distinct_names(sources)
    inputs = [FileMessages(each, options, limits, report, blank, names[each]) for each in sources]
    for input_ in inputs:
        input_.check()
    return inputs


def distinct_names(files: Iterable[Path]) -> dict[Path, str]:
    """The name of each file, after as many folders as tell apart those of the same name."""
    by_name: dict[str, set[Path]] = defaultdict(set)
    for file in files:
        by_name[file.name].add(file)
    names: dict[Path, str] = {}
    for same in by_name.values():
        length = next(n for n in count(1) if len({file.parts[-n:] for file in same}) == len(same))
        names |= {file: str(Path(*file.parts[-length:])) for file in same}
    return names


def columns_of(inputs: Iterable[FileMessages]) -> list[str]:
    return list(dict.fromkeys(name for input_ in inputs for name in input_.columns))


def share_read(inputs: Sequence[FileMessages]) -> Callable[[object], float]:
    """A function that returns the share that was read; 0 if the size is unknown."""
    size = sum(i.size for i in inputs) if all(i.is_file for i in inputs) else 0
    return lambda _: sum(i.bytes_read for i in inputs) / size if size else 0.0


def refuse_many_bad(bad: int, rows: int) -> None:
    if bad > MAX_BAD_SHARE * rows:
        raise RunError(
            f"{bad:,} of {rows:,} rows could not be read, more than {MAX_BAD_SHARE:.0%}; "
            "fix them, or name the format with --format"
        )
