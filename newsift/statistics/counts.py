"""Counts of posts on an event, with intervals, from labels that were drawn in strata.

In each stratum posts are drawn without replacement. Where the number of labels was fixed before the
first answer, an interval is exact for each stratum, and those of the strata are added by MOVER.
Where people stopped when they liked, it is a confidence sequence, which holds at every stop. An
unsure label is off for the lower end and on for the upper one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from newsift.statistics.distributions import (
    Population,
    hypergeometric_low,
    hypergeometric_quantile,
    sequence_low,
)
from newsift.statistics.estimates import Estimate

CONFIDENCE = 0.9
MIN_LABELS = 10  # of a stratum; with fewer no upper end is stated
MIN_PERIOD_LABELS = 30  # from so many on a period is counted by its own labels
PERMUTATIONS = 999
MAX_CHANCE = 0.05  # that precision which does not change would look like this


@dataclass(frozen=True, slots=True)
class Tally:
    """Labels of some posts, and the number of these posts."""

    size: int
    on: int = 0
    off: int = 0
    unsure: int = 0

    @property
    def labels(self) -> int:
        return self.on + self.off + self.unsure

    @property
    def missing(self) -> int:
        """Labels until an upper end is stated."""
        return max(0, min(MIN_LABELS, self.size) - self.labels)

    def __add__(self, other: Self) -> "Tally":
        return Tally(
            self.size + other.size, self.on + other.on, self.off + other.off,
            self.unsure + other.unsure,
        )  # fmt: skip

    def mirrored(self) -> "Tally":
        """Off and on exchanged: the upper end of one is the lower end of the other."""
        return Tally(self.size, self.off, self.on, self.unsure)


class Ends(NamedTuple):
    """A lower end, and the value that it lies below."""

    low: float
    value: float


def count_posts(strata: Sequence[Tally], stopped: bool) -> Estimate:
    """The posts on the event in all strata; `stopped` where n was not fixed beforehand."""
    strata = [tally for tally in strata if tally.size]
    alpha = _alpha(strata, stopped)
    parts = [_lower_end(tally, stopped, alpha) for tally in strata]
    mirrored = [_lower_end(tally.mirrored(), stopped, alpha) for tally in strata]
    return _combine(parts, mirrored, sum(tally.size for tally in strata), stopped)


def count_in_period(
    pairs: Sequence[tuple[Tally, Tally]],
    stopped: bool,
    stories: Sequence[Tally] = (),
) -> Estimate:
    """The posts on the event in one period: each stratum as a whole, and its part in the period.

    `stories` are posts of the period that were not drawn by chance. A period with enough labels is
    counted by these alone. Else the posts of a stratum are assumed to be as often on the event in
    every period: those of the period without a label are then a random part of all without one.
    """
    pairs = [(whole, part) for whole, part in pairs if part.size]
    if has_own_labels([part for _, part in pairs]):
        return count_posts([*(part for _, part in pairs), *stories], stopped)
    pairs += [(story, story) for story in stories]
    alpha = _alpha([whole for whole, _ in pairs], stopped)
    parts = [_predict(whole, part, stopped, alpha) for whole, part in pairs]
    mirrored = [
        _predict(whole.mirrored(), part.mirrored(), stopped, alpha) for whole, part in pairs
    ]
    return _combine(parts, mirrored, sum(part.size for _, part in pairs), stopped)


def _alpha(strata: Sequence[Tally], stopped: bool) -> float:
    """That of each stratum: Bonferroni's where the ends of sequences are added."""
    uncertain = sum(0 < tally.labels < tally.size for tally in strata)
    return (1 - CONFIDENCE) / (max(uncertain, 1) if stopped else 1)


def _lower_end(tally: Tally, stopped: bool, alpha: float) -> Ends:
    n, on, size = tally.labels, tally.on, tally.size
    value = size * on / n if n else 0.0
    if stopped:
        return Ends(sequence_low(on, n, size, alpha), value)
    return Ends(hypergeometric_low(on, n, size, alpha / 2), value)


def _predict(whole: Tally, part: Tally, stopped: bool, alpha: float) -> Ends:
    """The part's own labels are known; the others are predicted by those of the whole."""
    n, on, rest = whole.labels, whole.on, part.size - part.labels
    value = part.on + (rest * on / n if n else 0.0)
    if not stopped:  # the labels and the rest are one population, of which n are drawn
        return Ends(hypergeometric_low(on, n, n + rest, alpha / 2) - on + part.on, value)
    # Half of alpha for the stratum at every stop, a quarter for this end of the prediction.
    least = sequence_low(on, n, whole.size, alpha / 2) - on
    others = Population(whole.size - n, least, min(rest, whole.size - n))
    return Ends(part.on + hypergeometric_quantile(alpha / 4, others), value)


def _combine(parts: Sequence[Ends], mirrored: Sequence[Ends], size: int, stopped: bool) -> Estimate:
    """MOVER, or the sum of the ends of sequences. Half of what is unsure counts in the value."""
    low, value = _add(parts, stopped)
    high, most = (size - end for end in _add(mirrored, stopped))
    return low, min(max((value + most) / 2, low), high), high


def _add(parts: Sequence[Ends], stopped: bool) -> Ends:
    value = sum(part.value for part in parts)
    below = [part.value - part.low for part in parts]
    return Ends(value - (sum(below) if stopped else math.hypot(*below)), value)


def labels_missing(strata: Sequence[Tally]) -> int:
    """How many more labels an upper end needs, in the strata that have too few."""
    return sum(tally.missing for tally in strata)


def has_own_labels(parts: Sequence[Tally]) -> bool:
    """Whether a period can be counted by its labels alone, whatever precision did elsewhere."""
    labels = sum(part.labels for part in parts)
    return labels >= MIN_PERIOD_LABELS and not labels_missing(parts)


def chance_of_constant_precision(strata: Sequence[Mapping[int, Tally]]) -> float:
    """The p-value of a permutation test: labels of each stratum by period, shuffled.

    The statistic is the sum of (on - expected)² / expected variance; unsure counts as off. The
    shuffles are the same at every call.
    """
    tables = [
        np.array([(part.on, part.labels) for part in by_period.values() if part.labels])
        for by_period in strata
    ]
    tables = [
        table for table in tables if len(table) > 1 and 0 < table[:, 0].sum() < table[:, 1].sum()
    ]
    if not tables:
        return 1.0
    random = np.random.default_rng(0)
    observed, shuffled = 0.0, np.zeros(PERMUTATIONS)
    for on, labels in (table.T for table in tables):
        expected = labels * on.sum() / labels.sum()
        variance = expected * (1 - on.sum() / labels.sum())
        draws = random.multivariate_hypergeometric(labels, on.sum(), PERMUTATIONS)
        observed += float(((on - expected) ** 2 / variance).sum())
        shuffled += ((draws - expected) ** 2 / variance).sum(axis=1)
    return (1 + int((shuffled >= observed * (1 - 1e-9)).sum())) / (1 + PERMUTATIONS)
