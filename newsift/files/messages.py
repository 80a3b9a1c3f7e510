"""Rows of files as messages of a topic, with corrected times and ids."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

import msgspec

from newsift.files.read import input_name
from worker.config.limits import Limits
from worker.posts.checks import rejection, text_id
from worker.posts.outcome import Post, Reading, Reason
from worker.posts.read import read_post
from worker.posts.times import is_naive, milliseconds, utc
from worker.text import one_line, shorten

UNIX_TIME = re.compile(r"[0-9]{9,17}(?:\.[0-9]{1,9})?")  # eight digits are a date, as 20241231
# 1.23E+18, as spreadsheets write, and 12345678901234567.0, as tools that read ids as floats do
ROUNDED_NUMBER = re.compile(r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+|[0-9]{16,}\.0")
EXACT_DIGITS = 15  # of a number in a spreadsheet, which writes zeros for the others
LONG_NUMBER = re.compile(r"[0-9]{16,}")
FIRST_ROWS = 100  # of a table, that show whether its long ids are rounded
MIN_ZEROS = 8  # beyond the exact digits, of all first ids: a chance of 1 in 10^8
EXACT_FLOAT = re.compile(r"([0-9]{1,15})\.0")
TIME_KEY = re.compile(
    rb'"(created_at|createdAt)"\s*+:\s*+(?:"([^"\\]{1,64})"|(?!null\b|"")([^\s,}]{1,64}))'
)
MAX_EXAMPLE_CHARS = 40
DELETED_TEXTS = ("[deleted]", "[removed]")
NAIVE_TIME = (
    "times without an offset in {column!r}, read as UTC: {n:,} (--timezone Europe/Berlin says "
    "otherwise)"
)
UNREADABLE_TIME = (
    "times that cannot be read in {column!r}, left out: {n:,}, such as {example!r} (write "
    "2026-01-31T12:00:00Z)"
)
ROUNDED_ID = (
    "ids that a spreadsheet has rounded in {column!r}: {n:,}, such as {example!r} (digests of the "
    "texts serve instead)"
)
FLOAT_ID = (
    "ids that were read as floats in {column!r}: {n:,}, such as {example!r} (without '.0' here)"
)


class PlainTime(msgspec.Struct):
    created_at: str | int | float | None = None


PLAIN_TIME = msgspec.json.Decoder(PlainTime)


class ValueCorrector:
    """Reads and corrects times and ids, and counts those that need a warning."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._counts = Counter[tuple[str, str]]()  # by message and column
        self._examples: dict[tuple[str, str], str] = {}
        self._has_long_rounded_ids = False

    def check_ids(self, posts: Iterable[tuple[str, str]]) -> None:
        """Decides by the first posts of a table whether its long ids were rounded to plain digits.

        One id may end in zeros by chance, and the same post be there again; many ids do not, nor
        does an id stand with different texts.
        """
        tails = [id[EXACT_DIGITS:] for id, _ in {*posts} if LONG_NUMBER.fullmatch(id)]
        are_zeros = len(tails) > 1 and not "".join(tails).strip("0")
        self._has_long_rounded_ids = are_zeros and sum(map(len, tails)) >= MIN_ZEROS

    def read_time(self, value: object, column: str, is_utc: bool = False) -> str | None:
        """The time in UTC; None if it cannot be read."""
        zone = UTC if is_utc else self._zone
        text, time = str(value), None
        if isinstance(value, str | int | float):
            time = utc(float(text) if UNIX_TIME.fullmatch(text) else text, zone or UTC)
        if time is None:
            self._count(UNREADABLE_TIME, column, text)
        elif zone is None and is_naive(text):
            self._count(NAIVE_TIME, column, text)
        return time

    def is_rounded(self, id: str, column: str) -> bool:
        is_rounded = ROUNDED_NUMBER.fullmatch(id) is not None
        if self._has_long_rounded_ids and LONG_NUMBER.fullmatch(id):
            is_rounded = not id[EXACT_DIGITS:].strip("0")
        if is_rounded:
            self._count(ROUNDED_ID, column, id)
        return is_rounded

    def read_cell_id(self, id: str, column: str) -> str | None:
        """The id in a cell of a table; None if it was rounded."""
        if number := EXACT_FLOAT.fullmatch(id):
            self._count(FLOAT_ID, column, id)
            return number[1]
        return None if self.is_rounded(id, column) else id

    def correct(self, value: bytes, post: Post) -> tuple[bytes, Post]:
        """The value and the post with a plain post's time in UTC, and a digest for a rounded id."""
        changes = {}
        if post.platform == "plain" and self.is_rounded(post.id, "id"):
            changes["id"] = text_id(post.text)
        if (key := TIME_KEY.search(value)) and (time := self._corrected_time(value, post, key)):
            changes["created_at"] = time
        if not changes:
            return value, post
        raw_changes = {name: msgspec.Raw(msgspec.json.encode(new)) for name, new in changes.items()}
        value = msgspec.json.encode(RAW_OBJECT.decode(value) | raw_changes)
        return value, msgspec.structs.replace(post, **changes)

    def _corrected_time(self, value: bytes, post: Post, key: re.Match[bytes]) -> str | None:
        """The time of a post in UTC if the time zone changes it, else None."""
        name = key[1].decode()
        if post.platform == "plain":
            time_value = PLAIN_TIME.decode(value).created_at
        else:
            time_value = (key[2] or key[3]).decode()  # it may be the author's time: only warn
        if time_value in (None, ""):
            return None
        if post.created_at is None and utc(time_value) is None:
            self._count(UNREADABLE_TIME, name, str(time_value))
        elif isinstance(time_value, str) and is_naive(time_value):
            if post.platform == "plain" and self._zone:
                return utc(time_value, self._zone)
            self._count(NAIVE_TIME, name, time_value)
        return None

    def warnings(self) -> Iterator[str]:
        """One for each message and column."""
        for key, count in self._counts.items():
            message, column = key
            yield message.format(n=count, column=column, example=self._examples[key])

    def _count(self, message: str, column: str, example: str) -> None:
        key = message, column
        self._counts[key] += 1
        if key not in self._examples:
            self._examples[key] = shorten(one_line(example), MAX_EXAMPLE_CHARS)


Columns = Mapping[str, str]
RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class FormatError(ValueError):
    """A file is not understood. The message has the problem and the remedy."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self._place = place

    def location(self, file: Path) -> str:
        return f"{input_name(file)}, {self._place}" if self._place else input_name(file)


class NoTextColumnError(FormatError):
    """A table with a header of which no column is known to hold the texts."""


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A row of a file in the shape of a Kafka message, and the post in it.

    The offset counts lines, or items of an array, from 0. `columns` are all columns of a table's
    row. A message without a value is not sent.
    """

    topic: str
    offset: int
    value: bytes
    raw: bytes
    timestamp: int
    reading: Reading
    unit: str = "line"
    columns: Columns | None = None
    partition: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def place(self) -> str:
        return f"{self.unit} {self.offset + 1}"


class MessageMaker:
    def __init__(
        self, name: str, limits: Limits, unit: str = "line", corrector: ValueCorrector | None = None
    ) -> None:
        self.name, self.limits, self.unit = name, limits, unit
        self.corrector = corrector or ValueCorrector()

    def post(
        self, value: bytes, number: int, raw: bytes, columns: Columns | None = None
    ) -> FileMessage:
        """A row that may hold a post of any format."""
        reading = read_post(value, "auto", self.limits)
        if isinstance(reading, Post) and columns is None:
            value, reading = self.corrector.correct(value, reading)
        return self.message(reading, value, number, raw, columns)

    def message(
        self,
        reading: Reading,
        value: bytes,
        number: int,
        raw: bytes,
        columns: Columns | None = None,
    ) -> FileMessage:
        time, key = 0, None
        if isinstance(reading, Post):
            time, key = milliseconds(reading.created_at), reading.id.encode()
        return FileMessage(
            self.name, number - 1, value, raw, time, reading, self.unit, columns, key=key
        )

    def rejected(
        self, number: int, raw: bytes, detail: str, reason: Reason = Reason.UNKNOWN_FORM
    ) -> FileMessage:
        return self.message(rejection(reason, detail), b"", number, raw)


def join_parts(parts: Iterable[str | None]) -> str:
    """A title and a text, without what Reddit writes in the place of deleted ones."""
    return "\n\n".join(part for part in parts if part and part not in DELETED_TEXTS)


def plain_post(text: str, id: str | None = None, **more: str | float | list[str] | None) -> bytes:
    """The JSON of a plain post. Without an id, the digest of the text serves."""
    fields = {name: value for name, value in more.items() if value not in (None, "", [])}
    return msgspec.json.encode({"id": id or text_id(text), "text": text} | fields)
