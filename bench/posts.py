"""The real texts that every row reads: posts and articles out of JSON lines."""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from encoder.errors import InputError

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
SAMPLES = ROOT / "worker" / "samples"

KINDS = (".jsonl", ".jsonl.gz", ".md")

Article = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts in a fixed shuffled order: those measured, others read earlier, and their source.

    A stream brings new posts made mostly of known words. So what remembers words reads the
    earlier texts first, and is then measured on texts that it has not seen.
    """

    posts: tuple[str, ...]
    articles: tuple[Article, ...]
    source: str
    earlier_posts: tuple[str, ...] = ()
    earlier_articles: tuple[Article, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """How many texts of each kind are read at most."""

    posts: int = 98_304
    articles: int = 4_096
    earlier_posts: int = 32_768
    earlier_articles: int = 512


def read_texts(data: Path | None, articles: Path | None, counts: Counts, seed: int = 0) -> Texts:
    """The texts of the folders given, else those beside the checkout, else the shipped samples."""
    post_files, where = _files(data, SHARED / "tweets", SAMPLES / "posts.jsonl")
    article_files, where_articles = _files(articles, SHARED / "articles", SAMPLES / "seeds")
    found = [text for record in _records(post_files) if (text := _post(record))]
    long = [pair for record in _records(article_files) if (pair := _article(record))]
    if not found:
        raise InputError(f"--data: no post in {where}; JSON lines with a key text are read")
    shuffle = random.Random(seed).shuffle
    shuffle(found)
    shuffle(long)
    posts, earlier_posts = _shares(found, counts.posts, counts.earlier_posts)
    pairs, earlier_pairs = _shares(long, counts.articles, counts.earlier_articles)
    source = f"{where}; {where_articles}"
    return Texts(posts, pairs, source, earlier_posts, earlier_pairs)


def _shares(found: list[T], measured: int, earlier: int) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """At most so many to measure and so many before; too few are shared out in that proportion."""
    cut = min(earlier, len(found) * earlier // (measured + earlier))
    return tuple(found[cut : cut + measured]), tuple(found[:cut])


def _files(named: Path | None, beside: Path, sample: Path) -> tuple[list[Path], str]:
    if named is not None:
        files = [named] if named.is_file() else _folder(named)
        if not files:
            raise InputError(f"--data: {named} holds no .jsonl, .jsonl.gz or .md file")
        return files, str(named)
    if beside.is_dir():
        return _folder(beside), f"../{beside.relative_to(ROOT.parent)}"
    files = [sample] if sample.is_file() else _folder(sample)
    return files, f"the shipped samples, {sample.relative_to(ROOT)}"


def _folder(folder: Path) -> list[Path]:
    return sorted(f for f in folder.glob("*") if f.name.endswith(KINDS))


def _records(files: list[Path]) -> Iterator[dict[str, object]]:
    for file in files:
        if file.suffix == ".md":
            title, _, text = file.read_text(encoding="utf-8").partition("\n")
            yield {"title": title.lstrip("# "), "text": text}
            continue
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise InputError(f"{file}:{number}: not JSON ({error})") from None
                if isinstance(record, dict):
                    yield record


def _post(record: dict[str, object]) -> str:
    return _text(record, "text") or _text(record, "post")


def _article(record: dict[str, object]) -> Article | None:
    text = _text(record, "article") or _text(record, "text")
    return (_text(record, "title"), text) if text else None


def _text(record: dict[str, object], key: str) -> str:
    value = record.get(key)
    return value.strip() if isinstance(value, str) else ""
