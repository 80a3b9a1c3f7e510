"""The vectors of a seed set, in parts that successive sets share.

A seed that changes adds a small part. The others, and what was computed from them, stay the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import pair_scores
from encoder.score.lexical import SparseRows
from encoder.support.jit import jit
from encoder.support.readonly import frozen

MAX_FLOAT = np.finfo(np.float32).max


def check_rows(vectors: Embeddings) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each vector is finite, and whether its text has words: [n], [n]."""
    finite, not_zero = np.empty((2, len(vectors)), np.bool_)
    write_row_checks(vectors.dense, finite, not_zero)
    return finite, not_zero | (np.diff(vectors.lexical.indptr) > 0)


@jit(fast=True)
def write_row_checks(rows: F32, finite: NDArray[np.bool_], not_zero: NDArray[np.bool_]) -> None:
    for row in range(len(rows)):
        numbers, sizes = np.float32(0), np.float32(0)
        for k in range(rows.shape[1]):
            size = abs(rows[row, k])
            numbers += np.float32(1) if size <= MAX_FLOAT else np.float32(0)
            sizes += size
        finite[row], not_zero[row] = numbers == rows.shape[1], sizes != 0


@dataclass(frozen=True, eq=False)
class SeedVectors:
    """A row of one of the parts for each seed; a part may have more rows."""

    parts: tuple[Embeddings, ...]  # at least one, which says what the model is
    part: I32  # [k]
    row: I64  # [k]

    def __post_init__(self) -> None:
        if not self.parts or len(self.part) != len(self.row):
            raise InputError("seed vectors: no part, or parts and rows differ in number")

    def __len__(self) -> int:
        return len(self.row)

    @property
    def mix(self) -> float:
        return self.parts[0].mix

    @property
    def digest(self) -> str:
        return self.parts[0].digest

    def seeds_of_rows(self, part: int) -> I64:
        """The seed of each row of a part, or -1: [r]."""
        seed_of_row = np.full(len(self.parts[part]), -1)
        seeds = np.flatnonzero(self.part == part)
        seed_of_row[self.row[seeds]] = seeds
        return seed_of_row

    def __getitem__(self, key: "slice | Sequence[int] | np.ndarray[Any, Any]") -> Embeddings:
        part, row = self.part[key], self.row[key]
        numbers = np.unique(part).tolist()
        if len(numbers) < 2:
            part_vectors = self.parts[numbers[0] if numbers else 0]
            is_whole_part = len(row) == len(part_vectors) and bool(
                (row == np.arange(len(row))).all()
            )
            return part_vectors if is_whole_part else part_vectors[row]
        dense = np.empty((len(row), self.parts[0].dense.shape[1]), np.float32)
        words: list[SparseRows] = []
        order: list[I64] = []
        for number in numbers:
            positions = np.flatnonzero(part == number)
            rows = self.parts[number][row[positions]]
            dense[positions] = rows.dense
            words.append(rows.lexical)
            order.append(positions)
        lexical = SparseRows.concat(words)[np.argsort(np.concatenate(order))]
        return Embeddings(frozen(dense), lexical, self.mix, self.digest)

    def scores(self, posts: Embeddings, pairs: I64) -> F32:
        """Exact scores of pairs [n, 2] of post and seed: [n]."""
        scores = np.empty(len(pairs), np.float32)
        part = self.part[pairs[:, 1]]
        for number in np.unique(part).tolist():
            positions, rows = np.flatnonzero(part == number), self.parts[number]
            of_part = np.stack([pairs[positions, 0], self.row[pairs[positions, 1]]], axis=1)
            scores[positions] = pair_scores(posts, rows, of_part)
        return scores
