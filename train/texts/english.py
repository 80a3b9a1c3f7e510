"""Gather English tweets, headlines, news sentences and Reddit posts from public repositories.

python -m train.texts.english --data ../shared/data --out FILE.jsonl.gz [--clones DIR]

Put FILE into `posts/` of the data folder: training uses its texts, evaluation never does. None of
them occurs elsewhere in the folder. Clones are stored in FILE.clones. The output is reproducible.
"""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import msgspec
import yaml

from encoder.errors import InputError, one_line
from encoder.support.files import write_atomically
from train.command import run_command
from train.data.readers import LINKS_AND_MENTIONS, SkippedRows, copy_key, files, share
from train.data.readers import rows as data_rows

SOURCES_FILE = Path(__file__).with_name("english.yaml")
SENTENCES = "sentences"
MOST = {"tweets": 400_000, "headlines": 220_000, SENTENCES: 60_000, "reddit": 60_000}
PARTS = ("tweets", "pairs", "crisis", "articles")  # of a data folder, without `posts`

TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
WORD = re.compile(r"[a-z']+")
WRONG_ENCODING = re.compile(r"[\x80-\x9f\ufffd]|â€|Ã.|ðŸ|\\u[0-9a-f]{4}")
ELLIPSES = ("…", "...")
MIN_WORDS = 4
COMMON_EVERY = 8  # words
MIN_LETTERS = 0.72  # of the characters that are not spaces
# Without `a`, `in` or `no`, which other languages have too.
COMMON = set(re.findall(WORD, """
    about after all an and are as at be been but by can could did do for from get had has have her
    his how i i'm if is it it's its just more my new not of on one or our out over said says she
    that the their them they this to up was we were what when who why will with would you your
"""))  # fmt: skip


Form = Literal["lines", "table", "json", "pattern"]  # pattern: the first group of each match


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """Files of one repository at one commit, by kind of text."""

    repo: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+/[\w.-]+$")]
    commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    licence: str
    form: Form
    files: dict[str, list[str]]  # `*` in a path matches anything
    fields: list[str | int] = field(default_factory=list)  # columns, or keys of JSON
    pattern: str = ""  # a regular expression; ^ and $ match at lines


def read_sources(file: Path) -> list[TextSource]:
    return msgspec.convert(yaml.safe_load(file.read_text("utf-8")), list[TextSource])


GITHUB = "https://github.com/"


class Clones:
    """A folder of bare clones, named OWNER+NAME; a missing one is fetched."""

    def __init__(self, folder: Path, home: str = GITHUB) -> None:
        self._folder, self._home = folder, home

    def read_all(self, source: TextSource, path: str) -> Iterator[tuple[str, bytes]]:
        """Every file that a path with `*` matches, with its own path."""
        clone = self._folder / source.repo.replace("/", "+")
        if not clone.is_dir():
            self._fetch(source, clone)
        archive = git(clone, "archive", source.commit, path)
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            for member in members:
                if member.isfile() and (file := members.extractfile(member)):
                    yield member.name, file.read()

    def _fetch(self, source: TextSource, clone: Path) -> None:
        """Fetch only this commit; git loads a file when it is read, or all where `*` is used."""
        wide = any("*" in path for paths in source.files.values() for path in paths)
        temporary = clone.with_name(f".{clone.name}")
        temporary.mkdir(parents=True, exist_ok=True)
        git(temporary, "init", "--quiet", "--bare")
        git(temporary, "config", "remote.origin.url", f"{self._home}{source.repo}")
        git(
            temporary,
            "fetch",
            "--quiet",
            "--depth=1",
            *([] if wide else ["--filter=blob:none"]),
            "origin",
            source.commit,
        )
        temporary.rename(clone)


def git(clone: Path, *arguments: str) -> bytes:
    """The output of a git command on a bare clone."""
    command = ["git", f"--git-dir={clone}", *arguments]
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        result = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError as error:
        raise InputError(f"git: cannot be started ({error.strerror}); install it") from error
    if result.returncode:
        why = one_line(result.stderr.decode("utf-8", "replace").strip())
        raise InputError(
            f"{clone}: git {arguments[0]} failed ({why}); delete the clone to fetch it again"
        )
    return result.stdout


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--clones", type=click.Path(path_type=Path), help="Where clones are kept.")
def main(data: Path, out: Path, clones: Path | None) -> None:
    """Gather English texts of four kinds."""
    folder = Clones(clones or out.with_name(f"{out.name}.clones"))
    texts = gather_english(read_sources(SOURCES_FILE), folder, data_keys(data))
    write(out, ({"text": text} for text in shuffle(chain(*texts.values()))))
    for kind, some in texts.items():
        click.echo(f"{kind}: {len(some):,}")


def gather_english(
    sources: Iterable[TextSource],
    clones: Clones,
    exclusions: set[str],
    most: Mapping[str, int] = MOST,
) -> dict[str, list[str]]:
    """Select distinct English texts of each kind; `exclusions` holds normalised texts."""
    sources, exclusions = list(sources), set(exclusions)
    by_kind: dict[str, list[str]] = {}
    for kind, limit in most.items():
        texts = filter(is_english, read_texts(sources, clones, kind))
        by_kind[kind] = choose_texts(texts, exclusions, limit)
        exclusions |= set(map(copy_key, by_kind[kind]))
    return by_kind


def data_keys(data: Path) -> set[str]:
    """Normalise every text of a data folder, and every sentence of its long ones."""
    keys: set[str] = set()
    for file in chain.from_iterable(files(data, part).values() for part in PARTS):
        for _, row in data_rows(file, SkippedRows()):
            for text in row.values():
                if isinstance(text, str):
                    keys.update(map(copy_key, (text, *sentences(text))))
    return keys


def read_texts(sources: Iterable[TextSource], clones: Clones, kind: str) -> Iterator[str]:
    """Read the texts of one kind; the fields of a row are joined."""
    for source in sources:
        for pattern in source.files.get(kind, ()):
            for path, raw in clones.read_all(source, pattern):
                texts = (clean(" ".join(row)) for row in rows(source, path, raw))
                yield from chain(*map(sentences, texts)) if kind == SENTENCES else texts


def clean(text: str) -> str:
    """Remove HTML and repeated spaces."""
    return " ".join(TAG.sub(" ", unescape(text)).split())


def is_english(text: str) -> bool:
    """Whether a text is probably complete and English; links and mentions are ignored."""
    plain = LINKS_AND_MENTIONS.sub(" ", text).strip()
    words = WORD.findall(plain.lower())
    letters = sum(char.isascii() and char.isalpha() for char in plain)
    return (
        len(words) >= MIN_WORDS
        and sum(word in COMMON for word in words) >= len(words) // COMMON_EVERY
        and letters >= MIN_LETTERS * len("".join(plain.split()))
        and not plain.endswith(ELLIPSES)
        and not WRONG_ENCODING.search(text)
    )


SENTENCE_END = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
MIN_CHARS, MAX_CHARS = 20, 600
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


def write(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write gzipped JSON lines, reproducibly."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomically(file, gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    run_command(main)
