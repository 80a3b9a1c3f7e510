"""Streams whose truth is known: labelled crises among everyday posts, and a flat one."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from encoder.encoder import Encoder
from encoder.errors import InputError
from train.data.folder import files
from train.data.readers import Passed, read_posts
from train.protocol.sets import CrisisSet, read_crises
from worker.config import MatchingConfig
from worker.seeds.vectors import EventVector

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

ON_TOPIC, POSTS = 2_000, 100_000  # of a stream, at most
FLAT = 0.795  # precision at every threshold, where 0.8 is promised
FLAT_MATCHES = 2_000


@dataclass(frozen=True)
class Stream:
    """All posts that a stream is drawn from: the scores of those above the floor, and the rest."""

    name: str
    odds: str
    on: F64  # scores of matches on the event
    off: F64  # and of the others
    on_all: int  # posts on the event, matches or not
    off_all: int
    share: float  # of the stream that is on the event
    posts: int  # of one stream

    def draw(self, random: Generator) -> tuple[F64, Bools]:
        """The matches of one stream, by falling score, and which of them are right."""
        on = int(random.binomial(self.posts, self.share))
        right = _some(self.on, self.on_all, on, random)
        wrong = _some(self.off, self.off_all, self.posts - on, random)
        scores = np.concatenate([right, wrong])
        order = np.argsort(-scores, kind="stable")
        return scores[order], order < len(right)

    def precision(self, threshold: float) -> float:
        """The share of right ones among what the stream lets pass; of nothing it is 0."""
        return float(self._precisions(np.array([threshold]))[0])

    def recall(self, threshold: float | None) -> float:
        """The share of the posts on the event that reach a threshold; of none, none."""
        return 0.0 if threshold is None else float((self.on >= threshold).sum() / self.on_all)

    def oracle(self, precision: float) -> float | None:
        """The loosest threshold of that precision, for one who knows every label."""
        rising = np.unique(np.concatenate([self.on, self.off]))
        good = rising[self._precisions(rising) >= precision]
        return float(good[0]) if len(good) else None

    @cached_property
    def _rising(self) -> tuple[F64, F64]:
        return np.sort(self.on), np.sort(self.off)

    def _precisions(self, thresholds: F64) -> F64:
        on, off = self._rising
        right = (len(on) - np.searchsorted(on, thresholds)) / self.on_all * self.share
        wrong = (len(off) - np.searchsorted(off, thresholds)) / self.off_all * (1 - self.share)
        return right / np.maximum(right + wrong, np.finfo(np.float64).tiny)


def flat() -> Stream:
    """A stream on which each threshold that is given is too loose, by little."""
    even = (np.arange(5 * FLAT_MATCHES) + 0.5) / (5 * FLAT_MATCHES)
    return Stream("flat", f"{FLAT}", even, even, len(even), len(even), FLAT, FLAT_MATCHES)


def crises(enc: Encoder, data: Path, odds: tuple[int, ...]) -> Iterator[Stream]:
    """Each labelled crisis, as rare as that among all everyday posts of the folder."""
    passed = Passed()
    found = read_crises(data, passed)
    if not found:
        raise InputError(f"--data: no labelled crisis in {data}; it needs crisis/ and tweets/")
    texts = chain.from_iterable(read_posts(file, passed) for file in files(data, "tweets").values())
    everyday = enc.posts(list(dict.fromkeys(texts)))
    for crisis in found:
        vector = seeds_mean(enc, crisis)
        row = vector.as_row(everyday.mix, everyday.digest)
        floor = float(enc.thresholds(row, MatchingConfig().background_rate)[0])
        on = vector.scores(enc.posts(list(crisis.on))).astype(np.float64)
        off = vector.scores(everyday).astype(np.float64)
        for rare in odds:
            yield Stream(
                crisis.name.replace("_", " "), f"1 in {rare:,}", on[on >= floor], off[off >= floor],
                len(on), len(off), 1 / rare, min(POSTS, ON_TOPIC * rare),
            )  # fmt: skip


def seeds_mean(enc: Encoder, crisis: CrisisSet) -> EventVector:
    """The mean of an event's seeds."""
    articles = enc.articles([(seed.title, seed.text) for seed in crisis.seeds])
    words = articles.lexical
    weights = np.bincount(words.slots, words.weights) * np.sqrt(articles.mix)
    slots = np.flatnonzero(weights).astype(np.int32)
    dense = articles.dense.sum(0) * np.sqrt(1 - articles.mix)
    return EventVector.of(dense.astype(np.float32), slots, weights[slots].astype(np.float32))


def _some(scores: F64, among: int, count: int, random: Generator) -> F64:
    """The scores of the matches among so many posts, drawn without putting back."""
    matches = random.hypergeometric(len(scores), among - len(scores), min(count, among))
    return random.choice(scores, int(matches), replace=False)
