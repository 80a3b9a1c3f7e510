"""The embeddings and automatic thresholds of the seeds, computed once and cached while needed.

A vector depends on the model and on the article, identified by the digest of its content. An
automatic threshold also depends on the background and the rate. A profile has its own vector. A
change of one seed costs work for that seed: vectors lie in parts, which sets share.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings, check_rows
from encoder.encoder import Encoder
from encoder.model.weights import F32
from encoder.thresholds import EVERY_POST
from worker.links import canonical_link
from worker.seeds.automatic import (
    RATE,
    READ_FACTOR,
    AutomaticThresholds,
    OwnBackground,
    ThresholdRules,
)
from worker.seeds.profile import Profile, SeedOrProfile
from worker.seeds.record import COMPACT_JSON, RefusedSeed, Seed
from worker.seeds.set import (
    NEVER_EXPIRES,
    NO_LINKS,
    LinkedSeed,
    SeedLinks,
    SeedSet,
    SeedVectors,
    digest_row,
    seed_set_digest,
)
from worker.seeds.state import ControlState, ModelFacts, Resolution

BLOCK_ARTICLES = 256
MIN_GROWTH = 4  # A part has at least four times the rows of the next one.
MAX_UNUSED_SHARE = 1 / 16
NO_WORD = "text: holds no word that the model reads"
NOT_FINITE = "text: the model gives it no finite vector"
MIN_THRESHOLD = np.finfo(np.float32).tiny
Bool = NDArray[np.bool_]
EmbedArticles = Callable[[Sequence[tuple[str, str]]], Embeddings]


@dataclass(eq=False, slots=True)
class EmbeddedPart:
    """Rows that were embedded or merged at the same time."""

    vectors: Embeddings  # [r]
    ids: list[str]  # [r], the seed that each row was made for
    automatic: F32  # [r, 2], automatic threshold and skim threshold; NaN until needed
    problems: dict[int, str]  # of rows that cannot be compared
    number: int = 0  # its place among all parts

    @classmethod
    def build(
        cls, vectors: Embeddings, ids: list[str], automatic: F32 | None = None
    ) -> "EmbeddedPart":
        if automatic is None:
            automatic = np.full((len(ids), 2), np.nan, np.float32)
        return cls(vectors, ids, automatic, row_problems(vectors))


@dataclass(frozen=True, slots=True)
class SeedRow:
    content: str  # the digest of the seed's content
    part: EmbeddedPart
    place: int  # of the row in the part


class SeedEmbedder:
    """Builds seed sets; only new articles are embedded."""

    def __init__(
        self, enc: Encoder, rules: ThresholdRules, own_background: OwnBackground | None = None,
        embed: EmbedArticles | None = None,
    ) -> None:  # fmt: skip
        """`embed` gives the vectors of articles, in the place of the encoder's own method."""
        self._enc, self._rules = enc, rules
        self._embed_articles = embed or enc.articles
        self.automatic = AutomaticThresholds(enc, rules, own_background)
        self._background_digest = own_background.digest if own_background else ""
        self._auto_text = f"{'total' if rules.total else 'auto'} {rules.rate:.6f}"
        self._nothing = EmbeddedPart.build(enc.articles([]), [])
        self._forget()

    def _forget(self) -> None:
        self._parts: list[EmbeddedPart] = []
        self._rows: dict[str, SeedRow] = {}  # by the seed's id
        self._ids: dict[str, str] = {}  # by content: a seed that has or had it
        self._pages: dict[str, str | None] = {}  # canonical, by the seeds' addresses
        self._digest_rows: dict[str, tuple[SeedOrProfile, str]] = {}  # by id

    def for_another_set(self) -> Self:
        """An embedder without seeds, which shares the background and the thresholds of this one."""
        other = copy(self)
        other._forget()
        return other

    def make(self, state: ControlState, raised: float | None = None) -> SeedSet:
        """The seed set of a control state, ready to match.

        With a total rate a part of the seeds gets the constant of the whole set, if it is given.
        """
        resolution = state.resolve(self.facts)
        candidates = [
            seed.without_history() if isinstance(seed, Profile) else seed
            for _, seed in sorted(resolution.compared.items())
        ]
        refusals = dict.fromkeys(self._without_threshold(candidates), self.automatic.too_fine)
        usable = (
            [seed for seed in candidates if seed.id not in refusals] if refusals else candidates
        )
        self._update_rows(usable)
        if any(part.problems for part in self._parts):
            rows = [(seed.id, self._rows[seed.id]) for seed in usable]
            reasons = ((name, row.part.problems.get(row.place)) for name, row in rows)
            refusals |= {name: reason for name, reason in reasons if reason}
        seeds = tuple(seed for seed in usable if seed.id not in refusals)
        vectors = self._vectors(seeds)
        thresholds, skim_thresholds, raised = self._thresholds(seeds, vectors, raised)
        by_model = (RefusedSeed(*pair) for pair in refusals.items())
        # A profile expires with the last of its seeds.
        ends = (s.expires_at if isinstance(s, Seed) else resolution.ends[s.id] for s in seeds)
        return SeedSet(
            seeds,
            vectors,
            thresholds,
            seed_set_digest(self._rows_of_digest(seeds)),
            tuple(sorted((*state.refused.values(), *resolution.refused, *by_model))),
            np.array([NEVER_EXPIRES if end is None else end for end in ends], np.int64),
            state.paused,
            resolution.stale,
            raised,
            skim_thresholds,
            self._links(seeds, resolution) if self._rules.links else NO_LINKS,
        )

    def _links(self, seeds: Sequence[SeedOrProfile], resolution: Resolution) -> SeedLinks:
        """A profile stands for the pages of the seeds that it replaces."""
        known, self._pages = self._pages, {}
        linked = list[tuple[str, LinkedSeed]]()
        for row, content in enumerate(seeds):
            names = (content.id,) if isinstance(content, Seed) else content.seeds
            for name in names:
                seed = resolution.state.seeds[name]
                if seed.url is None:
                    continue
                page = known[seed.url] if seed.url in known else canonical_link(seed.url)
                self._pages[seed.url] = page
                if page is not None:
                    end = seed.expires_at
                    expiry = NEVER_EXPIRES if end is None else end
                    linked.append((page, LinkedSeed(row, expiry)))
        return SeedLinks.build(linked)

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(self._enc.digest, self._enc.dim, self._enc.mix, self._rate_error)

    def _without_threshold(self, seeds: Sequence[SeedOrProfile]) -> list[str]:
        """Ids of seeds whose automatic threshold the background cannot give."""
        if not self.automatic.too_fine:
            return []
        articles = [seed for seed in seeds if isinstance(seed, Seed)]
        return [seed.id for seed in articles if self._is_automatic(seed)]

    def _rate_error(self, profile: Profile) -> str:
        return self.automatic.too_fine_for_profiles if self._is_automatic(profile) else ""

    def _update_rows(self, seeds: Sequence[SeedOrProfile]) -> None:
        """Embeds new seeds and forgets removed ones."""
        rows = self._rows
        new = [s for s in seeds if (row := rows.get(s.id)) is None or row.content != s.content]
        sources = {seed.content: self._row_with(seed.content) for seed in new}
        new_content = {seed.content: seed for seed in new if sources[seed.content] is None}
        first = sorted(new_content.values(), key=lambda seed: isinstance(seed, Profile))
        if first:
            vectors = Embeddings.concat(self._embed(first))
            self._add(EmbeddedPart.build(vectors, [seed.id for seed in first]), first)
        copies = [seed for seed in new if new_content.get(seed.content) is not seed]
        self._copy(copies, [sources[s.content] or rows[new_content[s.content].id] for s in copies])
        if len(rows) > len(seeds):
            for name in rows.keys() - {seed.id for seed in seeds}:
                del rows[name]
        if len(self._ids) > 2 * len(rows):
            self._ids = {row.content: name for name, row in rows.items()}
        self._merge()

    def _row_with(self, content: str) -> SeedRow | None:
        row = self._rows.get(self._ids.get(content, ""))
        return row if row is not None and row.content == content else None

    def _add(self, part: EmbeddedPart, seeds: Sequence[SeedOrProfile]) -> None:
        self._parts.append(part)
        for place, seed in enumerate(seeds):
            self._rows[seed.id] = SeedRow(seed.content, part, place)
            self._ids[seed.content] = seed.id

    def _copy(self, copies: Sequence[SeedOrProfile], rows: Sequence[SeedRow]) -> None:
        """Copies rows for seeds whose content other seeds have."""
        by_part: defaultdict[EmbeddedPart, list[tuple[SeedOrProfile, int]]] = defaultdict(list)
        for seed, row in zip(copies, rows, strict=True):
            by_part[row.part].append((seed, row.place))
        for part, pairs in by_part.items():
            seeds, places = [seed for seed, _ in pairs], np.array([place for _, place in pairs])
            ids = [seed.id for seed in seeds]
            self._add(EmbeddedPart.build(part.vectors[places], ids, part.automatic[places]), seeds)

    def _merge(self) -> None:
        """Keeps the parts few, and removes rows once many are unused."""
        parts, total = self._parts, sum(len(part.ids) for part in self._parts)
        if total - len(self._rows) > max(BLOCK_ARTICLES, total * MAX_UNUSED_SHARE):
            parts[:] = [self._join(parts)] if self._rows else []
        while len(parts) > 1 and len(parts[-2].ids) < MIN_GROWTH * len(parts[-1].ids):
            parts[-2:] = [self._join(parts[-2:])]
        for number, part in enumerate(parts):
            part.number = number

    def _join(self, parts: Sequence[EmbeddedPart]) -> EmbeddedPart:
        """A part of the rows that are used."""
        uses = [np.array(self._used_rows(part), np.int64) for part in parts]
        vectors = [part.vectors[rows] for part, rows in zip(parts, uses, strict=True)]
        automatic = [part.automatic[rows] for part, rows in zip(parts, uses, strict=True)]
        names = [p.ids[row] for p, rows in zip(parts, uses, strict=True) for row in rows.tolist()]
        whole = EmbeddedPart.build(Embeddings.concat(vectors), names, np.concatenate(automatic))
        for place, name in enumerate(names):
            self._rows[name] = SeedRow(self._rows[name].content, whole, place)
        return whole

    def _used_rows(self, part: EmbeddedPart) -> list[int]:
        rows = self._rows
        return [
            place
            for place, name in enumerate(part.ids)
            if (row := rows.get(name)) is not None and row.part is part and row.place == place
        ]

    def _vectors(self, seeds: Sequence[SeedOrProfile]) -> SeedVectors:
        rows = [self._rows[seed.id] for seed in seeds]
        part = np.array([row.part.number for row in rows], np.int32)
        place = np.array([row.place for row in rows], np.int64)
        parts = tuple(part.vectors for part in self._parts) or (self._nothing.vectors,)
        return SeedVectors(parts, part, place)

    def _embed(self, seeds: Sequence[SeedOrProfile]) -> Iterator[Embeddings]:
        articles = [(seed.title, seed.text) for seed in seeds if isinstance(seed, Seed)]
        for start in range(0, len(articles), BLOCK_ARTICLES):
            yield self._embed_articles(articles[start : start + BLOCK_ARTICLES])
        for seed in seeds:
            if isinstance(seed, Profile):
                yield seed.vector.as_row(self._enc.mix, self._enc.digest)

    def _thresholds(
        self, seeds: Sequence[SeedOrProfile], vectors: SeedVectors, raised: float | None
    ) -> tuple[F32, F32 | None, float]:
        """The threshold and skim threshold of every seed, and the constant in automatic ones.

        A threshold is the seed's own, the configured one or the automatic one.
        """
        thresholds = [None if self._has_no_promise(seed) else seed.threshold for seed in seeds]
        own = np.array(thresholds, np.float64)  # None becomes NaN
        if self._rules.threshold is not None:
            own[np.isnan(own)] = self._rules.threshold
        is_automatic = np.isnan(own)
        found = self._automatic_of(seeds, vectors, is_automatic)  # [k, 2]
        automatic = found.astype(np.float64)  # what is computed from them is rounded once
        if raised is None and self._rules.total:
            places = {seeds[n].content: n for n in np.flatnonzero(is_automatic).tolist()}
            raised = self.automatic.total_constant(places, vectors, found)
        scores = np.where(is_automatic, automatic[:, 0] + (raised or 0.0), own)
        scores = np.maximum(scores.astype(np.float32), MIN_THRESHOLD)
        skim = None
        if self.automatic.reads:
            moved = np.where(is_automatic, raised or 0.0, np.minimum(own - automatic[:, 0], 0.0))
            skim = np.maximum(automatic[:, 1] + moved, EVERY_POST).astype(np.float32)
            skim[automatic[:, 1] <= EVERY_POST] = EVERY_POST
            for place, seed in enumerate(seeds):
                if isinstance(seed, Profile) and seed.skim_threshold is not None:
                    skim[place] = seed.skim_threshold
        return scores, skim, raised or 0.0

    def _automatic_of(
        self, seeds: Sequence[SeedOrProfile], vectors: SeedVectors, is_automatic: Bool
    ) -> F32:
        """Automatic thresholds and skim thresholds of the seeds [k, 2], NaN where none is needed.

        The skim threshold of an own threshold depends on them, too.
        """
        starts = np.cumsum([0, *(len(part.ids) for part in self._parts)])
        rows = starts[vectors.part] + vectors.row  # [k], among the rows of all parts
        known = [np.zeros((0, 2), np.float32), *(part.automatic for part in self._parts)]
        automatic = np.concatenate(known)
        needed = is_automatic | self.automatic.reads
        missing = np.flatnonzero(needed & np.isnan(automatic[rows, 0]))
        if len(missing):
            own = [seeds[n] for n in missing.tolist()]
            automatic[rows[missing]] = self.automatic.of_seeds(own, vectors[missing])
            for part, start in zip(self._parts, starts.tolist(), strict=False):
                part.automatic = automatic[start : start + len(part.ids)]
        return automatic[rows]

    def _rows_of_digest(self, seeds: Sequence[SeedOrProfile]) -> list[str]:
        """Sorted; that of a seed is computed once."""
        known, names, rows = self._digest_rows, list[str](), list[str]()
        if len(known) > 2 * len(seeds):
            known.clear()
        for seed in seeds:
            row = known.get(seed.id)
            if row is None or row[0] is not seed:
                text = digest_row(seed, self._rules.threshold, self._auto_text)
                row = known[seed.id] = seed, text
            names.append(seed.id)
            rows.append(row[1])
        for name, *values in self._rule_entries(seeds):
            place = bisect_left(names, name)
            entry = [name, *values]
            if names[place : place + 1] == [name] and json.loads(rows[place]) < entry:
                place += 1  # a seed of this name
            names.insert(place, name)
            rows.insert(place, COMPACT_JSON.encode(entry))
        return rows

    def _rule_entries(self, seeds: Sequence[SeedOrProfile]) -> Iterator[tuple[str, ...]]:
        """What else decides about matches, where it is not the default."""
        rules = self._rules
        if rules.read_factor != READ_FACTOR:
            yield "read_factor", f"{rules.read_factor:g}"
        if rules.reader == "skim":
            yield "reader", rules.reader
        if rules.compare is not None:
            yield "compare", *rules.compare
        if not rules.links:
            yield "links", "false"
        if self._background_digest:
            yield "background", self._background_digest
        has_own = rules.threshold is not None or any(seed.threshold is not None for seed in seeds)
        if has_own and rules.rate != RATE:
            yield "rate", f"{rules.rate:.6f}"

    def _is_automatic(self, seed: SeedOrProfile) -> bool:
        has_none = seed.threshold is None or self._has_no_promise(seed)
        return self._rules.threshold is None and has_none

    def _has_no_promise(self, seed: SeedOrProfile) -> bool:
        """Whether a promise is not in force, which speaks of posts that were read."""
        promised = isinstance(seed, Profile) and seed.skim_threshold is not None
        return promised and self.automatic.skims_alone


def row_problems(vectors: Embeddings) -> dict[int, str]:
    """Why rows cannot be compared with posts."""
    finite, has_words = check_rows(vectors)
    wordless = dict.fromkeys(np.flatnonzero(~has_words).tolist(), NO_WORD)
    return wordless | dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
