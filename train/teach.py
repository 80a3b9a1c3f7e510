"""Compute and store the vectors of all training texts, of each of the recipe's teachers.

python -m train.teach --data ../shared/data [--recipe NAME] [--cache DIR] [--states COUNT]
                      [--device cuda]

A stopped run can be resumed. A post has one vector, an article one per chunk, the first with the
title. With --states, token states of COUNT posts and sentences are stored for `losses.tokens`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch

from encoder.model.config import AstConfig
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from train.command import run_command
from train.data.corpus import Corpus, read_corpus
from train.data.readers import SkippedRows, share
from train.loop.token_rows import bf16_autocast
from train.model.start import blocks_of, frequent_words
from train.recipe import read_recipe
from train.teacher.minilm import WIDTH, Read, Teacher, blocks_by_length, chunks, readable
from train.teacher.store import (
    BLOCK,
    MAX_PIECES,
    MIN_PIECES,
    STATES,
    Pieces,
    TokenStates,
    VectorStore,
    pieces_key,
)
from train.teacher.stores import open_store, open_wordllama
from train.teacher.wordllama import WordLlama

STATES_BLOCK = 4096  # texts


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="The folder of the vectors.")
@click.option(
    "--recipe", default="default", show_default=True, help="It names tokens and teachers."
)
@click.option(
    "--states",
    type=click.IntRange(0),
    default=0,
    help="Keep the token states of this many short texts.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
def main(
    data: Path, cache: Path | None, recipe: str, states: int, threads: int, device: str
) -> None:
    """Embed every post, title and article chunk of the data with the recipe's teachers."""
    torch.set_num_threads(threads)
    settings = read_recipe(recipe)
    store, teacher = open_store(cache), Teacher(device=device)
    teachers = [(store, teacher.texts)]
    if settings.wordllama:
        teachers.append((open_wordllama(store), WordLlama().texts))
    corpus = read_corpus(data, SkippedRows())
    if states:
        state_store = TokenStates(store.folder / STATES, WIDTH)
        add_states(corpus, settings.tokens.whole_words, state_store, states, teacher)
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


def add_states(
    corpus: Corpus, whole_words: int, states: TokenStates, count: int, teacher: Teacher
) -> None:
    """Add the states of `count` posts and sentences, posts first."""
    lines = teacher.vocabulary()
    more = frequent_words(corpus, WordPiece.from_lines(lines), whole_words)
    vocabulary = WordPiece.from_lines([*lines, *more])
    tokenizer = Tokenizer(vocabulary, None, AstConfig())
    pieces = Pieces(vocabulary, len(lines))
    candidates = [*sorted(corpus.posts, key=share), *sorted(corpus.sentences, key=share)][:count]
    short = {
        pieces_key(own): own
        for tokens in map(tokenizer.posts, blocks_of(candidates))
        for ids in np.split(tokens.ids, tokens.offsets[1:-1])
        if MIN_PIECES <= len(own := pieces.of(ids)) <= MAX_PIECES and states.start(own) < 0
    }
    missing = sorted(short.values(), key=len)
    progress = TeachProgress(len(missing))
    for part in blocks_of(missing, STATES_BLOCK):
        if part:
            with bf16_autocast("cpu"):
                read = [text for block in blocks_of(part, BLOCK) for text in teacher.states(block)]
            states.add(part, read)
            click.echo(f"states: {progress.add(len(part))}")


def texts(corpus: Corpus) -> Iterator[str]:
    """Yield every text whose vector training needs."""
    yield from corpus.posts
    yield from corpus.sentences
    yield from corpus.pair_posts
    for title, text in (*corpus.articles, *corpus.claims, *corpus.pair_stories):
        yield from chunks(title, text)


if __name__ == "__main__":
    run_command(main)
