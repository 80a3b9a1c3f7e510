"""A threshold with a promise: that at least so large a share of the matches above it are right.

Labels are of matches drawn at random, an unsure one counting as wrong. Cuts are tested from strict
to loose by exact tests, and the first that fails ends it: so one error rate covers all of them.
Taking the loosest cut whose own interval holds would break the promise far more often.
"""

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray

from encoder.errors import InputError
from worker.judge.distributions import binomial_tail

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

ENOUGH = 40  # labels, from which on the first test allows one error
ROUNDING = 1e-9  # relative: a test that the numbers meet exactly is passed


def precision_threshold(
    scores: ArrayLike, labels: ArrayLike, precision: float = 0.8, confidence: float = 0.9
) -> float | None:
    """The loosest score above which the precision is as promised, or None if no cut shows it.

    The labels are of matches that were drawn at random, their number fixed before.
    """
    found, right = labelled(scores, labels)
    promised(precision, confidence)
    order = np.argsort(-found, kind="stable")
    found, positives = found[order], np.cumsum(right[order])
    passed = None
    for k in _cuts(found, first_cut(len(found), precision, confidence)):
        if not certifies(int(positives[k - 1]), k, precision, confidence):
            break
        passed = float(found[k - 1])
    return passed


def labels_needed(precision: float, confidence: float, errors: int = 0) -> int:
    """How many labels show the precision if so many of them are wrong."""
    promised(precision, confidence)
    high = errors + 1
    while not certifies(high - errors, high, precision, confidence):
        high *= 2
    return bisect_left(
        range(high), True, key=lambda n: certifies(n - errors, n, precision, confidence)
    )


def certifies(positives: int, n: int, precision: float, confidence: float) -> bool:
    """Whether so many right ones of n were too unlikely, if the precision was not reached."""
    alpha = (1 - confidence) * (1 + ROUNDING)
    return binomial_tail(n, precision, positives) <= alpha


def first_cut(n: int, precision: float, confidence: float) -> int:
    """How many of the best scored the first test takes: by the number of labels, never by them."""
    return labels_needed(precision, confidence, errors=int(n >= ENOUGH))


def confidence_of_version(confidence: float, version: int) -> float:
    """The confidence to test a version of a profile with, so that all versions share one error."""
    promised(0.5, confidence)
    if version < 1:
        raise InputError(f"version: {version} is below 1; count the profiles from 1")
    return 1 - (1 - confidence) * 6 / (math.pi * version) ** 2


def lapses(rate: float, before: float, precision: float) -> bool:
    """Whether so few posts pass that a promise no longer holds; `before` passed without the event.

    What passed before goes on to pass, wrongly: among fewer posts it is more than 1 − precision.
    """
    promised(precision, 0.5)
    if not (math.isfinite(rate) and rate >= 0 and math.isfinite(before) and before >= 0):
        raise InputError(f"pass rates: {rate!r} and {before!r}; give numbers of 0 or more")
    return rate < before / (1 - precision)


def promised(precision: float, confidence: float) -> None:
    """Refuse a precision or a confidence that nobody can promise."""
    for name, value in (("precision", precision), ("confidence", confidence)):
        try:
            within = bool(0 < value < 1)
        except (TypeError, ValueError):  # no number at all
            within = False
        if not within:
            raise InputError(f"{name}: {value!r} is not a number between 0 and 1, as 0.8")


def labelled(scores: ArrayLike, labels: ArrayLike) -> tuple[F64, Bools]:
    """Scores and labels as they can be worked with, or a refusal."""
    found, right = finite("scores", scores), np.asarray(labels)
    if right.shape != found.shape:
        raise InputError(f"labels: {right.shape} of them and {found.shape} scores; give each one")
    if right.dtype != np.bool_ and not np.isin(right, (0, 1)).all():
        raise InputError("labels: one is neither true nor false; give an unsure one as false")
    return found, right.astype(np.bool_)


def finite(name: str, values: ArrayLike) -> F64:
    """A list of finite numbers, or a refusal."""
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: not a list of numbers") from None
    if found.ndim != 1 or not np.isfinite(found).all():
        raise InputError(f"{name}: give one list of finite numbers; leave out what has none")
    return found


def _cuts(scores: F64, first: int) -> list[int]:
    """After how many labels a cut lies between different scores, from the first test on."""
    ends = np.flatnonzero(np.append(np.diff(scores) != 0, True)) + 1
    return [int(k) for k in ends if k >= first] if len(scores) else []
