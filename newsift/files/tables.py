"""Tables (CSV and TSV with a header), the columns of a post in them, and plain text."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from zoneinfo import ZoneInfo

from encoder.errors import InputError
from newsift.files.messages import (
    FIRST_ROWS,
    FileMessage,
    FormatError,
    MessageMaker,
    NoTextColumnError,
    ValueCorrector,
    join_parts,
    plain_post,
)
from newsift.files.read import MAX_LINE_BYTES, too_long
from worker.posts.attachments import MAX_LINKS
from worker.posts.outcome import NO_WORDS, Reason

UTF8, CP1252 = "UTF-8", "Windows-1252"


def detect_encoding(lines: Sequence[bytes]) -> str | None:
    """UTF-8 or Windows-1252, by the lines that are not ASCII; None where all are."""
    non_ascii = [line for line in lines if not line.isascii()]
    if not non_ascii:
        return None
    return UTF8 if 2 * sum(map(_is_utf8, non_ascii)) >= len(non_ascii) else CP1252


def decode_line(line: bytes, encoding: str | None) -> str:
    """Raises ValueError for a line that cannot be decoded."""
    if b"\0" in line:
        raise ValueError("holds a NUL byte")
    codec, problem = "utf-8", "is not UTF-8"
    if encoding == CP1252 and not line.isascii():
        if _is_utf8(line):
            raise ValueError(f"is UTF-8 in a file of {CP1252}")
        codec, problem = "cp1252", f"is neither UTF-8 nor {CP1252}"
    try:
        return line.decode(codec)
    except UnicodeDecodeError as error:
        raise ValueError(f"{problem} at byte {error.start + 1}") from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


TEXT_NAMES = ("text", "fulltext", "body", "content", "message", "tweet", "tweettext", "posttext")
ID_NAMES = ("id", "idstr", "tweetid", "twitterid", "statusid", "postid", "messageid")
TIME_NAMES = (
    "unixtimestamp", "createdat", "createdutc", "timestamputc", "timestamp", "datetime",
    "tweetcreatedat", "postcreatedat", "postedat", "publishedat", "createdtime", "timeutc",
    "dateutc", "date", "time", "created", "published", "posted", "dateposted", "postdate",
    "posttime", "datecreated", "datepublished", "datum",
)  # fmt: skip
AUTHOR_NAMES = ("authorusername", "username", "userscreenname", "screenname", "author", "user")
LANG_NAMES = ("lang", "language", "languageguess", "languages")
URL_NAMES = ("url", "link", "permalink", "tweeturl", "posturl")
# Of the tool 4CAT, whose times are in UTC.
FOURCAT_COLUMNS = {"id", "thread_id", "body", "timestamp"}
FOURCAT_LINK_NAMES = ("links", "urls")  # of what a post links to, separated by commas
REDDIT_COLUMNS = {"subreddit", "domain"}  # where one is, 4CAT's `url` is the page linked to
OWN_PAGE = "self."  # Reddit's domain of a post that links to nothing
NEXT_LINK = re.compile(r",?+\s++|,(?=https?://)")  # an address may hold a comma itself
NON_ALPHANUMERIC = re.compile(r"[\W_]+")
MAX_LISTED_NAMES = 20


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a command about the format of its files.

    A column that is not named is found by the usual names; "" is no column.
    """

    format: str = "auto"
    text: str | None = None
    id: str | None = None
    time: str | None = None
    author: str | None = None
    link: str | None = None
    timezone: str | None = None  # of times without an offset

    def __post_init__(self) -> None:
        _ = self.zone  # raises InputError for an unknown zone
        if self.format == "lines" and self.names_columns:
            raise InputError("--format lines has no columns; leave their names out, or give csv")

    @property
    def zone(self) -> ZoneInfo | None:
        try:
            return ZoneInfo(self.timezone) if self.timezone is not None else None
        except (KeyError, ValueError, OSError):
            message = f"--timezone {self.timezone!r}: there is no such time zone"
            raise InputError(f"{message}; give one such as Europe/Berlin or UTC") from None

    @property
    def names_columns(self) -> bool:
        names = (self.text, self.id, self.time, self.author, self.link)
        return any(name is not None for name in names)


@dataclass(frozen=True, slots=True)
class PostColumns:
    text: str
    id: str | None
    time: str | None
    author: str | None
    lang: str | None
    url: str | None
    is_utc: bool
    title: str | None = None
    links: str | None = None

    @classmethod
    def from_header(
        cls, header: Sequence[str], options: FileOptions, place: str = ""
    ) -> "PostColumns":
        """The options name the columns, or else the usual names are searched."""
        by_normalised_name = {normalise_name(name): name for name in reversed(header)}

        def find_usual(names: Sequence[str]) -> str | None:
            return next(
                (by_normalised_name[name] for name in names if name in by_normalised_name), None
            )

        def find_column(option: str, name: str | None, names: Sequence[str]) -> str | None:
            if name and name not in header:
                message = f"has no column {name!r} ({list_names(header)}); fix {option}"
                raise FormatError(message, place)
            return find_usual(names) if name is None else name or None

        text = find_column("--text-column", options.text or None, TEXT_NAMES)
        if text is None and not _is_header(header):
            message = f"has no header: its first line is {list_names(header)}; put a line of names "
            message += "above it, such as id,text,author"
            raise FormatError(message, place)
        if text is None:
            message = f"has no column of texts ({list_names(header)}); name it with --text-column, "
            message += "or what this is with --format"
            raise NoTextColumnError(message, place)
        id = find_column("--id-column", options.id, ID_NAMES)
        time = find_column("--time-column", options.time, TIME_NAMES)
        is_fourcat = set(header) >= FOURCAT_COLUMNS
        is_reddit = is_fourcat and not REDDIT_COLUMNS.isdisjoint(header)
        links_names = ("url",) if is_reddit else FOURCAT_LINK_NAMES if is_fourcat else ()
        url_names = [name for name in URL_NAMES if name not in links_names]
        return cls(
            text,
            id,
            time,
            find_column("--author-column", options.author, AUTHOR_NAMES),
            find_usual(LANG_NAMES),
            find_column("--link-column", options.link, url_names),
            is_fourcat or normalise_name(time or "").endswith("utc"),
            title=find_usual(("subject",)) if is_fourcat and text == "body" else None,
            links=find_usual(links_names),
        )

    def post(self, row: Mapping[str, object], corrector: ValueCorrector) -> bytes:
        id = _cell_text(row, self.id)
        if id is not None:
            id = corrector.read_cell_id(id, self.id or "")
        time = None if self.time is None else row.get(self.time)
        time = time.strip() if isinstance(time, str) else time
        text, url, links = str(row[self.text] or ""), _cell_text(row, self.url), self._links(row)
        if self.title:
            text = join_parts((_cell_text(row, self.title), text))
        if self.links == "url" and str(row.get("domain")).startswith(OWN_PAGE):
            url, links = url or next(iter(links), None), []
        return plain_post(
            text, id,
            created_at=None if time in (None, "")
            else corrector.read_time(time, self.time or "", self.is_utc),
            author=_cell_text(row, self.author), lang=_cell_text(row, self.lang),
            url=url, links=links,
        )  # fmt: skip

    def check_ids(self, rows: Sequence[Mapping[str, object]], corrector: ValueCorrector) -> None:
        """With the first rows of a table, before any is read."""
        first = rows[:FIRST_ROWS]
        pairs = ((_cell_text(row, self.id), str(row.get(self.text))) for row in first)
        corrector.check_ids((id, text) for id, text in pairs if id is not None)

    def _links(self, row: Mapping[str, object]) -> list[str]:
        """No more than a post may have: a cell could hold a list without bound."""
        cell = _cell_text(row, self.links)
        return NEXT_LINK.split(cell, MAX_LINKS)[:MAX_LINKS] if cell else []

    def describe(self) -> str:
        columns = {
            "title": self.title, "text": self.text, "id": self.id, "time": self.time,
            "author": self.author, "language": self.lang, "link": self.url, "links": self.links,
        }  # fmt: skip
        sources = ", ".join(f"{part} from {name!r}" for part, name in columns.items() if name)
        return sources if self.id else f"{sources}, ids from the texts"


def _is_header(cells: Sequence[str]) -> bool:
    """Whether these may be names of columns: short ones, and no numbers."""
    return not any(cell.strip().isdecimal() or len(cell.split()) > MAX_NAME_WORDS for cell in cells)


def normalise_name(name: str) -> str:
    return NON_ALPHANUMERIC.sub("", name).lower()


def list_names(header: Sequence[str]) -> str:
    more = f" and {len(header) - MAX_LISTED_NAMES:,} more" if len(header) > MAX_LISTED_NAMES else ""
    return ", ".join(repr(name[:40]) for name in header[:MAX_LISTED_NAMES]) + more


def _cell_text(row: Mapping[str, object], name: str | None) -> str | None:
    value = None if name is None else row.get(name)
    return str(value).strip() or None if isinstance(value, str | int | float) else None


MAX_NAME_WORDS = 3
DELIMITERS = ",;\t|"
QUOTED_CELL = re.compile(r'"[^"]*+"?')
MAX_COLUMNS = 1000
MAX_CELL_CHARS = 2**20
SEPARATOR_PREFIX = "sep="  # Excel may write a first line such as sep=;
# Messages of the module csv.
UNCLOSED_QUOTE = "unexpected end of data"
CARRIAGE_RETURN = "new-line character seen in unquoted field"
Lines = Iterator[tuple[int, list[bytes]]]


@dataclass(frozen=True, slots=True)
class TableRow:
    number: int
    raw: bytes  # empty where the table is not of text
    cells: dict[str, str]
    fault: str = ""


class Table:
    """Reads the header of a table at once, and its rows in batches.

    The lines have their carriage returns.
    """

    unit = "line"  # of a row

    def __init__(self, batches: Lines, delimiter: str | None = None) -> None:
        csv.field_size_limit(MAX_CELL_CHARS)
        self.encoding: str | None = None  # while all text is ASCII
        self._pending = self._number = 0  # lines left in the batch; number of the current line
        self._row_lines: list[bytes] = []  # of the current row
        self._row_bytes, self._fault = 0, ""  # of the current row
        first, batches = _first_line(batches)
        texts = self._texts(batches)
        if first.lower().startswith(SEPARATOR_PREFIX) and len(first) == len(SEPARATOR_PREFIX) + 1:
            delimiter = first[-1]
            next(texts)
        self._reader = csv.reader(
            texts, delimiter=delimiter or likely_delimiter(first), strict=True
        )
        self.header = self._header()
        self.place = f"line {self._first}"  # of the header

    def batches(self) -> Iterator[list[TableRow]]:
        rows: list[TableRow] = []
        while (cells := self._cells()) is not None:
            rows.extend(self._rows(cells))
            if not self._pending:
                yield rows
                rows = []
        if rows:
            yield rows

    def _texts(self, batches: Lines) -> Iterator[str]:
        """The lines for the CSV reader."""
        for first, rows in batches:
            self.encoding = self.encoding or detect_encoding(rows)
            self._pending = len(rows)
            for self._number, line in enumerate(rows, first):
                self._pending -= 1
                self._row_lines.append(line)
                self._row_bytes += len(line)
                if self._row_bytes > MAX_LINE_BYTES:
                    raise self._error("a row is longer than 16 MiB, or a quote is never closed")
                try:
                    text = decode_line(line, self.encoding)
                except ValueError as error:
                    self._fault = self._fault or str(error)
                    text = line.decode("latin-1").replace("\0", "\ufffd")
                yield text + "\n"

    def _header(self) -> list[str]:
        cells = self._cells() or []
        if self._fault:
            raise self._error(f"{self._fault}, and should be a header")
        if len(cells) > MAX_COLUMNS:
            raise self._error(f"has {len(cells):,} columns, more than {MAX_COLUMNS:,}")
        return unique_names(cells)

    def _cells(self) -> list[str] | None:
        """None at the end; empty for a row that is not CSV, which has a fault."""
        self._row_lines, self._row_bytes, self._fault = [], 0, ""
        try:
            return next(self._reader, None)
        except csv.Error as error:
            message = str(error)
            if message == UNCLOSED_QUOTE:
                raise self._error("a quote that opens here is never closed") from None
            if message.startswith("field larger"):
                raise self._error("a cell is too large, or its quote is never closed") from None
            if message.startswith(CARRIAGE_RETURN):
                message = "a carriage return alone ends no line; save it with line feeds"
            self._fault = self._fault or f"is not CSV ({message})"
            return []

    def _rows(self, cells: list[str]) -> Iterator[TableRow]:
        """One row, or each line of an invalid row."""
        fault = self._fault
        if cells and not fault and len(cells) != len(self.header):
            fault = f"has {len(cells):,} cells, the header {len(self.header):,}"
        if fault:
            for number, line in enumerate(self._row_lines, self._first):
                yield TableRow(number, line.removesuffix(b"\r"), {}, fault)
        elif cells:
            row = dict(zip(self.header, cells, strict=True))
            yield TableRow(self._first, b"\n".join(self._row_lines).removesuffix(b"\r"), row)

    @property
    def _first(self) -> int:
        """The number of the current row's first line."""
        return self._number - len(self._row_lines) + 1

    def _error(self, problem: str) -> FormatError:
        return FormatError(f"{problem}; fix it", f"line {self._first}")


def likely_delimiter(header: str) -> str:
    bare = QUOTED_CELL.sub("", header)
    return max(DELIMITERS, key=bare.count)


def unique_names(header: Sequence[str]) -> list[str]:
    """Number the empty and repeated names of columns."""
    names: dict[str, None] = {}
    for number, cell in enumerate(header, 1):
        name = bare = cell.strip() or f"column {number}"
        while name in names:
            name = f"{bare} ({number})"
            number += 1
        names[name] = None
    return list(names)


def _first_line(batches: Lines) -> tuple[str, Lines]:
    """The first line that is not blank, and all lines from there on."""
    for number, rows in batches:
        index = next((index for index, row in enumerate(rows) if row.strip()), None)
        if index is not None:
            line = rows[index].decode("latin-1").strip(" \r")
            return line, chain([(number + index, rows[index:])], batches)
    return "", iter(())


def text_messages(batches: Lines, maker: MessageMaker, blank: bool) -> Iterator[list[FileMessage]]:
    """One post per line; with `blank`, empty lines are reported as skipped."""
    for first, rows in batches:
        pairs = enumerate(rows, first)
        numbered_rows = ((number, row) for number, row in pairs if blank or row.strip())
        if messages := [_message(row, number, maker) for number, row in numbered_rows]:
            yield messages


def _message(row: bytes, number: int, maker: MessageMaker) -> FileMessage:
    if not row.strip():
        return maker.message(NO_WORDS, b"", number, row)
    if fault := too_long(row):
        return maker.rejected(number, row, fault, Reason.POST_BYTES)
    if b"\0" in row:
        return maker.rejected(number, row, "holds a NUL byte")
    try:
        return maker.post(plain_post(row.decode()), number, row)
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 at byte {error.start + 1}"
        return maker.rejected(number, row, message, Reason.INVALID_UTF8)
