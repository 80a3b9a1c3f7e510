"""Read texts from source files, and select texts."""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from itertools import islice
from typing import Any, NamedTuple

from train.data.readers import LINKS_AND_MENTIONS, copy_key, share
from train.languages.sources import TextSource

CONLLU_TEXT = re.compile(r"^# text = (.+)$", re.MULTILINE)
CONLLU_ID = re.compile(r"^# sent_id = (\S+)$", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
DENSE = {"zh", "zh-tw", "ja", "ko", "th"}  # short texts are informative
MIN_CHARS, MIN_CHARS_DENSE, MAX_CHARS = 20, 8, 600
WHOLE = 200  # longer texts are split into sentences

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
    if source.form == "conllu":
        return zip(CONLLU_TEXT.findall(text), CONLLU_ID.findall(text), strict=True)
    if source.form == "pattern":
        return ((match[1],) for match in re.finditer(source.pattern, text, re.MULTILINE))
    lines = (line.strip() for line in text.split("\n"))
    return ((line.replace(" ", "") if source.form == "words" else line,) for line in lines)


def _columns(source: TextSource, path: str, text: str) -> Iterator[tuple[str, ...]]:
    delimiter = source.delimiter or ("," if path.endswith(".csv") else "\t")
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, quotechar=source.quote)
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


def choose_texts(texts: Iterable[str], language: str, keys: set[str], most: int) -> list[str]:
    """Select distinct texts of medium length that are not in `keys`, in order of a hash."""
    least = MIN_CHARS_DENSE if language in DENSE else MIN_CHARS
    selection: dict[str, str] = {}
    for text in texts:
        key = copy_key(text)
        if least <= len(text) <= MAX_CHARS and key and key not in keys:
            selection.setdefault(key, text)
    return list(islice(shuffle(selection.values()), most))


def shuffle(texts: Iterable[str]) -> Iterator[str]:
    """Shuffle by a hash, independent of the order and of the split."""
    return iter(sorted(texts, key=lambda text: share(f"drawn {text}")))


ON_TOPIC_LABELS = ("Related and informative", "Related - but not informative")
OFF_TOPIC_LABEL = "Not related"
MEDIA = "Media"
HEADLINES = 10
OTHERS = 2_000  # posts on other crises, per crisis

Row = dict[str, Any]


class Crisis(NamedTuple):
    """The headlines of one crisis, and its on-topic and off-topic posts."""

    headlines: list[str]
    on: list[str]
    off: list[str]


def make_crisis(rows: Iterable[tuple[str, ...]]) -> Crisis:
    """Sort the rows of a crisis by source and label; copies of a headline are removed."""
    headlines, on, off = dict[str, str](), list[str](), list[str]()
    for text, source, label in rows:
        name, key = label.strip(), copy_key(text)
        if key and source == MEDIA and name == ON_TOPIC_LABELS[0] and len(headlines) < HEADLINES:
            headlines.setdefault(key, " ".join(LINKS_AND_MENTIONS.sub(" ", unescape(text)).split()))
        elif key and key not in headlines and name in (*ON_TOPIC_LABELS, OFF_TOPIC_LABEL):
            (off if name == OFF_TOPIC_LABEL else on).append(text)
    return Crisis(list(headlines.values()), on, off)


def crisis_rows(crises: Mapping[str, Crisis]) -> tuple[list[Row], list[Row]]:
    """Return labelled posts of all crises, and an article on each."""
    posts: list[Row] = []
    for event, crisis in crises.items():
        others = (text for name, other in crises.items() if name != event for text in other.on)
        off = [*crisis.off, *list(shuffle(others))[:OTHERS]]
        for label, texts in (("on-topic", crisis.on), ("off-topic", off)):
            posts += [{"event": event, "label": label, "text": text} for text in texts]
    by_event = {event: "\n".join(crisis.headlines) for event, crisis in crises.items()}
    articles = [{"event": event, "article": text} for event, text in by_event.items() if text]
    return posts, articles
