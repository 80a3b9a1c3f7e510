"""What each word of a post gave to a score: its tokens' parts and its slot's, for many pairs."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import NO_SLOT, SLOTS, SparseRows, spans, word_rows
from encoder.text.tokenizer import Word

F64 = NDArray[np.float64]
Parts = list[tuple[str, float]]


def word_parts(
    texts: Sequence[Sequence[Word]], articles: Embeddings, pairs: I64, tokens: F32, cap: int
) -> list[Parts]:
    """Each word with its part of the score, for pairs [pairs, 2] of a text and an article.

    `tokens` are the parts of the tokens that are read, at most `cap` of a text, pair after pair.
    """
    words = list(chain.from_iterable(texts))
    lengths = np.array(list(map(len, texts)))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    slots = np.array([word.slot for word in words], np.int32)
    idf = np.array([word.weight for word in words], np.float32)
    pieces = pieces_read(words, offsets, cap)
    count = lengths[pairs[:, 0]]
    there = spans(offsets[pairs[:, 0]], count)  # [words of all pairs]
    held = weights_at(articles.lexical, np.repeat(pairs[:, 1], count), slots[there])
    near, same = sums(tokens, pieces[there]), slot_shares(slots, idf, offsets)[there] * held
    parts = (1 - articles.mix) * near + articles.mix * same
    named = [(words[i].text, part) for i, part in zip(there.tolist(), parts.tolist(), strict=True)]
    ends = np.cumsum(count).tolist()
    return [named[end - n : end] for end, n in zip(ends, count.tolist(), strict=True)]


def pieces_read(words: Sequence[Word], offsets: I64, cap: int) -> I64:
    """How many tokens of each word are read, when at most `cap` of a text are: [words]."""
    pieces = np.array([len(word.ids) for word in words], np.int64)
    before = np.concatenate([[0], np.cumsum(pieces)])
    place = before[:-1] - np.repeat(before[offsets[:-1]], np.diff(offsets))  # in its text
    read: I64 = np.clip(cap - place, 0, pieces)
    return read


def sums(tokens: F32, counts: I64) -> F64:
    """The sums of so many tokens each, one after the other."""
    total = np.concatenate([[0], np.cumsum(tokens, dtype=np.float64)])
    ends = np.concatenate([[0], np.cumsum(counts)])
    return np.diff(total[ends])


def slot_shares(slots: I32, idf: F32, offsets: I64) -> F64:
    """Each word's even share of its slot's weight in the unit row of its text: [words]."""
    text = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    _, which, count = np.unique(text * SLOTS + slots, return_inverse=True, return_counts=True)
    return weights_at(word_rows(slots, idf, offsets), text, slots) / count[which]


def weights_at(rows: SparseRows, row: I64, slots: I32) -> F64:
    """The weight that each of these rows has in each of these slots; 0 where it has none."""
    keys = np.repeat(np.arange(len(rows)), np.diff(rows.indptr)) * SLOTS + rows.slots
    wanted = row * SLOTS + slots
    at = np.searchsorted(keys, wanted)
    weights = np.append(rows.weights, 0).astype(np.float64)[at]
    return np.where((slots != NO_SLOT) & (np.append(keys, -1)[at] == wanted), weights, 0)
