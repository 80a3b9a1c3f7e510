"""Compares posts with a seed set: an index of each part of the seeds, and a sweep over it.

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
from encoder.score.exact import ScoredRows, rounding
from encoder.score.lexical import SLOTS
from encoder.support.readonly import fixed
from worker.match.near import Edges, NearMissRows, find_near_candidates, near_misses_among
from worker.match.sweep import (
    OUT_OF_REACH,
    Lists,
    SweepLimits,
    SweepTotals,
    sweep,
    write_columns,
)
from worker.seeds.set import SeedSet
from worker.simd.registers import Tile, round_up
from worker.simd.rounded import TILE, RoundedMatrix

# A column costs every post a little, a list the posts with its word its whole length.
MIN_COLUMN_SHARE = 1 / 12
MIN_COLUMN_SEEDS = 64
MAX_COLUMNS = 192
# Their scores and this part of the matrix fit the cache that a core has of its own.
POSTS_AT_ONCE = 72  # rounded up to whole tiles
SEEDS_AT_ONCE = 1024  # whole panels


_indexes: "WeakKeyDictionary[Embeddings, SeedIndex]" = WeakKeyDictionary()  # by part


class SweepResult(NamedTuple):
    pairs: I64  # [p, 2]: post and seed, which match; of a post's, those that may be its highest
    scores: F32  # [p], exact
    best: F32  # [n], each post's highest score, up to rounding
    counts: I64  # [n], the seeds that a post matches
    hits: I64  # [k], the posts that match a seed
    chosen: F32  # [n, m], upper bounds of the scores with the chosen seeds


@dataclass(frozen=True, eq=False)
class SeedIndex:
    """A matrix of dense axes and common words, and lists of seeds for each other word."""

    rows: ScoredRows
    mix: float
    columns: int  # of common words: c
    matrix: RoundedMatrix  # [d + c, k]: dense axes, then common words, times their share
    lists: Lists
    rounding: float  # how far a score may be off by the rounding of float32 sums

    @classmethod
    def build(cls, seeds: Embeddings, tile: Tile = TILE) -> Self:
        starts, rows, weights = seeds.lexical.inverted
        weights = weights * np.float32(seeds.mix)
        common = common_slots(np.diff(starts), len(seeds))
        dim = seeds.dense.shape[1]
        matrix = np.zeros((dim + len(common), len(seeds)), np.float32)
        np.multiply(seeds.dense.T, np.float32(1 - seeds.mix), out=matrix[:dim])
        column = np.full(SLOTS, -1, np.int32)
        for row, slot in enumerate(common.tolist(), dim):
            span = slice(starts[slot], starts[slot + 1])
            matrix[row, rows[span]] = weights[span]
            column[slot] = row
        longest = int(np.diff(seeds.lexical.indptr).max(initial=0))
        lists = Lists(fixed(column), fixed(starts), fixed(rows), fixed(weights))
        exact = ScoredRows.of(seeds.dense, seeds.lexical)
        rounded_matrix = RoundedMatrix.of(matrix, tile)
        return cls(exact, seeds.mix, len(common), rounded_matrix, lists, rounding(longest))

    def sweep_limits(self, thresholds: F32, expiry: I64, most: int, chosen: I64) -> SweepLimits:
        padded_thresholds = np.full(self.matrix.room, np.inf, np.float32)
        padded_thresholds[: len(thresholds)] = thresholds
        return SweepLimits(fixed(padded_thresholds), fixed(expiry), most, fixed(chosen))

    def sweep(self, posts: Embeddings, times: I64, limits: SweepLimits) -> SweepResult:
        """Compares posts, with their times, with all seeds of the index."""
        exact = ScoredRows.of(posts.dense, posts.lexical)
        rows = posts.dense
        if self.columns:
            rows = np.pad(rows, ((0, 0), (0, self.columns)))
            write_columns(exact, self.lists.column, rows)
        rounded_rows, tile = self.matrix.rounded(rows), self.matrix.tile
        totals = SweepTotals(
            np.full(len(posts), OUT_OF_REACH),
            np.zeros(len(posts), np.int64),
            np.zeros(self.matrix.room, np.int64),
            np.zeros((len(posts), len(limits.chosen)), np.float32),
        )
        count = max(len(posts), 1)
        turns = -(-count // POSTS_AT_ONCE)
        at_once = round_up(-(-count // turns), tile.rows)  # so that no turn is left with a few
        slack = rounded_rows.errors + np.float32(self.rounding)
        matrix = (self.matrix.panels, self.matrix.scale, self.matrix.excess)
        pairs, scores = sweep(
            *(tile, exact, rounded_rows.groups, rounded_rows.scales, slack, fixed(times)),
            *(self.rows, *matrix, self.lists, self.mix),
            *(limits, totals, at_once, SEEDS_AT_ONCE),
        )
        hits = totals.hits[: len(limits.expiry)]
        return SweepResult(pairs, scores, totals.best, totals.counts, hits, totals.chosen)


def index_of(part: Embeddings) -> SeedIndex:
    """Built once for each part."""
    index = _indexes.get(part)
    if index is None:
        index = _indexes[part] = SeedIndex.build(part)
    return index


def prepare_index(seeds: SeedSet) -> None:
    for part in seeds.vectors.parts:
        index_of(part)


def common_slots(lengths: I32, seeds: int) -> I64:
    """The words for which a matrix column costs less than a list: [c]."""
    slots = np.flatnonzero(lengths > max(MIN_COLUMN_SHARE * seeds, MIN_COLUMN_SEEDS))
    return slots[np.argsort(-lengths[slots], kind="stable")[:MAX_COLUMNS]]


NO_SEED_EXPIRY = np.iinfo(np.int64).min  # A row without a seed has always expired.
MAX_BLOCK_POSTS = 4096  # Their vectors are rounded together.
MIN_THREAD_SCORES = 2**17  # With fewer, a thread costs more than it saves.
UNLIMITED = 2**31


@dataclass(frozen=True, slots=True)
class SeedPairs:
    """The best matches of posts, by post, falling score and seed; counts include all matches."""

    posts: I64  # [m], which post
    seeds: I64  # [m], which seed
    scores: F32  # [m]
    best: F32  # [n], the highest score of every post, up to rounding; -2 where there is no seed
    counts: I64  # [n], how many seeds every post matches
    hits: I64  # [k], how many posts match every seed
    nears: NearMissRows | None = None  # only on request


class BlockMatches(NamedTuple):
    """Matches of some posts: those that may be a post's highest, and counts of all."""

    pairs: I64  # [m, 2]: post and seed
    scores: F32  # [m]
    best: F32  # [n]
    counts: I64  # [n]
    hits: I64  # [k]
    near_candidates: I64  # [h, 2]: post and event that may be near


class PartSweep(NamedTuple):
    """A part of the seeds with the thresholds that this set has for its rows."""

    seed_index: SeedIndex
    seeds: I64  # [r], the seed of each row, or -1
    used: I64  # [u], the rows that have one
    limits: SweepLimits
    chosen: I64  # [m], which of the seeds that `edges` names are in this part

    @classmethod
    def build(cls, seeds: SeedSet, number: int, most: int, near: I64) -> Self:
        vectors = seeds.vectors
        index, seed_of_row = index_of(vectors.parts[number]), vectors.seeds_of_rows(number)
        used = np.flatnonzero(seed_of_row >= 0)
        chosen = np.flatnonzero(vectors.part[near] == number)
        used_seeds = seed_of_row[used]
        thresholds = np.full(len(seed_of_row), np.inf, np.float32)
        thresholds[used] = seeds.thresholds[used_seeds]
        expiry = np.full(len(seed_of_row), NO_SEED_EXPIRY)
        expiry[used] = seeds.expiry[used_seeds]
        limits = index.sweep_limits(thresholds, expiry, most, vectors.row[near[chosen]])
        return cls(index, seed_of_row, used, limits, chosen)


class Matcher:
    """Compares posts with one seed set on several threads."""

    def __init__(
        self, seeds: SeedSet, threads: int = 1, most: int = UNLIMITED, edges: Edges | None = None
    ) -> None:
        self.seeds, self._threads, self._most, self._edges = seeds, threads, most, edges
        near = np.zeros(0, np.int64) if edges is None else edges.seeds
        self._near = near
        self._parts = [
            PartSweep.build(seeds, number, most, near) for number in range(len(seeds.vectors.parts))
        ]

    def match(self, posts: Embeddings, timestamps: I64) -> SeedPairs:
        """Pairs with score ≥ threshold whose seed had not expired at the post's time."""
        if (posts.digest, posts.mix) != (self.seeds.vectors.digest, self.seeds.vectors.mix):
            raise MismatchError("posts and seeds of different models; embed both with one model")
        parts = self._blocks(posts, timestamps) if len(self.seeds) else [self._nothing(len(posts))]
        pairs, scores, best, counts = map(np.concatenate, list(zip(*parts, strict=True))[:4])
        hits = sum((part.hits for part in parts), np.zeros(len(self.seeds), np.int64))
        rows, seeds = pairs.T
        order = np.lexsort((seeds, -scores, rows))
        order = order[rank_mask(rows[order], self._most)]
        nears = None
        if self._edges is not None:
            near_candidates = np.concatenate([part.near_candidates for part in parts])
            nears = near_misses_among(near_candidates, self._edges, posts, timestamps, self.seeds)
        return SeedPairs(rows[order], seeds[order], scores[order], best, counts, hits, nears)

    def _nothing(self, posts: int) -> BlockMatches:
        none, counts = np.zeros((0, 2), np.int64), np.zeros(posts, np.int64)
        far = np.full(posts, OUT_OF_REACH)
        return BlockMatches(none, far[:0], far, counts, none[:, 0], none)

    def _blocks(self, posts: Embeddings, timestamps: I64) -> list[BlockMatches]:
        """Blocks of posts, which the threads share."""
        threads = min(self._threads, 1 + len(posts) * len(self.seeds) // MIN_THREAD_SCORES)
        parts = threads * -(-len(posts) // (threads * MAX_BLOCK_POSTS))  # as many for each thread
        step = max(POSTS_AT_ONCE, -(-len(posts) // max(parts, 1)))
        if step >= len(posts):
            return [self._block(posts, timestamps)]

        def block(start: int) -> BlockMatches:
            rows = slice(start, start + step)
            matched = self._block(posts[rows], timestamps[rows])
            matched.pairs[:, 0] += start
            matched.near_candidates[:, 0] += start
            return matched

        starts = range(0, len(posts), step)
        if threads == 1:
            return [block(start) for start in starts]
        return list(match_threads(self._threads).map(block, starts))

    def _block(self, posts: Embeddings, times: I64) -> BlockMatches:
        best, counts = np.full(len(posts), OUT_OF_REACH), np.zeros(len(posts), np.int64)
        hits, pairs = np.zeros(len(self.seeds), np.int64), [np.zeros((0, 2), np.int64)]
        scores = [np.zeros(0, np.float32)]
        chosen = np.full((len(posts), len(self._near)), OUT_OF_REACH)
        for part in self._parts:
            swept = part.seed_index.sweep(posts, times, part.limits)
            np.maximum(best, swept.best, out=best)
            counts += swept.counts
            hits[part.seeds[part.used]] += swept.hits[part.used]
            swept.pairs[:, 1] = part.seeds[swept.pairs[:, 1]]
            pairs.append(swept.pairs)
            scores.append(swept.scores)
            chosen[:, part.chosen] = swept.chosen
        near_candidates = self._near_candidates(chosen)
        return BlockMatches(
            np.concatenate(pairs), np.concatenate(scores), best, counts, hits, near_candidates
        )

    def _near_candidates(self, scores: F32) -> I64:
        """Posts and events that may be near misses, by upper bounds of their scores."""
        if self._edges is None:
            return np.zeros((0, 2), np.int64)
        least = np.ascontiguousarray(self._edges.edges[:, -1])
        pairs: I64 = find_near_candidates(scores, self._edges.starts, least)
        return pairs


def rank_mask(rows: I64, most: int) -> NDArray[np.bool_]:
    """Whether each entry is among the first few of its row; rows are sorted."""
    starts = np.searchsorted(rows, rows)
    return np.arange(len(rows)) - starts < most


@cache
def match_threads(threads: int) -> ThreadPoolExecutor:
    """Shared by all matchers; compiled code runs without Python's lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="match")


os.register_at_fork(after_in_child=match_threads.cache_clear)  # threads stay with the parent
