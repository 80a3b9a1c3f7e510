"""Which format a file gets: told by the ending of its name."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from encoder.errors import InputError
from worker.errors import OutputError
from worker.files.out.delimited import csv_table, tsv_table
from worker.files.out.json_records import json_array, json_lines
from worker.files.out.parquet import check_parquet, parquet_table
from worker.files.out.rows import Add, Finding, Layout
from worker.files.out.sqlite import check_fts5, database
from worker.files.write import PACKERS, Guard, concluded, is_replaced, target

Format = Callable[[IO[bytes], Layout], AbstractContextManager[Add]]

FORMATS: Mapping[str, Format] = {
    ".csv": csv_table,
    ".tsv": tsv_table,
    ".jsonl": json_lines,
    ".json": json_array,
    ".parquet": parquet_table,
    ".db": database,
}
UNPACKED = (parquet_table, database)  # packed by themselves, or opened in place


def format_by_ending(path: Path) -> Format | None:
    """The format that a file's name asks for, packed or not; None where it says nothing."""
    name = Path(path.name.lower())
    packed = name.suffix in PACKERS
    return FORMATS.get(Path(name.stem).suffix if packed else name.suffix)


def check_format(option: str, path: Path) -> None:
    """Refuse, before any work, what the format of this file cannot do here."""
    form, named = format_by_ending(path), f"{option} {path}"
    if form in UNPACKED and path.suffix.lower() in PACKERS:
        raise InputError(f"{named}: is packed by itself, if at all; leave {path.suffix} out")
    if form is database and not is_replaced(path):
        raise InputError(f"{named}: a database cannot be written through; name a regular file")
    if form is database:
        check_fts5(named)
    if form is parquet_table:
        check_parquet(named)


def keeping(
    path: Path, form: Format, layout: Layout, guard: Guard = nullcontext
) -> AbstractContextManager[Add]:
    """What adds records to a file; it takes the old one's place at the end, or on Ctrl-C.

    A regular file is whole: the guard keeps an interrupt from what writes to it. What is written
    through may wait for its reader, and has to end.
    """
    if not is_replaced(path):
        guard = nullcontext
    return concluded(_kept(path, form, layout, guard), guard)


@contextmanager
def _kept(path: Path, form: Format, layout: Layout, guard: Guard) -> Iterator[Add]:
    try:
        with target(path) as out, form(out, layout) as add:

            def at_once(found: Sequence[Finding]) -> None:
                with guard():
                    add(found)
                    out.flush()

            yield at_once
    except sqlite3.Error as error:
        raise OutputError(f"{path}: cannot be written ({error})") from error
