"""Embeddings × a set of seeds → the matches: every score that reaches its seed's threshold."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import MismatchError
from encoder.model.weights import F32, I64
from encoder.score.exact import pair_scores
from encoder.simd.tile import up
from worker.match.near import Edges, Nears, near_misses_among, touched_by
from worker.seeds.index import POSTS_AT_ONCE
from worker.seeds.set import SeedSet
from worker.seeds.sweep import OUT_OF_REACH

BLOCK_SCORES = 2**22  # for one thread at a time
ALL = 2**31


@dataclass(frozen=True, slots=True)
class Pairs:
    """The best matches of some posts, by post and falling score, then by seed; all are counted."""

    posts: I64  # [m], which post
    seeds: I64  # [m], which seed
    scores: F32  # [m]
    best: F32  # [n], the highest score of every post, up to rounding; -2 where there is no seed
    counts: I64  # [n], how many seeds every post matches
    hits: I64  # [k], how many posts match every seed
    nears: Nears | None = None  # where somebody asked for them


class Block(NamedTuple):
    """What some of the posts may match: what is sure is counted, the rest is to be looked at."""

    triples: I64  # [m, 3]: post, seed, whether it is in doubt
    best: F32  # [n]
    counts: I64  # [n]
    hits: I64  # [k]
    touched: I64  # [h, 2]: post and event that may be near


class Matcher:
    """Compares posts with one set of seeds, on so many threads; keeps the best of each post."""

    def __init__(
        self, seeds: SeedSet, threads: int = 1, most: int = ALL, edges: Edges | None = None
    ) -> None:
        self.seeds, self._threads, self._most, self._edges = seeds, threads, most, edges
        near = np.zeros(0, np.int64) if edges is None else edges.seeds
        self._asked = seeds.index.asked(seeds.thresholds, seeds.expiry, most, near)

    def match(self, posts: Embeddings, timestamps: I64) -> Pairs:
        """The pairs with score ≥ threshold of a post and a seed not expired by its timestamp."""
        if (posts.digest, posts.mix) != (self.seeds.embeddings.digest, self.seeds.embeddings.mix):
            raise MismatchError("posts and seeds of different models; embed both with one model")
        parts = self._blocks(posts, timestamps) if len(self.seeds) else [self._nothing(len(posts))]
        triples, best, counts = map(np.concatenate, list(zip(*parts, strict=True))[:3])
        hits = sum((part.hits for part in parts), np.zeros(len(self.seeds), np.int64))
        scores = pair_scores(
            (posts.dense, posts.lexical),
            (self.seeds.embeddings.dense, self.seeds.embeddings.lexical),
            *(posts.mix, triples[:, :2]),
        )
        kept = scores >= self.seeds.thresholds[triples[:, 1]]
        (rows, seeds, doubt), scores = triples[kept].T, scores[kept]
        counts += np.bincount(rows[doubt > 0], minlength=len(counts))
        hits += np.bincount(seeds[doubt > 0], minlength=len(hits))
        order = np.lexsort((seeds, -scores, rows))
        order = order[first_of_each(rows[order], self._most)]
        nears = None
        if self._edges is not None:
            touched = np.concatenate([part.touched for part in parts])
            nears = near_misses_among(touched, self._edges, posts, timestamps, self.seeds)
        return Pairs(rows[order], seeds[order], scores[order], best, counts, hits, nears)

    def _nothing(self, posts: int) -> Block:
        none = np.zeros((0, 3), np.int64)
        counts = np.zeros(posts, np.int64)
        return Block(none, np.full(posts, OUT_OF_REACH), counts, none[:, 0], none[:, :2])

    def _blocks(self, posts: Embeddings, timestamps: I64) -> list[Block]:
        """What may match, and each post's best score, in bounded memory."""
        most = self._threads * up(1 + BLOCK_SCORES // len(self.seeds), POSTS_AT_ONCE)
        parts = self._threads * -(-len(posts) // most)  # as many for each thread
        step = max(POSTS_AT_ONCE, -(-len(posts) // max(parts, 1)))

        def block(start: int) -> Block:
            rows = slice(start, start + step)
            made = self._block(posts[rows], timestamps[rows])
            made.triples[:, 0] += start
            made.touched[:, 0] += start
            return made

        starts = range(0, max(len(posts), 1), step)
        if self._threads == 1 or len(starts) == 1:
            return [block(start) for start in starts]
        return list(pool(self._threads).map(block, starts))

    def _block(self, posts: Embeddings, times: I64) -> Block:
        found = self.seeds.index.compared(posts, times, self._asked)
        touched = self._touched(found.chosen)
        return Block(found.triples, found.best, found.counts, found.hits, touched)

    def _touched(self, scores: F32) -> I64:
        """The posts and events that may be near, by the scores with the seeds of these events."""
        if self._edges is None:
            return np.zeros((0, 2), np.int64)
        least = self._edges.edges[:, -1] - np.float32(self.seeds.index.slack)
        found: I64 = touched_by(scores, self._edges.starts, least)
        return found


def first_of_each(rows: I64, most: int) -> NDArray[np.bool_]:
    """Which of these, in order of their rows, are among the first so many of their row."""
    starts = np.searchsorted(rows, rows)
    return np.arange(len(rows)) - starts < most


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The threads that all matchers share; what they run is compiled and holds no lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="match")


os.register_at_fork(after_in_child=pool.cache_clear)  # threads stay with the parent
