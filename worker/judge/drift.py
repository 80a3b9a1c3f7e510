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


class Drift:
    """What was counted of some seeds and of their events, for as long as these stay as they are."""

    def __init__(self, seeds: SeedSet, cuts: Cuts, rate: float, threshold: float | None) -> None:
        self._cuts_of, self._rate, self._threshold = cuts, rate, threshold
        self._lock = Lock()
        self._keys: list[Key] = []
        self._counts = np.zeros((4, 0))
        self._cuts = np.zeros(0, np.float32)
        self._watch(seeds)

    def add(
        self, seeds: SeedSet, posts: int, hits: I64, told: Mapping[str, int], sample: Embeddings
    ) -> None:
        """Count some posts: how many match each seed [k] and event, and the scores of a few."""
        with self._lock:
            if seeds is not self._seeds:
                self._watch(seeds)
            watched = len(self._vectors)
            if not watched:
                return
            high = (sample.similarity(self._vectors) >= self._cuts).sum(axis=0)  # [w]
            of_events = np.bincount(self._event, high) / np.bincount(self._event)  # [e]
            passes = [*hits[:watched].tolist(), *(told.get(event, 0) for event in self._events)]
            self._counts[0] += posts
            self._counts[1] += passes
            self._counts[2] += len(sample)
            self._counts[3] += [*high, *of_events]
            self._counts[:2, self._counts[0] >= POSTS] /= 2
            self._counts[2:, self._counts[2] >= SAMPLED] /= 2

    def drifting(self) -> list[Drifting]:
        """Where each of them stands."""
        with self._lock:
            posts, passes, sampled, high = self._counts
            promised = np.where(posts * self._rates >= PROMISED, posts * self._rates, np.nan)
            enough = np.where(sampled >= LEAST_SAMPLED, sampled, np.nan)
            rows = zip(self._names, passes / promised, high / enough, strict=True)
            return [Drifting(*name, float(x), float(y)) for name, x, y in rows]

    def _watch(self, seeds: SeedSet) -> None:
        """Go on with this set; who stays as it was keeps what was counted of it."""
        first = seeds.seeds[:WATCHED]
        self._seeds, self._vectors = seeds, seeds.embeddings[: len(first)]
        self._events = sorted({seed.event for seed in first})  # [e]
        self._event = np.searchsorted(self._events, [seed.event for seed in first])  # [w]
        self._names = [(seed.event, seed.id) for seed in first]
        self._names += [(event, "") for event in self._events]
        of_event: defaultdict[str, float] = defaultdict(float)
        for seed in seeds.seeds:
            of_event[seed.event] += self._promised(seed)
        rates = [*map(self._promised, first), *(of_event[event] for event in self._events)]
        self._rates = np.array(rates, np.float64)  # [w + e]
        self._keep(
            [(seed.id, seed.event, seed.content, seed.threshold) for seed in first],
            [(event, str(of_event[event])) for event in self._events],
        )

    def _keep(self, seeds: Sequence[Key], events: Sequence[Key]) -> None:
        """Take over cuts and counts of these that are known, and calibrate the new seeds."""
        cuts = dict(zip(self._keys, self._cuts, strict=False))
        new = [row for row, key in enumerate(seeds) if key not in cuts]
        fresh = self._cuts_of(self._vectors[new])
        cuts |= {seeds[row]: cut for row, cut in zip(new, fresh, strict=True)}
        self._cuts = np.array([cuts[key] for key in seeds], np.float32)  # [w]
        before = dict(zip(self._keys, self._counts.T, strict=True))
        self._keys = [*seeds, *events]
        kept = [before.get(key, np.zeros(4)) for key in self._keys]
        self._counts = np.array(kept).reshape(-1, 4).T.copy()  # [4, w + e]

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
