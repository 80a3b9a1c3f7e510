"""Give a model a star: its weights, its self-check, and the background as it reads it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from encoder.embeddings import Background, Embeddings
from encoder.model.config import Side
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32
from encoder.model_directory import Model, SelfCheck, Star
from encoder.readers.star_chunks import CHUNK_TOKENS, END, START, chunks_of, star_vectors
from encoder.readers.star_onnx import StarOnnx
from encoder.readers.star_texts import StarTexts
from encoder.readers.star_torch import StarTorch
from train.model.export import CHECKED_TEXTS

BLOCK = 4096  # texts at a time


def with_star(model: Model, weights: StarWeights, background: Sequence[str]) -> Model:
    """The model, its articles and the posts that may match read by this star.

    `background` are the posts of the model's background, in the same order.
    """
    texts = StarTexts(model, StarOnnx(weights))
    starts = range(0, len(background), BLOCK)
    dense: list[F32] = [texts.posts(background[i : i + BLOCK], map)[0] for i in starts]
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
