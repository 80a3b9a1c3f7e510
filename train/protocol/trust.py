"""How far to trust a model on one set: its precision by score, who is found, what is confused.

All of it is about the first model, with its own λ, at its automatic thresholds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from encoder import Encoder
from encoder.model.weights import F32
from train.protocol.judge import Scores
from train.protocol.ranking import Bool
from train.protocol.reliability import Bin, reliability
from train.protocol.sets import CrisisSet, PairSet
from train.protocol.writing import Found, found_by
from train.protocol.wrong import Wrong, highest_wrong, kinds_of


@dataclass(frozen=True, slots=True)
class Trust:
    """What can be trusted on one set; the wrong ones by where they come from."""

    reliability: Mapping[str, list[Bin]]
    found: Mapping[str, Found]
    wrong: Mapping[str, Mapping[str, int]]  # of the 200 highest so many of each kind
    examples: list[Wrong]


@dataclass(frozen=True, slots=True)
class Truster:
    """What is asked of a model: its thresholds' rate, the words of the news, so many examples."""

    encoder: Encoder
    rate: float
    news: frozenset[str]
    examples: int

    def pairs(self, score: F32, pairs: PairSet) -> Trust:
        """A set of pairs: a post is found where it reaches an article of its own."""
        label = pairs.label
        cuts = self.encoder.thresholds(self.encoder.articles(pairs.stories), self.rate)
        years = pairs.years or (None,) * len(pairs.posts)
        reached: Bool = ((score >= cuts) & label).max(1)
        found = found_by(pairs.posts, years, reached, self.news)
        wrong = highest_wrong(self.encoder, pairs.posts, pairs.stories, score, cuts, label)
        bins = by_pairs(score, pairs)
        return Trust(bins, found, {"other articles": kinds_of(wrong)}, wrong[: self.examples])

    def event(self, score: F32, crisis: CrisisSet) -> Trust:
        """A crisis: a post is found where it reaches one of the event's reports."""
        cuts = self.encoder.thresholds(self.encoder.articles(crisis.seeds), self.rate)
        on, off = len(crisis.on), len(crisis.off)
        reached: Bool = (score[:on] >= cuts).max(1)
        found = found_by(crisis.on, [None] * on, reached, self.news)
        wrong = {}
        parts = {"off topic": crisis.off, "background": crisis.background}
        for (kind, posts), rows in zip(parts.items(), np.split(score[on:], [off]), strict=True):
            right = np.zeros(rows.shape, np.bool_)
            wrong[kind] = highest_wrong(self.encoder, posts, crisis.seeds, rows, cuts, right)
        examples = [one for some in wrong.values() for one in some[: self.examples]]
        counts = {kind: kinds_of(some) for kind, some in wrong.items()}
        return Trust(by_kind(score, crisis), found, counts, examples)


def by_pairs(score: F32, pairs: PairSet) -> dict[str, list[Bin]]:
    """The pairs that belong together against all others."""
    label = pairs.label
    return {"other articles": reliability(score[label], score[~label])}


def by_kind(score: F32, crisis: CrisisSet) -> dict[str, list[Bin]]:
    """The posts on topic against those off topic, and against the background."""
    scores = Scores.of(score, crisis)
    others = {"off topic": scores.off, "background": scores.background}
    return {name: reliability(scores.on, other) for name, other in others.items() if len(other)}
