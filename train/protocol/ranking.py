"""Rankings by score: average precision, AUC and r-precision, equal scores taken as one step."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.model.weights import I64

Bool = NDArray[np.bool_]
Floats = NDArray[Any]

PART = 2**22  # scores that are sorted at a time
R_PRECISION_AT = (50, 100, 200, 500, 1000, 2000, 3000)


def ap_of(score: Floats, label: Bool) -> float:
    """The average precision of all that is scored, in one ranking."""
    own = np.sort(score[label])
    below, _ = _ranks(own, score)
    found = own.size - np.searchsorted(own, own)
    return float((found / (score.size - below))[::-1].mean())


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
