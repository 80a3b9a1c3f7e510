"""The seeds' embeddings and thresholds: made once, kept in memory and, where there is one, on disk.

A vector is a function of the model and of the article, which is known by the digest of its content,
a threshold of the rate as well. On disk each update adds one file, named after the model and its
own content; now and then they are merged. Whatever is damaged, foreign, or lies where others can
write costs a warning and is computed again.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I32
from encoder.score.lexical import SparseRows
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER, SeedBook, SeedSet, seed_set_digest
from worker.service.seed_files import Entries, SeedFiles

BLOCK = 256
NO_WORD = "text: holds no word that the model reads"
NOT_FINITE = "text: the model gives it no finite vector"
TINY = np.finfo(np.float32).tiny
log = logging.getLogger("newsift.seeds")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of one article: its embedding, and its automatic threshold."""

    dense: F32  # [d]
    slots: I32
    weights: F32
    threshold: float  # NaN where none was asked for
    problem: str | None  # why posts cannot be compared with it


class SeedEmbedder:
    """Makes the set of seeds out of the latest records; only what is new is embedded."""

    def __init__(
        self, enc: Encoder, folder: Path | None, background_rate: float, threshold: float | None
    ) -> None:
        self._enc, self._rate, self._threshold = enc, background_rate, threshold
        self._nothing = enc.articles([])
        self._too_fine = too_fine(enc, self._nothing, background_rate)
        self._files = SeedFiles(folder, enc.digest, background_rate) if folder else None
        self._known: dict[str, Known] | None = None

    def make(self, book: SeedBook) -> SeedSet:
        """The set of seeds as the records say now, ready to match."""
        if self._known is None:
            self._known = self._from_disk()
        live, uncut = book.seeds, set[str]()
        if self._too_fine:
            uncut = {seed.id for seed in live if self._is_automatic(seed)}
        wanted = [seed for seed in live if seed.id not in uncut]
        known = self._learn(wanted, self._known)
        self._known = {seed.content: known[seed.content] for seed in wanted}
        seeds = tuple(seed for seed in wanted if known[seed.content].problem is None)
        odd = [RefusedSeed(s.id, why) for s in wanted if (why := known[s.content].problem)]
        odd += [RefusedSeed(name, self._too_fine) for name in uncut]
        made = SeedSet(
            seeds,
            self._embeddings([known[seed.content] for seed in seeds]),
            self._cuts(seeds, known),
            seed_set_digest(seeds, self._threshold, self._rate),
            tuple(sorted([*book.refused, *odd])),
            np.array([NEVER if s.expires_at is None else s.expires_at for s in seeds], np.int64),
            book.paused,
        )
        _ = made.index
        return made

    def _learn(self, seeds: Sequence[Seed], known: dict[str, Known]) -> dict[str, Known]:
        """What is known, with what these seeds need besides; the new part goes to disk."""
        texts = {s.content: (s.title, s.text) for s in seeds if s.content not in known}
        fresh = self._embed(texts)
        known = {**known, **fresh}
        bare = [v for v in self._automatic(seeds) if np.isnan(known[v].threshold)]
        fresh |= self._with_thresholds({content: known[content] for content in bare})
        if fresh and self._files is not None:
            self._files.add(self._entries(fresh), keep={seed.content for seed in seeds})
        return {**known, **fresh}

    def _automatic(self, seeds: Sequence[Seed]) -> list[str]:
        """The articles of the seeds whose threshold is left to the background posts."""
        return list(dict.fromkeys(seed.content for seed in seeds if self._is_automatic(seed)))

    def _is_automatic(self, seed: Seed) -> bool:
        return self._threshold is None and seed.threshold is None

    def _embed(self, texts: dict[str, tuple[str, str]]) -> dict[str, Known]:
        made: dict[str, Known] = {}
        contents = list(texts)
        for start in range(0, len(contents), BLOCK):
            block = contents[start : start + BLOCK]
            vectors = self._enc.articles([texts[content] for content in block])
            made |= known_of(block, vectors, np.full(len(block), np.nan, np.float32))
        return made

    def _with_thresholds(self, bare: dict[str, Known]) -> dict[str, Known]:
        if not bare:
            return {}
        vectors = self._embeddings(list(bare.values()))
        usable = np.isfinite(vectors.dense).all(axis=1)
        cuts = np.ones(len(bare), np.float32)
        if usable.any():
            cuts[usable] = self._enc.thresholds(vectors[np.flatnonzero(usable)], self._rate)
        return known_of(list(bare), vectors, cuts)

    def _cuts(self, seeds: Sequence[Seed], known: dict[str, Known]) -> F32:
        """The threshold of every seed: its own, the configured one, or the automatic one."""

        def cut(seed: Seed) -> float:
            own = self._threshold if seed.threshold is None else seed.threshold
            return known[seed.content].threshold if own is None else own

        return np.maximum(np.array([cut(seed) for seed in seeds], np.float32), TINY)

    def _embeddings(self, entries: Sequence[Known]) -> Embeddings:
        """The embeddings of these articles, side by side."""
        ends = np.cumsum([0, *(len(entry.slots) for entry in entries)], dtype=np.int64)
        dense, words = self._nothing.dense, self._nothing.lexical
        rows = SparseRows(
            ends,
            np.concatenate([words.slots, *(entry.slots for entry in entries)]),
            np.concatenate([words.weights, *(entry.weights for entry in entries)]),
        )
        stacked = np.concatenate([dense, *(entry.dense[None] for entry in entries)])
        return Embeddings(stacked, rows, self._nothing.mix, self._nothing.digest)

    def _entries(self, known: dict[str, Known]) -> Entries:
        cuts = np.array([entry.threshold for entry in known.values()], np.float32)
        return Entries(tuple(known), self._embeddings(list(known.values())), cuts)

    def _from_disk(self) -> dict[str, Known]:
        found: dict[str, Known] = {}
        for entries in self._files.load() if self._files else ():
            try:
                Embeddings.concat([self._nothing, entries.embeddings])
            except (InputError, ValueError) as error:
                log.warning("a cache file of seeds is another model's and is left out (%s)", error)
                continue
            found |= known_of(entries.contents, entries.embeddings, entries.thresholds)
        return found


def too_fine(enc: Encoder, nothing: Embeddings, rate: float) -> str:
    """Why the model's background posts cannot tell this rate; empty if they can."""
    try:
        enc.thresholds(nothing, rate)
    except InputError as error:
        return f"matching.background_{error}"
    return ""


def known_of(contents: Sequence[str], vectors: Embeddings, cuts: F32) -> dict[str, Known]:
    """What these rows say of these articles."""
    rows, words = vectors.dense, vectors.lexical
    problems = dict.fromkeys(np.flatnonzero(~rows.any(axis=1)).tolist(), NO_WORD)
    problems |= dict.fromkeys(np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist(), NOT_FINITE)
    known = {}
    for i, (content, start, end, cut) in enumerate(
        zip(contents, words.indptr.tolist(), words.indptr[1:].tolist(), cuts.tolist(), strict=False)
    ):
        problem = problems.get(i)
        if problem == NO_WORD and end > start:
            problem = None
        known[content] = Known(
            rows[i], words.slots[start:end], words.weights[start:end], cut, problem
        )
    return known
