"""How far a difference could be luck: the paired bootstrap, whole clusters drawn again.

A cluster of posts is all copies of one text, a cluster of articles all articles of one title: what
hangs together is drawn together. All scorers are judged on the same draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from encoder.model.weights import F32, I64
from train.data.splits import bare
from train.protocol.ranking import Bool

INTERVAL = (2.5, 97.5)

Figure = Callable[[I64, I64], float]
"""A figure where each member of two groups counts so many times."""


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


def compared(
    figures: Sequence[Figure], one: I64, other: I64, draws: int
) -> list[tuple[Interval, Interval]]:
    """Each scorer's figure, and its difference to the first's, over draws of two groups' clusters.

    The groups are given by the cluster of each member.
    """
    rng = np.random.default_rng(0)
    counts = [(np.ones_like(one), np.ones_like(other))]
    counts += [(draw_counts(one, rng), draw_counts(other, rng)) for _ in range(draws)]
    found = np.array([[figure(*count) for figure in figures] for count in counts])
    return [
        (interval(own), interval(apart))
        for own, apart in zip(found.T, (found - found[:, :1]).T, strict=True)
    ]


def interval(found: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    """The first value with the middle 95 % of those drawn, which follow it."""
    low, high = np.percentile(found[1:], INTERVAL)
    return Interval(float(found[0]), float(low), float(high))


def ap_figure(score: F32, label: Bool) -> Figure:
    """The average precision of all pairs [posts, articles], sorted once for all draws."""
    order = np.argsort(-score.ravel(), kind="stable")
    own = label.ravel()[order]
    last = np.append(np.diff(score.ravel()[order]) != 0, True)  # of every run of equal scores

    def ap(posts: I64, articles: I64) -> float:
        counted = np.outer(posts, articles).ravel()[order]
        found, seen = np.cumsum(own * counted)[last], np.cumsum(counted)[last]
        gained = np.diff(found, prepend=0)
        return float((gained * found / np.maximum(seen, 1)).sum() / max(found[-1], 1))

    return ap


def auc_figure(on: F32, other: F32) -> Figure:
    """The AUC of two groups of posts, sorted once for all draws."""
    order = np.argsort(other, kind="stable")
    below, at_most = (np.searchsorted(other[order], on, side) for side in ("left", "right"))

    def auc(ons: I64, others: I64) -> float:
        mass = np.concatenate([[0], np.cumsum(others[order])])
        beaten = (mass[below] + mass[at_most]) / 2
        return float((ons * beaten).sum() / max(ons.sum() * mass[-1], 1))

    return auc
