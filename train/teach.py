"""Compute and store the vectors of all training texts, of each of the recipe's teachers.

python -m train.teach --data ../shared/data [--recipe NAME] [--cache DIR] [--device cuda]

A stopped run can be resumed. A post has one vector, an article one per chunk, the first with the
title.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import click
import torch

from train.command import run_command
from train.data.corpus import Corpus, read_corpus
from train.data.readers import SkippedRows
from train.loop.token_rows import bf16_autocast
from train.recipe import read_recipe
from train.teacher.minilm import Read, Teacher, blocks_by_length, chunks, readable
from train.teacher.store import (
    VectorStore,
)
from train.teacher.stores import open_store, open_wordllama
from train.teacher.wordllama import WordLlama


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="The folder of the vectors.")
@click.option(
    "--recipe", default="default", show_default=True, help="It names tokens and teachers."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
def main(data: Path, cache: Path | None, recipe: str, threads: int, device: str) -> None:
    """Embed every post, title and article chunk of the data with the recipe's teachers."""
    torch.set_num_threads(threads)
    settings = read_recipe(recipe)
    store, teacher = open_store(cache), Teacher(device=device)
    teachers = [(store, teacher.texts)]
    if settings.wordllama:
        teachers.append((open_wordllama(store), WordLlama().texts))
    corpus = read_corpus(data, SkippedRows())
    for vectors, read in teachers:
        add_vectors(corpus, vectors, read)


class TeachProgress:
    """Formats the number of texts, the speed and the time left."""

    def __init__(self, count: int) -> None:
        self._count, self._done_count, self._start = count, 0, time.monotonic()

    def add(self, texts: int) -> str:
        self._done_count += texts
        rate = self._done_count / (time.monotonic() - self._start)
        left = (self._count - self._done_count) / rate / 60
        return f"{self._done_count:,} of {self._count:,} texts, {rate:.0f}/s, {left:.0f} min left"


def add_vectors(corpus: Corpus, store: VectorStore, read: Read) -> None:
    """Add the vector of every text that has none."""
    missing = store.missing(texts(corpus))
    progress = TeachProgress(len(missing))
    for block in blocks_by_length(missing):
        with bf16_autocast("cpu"):
            store.add(block, read([readable(text) for text in block]))
        click.echo(progress.add(len(block)))


def texts(corpus: Corpus) -> Iterator[str]:
    """Yield every text whose vector training needs."""
    yield from corpus.posts
    yield from corpus.sentences
    yield from corpus.pair_posts
    for title, text in (*corpus.articles, *corpus.claims, *corpus.pair_stories):
        yield from chunks(title, text)


if __name__ == "__main__":
    run_command(main)
