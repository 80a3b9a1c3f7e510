"""The contribution of each word of a post to a score, for many pairs."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.readers.gated_mean import GatedMeanKernel
from encoder.score.lexical import RowArrays, post_rows
from encoder.support.jit import jit
from encoder.text.tokenizer import Tokenizer, Word

F64 = NDArray[np.float64]
Parts = list[tuple[str, float]]


class PostWords(NamedTuple):
    """The words of some posts, text after text."""

    offsets: I64  # [n + 1]
    pieces: I64  # [words], the number of a word's tokens
    slots: I32  # [words]
    rows: RowArrays  # [n], of these slots


def word_parts(
    texts: Sequence[Sequence[Word]], articles: Embeddings, pairs: I64, tokens: F32, cap: int
) -> list[Parts]:
    """Return each word with its contribution, for pairs [pairs, 2] of text and article.

    `tokens` has the parts of each pair's tokens, at most `cap` per text.
    """
    bounds = np.cumsum([0, *map(len, texts)])
    words = list(chain.from_iterable(texts))
    names = [word.text for word in words]
    pieces = np.array([len(word.ids) for word in words], np.int64)
    own_slots = np.array([word.slot for word in words], np.int32)
    idf = np.array([word.weight for word in words], np.float32)
    own = post_rows(own_slots, idf, bounds)  # a word without a slot has no weight either
    post_words = PostWords(bounds, pieces, own_slots, own.arrays)
    parts = add_parts(pairs, tokens, post_words, articles.lexical.arrays, cap, articles.mix)
    rest, ends = iter(parts.tolist()), bounds.tolist()
    return [
        list(zip(names[ends[text] : ends[text + 1]], rest, strict=False))
        for text in pairs[:, 0].tolist()
    ]


@jit()
def search_slot(slots: I32, first: int, end: int, slot: int) -> int:
    """Binary search for a slot; np.searchsorted takes seconds to compile."""
    while first < end:
        middle = (first + end) // 2
        if slots[middle] < slot:
            first = middle + 1
        else:
            end = middle
    return first


@jit()
def index_of(rows: Any, row: int, slot: int) -> int:
    """Return the index of a slot in a row, or -1."""
    end = rows.indptr[row + 1]
    at = search_slot(rows.slots, rows.indptr[row], end, slot)
    return at if at < end and rows.slots[at] == slot else -1


@jit()
def even_shares(slots: I32, offsets: I64, own: Any) -> F64:
    """Divide each slot's weight evenly among its words in a text: [words]."""
    places, counts = np.empty(len(slots), np.int64), np.zeros(len(own.slots), np.int64)
    for text in range(len(offsets) - 1):
        for word in range(offsets[text], offsets[text + 1]):
            places[word] = index_of(own, text, slots[word])
            if places[word] >= 0:
                counts[places[word]] += 1
    shares = np.zeros(len(slots), np.float64)
    for word in range(len(slots)):
        if places[word] >= 0:
            shares[word] = np.float64(own.weights[places[word]]) / counts[places[word]]
    return shares


@jit()
def add_parts(pairs: I64, tokens: F32, words: Any, articles: Any, cap: int, mix: float) -> F64:
    """Add up the parts of each word's tokens and slot, for every pair."""
    offsets, pieces, slots = words.offsets, words.pieces, words.slots
    shares, count = even_shares(slots, offsets, words.rows), 0
    for pair in range(len(pairs)):
        count += offsets[pairs[pair, 0] + 1] - offsets[pairs[pair, 0]]
    out, end, token = np.empty(count, np.float64), 0, 0
    for pair in range(len(pairs)):
        text, article = pairs[pair, 0], pairs[pair, 1]
        room = cap
        for word in range(offsets[text], offsets[text + 1]):
            near, same, read = 0.0, 0.0, min(pieces[word], room)
            for i in range(token, token + read):
                near += tokens[i]
            if shares[word] > 0:
                at = index_of(articles, article, slots[word])
                same = shares[word] * articles.weights[at] if at >= 0 else 0.0
            out[end] = (1 - mix) * near + mix * same
            end, token, room = end + 1, token + read, room - read
    return out


PAIRS_AT_ONCE = 256


class Reader(Protocol):
    """The attention of a model, and the contribution of each token to a score."""

    def attention(self, ids: I32, side: Side) -> F32:
        """The attention on each token: ≥ 0 with sum 1 [n]."""
        ...

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        `pairs` [pairs, 2] index texts and rows; y's length is a constant.
        """
        ...


def explaining_reader(weights: Weights, backend: object) -> Reader:
    """What explains the vectors of a model without a transformer."""
    if weights.config.has_star:
        from encoder.explain.reference import ReferenceReader  # by torch

        return ReferenceReader(weights)
    return backend if isinstance(backend, GatedMeanKernel) else GatedMeanKernel(weights)


class Explainer:
    """The attention on each word of a post, and its contribution to a score."""

    def __init__(self, tokenizer: Tokenizer, reader: Reader, cap: int) -> None:
        """`cap` is the number of a post's tokens that are read."""
        self._tokenizer, self._reader, self._cap = tokenizer, reader, cap

    def attention(self, text: str) -> Parts:
        """Return each word in reading order with its share of the attention."""
        words = self._tokenizer.words(text, Side.POST)
        ids = np.array(self._ids(words), np.int32)
        shares = iter(self._reader.attention(ids, Side.POST).tolist())
        return [(word.text, sum(islice(shares, len(word.ids)))) for word in words]

    def contributions(
        self, texts: Sequence[str], articles: Embeddings, pairs: Sequence[tuple[int, int]]
    ) -> list[Parts]:
        """Return each word's contribution for pairs of post and article, without the biases.

        Within a block of pairs, every post is read once.
        """
        words = [self._tokenizer.words(text, Side.POST) for text in texts]
        parts: list[Parts] = []
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            parts += self._block(words, articles, pairs[start : start + PAIRS_AT_ONCE])
        return parts

    def _block(
        self,
        texts: Sequence[Sequence[Word]],
        articles: Embeddings,
        pairs: Sequence[tuple[int, int]],
    ) -> list[Parts]:
        used, posts = distinct([post for post, _ in pairs])
        rows, places = distinct([article for _, article in pairs])
        words = [texts[i] for i in used]
        ids = [self._ids(text) for text in words]
        index = np.array(list(zip(posts, places, strict=True)))
        read = np.fromiter(chain.from_iterable(ids), np.int32)
        offsets = np.cumsum([0, *map(len, ids)])
        tokens = self._reader.parts(read, offsets, Side.POST, index, articles.dense[rows])
        index[:, 1] = np.array(rows)[places] % len(articles)
        return word_parts(words, articles, index, tokens, self._cap)

    def _ids(self, words: Sequence[Word]) -> list[int]:
        """Return the ids of these words up to the model's cap."""
        return [i for word in words for i in word.ids][: self._cap]


def distinct(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the distinct values in order, and each value's index among them."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), [places[value] for value in values]
