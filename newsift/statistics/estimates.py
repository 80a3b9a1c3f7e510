"""Estimates from labels: recall and precision with intervals, and the agreement of judges."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from encoder.errors import InputError
from newsift.statistics.distributions import chi_square_quantile, clopper_pearson
from newsift.statistics.labels import Draw, Label, Verdict
from newsift.statistics.promise import (
    F64,
    Bools,
    check_labels,
    check_shares,
    cut_scores,
    finite_array,
)
from worker.posts.outcome import PostId

LEAST_WEIGHT, MAX_WEIGHT = 1 - 1e-9, 1e12  # of a label; that of a certain draw may be rounded
Bounds = tuple[float, float]
Estimate = tuple[float, float, float]  # low end of the interval, value, high end
MAX_DIGITS = 9


def percent(share: float, digits: int = 0) -> str:
    """As the desk writes it: only 1 is 100, and only 0 is 0."""
    text = f"{100 * share:.{digits}f}"
    is_exact = share in (0, 1) or digits == MAX_DIGITS
    return percent(share, digits + 1) if not is_exact and float(text) in (0, 100) else text


def recall_interval(
    scores: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    threshold: float,
    floor: float,
    confidence: float = 0.9,
) -> Bounds:
    """The interval of a threshold's recall, among posts that score at least `floor`.

    A weight says how many posts its label stands for: 1 / the probability that it was drawn.
    """
    values, is_right = check_labels(scores, labels)
    check_shares(0.5, confidence)
    weight = finite_array("weights", weights)
    if len(weight) != len(values):
        raise InputError(
            f"weights: {len(weight)} for {len(values)} scores; give one weight per score"
        )
    if not ((weight > LEAST_WEIGHT) & (weight < MAX_WEIGHT)).all():
        raise InputError(
            f"weights: one is below 1 or above {MAX_WEIGHT:g}; give 1 / the probability of the draw"
        )
    numbers: dict[str, object] = {"floor": floor, "threshold": threshold}
    for name, value in numbers.items():
        if not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise InputError(f"{name}: {value!r}; give a finite number")
    if floor > threshold:
        raise InputError(f"floor: {floor:g} is above the threshold {threshold:g}; lower it")
    above, below = values >= threshold, (values >= floor) & (values < threshold)
    if not is_right[above].any():
        return 0.0, 1.0
    alpha = 1 - confidence
    total = float(weight[above].sum())
    low, share, high = share_interval(is_right[above], weight[above], confidence)
    ratio_low, ratio_high = _ratio_interval(
        _weighted_count(weight[below], is_right[below], alpha),
        (total * low, total * share, total * high),
    )
    low = 1 / (1 + ratio_high) if below.any() or floor == threshold else 0.0
    return low, 1 / (1 + ratio_low)


def share_interval(labels: ArrayLike, weights: ArrayLike, confidence: float = 0.9) -> Estimate:
    """The share of all posts that is on the event, by at least one weighted label.

    The interval is that of Clopper and Pearson; unequal weights enter through Kish's effective
    sample size.
    """
    weight, is_right = np.asarray(weights, np.float64), np.asarray(labels, np.bool_)
    total, n = weight.sum(), weight.sum() ** 2 / (weight**2).sum()
    share = float(weight[is_right].sum() / total)
    low, high = clopper_pearson(share * float(n), float(n), 1 - confidence)
    return low, share, high


def _weighted_count(weight: F64, is_right: Bools, alpha: float) -> Estimate:
    """How many posts below the threshold are on the event, by Fay and Feuer."""
    total, variance = weight[is_right].sum(), (weight[is_right] ** 2).sum()
    low = _gamma_quantile(alpha / 2, total, variance) if total else 0.0
    heaviest = weight.max(initial=0.0)
    high = 0.0
    if heaviest:
        high = _gamma_quantile(1 - alpha / 2, total + heaviest, variance + heaviest**2)
    return low, float(total), high


def _gamma_quantile(probability: float, mean: float, variance: float) -> float:
    return float(variance / (2 * mean) * chi_square_quantile(probability, 2 * mean**2 / variance))


def _ratio_interval(misses: Estimate, hits: Estimate) -> tuple[float, float]:
    """The interval of misses per hit (MOVER, Donner and Zou)."""
    m_low, m, m_high = misses
    h_low, h, h_high = hits
    root = math.sqrt(max(0.0, (m * h) ** 2 - m_high * h_low * (2 * m - m_high) * (2 * h - h_low)))
    high = (m * h + root) / (h_low * (2 * h - h_low))
    if not m:
        return 0.0, high
    # In this form nothing is divided by zero where the high end of h is 2h.
    root = math.sqrt(max(0.0, (m * h) ** 2 - m_low * h_high * (2 * m - m_low) * (2 * h - h_high)))
    return m_low * (2 * m - m_low) / (m * h + root), high


BIN_WIDTHS = (0.002, 0.005, 0.01, 0.02)  # The narrowest with at most MAX_BINS bins is used.
MAX_BINS = 100
MAX_SUMMARIES = 64  # A score between two summaries uses the stricter one.


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """A post's score, and the joint verdict of its judges."""

    score: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class DrawnLabels:
    """Labels of matches drawn at random; a weight is the number of matches of about that score."""

    scores: tuple[float, ...] = ()
    on: tuple[bool, ...] = ()
    weights: tuple[float, ...] = ()
    lowest_covered: float = math.inf  # above it they represent all matches


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Labels of the posts that score `least` or more."""

    least: float
    on: int
    off: int
    unsure: int
    random_labels: int  # share and recall use only these
    share: Estimate | None  # of the matches, on the event
    recall: Bounds | None  # among matches that score at least lowest_covered


def score_grid(*scores: ArrayLike) -> list[float]:
    """Edges of bins from 0 to above the highest of these scores; the first takes what is lower."""
    top = min(max(max((np.max(s, initial=0.0) for s in scores), default=0.0), 0.1), 1.0)
    width = next((width for width in BIN_WIDTHS if top < width * MAX_BINS), BIN_WIDTHS[-1])
    count = int(top / width) + 1
    return [round(n * width, 6) for n in range(count + 1)]


def bin_counts(edges: Sequence[float], scores: ArrayLike, weights: ArrayLike | None = None) -> F64:
    """How much lies in each bin; what is below the first edge is in the first bin."""
    values = np.clip(np.asarray(scores, np.float64), edges[0], edges[-1])
    return np.histogram(values, edges, weights=weights)[0].astype(np.float64)


def share_above(edges: Sequence[float], scores: ArrayLike) -> list[float]:
    rising = np.sort(np.asarray(scores, np.float32))
    below = np.searchsorted(rising, np.asarray(edges, np.float32), side="left")
    return ((len(rising) - below) / max(len(rising), 1)).tolist()  # type: ignore[no-any-return]


def weigh_draws(scores: Sequence[float], labels: Sequence[bool | None]) -> DrawnLabels:
    """The labels among the matches that may certify, which are labelled in random order.

    Between two cuts all matches are equally likely to be labelled, so a label's weight is the
    number of matches there by the number of labels. Stops at the first gap without a label.
    """
    rows: list[tuple[float, bool, float]] = []
    lowest_covered = math.inf
    for above, cut in pairwise([math.inf, *cut_scores(scores)]):
        band = [(s, label) for s, label in zip(scores, labels, strict=True) if cut <= s < above]
        pairs = [(s, label) for s, label in band if label is not None]
        if not pairs:
            break
        rows += [(s, label, len(band) / len(pairs)) for s, label in pairs]
        lowest_covered = cut
    label_scores, on, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return DrawnLabels(label_scores, on, weights, lowest_covered)


@lru_cache(64)
def score_summaries(
    labelled_scores: tuple[LabelledScore, ...], draws: DrawnLabels
) -> tuple[ScoreSummary, ...]:
    """A summary for each score of a label, from strict to loose."""
    scores = sorted({post.score for post in labelled_scores} | set(draws.scores), reverse=True)
    if len(scores) > MAX_SUMMARIES:
        indexes = np.linspace(0, len(scores) - 1, MAX_SUMMARIES).round().astype(int)
        scores = [scores[n] for n in indexes.tolist()]
    return tuple(_summary(score, labelled_scores, draws) for score in scores)


def _summary(
    least: float, labelled_scores: Sequence[LabelledScore], draws: DrawnLabels
) -> ScoreSummary:
    above = Counter(post.verdict for post in labelled_scores if post.score >= least)
    rows = [n for n, score in enumerate(draws.scores) if score >= least]
    share, recall = None, None
    if rows and least >= draws.lowest_covered:
        on, weights = [draws.on[n] for n in rows], [draws.weights[n] for n in rows]
        share = share_interval(on, weights)
    if share and least > draws.lowest_covered:
        recall = recall_interval(draws.scores, draws.on, draws.weights, least, draws.lowest_covered)
    informative = None if recall == (0.0, 1.0) else recall
    return ScoreSummary(
        least, above["on"], above["off"], above["unsure"], len(rows), share, informative
    )


MAX_JUDGES = 20  # The judges with most labels are compared in pairs.


@dataclass(frozen=True, slots=True)
class Agreement:
    judge_a: str
    judge_b: str
    posts: int
    agreement: float  # share of the posts
    kappa: float | None


def agreements(labels: Iterable[Label]) -> list[Agreement]:
    """Each pair of judges that has posts in common, by their names; labels of one event."""
    verdicts: dict[str, dict[PostId, Verdict]] = defaultdict(dict)
    for label in labels:
        verdicts[label.by][label.post_id] = label.label
    judges = sorted(sorted(verdicts, key=lambda by: (-len(verdicts[by]), by))[:MAX_JUDGES])
    rows = []
    for a, b in combinations(judges, 2):
        if both := sorted(verdicts[a].keys() & verdicts[b].keys()):
            pair = [verdicts[a][post] for post in both], [verdicts[b][post] for post in both]
            share = sum(x == y for x, y in zip(*pair, strict=True)) / len(both)
            rows.append(Agreement(a, b, len(both), share, cohens_kappa(*pair)))
    return rows


def count_labels(labels: Iterable[Label]) -> list[dict[str, Any]]:
    """Label counts of each person, by verdict and by how the post was drawn."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for label in labels:
        counts[label.by].update((label.label, label.drawn))
    names = (*get_args(Verdict), *get_args(Draw))
    return [{"by": by} | {name: counts[by][name] for name in names} for by in sorted(counts)]


def cohens_kappa(a: Sequence[str], b: Sequence[str]) -> float | None:
    """Cohen's κ of two lists of verdicts; None if both have only one verdict, the same."""
    n, counts_a, counts_b = len(a), Counter(a), Counter(b)
    chance = sum(counts_a[verdict] * counts_b[verdict] for verdict in counts_a) / n**2
    agreement = sum(x == y for x, y in zip(a, b, strict=True)) / n
    return (agreement - chance) / (1 - chance) if chance < 1 else None
