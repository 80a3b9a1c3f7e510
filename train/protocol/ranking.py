"""Rankings by score: average precision, AUC and r-precision, equal scores taken as one step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]
Floats = NDArray[Any]

R_PRECISION_AT = (50, 100, 200, 500, 1000, 2000, 3000)


def ap_of(score: Floats, label: Bool) -> float:
    """The average precision of all that is scored, in one ranking."""
    every, own = np.sort(score, axis=None), np.sort(score[label])
    reached = every.size - np.searchsorted(every, own)  # [own] how many score as high or higher
    found = own.size - np.searchsorted(own, own)
    return float((found / reached)[::-1].mean())


def auc_of(own: Floats, foreign: Floats) -> float:
    """How often one of the first scores above one of the second, a draw as half; nan without."""
    if not foreign.size:
        return float("nan")
    ordered = np.sort(foreign)
    below = np.searchsorted(ordered, own, side="left")
    at_most = np.searchsorted(ordered, own, side="right")
    return float((below + at_most).mean() / (2 * len(foreign)))


def r_precisions(score: Floats, label: Bool) -> dict[int, float]:
    """The share of the r highest that are labelled, by r; nan where there are fewer."""
    size = min(max(R_PRECISION_AT), score.size)
    high = score >= np.partition(score, score.size - size, axis=None)[score.size - size]
    order = np.argsort(-score[high], kind="stable")[:size]  # of two equal ones the earlier first
    top = label[high][order]
    return {r: float(top[:r].mean()) if r <= size else float("nan") for r in R_PRECISION_AT}
