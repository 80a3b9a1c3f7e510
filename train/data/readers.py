"""Read training data, and split it by hash."""

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, TypeVar, cast

from encoder.errors import InputError

TABLES = {".csv": ",", ".tsv": "\t"}
EXAMPLES = 5
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # json joins the two of a pair
SNOWFLAKE = re.compile(r"[0-9]{17,19}")  # shorter ids contain no time
X_EPOCH = 1_288_834_974_657  # milliseconds
csv.field_size_limit(2**26)
T = TypeVar("T")

Row = dict[str, Any]


class TrainingArticle(NamedTuple):
    """An article, or a short claim used as one."""

    title: str
    text: str


class Pair(NamedTuple):
    post: str
    story: TrainingArticle
    year: int | None = None  # of the post, if its id contains it


class CrisisPost(NamedTuple):
    """A post labelled as on or off the topic of an event."""

    event: str
    text: str
    on_topic: bool


@dataclass(slots=True)
class SkippedRows:
    """The number of skipped rows, and the file, line and reason of the first."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, file: Path, line: int, reason: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{file.name}:{line}: {reason}")

    def __str__(self) -> str:
        examples = f" ({'; '.join(self.examples)}, …)" if self.examples else ""
        return f"skipped rows: {self.count}{examples}"


def read_pairs(file: Path, skips: SkippedRows) -> Iterator[Pair]:
    """Read pairs with the keys `post`, `article` and optionally `title` and `post_id`."""
    return read_rows(
        file,
        skips,
        lambda row: Pair(text_under(row, "post"), _story(row), year_of(row.get("post_id"))),
    )


def read_stories(file: Path, skips: SkippedRows) -> Iterator[TrainingArticle]:
    """Read articles with the keys `article` or `vclaim`, and optionally `title`."""
    return read_rows(file, skips, _story)


def read_reports(file: Path, skips: SkippedRows) -> Iterator[tuple[str, TrainingArticle]]:
    """Read articles with the key `event`."""
    return read_rows(file, skips, lambda row: (text_under(row, "event"), _story(row)))


def read_crisis_posts(file: Path, skips: SkippedRows) -> Iterator[CrisisPost]:
    """Read labelled posts with the keys `event`, `text` and `label`."""
    return read_rows(file, skips, _crisis_post)


def read_posts(file: Path, skips: SkippedRows) -> Iterator[str]:
    """Read everyday posts with the key `text`."""
    return read_rows(file, skips, lambda row: text_under(row, "text"))


def read_markdown(file: Path) -> TrainingArticle:
    """Read an article from Markdown; the first line is the title if it is a heading."""
    with _open_text(file) as lines:
        text = lines.read().strip()
    first, _, rest = text.partition("\n")
    return (
        TrainingArticle(first.lstrip("# "), rest.strip())
        if first.startswith("# ")
        else TrainingArticle("", text)
    )


def rows(file: Path, skips: SkippedRows) -> Iterator[tuple[int, Row]]:
    """Yield every row with its line number; invalid lines are skipped and counted."""
    kind = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    with _open_text(file) as lines:
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
                yield number, without_lone_surrogates(row) if "\\u" in line else row
            else:
                skips.add(file, number, "is not a JSON object")


def without_lone_surrogates(row: Row) -> Row:
    """Replace halves of surrogate pairs, which cannot be encoded: texts may be cut within one."""
    return {
        key: LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value
        for key, value in row.items()
    }


def read_rows(file: Path, skips: SkippedRows, make: Callable[[Row], T]) -> Iterator[T]:
    """Convert each row; one that raises ValueError is skipped and counted."""
    for number, row in rows(file, skips):
        try:
            value = make(row)
        except ValueError as error:
            skips.add(file, number, str(error))
        else:
            yield value


@contextmanager
def _open_text(file: Path) -> Iterator[TextIO]:
    """Open a file; an error while it is read names the file, too."""
    unpack = gzip.open if file.suffix == ".gz" else open
    try:
        with unpack(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            yield cast(TextIO, lines)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{file}: cannot be read to its end ({reason}); restore the file"
        ) from error


def _story(row: Row) -> TrainingArticle:
    text, title = (
        text_under(row, "vclaim" if row.get("vclaim") else "article"),
        row.get("title") or "",
    )
    if not isinstance(title, str):
        raise ValueError("has a 'title' that is not text")
    return TrainingArticle(title, text)


def _crisis_post(row: Row) -> CrisisPost:
    label = row.get("label")
    if label not in ("on-topic", "off-topic"):
        raise ValueError(f"has the label {label!r}, neither on-topic nor off-topic")
    return CrisisPost(text_under(row, "event"), text_under(row, "text"), label == "on-topic")


def year_of(post_id: object) -> int | None:
    """Return the year of an X post; ids contain the time since the end of 2010."""
    if not isinstance(post_id, str) or not SNOWFLAKE.fullmatch(post_id):
        return None
    return datetime.fromtimestamp(((int(post_id) >> 22) + X_EPOCH) / 1000, UTC).year


def text_under(row: Row, key: str) -> str:
    """Return a required text of a row."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"has no text under {key!r}")
    return value


KINDS = (".jsonl", ".csv", ".tsv", ".jsonl.gz", ".csv.gz", ".tsv.gz")
CLAIMS, POOL, REPORTS = "_claims", "_pool", "seed_articles"


def files(data: Path, part: str) -> dict[str, Path]:
    """List the data files in one part of a folder by their names without extension."""
    folder = data / part
    by_name: dict[str, Path] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        if file.name.startswith(".") or not file.name.endswith(KINDS):
            continue
        name = Path(file.name.removesuffix(".gz")).stem
        if name in by_name:
            other = by_name[name].name
            raise InputError(f"{file}: {other} beside it has the same name; rename or remove one")
        by_name[name] = file
    return by_name


def pair_sets(data: Path, skips: SkippedRows) -> Iterator[tuple[str, list[Pair]]]:
    for name, file in files(data, "pairs").items():
        if not name.endswith((CLAIMS, POOL)):
            yield name, list(read_pairs(file, skips))


def pool(data: Path, name: str, ending: str, skips: SkippedRows) -> Iterator[TrainingArticle]:
    """Read the additional articles or claims of the pairs `name`."""
    file = files(data, "pairs").get(name + ending)
    return iter(()) if file is None else read_stories(file, skips)


def crisis_posts(data: Path, skips: SkippedRows) -> Iterator[CrisisPost]:
    for name, file in files(data, "crisis").items():
        if name != REPORTS:
            yield from read_crisis_posts(file, skips)


def reports(data: Path, skips: SkippedRows) -> dict[str, list[TrainingArticle]]:
    by_event: dict[str, list[TrainingArticle]] = {}
    if file := files(data, "crisis").get(REPORTS):
        for event, story in read_reports(file, skips):
            by_event.setdefault(event, []).append(story)
    return by_event


Split = Literal["train", "dev", "test"]
DEV, TEST = 0.1, 0.3  # hashes below the first are dev, below the second test, the rest train
TEST_EVENTS, DEV_EVENTS = 0.35, 0.6
LINKS_AND_MENTIONS = re.compile(r"https?://\S*|\bRT\b:?\s*(?=@)|@\w+:?")
PUNCTUATION = re.compile(r"[\W_]+")


def share(text: str) -> float:
    """Hash a text to [0, 1), for reproducible samples."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def copy_key(text: str) -> str:
    """Normalise a text to find near-copies: no links, RT, mentions or punctuation."""
    return PUNCTUATION.sub(" ", LINKS_AND_MENTIONS.sub(" ", unescape(text))).strip().casefold()


def story_key(story: TrainingArticle) -> str:
    """Return the key that copies of an article share: its title, else its lead."""
    return copy_key(story.title) or copy_key(story.text[:400])


def split_of(key: str) -> Split:
    place = share(f"split {key}")
    return "dev" if place < DEV else "test" if place < TEST else "train"


def split_of_event(event: str) -> Split:
    """A third of the events is test, a quarter dev, the rest train."""
    place = share(f"event {event}")
    return "test" if place < TEST_EVENTS else "dev" if place < DEV_EVENTS else "train"


def split_pairs(pairs: Iterable[Pair]) -> dict[Split, list[Pair]]:
    """Split pairs; a copy of a pair in test is removed from dev, and of either from train."""
    splits: dict[Split, list[Pair]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        splits[split_of(story_key(pair.story))].append(pair)
    posts: set[str] = set()
    texts: set[str] = set()
    for name in ("test", "dev", "train"):
        keys = [(copy_key(pair.post), copy_key(pair.story.text), pair) for pair in splits[name]]
        free = [key for key in keys if key[0] not in posts and key[1] not in texts]
        posts.update(post for post, _, _ in free)
        texts.update(text for _, text, _ in free)
        splits[name] = [pair for _, _, pair in free]
    return splits


def without_copies(posts: Iterable[CrisisPost]) -> list[CrisisPost]:
    """Remove posts without words, and copies within an event."""
    first: dict[tuple[str, str], CrisisPost] = {}
    for post in posts:
        first.setdefault((post.event, copy_key(post.text)), post)
    return [post for (_, key), post in first.items() if key]
