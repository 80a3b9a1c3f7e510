"""The index of a seed set: a matrix, and lists of seeds by word.

Words of many seeds are columns beside the dense axes. Each other word has a list of its seeds.
Scores differ from the exact ones by rounding alone.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import MismatchError
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import rounding
from encoder.score.lexical import SLOTS
from encoder.support.readonly import fixed
from worker.match.near import Edges, Nears, near_misses_among, touched_by
from worker.match.simd.registers import up
from worker.match.simd.rounded import TILE, RoundedMatrix, write_levels
from worker.match.sweep import (
    OUT_OF_REACH,
    Lists,
    SweepLimits,
    SweepTotals,
    Words,
    sweep,
    write_columns,
)
from worker.seeds.set import SeedSet

# A column costs every post a little, a list the posts with its word its whole length.
COMMON_SHARE = 1 / 6
SHORT_LIST = 64
MAX_COLUMNS = 128
# Their scores take half of the cache that a processor has of its own.
POSTS_AT_ONCE = 288  # at most, but for whole tiles
SEEDS_AT_ONCE = 512  # whole panels


_built: "WeakKeyDictionary[Embeddings, SeedIndex]" = WeakKeyDictionary()  # by part


class Swept(NamedTuple):
    """The result of comparing posts with all seeds."""

    triples: I64  # [p, 3]: post, seed, whether it is in doubt, of what is to be looked at exactly
    best: F32  # [n], each post's highest score, up to rounding
    counts: I64  # [n], the seeds that a post is sure to match
    hits: I64  # [k], the posts that are sure to match a seed
    chosen: F32  # [n, m], the scores with the chosen seeds, up to rounding


@dataclass(frozen=True, eq=False)
class SeedIndex:
    """The data from which the scores of posts with all seeds are computed."""

    matrix: RoundedMatrix  # [d + c, k]: dense axes, then common words, times their share
    lists: Lists
    slack: float  # how far a score may be off by rounding

    @classmethod
    def of(cls, seeds: Embeddings) -> Self:
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

    def sweep_limits(self, thresholds: F32, expiry: I64, most: int, chosen: I64) -> SweepLimits:
        """The limits of a sweep with these thresholds and at most `most` matches of a post."""
        cuts, sure = self._moved(thresholds, -1), self._moved(thresholds, 2)
        return SweepLimits(cuts, sure, fixed(expiry), most, 4 * self.slack, fixed(chosen))

    def compared(self, posts: Embeddings, times: I64, limits: SweepLimits) -> Swept:
        """Posts, with their times, compared with all seeds."""
        rows = posts.lexical
        words = Words(fixed(rows.indptr), fixed(rows.slots), fixed(rows.weights))
        levels = self.matrix.padded(len(posts))  # [n, d + c]
        write_levels(posts.dense, levels)
        write_columns(words, self.lists.column, levels)
        seen = SweepTotals(
            np.full(len(posts), OUT_OF_REACH),
            np.zeros(len(posts), np.int64),
            np.zeros(self.matrix.room, np.int64),
            np.zeros((len(posts), len(limits.chosen)), np.float32),
        )
        count = max(len(posts), 1)
        turns = -(-count // POSTS_AT_ONCE)
        at_once = up(-(-count // turns), TILE.rows)  # so that no turn is left with a few
        triples = sweep(
            *(TILE, levels, words, fixed(times), self.matrix.panels, self.matrix.scale),
            *(self.lists, limits, seen, at_once, SEEDS_AT_ONCE),
        )
        hits = seen.hits[: len(limits.expiry)]
        return Swept(triples, seen.best, seen.counts, hits, seen.chosen)

    def _moved(self, thresholds: F32, by: float) -> F32:
        """Thresholds moved by a multiple of the rounding error; infinite beyond the seeds."""
        cuts = np.full(self.matrix.room, np.inf, np.float32)
        cuts[: len(thresholds)] = thresholds + np.float32(by * self.slack)
        return fixed(cuts)


def index_of(part: Embeddings) -> SeedIndex:
    """The index of a part of a seed set, built once."""
    index = _built.get(part)
    if index is None:
        index = _built[part] = SeedIndex.of(part)
    return index


def prepare_index(seeds: SeedSet) -> None:
    """Build the index of each part that has none."""
    for part in seeds.vectors.parts:
        index_of(part)


def most_common(lengths: I32, seeds: int) -> I64:
    """The slots whose lists are longer than the cost of a matrix column: [c]."""
    slots = np.flatnonzero(lengths > max(COMMON_SHARE * seeds, SHORT_LIST))
    return slots[np.argsort(-lengths[slots], kind="stable")[:MAX_COLUMNS]]


BEFORE_ALL = np.iinfo(np.int64).min  # the end of a row without a seed
BLOCK_SCORES = 2**22  # for one thread at a time
ALL = 2**31


@dataclass(frozen=True, slots=True)
class SeedPairs:
    """The best matches of some posts, by post, falling score and seed; counts include all."""

    posts: I64  # [m], which post
    seeds: I64  # [m], which seed
    scores: F32  # [m]
    best: F32  # [n], the highest score of every post, up to rounding; -2 where there is no seed
    counts: I64  # [n], how many seeds every post matches
    hits: I64  # [k], how many posts match every seed
    nears: Nears | None = None  # only on request


class Block(NamedTuple):
    """The candidates of some posts: certain matches are counted, the others are to be checked."""

    triples: I64  # [m, 3]: post, seed, whether it is in doubt
    best: F32  # [n]
    counts: I64  # [n]
    hits: I64  # [k]
    touched: I64  # [h, 2]: post and event that may be near


class PartSweep(NamedTuple):
    """A part of the seeds, and the limits that this set has for its rows."""

    scorer: SeedIndex
    seeds: I64  # [r], the seed of each row, or -1
    used: I64  # [u], the rows that have one
    limits: SweepLimits
    chosen: I64  # [m], which of the seeds near misses are looked for among are in this part

    @classmethod
    def of(cls, seeds: SeedSet, number: int, most: int, near: I64) -> Self:
        vectors = seeds.vectors
        index, places = index_of(vectors.parts[number]), vectors.places(number)
        used, chosen = np.flatnonzero(places >= 0), np.flatnonzero(vectors.part[near] == number)
        own = places[used]
        thresholds = np.full(len(places), np.inf, np.float32)
        thresholds[used] = seeds.thresholds[own]
        expiry = np.full(len(places), BEFORE_ALL)
        expiry[used] = seeds.expiry[own]
        limits = index.sweep_limits(thresholds, expiry, most, vectors.row[near[chosen]])
        return cls(index, places, used, limits, chosen)


class Matcher:
    """Compares posts with one seed set on several threads; keeps the best matches of each post."""

    def __init__(
        self, seeds: SeedSet, threads: int = 1, most: int = ALL, edges: Edges | None = None
    ) -> None:
        self.seeds, self._threads, self._most, self._edges = seeds, threads, most, edges
        near = np.zeros(0, np.int64) if edges is None else edges.seeds
        self._near = near
        self._parts = [
            PartSweep.of(seeds, number, most, near) for number in range(len(seeds.vectors.parts))
        ]

    def match(self, posts: Embeddings, timestamps: I64) -> SeedPairs:
        """The pairs of a post and a seed with score ≥ threshold, where the seed had not expired."""
        if (posts.digest, posts.mix) != (self.seeds.vectors.digest, self.seeds.vectors.mix):
            raise MismatchError("posts and seeds of different models; embed both with one model")
        parts = self._blocks(posts, timestamps) if len(self.seeds) else [self._nothing(len(posts))]
        triples, best, counts = map(np.concatenate, list(zip(*parts, strict=True))[:3])
        hits = sum((part.hits for part in parts), np.zeros(len(self.seeds), np.int64))
        scores = self.seeds.vectors.scores(posts, triples[:, :2])
        above = scores >= self.seeds.thresholds[triples[:, 1]]
        (rows, seeds, doubt), scores = triples[above].T, scores[above]
        counts += np.bincount(rows[doubt > 0], minlength=len(counts))
        hits += np.bincount(seeds[doubt > 0], minlength=len(hits))
        order = np.lexsort((seeds, -scores, rows))
        order = order[first_of_each(rows[order], self._most)]
        nears = None
        if self._edges is not None:
            touched = np.concatenate([part.touched for part in parts])
            nears = near_misses_among(touched, self._edges, posts, timestamps, self.seeds)
        return SeedPairs(rows[order], seeds[order], scores[order], best, counts, hits, nears)

    def _nothing(self, posts: int) -> Block:
        none = np.zeros((0, 3), np.int64)
        counts = np.zeros(posts, np.int64)
        return Block(none, np.full(posts, OUT_OF_REACH), counts, none[:, 0], none[:, :2])

    def _blocks(self, posts: Embeddings, timestamps: I64) -> list[Block]:
        """The candidates, and each post's highest score, in bounded memory."""
        most = self._threads * up(1 + BLOCK_SCORES // len(self.seeds), POSTS_AT_ONCE)
        parts = self._threads * -(-len(posts) // most)  # as many for each thread
        step = max(POSTS_AT_ONCE, -(-len(posts) // max(parts, 1)))

        def block(start: int) -> Block:
            rows = slice(start, start + step)
            pairs = self._block(posts[rows], timestamps[rows])
            pairs.triples[:, 0] += start
            pairs.touched[:, 0] += start
            return pairs

        starts = range(0, max(len(posts), 1), step)
        if self._threads == 1 or len(starts) == 1:
            return [block(start) for start in starts]
        return list(pool(self._threads).map(block, starts))

    def _block(self, posts: Embeddings, times: I64) -> Block:
        best, counts = np.full(len(posts), OUT_OF_REACH), np.zeros(len(posts), np.int64)
        hits, triples = np.zeros(len(self.seeds), np.int64), [np.zeros((0, 3), np.int64)]
        chosen = np.full((len(posts), len(self._near)), OUT_OF_REACH)
        for part in self._parts:
            swept = part.scorer.compared(posts, times, part.limits)
            np.maximum(best, swept.best, out=best)
            counts += swept.counts
            hits[part.seeds[part.used]] += swept.hits[part.used]
            swept.triples[:, 1] = part.seeds[swept.triples[:, 1]]
            triples.append(swept.triples)
            chosen[:, part.chosen] = swept.chosen
        return Block(np.concatenate(triples), best, counts, hits, self._touched(chosen))

    def _touched(self, scores: F32) -> I64:
        """The posts and events that may be near misses, by approximate scores."""
        if self._edges is None:
            return np.zeros((0, 2), np.int64)
        least = self._edges.edges[:, -1] - np.float32(
            max(part.scorer.slack for part in self._parts)
        )
        pairs: I64 = touched_by(scores, self._edges.starts, least)
        return pairs


def first_of_each(rows: I64, most: int) -> NDArray[np.bool_]:
    """Which of these, in the order of their rows, are among the first few of their row."""
    starts = np.searchsorted(rows, rows)
    return np.arange(len(rows)) - starts < most


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The threads that all matchers share; compiled code runs without Python's lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="match")


os.register_at_fork(after_in_child=pool.cache_clear)  # threads stay with the parent
