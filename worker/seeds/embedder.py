"""The embeddings and automatic thresholds of the seeds, computed once and cached while needed.

A vector depends on the model and on the article, identified by the digest of its content. An
automatic threshold also depends on the background and the rate. A profile has its own vector.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from worker.seeds.background import OwnBackground, sides_of
from worker.seeds.profile import Compared, Profile
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER, SeedSet, seed_set_digest
from worker.seeds.state import ControlState, ModelFacts
from worker.seeds.total import Passing, passing_posts, raise_for_all

BLOCK = 256
NO_WORD = "text: holds no word that the model reads"
NOT_FINITE = "text: the model gives it no finite vector"
TINY = np.finfo(np.float32).tiny


class SeedEmbedder:
    """Builds the seed set of a control state; only new articles are embedded."""

    def __init__(
        self, enc: Encoder, rate: float, threshold: float | None,
        own: OwnBackground | None = None, total: bool = False,
    ) -> None:  # fmt: skip
        """`rate` is that of each seed, or of all together if it is `total`."""
        self._enc, self._rate, self._threshold, self._total = enc, rate, threshold, total
        self._mark = own.mark if own else ""
        self._background = own.posts if own else None  # else the model's
        self._rows: dict[str, int] = {}  # by the content of an article, its row in these:
        self._vectors = enc.articles([])  # [n]
        self._cuts = np.zeros(0, np.float32)  # [n], automatic; NaN until it is needed
        self._passing: dict[str, Passing] = {}  # by content, where one constant is added to all
        self._too_fine = too_fine(enc, self._vectors, rate, self._background, total)

    def make(self, state: ControlState, raised: float | None = None) -> SeedSet:
        """The seed set of a control state, ready to match.

        With a total rate a part of the seeds gets the constant of the whole set, if it is given.
        """
        resolution = state.resolve(self.facts)
        compared = [_bare(each) for _, each in sorted(resolution.compared.items())]
        why = dict.fromkeys(self._untold(compared), self._too_fine)
        chosen = [seed for seed in compared if seed.id not in why]
        self._learn(chosen)
        odd = problems(self._vectors)
        why |= {s.id: odd[row] for s in chosen if (row := self._rows[s.content]) in odd}
        seeds = tuple(seed for seed in compared if seed.id not in why)
        rows = np.array([self._rows[seed.content] for seed in seeds], np.int64)
        if raised is None:
            raised = self._raise_for_all(seeds)
        by_model = (RefusedSeed(*pair) for pair in why.items())
        ends = (resolution.ends[seed.id] for seed in seeds)
        return SeedSet(
            seeds,
            self._vectors[rows],
            self._thresholds(seeds, rows, raised),
            seed_set_digest(seeds, self._threshold, self._rate, self._mark, self._total),
            tuple(sorted((*state.refused.values(), *resolution.refused, *by_model))),
            np.array([NEVER if end is None else end for end in ends], np.int64),
            state.paused,
            resolution.stale,
            raised,
        )

    @property
    def facts(self) -> ModelFacts:
        """What decides which profiles are in force."""
        return ModelFacts(self._enc.digest, self._enc.dim, self._enc.mix, self._rate_error)

    @property
    def background(self) -> Embeddings:
        """The posts for automatic thresholds."""
        return self._enc.background if self._background is None else self._background

    def _untold(self, compared: Sequence[Compared]) -> list[str]:
        """The seeds whose automatic threshold the background cannot determine."""
        articles = [seed for seed in compared if isinstance(seed, Seed) and self._too_fine]
        return [seed.id for seed in articles if self._is_automatic(seed)]

    def _rate_error(self, profile: Profile) -> str:
        return self._too_fine_for_profiles if self._is_automatic(profile) else ""

    def _learn(self, seeds: Sequence[Compared]) -> None:
        """Embed new seeds and forget those that are gone."""
        contents = {seed.content: seed for seed in seeds}
        old = [content for content in self._rows if content in contents]
        new = [content for content in contents if content not in self._rows]
        new.sort(key=lambda content: isinstance(contents[content], Profile))
        earlier = np.array([self._rows[content] for content in old], np.int64)
        fresh = self._embedded([contents[content] for content in new])
        vectors = Embeddings.concat([self._vectors[earlier], *fresh])
        cuts = np.concatenate([self._cuts[earlier], np.full(len(new), np.nan, np.float32)])
        rows = {content: row for row, content in enumerate([*old, *new])}
        self._cut({rows[s.content]: s for s in seeds if self._is_automatic(s)}, vectors, cuts)
        self._rows, self._vectors, self._cuts = rows, vectors, cuts
        if self._total:
            self._find_passing()

    def _find_passing(self) -> None:
        """Compare the seeds with new automatic thresholds with the background."""
        self._passing = {c: self._passing[c] for c in self._rows if c in self._passing}
        cut = np.flatnonzero(~np.isnan(self._cuts)).tolist()
        contents = list(self._rows)
        new = [row for row in cut if contents[row] not in self._passing]
        passing = passing_posts(self.background, self._vectors[new], self._cuts[new])
        self._passing |= zip((contents[row] for row in new), passing, strict=True)

    def _raise_for_all(self, seeds: Sequence[Compared]) -> float:
        """The constant that is added to all automatic thresholds."""
        if not self._total:
            return 0.0
        contents = {seed.content for seed in seeds if self._is_automatic(seed)}
        passing = (self._passing[content] for content in contents)
        return raise_for_all(passing, self.background, self._rate)

    def _cut(self, missing: Mapping[int, Compared], vectors: Embeddings, cuts: F32) -> None:
        """Compute the automatic thresholds that are not cached."""
        bare = np.isnan(cuts) & np.isfinite(vectors.dense).all(axis=1)
        articles = [row for row, seed in missing.items() if bare[row] and isinstance(seed, Seed)]
        profiles = [row for row, seed in missing.items() if bare[row] and isinstance(seed, Profile)]
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
        """The background posts that calibrate profiles."""
        return sides_of(self.background)[1]

    @cached_property
    def _too_fine_for_profiles(self) -> str:
        nothing = self._vectors[:0]
        return too_fine(self._enc, nothing, self._rate, self._calibrating, self._total)

    def _thresholds(self, seeds: Sequence[Compared], rows: I64, raised: float) -> F32:
        """The threshold of every seed: its own, the configured one or the automatic one."""
        own = [self._threshold if s.threshold is None else s.threshold for s in seeds]
        fixed = np.array([np.nan if cut is None else cut for cut in own], np.float32)
        automatic = (self._cuts[rows] + raised).astype(np.float32)
        return np.maximum(np.where(np.isnan(fixed), automatic, fixed), TINY)

    def _is_automatic(self, seed: Compared) -> bool:
        return self._threshold is None and seed.threshold is None


def _bare(each: Compared) -> Compared:
    return each.bare() if isinstance(each, Profile) else each


def too_fine(
    enc: Encoder, nothing: Embeddings, rate: float, background: Embeddings | None, total: bool
) -> str:
    """Why the background is too small for this rate; empty if it is not."""
    try:
        enc.thresholds(nothing, rate, background)
    except InputError as error:
        return f"matching.{'total' if total else 'background'}_{error}"
    return ""


def problems(vectors: Embeddings) -> dict[int, str]:
    """The rows that cannot be compared with posts, and why."""
    words = vectors.dense.any(axis=1) | (np.diff(vectors.lexical.indptr) > 0)  # [n]
    finite = np.isfinite(vectors.dense).all(axis=1)  # [n]
    bare = dict.fromkeys(np.flatnonzero(~words).tolist(), NO_WORD)
    return bare | dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
