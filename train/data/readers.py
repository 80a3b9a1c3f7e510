"""Labelled data from files: pairs of post and article, and crises, a row at a time.

Pairs are JSON lines, plain or gzip, CSV or TSV with the keys `post` and `article`, and if there
are any `title`, `post_id`, `article_id`; or a folder of articles beside a file of posts that link
to them. A row that cannot be used is passed over, counted, and named by file and line.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from encoder.errors import InputError

TABLES = {".csv": ",", ".tsv": "\t"}
TOLD = 5
csv.field_size_limit(2**26)
T = TypeVar("T")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """An article, or a short claim that stands for one."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A post and the article it talks about."""

    post: str
    story: Story


@dataclass(frozen=True, slots=True)
class CrisisPost:
    """A post gathered for an event, and whether it talks about it."""

    event: str
    text: str
    on_topic: bool


@dataclass(slots=True)
class Passed:
    """The rows that could not be used: how many, and the first of each file by line."""

    count: int = 0
    told: list[str] = field(default_factory=list)

    def add(self, file: Path, line: int, reason: str) -> None:
        """Count one row."""
        self.count += 1
        if len(self.told) < TOLD:
            self.told.append(f"{file.name}:{line}: {reason}")


def read_pairs(file: Path, passed: Passed) -> Iterator[Pair]:
    """The pairs of one file."""
    yield from _read(file, passed, _pair)


def read_crisis_posts(file: Path, passed: Passed) -> Iterator[CrisisPost]:
    """The labelled posts of one file, with the keys `event`, `text` and `label`."""
    yield from _read(file, passed, _crisis_post)


def read_stories(file: Path, passed: Passed) -> Iterator[Story]:
    """The articles of one file, with the keys `article` and if there is one `title`."""
    yield from _read(file, passed, _story)


def read_linked(folder: Path, passed: Passed) -> Iterator[Pair]:
    """The posts of `posts.*` that link to the articles of `articles.*` by their `url`."""
    articles = _named(folder, "articles")
    stories = dict(chain.from_iterable(_read(file, passed, _linked_story) for file in articles))
    for file in _named(folder, "posts"):
        for url, text in _read(file, passed, _linking_post):
            if url in stories:
                yield Pair(text, stories[url])


def rows(file: Path, passed: Passed) -> Iterator[tuple[int, Row]]:
    """Every row with its line number; a line that is no row is counted."""
    with _opened(file) as lines:
        if (delimiter := TABLES.get(_kind(file))) is not None:
            yield from _table_rows(lines, delimiter)
            return
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                yield number, row
            else:
                passed.add(file, number, "is no JSON object")


def _read(file: Path, passed: Passed, make: Callable[[Row], T]) -> Iterator[T]:
    for number, row in rows(file, passed):
        try:
            made = make(row)
        except ValueError as error:
            passed.add(file, number, str(error))
        else:
            yield made


def _table_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, Row]]:
    table = csv.DictReader(lines, delimiter=delimiter)
    for row in table:
        yield table.line_num, row


def _opened(file: Path) -> TextIO:
    unpack = gzip.open if file.suffix == ".gz" else open
    try:
        return cast(TextIO, unpack(file, "rt", encoding="utf-8-sig", errors="replace", newline=""))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error


def _kind(file: Path) -> str:
    return Path(file.stem).suffix if file.suffix == ".gz" else file.suffix


def _named(folder: Path, stem: str) -> list[Path]:
    found = sorted(folder.glob(f"{stem}.*"))
    if not found:
        raise InputError(f"{folder}: holds no {stem}.jsonl, .csv or .tsv")
    return found


def _pair(row: Row) -> Pair:
    return Pair(_text(row, "post"), _story(row))


def _story(row: Row) -> Story:
    text, title = _text(row, "article"), row.get("title") or ""
    if not isinstance(title, str):
        raise ValueError("has a 'title' that is no text")
    return Story(str(row.get("article_id") or title or text[:200]), title, text)


def _crisis_post(row: Row) -> CrisisPost:
    label = row.get("label")
    if label not in ("on-topic", "off-topic"):
        raise ValueError(f"has the label {label!r}, neither on-topic nor off-topic")
    return CrisisPost(_text(row, "event"), _text(row, "text"), label == "on-topic")


def _linked_story(row: Row) -> tuple[str, Story]:
    return canonical(_text(row, "url")), _story(row)


def _linking_post(row: Row) -> tuple[str, str]:
    return canonical(_text(row, "url")), _text(row, "post" if "post" in row else "text")


def canonical(url: str) -> str:
    """A link without what varies between two copies of it: scheme, www, query and last slash."""
    bare = url.strip().partition("://")[2] or url.strip()
    return bare.removeprefix("www.").partition("?")[0].partition("#")[0].rstrip("/").lower()


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"has no text under {key!r}")
    return value
