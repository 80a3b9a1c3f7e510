"""What each word of a post gave to a score: its tokens' parts and its slot's, pairs at once."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import NO_SLOT, SparseRows, word_rows
from encoder.support.jit import jit
from encoder.support.readonly import fixed
from encoder.text.tokenizer import Word

F64 = NDArray[np.float64]
FIRST = Word("", (), NO_SLOT, 0.0)  # so that there is one to take apart


def word_parts(
    texts: Sequence[Sequence[Word]], articles: SparseRows, mix: float, pairs: I64,
    tokens: F32, bounds: I64,
) -> list[list[tuple[str, float]]]:  # fmt: skip
    """Each word with its part of the score, for pairs [pairs > 0, 2] of a text and an article.

    The parts of a pair's tokens are `tokens` between its bounds [pairs, 2].
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    names, ids, *lexical = zip(*chain([FIRST], *texts), strict=True)
    pieces = np.fromiter(map(len, ids[1:]), np.int64, len(ids) - 1)
    slots, idf = np.array(lexical[0][1:], np.int32), np.array(lexical[1][1:], np.float32)
    rows = word_rows(slots, idf, offsets)  # a word without a slot has no weight either
    ends = np.cumsum(lengths[pairs[:, 0]]).tolist()
    out = np.zeros(ends[-1], np.float64)
    write_parts(
        *(fixed(pairs), fixed(tokens), fixed(bounds), fixed(pieces), fixed(slots), fixed(offsets)),
        *(fixed(rows.indptr), fixed(rows.slots), fixed(rows.weights)),
        *(fixed(articles.indptr), fixed(articles.slots), fixed(articles.weights)),
        *(float(mix), out),
    )
    found, words = out.tolist(), names[1:]
    spans = zip(offsets[pairs[:, 0]].tolist(), lengths[pairs[:, 0]].tolist(), ends, strict=True)
    return [
        list(zip(words[at : at + count], found[end - count : end], strict=True))
        for at, count, end in spans
    ]


@jit(inline=True)
def place_of(slot: int, slots: I32, first: int, end: int) -> int:
    """Where a slot stands among the ascending slots[first:end], or -1."""
    last = end
    while first < last:
        middle = (first + last) // 2
        if slots[middle] < slot:
            first = middle + 1
        else:
            last = middle
    return first if first < end and slots[first] == slot else -1


@jit()
def write_parts(
    pairs: I64, tokens: F32, bounds: I64, pieces: I64, slots: I32, offsets: I64,
    indptr: I64, row_slots: I32, row_weights: F32,
    article_indptr: I64, article_slots: I32, article_weights: F32, mix: float, out: F64,
) -> None:  # fmt: skip
    """Write the parts of every pair's words; what words of one slot share is shared out evenly."""
    longest = 0
    for text in range(len(indptr) - 1):
        longest = max(longest, indptr[text + 1] - indptr[text])
    part, counts, written = np.empty(longest, np.float64), np.empty(longest, np.int64), 0
    for pair in range(len(pairs)):
        text, k = pairs[pair, 0], pairs[pair, 1]
        begin, end = indptr[text], indptr[text + 1]
        counts[: end - begin] = 0
        for word in range(offsets[text], offsets[text + 1]):
            e = place_of(slots[word], row_slots, begin, end)
            if e >= 0:
                counts[e - begin] += 1
        for e in range(begin, end):
            at = place_of(row_slots[e], article_slots, article_indptr[k], article_indptr[k + 1])
            part[e - begin] = 0.0
            if at >= 0:
                product = np.float64(row_weights[e]) * np.float64(article_weights[at])
                part[e - begin] = product / counts[e - begin]
        token = bounds[pair, 0]
        for word in range(offsets[text], offsets[text + 1]):
            near, same = 0.0, 0.0
            for i in range(token, min(token + pieces[word], bounds[pair, 1])):
                near += tokens[i]
            token += pieces[word]
            e = place_of(slots[word], row_slots, begin, end)
            if e >= 0:
                same = part[e - begin]
            out[written] = (1 - mix) * near + mix * same
            written += 1
