"""A look at any threshold of an event: where scores lie, and what labels say of those above it.

It is a look and no promise: who tries thresholds until one pleases has let chance choose with him.
What is promised is shown by `anytime` and `promise`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from worker.judge.anytime import cut_ranks
from worker.judge.labels import Label, PostId, Verdict
from worker.judge.promise import F64
from worker.judge.recall import Interval, recall_interval, share_interval

STEPS = (0.002, 0.005, 0.01, 0.02)  # of a histogram's scores: the first that leaves few enough
MOST_BINS = 100
MOST_GLANCES = 64  # at different scores; between them the next stricter one speaks


@dataclass(frozen=True, slots=True)
class Mark:
    """A labelled post: its score, and what all who judged it say together."""

    score: float
    said: Verdict


@dataclass(frozen=True, slots=True)
class Draws:
    """Labels of matches drawn at random; each stands for so many matches of about its score."""

    scores: tuple[float, ...] = ()
    on: tuple[bool, ...] = ()
    weights: tuple[float, ...] = ()
    reach: float = inf  # down to this score they stand for all matches


@dataclass(frozen=True, slots=True)
class Glance:
    """What labels say of this score and those above."""

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
    step = next((each for each in STEPS if top < each * MOST_BINS), STEPS[-1])
    count = int(top / step) + 1
    return [round(n * step, 6) for n in range(count + 1)]


def counted(edges: Sequence[float], scores: ArrayLike, weights: ArrayLike | None = None) -> F64:
    """How much lies in each bin; what is below the first edge is in the first bin."""
    found = np.clip(np.asarray(scores, np.float64), edges[0], edges[-1])
    return np.histogram(found, edges, weights=weights)[0].astype(np.float64)


def share_above(edges: Sequence[float], scores: ArrayLike) -> list[float]:
    """Which share of the scores reaches each edge."""
    rising = np.sort(np.asarray(scores, np.float32))
    below = np.searchsorted(rising, np.asarray(edges, np.float32), side="left")
    return ((len(rising) - below) / max(len(rising), 1)).tolist()  # type: ignore[no-any-return]


def said_together(labels: Iterable[Label]) -> dict[PostId, Verdict]:
    """What people say of each post together: on or off where nobody says the other, else unsure."""
    said: defaultdict[PostId, set[Verdict]] = defaultdict(set)
    for label in labels:
        said[label.post_id].add(label.label)
    return {name: _verdict(words) for name, words in said.items()}


def draws_of(scores: Sequence[float], said: Sequence[bool | None]) -> Draws:
    """The labels of matches that may certify, which are drawn in the order of their hashes.

    Between two ranks of the walk all matches were equally likely to be labelled, so each label
    there stands for as many. The draws end where a step of the walk has no label.
    """
    falling = sorted(scores, reverse=True)
    ranks = (min(rank, len(falling)) for rank in cut_ranks(len(falling)))
    cuts = [inf, *sorted({falling[rank - 1] for rank in ranks}, reverse=True)]
    rows: list[tuple[float, bool, float]] = []
    reach = inf
    for above, cut in pairwise(cuts):
        own = [(s, label) for s, label in zip(scores, said, strict=True) if cut <= s < above]
        drawn = [(s, label) for s, label in own if label is not None]
        if not drawn:
            break
        rows += [(s, label, len(own) / len(drawn)) for s, label in drawn]
        reach = cut
    found, on, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return Draws(found, on, weights, reach)


@lru_cache(64)
def glances(marks: tuple[Mark, ...], draws: Draws, confidence: float = 0.9) -> tuple[Glance, ...]:
    """What labels say above each score that one of them has, from strict to loose."""
    scores = sorted({mark.score for mark in marks} | set(draws.scores), reverse=True)
    if len(scores) > MOST_GLANCES:
        kept = np.linspace(0, len(scores) - 1, MOST_GLANCES).round().astype(int)
        scores = [scores[at] for at in kept.tolist()]
    return tuple(_glance(score, marks, draws, confidence) for score in scores)


def _glance(least: float, marks: Sequence[Mark], draws: Draws, confidence: float) -> Glance:
    above = [mark.said for mark in marks if mark.score >= least]
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
    known = None if recall == (0.0, 1.0) else recall
    return Glance(least, counts[0], counts[1], counts[2], len(rows), share, known)


def _verdict(words: set[Verdict]) -> Verdict:
    if words == {"on"}:
        return "on"
    return "off" if "off" in words and "on" not in words else "unsure"
