"""The posts of files, whatever they are: one reader for every command that takes files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from encoder.errors import InputError
from worker.config import Limits
from worker.errors import RunError
from worker.files.encodings import WINDOWS
from worker.files.find import found_files
from worker.files.formats import recognise
from worker.files.formats.columns import FileOptions, Picked
from worker.files.formats.documents import items
from worker.files.formats.objects import Objects
from worker.files.formats.parquet import ParquetTable
from worker.files.formats.recognise import begun_with, recognised
from worker.files.formats.tables import Table
from worker.files.formats.text import text_messages
from worker.files.messages import FileMessage, FormatError, Maker
from worker.files.oddities import Oddities
from worker.files.read import DASH, chunks, lines
from worker.posts.outcome import Reason, Rejected

STDIN = "stdin"
MOST_BAD = 0.05  # of all rows
BATCHES_CHECKED = 2  # so that small files are read to their ends
HINTS = {
    Reason.NO_TEXT: "name what holds the text with --text-column",
    Reason.INVALID_UTF8: "convert it to UTF-8",
    Reason.UNKNOWN_FORM: "name what it is with --format, or what holds the text with --text-column",
}
TOO_MUCH = (Reason.POST_BYTES, Reason.LIST_ITEMS, Reason.MARKS)  # of what may be a post
Batches = Iterator[list[FileMessage]]


class FileMessages:
    """The posts of one input, as many at a time as have arrived.

    What is not understood is refused with its first line; a row that is bad by itself says why.
    `tell` is told once how a table is read. With `blank` lines of text without a letter come too.
    """

    def __init__(
        self, file: Path, wanted: FileOptions, limits: Limits,
        tell: Callable[[str], None] = lambda _: None, blank: bool = False,
    ) -> None:  # fmt: skip
        self.name = STDIN if file == DASH else file.name
        self._file, self._wanted, self._limits = file, wanted, limits
        self._tell, self._blank = tell, blank
        self._is_windows = False
        self._oddities = Oddities(wanted.zone)
        self._warnings = set[str]()
        self._begun: Batches | None = None
        self.columns: tuple[str, ...] = ()  # of a table, once it was looked at
        self.passed = 0  # bytes of the file that were read

    @property
    def is_file(self) -> bool:
        """Whether it can be read again."""
        return self._file != DASH and self._file.is_file()

    @property
    def size(self) -> int:
        """The bytes of a file; 0 of what has no end to be known."""
        return self._file.stat().st_size if self.is_file else 0

    def check(self) -> None:
        """Refuse the input now if it is not understood; what only comes once is kept."""
        batches = self._understood()
        begun = list(islice(batches, BATCHES_CHECKED if self.is_file else 1))
        self.passed = 0
        if not self.is_file:
            self._begun = chain(begun, batches)

    def __iter__(self) -> Batches:
        begun, self._begun = self._begun, None
        try:
            yield from begun if begun is not None else self._understood()
        finally:
            for warning in self._oddities.warnings():
                if warning not in self._warnings:  # a file may be read twice
                    self._warnings.add(warning)
                    self._tell(f"{self.name}: {warning}")

    def _understood(self) -> Batches:
        """The rows, refused where none of the first ones is understood."""
        try:
            understood, batches = False, self._batches()
            first = next(batches, [])
            if self.is_file and all(isinstance(each.found, Rejected) for each in first):
                first += next(batches, [])  # a last line without an end comes by itself
            for batch in chain(filter(None, [first]), batches):
                understood = understood or self._is_understood(batch)
                yield batch
        except FormatError as error:
            raise InputError(f"{error.at(self._file)}: {error}") from error

    def _is_understood(self, batch: list[FileMessage]) -> bool:
        """Whether these first rows show what the input is; refused where they show it is not."""
        bad = [(each.place, each.found) for each in batch if isinstance(each.found, Rejected)]
        if len(bad) < len(batch):
            return True
        for place, found in bad:
            if found.reason not in TOO_MUCH:
                hint = HINTS.get(found.reason, "mend it, or name what it is with --format")
                raise FormatError(f"is not understood: {found.detail}; {hint}", place)
        return False

    def _batches(self) -> Batches:
        self.passed, self._oddities = 0, Oddities(self._wanted.zone)
        pieces = chunks(self._file, self._pass)
        head, pieces = begun_with(self._file, pieces)
        kind = recognised(head, self._wanted)
        if kind == recognise.PARQUET:
            return self._parquet()
        if kind == recognise.JSON:
            return self._documents(pieces)
        batches = lines(pieces)
        if kind == recognise.LINES:
            return text_messages(batches, self._maker(), self._blank)
        if kind == recognise.JSONL:
            return self._objects(batches)
        return self._table(Table(batches, "\t" if kind == recognise.TSV else None))

    def _objects(self, batches: Iterator[tuple[int, list[bytes]]]) -> Batches:
        objects = Objects(self._maker(), self._wanted)
        for first, rows in batches:
            numbered = ((number, row) for number, row in enumerate(rows, first) if row.strip())
            if found := [m for number, row in numbered for m in objects.messages(row, number)]:
                yield found

    def _documents(self, pieces: Iterator[bytes]) -> Batches:
        objects = Objects(self._maker("item"), self._wanted)
        number = 0
        for batch in items(pieces):
            numbered = list(enumerate(batch, number + 1))
            number += len(batch)
            if found := [
                m for n, item in numbered for m in objects.messages(item.value, n, item.around)
            ]:
                yield found

    def _table(self, table: Table) -> Batches:
        maker = self._maker()
        picked = self._picked(table.header, table.place)
        for rows in table.batches():
            if table.encoding == WINDOWS and not self._is_windows:
                self._is_windows = True
                self._tell(f"{self.name}: its letters are read as {WINDOWS}")
            yield [
                maker.bad(row.number, row.raw, row.fault, Reason.WRONG_TYPE) if row.fault
                else maker.post(
                    picked.post(row.cells, maker.oddities), row.number, row.raw, row.cells
                )
                for row in rows
            ]  # fmt: skip

    def _parquet(self) -> Batches:
        maker = self._maker("row")
        table = ParquetTable(self._file)
        picked = self._picked(table.header)
        table.refuse_nested(picked.text)
        number = 0
        for rows in table.batches():
            self.passed = self.size * (number + len(rows)) // table.rows
            yield [
                maker.bad(n, b"", "is longer than 16 MiB; split it", Reason.POST_BYTES)
                if row is None
                else maker.post(post := picked.post(row, maker.oddities), n, post, row)
                for n, row in enumerate(rows, number + 1)
            ]
            number += len(rows)

    def _maker(self, unit: str = "line") -> Maker:
        return Maker(self.name, self._limits, unit, self._oddities)

    def _pass(self, count: int) -> None:
        self.passed += count

    def _picked(self, header: list[str], place: str = "") -> Picked:
        picked = Picked.among(header, self._wanted, place)
        if not self.columns:
            self._tell(f"{self.name}: {picked.told()}")
        self.columns = tuple(header)
        return picked


def checked(
    files: Iterable[Path], wanted: FileOptions, limits: Limits,
    tell: Callable[[str], None] = lambda _: None, blank: bool = False,
) -> list[FileMessages]:  # fmt: skip
    """The inputs that are meant, each refused now if it is not understood."""
    inputs = [FileMessages(file, wanted, limits, tell, blank) for file in found_files(files)]
    for each in inputs:
        each.check()
    return inputs


def columns_of(inputs: Iterable[FileMessages]) -> list[str]:
    """The columns of all tables among inputs that were looked at, each name once."""
    return list(dict.fromkeys(name for each in inputs for name in each.columns))


def share_read(inputs: Sequence[FileMessages]) -> Callable[[object], float]:
    """What tells how much of the inputs was read; 0 where nobody knows how much there is."""
    size = sum(each.size for each in inputs) if all(each.is_file for each in inputs) else 0
    return lambda _: sum(each.passed for each in inputs) / size if size else 0.0


def refuse_many_bad(bad: int, rows: int) -> None:
    """Fail, now that all is done, where more rows were bad than one may overlook."""
    if bad > MOST_BAD * rows:
        raise RunError(
            f"{bad:,} of {rows:,} rows could not be read, more than {MOST_BAD:.0%}; "
            "mend them, or name what they are with --format"
        )
