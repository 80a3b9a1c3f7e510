"""`newsift bench promise`: how often promised precision is broken, on streams with known labels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.random import Generator

import encoder
from bench.crises import crises_among_news
from bench.measure import Report, ResultTable, TableRow
from encoder.encoder import Encoder
from newsift.statistics.promise import (
    F64,
    Bools,
    FrozenCuts,
    is_certified,
    precision_threshold,
)
from worker.config import MatchingConfig
from worker.seeds.automatic import Reader

ON_TOPIC, POSTS = 2_000, 70_000  # of a stream, at most
FLAT = 0.795  # precision at every threshold, where 0.8 is promised
FLAT_MATCHES = 2_000


@dataclass(frozen=True)
class CrisisStream:
    """The posts that a stream is drawn from: scores of the matches, and counts of all posts."""

    name: str
    odds: str
    on: F64  # scores of matches on the event
    off: F64  # scores of the other matches
    on_all: int  # posts on the event, matches or not
    off_all: int  # the other posts, matches or not
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
        """The share of posts on the event among those that reach a threshold; 0 if none does."""
        return float(self._precisions(np.array([threshold]))[0])

    def recall(self, threshold: float | None) -> float:
        """The share of the posts on the event that reach a threshold; 0 without a threshold."""
        return 0.0 if threshold is None else float((self.on >= threshold).sum() / self.on_all)

    def oracle(self, precision: float) -> float | None:
        """The loosest threshold with that precision, from all labels."""
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


def flat() -> CrisisStream:
    """A stream whose precision is slightly below the promise at every threshold."""
    even = (np.arange(5 * FLAT_MATCHES) + 0.5) / (5 * FLAT_MATCHES)
    return CrisisStream("flat", f"{FLAT}", even, even, len(even), len(even), FLAT, FLAT_MATCHES)


def crises(enc: Encoder, data: Path, reader: Reader) -> Iterator[CrisisStream]:
    """Each labelled crisis among news at some odds, scored by a profile without a stream."""
    rate = MatchingConfig().background_rate
    for crisis in crises_among_news(enc, data, reader):
        on, off, (floor,) = crisis.profile_scores([rate])
        for rare in ODDS:
            yield CrisisStream(
                crisis.name.replace("_", " "), f"1 in {rare:,}", on[on >= floor], off[off >= floor],
                len(on), len(off), 1 / rare, min(POSTS, ON_TOPIC * rare),
            )  # fmt: skip


def _some(scores: F64, among: int, count: int, random: Generator) -> F64:
    """The scores of the matches among a number of posts, drawn without replacement."""
    matches = random.hypergeometric(len(scores), among - len(scores), min(count, among))
    return random.choice(scores, int(matches), replace=False)


FEW, MANY = 60, 200  # labels
MIN_LABELS = 11  # with fewer labels no precision can be certified


class Promise(NamedTuple):
    precision: float
    confidence: float


@dataclass(frozen=True, slots=True)
class PromiseOptions:
    data: Path
    model: str
    reader: Reader
    repetitions: int
    precision: float
    confidence: float
    unsure: float  # the share of posts on the event whose label is not "on"


class CutOutcome(NamedTuple):
    """A threshold, or none, and the number of labels used."""

    threshold: float | None
    labels: int


Method = Callable[[F64, Bools, Promise, Generator], CutOutcome]


def fixed_count(count: int, best: int | None = None) -> Method:
    """A fixed number of labels of random matches, or of the best ones, and one test at the end."""

    def method(scores: F64, right: Bools, promise: Promise, random: Generator) -> CutOutcome:
        sample = at_random(count, scores[:best], random)
        return CutOutcome(precision_threshold(scores[sample], right[sample], *promise), len(sample))

    return method


def after_each(scores: F64, right: Bools, promise: Promise, random: Generator) -> CutOutcome:
    """The anytime test, after every label, until it succeeds or 200 labels are used."""
    labels_used: set[int] = set()

    def judge(place: int) -> bool | None:
        if place not in labels_used and len(labels_used) == MANY:
            return None
        labels_used.add(place)
        return bool(right[place])

    order = np.argsort(random.permutation(len(scores)))
    right = right[order]
    threshold = FrozenCuts(scores[order], *promise).progress(judge).threshold
    return CutOutcome(threshold, len(labels_used))


def peeking(scores: F64, right: Bools, promise: Promise, random: Generator) -> CutOutcome:
    """Wrong: the test for a fixed number of labels, repeated after each until it succeeds."""
    sample = at_random(FEW, scores, random)
    for n in range(MIN_LABELS, len(sample) + 1):
        threshold = precision_threshold(scores[sample[:n]], right[sample[:n]], *promise)
        if threshold is not None:
            return CutOutcome(threshold, n)
    return CutOutcome(None, len(sample))


def loosest(holds: Callable[[int, int, Promise], bool]) -> Method:
    """Wrong: of 60 labels, the loosest cut above which this holds of the hits and the labels."""

    def method(scores: F64, right: Bools, promise: Promise, random: Generator) -> CutOutcome:
        sample = np.sort(at_random(FEW, scores, random))  # by falling score
        hits = np.cumsum(right[sample]).tolist()
        good = [n for n, hit in enumerate(hits, 1) if holds(hit, n, promise)]
        return CutOutcome(float(scores[sample[good[-1] - 1]]) if good else None, len(sample))

    return method


def at_random(count: int, scores: F64, random: Generator) -> np.ndarray:
    """Indices of matches, drawn without replacement."""
    return random.choice(len(scores), min(count, len(scores)), replace=False)


METHODS: dict[str, Method] = {
    "60 labels": fixed_count(FEW),
    "200 labels": fixed_count(MANY),
    "the 60 best matches": fixed_count(FEW, best=FEW),
    "a look after each, 200 at most": after_each,
    "wrong: 60 labels, looked at after each": peeking,
    "wrong: loosest Clopper–Pearson, 60": loosest(
        lambda hits, n, promise: is_certified(hits, n, *promise)
    ),
    "wrong: the labels as they stand, 60": loosest(
        lambda hits, n, promise: hits >= promise.precision * n
    ),
}


ODDS = (10, 100, 1_000)
REMARKS = (
    "Threshold: one came out. Broken: it did, and the precision of the whole stream above it",
    "is below what was promised; an empty top counts as broken. Both of all repetitions. Recall:",
    "of all posts on the event, 0 where no threshold came out; the oracle knows every label.",
)


def measure_promise(options: PromiseOptions, report: Report) -> list[ResultTable]:
    enc = encoder.load(options.model, device="cpu")
    streams = [flat(), *crises(enc, options.data, options.reader)]
    title = (
        f"Precision {options.precision:g} at {options.confidence:g}, {options.unsure:.0%} of the "
        f"labels unsure, {options.repetitions:,} repetitions, model {options.model}, "
        f"{options.reader}"
    )
    return [ResultTable.of("promise", title, simulate(streams, options, report), REMARKS)]


def simulate(
    streams: Iterable[CrisisStream], options: PromiseOptions, report: Report
) -> list[TableRow]:
    """Every method on the same streams, over repeated draws: shares in per cent, and means."""
    promise, repetitions = Promise(options.precision, options.confidence), options.repetitions
    rows: list[TableRow] = []
    for stream in streams:
        oracle = stream.recall(stream.oracle(promise.precision))
        for name, method in METHODS.items():
            report(f"{stream.name}, {stream.odds}: {name}")
            random = np.random.default_rng(crc32(f"{stream.name} {stream.odds}".encode()))
            cuts = []
            for _ in range(repetitions):
                scores, right = stream.draw(random)
                on = right & (random.random(len(right)) >= options.unsure)
                cuts.append(method(scores, on, promise, random))
            found = [cut.threshold for cut in cuts if cut.threshold is not None]
            broken = sum(stream.precision(threshold) < promise.precision for threshold in found)
            rows.append({
                "stream": stream.name,
                "on topic": stream.odds,
                "method": name,
                "threshold %": 100 * len(found) / repetitions,
                "broken %": 100 * broken / repetitions,
                "labels": sum(cut.labels for cut in cuts) / repetitions,
                "recall": sum(map(stream.recall, found)) / repetitions,
                "oracle's": oracle,
            })  # fmt: skip
    return rows
