"""Times and ids of one input that are read, but not as they stand: each is counted to be told."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, tzinfo

import msgspec

from worker.posts.outcome import Post
from worker.posts.times import is_naive, utc
from worker.visible import cut, one_line

NUMBER = re.compile(r"[0-9]{9,17}(?:\.[0-9]{1,9})?")  # seconds or more; 20241231 is a day
ROUNDED = re.compile(r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+")  # 1.23E+18: a spreadsheet lost the rest
TIME_KEY = re.compile(
    rb'"(created_at|createdAt)"\s*+:\s*+(?:"([^"\\]{1,64})"|(?!null\b|"")([^\s,}]{1,64}))'
)
DIGITS = 16  # of the digest that names a post without an id
SHOWN = 40  # characters
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
NAIVE = (
    "times without an offset in {column!r}, read as UTC: {n:,} (--timezone Europe/Berlin says "
    "otherwise)"
)
UNREADABLE = (
    "times that cannot be read in {column!r}, left out: {n:,}, such as {example!r} (write "
    "2026-01-31T12:00:00Z)"
)
ROUNDED_ID = (
    "ids that a spreadsheet has rounded in {column!r}: {n:,}, such as {example!r} (digests of the "
    "texts serve instead)"
)


class PlainTime(msgspec.Struct):
    """When a plain object says that it was written."""

    created_at: str | int | float | None = None


PLAIN = msgspec.json.Decoder(PlainTime)


class Oddities:
    """Reads times, in a time zone where they name no offset, and ids; counts what is odd."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._counts = Counter[tuple[str, str]]()  # by the message and the column
        self._examples: dict[tuple[str, str], str] = {}

    def time(self, written: object, column: str, is_utc: bool = False) -> str | None:
        """A time of a table in UTC; None where it cannot be read."""
        zone = UTC if is_utc else self._zone
        text, read = str(written), None
        if isinstance(written, str | int | float):
            read = utc(float(text) if NUMBER.fullmatch(text) else text, zone or UTC)
        if read is None:
            self._count(UNREADABLE, column, text)
        elif zone is None and is_naive(text):
            self._count(NAIVE, column, text)
        return read

    def is_rounded(self, id: str, column: str) -> bool:
        """Whether a spreadsheet has rounded this id."""
        rounded = ROUNDED.fullmatch(id) is not None
        if rounded:
            self._count(ROUNDED_ID, column, id)
        return rounded

    def corrected(self, value: bytes, post: Post) -> tuple[bytes, Post]:
        """An object and its post: a plain one in the time zone, and never under a rounded id."""
        changes = {}
        if post.platform == "plain" and self.is_rounded(post.id, "id"):
            changes["id"] = text_id(post.text)
        if (key := TIME_KEY.search(value)) and (time := self._time_of(value, post, key)):
            changes["created_at"] = time
        if not changes:
            return value, post
        told = {name: msgspec.Raw(msgspec.json.encode(new)) for name, new in changes.items()}
        value = msgspec.json.encode(OBJECT.decode(value) | told)
        return value, msgspec.structs.replace(post, **changes)

    def _time_of(self, value: bytes, post: Post, key: re.Match[bytes]) -> str | None:
        """The time of a post in an object if it is another one in the time zone that is wanted."""
        name = key[1].decode()
        if post.platform == "plain":
            written = PLAIN.decode(value).created_at
        else:
            written = (key[2] or key[3]).decode()  # perhaps of its author: odd ones alone count
        if written in (None, ""):
            return None
        if post.created_at is None and utc(written) is None:
            self._count(UNREADABLE, name, str(written))
        elif isinstance(written, str) and is_naive(written):
            if post.platform == "plain" and self._zone:
                return utc(written, self._zone)
            self._count(NAIVE, name, written)
        return None

    def warnings(self) -> Iterator[str]:
        """A sentence for each kind of oddity in each column."""
        for key, count in self._counts.items():
            message, column = key
            yield message.format(n=count, column=column, example=self._examples[key])

    def _count(self, message: str, column: str, example: str) -> None:
        key = message, column
        self._counts[key] += 1
        if key not in self._examples:
            self._examples[key] = cut(one_line(example), SHOWN)


def text_id(text: str) -> str:
    """The id of a post that has none: always the same for the same text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{digest[:DIGITS]}"
