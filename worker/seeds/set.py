"""Seeds: control records → what posts are compared with, as one immutable set."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32, I64
from worker.config import DEFAULT_LIMITS, Limits
from worker.seeds.in_force import Fit, StaleProfile, Standing, standing
from worker.seeds.index import SeedIndex
from worker.seeds.profile import Compared, Profile, read_record
from worker.seeds.record import RefusedSeed, Seed, digest
from worker.seeds.values import KEY_BYTES

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class SeedSet:
    """All seeds at one moment, sorted by id, with what is needed to match posts with them.

    A profile in force is a row as a seed is, in the place of those that it stands for.
    """

    seeds: tuple[Compared, ...]
    embeddings: Embeddings  # [k]
    thresholds: F32  # [k]
    digest: str  # 12 hex digits
    refused: tuple[RefusedSeed, ...]
    expiry: I64  # [k] milliseconds, or NEVER
    paused: tuple[Seed, ...] = ()
    stale: tuple[StaleProfile, ...] = ()

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

    @cached_property
    def index(self) -> SeedIndex:
        """What posts are scored with, built once."""
        return SeedIndex.of(self.embeddings)

    @classmethod
    def empty(cls, enc: Encoder) -> Self:
        """No seeds: nothing can match."""
        none = np.zeros(0, np.float32)
        return cls((), enc.articles([]), none, digest([])[:12], (), none.astype(np.int64))


class SeedBook:
    """The latest record of every key: all that the state of the seeds depends on."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._latest: dict[bytes | None, Compared | RefusedSeed] = {}  # long keys by their digests

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Let one record of the control topic take effect."""
        found = read_record(key, value, self._limits)
        if key is not None and len(key) > KEY_BYTES:
            key = hashlib.sha512(key).digest()
        if found is None:
            self._latest.pop(key, None)
        elif isinstance(found, Profile):
            # the rest is for the commands alone
            self._latest[key] = replace(found, before=(), made={}, promise=None)
        else:
            self._latest[key] = found

    def copied(self) -> "SeedBook":
        """A book of the same records, which goes its own way from now on."""
        book = SeedBook(self._limits)
        book._latest = dict(self._latest)
        return book

    def standing(self, model: str, refusal: Fit) -> Standing:
        """What posts are compared with by this model: profiles in force, and the other seeds."""
        over = too_many(self._latest.values(), self._limits)
        known = [each for each in self._latest.values() if each.id not in over]
        seeds = {each.id: each for each in known if isinstance(each, Seed)}
        profiles = (each for each in known if isinstance(each, Profile))
        return standing(seeds, profiles, model, refusal)

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """The seeds that are to match, sorted by id."""
        over = too_many(self._latest.values(), self._limits)
        return tuple(seed for seed in self._valid(paused=False) if seed.id not in over)

    @property
    def paused(self) -> tuple[Seed, ...]:
        """The seeds that are to match nothing for now, sorted by id."""
        return self._valid(paused=True)

    @property
    def refused(self) -> tuple[RefusedSeed, ...]:
        """The seeds whose latest record is invalid, and those too many, sorted by id."""
        invalid = (found for found in self._latest.values() if isinstance(found, RefusedSeed))
        return tuple(sorted([*invalid, *too_many(self._latest.values(), self._limits).values()]))

    def _valid(self, paused: bool) -> tuple[Seed, ...]:
        valid = (seed for seed in self._latest.values() if isinstance(seed, Seed))
        return tuple(sorted((s for s in valid if s.paused == paused), key=lambda seed: seed.id))


def too_many(
    found: Iterable[Compared | RefusedSeed | None], limits: Limits
) -> dict[str, RefusedSeed]:
    """The valid seeds, and the profiles, beyond limits.seeds: by the latest records alone, that is.

    They are named by their ids. Paused seeds are not counted; profiles are, stale or in force.
    """
    valid = [each for each in found if isinstance(each, (Seed, Profile))]
    seeds = sorted(each.id for each in valid if isinstance(each, Seed) and not each.paused)
    profiles = sorted(each.id for each in valid if isinstance(each, Profile))
    most = limits.seeds
    why = f"limits.seeds: {most} are allowed, and as many come before it by their ids"
    return {name: RefusedSeed(name, why) for name in (*seeds[most:], *profiles[most:])}


def seed_set_digest(
    seeds: Iterable[Compared], threshold: float | None, background_rate: float, mark: str = ""
) -> str:
    """The 12 hex digits that name a set of seeds with their thresholds, on every worker alike.

    A background of one's own has a mark, by which its automatic thresholds are told from others.
    """
    automatic = f"auto {background_rate:.6f} {mark}".rstrip()

    def cut(seed: Compared) -> str:
        own = threshold if seed.threshold is None else seed.threshold
        return automatic if own is None else f"{own:.6f}"

    return digest(sorted([seed.id, seed.version, cut(seed)] for seed in seeds))[:12]
