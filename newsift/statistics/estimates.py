"""Estimates from labels: recall and precision with intervals, and the agreement of judges."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from math import inf
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from encoder.errors import InputError
from newsift.statistics.labels import Draw, Label, Verdict
from newsift.statistics.promise import F64, Bools, check_labels, check_shares, cut_scores, finite
from worker.match.bursts import chi_square_quantile, clopper_pearson
from worker.posts.outcome import PostId

Interval = tuple[float, float, float]  # its low end, the value itself, its high end


def recall_interval(
    scores: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    threshold: float,
    floor: float,
    confidence: float = 0.9,
) -> tuple[float, float]:
    """The interval of the recall of a threshold among what scores `floor` or more.

    A weight says how many posts its label stands for: 1 / the probability that it was drawn.
    """
    values, right = check_labels(scores, labels)
    check_shares(0.5, confidence)
    weight = _weights(weights, len(values))
    for name, value in (("floor", floor), ("threshold", threshold)):
        if not math.isfinite(value):
            raise InputError(f"{name}: {value!r} is no finite number")
    if floor > threshold:
        raise InputError(f"floor: {floor:g} is above the threshold {threshold:g}; lower it")
    above, below = values >= threshold, (values >= floor) & (values < threshold)
    if not right[above].any():
        return 0.0, 1.0
    alpha = 1 - confidence
    total = float(weight[above].sum())
    low, share, high = _share(weight[above], right[above], alpha)
    ratio_low, ratio_high = _ratio(
        _sum_of_draws(weight[below], right[below], alpha),
        (total * low, total * share, total * high),
    )
    least = 1 / (1 + ratio_high) if below.any() or floor == threshold else 0.0
    return least, 1 / (1 + ratio_low)


def share_interval(labels: ArrayLike, weights: ArrayLike, confidence: float = 0.9) -> Interval:
    """Which share of all posts is on the event, by the labels of some, at least one.

    Draws of unequal probability count as the fewer equal ones that would say as much (Kish).
    """
    weight = finite("weights", weights)
    _, right = check_labels(weight, labels)
    check_shares(0.5, confidence)
    return _share(_weights(weight, len(right)), right, 1 - confidence)


def _share(weight: F64, right: Bools, alpha: float) -> Interval:
    """The share by Clopper and Pearson."""
    total, n = weight.sum(), weight.sum() ** 2 / (weight**2).sum()
    share = float(weight[right].sum() / total)
    low, high = clopper_pearson(share * float(n), float(n), alpha)
    return low, share, high


def _sum_of_draws(weight: F64, right: Bools, alpha: float) -> Interval:
    """How many posts below the threshold are on the event, by Fay and Feuer."""
    total, variance = weight[right].sum(), (weight[right] ** 2).sum()
    low = _gamma_quantile(alpha / 2, total, variance) if total else 0.0
    most = weight.max(initial=0.0)
    high = _gamma_quantile(1 - alpha / 2, total + most, variance + most**2) if most else 0.0
    return low, float(total), high


def _gamma_quantile(share: float, mean: float, variance: float) -> float:
    return float(variance / (2 * mean) * chi_square_quantile(share, 2 * mean**2 / variance))


def _ratio(misses: Interval, hits: Interval) -> tuple[float, float]:
    """The interval of misses per hit (MOVER, Donner and Zou)."""
    b_low, b, b_high = misses
    t_low, t, t_high = hits
    root = math.sqrt(max(0.0, (b * t) ** 2 - b_high * t_low * (2 * b - b_high) * (2 * t - t_low)))
    high = (b * t + root) / (t_low * (2 * t - t_low))
    if not b:
        return 0.0, high
    # Written so that nothing is divided by zero where the high end of t is 2t.
    root = math.sqrt(max(0.0, (b * t) ** 2 - b_low * t_high * (2 * b - b_low) * (2 * t - t_high)))
    return b_low * (2 * b - b_low) / (b * t + root), high


def _weights(weights: ArrayLike, count: int) -> F64:
    values = finite("weights", weights)
    if len(values) != count:
        raise InputError(f"weights: {len(values)} of them and {count} scores; give each one")
    if not (values > 0).all():
        raise InputError("weights: one is not above 0; give 1 / the probability of the draw")
    return values


STEPS = (0.002, 0.005, 0.01, 0.02)  # of a histogram's scores: the first that leaves few enough
MAX_BINS = 100
MAX_SUMMARIES = 64  # of different scores; between them the next stricter one counts


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """The joint verdict of all judges on a post."""

    score: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Draws:
    """Labels of matches drawn at random; a weight is the number of matches of about that score."""

    scores: tuple[float, ...] = ()
    on: tuple[bool, ...] = ()
    weights: tuple[float, ...] = ()
    reach: float = inf  # down to this score they stand for all matches


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Labels of this score and those above."""

    least: float
    on: int
    off: int
    unsure: int
    drawn: int  # of them at random, which the rest rests on
    share: Interval | None  # on the event, of all matches
    recall: tuple[float, float] | None  # of what scores as low as the draws reach


def score_grid(*scores: ArrayLike) -> list[float]:
    """Edges of bins from 0 to above the highest of these scores; the first takes what is lower."""
    top = min(max(max((np.max(s, initial=0.0) for s in scores), default=0.0), 0.1), 1.0)
    step = next((each for each in STEPS if top < each * MAX_BINS), STEPS[-1])
    count = int(top / step) + 1
    return [round(n * step, 6) for n in range(count + 1)]


def bin_counts(edges: Sequence[float], scores: ArrayLike, weights: ArrayLike | None = None) -> F64:
    """How much lies in each bin; what is below the first edge is in the first bin."""
    clipped = np.clip(np.asarray(scores, np.float64), edges[0], edges[-1])
    return np.histogram(clipped, edges, weights=weights)[0].astype(np.float64)


def share_above(edges: Sequence[float], scores: ArrayLike) -> list[float]:
    rising = np.sort(np.asarray(scores, np.float32))
    below = np.searchsorted(rising, np.asarray(edges, np.float32), side="left")
    return ((len(rising) - below) / max(len(rising), 1)).tolist()  # type: ignore[no-any-return]


def joint_verdicts(labels: Iterable[Label]) -> dict[PostId, Verdict]:
    """By post: "on" if all judges say on; "off" if one says off and none on; else "unsure".

    An unsure judge keeps a post from counting as right, never from counting as wrong.
    """
    words_of: defaultdict[PostId, set[Verdict]] = defaultdict(set)
    for label in labels:
        words_of[label.post_id].add(label.label)

    def joint(words: set[Verdict]) -> Verdict:
        if words == {"on"}:
            return "on"
        return "off" if "off" in words and "on" not in words else "unsure"

    return {name: joint(words) for name, words in words_of.items()}


def draws_of(scores: Sequence[float], labels: Sequence[bool | None]) -> Draws:
    """The labels of matches that may certify, which are drawn in the order of their hashes.

    Between two ranks of the walk all matches were equally likely to be labelled, so each label
    there stands for as many. The draws end where a step of the walk has no label.
    """
    rows: list[tuple[float, bool, float]] = []
    reach = inf
    for above, cut in pairwise([inf, *cut_scores(scores)]):
        own = [(s, label) for s, label in zip(scores, labels, strict=True) if cut <= s < above]
        judgements = [(s, label) for s, label in own if label is not None]
        if not judgements:
            break
        rows += [(s, label, len(own) / len(judgements)) for s, label in judgements]
        reach = cut
    label_scores, on, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return Draws(label_scores, on, weights, reach)


@lru_cache(64)
def score_summaries(
    marks: tuple[LabelledScore, ...], draws: Draws, confidence: float = 0.9
) -> tuple[ScoreSummary, ...]:
    """A summary for each score of a label, from strict to loose."""
    scores = sorted({mark.score for mark in marks} | set(draws.scores), reverse=True)
    if len(scores) > MAX_SUMMARIES:
        places = np.linspace(0, len(scores) - 1, MAX_SUMMARIES).round().astype(int)
        scores = [scores[at] for at in places.tolist()]
    return tuple(_summary(score, marks, draws, confidence) for score in scores)


def _summary(
    least: float, marks: Sequence[LabelledScore], draws: Draws, confidence: float
) -> ScoreSummary:
    above = [mark.verdict for mark in marks if mark.score >= least]
    counts = [above.count(word) for word in ("on", "off", "unsure")]
    rows = [at for at, score in enumerate(draws.scores) if score >= least]
    share, recall = None, None
    if rows and least >= draws.reach:
        on, weights = [draws.on[at] for at in rows], [draws.weights[at] for at in rows]
        share = share_interval(on, weights, confidence)
    if share and least > draws.reach:
        recall = recall_interval(
            draws.scores, draws.on, draws.weights, least, draws.reach, confidence
        )
    informative = None if recall == (0.0, 1.0) else recall
    return ScoreSummary(least, counts[0], counts[1], counts[2], len(rows), share, informative)


MAX_JUDGES = 20  # those with most labels are compared: each with each


@dataclass(frozen=True, slots=True)
class Agreement:
    one: str
    other: str
    posts: int
    same: float  # the share
    kappa: float | None


def agreements(labels: Iterable[Label]) -> list[Agreement]:
    """Each pair of judges that has posts in common, by their names; labels of one event."""
    verdicts: dict[str, dict[PostId, Verdict]] = defaultdict(dict)
    for label in labels:
        verdicts[label.by][label.post_id] = label.label
    judges = sorted(sorted(verdicts, key=lambda by: (-len(verdicts[by]), by))[:MAX_JUDGES])
    rows = []
    for one, other in combinations(judges, 2):
        if both := sorted(verdicts[one].keys() & verdicts[other].keys()):
            pair = [verdicts[one][post] for post in both], [verdicts[other][post] for post in both]
            same = sum(a == b for a, b in zip(*pair, strict=True)) / len(both)
            rows.append(Agreement(one, other, len(both), same, cohens_kappa(*pair)))
    return rows


def labels_by_person(labels: Iterable[Label]) -> list[dict[str, Any]]:
    """How many labels each person gave, which ones, and on posts that were drawn how."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for label in labels:
        counts[label.by].update((label.label, label.drawn))
    names = (*get_args(Verdict), *get_args(Draw))
    return [{"by": by} | {name: counts[by][name] for name in names} for by in sorted(counts)]


def cohens_kappa(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Cohen's κ of two lists of verdicts; None where both say one and the same of everything."""
    if not one or len(one) != len(other):
        raise InputError(f"labels: {len(one)} and {len(other)} of them; give both of every post")
    n = len(one)
    first, second = Counter(one), Counter(other)
    chance = sum(first[verdict] * second[verdict] for verdict in first) / n**2
    same = sum(a == b for a, b in zip(one, other, strict=True)) / n
    return (same - chance) / (1 - chance) if chance < 1 else None
