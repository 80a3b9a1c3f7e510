"""Matches in files: CSV, TSV, JSON lines, JSON and Parquet, or a database, chosen by the ending."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec

from encoder.errors import InputError
from newsift.files.read import DASH
from newsift.files.rows import (
    AddRecords,
    Cell,
    Layout,
    OutputRecord,
    clean_cell,
    csv_row,
    json_line,
)
from newsift.files.sqlite import check_fts5, database
from newsift.files.write import (
    COMPRESSORS,
    Guard,
    end_on_interrupt,
    is_replaced,
    is_terminal,
    open_output,
    open_target,
)
from worker.errors import OutputError


@contextmanager
def _table(out: IO[bytes], layout: Layout, delimiter: str) -> Iterator[AddRecords]:
    for_terminal, newsift_count = is_terminal(out), len(layout.newsift_names)

    def line(cells: Sequence[Cell]) -> bytes:
        row = csv_row(cells[:newsift_count], for_terminal, delimiter, cells[newsift_count:])
        return row.encode("utf-8", "replace")

    def add(records: Sequence[OutputRecord]) -> None:
        for record in records:
            for row in layout.rows(record):  # not a list, as each row repeats the post's text
                out.write(line(row))

    out.write(line(layout.names))
    yield add


csv_table = partial(_table, delimiter=",")
tsv_table = partial(_table, delimiter="\t")


@contextmanager
def _json_records(out: IO[bytes], is_array: bool) -> Iterator[Callable[[bytes], object]]:
    separator = b"[\n"

    def add(value: bytes) -> None:
        nonlocal separator
        out.write(separator + value if is_array else value + b"\n")
        separator = b",\n"

    yield add
    if is_array:
        out.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


@contextmanager
def _json(out: IO[bytes], layout: Layout, is_array: bool) -> Iterator[AddRecords]:
    """The records as the worker wrote them, or with `per` "match" a flat object for each match."""
    with _json_records(out, is_array) as write:

        def add(records: Sequence[OutputRecord]) -> None:
            for value in _objects(records, layout):
                write(value)

        yield add


json_lines = partial(_json, is_array=False)
json_array = partial(_json, is_array=True)


def _objects(records: Sequence[OutputRecord], layout: Layout) -> Iterator[bytes]:
    for record in records:
        if layout.per != "match":
            value = record.value
            if record.columns:
                value = value.rstrip()[:-1] + b',"columns":' + _encode_cells(record.columns) + b"}"
            yield json_line(value)
            continue
        for row in layout.rows(record):
            yield json_line(_encode_cells(dict(zip(layout.names, row, strict=True))))


def _encode_cells(cells: Mapping[str, Cell]) -> bytes:
    return msgspec.json.encode({clean_cell(name): clean_cell(cell) for name, cell in cells.items()})


MIN_GROUP_CELLS = 2**18
MIN_GROUP_CHARS = 2**24
PARQUET_NUMBERS = {"score": "float64", "threshold": "float64", "matched": "int64", "line": "int64"}


@contextmanager
def parquet_table(out: IO[bytes], layout: Layout) -> Iterator[AddRecords]:
    """The numbers in newsift's columns are numbers; all other cells are text."""
    import pyarrow.parquet

    types = [PARQUET_NUMBERS.get(name, "string") for name in layout.newsift_names]
    types += ["string"] * len(layout.user_columns)
    schema = pyarrow.schema(list(zip(layout.names, types, strict=True)))
    group, characters = list[list[Cell]](), 0
    with pyarrow.parquet.ParquetWriter(out, schema) as writer:

        def write_group() -> None:
            columns = zip(zip(*group, strict=True), schema, strict=True)
            arrays = [pyarrow.array(cells, field.type) for cells, field in columns]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            group.clear()

        def add(records: Sequence[OutputRecord]) -> None:
            nonlocal characters
            for row in chain.from_iterable(map(layout.rows, records)):
                group.append([clean_cell(cell) for cell in row])
                characters += sum(len(cell) for cell in row if isinstance(cell, str))
                if len(group) * len(row) >= MIN_GROUP_CELLS or characters >= MIN_GROUP_CHARS:
                    write_group()
                    characters = 0

        yield add
        if group:
            write_group()


def check_parquet(option: str) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{option}: Parquet needs pyarrow: pip install 'newsift[parquet]', or name a file that "
            "ends in .csv, .jsonl or .db"
        ) from error


Format = Callable[[IO[bytes], Layout], AbstractContextManager[AddRecords]]

FORMATS: Mapping[str, Format] = {
    ".csv": csv_table,
    ".tsv": tsv_table,
    ".jsonl": json_lines,
    ".json": json_array,
    ".parquet": parquet_table,
    ".db": database,
}
TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".json")  # files with them may be compressed
JSON_LINES_ENDINGS = ("", ".txt")  # besides .jsonl
UNCOMPRESSED_FORMATS = (parquet_table, database)


def _ending(path: Path) -> tuple[str, bool]:
    """The ending in lower case without .gz or .zst, and whether there was one of these."""
    name = Path(path.name.lower())
    is_compressed = name.suffix in COMPRESSORS
    return (Path(name.stem).suffix if is_compressed else name.suffix), is_compressed


def format_by_ending(path: Path) -> Format | None:
    """None for an ending that names no format."""
    return FORMATS.get(_ending(path)[0])


def check_ending(option: str, path: Path, endings: Collection[str] = tuple(FORMATS)) -> None:
    """Raises InputError for a regular file with an unknown ending."""
    ending, is_compressed = _ending(path)
    texts = [e for e in endings if e in TEXT_ENDINGS]
    if path == DASH or not is_replaced(path) or ending in texts:
        return
    if not is_compressed and ending in (*endings, *JSON_LINES_ENDINGS):
        return
    raise InputError(
        f"{option} {path}: is of no known format; end it with {' '.join(endings)} "
        f"({' and '.join(COMPRESSORS)} after {' '.join(texts)})"
    )


@contextmanager
def json_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Writes JSON lines, or an array if the name ends in .json."""
    is_array = format_by_ending(path) is json_array
    with open_output(path) as out, _json_records(out, is_array) as add:
        yield add


def check_format(option: str, path: Path) -> None:
    """Raises InputError if this format cannot be written to this file."""
    format_, target = format_by_ending(path), f"{option} {path}"
    if format_ in UNCOMPRESSED_FORMATS and path.suffix.lower() in COMPRESSORS:
        raise InputError(f"{target}: cannot be compressed; leave {path.suffix} out")
    check_ending(option, path)
    if format_ is database and not is_replaced(path):
        raise InputError(f"{target}: a database must be a regular file; name one")
    if format_ is database:
        check_fts5(target)
    if format_ is parquet_table:
        check_parquet(target)


def record_writer(
    path: Path, format_: Format, layout: Layout, guard: Guard = nullcontext
) -> AbstractContextManager[AddRecords]:
    """Yields a function that adds records. The file is replaced at the end, or after Ctrl-C.

    `guard` defers interrupts during writes to a regular file. A device or pipe may block, so
    writes to it stay interruptible.
    """
    if not is_replaced(path):
        guard = nullcontext
    return end_on_interrupt(_open_writer(path, format_, layout, guard), guard)


@contextmanager
def _open_writer(path: Path, format_: Format, layout: Layout, guard: Guard) -> Iterator[AddRecords]:
    try:
        with open_target(path) as out, format_(out, layout) as add:

            def add_guarded(records: Sequence[OutputRecord]) -> None:
                with guard():
                    add(records)
                    out.flush()

            yield add_guarded
    except sqlite3.Error as error:
        raise OutputError(f"{path}: cannot be written ({error})") from error
