"""The seeds' embeddings and automatic thresholds, made once and kept as long as they are needed.

A vector is a function of the model and of the article, which is known by the digest of its content;
an automatic threshold is one of the background rate as well.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER, SeedBook, SeedSet, seed_set_digest

BLOCK = 256
NO_WORD = "text: holds no word that the model reads"
NOT_FINITE = "text: the model gives it no finite vector"
TINY = np.finfo(np.float32).tiny


class SeedEmbedder:
    """Makes the set of seeds out of the latest records; only what is new is embedded."""

    def __init__(self, enc: Encoder, background_rate: float, threshold: float | None) -> None:
        self._enc, self._rate, self._threshold = enc, background_rate, threshold
        self._rows: dict[str, int] = {}  # by the content of an article, its row in these:
        self._vectors = enc.articles([])  # [n]
        self._cuts = np.zeros(0, np.float32)  # [n], automatic; NaN where nobody has asked for it
        self._too_fine = too_fine(enc, self._vectors, background_rate)

    def make(self, book: SeedBook) -> SeedSet:
        """The set of seeds as the records say now, ready to match."""
        live = book.seeds
        wanted = [s for s in live if not (self._too_fine and self._is_automatic(s))]
        self._learn(wanted)
        odd = problems(self._vectors)
        seeds = tuple(s for s in wanted if self._rows[s.content] not in odd)
        why = {s.id: odd[row] for s in wanted if (row := self._rows[s.content]) in odd}
        if self._too_fine:
            why |= {s.id: self._too_fine for s in live if self._is_automatic(s)}
        rows = np.array([self._rows[s.content] for s in seeds], np.int64)
        made = SeedSet(
            seeds,
            self._vectors[rows],
            self._thresholds(seeds, rows),
            seed_set_digest(seeds, self._threshold, self._rate),
            tuple(sorted([*book.refused, *(RefusedSeed(*pair) for pair in why.items())])),
            np.array([NEVER if s.expires_at is None else s.expires_at for s in seeds], np.int64),
            book.paused,
        )
        _ = made.index
        return made

    def _learn(self, seeds: Sequence[Seed]) -> None:
        """Know the articles of these seeds and no others."""
        articles = {seed.content: (seed.title, seed.text) for seed in seeds}
        old = [content for content in self._rows if content in articles]
        new = [content for content in articles if content not in self._rows]
        kept = np.array([self._rows[content] for content in old], np.int64)
        fresh = self._embedded([articles[content] for content in new])
        vectors = Embeddings.concat([self._vectors[kept], *fresh])
        cuts = np.concatenate([self._cuts[kept], np.full(len(new), np.nan, np.float32)])
        rows = {content: row for row, content in enumerate([*old, *new])}
        asked = np.zeros(len(rows), bool)
        asked[[rows[seed.content] for seed in seeds if self._is_automatic(seed)]] = True
        bare = np.flatnonzero(asked & np.isnan(cuts) & np.isfinite(vectors.dense).all(axis=1))
        if len(bare):
            cuts[bare] = self._enc.thresholds(vectors[bare], self._rate)
        self._rows, self._vectors, self._cuts = rows, vectors, cuts

    def _embedded(self, articles: Sequence[tuple[str, str]]) -> Iterator[Embeddings]:
        for start in range(0, len(articles), BLOCK):
            yield self._enc.articles(articles[start : start + BLOCK])

    def _thresholds(self, seeds: Sequence[Seed], rows: I64) -> F32:
        """The threshold of every seed: its own, the configured one, or the automatic one."""
        own = [self._threshold if s.threshold is None else s.threshold for s in seeds]
        given = np.array([np.nan if cut is None else cut for cut in own], np.float32)
        return np.maximum(np.where(np.isnan(given), self._cuts[rows], given), TINY)

    def _is_automatic(self, seed: Seed) -> bool:
        return self._threshold is None and seed.threshold is None


def too_fine(enc: Encoder, nothing: Embeddings, rate: float) -> str:
    """Why the model's background posts cannot tell this rate; empty if they can."""
    try:
        enc.thresholds(nothing, rate)
    except InputError as error:
        return f"matching.background_{error}"
    return ""


def problems(vectors: Embeddings) -> dict[int, str]:
    """The rows that posts cannot be compared with, and why."""
    words = vectors.dense.any(axis=1) | (np.diff(vectors.lexical.indptr) > 0)  # [n]
    finite = np.isfinite(vectors.dense).all(axis=1)  # [n]
    bare = dict.fromkeys(np.flatnonzero(~words).tolist(), NO_WORD)
    return bare | dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
