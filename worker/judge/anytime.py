"""The same promise while people look: after every label, and they may stop when they like.

The cuts are frozen before anything is labelled. The matches above the strictest one are labelled
in the order of their hashes until the evidence is enough, then those above the next; a label
counts for every set that its match is in. The evidence is an e-process: were the precision short
of what is promised, it would ever reach 1 / α with a probability of at most α.

Labels beyond those that were asked for cannot harm: of each set only the prefix up to the first
match without a label is read, and the bound is on the whole path. A set that is out of reach stays
out of reach, as it is so even if all of its other matches are right.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from encoder.errors import InputError
from worker.judge.distributions import REMEMBERED, beta_below, log_beta
from worker.judge.promise import ROUNDING, finite, promised

FIRST, GROWTH = 25, 1.6  # ranks of the matches at which cuts are made

Said = Callable[[int], bool | None]  # the label of a match by its place; None if there is none yet


@dataclass(frozen=True, slots=True)
class Look:
    """What the labels show by now, and whom to ask about next."""

    threshold: float | None  # the loosest cut that is shown to keep the promise
    ask: int | None  # the match to label next; None where no more can be shown
    missing: int  # so many labels until the next cut is shown, if none is wrong
    share: float = 0.0  # of the matches above that cut which are labelled, with that one
    cut: float | None = field(default=None, compare=False)  # that cut
    off: int = field(default=0, compare=False)  # of the labels that put it out of reach
    labelled: int = field(default=0, compare=False)  # so many labels put it out of reach


@dataclass(frozen=True, slots=True)
class FrozenCuts:
    """The cuts between the matches that are looked at, from strict to loose."""

    cuts: tuple[float, ...]
    precision: float = 0.8
    confidence: float = 0.9

    def __post_init__(self) -> None:
        promised(self.precision, self.confidence)
        cuts = finite("cuts", self.cuts)
        if not (np.diff(cuts) < 0).all():
            raise InputError("cuts: do not fall; freeze them once, from the scores of all matches")

    @classmethod
    def among(cls, scores: ArrayLike, precision: float = 0.8, confidence: float = 0.9) -> Self:
        """The cuts among the scores of all matches above the floor, one of each group."""
        falling = np.sort(finite("scores", scores))[::-1]
        ranks = [min(rank, len(falling)) for rank in cut_ranks(len(falling))]
        cuts = sorted({float(falling[rank - 1]) for rank in ranks}, reverse=True)
        return cls(tuple(cuts), precision, confidence)

    def look(self, scores: ArrayLike, hashes: Sequence[str], said: Said) -> Look:
        """Where the labels stand; the scores and the hashes of the matches that were frozen."""
        found = finite("scores", scores)
        if len(hashes) != len(found):
            raise InputError(f"hashes: {len(hashes)} of them and {len(found)} scores")
        order = np.array(sorted(range(len(found)), key=hashes.__getitem__), np.int64)
        shown = None
        for cut in self.cuts:
            members = order[found[order] >= cut]
            labelled, missing = self._walk(members.tolist(), said)
            if missing > len(members) - labelled:
                verdicts = [bool(said(member)) for member in members[:labelled].tolist()]
                n = self._lost_after(verdicts, len(members))
                off = n - sum(verdicts[:n])
                return Look(shown, None, missing, cut=cut, off=off, labelled=n)
            if missing:
                share = (labelled + 1) / len(members)
                return Look(shown, int(members[labelled]), missing, share, cut)
            shown = cut
        return Look(shown, None, 0, cut=shown)

    def _walk(self, members: Sequence[int], said: Said) -> tuple[int, int]:
        """How many are labelled before the first gap, and how many are missing: none if shown."""
        positives, enough = 0, -math.log(1 - self.confidence) - ROUNDING
        for n, member in enumerate(members):
            if (label := said(member)) is None:
                return n, labels_missing(positives, n, self.precision, self.confidence)
            positives += label
            if log_evidence(positives, n + 1, self.precision) >= enough:
                return n + 1, 0
        n = len(members)
        return n, labels_missing(positives, n, self.precision, self.confidence)

    def _lost_after(self, verdicts: Sequence[bool], size: int) -> int:
        """After how many labels a set of this size was out of reach; it stays so."""

        def lost(n: int) -> bool:
            missing = labels_missing(sum(verdicts[:n]), n, self.precision, self.confidence)
            return missing > size - n

        return bisect_left(range(len(verdicts)), True, key=lost)


def cut_ranks(count: int) -> list[int]:
    """The ranks of the cuts among so many matches: 25, 40, 64, 102, … and the last one."""
    ranks = [FIRST] if count else []
    while ranks and ranks[-1] < count:
        ranks.append(round(FIRST * GROWTH ** len(ranks)))
    return ranks


@lru_cache(REMEMBERED)
def log_evidence(positives: int, n: int, precision: float) -> float:
    """The logarithm of the evidence of so many right ones of n for more than the precision.

    It is what a bet wins, at the odds of the precision, that is spread evenly over all above it.
    """
    a, b = positives + 1, n - positives + 1
    above = beta_below(1 - precision, b, a)
    if not above:
        return -math.inf
    at = positives * math.log(precision) + (b - 1) * math.log1p(-precision)
    return log_beta(a, b) + math.log(above) - math.log1p(-precision) - at


def labels_missing(positives: int, n: int, precision: float, confidence: float) -> int:
    """How many more labels make the evidence enough, if none of them is wrong."""
    enough = -math.log(1 - confidence) - ROUNDING

    def shown(more: int) -> bool:
        return log_evidence(positives + more, n + more, precision) >= enough

    high = 1
    while not shown(high):
        high *= 2
    return max(1, bisect_left(range(high), True, key=shown))
