"""The seed set: an immutable value with the embeddings and thresholds of all seeds."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from worker.seeds.profile import Compared
from worker.seeds.record import RefusedSeed, Seed, digest
from worker.seeds.state import StaleProfile

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class SeedSet:
    """All seeds at one moment, sorted by id, with all that matching needs.

    A profile in force is a row like a seed and replaces the seeds that it names.
    """

    seeds: tuple[Compared, ...]
    embeddings: Embeddings  # [k]
    thresholds: F32  # [k]
    digest: str  # 12 hex digits
    refused: tuple[RefusedSeed, ...]
    expiry: I64  # [k] milliseconds, or NEVER
    paused: tuple[Seed, ...] = ()
    stale: tuple[StaleProfile, ...] = ()
    raised: float = 0.0  # added to all automatic thresholds, so that a total rate holds

    def __post_init__(self) -> None:
        count = len(self.seeds)
        if not count == len(self.embeddings) == len(self.thresholds) == len(self.expiry):
            raise InputError("seed set: seeds, embeddings, thresholds and expiry differ in number")
        ids = [seed.id for seed in self.seeds]
        if any(a >= b for a, b in pairwise(ids)):
            raise InputError("seed set: the seeds' ids do not rise")
        if not (self.thresholds > 0).all():
            raise InputError("seed set: a threshold is not above 0")
        if not np.isfinite(self.embeddings.dense).all():
            raise InputError("seed set: a vector is not finite")

    def __len__(self) -> int:
        return len(self.seeds)

    @classmethod
    def empty(cls, enc: Encoder) -> Self:
        """A set without seeds; nothing matches."""
        none = np.zeros(0, np.float32)
        return cls((), enc.articles([]), none, digest([])[:12], (), none.astype(np.int64))


def seed_set_digest(
    seeds: Iterable[Compared], threshold: float | None, rate: float, mark: str = "",
    total: bool = False,
) -> str:  # fmt: skip
    """The 12 hex digits that identify seeds and thresholds, the same on every worker.

    A user's own background adds a mark, since its automatic thresholds differ.
    """
    automatic = f"{'total' if total else 'auto'} {rate:.6f} {mark}".rstrip()

    def cut(seed: Compared) -> str:
        own = threshold if seed.threshold is None else seed.threshold
        return automatic if own is None else f"{own:.6f}"

    return digest(sorted([seed.id, seed.version, cut(seed)] for seed in seeds))[:12]
