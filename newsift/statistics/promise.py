"""A threshold with a promise: at least so large a share of the matches above it is right.

Labels are of matches drawn at random; an unsure one counts as wrong. Cuts are tested from strict to
loose by exact tests until one fails, so that one error rate covers all of them. The loosest cut
whose own interval holds would break the promise far more often.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from encoder.errors import InputError
from newsift.statistics.distributions import CACHE_SIZE, beta_below, binomial_tail, log_beta

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_LABELS_FOR_ONE_ERROR = 40  # With fewer labels the first test allows no error.
ROUNDING = 1e-9  # A test that the numbers meet exactly is passed.


def precision_threshold(
    scores: ArrayLike, labels: ArrayLike, precision: float = 0.8, confidence: float = 0.9
) -> float | None:
    """The loosest score above which the precision is as promised; None if no cut proves it.

    The labels are of matches drawn at random, whose number was fixed beforehand.
    """
    values, right = check_labels(scores, labels)
    check_shares(precision, confidence)
    order = np.argsort(-values, kind="stable")
    values, positives = values[order], np.cumsum(right[order])
    # The first test depends on the number of labels, and never on their values.
    errors = int(len(values) >= MIN_LABELS_FOR_ONE_ERROR)
    threshold, first = None, labels_needed(precision, confidence, errors)
    # The counts of labels after which the score changes, from the first test on.
    ends = np.flatnonzero(np.append(np.diff(values) != 0, len(values) > 0)) + 1
    for k in ends[ends >= first].tolist():
        if not is_certified(int(positives[k - 1]), k, precision, confidence):
            break
        threshold = float(values[k - 1])
    return threshold


def labels_needed(precision: float, confidence: float, errors: int = 0) -> int:
    """The least number of labels, with this many errors, that prove the precision."""
    return find_smallest(errors + 1, lambda n: is_certified(n - errors, n, precision, confidence))


def find_smallest(start: int, holds: Callable[[int], bool]) -> int:
    """The least number from which on a condition holds; `start` is a guess above 0."""
    high = start
    while not holds(high):
        high *= 2
    return bisect_left(range(high), True, key=holds)


def is_certified(positives: int, n: int, precision: float, confidence: float) -> bool:
    """Whether this many positives of n would be too unlikely at a lower precision."""
    alpha = (1 - confidence) * (1 + ROUNDING)
    return binomial_tail(n, precision, positives) <= alpha


def confidence_of_test(confidence: float, number: int) -> float:
    """For one test of an event, from 1 on, so that all its tests share one error rate."""
    return 1 - (1 - confidence) * 6 / (math.pi * number) ** 2


def promise_lapses(rate: float, base_rate: float, precision: float) -> bool:
    """Whether the pass rate is too low to keep the promise.

    Without the event base_rate passes anyway, all wrongly; the promise fails when
    base_rate > (1 − precision) · rate.
    """
    return rate < base_rate / (1 - precision)


def check_shares(precision: float, confidence: float) -> None:
    """Raise unless both are between 0 and 1."""
    for name, value in (("precision", precision), ("confidence", confidence)):
        try:
            within = bool(0 < value < 1)
        except (TypeError, ValueError):  # no number at all
            within = False
        if not within:
            raise InputError(f"{name}: {value!r}; give a number between 0 and 1, such as 0.8")


def check_labels(scores: ArrayLike, labels: ArrayLike) -> tuple[F64, Bools]:
    """Checked arrays of one length."""
    values = finite_array("scores", scores)
    try:
        right = np.asarray(labels)
        are_labels = right.dtype == np.bool_ or bool(np.isin(right, (0, 1)).all())
    except (TypeError, ValueError):  # of lists of several lengths, and of pandas.NA
        right, are_labels = np.zeros(values.shape), False
    if right.shape != values.shape:
        raise InputError(
            f"labels: {right.shape} for scores {values.shape}; give one label per score"
        )
    if not are_labels:
        raise InputError("labels: one is neither true nor false; give an unsure one as false")
    return values, right.astype(np.bool_)


def finite_array(name: str, numbers: ArrayLike) -> F64:
    try:
        array = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: not a list of numbers") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(
            f"{name}: give one list of finite numbers; leave out rows without a number"
        )
    return array


FIRST_RANK, RANK_GROWTH = 25, 1.6  # Cuts are made at these ranks of the matches.
FIRST_CHANCE = 0.25  # that the strictest cut is proven, at the expected share
MOST_PLANNED = 419  # labels, a rank: what more of them prove is not counted before

# The label of a match by its index; None if there is none yet.
LabelLookup = Callable[[int], bool | None]


@dataclass(frozen=True, slots=True)
class CertifyProgress:
    """What the labels prove so far, and the match to label next."""

    threshold: float | None  # the loosest cut that is proven to keep the promise
    next_match: int | None  # the match to label next; None where no more can be proven
    missing: int  # labels until the next cut is proven, if none is wrong
    share: float = 0.0  # labelled part of the matches above that cut, the next one included
    cut: float | None = field(default=None, compare=False)  # that cut
    off: int = field(default=0, compare=False)  # wrong labels when the cut became unreachable
    label_count: int = field(default=0, compare=False)  # all labels at that time


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """How many labels a promise takes; known before the first one."""

    at_best: int  # prove the strictest cut, if none is off
    for_all: int  # prove all cuts, if none is off; 0 where the matches are too few
    usual: int  # prove the strictest cut in half of all draws; 0 where they do not
    expected_share: float  # that is on the event, in these draws


class FrozenCuts:
    """The walk over a fixed set of matches, from the strictest cut to the loosest."""

    def __init__(
        self, scores: ArrayLike, precision: float = 0.8, confidence: float = 0.9,
        proven: float | None = None,
    ) -> None:  # fmt: skip
        """The scores are in the order of the draw: of all matches above the floor, one a group.

        `proven` is a threshold that was proven before, with other cuts.
        """
        self._scores = finite_array("scores", scores)
        self.precision, self._confidence, self._proven = precision, confidence, proven
        first = first_rank(len(self._scores), precision, confidence)
        self.cuts = cut_scores(self._scores.tolist(), first)

    def plan(self) -> LabelPlan:
        least = labels_missing(0, 0, self.precision, self._confidence)
        share = expected_share(self.precision)
        if len(self._scores) < least:
            return LabelPlan(least, 0, 0, share)
        members = [np.flatnonzero(self._scores >= cut) for cut in self.cuts]
        most = min(len(members[0]), MOST_PLANNED)
        usual = bisect_left(proof_chances(most, self.precision, self._confidence), 0.5)
        return LabelPlan(
            at_best=least,
            for_all=len(np.unique(np.concatenate([each[:least] for each in members]))),
            usual=usual if usual <= most else 0,
            expected_share=share,
        )

    def progress(self, label_at: LabelLookup) -> CertifyProgress:
        threshold = self._still_proven(label_at)
        for cut in self.cuts:
            if threshold is not None and cut >= threshold:
                continue
            members = np.flatnonzero(self._scores >= cut).tolist()
            count, missing = self._walk(members, label_at)
            if missing > len(members) - count:
                verdicts = [bool(label_at(member)) for member in members[:count]]
                n = self._unreachable_after(verdicts, len(members))
                off = n - sum(verdicts[:n])
                return CertifyProgress(threshold, None, missing, cut=cut, off=off, label_count=n)
            if missing:
                share = (count + 1) / len(members)
                return CertifyProgress(threshold, members[count], missing, share, cut)
            threshold = cut
        return CertifyProgress(threshold, None, 0, cut=threshold)

    def _still_proven(self, label_at: LabelLookup) -> float | None:
        """The threshold that was proven before, unless labels were corrected since."""
        if self._proven is None:
            return None
        members = np.flatnonzero(self._scores >= self._proven).tolist()
        return None if self._walk(members, label_at)[1] else self._proven

    def _walk(self, members: Sequence[int], label_at: LabelLookup) -> tuple[int, int]:
        """(labels before the first gap, labels still missing); missing is 0 once proven."""
        positives, count, enough = 0, 0, evidence_needed(self._confidence)
        for member in members:
            if (label := label_at(member)) is None:
                break
            positives, count = positives + label, count + 1
            if log_evidence(positives, count, self.precision) >= enough:
                return count, 0
        return count, labels_missing(positives, count, self.precision, self._confidence)

    def _unreachable_after(self, verdicts: Sequence[bool], size: int) -> int:
        """The number of labels after which a set of this size was out of reach."""

        def is_unreachable(n: int) -> bool:
            missing = labels_missing(sum(verdicts[:n]), n, self.precision, self._confidence)
            return missing > size - n

        return bisect_left(range(len(verdicts)), True, key=is_unreachable)


def cut_ranks(count: int) -> list[int]:
    """The ranks of the cuts among this many matches: 25, 40, 64, 102, … and the last one."""
    ranks = [FIRST_RANK] if count else []
    while ranks and ranks[-1] < count:
        ranks.append(round(FIRST_RANK * RANK_GROWTH ** len(ranks)))
    return ranks


def first_rank(count: int, precision: float, confidence: float) -> int:
    """The rank of the strictest cut: one that a wrong label or two do not put out of reach.

    Where the matches are too few for that, the first at which they prove anything.
    """
    for rank in cut_ranks(min(count, MOST_PLANNED)):
        chances = proof_chances(min(rank, count), precision, confidence)
        if chances[-1] >= FIRST_CHANCE:
            return rank
    return labels_missing(0, 0, precision, confidence)


def expected_share(precision: float) -> float:
    """Halfway between what is promised and no wrong match."""
    return (1 + precision) / 2


@lru_cache(CACHE_SIZE)
def proof_chances(most: int, precision: float, confidence: float) -> Sequence[float]:
    """The chances that 0, 1, … labels prove the precision, at the expected share."""
    share, enough = expected_share(precision), evidence_needed(confidence)
    least = labels_missing(0, 0, precision, confidence)
    unproven = np.ones(1)  # the chance of each number of right labels without a proof
    chances = [0.0]
    for n in range(1, most + 1):
        unproven = np.append(unproven * (1 - share), 0) + np.append(0, unproven * share)
        right = n
        while n >= least and log_evidence(right, n, precision) >= enough:
            unproven[right] = 0
            right -= 1
        chances.append(1 - float(unproven.sum()))
    return chances


def cut_scores(scores: Sequence[float], first: int = 0) -> list[float]:
    """The scores of the ranks from `first` on, falling; of the last one in any case."""
    falling = sorted(scores, reverse=True)
    ranks = cut_ranks(len(falling))
    ranks = [rank for rank in ranks if rank >= first] or ranks[-1:]
    return sorted({falling[min(rank, len(falling)) - 1] for rank in ranks}, reverse=True)


@lru_cache(CACHE_SIZE)
def log_evidence(positives: int, n: int, precision: float) -> float:
    """The logarithm of the evidence of this many positives of n for more than the precision.

    A test martingale: the likelihood ratio of a uniform prior on (precision, 1) to the precision.
    """
    a, b = positives + 1, n - positives + 1
    above = beta_below(1 - precision, b, a)
    if not above:
        return -math.inf
    under_precision = positives * math.log(precision) + (b - 1) * math.log1p(-precision)
    return log_beta(a, b) + math.log(above) - math.log1p(-precision) - under_precision


def evidence_needed(confidence: float) -> float:
    return -math.log(1 - confidence) - ROUNDING


def labels_missing(positives: int, n: int, precision: float, confidence: float) -> int:
    """How many more labels give enough evidence, if none of them is wrong."""
    enough = evidence_needed(confidence)

    def is_proven(more: int) -> bool:
        return log_evidence(positives + more, n + more, precision) >= enough

    return max(1, find_smallest(1, is_proven))
