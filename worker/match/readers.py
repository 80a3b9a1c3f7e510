"""Two readers: every post is skimmed, and those that may match are read.

They are read a portion at a time, and texts that were read lately not again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.model.weights import F32, I32, I64
from encoder.score.lexical import SparseRows
from worker.match.matcher import UNLIMITED, Matcher, SeedPairs, rank_mask
from worker.match.near import Edges, NearMissRows
from worker.seeds.set import SeedSet

NO_PAIRS = np.zeros((0, 2), np.int64)
PAIRS_AT_ONCE = 2**22  # posts that are read times seeds
ReadTexts = Callable[[Sequence[str]], Embeddings]
PORTION_LETTERS = 32_000  # some 8,000 tokens, which take a slow core a few seconds
KEPT_BYTES = 32 * 2**20
ROW_BYTES = 600  # what Python needs for a text and its row, beside what they hold
T = TypeVar("T", bound=Hashable)


def do_nothing() -> None:
    """No work is done between two portions."""


class Row(NamedTuple):
    """The vector of one text."""

    dense: F32  # [d]
    slots: I32  # [words]
    weights: F32  # [words]


class PostReader:
    """Reads posts with the star; equal texts once, and not again while their rows are kept.

    What is kept is bounded by bytes; the rows used longest ago go first. Thread-safe.
    """

    def __init__(self, enc: Encoder, threads: int, kept_bytes: int = KEPT_BYTES) -> None:
        self._enc, self._threads, self._most = enc, threads, kept_bytes
        self._kept: OrderedDict[str, Row] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def read(self, texts: Sequence[str], go_on: Callable[[], None] = do_nothing) -> Embeddings:
        """The vectors of texts. `go_on` is called after each portion; it may raise an error."""
        if not texts:
            return self._enc.posts([])
        distinct, index = deduplicate(texts)
        rows = self._find(distinct)
        for portion in portions([text for text in distinct if text not in rows]):
            vectors = self._enc.posts(portion, threads=self._threads)
            if not np.isfinite(vectors.dense).all():
                raise FloatingPointError("the vector of a text is not finite")
            read = dict(zip(portion, split_rows(vectors), strict=True))
            self._keep(read)
            rows |= read
            go_on()
        return join_rows([rows[text] for text in distinct], self._enc)[index]

    def _find(self, texts: Sequence[str]) -> dict[str, Row]:
        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
            for text in found:
                self._kept.move_to_end(text)
        return found

    def _keep(self, rows: dict[str, Row]) -> None:
        with self._lock:
            for text, row in rows.items():
                if text not in self._kept:  # another thread may have read it meanwhile
                    self._kept[text] = row
                    self._bytes += size_of(text, row)
            while self._bytes > self._most:
                self._bytes -= size_of(*self._kept.popitem(last=False))


def deduplicate(items: Sequence[T]) -> tuple[list[T], I64]:
    """Distinct items in order of first occurrence, and the position of each item."""
    places = {item: place for place, item in enumerate(dict.fromkeys(items))}
    return list(places), np.array([places[item] for item in items], np.int64)


def portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in order, in lists of so many letters, the last text of each beyond them."""
    portion, letters = list[str](), 0
    for text in texts:
        portion.append(text)
        letters += len(text)
        if letters >= PORTION_LETTERS:
            yield portion
            portion, letters = [], 0
    if portion:
        yield portion


def split_rows(vectors: Embeddings) -> list[Row]:
    """Copies of the rows, which do not hold all of them in memory."""
    words = vectors.lexical
    return [
        Row(dense.copy(), words.slots[start:stop].copy(), words.weights[start:stop].copy())
        for dense, start, stop in zip(
            vectors.dense, words.indptr[:-1].tolist(), words.indptr[1:].tolist(), strict=True
        )
    ]


def join_rows(rows: Sequence[Row], enc: Encoder) -> Embeddings:
    """The embeddings of at least one row."""
    indptr = np.array(list(accumulate((len(row.slots) for row in rows), initial=0)), np.int64)
    slots = np.concatenate([row.slots for row in rows])
    weights = np.concatenate([row.weights for row in rows])
    dense = np.stack([row.dense for row in rows])
    return Embeddings(dense, SparseRows(indptr, slots, weights), enc.mix, enc.digest)


def size_of(text: str, row: Row) -> int:
    # A letter takes up to four bytes.
    return 4 * len(text) + row.dense.nbytes + row.slots.nbytes + row.weights.nbytes + ROW_BYTES


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
    control: Counter[str] = field(  # as in Outcome
        default_factory=lambda: Counter(skimmed=0, read=0, lost=0)
    )

    @property
    def matching(self) -> Embeddings:
        """A row for each post that matches, in order."""
        return select_rows(self.vectors, np.searchsorted(self.rows, np.unique(self.pairs.posts)))


Draw = Callable[[I64], I64]
"""Those of some posts that are read although they match nothing."""


def draw_none(posts: I64) -> I64:
    return posts[:0]


class PostMatcher:
    """Compares skimmed posts with one seed set, and reads those that may match.

    A pair matches if its approximate score reaches the skim threshold and its score the threshold,
    or if the post links to the seed's page.
    """

    def __init__(self, read: ReadTexts, seeds: SeedSet, options: MatchOptions) -> None:
        """`read` gives the vectors of posts that may match, where posts are skimmed."""
        self.seeds, self._read, self._options = seeds, read, options
        skim_thresholds = seeds.skim_thresholds
        self.skims = skim_thresholds is not None
        threads = options.threads
        if skim_thresholds is not None:
            has_floors = options.edges is not None and np.isfinite(options.edges.floors).any()
            control = options.edges.of_control if options.edges and has_floors else None
            self._sieve = Matcher(seeds, threads, 1, control, skim_thresholds)
        most = UNLIMITED if self.skims else options.most
        self._judge = Matcher(seeds, threads, most, options.edges)

    @property
    def nonce(self) -> str:
        """Keys which control posts are read."""
        return self._options.edges.nonce if self._options.edges else ""

    def match(
        self, texts: Sequence[str], posts: Embeddings, times: I64, linked: I64 = NO_PAIRS,
        draw: Draw = draw_none,
    ) -> Matched:  # fmt: skip
        """`posts` are the vectors of the texts, skimmed where a model has two readers.

        `linked` are posts and seeds that match by a link: [l, 2]. `draw` chooses from the posts
        that reach a control floor and no skim threshold.
        """
        if self.skims:
            matched = self._read_and_match(texts, posts, times, linked[:, 0], draw)
        else:
            matched = Matched(self._judge.match(posts, times), np.arange(len(posts)), posts)
        return self._with_links(matched, posts, linked) if len(linked) else matched

    def _read_and_match(
        self, texts: Sequence[str], posts: Embeddings, times: I64, linking: I64, draw: Draw
    ) -> Matched:
        """Control posts are read together with those that may match; none of them matches."""
        skimmed = self._sieve.match(posts, times)
        rows = np.union1d(np.flatnonzero(skimmed.counts), linking)  # the posts that may match
        controls = np.setdiff1d(skimmed.reached[:, 0], rows)
        drawn = draw(controls)
        vectors = self._read([texts[row] for row in [*rows.tolist(), *drawn.tolist()]])
        read = vectors[: len(rows)]
        lost = self._judge.match(vectors[len(rows) :], times[drawn]).counts > 0
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
        result = SeedPairs(matching, of_seeds, exact, best, counts, hits, near)
        control = Counter(skimmed=len(controls), read=len(drawn), lost=int(lost.sum()))
        return Matched(result, rows, read, control)

    def _with_links(self, matched: Matched, posts: Embeddings, linked: I64) -> Matched:
        """Adds the pairs that match by a link; they are listed before others."""
        seeds, pairs, count = self.seeds, matched.pairs, len(self.seeds)
        rows = np.searchsorted(matched.rows, linked[:, 0])
        scores = seeds.vectors.scores(matched.vectors, np.stack([rows, linked[:, 1]], axis=1))
        counted = scores >= seeds.thresholds[linked[:, 1]]
        if seeds.skim_thresholds is not None:
            approximate = seeds.vectors.scores(posts, linked)
            counted &= approximate >= seeds.skim_thresholds[linked[:, 1]]
        more = linked[~counted]
        keys, links = pairs.posts * count + pairs.seeds, linked[:, 0] * count + linked[:, 1]
        new = ~np.isin(links, keys)
        keys = np.concatenate([keys, links[new]])
        all_scores = np.concatenate([pairs.scores, scores[new]])
        matching, of_seeds = np.divmod(keys, count)
        by_link = np.isin(keys, links)
        first = np.lexsort((of_seeds, -all_scores, ~by_link, matching))
        first = first[rank_mask(matching[first], self._options.most)]
        order = first[np.lexsort((of_seeds[first], -all_scores[first], matching[first]))]
        nears = pairs.nears
        if nears is not None:
            nears = nears.without_posts(linked[:, 0])
        found = SeedPairs(
            matching[order],
            of_seeds[order],
            all_scores[order],
            pairs.best,
            pairs.counts + np.bincount(more[:, 0], minlength=len(pairs.counts)),
            pairs.hits + np.bincount(more[:, 1], minlength=count),
            nears,
            by_link[order],
        )
        return replace(matched, pairs=found)

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
