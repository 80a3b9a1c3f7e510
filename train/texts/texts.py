"""Read texts from source files, and select texts."""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from encoder.support.files import write_atomically
from train.data.readers import copy_key, share
from train.texts.sources import TextSource

SENTENCE_END = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
MIN_CHARS, MAX_CHARS = 20, 600
WHOLE = 200  # longer texts are split into sentences

Row = dict[str, Any]

csv.field_size_limit(2**26)


def rows(source: TextSource, path: str, raw: bytes) -> Iterator[tuple[str, ...]]:
    """Read the rows of one file, as tuples of a text or of columns."""
    content = gzip.decompress(raw) if path.endswith(".gz") else raw
    text = content.decode("utf-8-sig", "replace")
    if source.form == "table":
        return _columns(source, path, text)
    if source.form == "json":
        keys = set(source.fields)
        return ((value,) for content in _json(text) for value in _under(content, keys))
    if source.form == "pattern":
        return ((match[1],) for match in re.finditer(source.pattern, text, re.MULTILINE))
    return ((line.strip(),) for line in text.split("\n"))


def _columns(source: TextSource, path: str, text: str) -> Iterator[tuple[str, ...]]:
    delimiter = "," if path.endswith(".csv") else "\t"
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    head = next(lines, []) if isinstance(source.fields[0], str) else []
    places = [field if isinstance(field, int) else head.index(field) for field in source.fields]
    for row in lines:
        if len(row) > max(places):
            yield tuple(row[place] for place in places)


def _json(text: str) -> Iterator[Any]:
    try:
        yield json.loads(text)
    except ValueError:
        yield from (json.loads(line) for line in text.splitlines())


def _under(content: Any, keys: set[str | int]) -> Iterator[str]:
    if isinstance(content, list):
        for item in content:
            yield from _under(item, keys)
    elif isinstance(content, dict):
        for key, value in content.items():
            if key in keys and isinstance(value, str):
                yield value
            else:
                yield from _under(value, keys)


def sentences(text: str) -> Iterable[str]:
    """Split a long text into sentences."""
    return [text] if len(text) <= WHOLE else SENTENCE_END.split(text)


def choose_texts(texts: Iterable[str], keys: set[str], most: int) -> list[str]:
    """Select distinct texts of medium length that are not in `keys`, in order of a hash."""
    selection: dict[str, str] = {}
    for text in texts:
        key = copy_key(text)
        if MIN_CHARS <= len(text) <= MAX_CHARS and key and key not in keys:
            selection.setdefault(key, text)
    return list(islice(shuffle(selection.values()), most))


def shuffle(texts: Iterable[str]) -> Iterator[str]:
    """Shuffle by a hash, independent of the order and of the split."""
    return iter(sorted(texts, key=lambda text: share(f"drawn {text}")))


def write(file: Path, rows: Iterable[Row]) -> None:
    """Write gzipped JSON lines, reproducibly."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomically(file, gzip.compress(lines.encode(), mtime=0))
