"""Which words made a text's vector, and its score with an article."""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from encoder.backends.kernel.arrays import Tables
from encoder.embeddings import Embeddings
from encoder.explain.totals import Parts, word_parts
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.text.tokenizer import Word

PAIRS_AT_ONCE = 256


class Reader(Protocol):
    """Says what the model looks at in a text, and which tokens made which part of a score."""

    def looks(self, ids: I32, side: Side) -> tuple[F32, F32]:
        """The attention of the last ring [n, h, 2c+2] and star [h, 1+n] over one text.

        What a token's column has in the ring is for what it is and for what it was at first.
        """
        ...

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        For pairs [pairs, 2] of a text and a row; y's length is held fixed.
        """
        ...


def open_reader(weights: Weights, tables: Tables | None) -> Reader:
    """The kernel where it has tables, else the reference."""
    if tables is not None:
        from encoder.explain.kernel_reader import KernelReader

        return KernelReader(weights, tables)
    from encoder.explain.reference import ReferenceReader

    return ReferenceReader(weights)


class Explainer:
    """Says which words of a post drew attention, and what each gave to a score."""

    def __init__(self, weights: Weights, tables: Tables | None) -> None:
        self._reader = open_reader(weights, tables)
        self._cap = weights.config.post_tokens

    def attention(self, words: Sequence[Word]) -> Parts:
        """Each word in reading order with its share of the attention."""
        shares = iter(attention(self._reader, self._ids(words), Side.POST).tolist())
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


def attention(reader: Reader, ids: I32, side: Side) -> F32:
    """How much the last star looked at each token: weights ≥ 0 that sum to 1, many exactly 0."""
    if len(ids) == 0:
        return np.zeros(0, np.float32)
    ring, star = reader.looks(ids, side)
    for looked in (star[:, 1:].sum(axis=0), received(ring)):
        if looked.sum() > 0:
            return np.asarray(looked / looked.sum(), np.float32)
    return np.full(len(ids), 1 / len(ids), np.float32)


def received(ring: F32) -> F32:
    """The attention of the ring [n, h, 2c+2] that each token drew on itself: [n]."""
    window = ring[:, :, :-1].sum(axis=1)  # [n, 2c+1]
    n, width = window.shape
    there = np.arange(n)[:, None] + np.arange(width) - width // 2
    drawn = np.zeros(n, np.float32)
    np.add.at(drawn, there.clip(0, n - 1), window)  # beyond the text it is 0
    return drawn
