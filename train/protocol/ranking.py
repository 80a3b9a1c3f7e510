"""All post–article pairs ranked by score, exactly, without ever holding them all.

Scores come in blocks of articles [posts, some articles], twice: the first pass finds the scores of
the pairs that belong together, the second counts what stands above each of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.model.weights import F32, I64

Bool = NDArray[np.bool_]
Block = tuple[F32, Bool]  # scores and labels, each [posts, some articles]
Blocks = Callable[[], Iterator[Block]]

R_PRECISION_AT = (50, 100, 200, 500, 1000, 2000, 3000)


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Where the pairs that belong together stand among all pairs."""

    positive: F32  # [p] their scores, falling
    higher: I64  # [p] how many of all pairs score higher
    level: I64  # [p] how many of all pairs score the same, itself included
    pairs: int
    top: Bool  # [t] whether the highest pairs belong together, in order
    macro_ap: float  # the mean over articles of the AP of their own ranking of posts

    @property
    def average_precision(self) -> float:
        """The area under precision and recall over all pairs; equal scores are one step."""
        found = np.searchsorted(-self.positive, -self.positive, side="right")  # [p]
        return float((found / (self.higher + self.level)).mean())

    @property
    def auc(self) -> float:
        """How often a pair that belongs together scores above one that does not; nan without."""
        count = len(self.positive)
        if count == self.pairs:
            return float("nan")
        better = np.searchsorted(-self.positive, -self.positive)  # [p] positives that score higher
        same = np.searchsorted(-self.positive, -self.positive, side="right") - better
        beaten_by = (self.higher - better) + (self.level - same) / 2
        return float(1 - beaten_by.mean() / (self.pairs - count))

    def r_precision(self, r: int) -> float:
        """The share of the r highest pairs that belong together; nan where there are fewer."""
        return float(self.top[:r].mean()) if r <= len(self.top) else float("nan")

    @property
    def mean_r_precision(self) -> float:
        """The mean of the r-precisions at the ranks that there are."""
        values = [self.r_precision(r) for r in R_PRECISION_AT]
        return float(np.nanmean(values)) if len(self.top) >= R_PRECISION_AT[0] else float("nan")


def rank_pairs(blocks: Blocks) -> Ranking:
    """The ranking of all pairs of the blocks, which must come out the same both times."""
    positive = np.sort(np.concatenate([score[label] for score, label in blocks()]))  # rising
    if not len(positive):
        raise InputError("no post of this set belongs to one of its articles")
    at_most, below = np.zeros((2, len(positive)), np.int64)
    pairs, per_article = 0, []
    top: Block = (np.zeros(0, np.float32), np.zeros(0, np.bool_))
    for score, label in blocks():
        flat = np.sort(score, axis=None)
        at_most += np.searchsorted(flat, positive, side="right")
        below += np.searchsorted(flat, positive, side="left")
        pairs += score.size
        top = highest(np.append(top[0], score), np.append(top[1], label), max(R_PRECISION_AT))
        per_article += [ap_of(score[:, j], label[:, j]) for j in np.flatnonzero(label.any(0))]
    return Ranking(
        positive[::-1], (pairs - at_most)[::-1], (at_most - below)[::-1], pairs, top[1],
        float(np.mean(per_article)),
    )  # fmt: skip


def ap_of(score: NDArray[Any], label: Bool) -> float:
    """The average precision of one ranking; equal scores are one step."""
    order = np.argsort(-score, kind="stable")
    score, label = score[order], label[order]
    last = np.append(np.diff(score) != 0, True)  # the end of every run of equal scores
    found = np.cumsum(label)[last]
    precision = found / (np.flatnonzero(last) + 1)
    return float((precision * np.diff(found, prepend=0)).sum() / found[-1])


def auc_of(own: NDArray[Any], foreign: NDArray[Any]) -> float:
    """How often one of the first scores above one of the second; a draw counts as half."""
    ordered = np.sort(foreign)
    below = np.searchsorted(ordered, own, side="left")
    at_most = np.searchsorted(ordered, own, side="right")
    return float((below + at_most).mean() / (2 * len(foreign)))


def highest(score: F32, label: Bool, size: int) -> Block:
    """So many of the highest scores and their labels, falling, the earlier of two equal first."""
    if len(score) > size:
        kept = score >= np.partition(score, len(score) - size)[len(score) - size]
        score, label = score[kept], label[kept]
    order = np.argsort(-score, kind="stable")[:size]
    return score[order], label[order]
