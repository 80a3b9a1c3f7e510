"""The real texts that every row reads, in a fixed shuffled order."""

import random
from collections.abc import Iterator
from pathlib import Path

from encoder.errors import InputError
from train.data.readers import KINDS, Row, SkippedRows, read_markdown, rows

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
SAMPLES = ROOT / "worker" / "samples"

Article = tuple[str, str]


def read_posts(named: Path | None, count: int) -> tuple[list[str], str]:
    """So many posts at most, from the place named, else from one that is there; and its name."""
    where = _place(named, "tweets", SAMPLES / "posts.jsonl")
    texts = [text for row in _rows(where) if (text := _text(row, "text") or _text(row, "post"))]
    if not texts:
        raise InputError(f"--data: no post in {where}; JSON lines with a key text are read")
    random.Random(0).shuffle(texts)
    beside = where.is_relative_to(SHARED)
    return texts[:count], f"../{where.relative_to(ROOT.parent)}" if beside else str(where)


def read_articles(named: Path | None, count: int) -> list[Article]:
    """So many articles at most, a title and a text each, likewise."""
    where = _place(named, "articles", SAMPLES / "seeds")
    texts = ((_text(r, "title"), _text(r, "article") or _text(r, "text")) for r in _rows(where))
    pairs = [pair for pair in texts if pair[1]]
    random.Random(0).shuffle(pairs)
    return pairs[:count]


def _place(named: Path | None, part: str, sample: Path) -> Path:
    """The file or folder to read: of a folder laid out as training wants it, the part."""
    folder = named or SHARED
    if (folder / part).is_dir():
        return folder / part
    return named or sample


def _rows(where: Path) -> Iterator[Row]:
    files = [where] if where.is_file() else sorted(where.glob("*"))
    files = [file for file in files if file.name.endswith((*KINDS, ".md"))]
    if not files:
        raise InputError(f"--data: {where} holds no .jsonl, .jsonl.gz, .csv, .tsv or .md file")
    passed = SkippedRows()
    for file in files:
        if file.suffix == ".md":
            title, text = read_markdown(file)
            yield {"title": title, "text": text}
        else:
            yield from (row for _, row in rows(file, passed))
    if passed.count:
        raise InputError(f"{where}: {passed.examples[0]}")


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""
