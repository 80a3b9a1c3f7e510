"""Measures of a ranking, with intervals by bootstrap."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import F32, I64
from train.data.readers import bare

Bool = NDArray[np.bool_]
Floats = NDArray[Any]

PART = 2**22  # scores that are sorted at a time
R_PRECISION_AT = (50, 100, 200, 500, 1000, 2000, 3000)


def ap_of(score: Floats, label: Bool) -> float:
    """The average precision of all that is scored, in one ranking."""
    own = np.sort(score[label])
    below, _ = _ranks(own, score)
    hits = own.size - np.searchsorted(own, own)
    return float((hits / (score.size - below))[::-1].mean())


def auc_of(own: Floats, foreign: Floats) -> float:
    """How often one of the first scores above one of the second, a draw as half; nan without."""
    if not foreign.size:
        return float("nan")
    below, at_most = _ranks(own, foreign)
    return float((below + at_most).mean() / (2 * foreign.size))


def pair_auc_of(score: Floats, label: Bool) -> float:
    """How often a pair that is labelled scores above one that is not, likewise."""
    own = np.sort(score[label])
    if own.size == score.size:
        return float("nan")
    among_all, among_own = (np.add(*_ranks(own, those)) for those in (score, own))
    return float((among_all - among_own).mean() / (2 * (score.size - own.size)))


def r_precisions(score: Floats, label: Bool) -> dict[int, float]:
    """The share of the r highest that are labelled, by r; nan where there are fewer."""
    size = min(max(R_PRECISION_AT), score.size)
    best = score.ravel()[:0]
    for part in _parts(score):
        best = np.concatenate([best, part])
        best = np.partition(best, max(0, best.size - size))[-size:]
    high = score >= best.min()
    order = np.argsort(-score[high], kind="stable")[:size]  # of two equal ones the earlier first
    top = label[high][order]
    return {r: float(top[:r].mean()) if r <= size else float("nan") for r in R_PRECISION_AT}


def _ranks(own: Floats, every: Floats) -> tuple[I64, I64]:
    """How many of all score below each of one's own, and how many at most as high."""
    below, at_most = np.zeros((2, own.size), np.int64)
    for part in map(np.sort, _parts(every)):
        below += np.searchsorted(part, own, side="left")
        at_most += np.searchsorted(part, own, side="right")
    return below, at_most


def _parts(score: Floats) -> Iterator[Floats]:
    """All scores in turn, in parts that may be copied."""
    flat = score.ravel()
    return (flat[start : start + PART] for start in range(0, flat.size, PART))


INTERVAL = (2.5, 97.5)

Figure = Callable[[I64, I64], float]
"""A figure in which each member of two groups has a count."""


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
    drawn = np.array([[figure(*count) for figure in figures] for count in counts])
    return [
        (interval(own), interval(apart))
        for own, apart in zip(drawn.T, (drawn - drawn[:, :1]).T, strict=True)
    ]


def interval(draws: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    """The first value with the middle 95 % of those drawn, which follow it."""
    low, high = np.percentile(draws[1:], INTERVAL)
    return Interval(float(draws[0]), float(low), float(high))


def ap_figure(score: F32, label: Bool) -> Figure:
    """The average precision of all pairs [posts, articles], sorted once for all draws."""
    order = np.argsort(-score.ravel(), kind="stable")
    own = label.ravel()[order]
    last = np.append(np.diff(score.ravel()[order]) != 0, True)  # of every run of equal scores

    def ap(posts: I64, articles: I64) -> float:
        counted = np.outer(posts, articles).ravel()[order]
        hits, ranked = np.cumsum(own * counted)[last], np.cumsum(counted)[last]
        gained = np.diff(hits, prepend=0)
        return float((gained * hits / np.maximum(ranked, 1)).sum() / max(hits[-1], 1))

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
