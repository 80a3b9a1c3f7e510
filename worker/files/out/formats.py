"""Which format a file gets: told by the ending of its name."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from worker.files.read import DASH
from worker.files.write import PACKERS, Guard, concluded, is_replaced, target, writing

Format = Callable[[IO[bytes], Layout], AbstractContextManager[Add]]

FORMATS: Mapping[str, Format] = {
    ".csv": csv_table,
    ".tsv": tsv_table,
    ".jsonl": json_lines,
    ".json": json_array,
    ".parquet": parquet_table,
    ".db": database,
}
TEXTS = (".csv", ".tsv", ".jsonl", ".json")  # what may be packed
UNKNOWN = ("", ".txt")  # endings that say nothing: JSON lines
UNPACKED = (parquet_table, database)  # packed by themselves, or opened in place


def format_by_ending(path: Path) -> Format | None:
    """The format that a file's name asks for, packed or not; None where it says nothing."""
    name = Path(path.name.lower())
    packed = name.suffix in PACKERS
    return FORMATS.get(Path(name.stem).suffix if packed else name.suffix)


def check_ending(option: str, path: Path, endings: Collection[str] = tuple(FORMATS)) -> None:
    """Refuse a regular file whose name ends otherwise; without an ending, or .txt, it says none."""
    name = Path(path.name.lower())
    packed = name.suffix in PACKERS
    ending = Path(name.stem).suffix if packed else name.suffix
    allowed = [each for each in endings if each in TEXTS] if packed else [*endings, *UNKNOWN]
    if path == DASH or not is_replaced(path) or ending in allowed:
        return
    packers = " and ".join(PACKERS)
    raise InputError(
        f"{option} {path}: is of no known format; end it with {' '.join(endings)} "
        f"({packers} after {' '.join(each for each in endings if each in TEXTS)})"
    )


@contextmanager
def json_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """What takes records of JSON: a line each, and in a file whose name ends with .json an array"""
    is_array, before = format_by_ending(path) is json_array, b"[\n"
    with writing(path) as out:

        def add(record: bytes) -> None:
            nonlocal before
            out.write(before + record if is_array else record + b"\n")
            before = b",\n"

        yield add
        if is_array:
            out.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def check_format(option: str, path: Path) -> None:
    """Refuse, before any work, what the format of this file cannot do here."""
    form, named = format_by_ending(path), f"{option} {path}"
    if form in UNPACKED and path.suffix.lower() in PACKERS:
        raise InputError(f"{named}: is packed by itself, if at all; leave {path.suffix} out")
    check_ending(option, path)
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
