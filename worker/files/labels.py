"""Labels in files: rows of CSV or lines of JSON, as `newsift labels export` writes them.

Columns have the names that `newsift matches --csv` gives them: such a file with a column `label`
can be read. Whatever a row says of how it was drawn, it is given: only who draws knows the chances.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec

from encoder.errors import InputError, one_line
from worker.config import Limits
from worker.files.cells import csv_row, plain
from worker.files.formats.columns import FileOptions
from worker.files.formats.documents import items
from worker.files.formats.parquet import ParquetTable
from worker.files.formats.recognise import JSON, JSONL, PARQUET, begun_with, recognised
from worker.files.formats.tables import Table
from worker.files.matches import OF_POST, json_line
from worker.files.messages import FormatError
from worker.files.out.delimited import csv_table, tsv_table
from worker.files.out.formats import TEXTS, format_by_ending, json_file
from worker.files.read import chunks, lines, too_long
from worker.files.write import writing
from worker.judge.labels import Label, Verdict, label_in

VERDICTS = get_args(Verdict)
SHOWN = 60  # letters of what is no label
ENDINGS = TEXTS  # of files that labels are written to
NAMES = ("event", "label", "by", "at")
DRAWN = ("drawn", "probability", "score", "seed_set", "model")
CSV_COLUMNS = (*NAMES, "platform", "post_id", *OF_POST, *DRAWN)
NEEDED = ("event", "label", "post_id")
ANY_TABLE = FileOptions(text="label")  # what is no JSON has a header
WANTED = (
    '{"event", "label", "post": {"id", "platform", "text"}, "by"?}, or CSV with these columns: '
    f"{', '.join(CSV_COLUMNS)}"
)


@dataclass(frozen=True, slots=True)
class GivenBy:
    """Who is taken to have said what a file names nobody for, and when."""

    by: str
    at: str


def read_labels(file: Path, given: GivenBy, limits: Limits) -> dict[bytes, Label]:
    """The labels in a file by their keys; the first row that is not understood is refused.

    Rows of CSV without a label are still to be labelled, and left out.
    """
    found: dict[bytes, Label] = {}
    for place, row in _rows(file):
        where = f"{file}, {place}"
        label = _label(row, given, limits, where)
        if label.key in found:
            raise InputError(
                f"{where}: {label.by!r} judged this post in a line before; leave one of the two"
            )
        found[label.key] = label
    if not found:
        raise InputError(f"{file}: holds no label; each line is {WANTED}")
    return found


def label_record(label: Label) -> bytes:
    """A label as JSON on one line."""
    return json_line(label.value)


def label_row(label: Label, delimiter: str = ",") -> bytes:
    """A label as a row of CSV, or of TSV."""
    said = [getattr(label, name) for name in NAMES]
    post = [label.post.platform, label.post.id, *(getattr(label.post, name) for name in OF_POST)]
    rest = [getattr(label, name) for name in DRAWN]
    return csv_row([*said, *post, *rest], delimiter=delimiter).encode("utf-8", "replace")


@contextmanager
def label_writer(file: Path) -> Iterator[Callable[[Label], object]]:
    """What takes the labels of a file: CSV or TSV by its ending, else JSON."""
    form = format_by_ending(file)
    if form not in (csv_table, tsv_table):
        with json_file(file) as add:
            yield lambda label: add(label_record(label))
        return
    delimiter = "," if form is csv_table else "\t"
    with writing(file) as out:
        out.write(csv_row(CSV_COLUMNS, delimiter=delimiter).encode())
        yield lambda label: out.write(label_row(label, delimiter))


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file, each with where it stands; the first one that is none is refused."""
    try:
        head, pieces = begun_with(file, chunks(file))
        kind = recognised(head, ANY_TABLE)
        if kind == JSON:
            values = (item.value for batch in items(pieces) for item in batch)
            yield from _of_json("item", enumerate(values, 1))
        elif kind == JSONL:
            batches = lines(pieces)
            yield from _of_json(
                "line", (row for n, batch in batches for row in enumerate(batch, n))
            )
        elif kind == PARQUET:
            yield from _of_parquet(ParquetTable(file))
        elif head.start.strip():
            yield from _of_table(Table(lines(pieces)))
    except FormatError as error:
        raise InputError(f"{error.at(file)}: {error}") from None


def _of_json(
    unit: str, values: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, value in values:
        if not value.strip():
            continue
        try:
            row = json.loads(value)
        except UnicodeDecodeError as error:
            told = f"is not UTF-8 at byte {error.start + 1}; convert the file"
            raise FormatError(told, f"{unit} {number}") from None
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise FormatError(too_long(value) or f"is not {WANTED}", f"{unit} {number}")
        yield f"{unit} {number}", row


def _of_table(table: Table) -> Iterator[tuple[str, dict[str, Any]]]:
    _check_header(table.header, table.place)
    for row in chain.from_iterable(table.batches()):
        if row.fault:
            raise FormatError(f"{row.fault}; mend it", f"line {row.number}")
        yield from _labelled(row.cells, f"line {row.number}")


def _of_parquet(table: ParquetTable) -> Iterator[tuple[str, dict[str, Any]]]:
    _check_header(table.header, "")
    for number, row in enumerate(chain.from_iterable(table.batches()), 1):
        if row is None:
            raise FormatError("is longer than 16 MiB; split it", f"row {number}")
        yield from _labelled(row, f"row {number}")


def _check_header(header: Sequence[str], place: str) -> None:
    if missing := [name for name in NEEDED if name not in header]:
        needed = ", ".join(NEEDED)
        told = f"has no column {missing[0]!r}; needed are {needed}, or lines of JSON"
        raise FormatError(told, place)


def _labelled(cells: Mapping[str, str], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A row, an empty cell standing for none, unless it is still to be labelled."""
    found = {name: plain(cell) for name, cell in cells.items() if cell}
    if found.get("label", "").strip():
        yield place, _nested(found)


def _nested(cells: dict[str, str]) -> dict[str, Any]:
    """A row of CSV in the shape of a record."""
    post: dict[str, Any] = {name: cells[name] for name in OF_POST if name in cells}
    post |= {"id": cells.get("post_id", ""), "platform": cells.get("platform")}
    row: dict[str, Any] = {name: cells[name] for name in CSV_COLUMNS if name in cells}
    row["label"] = cells["label"].strip().lower()
    with suppress(ValueError):
        row["score"] = float(cells["score"]) if "score" in cells else None
    return row | {"post": post}


def _label(row: dict[str, Any], given: GivenBy, limits: Limits, where: str) -> Label:
    """The label in a row, completed where it leaves something out that can be."""
    if isinstance(said := row.get("label"), str) and said not in VERDICTS:
        told = one_line(repr(said), SHOWN)
        raise InputError(f"{where}: label: {told} is none of {', '.join(VERDICTS)}; mend it")
    post = row.get("post")
    if isinstance(post, dict):
        whole = {"text": ""} | {name: part for name, part in post.items() if part is not None}
        row = row | {"post": {"platform": "plain"} | whole}
    who = {name: row.get(name) or getattr(given, name) for name in ("by", "at")}
    try:
        value = msgspec.json.encode(row | who | {"drawn": "given", "probability": None})
        return label_in(value, limits)
    except (InputError, UnicodeError, OverflowError, RecursionError) as error:
        raise InputError(f"{where}: {one_line(str(error), 300)}") from None
