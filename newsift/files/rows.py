"""Match records as rows of a table or lines of JSON, safe in spreadsheets and terminals."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import msgspec

from encoder.errors import InputError
from worker.match.records import Match, MatchRecord
from worker.posts.attachments import Card
from worker.text import escape_json, one_line

POST_FIELDS = ("author", "created_at", "lang", "url", "text")

_read = msgspec.json.Decoder(MatchRecord).decode


def parse_match_record(value: bytes | None) -> MatchRecord | None:
    try:
        return _read(value or b"")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class MatchFilter:
    seeds: Collection[str] = ()
    events: Collection[str] = ()
    new: bool = False

    def select(self, record: MatchRecord) -> list[Match]:
        """In the order of the record, which has the best first."""
        if self.new and record.new is False:
            return []
        return [
            match
            for match in record.matches
            if (not self.seeds or match.seed_id in self.seeds)
            and (not self.events or match.event in self.events)
        ]


def json_line(value: bytes) -> bytes:
    """Control characters are escaped, as the line may be printed on a terminal."""
    text = value.decode()
    if text.isprintable():
        return value
    return escape_json(msgspec.json.format(text, indent=-1)).encode()


Cell = str | int | float | None

# Before the sign of a formula, a spreadsheet ignores these, or starts a cell after them: "; =1".
BEFORE_FORMULA = re.compile(
    r"""(?<![;\s\0"])[;\s\0"]*+(?=[=+\-@＝＋－＠])"""
    # Or where an author's own apostrophes start a cell, so that one more can be told from them.
    r"""|((?:\A|(?<=[;\t\r\n]))(?='++(?>(?:[\0"]|[^\S\t\r\n])*)[=+\-@＝＋－＠]))"""
)
CELL_SEPARATORS = ";\t\r\n"  # some spreadsheets split a cell here, even inside quotes
APOSTROPHE = re.compile(
    r"""\A'(?='*+[\t\r\n])|(?:\A|(?<=[;\t\r\n]))'(?='*+(?>(?:[\0"]|[^\S\t\r\n])*)[=+\-@＝＋－＠])"""
)
# Characters that steer a terminal, or turn the order of letters around.
STEERING = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NUMBER = re.compile(r"[+-]?+[0-9]++(?>(?:[.,][0-9]++)?)(?>(?:[eE][+-]?+[0-9]++)?)")
LEADING_BLANKS = ("\t", "\r", "\n")


def csv_row(
    cells: Sequence[Cell],
    for_terminal: bool = False,
    delimiter: str = ",",
    user_cells: Sequence[Cell] = (),
) -> str:
    """A line of CSV, safe to open in a spreadsheet or to print; for a terminal on one line.

    Numbers in the user's cells, which are last, stay numbers, such as the longitude -73.9.
    """
    row = [*cells, *user_cells]
    clean = one_line if for_terminal else partial(STEERING.sub, "")
    visible = [clean(cell) if isinstance(cell, str) else cell for cell in row]
    safe = [
        cell
        if index >= len(cells) and isinstance(cell, str) and NUMBER.fullmatch(cell)
        else escape_formulas(cell)
        for index, cell in enumerate(visible)
    ]
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter).writerow(safe)  # \r\n at its end: a lone \r is quoted
    return line.getvalue().replace("\0", "\ufffd")  # programs refuse a table with a NUL


def escape_formulas(cell: Cell) -> Cell:
    """The cell with an apostrophe before each formula in it, and before those before formulas."""
    if not isinstance(cell, str):
        return cell
    text, bare = BEFORE_FORMULA.sub(_with_apostrophe, cell), cell.lstrip("'")
    has_one_more = text.startswith("'" * (len(cell) - len(bare) + 1))  # than the cell
    return f"'{text}" if bare.startswith(LEADING_BLANKS) and not has_one_more else text


def unescape_formulas(cell: str) -> str:
    """Without the apostrophes of escape_formulas."""
    bare = APOSTROPHE.sub("", cell)
    return bare if escape_formulas(bare) == cell else cell


def _with_apostrophe(match: re.Match[str]) -> str:
    """An apostrophe where a cell of a spreadsheet starts."""
    before = match[0]
    if match[1] is not None:
        return "'"
    start = max(map(before.rfind, CELL_SEPARATORS)) + 1
    if not start and match.start():
        return before  # inside of a cell, such as 1 + 1
    return f"{before[:start]}'{before[start:]}"


MATCH_COLUMNS = ("match_id", "score", "threshold", "event", "seed_id", "seed_version", "title")
RECORD_COLUMNS = ("matched", "seed_set", "model", "processed_at")
POST_COLUMNS = ("platform", "post_id", *POST_FIELDS)
# What a post has beside its text, of several one on each line; a table's posts have text alone.
ATTACHMENT_COLUMNS = ("alt", "card_url", "card_title", "card_description", "links")
LINK_COLUMN = "link"  # "true" where the post links to the seed's page
FILE_SOURCE, TOPIC_SOURCE = ("source", "line"), ("source",)
DATABASE_COLUMNS = ("post_key", "post_digest")
RESERVED_NAMES = (
    *MATCH_COLUMNS,
    *POST_COLUMNS,
    "why",
    *FILE_SOURCE,
    *RECORD_COLUMNS,
    "events",
    *DATABASE_COLUMNS,
)
USER_PREFIX = "input_"  # before a user's column name that is already used, ignoring case
MAX_USER_COLUMNS = 1000  # SQLite allows 2000 columns

Per = Literal["match", "post"]


@dataclass(frozen=True, slots=True)
class OutputRecord:
    value: bytes
    record: MatchRecord
    matches: Sequence[Match]
    columns: Mapping[str, str] | None = None


AddRecords = Callable[[Sequence[OutputRecord]], None]


@dataclass(frozen=True)
class Layout:
    """The columns of a table of matches."""

    source_columns: tuple[str, ...]
    per: Per | None = None
    user_columns: Sequence[str] = ()

    @cached_property
    def user_names(self) -> list[str]:
        """The user's columns under printable names that are unique."""
        if len(self.user_columns) > MAX_USER_COLUMNS:
            raise InputError(
                f"the input has {len(self.user_columns):,} columns; a table keeps at most "
                f"{MAX_USER_COLUMNS:,}: leave some out, or write to a file that ends in .jsonl"
            )
        names, unique = set(RESERVED_NAMES), list[str]()
        for name in self.user_columns:
            visible = one_line(name).strip() or "column"
            while visible.lower() in names:
                visible = USER_PREFIX + visible
            names.add(visible.lower())
            unique.append(visible)
        return unique

    @property
    def newsift_names(self) -> tuple[str, ...]:
        events = ("events",) if self.per == "post" else ()
        return (
            *MATCH_COLUMNS,
            *POST_COLUMNS,
            "why",
            *self.source_columns,
            *RECORD_COLUMNS,
            *events,
            *((*self.attachment_columns, LINK_COLUMN) if self.attachment_columns else ()),
        )

    @property
    def attachment_columns(self) -> tuple[str, ...]:
        is_table = self.user_columns and self.source_columns == FILE_SOURCE
        return () if is_table else ATTACHMENT_COLUMNS

    @property
    def names(self) -> list[str]:
        return [*self.newsift_names, *self.user_names]

    def rows(self, record: OutputRecord) -> Iterator[list[Cell]]:
        """A row for each match, or for each post with its best match."""
        best = sorted(record.matches, key=lambda match: -match.score)[:1]
        rest = [*source_cells(record.record, self.source_columns), *record_cells(record.record)]
        if self.per == "post":
            rest.append("; ".join(dict.fromkeys(match.event for match in record.matches)))
        attachments = attachment_cells(record.record) if self.attachment_columns else []
        for match in best if self.per == "post" else record.matches:
            match_cells = (getattr(match, name) for name in MATCH_COLUMNS)
            row = [*match_cells, *post_cells(record.record), format_why(match), *rest, *attachments]
            if self.attachment_columns:
                row.append("true" if match.link is True else None)
            yield [*row, *self.user_cells(record)]

    def user_cells(self, record: OutputRecord) -> list[Cell]:
        """In the order of the columns."""
        columns = record.columns or {}
        return [columns.get(name) for name in self.user_columns]


def post_cells(record: MatchRecord) -> list[Cell]:
    post = record.post
    return [post.platform, post.id, *(getattr(post, name) for name in POST_FIELDS)]


def attachment_cells(record: MatchRecord) -> list[Cell]:
    post, card = record.post, record.post.card or Card()
    alt, links = ("\n".join(texts) or None for texts in (post.alt, post.links))
    return [alt, *(text or None for text in (card.url, card.title, card.description)), links]


def source_cells(record: MatchRecord, columns: Sequence[str]) -> list[Cell]:
    """A file and a line, or topic-partition-offset."""
    source = record.source
    if columns == FILE_SOURCE:
        return [source.topic, source.offset + 1]
    return [f"{source.topic}-{source.partition}-{source.offset}"]


def record_cells(record: MatchRecord) -> list[Cell]:
    return [getattr(record, name) for name in RECORD_COLUMNS]


def format_why(match: Match) -> str:
    return " ".join(f"{token}[{weight:.2f}]" for token, weight in match.why)


def clean_cell(cell: Cell) -> Cell:
    """A cell that every format can hold: valid UTF-8; integers beyond 64 bits become None."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
        return None
    return cell
