"""From weights to a model that a directory can hold: rounding, background, self-check."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from encoder.artifact import Background, Model, SelfCheck, snap
from encoder.config import Side
from encoder.device import TorchBackend
from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.lexical import Idf
from encoder.siamese import Siamese
from encoder.tokenizer import Tokenizer
from encoder.vocabulary import Vocabulary
from encoder.weights import Weights

CHECKED_TEXTS = 64


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
    dense = TorchBackend(weights, "cpu").forward(tokens.ids, tokens.offsets, Side.POST)
    offsets = tokens.offsets[: CHECKED_TEXTS + 1]
    ids = tokens.ids[: offsets[-1]]
    return Model(
        weights=weights,
        vocabulary=vocabulary,
        idf=idf,
        mix=mix,
        background=Background(unit_rows(dense), tokens.lexical),
        check=SelfCheck(ids, offsets, exact_vectors(weights, ids, offsets)),
        metrics=metrics,
        provenance=provenance,
    )


@torch.inference_mode()
def exact_vectors(weights: Weights, ids: Any, offsets: Any) -> Any:
    """The vectors of posts by the reference in float64, rounded to float32 at the end."""
    reference = Siamese.from_weights(weights).double().eval()
    vectors = reference(torch.from_numpy(ids).long(), torch.from_numpy(offsets), Side.POST)
    return vectors.numpy().astype(np.float32)
