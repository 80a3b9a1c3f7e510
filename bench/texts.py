"""The real texts that benches read, in a fixed shuffled order."""

import random
from collections.abc import Iterator
from pathlib import Path

from encoder.errors import InputError
from train.data.readers import KINDS, Row, SkippedRows, read_markdown, rows

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
SAMPLES = ROOT / "worker" / "samples"

Article = tuple[str, str]


def read_posts(data: Path | None, count: int) -> tuple[list[str], str]:
    """At most this many posts of a file or data folder, or of the default one; and its name."""
    source = _source(data, "tweets", SAMPLES / "posts.jsonl")
    texts = [text for row in _rows(source) if (text := _text(row, "text") or _text(row, "post"))]
    if not texts:
        raise InputError(f"--data: no post in {source}; give JSON lines with a key text")
    random.Random(0).shuffle(texts)
    is_shared = source.is_relative_to(SHARED_DATA)
    return texts[:count], f"../{source.relative_to(ROOT.parent)}" if is_shared else str(source)


def read_articles(data: Path | None, count: int) -> list[Article]:
    """At most this many articles, each a title and a text."""
    source = _source(data, "articles", SAMPLES / "seeds")
    texts = ((_text(r, "title"), _text(r, "article") or _text(r, "text")) for r in _rows(source))
    pairs = [pair for pair in texts if pair[1]]
    random.Random(0).shuffle(pairs)
    return pairs[:count]


def _source(data: Path | None, part: str, sample: Path) -> Path:
    """The file or folder to read; of a data folder of training, the part."""
    folder = data or SHARED_DATA
    if (folder / part).is_dir():
        return folder / part
    return data or sample


def _rows(source: Path) -> Iterator[Row]:
    files = [source] if source.is_file() else sorted(source.glob("*"))
    files = [file for file in files if file.name.endswith((*KINDS, ".md"))]
    if not files:
        raise InputError(
            f"--data: {source} holds no .jsonl, .csv, .tsv (or .gz of these) or .md file"
        )
    skips = SkippedRows()
    for file in files:
        if file.suffix == ".md":
            title, text = read_markdown(file)
            yield {"title": title, "text": text}
        else:
            yield from (row for _, row in rows(file, skips))
    if skips.count:
        raise InputError(f"{source}: {skips.examples[0]}")


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""
