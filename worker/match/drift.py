"""Drift: whether a stream scores higher than the background that the thresholds come from.

Two measures for each seed and event: its pass rate divided by the rate of its automatic threshold
(an event on the stream raises it too), and the share of all posts that score higher than nine
tenths of the background. Few posts are on an event, so the second measure describes all the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import F32, I64
from worker.seeds.profile import SeedOrProfile
from worker.seeds.set import SeedSet

MAX_WATCHED_SEEDS = 100
HIGH_SHARE = 0.1  # A high score is one that a tenth of the background reaches.
POSTS_HALF_LIFE = 200_000  # All counts are halved after so many posts.
SAMPLE_HALF_LIFE = 2_000
MIN_PROMISED_PASSES = 10  # Fewer give no rate.
MIN_SAMPLED_POSTS = 500  # Fewer give no share.
ALERT_PASSES = 10.0  # times the promised rate
ALERT_HIGH_SHARE = 0.3

F64 = NDArray[np.float64]
HighScores = Callable[[Embeddings], F32]  # the score that a tenth of the background reaches
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class DriftMeasure:
    """The drift of a seed, or of an event as a whole."""

    event: str
    seed: str  # empty for the event
    passes: float = nan  # in parts of the promised rate; NaN where none is, or too few posts came
    high: float = nan  # the share of posts that score as high as a tenth of the background

    @property
    def name(self) -> str:
        return f"seed {self.seed}" if self.seed else f"event {self.event}"


@dataclass(frozen=True, slots=True, eq=False)
class WatchedSeeds:
    """The seeds whose drift is measured."""

    seeds: SeedSet
    vectors: Embeddings  # [w]
    high_scores: F32  # [w]
    events: tuple[str, ...]  # [e]
    event_rows: I64  # [w] the place of each one's event in `events`
    rates: F64  # [w + e] the shares of posts that are promised to pass
    keys: tuple[Key, ...]  # [w + e] what stays the same while counts may go on

    @property
    def names(self) -> list[tuple[str, str]]:
        """Event and seed of each row."""
        seeds = [(seed.event, seed.id) for seed in self.seeds.seeds[: len(self.vectors)]]
        return seeds + [(event, "") for event in self.events]


class Drift:
    """Counts posts and scores of some seeds and their events."""

    def __init__(
        self, high_scores: HighScores, rate: float | None, threshold: float | None
    ) -> None:
        """`rate` is that of each automatic threshold; None where only a total rate is promised."""
        self._high_scores_of, self._rate, self._threshold = high_scores, rate, threshold
        self._lock = Lock()
        self._current: WatchedSeeds | None = None
        self._ready: WatchedSeeds | None = None
        self._counts = np.zeros((4, 0))

    def prepare(self, seeds: SeedSet) -> None:
        """Calibrate a new seed set; only new seeds are compared with the background."""
        first = seeds.seeds[:MAX_WATCHED_SEEDS]
        events = sorted({seed.event for seed in first})
        of_event = dict.fromkeys(events, 0.0)
        row_of = {event: row for row, event in enumerate(events)}  # numpy drops a final NUL
        for seed in seeds.seeds:
            if seed.event in of_event:
                of_event[seed.event] += self._promised_rate(seed)
        rates = [*map(self._promised_rate, first), *(of_event[event] for event in events)]
        keys: list[Key] = [(seed.id, seed.event, seed.content, seed.threshold) for seed in first]
        vectors = seeds.vectors[: len(first)]
        self._ready = WatchedSeeds(
            *(seeds, vectors, self._calibrate(keys, vectors), tuple(events)),
            np.array([row_of[seed.event] for seed in first], np.int64),
            np.array(rates, np.float64),
            (*keys, *((event, str(of_event[event])) for event in events)),
        )

    def add(
        self,
        seeds: SeedSet,
        posts: int,
        hits: I64,
        posts_by_event: Mapping[str, int],
        sample: Embeddings,
    ) -> None:
        """Count posts: how many match each seed [k] and event, and the scores of a sample.

        Posts that were matched with an older seed set are not counted.
        """
        with self._lock:
            if (current := self._activate(seeds)) is None or not len(current.vectors):
                return
            high = (sample.similarity(current.vectors) >= current.high_scores).sum(axis=0)  # [w]
            rows = current.event_rows
            of_events = np.bincount(rows, high) / np.bincount(rows)  # [e]
            passes = hits[: len(current.vectors)].tolist()
            self._counts[0] += posts
            self._counts[1] += [
                *passes,
                *(posts_by_event.get(event, 0) for event in current.events),
            ]
            self._counts[2] += len(sample)
            self._counts[3] += [*high, *of_events]
            self._counts[:2, self._counts[0] >= POSTS_HALF_LIFE] /= 2
            self._counts[2:, self._counts[2] >= SAMPLE_HALF_LIFE] /= 2

    def measures(self) -> list[DriftMeasure]:
        with self._lock:
            if self._current is None:
                return []
            posts, passes, sample_sizes, high = self._counts
            promises = posts * self._current.rates
            promises = np.where(promises >= MIN_PROMISED_PASSES, promises, np.nan)
            enough = np.where(sample_sizes >= MIN_SAMPLED_POSTS, sample_sizes, np.nan)
            rows = zip(self._current.names, passes / promises, high / enough, strict=True)
            return [DriftMeasure(*name, float(x), float(y)) for name, x, y in rows]

    def _calibrate(self, keys: Sequence[Key], vectors: Embeddings) -> F32:
        """Computes the high scores of new seeds only."""
        high_scores: dict[Key, np.float32] = {}
        for before in filter(None, (self._current, self._ready)):
            high_scores |= dict(zip(before.keys, before.high_scores, strict=False))
        new = [row for row, key in enumerate(keys) if key not in high_scores]
        fresh = self._high_scores_of(vectors[new])
        high_scores |= {keys[row]: score for row, score in zip(new, fresh, strict=True)}
        return np.array([high_scores[key] for key in keys], np.float32)  # [w]

    def _activate(self, seeds: SeedSet) -> WatchedSeeds | None:
        """Seeds that did not change keep their counts."""
        current, ready = self._current, self._ready
        if current is not None and current.seeds is seeds:
            return current
        if ready is None or ready.seeds is not seeds:
            return None
        columns = dict(zip(current.keys if current else (), self._counts.T, strict=True))
        rows = [columns.get(key, np.zeros(4)) for key in ready.keys]
        self._counts = np.array(rows).reshape(-1, 4).T.copy()  # [4, w + e]
        self._current = ready
        return ready

    def _promised_rate(self, seed: SeedOrProfile) -> float:
        """NaN where no rate is promised."""
        is_automatic = self._threshold is None and seed.threshold is None
        return self._rate if is_automatic and self._rate is not None else nan


def describe_drift(measures: Iterable[DriftMeasure]) -> str:
    """Empty if too few posts were counted."""
    measures = [
        measure for measure in measures if not (isnan(measure.passes) and isnan(measure.high))
    ]
    if not measures:
        return ""
    high = max(measures, key=lambda measure: -1 if isnan(measure.high) else measure.high)
    passes = max(measures, key=lambda measure: -1 if isnan(measure.passes) else measure.passes)
    if high.high >= ALERT_HIGH_SHARE:
        return (
            f"{high.high:.0%} of the posts score as high with {high.name} as {HIGH_SHARE:.0%} "
            f"of the background: the stream is unlike it; give it a background of its own"
        )
    if passes.passes >= ALERT_PASSES:
        rest = "" if isnan(high.high) else ", while most posts score as they should"
        return f"{passes.name} passes {passes.passes:,.0f} times the promised rate{rest}"
    return "none: scores and pass rates are about as promised"
