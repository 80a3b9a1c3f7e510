"""Match records as rows of a table or lines of JSON, safe in spreadsheets and terminals."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import msgspec

from encoder.errors import InputError
from worker.match.records import Match, MatchRecord
from worker.text import escaped_json, one_line

OF_POST = ("author", "created_at", "lang", "url", "text")

_read = msgspec.json.Decoder(MatchRecord).decode


def read_match(value: bytes | None) -> MatchRecord | None:
    try:
        return _read(value or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def json_line(value: bytes) -> bytes:
    """Characters that control a terminal are escaped."""
    text = value.decode()
    if text.isprintable():
        return value
    return escaped_json(msgspec.json.format(text, indent=-1)).encode()


Cell = str | int | float | None

# What a spreadsheet passes over, or cuts a line at, before a sign that begins a formula: "; =1".
BEFORE_A_FORMULA = re.compile(r'(?<![;\s\0"])[;\s\0"]*+(?=[=+\-@＝＋－＠])')
CUTS = ";\t\r\n"  # what some spreadsheets end a cell at, even inside one of ours
NUMBER = re.compile(r"[+-]?+[0-9]++(?:[.,][0-9]++)?+(?:[eE][+-]?+[0-9]++)?+")
BLANK = ("\t", "\r", "\n")


def csv_row(
    cells: Sequence[Cell], terminal: bool = False, delimiter: str = ",", own: Sequence[Cell] = ()
) -> str:
    """A line of CSV, safe to open in a spreadsheet; for a terminal each cell is on one line.

    Numbers in the user's own cells, which come last, stay numbers: -73.9 is a longitude.
    """
    both = [*cells, *own]
    visible = [one_line(cell) if terminal and isinstance(cell, str) else cell for cell in both]
    safe = [
        cell
        if at >= len(cells) and isinstance(cell, str) and NUMBER.fullmatch(cell)
        else escape_formulas(cell)
        for at, cell in enumerate(visible)
    ]
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter).writerow(safe)  # \r\n at its end: a lone \r is quoted
    return line.getvalue()


def escape_formulas(cell: Cell) -> Cell:
    """The cell with an apostrophe before each formula in it."""
    if not isinstance(cell, str):
        return cell
    quiet = BEFORE_A_FORMULA.sub(_with_apostrophe, cell)
    return f"'{quiet}" if quiet.startswith(BLANK) else quiet


def unescape_formulas(cell: str) -> str:
    """The inverse of escape_formulas."""
    bare = cell.removeprefix("'")
    return bare if bare != cell and escape_formulas(bare) == cell else cell


def _with_apostrophe(match: re.Match[str]) -> str:
    """An apostrophe where a cell of a spreadsheet starts."""
    before = match[0]
    start = max(map(before.rfind, CUTS)) + 1
    if not start and match.start():
        return before  # in the midst of a cell: 1 + 1
    return f"{before[:start]}'{before[start:]}"


OF_MATCH = ("match_id", "score", "threshold", "event", "seed_id", "seed_version", "title")
OF_RECORD = ("matched", "seed_set", "model", "processed_at")
POST = ("platform", "post_id", *OF_POST)
IN_FILE, IN_TOPIC = ("source", "line"), ("source",)
KEYS = ("post_key", "post_digest")  # of a post in a database
RESERVED = (*OF_MATCH, *POST, "why", *IN_FILE, *OF_RECORD, "events", *KEYS)
OWN = "input_"  # before a name of the user's own that is one of ours, or another's but for case
MAX_COLUMNS = 1000  # of the user's own; SQLite takes 2000 in all

Per = Literal["match", "post"]


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A match record, its selected matches, and the columns of its post."""

    value: bytes
    record: MatchRecord
    matches: Sequence[Match]
    columns: Mapping[str, str] | None = None


Add = Callable[[Sequence[OutputRecord]], None]


@dataclass(frozen=True)
class Layout:
    """What a row is, and its columns."""

    place: tuple[str, ...]
    per: Per | None = None
    own: Sequence[str] = ()

    @cached_property
    def own_names(self) -> list[str]:
        """The user's columns under printable names that are unique."""
        if len(self.own) > MAX_COLUMNS:
            raise InputError(
                f"the input has {len(self.own):,} columns; a table keeps {MAX_COLUMNS:,} at most: "
                "leave some out, or name a file that ends in .jsonl"
            )
        names, unique = set(RESERVED), list[str]()
        for name in self.own:
            visible = one_line(name).strip() or "column"
            while visible.lower() in names:
                visible = OWN + visible
            names.add(visible.lower())
            unique.append(visible)
        return unique

    @property
    def ours(self) -> tuple[str, ...]:
        events = ("events",) if self.per == "post" else ()
        return (*OF_MATCH, *POST, "why", *self.place, *OF_RECORD, *events)

    @property
    def names(self) -> list[str]:
        return [*self.ours, *self.own_names]

    def rows(self, record_row: OutputRecord) -> Iterator[list[Cell]]:
        """A row for each match, or for each post with its best match."""
        best = sorted(record_row.matches, key=lambda match: -match.score)[:1]
        rest = [*of_place(record_row.record, self.place), *of_record(record_row.record)]
        if self.per == "post":
            rest.append("; ".join(dict.fromkeys(match.event for match in record_row.matches)))
        rest += self.own_cells(record_row)
        for match in best if self.per == "post" else record_row.matches:
            own = (getattr(match, name) for name in OF_MATCH)
            yield [*own, *of_post(record_row.record), format_why(match), *rest]

    def own_cells(self, record_row: OutputRecord) -> list[Cell]:
        """In the order of the columns."""
        columns = record_row.columns or {}
        return [columns.get(name) for name in self.own]


def of_post(record: MatchRecord) -> list[Cell]:
    post = record.post
    return [post.platform, post.id, *(getattr(post, name) for name in OF_POST)]


def of_place(record: MatchRecord, place: Sequence[str]) -> list[Cell]:
    """A file and a line, or topic-partition-offset."""
    source = record.source
    if place == IN_FILE:
        return [source.topic, source.offset + 1]
    return [f"{source.topic}-{source.partition}-{source.offset}"]


def of_record(record: MatchRecord) -> list[Cell]:
    return [getattr(record, name) for name in OF_RECORD]


def format_why(match: Match) -> str:
    return " ".join(f"{word}[{part:.2f}]" for word, part in match.why)


def clean_cell(cell: Cell) -> Cell:
    """A cell that every format can hold: valid UTF-8, and numbers of 64 bits."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
        return None
    return cell
