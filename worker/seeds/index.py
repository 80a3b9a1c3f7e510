"""The seeds as an index that posts are compared with: a matrix, and lists of seeds by word.

Words that many seeds hold are columns beside the dense axes; for all others there is a list of the
seeds that hold them. Nothing is left out; only the rounding differs from the exact score's.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import rounding
from encoder.score.lexical import SLOTS
from encoder.simd.rounded import TILE, RoundedMatrix, write_levels
from encoder.simd.tile import up
from encoder.support.readonly import fixed
from worker.seeds.sweep import OUT_OF_REACH, Asked, Lists, Seen, Words, sweep, write_columns

# A column costs every post a little, a list the posts with its word its whole length.
COMMON_SHARE = 1 / 6
SHORT_LIST = 64
MAX_COLUMNS = 128
# Their scores take half of the cache that a processor has of its own.
POSTS_AT_ONCE = 288  # at most, but for whole tiles
SEEDS_AT_ONCE = 512  # whole panels


class Swept(NamedTuple):
    """What came of comparing posts with all seeds."""

    triples: I64  # [p, 3]: post, seed, whether it is in doubt, of what is to be looked at exactly
    best: F32  # [n], each post's highest score, up to rounding
    counts: I64  # [n], the seeds that a post is sure to match
    hits: I64  # [k], the posts that are sure to match a seed
    chosen: F32  # [n, m], the scores with the seeds that were asked for, up to rounding


@dataclass(frozen=True, eq=False)
class SeedIndex:
    """What the scores of any post with all seeds are computed from."""

    matrix: RoundedMatrix  # [d + c, k]: dense axes, then common words, times their share
    lists: Lists
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
        lists = Lists(fixed(column), fixed(starts), fixed(rows), fixed(weights))
        rounded = RoundedMatrix.of(matrix)
        return cls(rounded, lists, rounded.error + rounding(longest))

    def asked(self, thresholds: F32, expiry: I64, most: int, chosen: I64) -> Asked:
        """What is asked of a sweep by these thresholds, of the best so many of each post."""
        cuts, sure = self._moved(thresholds, -1), self._moved(thresholds, 2)
        return Asked(cuts, sure, fixed(expiry), most, 4 * self.slack, fixed(chosen))

    def compared(self, posts: Embeddings, times: I64, asked: Asked) -> Swept:
        """Some posts, written at these times, compared with all seeds."""
        rows = posts.lexical
        words = Words(fixed(rows.indptr), fixed(rows.slots), fixed(rows.weights))
        levels = self.matrix.padded(len(posts))  # [n, d + c]
        write_levels(posts.dense, levels)
        write_columns(words, self.lists.column, levels)
        seen = Seen(
            np.full(len(posts), OUT_OF_REACH),
            np.zeros(len(posts), np.int64),
            np.zeros(self.matrix.room, np.int64),
            np.zeros((len(posts), len(asked.chosen)), np.float32),
        )
        count = max(len(posts), 1)
        turns = -(-count // POSTS_AT_ONCE)
        at_once = up(-(-count // turns), TILE.rows)  # so that no turn is left with a few
        triples = sweep(
            *(TILE, levels, words, fixed(times), self.matrix.panels, self.matrix.scale),
            *(self.lists, asked, seen, at_once, SEEDS_AT_ONCE),
        )
        hits = seen.hits[: len(asked.expiry)]
        return Swept(triples, seen.best, seen.counts, hits, seen.chosen)

    def _moved(self, thresholds: F32, by: float) -> F32:
        """Thresholds moved by so many times what rounding may cost; out of reach beyond them."""
        cuts = np.full(self.matrix.room, np.inf, np.float32)
        cuts[: len(thresholds)] = thresholds + np.float32(by * self.slack)
        return fixed(cuts)


def most_common(lengths: I32, seeds: int) -> I64:
    """The slots whose lists are so long that a column of the matrix costs less: [c]."""
    slots = np.flatnonzero(lengths > max(COMMON_SHARE * seeds, SHORT_LIST))
    return slots[np.argsort(-lengths[slots], kind="stable")[:MAX_COLUMNS]]
