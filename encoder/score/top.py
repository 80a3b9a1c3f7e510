"""Find the rows of a large table with the highest scores, up to rounding."""

import numpy as np

from encoder.model.weights import F32, I32, I64
from encoder.support.jit import jit


@jit()
def top_pairs(
    scores: F32, width: int, indptr: I64, slots: I32, weights: F32,
    starts: I32, rows: I32, other_weights: F32, mix: float, count: int, least: F32, slack: F32,
) -> I64:  # fmt: skip
    """Return the pairs [p, 2] of row and table row that may reach a limit.

    `scores` [k, ≥ width] is the dense part; the words are added in place. The limit is the
    `count`-th highest score, or `least` [k] if count is 0, minus twice the error `slack` [k].
    """
    pairs, end = np.empty((4096, 2), np.int64), 0
    places, heap = np.empty(width, np.int64), np.empty(max(count, 1), np.float32)
    for row in range(len(scores)):
        begin, stop = indptr[row], indptr[row + 1]
        line = scores[row, :width]
        add_words(line, slots[begin:stop], weights[begin:stop], starts, rows, other_weights, mix)
        limit = lowest_of_highest(line, heap) if count > 0 else least[row]
        number = indices_above(line, np.float32(limit - 2 * slack[row]), places)
        while end + number > len(pairs):
            pairs = np.concatenate((pairs, np.empty_like(pairs)))
        for i in range(number):
            pairs[end + i, 0], pairs[end + i, 1] = row, places[i]
        end += number
    return pairs[:end].copy()


@jit()
def add_words(
    line: F32, slots: I32, weights: F32, starts: I32, rows: I32, other_weights: F32, mix: float
) -> None:
    """Add the products of the words of one row with every row of the table."""
    for e in range(len(slots)):
        weight = np.float32(mix * weights[e])
        for at in range(starts[slots[e]], starts[slots[e] + 1]):
            line[rows[at]] += weight * other_weights[at]


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
