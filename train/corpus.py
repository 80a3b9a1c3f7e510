"""The public text beside the checkout: posts, articles and everyday background."""

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from encoder.errors import InputError

EVERYDAY = "tweets/tweeteval.jsonl.gz"
STREAMS = (EVERYDAY, "tweets/canadian_news_2017.jsonl.gz")
LABELLED = (
    "crisis/crisislex_t6.jsonl.gz",
    "pairs/politifact.jsonl.gz",
    "pairs/webis_clickbait22.jsonl.gz",
    "pairs/checkthat22.jsonl.gz",
)
POSTS = (*STREAMS, *LABELLED)
PAIRED = ("politifact", "webis_clickbait22")


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as gzipped JSON lines ({error})") from error


def posts(data: Path, files: Sequence[str] = POSTS) -> Iterator[str]:
    """Every post of these files."""
    for name in files:
        for row in rows(data / name):
            yield row.get("text") or row.get("post") or ""


def articles(data: Path) -> Iterator[tuple[str, str]]:
    """Every article of the folder, as title and text."""
    paired = [data / "pairs" / f"{name}.jsonl.gz" for name in PAIRED]
    for file in sorted((data / "articles").glob("*.jsonl.gz")) + paired:
        for row in rows(file):
            if row.get("article"):
                yield row.get("title") or "", row["article"]


def claims(data: Path) -> Iterator[tuple[str, str]]:
    """The verified claims: the matched ones and the pool around them, as title and text."""
    for row in rows(data / "pairs" / "checkthat22_claims.jsonl.gz"):
        yield row.get("title") or "", row.get("vclaim") or ""
    for row in rows(data / "pairs" / "checkthat22.jsonl.gz"):
        if row.get("article"):
            yield row.get("title") or "", row["article"]


def crisis_articles(data: Path) -> Iterator[tuple[str, str]]:
    """The news reports on the labelled crises, as title and text."""
    for row in rows(data / "crisis" / "seed_articles.jsonl.gz"):
        yield row["title"], row["article"]


def share(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, to draw samples that never change."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
