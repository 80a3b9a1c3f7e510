"""The seeds as an index that posts are scored with: a matrix, and lists of seeds by word.

Words that many seeds hold are columns beside the dense axes; for all others there is a list of the
seeds that hold them. Nothing is left out; only the rounding differs from the exact score's.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import rounding
from encoder.score.lexical import SLOTS
from encoder.simd.across import highest_lane, largest
from encoder.simd.lanewise import maximum
from encoder.simd.loads import filled, load
from encoder.simd.rounded import FULL, I16, RoundedMatrix, write_levels
from encoder.simd.tile import LANES
from encoder.support.jit import jit
from encoder.support.readonly import fixed

# A column costs every post a little, a list the posts with its word its whole length.
COMMON_SHARE = 1 / 4
SHORT_LIST = 64
MAX_COLUMNS = 128
OUT_OF_REACH = np.float32(-2)


@dataclass(frozen=True, eq=False)
class SeedIndex:
    """What the scores of any post with all seeds are computed from."""

    matrix: (
        RoundedMatrix  # [d + c, k]: dense axes, then common words, times their part of the score
    )
    column: I32  # [SLOTS], where in a row of the matrix a word stands, or -1
    starts: I32  # [SLOTS + 1], where the list of a word begins
    rows: I32  # [entries], the seeds in the lists
    weights: F32  # [entries], their weights there, times the mix
    slack: float  # how far a score may be off by rounding

    @classmethod
    def of(cls, seeds: Embeddings) -> Self:
        """The index of these seeds."""
        starts, rows, weights = seeds.lexical.inverted
        weights = weights * np.float32(seeds.mix)
        common = most_common(np.diff(starts), len(seeds))
        dim = seeds.dense.shape[1]
        matrix = np.zeros((dim + len(common), len(seeds)), np.float32)
        np.multiply(seeds.dense.T, np.float32(1 - seeds.mix), out=matrix[:dim])
        column = np.full(SLOTS, -1, np.int32)
        for at, slot in enumerate(common.tolist(), dim):
            span = slice(starts[slot], starts[slot + 1])
            matrix[at, rows[span]] = weights[span]
            column[slot] = at
        longest = int(np.diff(seeds.lexical.indptr).max(initial=0))
        lists = (fixed(column), fixed(starts), fixed(rows), fixed(weights))
        rounded = RoundedMatrix.of(matrix)
        return cls(rounded, *lists, rounded.error + rounding(longest))

    def scores(self, posts: Embeddings) -> F32:
        """The scores of some posts with all seeds, up to rounding; further columns are 0."""
        words = posts.lexical
        arrays = (fixed(words.indptr), fixed(words.slots), fixed(words.weights))
        asked = self.matrix.padded(len(posts))  # [n, d + c]
        write_levels(posts.dense, asked)
        write_columns(*arrays, self.column, asked)
        out = np.empty((len(asked), self.matrix.room), np.float32)
        write_rare(*arrays, self.column, self.starts, self.rows, self.weights, out)
        self.matrix.add_products(asked, out)
        return out[: len(posts)]

    def moved(self, thresholds: F32, by: float) -> F32:
        """Thresholds moved by so many times what rounding may cost; out of reach beyond them."""
        cuts = np.full(self.matrix.room, np.inf, np.float32)
        cuts[: len(thresholds)] = thresholds + np.float32(by * self.slack)
        return fixed(cuts)


def most_common(lengths: I32, seeds: int) -> I64:
    """The slots whose lists are so long that a column of the matrix costs less: [c]."""
    slots = np.flatnonzero(lengths > max(COMMON_SHARE * seeds, SHORT_LIST))
    return slots[np.argsort(-lengths[slots], kind="stable")[:MAX_COLUMNS]]


@jit()
def write_columns(indptr: I64, slots: I32, weights: F32, column: I32, out: I16) -> None:
    """Put the levels of the words that have a column into the posts' rows."""
    for post in range(len(indptr) - 1):
        for e in range(indptr[post], indptr[post + 1]):
            if column[slots[e]] >= 0:
                out[post, column[slots[e]]] = np.int16(np.rint(weights[e] * np.float32(FULL)))


@jit()
def write_rare(
    indptr: I64, slots: I32, weights: F32,
    column: I32, starts: I32, rows: I32, others: F32, out: F32,
) -> None:  # fmt: skip
    """Write the products of the words that have no column, seed by seed in their lists.

    They come first: a row that was just cleared is in the cache.
    """
    for post in range(len(indptr) - 1):
        out[post] = 0
        for e in range(indptr[post], indptr[post + 1]):
            if column[slots[e]] < 0:
                for at in range(starts[slots[e]], starts[slots[e] + 1]):
                    out[post, rows[at]] += weights[e] * others[at]


@jit(fast=True)
def survey(scores: F32, cuts: F32, seeds: int, best: F32, room: F32) -> None:
    """Write each row's highest score, and by how much a score at most exceeds its cut."""
    whole = seeds - seeds % LANES
    for post in range(len(scores)):
        row = scores[post]
        top, most = filled(1, OUT_OF_REACH), filled(1, OUT_OF_REACH)
        for at in range(0, whole, LANES):
            score = load(1, row, at)
            top = maximum(top, score)
            most = maximum(most, score - load(1, cuts, at))
        best[post], room[post] = highest_lane(top), highest_lane(most)
        for seed in range(whole, seeds):
            best[post] = max(best[post], row[seed])
            room[post] = max(room[post], row[seed] - cuts[seed])


@jit()
def lowest_of_best(values: F32, most: int) -> float:
    """The lowest of the highest `most` values; numba's np.partition compiles for five seconds."""
    heap = np.full(most, OUT_OF_REACH)  # the lowest on top
    for value in values:
        at, below = 0, 1
        if value <= heap[0]:
            continue
        while below < most:
            if below + 1 < most and heap[below + 1] < heap[below]:
                below += 1
            if heap[below] >= value:
                break
            heap[at] = heap[below]
            at, below = below, 2 * below + 1
        heap[at] = value
    return heap[0]  # type: ignore[no-any-return]


@jit()
def longer(triples: I64) -> I64:
    """A copy with room for twice as many."""
    copy = np.empty((2 * len(triples), 3), np.int64)
    for i in range(len(triples)):
        for k in range(3):
            copy[i, k] = triples[i, k]
    return copy


@jit()
def within_reach(
    scores: F32, cuts: F32, sure: F32, room: F32, most: int, reach: float
) -> tuple[I64, I64, I64]:
    """Of each row the columns to look at exactly, as [row, column, in doubt]; and what is sure.

    Those from `sure` on are counted, by row and by column. Of them only those come that may be
    among the highest `most`, as rounding hides no more than `reach`; of those in doubt all.
    """
    triples, end = np.empty((64, 3), np.int64), 0
    counts, hits = np.zeros(len(scores), np.int64), np.zeros(len(cuts), np.int64)
    found, high = np.empty(len(cuts), np.int64), np.empty(len(cuts), np.float32)
    for post in range(len(scores)):
        if room[post] < 0:
            continue
        row, certain = scores[post], 0
        number = reached(row, cuts, found)
        for seed in found[:number]:
            if row[seed] >= sure[seed]:
                high[certain] = row[seed]
                hits[seed] += 1
                certain += 1
        counts[post], least = certain, OUT_OF_REACH
        if certain > most:
            least = lowest_of_best(high[:certain], most) - reach
        for seed in found[:number]:
            doubt = row[seed] < sure[seed]
            if doubt or row[seed] >= least:
                if end == len(triples):
                    triples = longer(triples)
                triples[end, 0], triples[end, 1], triples[end, 2] = post, seed, doubt
                end += 1
    return triples[:end].copy(), counts, hits


@jit()
def reached(scores: F32, cuts: F32, found: I64) -> int:
    """Write which scores reach their cuts, and say how many; most groups of them have none."""
    number = 0
    for group in range(0, len(scores), 2 * LANES):
        if highest_lane(largest(load(2, scores, group) - load(2, cuts, group))) < 0:
            continue
        for seed in range(group, group + 2 * LANES):
            if scores[seed] >= cuts[seed]:
                found[number] = seed
                number += 1
    return number


@jit()
def hide_expired(scores: F32, expiry: I64, times: I64) -> None:
    """Put the scores with seeds that had expired at the time of the post out of reach."""
    for seed in range(len(expiry)):
        for post in range(len(times)):
            if expiry[seed] <= times[post]:
                scores[post, seed] = OUT_OF_REACH
