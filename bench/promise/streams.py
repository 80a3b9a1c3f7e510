"""Streams whose truth is known: labelled crises among news, and a flat one."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.crises import scenes
from encoder.encoder import Encoder
from worker.config import MatchingConfig
from worker.judge.feedback import learn, profile_threshold

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

ON_TOPIC, POSTS = 2_000, 70_000  # of a stream, at most
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
    """Each labelled crisis, as rare as that among news, scored by the profile without a stream."""
    rate = MatchingConfig().background_rate
    for scene in scenes(enc, data):
        vector = learn(scene.seeds, scene.background).vector
        floor = profile_threshold(vector, scene.background, rate)
        scores = vector.scores(scene.posts).astype(np.float64)
        off, on, _ = np.split(scores, [scene.news, scene.news + scene.on])
        for rare in odds:
            yield Stream(
                scene.name.replace("_", " "), f"1 in {rare:,}", on[on >= floor], off[off >= floor],
                len(on), len(off), 1 / rare, min(POSTS, ON_TOPIC * rare),
            )  # fmt: skip


def _some(scores: F64, among: int, count: int, random: Generator) -> F64:
    """The scores of the matches among so many posts, drawn without putting back."""
    matches = random.hypergeometric(len(scores), among - len(scores), min(count, among))
    return random.choice(scores, int(matches), replace=False)
