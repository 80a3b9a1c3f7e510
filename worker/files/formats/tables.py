"""CSV and TSV: rows under a header, their cells by the names of their columns."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from worker.files.encodings import Letters
from worker.files.messages import FormatError
from worker.files.read import LONGEST_LINE

DELIMITERS = ",;\t|"
QUOTED = re.compile(r'"[^"]*+"?')
MOST_COLUMNS = 1000
LONGEST_CELL = 2**20  # letters
SEPARATOR = "sep="  # Excel's own first line: sep=;
CUT = "unexpected end of data"  # what the reader says of a file that ends inside quotes
BARE_RETURN = "new-line character seen in unquoted field"
Lines = Iterator[tuple[int, list[bytes]]]


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the number of its first line, its bytes, and its cells, or why it has none."""

    number: int
    raw: bytes
    cells: dict[str, str]
    fault: str = ""


class LineFeed:
    """Hands lines to the reader of CSV, and remembers those of the row that is being read."""

    def __init__(self, batches: Lines) -> None:
        self.letters = Letters()
        self.pending = self.number = 0
        self.taken: list[bytes] = []
        self.fault, self._size = "", 0
        self._lines = self._each(batches)

    def __iter__(self) -> "LineFeed":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken.append(line)
        self._size += len(line)
        if self._size > LONGEST_LINE:
            self.refuse("a row is longer than 16 MiB, or a quote is never closed")
        try:
            return self.letters.text(line) + "\n"
        except ValueError as error:
            self.fault = self.fault or str(error)
            return line.decode("latin-1").replace("\0", "\ufffd") + "\n"

    def forget(self) -> None:
        """A row begins."""
        self.taken, self.fault, self._size = [], "", 0

    def refuse(self, what: str) -> None:
        """Refuse the whole table, naming where the row began."""
        raise FormatError(f"{what}; mend it", f"line {self.first}")

    @property
    def first(self) -> int:
        """The number of the first line of the row."""
        return self.number - len(self.taken) + 1

    def _each(self, batches: Lines) -> Iterator[bytes]:
        for first, rows in batches:
            self.letters.look(rows)
            self.pending = len(rows)
            for self.number, line in enumerate(rows, first):
                self.pending -= 1
                yield line


class Table:
    """A table as its lines come: the header at once, the rows in batches."""

    def __init__(self, batches: Lines, delimiter: str | None = None) -> None:
        csv.field_size_limit(LONGEST_CELL)
        first, batches = _first_line(batches)
        self._feed = LineFeed(batches)
        if first.lower().startswith(SEPARATOR) and len(first) == len(SEPARATOR) + 1:
            delimiter = first[-1]
            next(self._feed)
        self._reader = csv.reader(
            self._feed, delimiter=delimiter or likely_delimiter(first), strict=True
        )
        self.header = self._header()
        self.place = f"line {self._feed.first}"  # of the header

    @property
    def encoding(self) -> str | None:
        """The encoding of the letters that are not ASCII, once there were any."""
        return self._feed.letters.encoding

    def batches(self) -> Iterator[list[TableRow]]:
        """The rows, as many at a time as have arrived."""
        found: list[TableRow] = []
        while (cells := self._cells()) is not None:
            found.extend(self._rows(cells))
            if not self._feed.pending:
                yield found
                found = []
        if found:
            yield found

    def _header(self) -> list[str]:
        cells = self._cells() or []
        if self._feed.fault:
            self._feed.refuse(f"{self._feed.fault}, and should be a header")
        if len(cells) > MOST_COLUMNS:
            self._feed.refuse(f"has {len(cells):,} columns, more than {MOST_COLUMNS:,}")
        return unique(cells)

    def _cells(self) -> list[str] | None:
        """The cells of the next row; none of one that is no CSV, which the feed knows then."""
        self._feed.forget()
        try:
            return next(self._reader, None)
        except csv.Error as error:
            told = str(error)
            if told == CUT:
                self._feed.refuse("a quote that opens here is never closed")
            if told.startswith("field larger"):
                self._feed.refuse("a cell is too large, or its quote is never closed")
            if told.startswith(BARE_RETURN):
                told = "a carriage return alone ends no line; save it with line feeds"
            self._feed.fault = self._feed.fault or f"is no CSV ({told})"
            return []

    def _rows(self, cells: list[str]) -> Iterator[TableRow]:
        """The row; where it is none, each of the lines that were taken for it."""
        feed = self._feed
        fault = feed.fault
        if cells and not fault and len(cells) != len(self.header):
            fault = f"has {len(cells):,} cells, the header {len(self.header):,}"
        if fault:
            for number, line in enumerate(feed.taken, feed.first):
                yield TableRow(number, line, {}, fault)
        elif cells:
            row = dict(zip(self.header, cells, strict=True))
            yield TableRow(feed.first, b"\n".join(feed.taken), row)


def likely_delimiter(header: str) -> str:
    """What stands most often between the cells of a header."""
    bare = QUOTED.sub("", header)
    return max(DELIMITERS, key=bare.count)


def unique(header: Sequence[str]) -> list[str]:
    """The names of columns, each once: what has none or an earlier one's is named by its place."""
    names: dict[str, None] = {}
    for number, cell in enumerate(header, 1):
        name = bare = cell.strip() or f"column {number}"
        while name in names:
            name, number = f"{bare} ({number})", number + 1
        names[name] = None
    return list(names)


def _first_line(batches: Lines) -> tuple[str, Lines]:
    """The first line that is not blank, and all from there on."""
    for number, rows in batches:
        at = next((at for at, row in enumerate(rows) if row.strip()), None)
        if at is not None:
            line = rows[at].decode("latin-1").strip(" \r")
            return line, chain([(number + at, rows[at:])], batches)
    return "", iter(())
