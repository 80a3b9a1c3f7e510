"""The seeds' embeddings and automatic thresholds, made once and kept as long as they are needed.

A vector is a function of the model and of the article, which is known by the digest of its content;
an automatic threshold is one of the background and the rate as well. A profile brings its own
vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from worker.seeds.background import OwnBackground, sides_of
from worker.seeds.in_force import unfit
from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER, SeedBook, SeedSet, seed_set_digest

BLOCK = 256
NO_WORD = "text: holds no word that the model reads"
NOT_FINITE = "text: the model gives it no finite vector"
TINY = np.finfo(np.float32).tiny


class SeedEmbedder:
    """Makes the set of seeds out of the latest records; only what is new is embedded."""

    def __init__(
        self, enc: Encoder, background_rate: float, threshold: float | None,
        own: OwnBackground | None = None,
    ) -> None:  # fmt: skip
        self._enc, self._rate, self._threshold = enc, background_rate, threshold
        self._mark = own.mark if own else ""
        self._background = own.posts if own else None  # else the model's
        self._rows: dict[str, int] = {}  # by the content of an article, its row in these:
        self._vectors = enc.articles([])  # [n]
        self._cuts = np.zeros(0, np.float32)  # [n], automatic; NaN where nobody has asked for it
        self._too_fine = too_fine(enc, self._vectors, background_rate, self._background)

    def make(self, book: SeedBook) -> SeedSet:
        """The set of seeds as the records say now, ready to match."""
        found = book.standing(self._enc.digest, self._unfit)
        why = dict.fromkeys(self._untold(found.compared), self._too_fine)
        wanted = [seed for seed in found.compared if seed.id not in why]
        self._learn(wanted)
        odd = problems(self._vectors)
        why |= {s.id: odd[row] for s in wanted if (row := self._rows[s.content]) in odd}
        kept = [at for at, seed in enumerate(found.compared) if seed.id not in why]
        seeds = tuple(found.compared[at] for at in kept)
        rows = np.array([self._rows[seed.content] for seed in seeds], np.int64)
        refused = (*book.refused, *found.refused, *(RefusedSeed(*pair) for pair in why.items()))
        ends = [NEVER if found.ends[at] is None else found.ends[at] for at in kept]
        made = SeedSet(
            seeds,
            self._vectors[rows],
            self._thresholds(seeds, rows),
            seed_set_digest(seeds, self._threshold, self._rate, self._mark),
            tuple(sorted(refused)),
            np.array(ends, np.int64),
            book.paused,
            found.stale,
        )
        _ = made.index
        return made

    @property
    def background(self) -> Embeddings:
        """The posts that automatic thresholds are found on."""
        return self._enc.background if self._background is None else self._background

    def _untold(self, compared: Sequence[Compared]) -> list[str]:
        """The seeds whose automatic threshold the background cannot tell."""
        articles = [seed for seed in compared if isinstance(seed, Seed) and self._too_fine]
        return [seed.id for seed in articles if self._is_automatic(seed)]

    def _unfit(self, profile: Profile) -> str:
        """Why a profile of this model cannot be compared with; empty if it can."""
        why = unfit(profile, self._enc.dim, self._enc.mix)
        return why or (self._too_fine_for_profiles if self._is_automatic(profile) else "")

    def _learn(self, seeds: Sequence[Compared]) -> None:
        """Know what these seeds are compared by, and of no others."""
        contents = {seed.content: seed for seed in seeds}
        old = [content for content in self._rows if content in contents]
        new = [content for content in contents if content not in self._rows]
        new.sort(key=lambda content: isinstance(contents[content], Profile))
        kept = np.array([self._rows[content] for content in old], np.int64)
        fresh = self._embedded([contents[content] for content in new])
        vectors = Embeddings.concat([self._vectors[kept], *fresh])
        cuts = np.concatenate([self._cuts[kept], np.full(len(new), np.nan, np.float32)])
        rows = {content: row for row, content in enumerate([*old, *new])}
        self._cut({rows[s.content]: s for s in seeds if self._is_automatic(s)}, vectors, cuts)
        self._rows, self._vectors, self._cuts = rows, vectors, cuts

    def _cut(self, asked: Mapping[int, Compared], vectors: Embeddings, cuts: F32) -> None:
        """Find the automatic thresholds of these rows that are not yet known."""
        bare = np.isnan(cuts) & np.isfinite(vectors.dense).all(axis=1)
        articles = [row for row, seed in asked.items() if bare[row] and isinstance(seed, Seed)]
        profiles = [row for row, seed in asked.items() if bare[row] and isinstance(seed, Profile)]
        if articles:
            rows = vectors[articles]
            cuts[articles] = self._enc.thresholds(rows, self._rate, self._background)
        if profiles:
            rows = vectors[profiles]
            cuts[profiles] = self._enc.thresholds(rows, self._rate, self._calibrating)

    def _embedded(self, seeds: Sequence[Compared]) -> Iterator[Embeddings]:
        articles = [(seed.title, seed.text) for seed in seeds if isinstance(seed, Seed)]
        for start in range(0, len(articles), BLOCK):
            yield self._enc.articles(articles[start : start + BLOCK])
        for seed in seeds:
            if isinstance(seed, Profile):
                yield seed.vector.as_row(self._enc.mix, self._enc.digest)

    @cached_property
    def _calibrating(self) -> Embeddings:
        """The background posts that no profile was told apart from."""
        return sides_of(self.background)[1]

    @cached_property
    def _too_fine_for_profiles(self) -> str:
        return too_fine(self._enc, self._vectors[:0], self._rate, self._calibrating)

    def _thresholds(self, seeds: Sequence[Compared], rows: I64) -> F32:
        """The threshold of every seed: its own, the configured one, or the automatic one."""
        own = [self._threshold if s.threshold is None else s.threshold for s in seeds]
        given = np.array([np.nan if cut is None else cut for cut in own], np.float32)
        return np.maximum(np.where(np.isnan(given), self._cuts[rows], given), TINY)

    def _is_automatic(self, seed: Compared) -> bool:
        return self._threshold is None and seed.threshold is None


def too_fine(enc: Encoder, nothing: Embeddings, rate: float, background: Embeddings | None) -> str:
    """Why the background posts cannot tell this rate; empty if they can."""
    try:
        enc.thresholds(nothing, rate, background)
    except InputError as error:
        return f"matching.background_{error}"
    return ""


def problems(vectors: Embeddings) -> dict[int, str]:
    """The rows that posts cannot be compared with, and why."""
    words = vectors.dense.any(axis=1) | (np.diff(vectors.lexical.indptr) > 0)  # [n]
    finite = np.isfinite(vectors.dense).all(axis=1)  # [n]
    bare = dict.fromkeys(np.flatnonzero(~words).tolist(), NO_WORD)
    return bare | dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
