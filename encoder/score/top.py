"""Find the rows of a large table with the highest scores, up to rounding."""

from typing import Any, NamedTuple

import numpy as np

from encoder.model.weights import F32, I64
from encoder.support.jit import jit


class Cut(NamedTuple):
    """What a score must reach: that of the n-th highest, or `least` if n is 0."""

    highest: int  # n
    least: F32  # [k]
    slack: F32  # [k], how far a score of the row may be off


@jit()
def top_pairs(scores: F32, words: Any, table: Any, mix: float, cut: Any) -> I64:
    """Return the pairs [p, 2] of row and table row that may reach the cut.

    `scores` [k, n] is the dense part; the products of `words` with the `table` are added in place.
    """
    pairs, end = np.empty((4096, 2), np.int64), 0
    places, heap = np.empty(scores.shape[1], np.int64), np.empty(max(cut.highest, 1), np.float32)
    for row in range(len(scores)):
        line = scores[row]
        add_words(line, words, row, table, mix)
        limit = lowest_of_highest(line, heap) if cut.highest > 0 else cut.least[row]
        number = indices_above(line, np.float32(limit - 2 * cut.slack[row]), places)
        while end + number > len(pairs):
            pairs = np.concatenate((pairs, np.empty_like(pairs)))
        for i in range(number):
            pairs[end + i, 0], pairs[end + i, 1] = row, places[i]
        end += number
    return pairs[:end].copy()


@jit()
def add_words(line: F32, words: Any, row: int, table: Any, mix: float) -> None:
    """Add the products of the words of one row with every row of the table."""
    for e in range(words.indptr[row], words.indptr[row + 1]):
        slot, weight = words.slots[e], np.float32(mix * words.weights[e])
        for at in range(table.starts[slot], table.starts[slot + 1]):
            line[table.rows[at]] += weight * table.weights[at]


@jit()
def lowest_of_highest(line: F32, heap: F32) -> float:
    """Return the len(heap)-th highest value."""
    heap[:] = -np.inf
    lowest = heap[0]
    for value in line:
        if value > lowest:
            replace_lowest(heap, value)
            lowest = heap[0]
    return lowest  # type: ignore[no-any-return]


@jit()
def indices_above(line: F32, limit: float, places: I64) -> int:
    """Write the indices of values ≥ limit, and return their number."""
    number = 0
    for place in range(len(line)):
        if line[place] >= limit:
            places[number] = place
            number += 1
    return number


@jit()
def replace_lowest(heap: F32, value: float) -> None:
    """Replace the first value of a heap, its lowest."""
    at, below = 0, 1
    while below < len(heap):
        if below + 1 < len(heap) and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[at] = heap[below]
        at, below = below, 2 * below + 1
    heap[at] = value
