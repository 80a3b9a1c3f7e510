"""Labels in files: rows of CSV or lines of JSON, as `newsift labels export` writes them.

Columns have the names of `newsift matches --csv`: such a file with a column `label` can be read.
Labels from files always count as `given`: only a draw knows its probabilities.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec

from encoder.errors import InputError, one_line
from newsift.files.documents import Item, json_items
from newsift.files.messages import ROUNDED_NUMBER, FormatError
from newsift.files.parquet import ParquetTable
from newsift.files.posts import JSON, JSONL, PARQUET, read_start, recognise_format
from newsift.files.read import chunks, lines, too_long
from newsift.files.rows import POST_FIELDS, csv_row, json_line, unescape_formulas
from newsift.files.tables import FileOptions, Table
from newsift.files.write import open_output
from newsift.files.writers import csv_table, format_by_ending, json_file, tsv_table
from newsift.statistics.labels import Label, Verdict, parse_label
from worker.config.limits import Limits

VERDICTS = get_args(Verdict)
MAX_EXCERPT_CHARS = 60
LABEL_COLUMNS = ("event", "label", "by", "at")
DRAW_COLUMNS = ("drawn", "probability", "score", "seed_set", "model")
CSV_COLUMNS = (*LABEL_COLUMNS, "platform", "post_id", *POST_FIELDS, *DRAW_COLUMNS)
REQUIRED_COLUMNS = ("event", "label", "post_id")
TABLE_OPTIONS = FileOptions(text="label")  # the first line is a header, whatever its names
EXPECTED_ROW = (
    '{"event", "label", "post": {"id", "platform", "text"}, "by"?}, or CSV with these columns: '
    f"{', '.join(CSV_COLUMNS)}"
)


def read_labels(file: Path, by: str, at: str, limits: Limits) -> dict[bytes, Label]:
    """By key. Raises InputError for the first invalid row.

    `by` and `at` are the judge and the time of labels whose row names none. Rows of a table without
    a label are skipped.
    """
    labels: dict[bytes, Label] = {}
    for place, row in _rows(file):
        where = f"{file}, {place}"
        origin = {"by": row.get("by") or by, "at": row.get("at") or at}
        label = _parse_label(row | origin, limits, where)
        if label.key in labels:
            raise InputError(
                f"{where}: {label.by!r} judged this post in an earlier line; leave one of the two"
            )
        labels[label.key] = label
    if not labels:
        raise InputError(f"{file}: holds no label; each line is {EXPECTED_ROW}")
    return labels


def label_row(label: Label, delimiter: str = ",") -> bytes:
    judgement = [getattr(label, name) for name in LABEL_COLUMNS]
    post = [
        label.post.platform,
        label.post.id,
        *(getattr(label.post, name) for name in POST_FIELDS),
    ]
    rest = [getattr(label, name) for name in DRAW_COLUMNS]
    row = csv_row([*judgement, *post, *rest], delimiter=delimiter)
    return row.encode("utf-8", "replace")


@contextmanager
def label_writer(file: Path) -> Iterator[Callable[[Label], object]]:
    """Writes CSV, TSV or JSON, by the ending of the name."""
    format_ = format_by_ending(file)
    if format_ not in (csv_table, tsv_table):
        with json_file(file) as add:
            yield lambda label: add(json_line(label.value))
        return
    delimiter = "," if format_ is csv_table else "\t"
    with open_output(file) as out:
        out.write(csv_row(CSV_COLUMNS, delimiter=delimiter).encode())
        yield lambda label: out.write(label_row(label, delimiter))


def _rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows and their places. Raises InputError for the first that is invalid."""
    try:
        start, pieces = read_start(chunks(file))
        format_ = recognise_format(file, start, TABLE_OPTIONS)
        if format_ in (JSON, JSONL):
            unit = "item" if format_ == JSON else "line"
            yield from _parse_json_rows(unit, chain.from_iterable(json_items(pieces, unit)))
        elif format_ == PARQUET:
            yield from _parse_table_rows(ParquetTable(file))
        elif start.strip():
            yield from _parse_table_rows(Table(lines(pieces, carriage_returns=True)))
    except FormatError as error:
        raise InputError(f"{error.location(file)}: {error}") from None


def _parse_json_rows(unit: str, items: Iterable[Item]) -> Iterator[tuple[str, dict[str, Any]]]:
    for value, number, _ in items:
        place = f"{unit} {number}"
        try:
            row = json.loads(value)
        except UnicodeDecodeError as error:
            message = f"is not UTF-8 at byte {error.start + 1}; convert the file"
            raise FormatError(message, place) from None
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise FormatError(too_long(value) or f"is not {EXPECTED_ROW}", place)
        yield place, row


def _parse_table_rows(table: Table | ParquetTable) -> Iterator[tuple[str, dict[str, Any]]]:
    """Empty cells and rows without a label are left out."""
    if missing := [name for name in REQUIRED_COLUMNS if name not in table.header]:
        columns = ", ".join(REQUIRED_COLUMNS)
        message = f"has no column {missing[0]!r}; give {columns}, or lines of JSON"
        raise FormatError(message, table.place)
    for row in chain.from_iterable(table.batches()):
        place = f"{table.unit} {row.number}"
        if row.fault:
            raise FormatError(f"{row.fault}; fix it", place)
        values = {name: unescape_formulas(cell) for name, cell in row.cells.items() if cell}
        if values.get("label", "").strip():
            yield place, _nest(values)


def _nest(cells: dict[str, str]) -> dict[str, Any]:
    post: dict[str, Any] = {name: cells[name] for name in POST_FIELDS if name in cells}
    post |= {"id": cells.get("post_id", ""), "platform": cells.get("platform")}
    row: dict[str, Any] = {name: cells[name] for name in CSV_COLUMNS if name in cells}
    row["label"] = cells["label"].strip().lower()
    with suppress(ValueError):
        row["score"] = float(cells["score"]) if "score" in cells else None
    return row | {"post": post}


def _parse_label(row: dict[str, Any], limits: Limits, where: str) -> Label:
    """Missing fields are filled in where possible."""
    if isinstance(verdict := row.get("label"), str) and verdict not in VERDICTS:
        label_text = one_line(repr(verdict), MAX_EXCERPT_CHARS)
        raise InputError(
            f"{where}: label: {label_text} is not one of {', '.join(VERDICTS)}; fix it"
        )
    post = row.get("post")
    if isinstance(post, dict):
        if ROUNDED_NUMBER.fullmatch(post_id := str(post.get("id"))):
            raise InputError(
                f"{where}: post_id: {post_id} was rounded by a spreadsheet; export the matches "
                "again, and open this column as text"
            )
        post = {name: value for name, value in post.items() if value is not None}
        row = row | {"post": {"platform": "plain", "text": ""} | post}
    try:
        value = msgspec.json.encode(row | {"drawn": "given", "probability": None})
        return parse_label(value, limits)
    except (InputError, UnicodeError, OverflowError, RecursionError) as error:
        raise InputError(f"{where}: {one_line(str(error), 300)}") from None
