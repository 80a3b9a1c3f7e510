"""Compute and store MPNet's vectors of the training texts.

python -m train.transformer.teach --data ../shared/data [--cache DIR] [--device cuda]

A stopped run can be resumed. Texts come in the order of their hashes, so that what is there after
any time is a fair sample. A post has one vector, an article one for each of its first chunks.
"""

import time
from itertools import chain
from pathlib import Path

import click
import torch

from encoder.support.files import cache_root
from train.command import run_command
from train.data.corpus import Corpus, read_corpus
from train.data.readers import SkippedRows, share
from train.teacher.minilm import chunks, readable
from train.teacher.store import VectorStore
from train.transformer.mpnet import WIDTH, Mpnet

CHUNK_WORDS = 90  # some 125 word pieces of English news
CHUNKS = 3  # of an article
SENTENCES = 100_000
BLOCK = 4096  # texts between two saves


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), help="The folder of the vectors.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
def main(data: Path, cache: Path | None, threads: int, device: str) -> None:
    """Embed posts, sentences and chunks of articles with MPNet."""
    torch.set_num_threads(threads)
    skips = SkippedRows()
    missing = (store := open_store(cache)).missing(taught_texts(read_corpus(data, skips)))
    click.echo(f"{len(store):,} texts have vectors, {len(missing):,} have none; {skips}")
    teacher = Mpnet.open(device)
    begin = time.monotonic()
    for start in range(0, len(missing), BLOCK):
        block = missing[start : start + BLOCK]
        store.add(block, teacher.texts([readable(text) for text in block]))
        done = start + len(block)
        rate = done / (time.monotonic() - begin)
        left = (len(missing) - done) / rate / 60
        click.echo(f"{done:,} of {len(missing):,} texts, {rate:.0f}/s, {left:.0f} min left")


def open_store(cache: Path | None) -> VectorStore:
    """The teacher's vectors in this folder, or in newsift's cache."""
    return VectorStore(cache or cache_root() / "teacher-mpnet", WIDTH)


def taught_texts(corpus: Corpus) -> list[str]:
    """The texts that the teacher reads, in the order of their hashes."""
    articles = dict.fromkeys(chain(corpus.pair_stories, corpus.articles, corpus.claims))
    parts = (chunks(title, text, CHUNK_WORDS, CHUNKS) for title, text in articles)
    texts = chain(
        corpus.posts,
        corpus.pair_posts,
        sorted(corpus.sentences, key=share)[:SENTENCES],
        chain.from_iterable(parts),
    )
    return sorted(dict.fromkeys(texts), key=share)


if __name__ == "__main__":
    run_command(main)
