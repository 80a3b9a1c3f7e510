"""Compute and store a star's vectors of the training texts, which teach the gated mean.

python -m train.transformer.embed --data ../shared/data --star DIR --cache DIR [--threads 2]

A stopped run can be resumed. Texts come in the order of their hashes, so that what is there after
any time is a fair sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch

from encoder.model.config import AstConfig
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import F32, I32
from encoder.readers.star_chunks import CHUNK_TOKENS, read_texts
from encoder.text.tokenizer import Tokenizer
from train.command import run_command
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows, TrainingArticle, share
from train.teach import TeachProgress, texts
from train.teacher.store import VectorStore
from train.transformer.mpnet import (
    BATCH_TOKENS,
    batches_by_length,
    bert_pieces,
    mpnet_folder,
    padded,
)
from train.transformer.star_training import read_star

BLOCK = 4096  # texts between two saves
MOST_TOKENS = 2048  # of an article


@dataclass(frozen=True, slots=True)
class TrainedStar:
    """Reads texts by a star in training, in bf16."""

    star: StarTransformer
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> "TrainedStar":
        star = read_star(folder).to(torch.bfloat16)
        star.axes.float()
        config = AstConfig(post_tokens=4 * CHUNK_TOKENS, article_tokens=MOST_TOKENS)
        return cls(star, Tokenizer(bert_pieces(mpnet_folder()), None, config))

    def posts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of posts: [n, d]."""
        return read_texts(self.tokenizer.posts(texts), self._chunks, lead=False)

    def articles(self, stories: Sequence[TrainingArticle]) -> F32:
        return read_texts(self.tokenizer.articles(stories), self._chunks, lead=True)

    @torch.inference_mode()
    def _chunks(self, chunks: Sequence[I32]) -> F32:
        out = np.zeros((len(chunks), self.star.settings.dim), np.float32)
        for rows in batches_by_length(chunks, BATCH_TOKENS):
            out[rows] = self.star(*padded([chunks[row] for row in rows])).float().numpy()
        return out


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--star", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
def main(data: Path, star: Path, cache: Path, threads: int) -> None:
    """Embed posts, sentences and parts of articles with the star of a run."""
    torch.set_num_threads(threads)
    reader, skips = TrainedStar.open(star), SkippedRows()
    store = VectorStore(cache, reader.star.settings.dim)
    missing = sorted(store.missing(texts(read_corpus(data, skips))), key=share)
    click.echo(f"{len(store):,} texts have vectors, {len(missing):,} have none; {skips}")
    progress = TeachProgress(len(missing))
    for start in range(0, len(missing), BLOCK):
        block = missing[start : start + BLOCK]
        store.add(block, reader.posts(block))
        click.echo(progress.add(len(block)))


if __name__ == "__main__":
    run_command(main)
