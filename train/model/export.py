"""Make a model from weights: rounding, background, self-check."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from encoder.embeddings import Background, Embeddings, dense_rows, unit_rows
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.weights import F32, I32, I64, Weights
from encoder.model_directory import Model, SelfCheck
from encoder.score.lexical import Idf
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.text.vocabulary import Vocabulary

CHECKED_TEXTS = 64
TOKENS_AT_ONCE = 2**13


def export(
    weights: Weights,
    vocabulary: Vocabulary,
    idf: Idf | None,
    mix: float,
    background: Sequence[str],
) -> Model:
    """The model, of which its directory says nothing yet."""
    if len(background) < CHECKED_TEXTS:
        raise InputError(f"background: {len(background)} posts are too few; give some thousands")
    config = weights.config
    tokens = Tokenizer(vocabulary, idf, config).posts(background)
    reference = Siamese.from_weights(weights).eval()
    dense = vectors(reference, tokens.ids, tokens.offsets)
    read = Embeddings(unit_rows(dense), tokens.lexical, mix, "")
    offsets = tokens.offsets[: CHECKED_TEXTS + 1]
    ids = tokens.ids[: offsets[-1]]
    return Model(
        weights=weights,
        vocabulary=vocabulary,
        idf=idf,
        mix=mix,
        background=Background(read, replace(read, skimmed=True)),
        check=SelfCheck(ids, offsets, vectors(reference.double(), ids, offsets), Side.POST),
        article_check=article_check(reference, tokens.ids),
    )


def article_check(reference: Siamese, ids: I32) -> SelfCheck:
    """Make the self-check of articles: short ones, one of maximal length, one without tokens."""
    longest = min(reference.config.article_tokens, len(ids))
    lengths = [1, min(200, longest), 0, longest]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    tokens = np.concatenate([ids[:length] for length in lengths])
    exact = vectors(reference.double(), tokens, offsets, Side.ARTICLE)
    return SelfCheck(tokens, offsets, exact, Side.ARTICLE)


def embed_tokens(model: nn.Module, tokens: Tokens, side: Side, lead: int) -> Embeddings:
    """Embed texts with a torch model."""
    dense = dense_rows(partial(vectors, model), tokens.ids, tokens.offsets, side, lead)
    return Embeddings(dense, tokens.lexical, 0.0, "not served")


@torch.inference_mode()
def vectors(model: nn.Module, ids: I32, offsets: I64, side: Side = Side.POST) -> F32:
    """Compute vectors in the model's precision, rounded to float32: [n, d]."""
    parts, device = [], next(model.parameters()).device
    for start, stop in text_blocks(offsets, TOKENS_AT_ONCE):
        own = offsets[start : stop + 1]
        block = torch.from_numpy(ids[own[0] : own[-1]]).long().to(device)
        y = model(block, torch.from_numpy(own - own[0]).to(device), side)  # [block, d]
        parts.append(y.cpu().numpy().astype(np.float32))
    return np.concatenate(parts)


def text_blocks(offsets: I64, tokens: int) -> Iterator[tuple[int, int]]:
    """Divide texts into blocks of at most `tokens` tokens, or a single text; at least one block."""
    start, count = 0, len(offsets) - 1
    while start < count:
        stop = int(np.searchsorted(offsets, offsets[start] + tokens, "right")) - 1
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop
    if not count:
        yield 0, 0
