"""Ranking metrics with bootstrap intervals."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import F32, I64
from train.data.readers import copy_key

Bool = NDArray[np.bool_]
Floats = NDArray[Any]

PART = 2**22  # scores that are sorted at a time
R_PRECISION_AT = (50, 100, 200, 500, 1000, 2000, 3000)


def ap_of(score: Floats, label: Bool) -> float:
    """Average precision over all scores in one ranking."""
    own = np.sort(score[label])
    below, _ = _ranks(own, score)
    hits = own.size - np.searchsorted(own, own)
    return float((hits / (score.size - below))[::-1].mean())


def auc_of(own: Floats, foreign: Floats) -> float:
    """The AUC of two groups; nan if the second is empty."""
    if not foreign.size:
        return float("nan")
    below, at_most = _ranks(own, foreign)
    return float((below + at_most).mean() / (2 * foreign.size))


def pair_auc_of(score: Floats, label: Bool) -> float:
    """The AUC of labelled against unlabelled pairs; nan if all are labelled."""
    own = np.sort(score[label])
    if own.size == score.size:
        return float("nan")
    among_all, among_own = (np.add(*_ranks(own, those)) for those in (score, own))
    return float((among_all - among_own).mean() / (2 * (score.size - own.size)))


def r_precisions(score: Floats, label: Bool) -> dict[int, float]:
    """Precision of the r highest scores, by r; nan if there are fewer."""
    size = min(max(R_PRECISION_AT), score.size)
    best = score.ravel()[:0]
    for part in _parts(score):
        best = np.concatenate([best, part])
        best = np.partition(best, max(0, best.size - size))[-size:]
    high = score >= best.min()
    order = np.argsort(-score[high], kind="stable")[:size]  # equal scores in order of index
    top = label[high][order]
    return {r: float(top[:r].mean()) if r <= size else float("nan") for r in R_PRECISION_AT}


def _ranks(own: Floats, every: Floats) -> tuple[I64, I64]:
    """Count the scores below each of `own`, and those at most as high."""
    below, at_most = np.zeros((2, own.size), np.int64)
    for part in map(np.sort, _parts(every)):
        below += np.searchsorted(part, own, side="left")
        at_most += np.searchsorted(part, own, side="right")
    return below, at_most


def _parts(score: Floats) -> Iterator[Floats]:
    """Divide the scores into parts that are small enough to copy."""
    flat = score.ravel()
    return (flat[start : start + PART] for start in range(0, flat.size, PART))


INTERVAL = (2.5, 97.5)

Figure = Callable[[I64, I64], float]
"""A figure in which each member of two groups has a count."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def clusters_of(texts: Sequence[str]) -> I64:
    """Assign texts to clusters; texts that differ only in links and mentions share one."""
    names: dict[str, int] = {}
    return np.array([names.setdefault(copy_key(text), len(names)) for text in texts], np.int64)


def draw_counts(cluster: I64, rng: np.random.Generator) -> I64:
    """Resample the clusters with replacement, and return each member's count."""
    count = int(cluster.max()) + 1
    counts = np.bincount(rng.integers(0, count, count), minlength=count)
    return counts[cluster]


def compare_scorers(
    figures: Sequence[Figure], one: I64, other: I64, draws: int
) -> list[tuple[Interval, Interval]]:
    """Bootstrap each scorer's figure and its difference from the first scorer's.

    `one` and `other` give the cluster of each member of the two groups.
    """
    rng = np.random.default_rng(0)
    counts = [(np.ones_like(one), np.ones_like(other))]
    counts += [(draw_counts(one, rng), draw_counts(other, rng)) for _ in range(draws)]
    samples = np.array([[figure(*count) for figure in figures] for count in counts])
    return [
        (interval(own), interval(apart))
        for own, apart in zip(samples.T, (samples - samples[:, :1]).T, strict=True)
    ]


def interval(draws: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    """Return draws[0] with the middle 95 % of the other draws, without those that are nan."""
    others = draws[1:][~np.isnan(draws[1:])]
    low, high = np.percentile(others, INTERVAL) if others.size else (np.nan, np.nan)
    return Interval(float(draws[0]), float(low), float(high))


def ap_figure(score: F32, label: Bool) -> Figure:
    """Average precision of all pairs [posts, articles]; sorts once for all draws.

    nan for a draw without a pair that belongs together.
    """
    order = np.argsort(-score.ravel(), kind="stable")
    own = label.ravel()[order]
    last = np.append(np.diff(score.ravel()[order]) != 0, True)  # the last of equal scores

    def ap(posts: I64, articles: I64) -> float:
        weights = np.outer(posts, articles).ravel()[order]
        hits, ranks = np.cumsum(own * weights)[last], np.cumsum(weights)[last]
        gains = np.diff(hits, prepend=0)
        total = (gains * hits / np.maximum(ranks, 1)).sum()
        return float(total / hits[-1]) if hits[-1] else float("nan")

    return ap


def auc_figure(on: F32, other: F32) -> Figure:
    """The AUC of two groups of posts; sorts once for all draws."""
    order = np.argsort(other, kind="stable")
    below, at_most = (np.searchsorted(other[order], on, side) for side in ("left", "right"))

    def auc(ons: I64, others: I64) -> float:
        mass = np.concatenate([[0], np.cumsum(others[order])])
        beaten = (mass[below] + mass[at_most]) / 2
        return float((ons * beaten).sum() / max(ons.sum() * mass[-1], 1))

    return auc


def mean_figure(values: Sequence[float]) -> Figure:
    """The mean of the values of the first group's members."""
    return lambda counts, _: float(np.average(values, weights=counts))


def recall_figure(on: F32, background: F32, rate: float) -> Figure:
    """The share of posts that any seed finds, where each lets `rate` of the background pass.

    `on` [n, k] and `background` [m, k] are scores with k seeds; they are sorted once for all draws.
    """
    order = np.argsort(-background, axis=0, kind="stable")  # [m, k]
    falling = np.take_along_axis(background, order, 0)

    def recall(ons: I64, others: I64) -> float:
        passed = np.cumsum(others[order], axis=0)  # [m, k]
        first_out = (passed <= rate * others.sum()).sum(0)  # [k]: with it, too many would pass
        cuts = np.take_along_axis(falling, first_out[None, :], 0)
        return float(ons @ (on > cuts).any(1) / max(ons.sum(), 1))

    return recall
