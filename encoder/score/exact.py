"""The exact score of a pair, summed in a fixed order: it depends on the texts and the model alone.

Matrix products round differently from shape to shape. A score that is compared with a threshold is
computed here: float64 sums over the dense axes, then over the common slots, in order.
"""

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import SparseRows
from encoder.support.jit import jit
from encoder.support.readonly import fixed


def rounding(terms: int) -> float:
    """A bound on the error of a float32 sum of this many products of two unit rows."""
    return (terms + 64) * 2.0**-23


def pair_scores(
    left: tuple[F32, SparseRows], right: tuple[F32, SparseRows], mix: float, pairs: I64
) -> F32:
    """The scores of pairs [n, 2] of a left and a right row, each of dense and lexical: [n]."""
    (dense, words), (other, others) = left, right
    scores: F32 = write_scores(
        *(fixed(dense), fixed(words.indptr), fixed(words.slots), fixed(words.weights)),
        *(fixed(other), fixed(others.indptr), fixed(others.slots), fixed(others.weights)),
        *(float(mix), fixed(pairs)),
    )
    return scores


@jit()
def slot_place(slots: I32, first: int, end: int, slot: int) -> int:
    """The position of a slot between two positions; np.searchsorted compiles for seconds."""
    while first < end:
        middle = (first + end) // 2
        if slots[middle] < slot:
            first = middle + 1
        else:
            end = middle
    return first


@jit()
def write_scores(
    dense: F32, indptr: I64, slots: I32, weights: F32,
    other: F32, other_indptr: I64, other_slots: I32, other_weights: F32,
    mix: float, pairs: I64,
) -> F32:  # fmt: skip
    """The scores of pairs of rows: both halves summed in order in float64, rounded once."""
    out = np.empty(len(pairs), np.float32)
    for i in range(len(pairs)):
        row, col = pairs[i, 0], pairs[i, 1]
        near = 0.0
        for axis in range(dense.shape[1]):
            near += np.float64(dense[row, axis]) * np.float64(other[col, axis])
        same = 0.0
        at, end = other_indptr[col], other_indptr[col + 1]
        for e in range(indptr[row], indptr[row + 1]):
            at = slot_place(other_slots, at, end, slots[e])
            if at < end and other_slots[at] == slots[e]:
                same += np.float64(weights[e]) * np.float64(other_weights[at])
        score = (1 - mix) * near + mix * same
        out[i] = min(max(score, -1.0), 1.0)
    return out
