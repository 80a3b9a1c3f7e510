"""Gather tweets, headlines, news sentences and Reddit posts from public repositories.

python -m train.texts.gather --data ../shared/data --out FILE.jsonl.gz [--clones DIR]

Put FILE into `posts/` of the data folder: training uses its texts, evaluation never does. None of
them occurs elsewhere in the folder. All are English but the Spanish posts, since an event abroad is
also posted about in its own language. Clones are stored in FILE.clones. The output is reproducible.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from itertools import chain
from pathlib import Path

import click

from train.command import run_command
from train.data.readers import LINKS_AND_MENTIONS, SkippedRows, copy_key, files
from train.data.readers import rows as data_rows
from train.texts.sources import Clones, TextSource, read_sources
from train.texts.texts import choose_texts, rows, sentences, shuffle, write

SOURCES_FILE = Path(__file__).with_name("gather.yaml")
SENTENCES, SPANISH = "sentences", "spanish"
MOST = {
    "tweets": 400_000,
    "headlines": 220_000,
    SENTENCES: 60_000,
    "reddit": 60_000,
    SPANISH: 40_000,
}
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


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--clones", type=click.Path(path_type=Path), help="Where clones are kept.")
def main(data: Path, out: Path, clones: Path | None) -> None:
    """Gather texts of five kinds."""
    folder = Clones(clones or out.with_name(f"{out.name}.clones"))
    texts = gather_texts(read_sources(SOURCES_FILE), folder, data_keys(data))
    write(out, ({"text": text} for text in shuffle(chain(*texts.values()))))
    for kind, some in texts.items():
        click.echo(f"{kind}: {len(some):,}")


def gather_texts(
    sources: Iterable[TextSource],
    clones: Clones,
    exclusions: set[str],
    most: Mapping[str, int] = MOST,
) -> dict[str, list[str]]:
    """Select distinct texts of each kind; `exclusions` holds normalised texts."""
    sources, exclusions = list(sources), set(exclusions)
    by_kind: dict[str, list[str]] = {}
    for kind, limit in most.items():
        texts = read_texts(sources, clones, kind)
        texts = texts if kind == SPANISH else filter(is_english, texts)
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


if __name__ == "__main__":
    run_command(main)
