"""The public text beside the checkout: posts, articles and everyday background."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encoder.errors import InputError

EVERYDAY = "tweets/tweeteval.jsonl.gz"
POSTS = (
    EVERYDAY,
    "tweets/canadian_news_2017.jsonl.gz",
    "crisis/crisislex_t6.jsonl.gz",
    "pairs/politifact.jsonl.gz",
    "pairs/webis_clickbait22.jsonl.gz",
    "pairs/checkthat22.jsonl.gz",
)
PAIRED = ("politifact", "webis_clickbait22")


def rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as gzipped JSON lines ({error})") from error


def posts(data: Path) -> Iterator[str]:
    """Every post of the folder."""
    for name in POSTS:
        for row in rows(data / name):
            yield row.get("text") or row.get("post") or ""


def articles(data: Path) -> Iterator[tuple[str, str]]:
    """Every article of the folder, as title and text."""
    paired = [data / "pairs" / f"{name}.jsonl.gz" for name in PAIRED]
    for file in sorted((data / "articles").glob("*.jsonl.gz")) + paired:
        for row in rows(file):
            if row.get("article"):
                yield row.get("title") or "", row["article"]


def share(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, to draw samples that never change."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
