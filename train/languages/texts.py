"""Texts out of the files of a source, and which of them are worth keeping."""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from train.data.splits import bare, share
from train.languages.sources import Source

TOLD = re.compile(r"^# text = (.+)$", re.MULTILINE)
NAMED = re.compile(r"^# sent_id = (\S+)$", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
DENSE = {"zh", "zh-tw", "ja", "ko", "th"}  # a text of few signs says much
SHORTEST, SHORTEST_DENSE, LONGEST = 20, 8, 600
WHOLE = 200  # a longer text of a source of sentences is cut into its sentences

csv.field_size_limit(2**26)


def rows(source: Source, path: str, raw: bytes) -> Iterator[tuple[str, ...]]:
    """The rows of one file: a text each, or what its columns hold."""
    unpacked = gzip.decompress(raw) if path.endswith(".gz") else raw
    text = unpacked.decode("utf-8-sig", "replace")
    if source.form == "table":
        return _columns(source, path, text)
    if source.form == "json":
        keys = set(source.fields)
        return ((value,) for found in _json(text) for value in _under(found, keys))
    if source.form == "conllu":
        return zip(TOLD.findall(text), NAMED.findall(text), strict=True)
    lines = (line.strip() for line in text.split("\n"))
    return ((line.replace(" ", "") if source.form == "words" else line,) for line in lines)


def _columns(source: Source, path: str, text: str) -> Iterator[tuple[str, ...]]:
    delimiter = source.delimiter or ("," if path.endswith(".csv") else "\t")
    found = csv.reader(io.StringIO(text), delimiter=delimiter, quotechar=source.quote)
    head = next(found, []) if isinstance(source.fields[0], str) else []
    places = [one if isinstance(one, int) else head.index(one) for one in source.fields]
    for row in found:
        if len(row) > max(places):
            yield tuple(row[place] for place in places)


def _json(text: str) -> Iterator[Any]:
    try:
        yield json.loads(text)
    except ValueError:
        yield from (json.loads(line) for line in text.splitlines())


def _under(found: Any, keys: set[str | int]) -> Iterator[str]:
    if isinstance(found, list):
        for one in found:
            yield from _under(one, keys)
    elif isinstance(found, dict):
        for key, value in found.items():
            if key in keys and isinstance(value, str):
                yield value
            else:
                yield from _under(value, keys)


def sentences(text: str) -> Iterable[str]:
    """A text as it is, or if it is long its sentences."""
    return [text] if len(text) <= WHOLE else SENTENCE_END.split(text)


def kept(texts: Iterable[str], language: str, judged: set[str], most: int) -> list[str]:
    """Texts neither short nor long, each once, none that judges, drawn by their hash alone."""
    least = SHORTEST_DENSE if language in DENSE else SHORTEST
    found: dict[str, str] = {}
    for text in texts:
        key = bare(text)
        if least <= len(text) <= LONGEST and key and key not in judged:
            found.setdefault(key, text)
    return list(islice(drawn(found.values()), most))


def drawn(texts: Iterable[str]) -> Iterator[str]:
    """The same texts in an order that says nothing of how they stood or whether they train."""
    return iter(sorted(texts, key=lambda text: share(f"drawn {text}")))
