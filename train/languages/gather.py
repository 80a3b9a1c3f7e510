"""The folder of data that `newsift train multilingual` reads, out of public repositories.

python -m train.languages.gather --data ../shared/data --out DIR [--clones DIR]

--data is the English data, laid out as for training. What was fetched is kept in OUT.clones. Two
runs write the same.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from encoder.support.files import write_atomically
from train.data.folder import CLAIMS, REPORTS, files
from train.data.readers import Pair, Passed, Story, read_posts
from train.data.splits import bare, split_pairs
from train.languages.clones import Clones
from train.languages.crises import crisis_of, crisis_rows
from train.languages.sources import Source, Use, read_sources
from train.languages.texts import drawn, kept, rows, sentences
from train.plainly import plainly

ENGLISH = "en"
PARTS = ("judged", "tweets", "pairs", "crisis")
POSTS, ENGLISH_POSTS, FEWEST_POSTS = 8_000, 12_000, 4_000
MORE_POSTS, SENTENCES, PARALLEL = 5_000, 7_000, 5_000  # a language

Row = dict[str, Any]


class Gathered:
    """What the sources hold, by use and language."""

    def __init__(self, sources: Iterable[Source], clones: Clones) -> None:
        self._sources, self._clones = list(sources), clones

    def rows(self, use: Use, language: str | None = None) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The rows of one use, with their language; those of parallel files side by side."""
        for source in (source for source in self._sources if source.use == use):
            for told, paths in source.paths():
                if language in (None, told):
                    read = [rows(source, p, self._clones.read(source, p)) for p in paths]
                    yield from ((told, tuple(chain(*row))) for row in zip(*read, strict=False))

    def texts(self, use: Use, language: str) -> Iterator[str]:
        """The texts of one use and language."""
        return (text for _, row in self.rows(use, language) for text in row)

    def languages(self) -> list[str]:
        """Every language that the sources have texts of."""
        texts = (source for source in self._sources if source.use != "crises")
        return sorted({told for source in texts for told in source.files})


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--clones", type=click.Path(path_type=Path), help="Where clones are kept.")
def main(data: Path, out: Path, clones: Path | None) -> None:
    """Gather posts, sentences and pairs in sixteen languages."""
    found = Gathered(read_sources(), Clones(clones or out.with_name(f"{out.name}.clones")))
    gather(found, data, out)


def gather(found: Gathered, data: Path, out: Path) -> None:
    """Write every part of the folder."""
    for part in PARTS:
        (out / part).mkdir(parents=True, exist_ok=True)
    judged = write_judged(found, out / "judged")
    parallel = pairs(found, judged)
    taught = list(chain.from_iterable((one["article"], one["post"]) for one in parallel))
    for language in found.languages():
        posts, more = teaching(found, data, language, judged)
        taught += more
        told = ({"text": text, "lang": language} for text in posts)
        write(out / "tweets" / f"{language}.jsonl.gz", told)
        click.echo(f"{language}: {len(posts):,} posts, {len(more):,} other texts")
    write(out / "pairs" / "parallel.jsonl.gz", parallel)
    claims = ({"article": text} for text in drawn(dict.fromkeys(taught)))
    write(out / "pairs" / f"parallel{CLAIMS}.jsonl.gz", claims)
    copy_english(data, out)
    write_crises(found, out)
    click.echo(f"{len(parallel):,} pairs, {len(judged):,} texts that judge")


def write_judged(found: Gathered, folder: Path) -> set[str]:
    """Write what judges, and give that by which copies of it are found."""
    originals = [
        {"id": name, "lang": told, "text": text} for told, (text, name) in found.rows("originals")
    ]
    topics = [
        {"id": name, "lang": told, "topic": topic, "text": text}
        for told, (name, topic, text) in found.rows("topics")
    ]
    write(folder / "originals.jsonl.gz", originals)
    write(folder / "topics.jsonl.gz", topics)
    return {bare(row["text"]) for row in (*originals, *topics)}


def pairs(found: Gathered, judged: set[str]) -> list[Row]:
    """Sentences with their English originals, of a language the first so many; all train."""
    made: list[Row] = []
    for language in found.languages():
        told = (row for _, row in found.rows("parallel", language))
        both = [Pair(text, Story("", original)) for text, original in dict.fromkeys(told)]
        free = {
            pair.post: pair.story.text
            for pair in split_pairs(both)["train"]
            if not judged & {bare(pair.post), bare(pair.story.text), ""}
        }
        made += [
            {"post": text, "article": free[text], "lang": language}
            for text in list(free)[:PARALLEL]
        ]
    return made


def teaching(
    found: Gathered, data: Path, language: str, judged: set[str]
) -> tuple[list[str], list[str]]:
    """The everyday posts of a language, and its other texts; few posts are filled with those."""
    english = language == ENGLISH
    streams = files(data, "tweets").values() if english else ()
    told = chain(found.texts("posts", language), *(read_posts(f, Passed()) for f in streams))
    most = ENGLISH_POSTS if english else POSTS
    posts = kept(told, language, judged, most + (0 if english else MORE_POSTS))
    cut = chain.from_iterable(map(sentences, found.texts("sentences", language)))
    others = kept(cut, language, judged, SENTENCES + FEWEST_POSTS)
    lent = max(0, FEWEST_POSTS - len(posts))
    return posts[:most] + others[:lent], posts[most:] + others[lent:][:SENTENCES]


def copy_english(data: Path, out: Path) -> None:
    """The English pairs and crises, as they are: their splits stay."""
    for part in ("pairs", "crisis"):
        for file in files(data, part).values():
            write_atomically(out / part / file.name, file.read_bytes())


def write_crises(found: Gathered, out: Path) -> None:
    """Write the labelled crises as a folder of their own, with the everyday posts beside them."""
    folder = out / "judged" / "crises"
    for part in ("crisis", "tweets"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    told: dict[str, list[tuple[str, ...]]] = {}
    for event, row in found.rows("crises"):
        told.setdefault(event, []).append(row)
    posts, articles = crisis_rows({event: crisis_of(some) for event, some in told.items()})
    write(folder / "crisis" / "posts.jsonl.gz", posts)
    write(folder / "crisis" / f"{REPORTS}.jsonl.gz", articles)
    for file in files(out, "tweets").values():
        write_atomically(folder / "tweets" / file.name, file.read_bytes())


def write(file: Path, told: Iterable[Row]) -> None:
    """Write rows as packed JSON lines, the same bytes each time."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in told)
    write_atomically(file, gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    plainly(main)
