"""Which words made a text's vector, and its score with an article."""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from encoder.embeddings import Embeddings
from encoder.explain.totals import Parts, word_parts
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.text.tokenizer import Word

PAIRS_AT_ONCE = 256


class Reader(Protocol):
    """Says what the model looks at in a text, and which tokens made which part of a score."""

    def attention(self, ids: I32, side: Side) -> F32:
        """How much the model looks at each token: weights ≥ 0 that sum to 1 [n]."""
        ...

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        For pairs [pairs, 2] of a text and a row; y's length is held fixed.
        """
        ...


def open_reader(weights: Weights, backend: object) -> Reader:
    """The closed form of a gated mean, or torch's way back through a star."""
    if not weights.config.has_star:
        from encoder.backends.gated_mean import GatedMeanKernel
        from encoder.explain.gated_mean import GatedMeanReader

        return GatedMeanReader(
            backend if isinstance(backend, GatedMeanKernel) else GatedMeanKernel(weights)
        )
    from encoder.explain.reference import ReferenceReader

    return ReferenceReader(weights)


class Explainer:
    """Says which words of a post drew attention, and what each gave to a score."""

    def __init__(self, weights: Weights, backend: object) -> None:
        self._reader = open_reader(weights, backend)
        self._cap = weights.config.post_tokens

    def attention(self, words: Sequence[Word]) -> Parts:
        """Each word in reading order with its share of the attention."""
        shares = iter(self._reader.attention(self._ids(words), Side.POST).tolist())
        return [(word.text, sum(islice(shares, len(word.ids)))) for word in words]

    def contributions(
        self,
        texts: Sequence[Sequence[Word]],
        articles: Embeddings,
        pairs: Sequence[tuple[int, int]],
    ) -> list[Parts]:
        """Each word's part of the score, for pairs of a post and an article; not the biases' part.

        Every post is read once for all its articles within a block of pairs.
        """
        told: list[Parts] = []
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            told += self._block(texts, articles, pairs[start : start + PAIRS_AT_ONCE])
        return told

    def _block(
        self,
        texts: Sequence[Sequence[Word]],
        articles: Embeddings,
        pairs: Sequence[tuple[int, int]],
    ) -> list[Parts]:
        used, posts = distinct([post for post, _ in pairs])
        rows, places = distinct([article for _, article in pairs])
        words = [texts[i] for i in used]
        ids = [self._ids(each) for each in words]
        asked = np.array(list(zip(posts, places, strict=True)))
        read, offsets = np.concatenate(ids), np.cumsum([0, *map(len, ids)])
        tokens = self._reader.parts(read, offsets, Side.POST, asked, articles.dense[rows])
        asked[:, 1] = np.array(rows)[places] % len(articles)
        return word_parts(words, articles, asked, tokens, self._cap)

    def _ids(self, words: Sequence[Word]) -> I32:
        """The ids that the model reads of these words: [n]."""
        return np.array([i for word in words for i in word.ids][: self._cap], np.int32)


def distinct(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """The different ones as they come, and for each of all its place among them."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), [places[value] for value in values]
