"""Drift: whether a stream still is as the background that the thresholds come from.

Two measures of each seed and event. Its pass rate against the rate that its automatic threshold
promises: an event on the stream raises it too. And the share of all posts whose score lies above
that of all but a tenth of the background: few posts are on an event, so it tells of all the others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from worker.seeds.profile import Compared
from worker.seeds.set import SeedSet

WATCHED = 100  # seeds, the first by their ids
HIGH = 0.1  # the share of the background that scores so high
POSTS = 200_000  # after which what was counted counts half, so that the past is forgotten
SAMPLED = 2_000  # likewise
PROMISED = 10  # passes; fewer tell no rate
LEAST_SAMPLED = 500  # posts; fewer tell no share
MANY_PASSES = 10.0  # times the promised rate: here the alerts begin
MANY_HIGH = 0.3

F64 = NDArray[np.float64]
Cuts = Callable[[Embeddings], F32]
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Drifting:
    """How a seed, or an event as a whole, stands to what was promised of it."""

    event: str
    seed: str  # empty for the event
    passes: float = nan  # in parts of the promised rate; NaN where none is, or too few posts came
    high: float = nan  # the share of posts that score as high as a tenth of the background

    @property
    def name(self) -> str:
        """Of whom it is said."""
        return f"seed {self.seed}" if self.seed else f"event {self.event}"


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """The seeds of a set that are watched, with what their posts are counted against."""

    seeds: SeedSet
    vectors: Embeddings  # [w]
    cuts: F32  # [w] the score that a tenth of the background reaches
    events: tuple[str, ...]  # [e]
    event: I64  # [w] the place of each one's event
    rates: F64  # [w + e] the shares of posts that are promised to pass
    keys: tuple[Key, ...]  # [w + e] what stays the same while counts may go on

    @property
    def names(self) -> list[tuple[str, str]]:
        """The event and the seed of each row."""
        own = [(seed.event, seed.id) for seed in self.seeds.seeds[: len(self.vectors)]]
        return own + [(event, "") for event in self.events]


class Drift:
    """What was counted of some seeds and of their events, for as long as these stay as they are."""

    def __init__(self, cuts: Cuts, rate: float, threshold: float | None) -> None:
        self._cuts_of, self._rate, self._threshold = cuts, rate, threshold
        self._lock = Lock()
        self._watched: Watched | None = None
        self._ready: Watched | None = None
        self._counts = np.zeros((4, 0))

    def prepare(self, seeds: SeedSet) -> None:
        """Calibrate the seeds that are to come, of which only what is new is looked at."""
        first = seeds.seeds[:WATCHED]
        events = sorted({seed.event for seed in first})
        of_event: defaultdict[str, float] = defaultdict(float)
        for seed in seeds.seeds:
            of_event[seed.event] += self._promised(seed)
        rates = [*map(self._promised, first), *(of_event[event] for event in events)]
        keys: list[Key] = [(seed.id, seed.event, seed.content, seed.threshold) for seed in first]
        vectors = seeds.embeddings[: len(first)]
        self._ready = Watched(
            *(seeds, vectors, self._calibrated(keys, vectors), tuple(events)),
            np.searchsorted(events, [seed.event for seed in first]),
            np.array(rates, np.float64),
            (*keys, *((event, str(of_event[event])) for event in events)),
        )

    def add(
        self, seeds: SeedSet, posts: int, hits: I64, told: Mapping[str, int], sample: Embeddings
    ) -> None:
        """Count some posts: how many match each seed [k] and event, and the scores of a few.

        Those that were compared with seeds which are over by now are not counted.
        """
        with self._lock:
            if (watched := self._in_force(seeds)) is None or not len(watched.vectors):
                return
            high = (sample.similarity(watched.vectors) >= watched.cuts).sum(axis=0)  # [w]
            of_events = np.bincount(watched.event, high) / np.bincount(watched.event)  # [e]
            passes = hits[: len(watched.vectors)].tolist()
            self._counts[0] += posts
            self._counts[1] += [*passes, *(told.get(event, 0) for event in watched.events)]
            self._counts[2] += len(sample)
            self._counts[3] += [*high, *of_events]
            self._counts[:2, self._counts[0] >= POSTS] /= 2
            self._counts[2:, self._counts[2] >= SAMPLED] /= 2

    def drifting(self) -> list[Drifting]:
        """Where each of them stands."""
        with self._lock:
            if self._watched is None:
                return []
            posts, passes, sampled, high = self._counts
            promised = posts * self._watched.rates
            promised = np.where(promised >= PROMISED, promised, np.nan)
            enough = np.where(sampled >= LEAST_SAMPLED, sampled, np.nan)
            rows = zip(self._watched.names, passes / promised, high / enough, strict=True)
            return [Drifting(*name, float(x), float(y)) for name, x, y in rows]

    def _calibrated(self, keys: Sequence[Key], vectors: Embeddings) -> F32:
        """The cuts of these seeds: known ones are taken over."""
        known: dict[Key, np.float32] = {}
        for before in filter(None, (self._watched, self._ready)):
            known |= dict(zip(before.keys, before.cuts, strict=False))
        new = [row for row, key in enumerate(keys) if key not in known]
        fresh = self._cuts_of(vectors[new])
        known |= {keys[row]: cut for row, cut in zip(new, fresh, strict=True)}
        return np.array([known[key] for key in keys], np.float32)  # [w]

    def _in_force(self, seeds: SeedSet) -> Watched | None:
        """What is watched of these seeds, which go on with the counts of who stays as it was."""
        watched, ready = self._watched, self._ready
        if watched is not None and watched.seeds is seeds:
            return watched
        if ready is None or ready.seeds is not seeds:
            return None
        columns = dict(zip(watched.keys if watched else (), self._counts.T, strict=True))
        kept = [columns.get(key, np.zeros(4)) for key in ready.keys]
        self._counts = np.array(kept).reshape(-1, 4).T.copy()  # [4, w + e]
        self._watched = ready
        return ready

    def _promised(self, seed: Compared) -> float:
        """The rate that its threshold promises; NaN where somebody has set that."""
        return self._rate if self._threshold is None and seed.threshold is None else nan


def in_a_sentence(drifting: Iterable[Drifting]) -> str:
    """How far a stream has drifted, in a sentence; empty where too little is known."""
    known = [each for each in drifting if not (isnan(each.passes) and isnan(each.high))]
    if not known:
        return ""
    high = max(known, key=lambda each: -1 if isnan(each.high) else each.high)
    passes = max(known, key=lambda each: -1 if isnan(each.passes) else each.passes)
    if high.high >= MANY_HIGH:
        return (
            f"{high.high:.0%} of the posts score as high with {high.name} as {HIGH:.0%} of the "
            f"background: the stream is unlike it; give it a background of its own"
        )
    if passes.passes >= MANY_PASSES:
        rest = "" if isnan(high.high) else ", while most posts score as they should"
        return f"{passes.name} passes {passes.passes:,.0f} times the promised rate{rest}"
    return "none: scores and pass rates are about as promised"
