"""The exact score of a pair, independent of the other pairs.

The rounding of a matrix product depends on its shape. Scores that are compared with a threshold are
float64 sums over the dense axes, then over the common slots, in a fixed order.
"""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import SparseRows
from encoder.support.jit import jit
from encoder.support.readonly import fixed


def rounding(terms: int) -> float:
    """A bound on the error of a float32 sum of this many products of two unit rows."""
    return (terms + 64) * 2.0**-23


class Rows(Protocol):
    """Embeddings, whose module imports this one."""

    @property
    def dense(self) -> F32: ...

    @property
    def lexical(self) -> SparseRows: ...

    @property
    def mix(self) -> float: ...


class ScoredRows(NamedTuple):
    """Embeddings as read-only arrays for compiled code."""

    dense: F32  # [n, d]
    indptr: I64  # [n + 1]
    slots: I32
    weights: F32

    @classmethod
    def of(cls, dense: F32, words: SparseRows) -> Self:
        return cls(fixed(dense), fixed(words.indptr), fixed(words.slots), fixed(words.weights))


def pair_scores(left: Rows, right: Rows, pairs: I64) -> F32:
    """The scores of pairs [n, 2] of a left and a right row of one model: [n]."""
    scores: F32 = write_scores(
        ScoredRows.of(left.dense, left.lexical), ScoredRows.of(right.dense, right.lexical),
        float(left.mix), fixed(pairs),
    )  # fmt: skip
    return scores


@jit()
def pair_score(left: Any, right: Any, mix: float, row: int, col: int) -> np.float32:
    """The score of two rows: both halves summed in order in float64, rounded once."""
    near = 0.0
    for axis in range(left.dense.shape[1]):
        near += np.float64(left.dense[row, axis]) * np.float64(right.dense[col, axis])
    same = 0.0
    at, end = right.indptr[col], right.indptr[col + 1]
    for e in range(left.indptr[row], left.indptr[row + 1]):
        while at < end and right.slots[at] < left.slots[e]:
            at += 1
        if at < end and right.slots[at] == left.slots[e]:
            same += np.float64(left.weights[e]) * np.float64(right.weights[at])
    return np.float32(min(max((1 - mix) * near + mix * same, -1.0), 1.0))


@jit()
def write_scores(left: Any, right: Any, mix: float, pairs: I64) -> F32:
    out = np.empty(len(pairs), np.float32)
    for i in range(len(pairs)):
        out[i] = pair_score(left, right, mix, pairs[i, 0], pairs[i, 1])
    return out
