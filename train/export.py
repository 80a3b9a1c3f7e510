"""From weights to a model that a directory can hold: rounding, background, self-check."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from encoder.artifact import Background, Model, SelfCheck, snap
from encoder.config import Side
from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.lexical import Idf
from encoder.siamese import Siamese
from encoder.tokenizer import Tokenizer
from encoder.vocabulary import Vocabulary
from encoder.weights import F32, I32, I64, Weights

CHECKED_TEXTS = 64
BLOCK = 512


def export(
    weights: Weights,
    vocabulary: Vocabulary,
    idf: Idf | None,
    mix: float,
    background: Sequence[str],
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> Model:
    """A model with its token vectors rounded as they ship, its background and its self-check."""
    if len(background) < CHECKED_TEXTS:
        raise InputError(f"background: {len(background)} posts are too few; give some thousands")
    weights = snap(weights)
    config = weights.config
    tokens = Tokenizer(vocabulary, idf, config.post_tokens, config.article_tokens).posts(background)
    reference = Siamese.from_weights(weights).eval()
    dense = vectors(reference, tokens.ids, tokens.offsets)
    offsets = tokens.offsets[: CHECKED_TEXTS + 1]
    ids = tokens.ids[: offsets[-1]]
    return Model(
        weights=weights,
        vocabulary=vocabulary,
        idf=idf,
        mix=mix,
        background=Background(unit_rows(dense), tokens.lexical),
        check=SelfCheck(ids, offsets, vectors(reference.double(), ids, offsets)),
        metrics=metrics,
        provenance=provenance,
    )


@torch.inference_mode()
def vectors(reference: Siamese, ids: I32, offsets: I64) -> F32:
    """The vectors of posts by the reference, in its own precision, rounded to float32: [n, d]."""
    parts = [np.zeros((0, reference.config.dim), np.float32)]
    for start in range(0, len(offsets) - 1, BLOCK):
        own = offsets[start : start + BLOCK + 1]
        block = torch.from_numpy(ids[own[0] : own[-1]]).long()
        found = reference(block, torch.from_numpy(own - own[0]), Side.POST)  # [block, d]
        parts.append(found.numpy().astype(np.float32))
    return np.concatenate(parts)
