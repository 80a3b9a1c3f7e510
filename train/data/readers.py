"""Labelled data from files: pairs of post and article, and crises, a row at a time.

Rows are JSON lines, plain or gzip, CSV or TSV. A row that cannot be used is passed over, counted,
and named by file and line.
"""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar, cast

from encoder.errors import InputError

TABLES = {".csv": ",", ".tsv": "\t"}
TOLD = 5
SNOWFLAKE = re.compile(r"[0-9]{17,19}")  # shorter ones tell no time
X_EPOCH = 1_288_834_974_657  # milliseconds
csv.field_size_limit(2**26)
T = TypeVar("T")

Row = dict[str, Any]


class Story(NamedTuple):
    """An article, or a short claim that stands for one: what the encoder takes as an article."""

    title: str
    text: str


class Pair(NamedTuple):
    """A post and the article it talks about."""

    post: str
    story: Story
    year: int | None = None  # of the post, where its id says it


class CrisisPost(NamedTuple):
    """A post gathered for an event, and whether it talks about it."""

    event: str
    text: str
    on_topic: bool


@dataclass(slots=True)
class Passed:
    """The rows that could not be used: how many, and the first of them by file and line."""

    count: int = 0
    told: list[str] = field(default_factory=list)

    def add(self, file: Path, line: int, reason: str) -> None:
        """Count one row."""
        self.count += 1
        if len(self.told) < TOLD:
            self.told.append(f"{file.name}:{line}: {reason}")

    def __str__(self) -> str:
        told = f" ({'; '.join(self.told)}, …)" if self.told else ""
        return f"rows passed over: {self.count}{told}"


def read_pairs(file: Path, passed: Passed) -> Iterator[Pair]:
    """The pairs of one file: `post`, `article` and if there are any `title` and `post_id`."""
    return read_rows(
        file,
        passed,
        lambda row: Pair(text_under(row, "post"), _story(row), year_of(row.get("post_id"))),
    )


def read_stories(file: Path, passed: Passed) -> Iterator[Story]:
    """The articles of one file, with the keys `article` or `vclaim` and if there is one `title`."""
    return read_rows(file, passed, _story)


def read_reports(file: Path, passed: Passed) -> Iterator[tuple[str, Story]]:
    """The events and the articles on them of one file, with the keys of an article and `event`."""
    return read_rows(file, passed, lambda row: (text_under(row, "event"), _story(row)))


def read_crisis_posts(file: Path, passed: Passed) -> Iterator[CrisisPost]:
    """The labelled posts of one file, with the keys `event`, `text` and `label`."""
    return read_rows(file, passed, _crisis_post)


def read_posts(file: Path, passed: Passed) -> Iterator[str]:
    """The everyday posts of one file, with the key `text`; a row without one is no fault."""
    return (text for text, _ in read_told(file, passed))


def read_told(file: Path, passed: Passed) -> Iterator[tuple[str, str]]:
    """The everyday posts of one file, each with what its row has under `lang`, if anything."""
    for _, row in rows(file, passed):
        text = row.get("text")
        if isinstance(text, str) and text.strip():
            yield text, str(row.get("lang") or "")


def read_markdown(file: Path) -> Story:
    """An article out of Markdown; the first line is its title if it is a heading."""
    with _opened(file) as lines:
        text = lines.read().strip()
    first, _, rest = text.partition("\n")
    return Story(first.lstrip("# "), rest.strip()) if first.startswith("# ") else Story("", text)


def rows(file: Path, passed: Passed) -> Iterator[tuple[int, Row]]:
    """Every row with its line number; a line that is no row is counted."""
    kind = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    with _opened(file) as lines:
        if kind in TABLES:
            table = csv.DictReader(lines, delimiter=TABLES[kind])
            yield from ((table.line_num, row) for row in table)
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


def read_rows(file: Path, passed: Passed, make: Callable[[Row], T]) -> Iterator[T]:
    """What each row makes; one of which nothing can be made is counted with the reason."""
    for number, row in rows(file, passed):
        try:
            made = make(row)
        except ValueError as error:
            passed.add(file, number, str(error))
        else:
            yield made


def _opened(file: Path) -> TextIO:
    unpack = gzip.open if file.suffix == ".gz" else open
    try:
        return cast(TextIO, unpack(file, "rt", encoding="utf-8-sig", errors="replace", newline=""))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error


def _story(row: Row) -> Story:
    text, title = (
        text_under(row, "vclaim" if row.get("vclaim") else "article"),
        row.get("title") or "",
    )
    if not isinstance(title, str):
        raise ValueError("has a 'title' that is no text")
    return Story(title, text)


def _crisis_post(row: Row) -> CrisisPost:
    label = row.get("label")
    if label not in ("on-topic", "off-topic"):
        raise ValueError(f"has the label {label!r}, neither on-topic nor off-topic")
    return CrisisPost(text_under(row, "event"), text_under(row, "text"), label == "on-topic")


def year_of(post_id: object) -> int | None:
    """The year of a post of X by its id, which holds the time since the end of 2010."""
    if not isinstance(post_id, str) or not SNOWFLAKE.fullmatch(post_id):
        return None
    return datetime.fromtimestamp(((int(post_id) >> 22) + X_EPOCH) / 1000, UTC).year


def text_under(row: Row, key: str) -> str:
    """The text that a row has to hold under a key."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"has no text under {key!r}")
    return value
