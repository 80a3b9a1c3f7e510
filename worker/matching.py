"""Embeddings × a set of seeds → the matches: every score that reaches its seed's threshold."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from encoder.embeddings import Embeddings
from encoder.errors import MismatchError
from encoder.exact import pair_scores
from encoder.weights import F32, I64
from worker.inverted import OUT_OF_REACH, hide_expired, reached, survey
from worker.seeds import NEVER, SeedSet

BLOCK_SCORES = 2**22


@dataclass(frozen=True, slots=True)
class Found:
    """All matches of some posts, by post and falling score, then by seed."""

    posts: I64  # [m], which post
    seeds: I64  # [m], which seed
    scores: F32  # [m]
    best: F32  # [n], the highest score of every post; -2 where there is no seed


class Matcher:
    """Compares posts with one set of seeds, on so many threads."""

    def __init__(self, seeds: SeedSet, threads: int = 1) -> None:
        self.seeds, self._threads = seeds, threads
        self._cuts = seeds.index.widened(seeds.thresholds)
        self._first_expiry = int(seeds.expiry.min(initial=NEVER))

    def match(self, posts: Embeddings, timestamps: I64) -> Found:
        """Every pair with score ≥ threshold of a post and a seed not expired by its timestamp."""
        if (posts.digest, posts.mix) != (self.seeds.embeddings.digest, self.seeds.embeddings.mix):
            raise MismatchError("posts and seeds of different models; embed both with one model")
        parts = self._blocks(posts, timestamps) if len(self.seeds) else []
        nothing = np.zeros((0, 2), np.int64)
        pairs = np.concatenate([nothing, *(pairs for pairs, _ in parts)])
        scores = pair_scores(
            (posts.dense, posts.lexical),
            (self.seeds.embeddings.dense, self.seeds.embeddings.lexical),
            *(posts.mix, pairs),
        )
        best = np.concatenate([np.zeros(0, np.float32), *(top for _, top in parts)])
        if not parts:
            best = np.full(len(posts), OUT_OF_REACH)
        kept = scores >= self.seeds.thresholds[pairs[:, 1]]
        pairs, scores = pairs[kept], scores[kept]
        order = np.lexsort((pairs[:, 1], -scores, pairs[:, 0]))
        return Found(pairs[order, 0], pairs[order, 1], scores[order], best)

    def _blocks(self, posts: Embeddings, timestamps: I64) -> list[tuple[I64, F32]]:
        """The pairs that may match, and each post's best score, in bounded memory."""
        step = max(16, BLOCK_SCORES // len(self.seeds))

        def block(start: int) -> tuple[I64, F32]:
            rows = slice(start, start + step)
            pairs, best = self._block(posts[rows], timestamps[rows])
            pairs[:, 0] += start
            return pairs, best

        starts = range(0, len(posts), step)
        if self._threads == 1 or len(starts) == 1:
            return [block(start) for start in starts]
        return list(pool(self._threads).map(block, starts))

    def _block(self, posts: Embeddings, times: I64) -> tuple[I64, F32]:
        scores = self.seeds.index.scores(posts)
        if self._first_expiry <= times.max(initial=-1):
            hide_expired(scores, self.seeds.expiry, times)
        best, room = np.empty((2, len(times)), np.float32)
        survey(scores, self._cuts, len(self.seeds), best, room)
        return reached(scores, self._cuts, room), best


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The threads that all matchers share; what they run is compiled and holds no lock."""
    return ThreadPoolExecutor(threads, thread_name_prefix="match")


os.register_at_fork(after_in_child=pool.cache_clear)  # threads stay with the parent
