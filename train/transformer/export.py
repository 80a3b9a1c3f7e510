"""Give a model a star: its weights, its self-check, and the background as it reads it.

python -m train.transformer.export --data ../shared/data --star DIR --model DIR --out DIR

The model is a gated mean whose vectors lie in the star's space.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import torch

from encoder.embeddings import Background, Embeddings
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.star_weights import StarWeights
from encoder.model.weights import I32
from encoder.model_directory import Model, SelfCheck, Star, read_model, write_model
from encoder.readers.star_chunks import CHUNK_TOKENS, END, START, chunks_of, star_vectors
from encoder.readers.star_onnx import StarOnnx
from encoder.readers.star_texts import StarTexts, star_tokenizer
from encoder.readers.star_torch import StarTorch
from encoder.support.threads import ThreadPool, available_cpus
from train.command import run_command
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows
from train.model.export import CHECKED_TEXTS
from train.run import read_background_posts
from train.transformer.mpnet import BATCH_TOKENS, batches_by_length, padded
from train.transformer.quantise import channel_sizes, stored_star
from train.transformer.star_training import DEV_TEXTS, read_star
from train.transformer.teach import taught_texts

BLOCK = 4096  # texts at a time
SIZED_TEXTS = 2000  # of which the scales of activations are taken


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--star", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(data: Path, star: Path, model: Path, out: Path) -> None:
    """Write the model with the star of a run."""
    given, background = read_model(model), read_background_posts(data, SkippedRows())
    if len(background) != len(given.background.read):
        raise InputError(
            f"--data {data}: has {len(background):,} posts of the background, the model "
            f"{len(given.background.read):,}; name the data that it was trained with"
        )
    trained = read_star(star)
    texts = taught_texts(read_corpus(data, SkippedRows()))[DEV_TEXTS : DEV_TEXTS + SIZED_TEXTS]
    tokens = star_tokenizer(given, trained.settings.pieces).posts(texts)
    chunks, _ = chunks_of(tokens.ids, tokens.offsets)
    batches = (
        padded([chunks[row] for row in rows]) for rows in batches_by_length(chunks, BATCH_TOKENS)
    )
    weights = stored_star(trained, channel_sizes(trained, batches))
    digest = write_model(out, with_star(given, weights, background))
    click.echo(f"{out}: model {digest[:12]}")


def with_star(model: Model, weights: StarWeights, background: Sequence[str]) -> Model:
    """The model, its articles and the posts that may match read by this star.

    `background` are the posts of the model's background, in the same order.
    """
    texts = StarTexts(model, StarOnnx(weights))
    starts = range(0, len(background), BLOCK)
    with closing(ThreadPool(available_cpus())) as threads:
        dense = [texts.posts(background[i : i + BLOCK], threads.map)[0] for i in starts]
    skim = model.background.skim
    read = Embeddings(np.concatenate(dense), skim.lexical, model.mix, model.digest)
    tokens = texts.tokenizer.posts(background)
    chunks, _ = chunks_of(tokens.ids, tokens.offsets)
    return replace(
        model,
        background=Background(read, skim),
        star=Star(weights, star_check(weights, chunks)),
    )


def star_check(weights: StarWeights, chunks: Sequence[I32]) -> SelfCheck:
    """The exact vectors of some chunks, the last of them as long as one can be."""
    inner = np.concatenate([chunk[1:-1] for chunk in chunks])
    longest = np.array([START, *np.resize(inner, CHUNK_TOKENS), END], np.int32)
    checked = [*chunks[: CHECKED_TEXTS - 1], longest]
    exact = StarTorch(weights, "cpu", torch.float64)
    offsets = np.cumsum([0, *map(len, checked)], dtype=np.int64)
    return SelfCheck(np.concatenate(checked), offsets, star_vectors(exact, checked, map), Side.POST)


if __name__ == "__main__":
    run_command(main)
