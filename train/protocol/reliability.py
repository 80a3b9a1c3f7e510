"""How far a score can be believed: the precision of what scores alike, with its interval."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from encoder.model.weights import F32
from train.protocol.bootstrap import Interval
from train.protocol.judge import precision_of

STEP = 0.05
NORMAL = 1.959964  # 95 % of a normal distribution lie within so many deviations


class Bin(NamedTuple):
    """What scores from `low` to `low` + STEP: how many of each kind, and how precise that is."""

    low: float
    on: int
    other: int
    precision: Interval


def share_of(found: int, count: int) -> Interval:
    """A share with its 95 % interval by Wilson; everything is possible where nothing was seen."""
    if not count:
        return Interval(float("nan"), 0.0, 1.0)
    share, doubt = found / count, NORMAL**2 / count
    middle = (share + doubt / 2) / (1 + doubt)
    aside = sqrt(doubt * share * (1 - share) + doubt**2 / 4) / (1 + doubt)
    return Interval(share, max(0.0, middle - aside), min(1.0, middle + aside))


def reliability(on: F32, other: F32) -> list[Bin]:
    """Every bin that holds a score, as in a stream of which one in 26 is on topic.

    Of the scores in a bin the share that is on topic is drawn; both its ends are then weighed as
    the stream mixes the two kinds.
    """
    places = [np.floor(np.asarray(kind, np.float64) / STEP + 1e-6) for kind in (on, other)]
    bins = []
    for place in np.unique(np.concatenate(places)).tolist():
        mine, theirs = (int((kind == place).sum()) for kind in places)
        drawn = share_of(mine, mine + theirs)
        mixed = (
            precision_of(share / max(len(on), 1), (1 - share) / max(len(other), 1))
            for share in (drawn.value, drawn.low, drawn.high)
        )
        bins.append(Bin(round(place * STEP, 2), mine, theirs, Interval(*mixed)))
    return bins
