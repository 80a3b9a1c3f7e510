"""The teacher's vectors of all public text, made once and kept outside the repository.

python -m train.teach --data ../shared/data [--cache DIR]

It may be stopped at any time and goes on where it was. A post has one vector; an article one for
each of its chunks, the first with the title.
"""

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path

import click
import torch

from encoder.support.files import cache_root
from train.halves import halves
from train.readers import Passed
from train.store import VectorStore
from train.teacher import Teacher, blocks_by_length
from train.texts import read_texts

WIDTH = 384
CHUNK_WORDS = 170  # about 254 word pieces of English news
CHUNKS = 5
NOISE = re.compile(r"https?://\S*|\bRT @\w+:?")


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="Where the vectors are kept.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
def main(data: Path, cache: Path | None, threads: int) -> None:
    """Embed every post, title and article's chunk of the data by the teacher."""
    torch.set_num_threads(threads)
    store = VectorStore(folder(cache), WIDTH)
    wanted = store.missing(texts(data))
    teacher = Teacher()
    began, done = time.monotonic(), 0
    for block in blocks_by_length(wanted):
        with halves("cpu"):
            store.add(block, teacher.texts([readable(text) for text in block]))
        done += len(block)
        rate = done / (time.monotonic() - began)
        left = (len(wanted) - done) / rate / 60
        click.echo(f"{done:,} of {len(wanted):,} texts, {rate:.0f}/s, {left:.0f} min left")


def folder(cache: Path | None) -> Path:
    """Where the vectors are kept: the folder given, else one in newsift's cache."""
    return cache or cache_root() / "teacher"


def texts(data: Path) -> Iterator[str]:
    """Every text that training asks the teacher about."""
    found = read_texts(data, Passed())
    yield from found.posts
    yield from found.sentences
    yield from (pair.post for pair in found.pairs)
    stories = ((pair.story.title, pair.story.text) for pair in found.pairs)
    for title, text in (*found.articles, *found.claims, *stories):
        yield from chunks(title, text)


def readable(text: str) -> str:
    """A text as the teacher reads it: without links and signs of a retweet."""
    return NOISE.sub(" ", html.unescape(text)).strip() or text


def chunks(title: str, text: str) -> list[str]:
    """An article in pieces that the teacher can read whole: the lead first, with its title."""
    words = f"{title}. {text}".split() if title else text.split()
    starts = range(0, min(len(words), CHUNKS * CHUNK_WORDS), CHUNK_WORDS)
    return [" ".join(words[start : start + CHUNK_WORDS]) for start in starts]


if __name__ == "__main__":
    main()
