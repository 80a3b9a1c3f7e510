"""Build the data folder of `newsift train multilingual` from public repositories.

python -m train.languages.gather --data ../shared/data --out DIR [--clones DIR]

--data is the English training data. Clones are stored in OUT.clones. The output is reproducible.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from encoder.support.files import write_atomically
from train.command import run_command
from train.data.readers import (
    CLAIMS,
    REPORTS,
    Pair,
    SkippedRows,
    TrainingArticle,
    copy_key,
    files,
    read_posts,
    split_pairs,
)
from train.languages.sources import Clones, TextSource, Use, read_sources
from train.languages.texts import choose_texts, crisis_rows, make_crisis, rows, sentences, shuffle

ENGLISH = "en"
PARTS = ("judged", "tweets", "pairs", "crisis")
POSTS, ENGLISH_POSTS, MIN_POSTS = 8_000, 12_000, 4_000
MORE_POSTS, SENTENCES, PARALLEL = 5_000, 7_000, 5_000  # a language

Row = dict[str, Any]


class SourceTexts:
    """The texts of the sources, by use and language."""

    def __init__(self, sources: Iterable[TextSource], clones: Clones) -> None:
        self._sources, self._clones = list(sources), clones

    def rows(self, use: Use, language: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield (language, row); the rows of parallel files are joined."""
        for source in (source for source in self._sources if source.use == use):
            for own, paths in source.paths():
                if language in (None, own):
                    read = [rows(source, p, self._clones.read(source, p)) for p in paths]
                    yield from ((own, tuple(chain(*row))) for row in zip(*read, strict=False))

    def texts(self, use: Use, language: str) -> Iterator[str]:
        return (text for _, row in self.rows(use, language) for text in row)

    def languages(self) -> list[str]:
        """List the languages, sorted."""
        texts = (source for source in self._sources if source.use != "crises")
        return sorted({language for source in texts for language in source.files})


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--clones", type=click.Path(path_type=Path), help="Where clones are kept.")
def main(data: Path, out: Path, clones: Path | None) -> None:
    """Gather posts, sentences and pairs in sixteen languages."""
    sources = SourceTexts(read_sources(), Clones(clones or out.with_name(f"{out.name}.clones")))
    gather(sources, data, out)


def gather(sources: SourceTexts, data: Path, out: Path) -> None:
    """Write every part of the folder."""
    for part in PARTS:
        (out / part).mkdir(parents=True, exist_ok=True)
    judged_keys = write_judged(sources, out / "judged")
    parallel = pairs(sources, judged_keys)
    training = list(chain.from_iterable((pair["article"], pair["post"]) for pair in parallel))
    for language in sources.languages():
        posts, more = training_texts(sources, data, language, judged_keys)
        training += more
        rows = ({"text": text, "lang": language} for text in posts)
        write(out / "tweets" / f"{language}.jsonl.gz", rows)
        click.echo(f"{language}: {len(posts):,} posts, {len(more):,} other texts")
    write(out / "pairs" / "parallel.jsonl.gz", parallel)
    claims = ({"article": text} for text in shuffle(dict.fromkeys(training)))
    write(out / "pairs" / f"parallel{CLAIMS}.jsonl.gz", claims)
    copy_english(data, out)
    write_crises(sources, out)
    click.echo(f"{len(parallel):,} pairs, {len(judged_keys):,} texts that judge")


def write_judged(sources: SourceTexts, folder: Path) -> set[str]:
    """Write the evaluation texts and return their normalised forms."""
    originals = [
        {"id": name, "lang": language, "text": text}
        for language, (text, name) in sources.rows("originals")
    ]
    topics = [
        {"id": name, "lang": language, "topic": topic, "text": text}
        for language, (name, topic, text) in sources.rows("topics")
    ]
    write(folder / "originals.jsonl.gz", originals)
    write(folder / "topics.jsonl.gz", topics)
    return {copy_key(row["text"]) for row in (*originals, *topics)}


def pairs(sources: SourceTexts, judged_keys: set[str]) -> list[Row]:
    """Sentences with their English originals, the first of each language; all train."""
    rows: list[Row] = []
    for language in sources.languages():
        parallel = (row for _, row in sources.rows("parallel", language))
        both = [
            Pair(text, TrainingArticle("", original)) for text, original in dict.fromkeys(parallel)
        ]
        free = {
            pair.post: pair.story.text
            for pair in split_pairs(both)["train"]
            if not judged_keys & {copy_key(pair.post), copy_key(pair.story.text), ""}
        }
        rows += [
            {"post": text, "article": free[text], "lang": language}
            for text in list(free)[:PARALLEL]
        ]
    return rows


def training_texts(
    sources: SourceTexts, data: Path, language: str, judged_keys: set[str]
) -> tuple[list[str], list[str]]:
    """The everyday posts of a language, and its other texts; few posts are filled with those."""
    english = language == ENGLISH
    streams = files(data, "tweets").values() if english else ()
    everyday = chain(
        sources.texts("posts", language), *(read_posts(f, SkippedRows()) for f in streams)
    )
    most = ENGLISH_POSTS if english else POSTS
    posts = choose_texts(everyday, language, judged_keys, most + (0 if english else MORE_POSTS))
    cut = chain.from_iterable(map(sentences, sources.texts("sentences", language)))
    others = choose_texts(cut, language, judged_keys, SENTENCES + MIN_POSTS)
    lent = max(0, MIN_POSTS - len(posts))
    return posts[:most] + others[:lent], posts[most:] + others[lent:][:SENTENCES]


def copy_english(data: Path, out: Path) -> None:
    """The English pairs and crises, as they are: their splits stay."""
    for part in ("pairs", "crisis"):
        for file in files(data, part).values():
            write_atomically(out / part / file.name, file.read_bytes())


def write_crises(sources: SourceTexts, out: Path) -> None:
    """Write the labelled crises as a folder of their own, with the everyday posts beside them."""
    folder = out / "judged" / "crises"
    for part in ("crisis", "tweets"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    by_file: dict[str, list[tuple[str, ...]]] = {}
    for event, row in sources.rows("crises"):
        by_file.setdefault(event, []).append(row)
    posts, articles = crisis_rows({event: make_crisis(some) for event, some in by_file.items()})
    write(folder / "crisis" / "posts.jsonl.gz", posts)
    write(folder / "crisis" / f"{REPORTS}.jsonl.gz", articles)
    for file in files(out, "tweets").values():
        write_atomically(folder / "tweets" / file.name, file.read_bytes())


def write(file: Path, rows: Iterable[Row]) -> None:
    """Write gzipped JSON lines, reproducibly."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomically(file, gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    run_command(main)
