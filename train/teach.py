"""The teacher's vectors of all public text, made once and kept outside the repository.

python -m train.teach --data ../shared/data [--recipe NAME] [--cache DIR]

It may be stopped at any time and goes on where it was. A post has one vector; an article one for
each of its chunks, the first with the title.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import click
import torch

from train.data.corpus import read_corpus
from train.data.readers import Passed
from train.loop.bf16 import halves
from train.plainly import plainly
from train.recipe import read_recipe
from train.teacher.choose import open_store, reader
from train.teacher.chunks import chunks, readable
from train.teacher.minilm import blocks_by_length


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="Where the vectors are kept.")
@click.option("--recipe", default="default", show_default=True, help="Whose tokens name it.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
def main(data: Path, cache: Path | None, recipe: str, threads: int) -> None:
    """Embed every post, title and article's chunk of the data by the teacher."""
    torch.set_num_threads(threads)
    kind = read_recipe(recipe).tokens.kind
    store = open_store(kind, cache)
    wanted = store.missing(texts(data))
    read = reader(kind)
    began, done = time.monotonic(), 0
    for block in blocks_by_length(wanted):
        with halves("cpu"):
            store.add(block, read([readable(text) for text in block]))
        done += len(block)
        rate = done / (time.monotonic() - began)
        left = (len(wanted) - done) / rate / 60
        click.echo(f"{done:,} of {len(wanted):,} texts, {rate:.0f}/s, {left:.0f} min left")


def texts(data: Path) -> Iterator[str]:
    """Every text that training asks the teacher about."""
    found = read_corpus(data, Passed())
    yield from found.posts
    yield from found.sentences
    yield from found.pair_posts
    for title, text in (*found.articles, *found.claims, *found.pair_stories):
        yield from chunks(title, text)


if __name__ == "__main__":
    plainly(main)
