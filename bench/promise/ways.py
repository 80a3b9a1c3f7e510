"""Ways to a threshold: those that keep the promise, and those that seem to."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bench.promise.streams import F64, Bools
from worker.judge.anytime import FrozenCuts
from worker.judge.promise import certifies, precision_threshold

FEW, MANY = 60, 200  # labels
LOOKED_FROM = 11  # labels: before, nothing can be shown


class Promise(NamedTuple):
    """What is promised of the threshold."""

    precision: float
    confidence: float


class Found(NamedTuple):
    """A threshold, or none, and the labels that it took."""

    threshold: float | None
    labels: int


Way = Callable[[F64, Bools, Promise, Generator], Found]


def fixed(count: int, best: int | None = None) -> Way:
    """So many labels of matches at random, or of the best of them, and one look at the end."""

    def way(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
        drawn = at_random(count, scores[:best], random)
        return Found(precision_threshold(scores[drawn], right[drawn], *promise), len(drawn))

    return way


def after_each(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
    """The anytime form: a look after every label, until all is shown or 200 are spent."""
    return _walked(scores, right, promise, random, on=False)


def and_on(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
    """The anytime form, then labels in the order of the draw until 200 are spent; a last look."""
    return _walked(scores, right, promise, random, on=True)


def _walked(scores: F64, right: Bools, promise: Promise, random: Generator, on: bool) -> Found:
    labelled: set[int] = set()

    def said(place: int) -> bool | None:
        if place not in labelled and len(labelled) == MANY:
            return None
        labelled.add(place)
        return bool(right[place])

    hashes = [f"{place:09}" for place in random.permutation(len(scores))]
    cuts = FrozenCuts.among(scores, *promise)
    look = cuts.look(scores, hashes, said)
    if on:
        for place in sorted(range(len(scores)), key=hashes.__getitem__):
            said(place)
        known = {place: bool(right[place]) for place in labelled}
        look = cuts.look(scores, hashes, known.get)
    return Found(look.threshold, len(labelled))


def peeking(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
    """Wrong: the form for a fixed number, looked at after every label until it gives something."""
    drawn = at_random(FEW, scores, random)
    for n in range(LOOKED_FROM, len(drawn) + 1):
        threshold = precision_threshold(scores[drawn[:n]], right[drawn[:n]], *promise)
        if threshold is not None:
            return Found(threshold, n)
    return Found(None, len(drawn))


def loosest(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
    """Wrong: the loosest cut whose own Clopper–Pearson bound holds."""
    return _loosest_where(lambda hits, n: certifies(hits, n, *promise), scores, right, random)


def as_labelled(scores: F64, right: Bools, promise: Promise, random: Generator) -> Found:
    """Wrong: the loosest cut at which the labels have the precision as they stand."""
    wanted = promise.precision
    return _loosest_where(lambda hits, n: hits >= wanted * n, scores, right, random)


WAYS: dict[str, Way] = {
    "60 labels": fixed(FEW),
    "200 labels": fixed(MANY),
    "the 60 best matches": fixed(FEW, best=FEW),
    "a look after each, 200 at most": after_each,
    "the same, judged on to 200": and_on,
    "wrong: 60 labels, looked at after each": peeking,
    "wrong: loosest Clopper–Pearson, 60": loosest,
    "wrong: the labels as they stand, 60": as_labelled,
}


def at_random(count: int, scores: F64, random: Generator) -> np.ndarray:
    """The places of so many matches, drawn without putting back."""
    return random.choice(len(scores), min(count, len(scores)), replace=False)


def _loosest_where(
    holds: Callable[[int, int], bool], scores: F64, right: Bools, random: Generator
) -> Found:
    drawn = np.sort(at_random(FEW, scores, random))  # by falling score
    hits = np.cumsum(right[drawn]).tolist()
    good = [n for n, hit in enumerate(hits, 1) if holds(hit, n)]
    return Found(float(scores[drawn[good[-1] - 1]]) if good else None, len(drawn))
