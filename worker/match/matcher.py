"""Compares posts with a seed set: products of the dense halves, words by inverted lists, selection.

Approximate scores differ from the exact ones by the rounding of float32 alone. Pairs for which that
could decide are scored exactly. Everything is done for some posts and some seeds at a time, so that
their scores stay in a core's cache.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import MismatchError
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import ScoredRows, pair_score, rounding
from encoder.score.lexical import SLOTS
from encoder.score.top import lowest_of_highest
from encoder.support.jit import jit
from encoder.support.readonly import fixed
from encoder.support.threads import one_thread
from worker.match.near import Edges, NearMissRows, find_near_candidates, near_misses_among
from worker.seeds.set import SeedSet

MIN_COMMON_SHARE = 1 / 16  # of the seeds
MIN_COMMON_SEEDS = 64
MAX_COMMON_WORDS = 192
SCORES_AT_ONCE = 2**19
SEEDS_AT_ONCE = 2048
MAX_POSTS_AT_ONCE = 4096
MIN_THREAD_SCORES = 2**17  # With fewer, a thread costs more than it saves.
OUT_OF_REACH = np.float32(-2)  # the score with a seed that has expired
NO_SEED_EXPIRY = np.iinfo(np.int64).min  # A row without a seed has always expired.
UNLIMITED = 2**31


@dataclass(frozen=True, slots=True)
class SeedPairs:
    """The best matches of posts, by post, falling score and seed; counts include all matches."""

    posts: I64  # [m], which post
    seeds: I64  # [m], which seed
    scores: F32  # [m], exact
    best: F32  # [n], the highest score of every post, up to rounding; -2 where there is no seed
    counts: I64  # [n], how many seeds every post matches
    hits: I64  # [k], how many posts match every seed
    nears: NearMissRows | None = None  # only on request
    by_link: NDArray[np.bool_] | None = None  # [m], whether the post links to the seed's page
    # [h, 2], posts and events that may reach the lowest of some edges
    reached: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))


class Lists(NamedTuple):
    """The seeds of each word, in order: those of a slot begin at starts[slot].

    A word of many seeds has a row of a table instead, which is faster to add.
    """

    starts: I32  # [SLOTS + 1]
    seeds: I32  # [entries]
    weights: F32  # [entries]
    common: I32  # [SLOTS], the row of a word in the table, or -1
    table: F32  # [c, r]

    @classmethod
    def build(cls, vectors: Embeddings) -> Self:
        starts, seeds, weights = vectors.lexical.inverted
        lengths = np.diff(starts)
        slots = np.flatnonzero(lengths > max(MIN_COMMON_SHARE * len(vectors), MIN_COMMON_SEEDS))
        slots = slots[np.argsort(-lengths[slots], kind="stable")[:MAX_COMMON_WORDS]]
        common = np.full(SLOTS, -1, np.int32)
        common[slots] = np.arange(len(slots))
        table = np.zeros((len(slots), len(vectors)), np.float32)
        for row, slot in enumerate(slots.tolist()):
            span = slice(starts[slot], starts[slot + 1])
            table[row, seeds[span]] = weights[span]
        return cls(fixed(starts), fixed(seeds), fixed(weights), fixed(common), fixed(table))


_lists: "WeakKeyDictionary[Embeddings, Lists]" = WeakKeyDictionary()  # by part


def lists_of(part: Embeddings) -> Lists:
    """Built once for each part."""
    if part not in _lists:
        _lists[part] = Lists.build(part)
    return _lists[part]


class PartIndex(NamedTuple):
    """A part of the seed vectors, with what this set says of each row."""

    rows: ScoredRows  # [r]
    lists: Lists
    mix: float
    slack: np.float32  # how far an approximate score may be off
    thresholds: F32  # [r]
    expiry: I64  # [r]

    @classmethod
    def build(cls, vectors: Embeddings, seed_of_row: I64, thresholds: F32, expiry: I64) -> Self:
        """`thresholds` and `expiry` are those of all seeds [k]."""
        used = seed_of_row >= 0
        own_thresholds = np.full(len(vectors), np.inf, np.float32)
        own_thresholds[used] = thresholds[seed_of_row[used]]
        own_expiry = np.full(len(vectors), NO_SEED_EXPIRY)
        own_expiry[used] = expiry[seed_of_row[used]]
        rows = ScoredRows.of(vectors.dense, vectors.lexical)
        terms = vectors.dense.shape[1] + int(np.diff(rows.indptr).max(initial=0))
        slack = np.float32(rounding(terms))
        own = fixed(own_thresholds), fixed(own_expiry)
        return cls(rows, lists_of(vectors), vectors.mix, slack, *own)


class PostRows(NamedTuple):
    rows: ScoredRows  # [n]
    dense: F32  # [n, d], times their share of the score
    times: I64  # [n]

    @classmethod
    def of(cls, posts: Embeddings, times: I64) -> Self:
        dense = np.multiply(posts.dense, 1 - posts.mix, dtype=np.float32)
        return cls(ScoredRows.of(posts.dense, posts.lexical), dense, times)


class Limits(NamedTuple):
    most: int  # matches of a post: so many of the highest, and those that rounding may hide
    watched: I64  # [m], rows of the seeds whose scores are returned


class Found(NamedTuple):
    """What a block of posts has in a part of the seeds; compiled code counts in place."""

    best: F32  # [n], each post's highest score, up to rounding
    counts: I64  # [n], the seeds that a post matches
    hits: I64  # [r], the posts that match a seed
    watched: F32  # [n, m], upper bounds of the scores with the watched seeds
    pairs: I64  # [p, 2]: post and row that match; of a post's, those that may be its highest
    scores: F32  # [p], exact


class Scores(NamedTuple):
    """The approximate scores of some posts with some seeds."""

    values: F32  # [n, w]
    first: int  # the first of these rows
    above: F32  # [n], how far a score is above its threshold at most
    least: F32  # [n], lower ones are not among a post's highest matches


def sweep(posts: PostRows, index: PartIndex, limits: Limits) -> Found:
    """Compares a block of posts with a part of the seeds."""
    count, rows = len(posts.times), len(index.thresholds)
    best, least = np.full((2, count), OUT_OF_REACH)
    counts, hits = np.zeros(count, np.int64), np.zeros(rows, np.int64)
    watched = np.empty((count, len(limits.watched)), np.float32)
    pairs, exact = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.float32)]
    places = index.lists.starts[posts.rows.slots]  # [words], where each list is read next
    latest = posts.times.max(initial=NO_SEED_EXPIRY)
    memory = np.empty((2, count * min(SEEDS_AT_ONCE, rows)), np.float32)  # used again and again
    for first in range(0, rows, SEEDS_AT_ONCE):
        span = slice(first, first + SEEDS_AT_ONCE)
        size = (count, min(SEEDS_AT_ONCE, rows - first))
        scores, rest = (part[: size[0] * size[1]].reshape(size) for part in memory)  # [n, w]
        np.matmul(posts.dense, index.rows.dense[span].T, out=scores)
        add_words(posts.rows, index.lists, index.mix, places, first, scores)
        expiry = index.expiry[span]
        if (expiry <= latest).any():
            scores[expiry <= posts.times[:, None]] = OUT_OF_REACH
        np.maximum(best, scores.max(axis=1), out=best)
        above = np.subtract(scores, index.thresholds[span], out=rest).max(axis=1)
        here = (limits.watched >= first) & (limits.watched < first + SEEDS_AT_ONCE)
        watched[:, here] = scores[:, limits.watched[here] - first] + index.slack
        if (above >= -index.slack).any():
            part = Scores(scores, first, above, least)
            found = collect_matches(posts.rows, index, part, counts, hits, limits.most)
            pairs.append(found[0])
            exact.append(found[1])
    return Found(best, counts, hits, watched, np.concatenate(pairs), np.concatenate(exact))


@jit()
def add_words(posts: Any, lists: Any, mix: float, places: I32, first: int, scores: F32) -> None:
    """Add the products of the words, for the seeds from `first` on.

    The lists are read on from where the seeds before these stopped.
    """
    stop = first + scores.shape[1]
    for post in range(len(scores)):
        row = scores[post]
        for e in range(posts.indptr[post], posts.indptr[post + 1]):
            slot, weight = posts.slots[e], np.float32(mix * posts.weights[e])
            if lists.common[slot] >= 0:
                word = lists.table[lists.common[slot], first:stop]
                for seed in range(len(row)):
                    row[seed] += weight * word[seed]
                continue
            at, end = places[e], lists.starts[slot + 1]
            while at < end and lists.seeds[at] < stop:
                row[lists.seeds[at] - first] += weight * lists.weights[at]
                at += 1
            places[e] = at


@jit()
def collect_matches(
    posts: Any, index: Any, scores: Any, counts: I64, hits: I64, most: int
) -> tuple[I64, F32]:
    """Count the pairs that match; return those that may be among a post's highest `most`."""
    pairs, exact, end = np.empty((64, 2), np.int64), np.empty(64, np.float32), 0
    width = scores.values.shape[1]
    columns, (known, high) = np.empty(width, np.int64), np.empty((2, width), np.float32)
    heap = np.empty(min(most, width), np.float32)  # used only for more matches than that
    for post in range(len(scores.values)):
        if scores.above[post] < -index.slack:
            continue
        matched = keep_matching(posts, index, scores, post, columns, known)
        counts[post] += matched
        for at in range(matched):
            hits[scores.first + columns[at]] += 1
            high[at] = scores.values[post, columns[at]]
        if matched > most:
            lowest = lowest_of_highest(high[:matched], heap) - 2 * index.slack
            scores.least[post] = max(scores.least[post], lowest)
        for at in range(matched):
            if high[at] >= scores.least[post]:
                if end == len(pairs):
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                    exact = np.concatenate((exact, np.empty_like(exact)))
                score, seed = known[at], scores.first + columns[at]
                if score == OUT_OF_REACH:
                    score = pair_score(posts, index.rows, index.mix, post, seed)
                pairs[end, 0], pairs[end, 1], exact[end] = post, seed, score
                end += 1
    return pairs[:end].copy(), exact[:end].copy()


@jit()
def keep_matching(posts: Any, index: Any, scores: Any, post: int, columns: I64, known: F32) -> int:
    """List the columns that match and count them.

    Where rounding could decide, the exact score does, which is then known.
    """
    row, first, slack = scores.values[post], scores.first, index.slack
    thresholds, reached, matched = index.thresholds[first : first + len(row)], 0, 0
    for seed in range(len(row)):  # no branch: with half of them matching, it is mispredicted
        columns[reached] = seed
        reached += row[seed] - thresholds[seed] >= -slack
    for seed in columns[:reached]:
        score = OUT_OF_REACH
        if row[seed] - thresholds[seed] < slack:
            score = pair_score(posts, index.rows, index.mix, post, first + seed)
            if score < thresholds[seed]:
                continue
        columns[matched], known[matched] = seed, score
        matched += 1
    return matched


class SeedPart(NamedTuple):
    part_index: PartIndex
    limits: Limits
    used: I64  # [u], the rows that have a seed
    seeds: I64  # [r], the seed of each row, or -1
    watched: I64  # [m], which of the seeds that are watched for near misses these are


class BlockMatches(NamedTuple):
    """Matches of some posts: those that may be a post's highest, and counts of all."""

    pairs: I64  # [m, 2]: post and seed
    scores: F32  # [m]
    best: F32  # [n]
    counts: I64  # [n]
    hits: I64  # [k]
    near_candidates: I64  # [h, 2]: post and event that may be near


def prepare_index(seeds: SeedSet) -> None:
    """Computes what parts of the seeds keep, before the first batch needs it."""
    for part in seeds.vectors.parts:
        lists_of(part)


class Matcher:
    """Compares posts with one seed set on several threads."""

    def __init__(
        self, seeds: SeedSet, threads: int = 1, most: int = UNLIMITED, edges: Edges | None = None,
        thresholds: F32 | None = None,
    ) -> None:  # fmt: skip
        """`most` matches of a post are listed; `edges` turn on near misses.

        `thresholds` take the place of the seeds' own.
        """
        self.seeds, self._threads, self._most, self._edges = seeds, threads, most, edges
        self._thresholds = seeds.thresholds if thresholds is None else thresholds
        self._watched = np.zeros(0, np.int64) if edges is None else edges.seeds
        self._parts = list(self._split(seeds))

    def match(self, posts: Embeddings, times: I64) -> SeedPairs:
        """Pairs with score ≥ threshold whose seed had not expired at the post's time."""
        if (posts.digest, posts.mix) != (self.seeds.vectors.digest, self.seeds.vectors.mix):
            raise MismatchError("posts and seeds of different models; embed both with one model")
        with one_thread():  # of BLAS
            blocks = self._blocks(posts, times)
        pairs, scores, best, counts = map(np.concatenate, list(zip(*blocks, strict=True))[:4])
        hits = sum((block.hits for block in blocks), np.zeros(len(self.seeds), np.int64))
        rows, seeds = pairs.T
        order = np.lexsort((seeds, -scores, rows))
        order = order[rank_mask(rows[order], self._most)]
        reached, nears = np.concatenate([block.near_candidates for block in blocks]), None
        if self._edges is not None and self._edges.has_strata:
            nears = near_misses_among(reached, self._edges, posts, times, self.seeds)
        return SeedPairs(
            rows[order], seeds[order], scores[order], best, counts, hits, nears, reached=reached
        )

    def _split(self, seeds: SeedSet) -> Iterator[SeedPart]:
        vectors = seeds.vectors
        for number, part in enumerate(vectors.parts):
            seed_of_row = vectors.seeds_of_rows(number)
            index = PartIndex.build(part, seed_of_row, self._thresholds, seeds.expiry)
            watched = np.flatnonzero(vectors.part[self._watched] == number)
            limits = Limits(self._most, vectors.row[self._watched[watched]])
            yield SeedPart(index, limits, np.flatnonzero(seed_of_row >= 0), seed_of_row, watched)

    def _blocks(self, posts: Embeddings, times: I64) -> list[BlockMatches]:
        """Blocks of posts, which the threads share."""
        at_once = SCORES_AT_ONCE // min(max(len(self.seeds), 1), SEEDS_AT_ONCE)
        threads = min(self._threads, 1 + len(posts) * len(self.seeds) // MIN_THREAD_SCORES)
        step = max(1, min(at_once, MAX_POSTS_AT_ONCE, -(-len(posts) // threads)))
        starts = range(0, max(len(posts), 1), step)

        def block(start: int) -> BlockMatches:
            rows = slice(start, start + step)
            matched = self._block(posts[rows], times[rows])
            matched.pairs[:, 0] += start
            matched.near_candidates[:, 0] += start
            return matched

        if threads == 1:
            return [block(start) for start in starts]
        return list(match_threads(self._threads).map(block, starts))

    def _block(self, posts: Embeddings, times: I64) -> BlockMatches:
        best, counts = np.full(len(posts), OUT_OF_REACH), np.zeros(len(posts), np.int64)
        hits, pairs = np.zeros(len(self.seeds), np.int64), [np.zeros((0, 2), np.int64)]
        scores = [np.zeros(0, np.float32)]
        watched = np.full((len(posts), len(self._watched)), OUT_OF_REACH)
        rows = PostRows.of(posts, times)
        for part in self._parts if len(self.seeds) else ():
            found = sweep(rows, part.part_index, part.limits)
            np.maximum(best, found.best, out=best)
            counts += found.counts
            hits[part.seeds[part.used]] += found.hits[part.used]
            found.pairs[:, 1] = part.seeds[found.pairs[:, 1]]
            pairs.append(found.pairs)
            scores.append(found.scores)
            watched[:, part.watched] = found.watched
        near = np.zeros((0, 2), np.int64)
        if self._edges is not None:
            lowest = np.ascontiguousarray(self._edges.edges[:, -1])
            near = find_near_candidates(watched, self._edges.starts, lowest)
        return BlockMatches(np.concatenate(pairs), np.concatenate(scores), best, counts, hits, near)


def rank_mask(rows: I64, most: int) -> NDArray[np.bool_]:
    """Whether each entry is among the first few of its row; rows are sorted."""
    starts = np.searchsorted(rows, rows)
    return np.arange(len(rows)) - starts < most


@cache
def match_threads(threads: int) -> ThreadPoolExecutor:
    """Shared by all matchers; compiled code runs without Python's lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="match")


os.register_at_fork(after_in_child=match_threads.cache_clear)  # threads stay with the parent
