"""The seed set: an immutable value with the embeddings, thresholds and pages of all seeds."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from operator import ge
from typing import Any, NamedTuple, Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import pair_scores
from encoder.score.lexical import SparseRows
from encoder.support.readonly import frozen
from encoder.thresholds import EVERY_POST
from worker.seeds.profile import SeedOrProfile
from worker.seeds.record import COMPACT_JSON, RefusedSeed, Seed
from worker.seeds.state import StaleProfile


class LinkedSeed(NamedTuple):
    """A row of the seed set that a page stands for, and until when."""

    row: int  # of the seed, or of the profile that replaces it
    expiry: int  # milliseconds, the seed's own


@dataclass(frozen=True, slots=True)
class SeedLinks:
    """The seeds of a set by the canonical address of their page.

    A post that links to one matches, whatever its score.
    """

    pages: Mapping[str, Sequence[LinkedSeed]] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()

    @classmethod
    def build(cls, linked_seeds: Iterable[tuple[str, LinkedSeed]]) -> Self:
        """From pairs of a page and a seed."""
        pages: defaultdict[str, list[LinkedSeed]] = defaultdict(list)
        for page, linked in linked_seeds:
            pages[page].append(linked)
        hosts = (page.partition("/")[0].partition(":")[0] for page in pages)
        return cls(dict(pages), frozenset(hosts))


NO_LINKS = SeedLinks()
NEVER_EXPIRES = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class SeedVectors:
    """The vectors of a seed set: a row of one of the parts for each seed.

    Successive sets share parts: a seed that changes adds a small one, and the others, and what was
    computed from them, stay the same. A part may have more rows.
    """

    parts: tuple[Embeddings, ...]  # at least one, which says what the model is
    part: I32  # [k]
    row: I64  # [k]

    def __post_init__(self) -> None:
        if not self.parts or len(self.part) != len(self.row):
            raise InputError("seed vectors: no part, or parts and rows differ in number")

    def __len__(self) -> int:
        return len(self.row)

    @property
    def mix(self) -> float:
        return self.parts[0].mix

    @property
    def digest(self) -> str:
        return self.parts[0].digest

    def seeds_of_rows(self, part: int) -> I64:
        """The seed of each row of a part, or -1: [r]."""
        seed_of_row = np.full(len(self.parts[part]), -1)
        seeds = np.flatnonzero(self.part == part)
        seed_of_row[self.row[seeds]] = seeds
        return seed_of_row

    def __getitem__(self, key: "slice | Sequence[int] | np.ndarray[Any, Any]") -> Embeddings:
        part, row = self.part[key], self.row[key]
        numbers = np.unique(part).tolist()
        if len(numbers) < 2:
            part_vectors = self.parts[numbers[0] if numbers else 0]
            is_whole_part = len(row) == len(part_vectors) and bool(
                (row == np.arange(len(row))).all()
            )
            return part_vectors if is_whole_part else part_vectors[row]
        dense = np.empty((len(row), self.parts[0].dense.shape[1]), np.float32)
        words: list[SparseRows] = []
        order: list[I64] = []
        for number in numbers:
            positions = np.flatnonzero(part == number)
            rows = self.parts[number][row[positions]]
            dense[positions] = rows.dense
            words.append(rows.lexical)
            order.append(positions)
        lexical = SparseRows.concat(words)[np.argsort(np.concatenate(order))]
        return Embeddings(frozen(dense), lexical, self.mix, self.digest)

    def scores(self, posts: Embeddings, pairs: I64) -> F32:
        """Exact scores of pairs [n, 2] of post and seed: [n]."""
        scores = np.empty(len(pairs), np.float32)
        part = self.part[pairs[:, 1]]
        for number in np.unique(part).tolist():
            positions, rows = np.flatnonzero(part == number), self.parts[number]
            of_part = np.stack([pairs[positions, 0], self.row[pairs[positions, 1]]], axis=1)
            scores[positions] = pair_scores(posts, rows, of_part)
        return scores


@dataclass(frozen=True, eq=False)
class SeedSet:
    """All seeds at one moment, sorted by id, with all that matching needs.

    A profile in force is a row like a seed and replaces the seeds that it names.
    """

    seeds: tuple[SeedOrProfile, ...]
    vectors: SeedVectors  # [k]
    thresholds: F32  # [k]
    digest: str  # 12 hex digits
    refused: tuple[RefusedSeed, ...]
    expiry: I64  # [k] milliseconds, or NEVER_EXPIRES
    paused: tuple[Seed, ...] = ()
    stale: tuple[StaleProfile, ...] = ()
    raised: float = 0.0  # added to all automatic thresholds, so that a total rate holds
    skim_thresholds: F32 | None = None  # [k]; None where one reader does both
    links: SeedLinks = NO_LINKS

    def __post_init__(self) -> None:
        count = len(self.seeds)
        if not count == len(self.vectors) == len(self.thresholds) == len(self.expiry):
            raise InputError("seed set: seeds, embeddings, thresholds and expiry differ in number")
        ids = [seed.id for seed in self.seeds]
        if any(map(ge, ids, islice(ids, 1, None))):
            raise InputError("seed set: the seeds are not sorted by id")
        if not (self.thresholds > 0).all():
            raise InputError("seed set: a threshold is not above 0")

    def __len__(self) -> int:
        return len(self.seeds)

    @cached_property
    def threshold_of(self) -> Mapping[str, float]:
        """By the ids of the seeds."""
        names = (seed.id for seed in self.seeds)
        return dict(zip(names, self.thresholds.tolist(), strict=True))

    def skim_threshold_of(self, name: str) -> float | None:
        """None where no post is skimmed before it is read."""
        if self.skim_thresholds is None:
            return None
        return float(self.skim_thresholds[[seed.id for seed in self.seeds].index(name)])

    @property
    def both_thresholds(self) -> F32:
        """The threshold and the skim threshold of every seed: [k, 2]."""
        skim = self.skim_thresholds
        every = np.full(len(self), EVERY_POST, np.float32)
        return np.stack([self.thresholds, every if skim is None else skim], axis=1)

    @property
    def embeddings(self) -> Embeddings:
        """All vectors in one table; a copy where there are several parts."""
        return self.vectors[:]


def digest_row(seed: SeedOrProfile, threshold: float | None, automatic: str) -> str:
    """A seed as the digest of its set has it: its id, its version and its threshold.

    `automatic` stands for an automatic threshold: it names the rate.
    """
    fixed_threshold = threshold if seed.threshold is None else seed.threshold
    text = automatic if fixed_threshold is None else f"{fixed_threshold:.6f}"
    return COMPACT_JSON.encode([seed.id, seed.version, text])


def seed_set_digest(rows: Iterable[str]) -> str:
    """The 12 hex digits that identify seeds and thresholds, the same on every worker.

    The rows are sorted by id.
    """
    return hashlib.sha256(f"[{','.join(rows)}]".encode()).hexdigest()[:12]
