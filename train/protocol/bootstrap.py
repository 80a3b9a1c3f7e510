"""How far a difference could be luck: the paired bootstrap, whole clusters drawn again.

A cluster of posts is all copies of one text, a cluster of articles all articles of one title: what
hangs together is drawn together. Both scorers are judged on the same draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from encoder.model.weights import F32, I64
from train.data.splits import bare
from train.protocol.ranking import Bool

DRAWS = 1000
INTERVAL = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the interval in which 95 % of the draws lie."""

    value: float
    low: float
    high: float


def clusters_of(texts: Sequence[str]) -> I64:
    """The cluster of each text: the same for all that are alike but for links and mentions."""
    names: dict[str, int] = {}
    return np.array([names.setdefault(bare(text), len(names)) for text in texts], np.int64)


def draw_counts(cluster: I64, rng: np.random.Generator) -> I64:
    """How often each member counts when the clusters are drawn again with replacement."""
    count = int(cluster.max()) + 1
    drawn = np.bincount(rng.integers(0, count, count), minlength=count)
    return drawn[cluster]


def paired(
    scores: Sequence[F32], label: Bool, posts: I64, articles: I64, draws: int = DRAWS
) -> list[tuple[Interval, Interval]]:
    """For each scorer the AP of all pairs, and its difference to the first, with intervals.

    Scores and labels are [posts, articles]; the others give the cluster of each row and column.
    """
    ordered = [Ordered.of(score, label) for score in scores]

    def figures(rows: I64, columns: I64) -> list[float]:
        weight = np.outer(rows, columns).ravel()
        return [one.ap(weight) for one in ordered]

    return compared(figures, posts, articles, draws)


def paired_auc(
    groups: Sequence[tuple[F32, F32]], on: I64, other: I64, draws: int = DRAWS
) -> list[tuple[Interval, Interval]]:
    """The same for the AUC of two groups of posts, whose clusters are given."""
    pairs = [Beaten.of(*group) for group in groups]
    return compared(lambda *counts: [one.auc(*counts) for one in pairs], on, other, draws)


def compared(
    figures: Callable[[I64, I64], list[float]], one: I64, other: I64, draws: int
) -> list[tuple[Interval, Interval]]:
    """Each scorer's figure and its difference to the first, over draws of two kinds of clusters."""
    rng = np.random.default_rng(0)
    values = figures(*(np.ones(len(kind), np.int64) for kind in (one, other)))
    drawn = np.array(
        [figures(draw_counts(one, rng), draw_counts(other, rng)) for _ in range(draws)]
    )  # [draws, scorers]
    apart = drawn - drawn[:, :1]
    return [
        (interval(value, drawn[:, i]), interval(value - values[0], apart[:, i]))
        for i, value in enumerate(values)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """One scorer's pairs from the highest to the lowest, so that a draw need not sort again."""

    order: I64
    label: Bool
    last: Bool

    @classmethod
    def of(cls, score: F32, label: Bool) -> "Ordered":
        """Sort all pairs once."""
        order = np.argsort(-score.ravel(), kind="stable")
        ranked = score.ravel()[order]
        return cls(order, label.ravel()[order], np.append(np.diff(ranked) != 0, True))

    def ap(self, weight: I64) -> float:
        """The average precision when every pair counts so many times."""
        counted = weight[self.order]
        found, seen = np.cumsum(self.label * counted)[self.last], np.cumsum(counted)[self.last]
        gained = np.diff(found, prepend=0)
        return float((gained * found / np.maximum(seen, 1)).sum() / max(found[-1], 1))


@dataclass(frozen=True, slots=True, eq=False)
class Beaten:
    """Where each of the first group stands among the second, sorted once."""

    order: I64  # of the second group, rising
    below: I64  # [on] how many of the second score lower
    at_most: I64  # [on] how many score no higher

    @classmethod
    def of(cls, on: F32, other: F32) -> "Beaten":
        """Sort the second group once."""
        order = np.argsort(other, kind="stable")
        ranked = other[order]
        return cls(order, np.searchsorted(ranked, on, "left"), np.searchsorted(ranked, on, "right"))

    def auc(self, on: I64, other: I64) -> float:
        """The AUC when each post counts so many times."""
        mass = np.concatenate([[0], np.cumsum(other[self.order])])
        beaten = (mass[self.below] + mass[self.at_most]) / 2
        return float((on * beaten).sum() / max(on.sum() * mass[-1], 1))


def interval(value: float, drawn: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    """A value with the middle 95 % of its draws."""
    low, high = np.percentile(drawn, INTERVAL)
    return Interval(value, float(low), float(high))
