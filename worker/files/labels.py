"""Labels in files: rows of CSV or lines of JSON, as `newsift labels export` writes them.

Columns have the names that `newsift matches --csv` gives them: such a file with a column `label`
can be read. Whatever a row says of how it was drawn, it is given: only who draws knows the chances.
"""

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from encoder.errors import InputError, one_line
from worker.config import Limits
from worker.files.cells import csv_row, plain
from worker.files.matches import OF_POST, json_line
from worker.files.out.delimited import csv_table
from worker.files.out.formats import format_by_ending
from worker.files.read import each_line, too_long
from worker.judge.labels import Label, label_in

NAMES = ("event", "label", "by", "at")
DRAWN = ("drawn", "probability", "score", "seed_set", "model")
CSV_COLUMNS = (*NAMES, "platform", "post_id", *OF_POST, *DRAWN)
NEEDED = ("event", "label", "post_id")
JSON_ENDINGS = (".jsonl", ".json", ".ndjson")
Line = tuple[int, bytes]
WANTED = (
    '{"event", "label", "post": {"id", "platform", "text"}, "by"?}, or CSV with these columns: '
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
    for number, row in _rows(file):
        where = f"{file}, line {number}"
        label = _label(row, given, limits, where)
        if label.key in found:
            raise InputError(
                f"{where}: {label.by!r} judged this post in a line before; leave one of the two"
            )
        found[label.key] = label
    if not found:
        raise InputError(f"{file}: holds no label; each line is {WANTED}{', '.join(CSV_COLUMNS)}")
    return found


def label_line(label: Label) -> bytes:
    """A label as a line of JSON."""
    return json_line(label.value) + b"\n"


def label_row(label: Label) -> bytes:
    """A label as a row of CSV."""
    said = [getattr(label, name) for name in NAMES]
    post = [label.post.platform, label.post.id, *(getattr(label.post, name) for name in OF_POST)]
    rest = [getattr(label, name) for name in DRAWN]
    return csv_row([*said, *post, *rest]).encode("utf-8", "replace")


def writer_of(file: Path) -> tuple[bytes, Callable[[Label], bytes]]:
    """How a file of this name begins, and how it tells a label: CSV by its ending, else JSON."""
    if is_csv(file):
        return csv_row(CSV_COLUMNS).encode(), label_row
    return b"", label_line


def is_csv(file: Path) -> bool:
    """Whether a file's name says CSV, packed or not."""
    return format_by_ending(file) is csv_table


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its line: CSV or JSON by its ending, else by sign."""
    lines = each_line(file)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    is_json = file.suffix.lower() in JSON_ENDINGS or first[1].lstrip().startswith(b"{")
    read = _of_json if is_json and not is_csv(file) else _of_csv
    yield from read(file, chain([first], lines))


def _of_json(file: Path, lines: Iterator[Line]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        text = _text(file, number, line)
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{file}, line {number}: is not {WANTED}")
        yield number, row


def _of_csv(file: Path, lines: Iterator[Line]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows under a header, an empty cell standing for none; those without a label left out."""
    first, lines = _peeked(lines)
    reader = csv.reader(_text(file, number, line) + "\n" for number, line in lines)

    def row() -> list[str] | None:
        try:
            return next(reader, None)
        except csv.Error as error:
            where = f"{file}, line {first + reader.line_num - 1}"
            raise InputError(f"{where}: is no CSV ({error}); mend it") from None

    header = [name.strip() for name in row() or []]
    if missing := [name for name in NEEDED if name not in header]:
        raise InputError(f"{file}, line {first}: has no column {missing[0]!r}; needed are "
                         f"{', '.join(NEEDED)}, or lines of JSON")  # fmt: skip
    while (cells := row()) is not None:
        number = first + reader.line_num - 1
        if len(cells) > len(header):
            told = f"{len(cells)} cells, its header has {len(header)}; quote what holds a comma"
            raise InputError(f"{file}, line {number}: {told}")
        found = {name: plain(cell) for name, cell in zip(header, cells, strict=False) if cell}
        if found.get("label", "").strip():
            yield number, _nested(found)


def _peeked(lines: Iterator[Line]) -> tuple[int, Iterator[Line]]:
    first = next(lines)
    return first[0], chain([first], lines)


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


def _text(file: Path, number: int, line: bytes) -> str:
    if refused := too_long(line):
        raise InputError(f"{file}, line {number}: {refused}")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        told = f"is not UTF-8 at byte {error.start + 1}; convert the file"
        raise InputError(f"{file}, line {number}: {told}") from None
