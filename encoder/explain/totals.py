"""What each word of a post gave to a score: its tokens' parts and its slot's, for many pairs."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import slot_place
from encoder.score.lexical import SparseRows, post_rows
from encoder.support.jit import jit
from encoder.text.tokenizer import Word

F64 = NDArray[np.float64]
Parts = list[tuple[str, float]]


class Rows(NamedTuple):
    """Sparse rows as compiled code reads them."""

    indptr: I64
    slots: I32
    weights: F32


def word_parts(
    texts: Sequence[Sequence[Word]], articles: Embeddings, pairs: I64, tokens: F32, cap: int
) -> list[Parts]:
    """Each word with its part of the score, for pairs [pairs, 2] of a text and an article.

    `tokens` are the parts of the tokens that are read, at most `cap` of a text, pair after pair.
    """
    words = list(chain.from_iterable(texts))
    offsets = np.cumsum([0, *map(len, texts)])
    slots = np.array([word.slot for word in words], np.int32)
    idf = np.array([word.weight for word in words], np.float32)
    pieces = np.array([len(word.ids) for word in words], np.int64)
    own = post_rows(slots, idf, offsets)  # a word without a slot has no weight either
    parts = add_parts(
        *(pairs, tokens, pieces, slots, offsets, cap),
        *(arrays_of(own), arrays_of(articles.lexical), articles.mix),
    ).tolist()
    named, end = [], 0
    for text in pairs[:, 0].tolist():
        first, end = end, end + len(texts[text])
        names = (word.text for word in texts[text])
        named.append(list(zip(names, parts[first:end], strict=True)))
    return named


def arrays_of(rows: SparseRows) -> Rows:
    """The arrays of sparse rows."""
    return Rows(rows.indptr, rows.slots, rows.weights)


@jit()
def place_of(rows: Any, row: int, slot: int) -> int:
    """Where a row has this slot; -1 if it has not."""
    end = rows.indptr[row + 1]
    at = slot_place(rows.slots, rows.indptr[row], end, slot)
    return at if at < end and rows.slots[at] == slot else -1


@jit()
def even_shares(slots: I32, offsets: I64, own: Any) -> F64:
    """Each word's even share of the weight of its slot in its text: [words]."""
    places, counts = np.empty(len(slots), np.int64), np.zeros(len(own.slots), np.int64)
    for text in range(len(offsets) - 1):
        for word in range(offsets[text], offsets[text + 1]):
            places[word] = place_of(own, text, slots[word])
            if places[word] >= 0:
                counts[places[word]] += 1
    shares = np.zeros(len(slots), np.float64)
    for word in range(len(slots)):
        if places[word] >= 0:
            shares[word] = np.float64(own.weights[places[word]]) / counts[places[word]]
    return shares


@jit()
def add_parts(
    pairs: I64, tokens: F32, pieces: I64, slots: I32, offsets: I64, cap: int,
    own: Any, articles: Any, mix: float,
) -> F64:  # fmt: skip
    """The parts of every pair's words, pair after pair: their tokens' and their slots'."""
    shares, count = even_shares(slots, offsets, own), 0
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
                at = place_of(articles, article, slots[word])
                same = shares[word] * articles.weights[at] if at >= 0 else 0.0
            out[end] = (1 - mix) * near + mix * same
            end, token, room = end + 1, token + read, room - read
    return out
