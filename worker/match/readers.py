"""Two readers: every post is skimmed, and those that may match are read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoder.embeddings import Embeddings
from encoder.model.weights import I64
from worker.match.matcher import UNLIMITED, Matcher, SeedPairs, rank_mask
from worker.match.near import Edges, NearMissRows
from worker.seeds.set import SeedSet

PAIRS_AT_ONCE = 2**22  # posts that are read times seeds
ReadTexts = Callable[[Sequence[str]], Embeddings]


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """How the posts of a batch are compared with a seed set."""

    threads: int = 1
    most: int = UNLIMITED  # matches of a post that are listed
    edges: Edges | None = None  # turn on near misses


@dataclass(frozen=True, slots=True)
class Matched:
    """Pairs that match, and the vectors that decided."""

    pairs: SeedPairs
    rows: I64  # the posts that these are vectors of, rising: those that were read
    vectors: Embeddings

    @property
    def matching(self) -> Embeddings:
        """A row for each post that matches, in order."""
        return select_rows(self.vectors, np.searchsorted(self.rows, np.unique(self.pairs.posts)))


class PostMatcher:
    """Compares skimmed posts with one seed set, and reads those that may match.

    A pair matches if its approximate score reaches the skim threshold and its score the threshold.
    """

    def __init__(self, read: ReadTexts, seeds: SeedSet, options: MatchOptions) -> None:
        """`read` gives the vectors of posts that may match, where posts are skimmed."""
        self.seeds, self._read, self._options = seeds, read, options
        skim_thresholds = seeds.skim_thresholds
        self.skims = skim_thresholds is not None
        threads = options.threads
        if skim_thresholds is not None:
            self._sieve = Matcher(seeds, threads, 1, thresholds=skim_thresholds)
        most = UNLIMITED if self.skims else options.most
        self._judge = Matcher(seeds, threads, most, options.edges)

    def match(self, texts: Sequence[str], posts: Embeddings, times: I64) -> Matched:
        """`posts` are the vectors of the texts, skimmed where a model has two readers."""
        if not self.skims:
            return Matched(self._judge.match(posts, times), np.arange(len(posts)), posts)
        skimmed = self._sieve.match(posts, times)
        rows = np.flatnonzero(skimmed.counts)  # the posts that are read
        read = self._read([texts[row] for row in rows.tolist()])
        best, counts = skimmed.best.copy(), np.zeros_like(skimmed.counts)
        hits = np.zeros_like(skimmed.hits)
        found, nears = [np.zeros((0, 2), np.int64)], list[NearMissRows]()
        scores = [np.zeros(0, np.float32)]
        step = max(1, PAIRS_AT_ONCE // max(len(self.seeds), 1))
        for start in range(0, len(rows), step):
            part, own = slice(start, start + step), rows[start : start + step]
            judged = self._judge.match(read[part], times[own])
            kept = self._may_match(judged, posts[own])
            best[own] = judged.best
            counts[own] = np.bincount(judged.posts[kept], minlength=len(own))
            hits += np.bincount(judged.seeds[kept], minlength=len(hits))
            listed = kept[rank_mask(judged.posts[kept], self._options.most)]
            found.append(np.stack([own[judged.posts[listed]], judged.seeds[listed]], axis=1))
            scores.append(judged.scores[listed])
            if judged.nears is not None:
                nears.append(replace(judged.nears, posts=own[judged.nears.posts]))
        pairs = np.concatenate(found)
        near = NearMissRows.concat(nears) if self._options.edges is not None else None
        matching, of_seeds = pairs.T
        exact = np.concatenate(scores)
        return Matched(SeedPairs(matching, of_seeds, exact, best, counts, hits, near), rows, read)

    def _may_match(self, judged: SeedPairs, skimmed: Embeddings) -> I64:
        """The pairs whose approximate scores reach the skim thresholds, by their numbers."""
        assert self.seeds.skim_thresholds is not None
        pairs = np.stack([judged.posts, judged.seeds], axis=1)
        approximate = self.seeds.vectors.scores(skimmed, pairs)
        return np.flatnonzero(approximate >= self.seeds.skim_thresholds[judged.seeds])


def share_read(seeds: SeedSet, skimmed: Embeddings) -> float:
    """The share of some skimmed posts that these seeds have read; 0 where none is."""
    if seeds.skim_thresholds is None or not len(skimmed):
        return 0.0
    times = np.full(len(skimmed), np.iinfo(np.int64).min)  # before any seed expires
    sieve = Matcher(seeds, 1, 1, thresholds=seeds.skim_thresholds)
    return float((sieve.match(skimmed, times).counts > 0).mean())


def select_rows(vectors: Embeddings, rows: I64) -> Embeddings:
    """Those rows; all of them in order are returned without a copy."""
    is_whole = len(rows) == len(vectors) and bool((rows == np.arange(len(rows))).all())
    return vectors if is_whole else vectors[rows]
