"""The methods to compare posts with an event that the bench sets side by side."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import encoder
from bench.crises import CrisisDraw, CrisisPosts, crises_among_news
from bench.measure import Cell, Report, ResultTable
from encoder.embeddings import thresholds
from encoder.model.weights import F32, I64
from newsift.statistics.feedback import (
    AuthoredPosts,
    LearnedProfile,
    is_burst,
    learn,
    profile_threshold,
)
from worker.seeds.profile import EventVector

RATE = 0.001
LABELS = 10
FLOOD = 1000


class MethodScores(NamedTuple):
    """The scores of all posts, and which reach the automatic threshold."""

    scores: F32
    reach: NDArray[np.bool_]
    beta: float = 0.0


Method = Callable[[CrisisDraw], MethodScores]


def highest(draw: CrisisDraw) -> MethodScores:
    """The maximum over the seeds, each with its own threshold: scores without a profile."""
    scores = draw.crisis.posts.similarity(draw.crisis.seeds)  # [n, seeds]
    limits = thresholds(draw.crisis.background, draw.crisis.seeds, RATE)
    return MethodScores(scores.max(axis=1), np.any(scores >= limits, axis=1))


def seed_mean(draw: CrisisDraw) -> MethodScores:
    """The mean of the seeds alone."""
    mean = np.asarray(draw.crisis.seeds.as_vectors().mean(axis=0), np.float32).ravel()
    axes = draw.crisis.seeds.dense.shape[1]
    slots = np.flatnonzero(mean[axes:]).astype(np.int32)
    return score_with(draw, EventVector.normalised(mean[:axes], slots, mean[axes:][slots]))


def background_only(draw: CrisisDraw) -> MethodScores:
    """The mean of the seeds minus the nearest background posts: a profile without a stream."""
    return score_with(draw, learn(draw.crisis.seeds, draw.crisis.background).vector)


def without_labels(draw: CrisisDraw) -> MethodScores:
    """A profile learned from the stream, without labels and without a history."""
    profile = learned_from(draw)
    return score_with(draw, profile.vector, profile.beta)


def with_labels(draw: CrisisDraw) -> MethodScores:
    """A profile learned from the stream and ten labels."""
    rows = draw.stream[choose_posts_to_label(draw, learned_from(draw).vector)]
    is_on = draw.is_on(rows)
    posts = draw.crisis.posts
    on, off = (AuthoredPosts.anonymous(posts[rows[kind]]) for kind in (is_on, ~is_on))
    stream = AuthoredPosts.anonymous(posts[draw.stream])
    profile = learn(draw.crisis.seeds, draw.crisis.background, stream, on, off)
    return score_with(draw, profile.vector, profile.beta)


def with_history(draw: CrisisDraw) -> MethodScores:
    """A profile learned from the second half of the stream; the first is the history of bursts."""
    crisis = draw.crisis
    news = draw.stream[draw.stream < crisis.news]
    before, now = news[::2], np.setdiff1d(draw.stream, news[::2])
    vector = learn(crisis.seeds, crisis.background).vector
    threshold = profile_threshold(vector, crisis.background, RATE)
    scores = vector.scores(crisis.posts)
    current, usual = (int((scores[rows] >= threshold).sum()) for rows in (now, before))
    burst = is_burst(current, usual, len(now) / (len(now) + len(before)))
    posts = AuthoredPosts.anonymous(crisis.posts[now])
    profile = learn(crisis.seeds, crisis.background, posts, burst=burst)
    return score_with(draw, profile.vector, profile.beta)


def with_flood(draw: CrisisDraw) -> MethodScores:
    """One author repeats the twenty best posts of a silent stream until they are a thousand."""
    news = draw.stream[draw.stream < draw.crisis.news]
    best = learn(draw.crisis.seeds, draw.crisis.background).vector.scores(draw.crisis.posts[news])
    copies = np.repeat(news[np.argsort(-best)[:20]], FLOOD // 20)
    rows = np.concatenate([draw.stream, copies])
    authors = [None] * len(draw.stream) + ["flood"] * len(copies)
    posts = AuthoredPosts(draw.crisis.posts[rows], authors)
    profile = learn(draw.crisis.seeds, draw.crisis.background, posts)
    return score_with(draw, profile.vector, profile.beta)


def learned_from(draw: CrisisDraw) -> LearnedProfile:
    """The profile learned from the stream alone; the data names no authors."""
    posts = AuthoredPosts.anonymous(draw.crisis.posts[draw.stream])
    return learn(draw.crisis.seeds, draw.crisis.background, posts)


def choose_posts_to_label(draw: CrisisDraw, vector: EventVector) -> I64:
    """Ten posts of the stream: five drawn from the matches, five nearest to the threshold."""
    scores = vector.scores(draw.crisis.posts[draw.stream])
    threshold = profile_threshold(vector, draw.crisis.background, RATE)
    matches = np.flatnonzero(scores >= threshold)
    sample = matches[: LABELS // 2]  # the stream is in random order
    near = np.setdiff1d(np.argsort(np.abs(scores - threshold))[:LABELS], sample, assume_unique=True)
    return np.concatenate([sample, near[: LABELS - len(sample)]])


def score_with(draw: CrisisDraw, vector: EventVector, beta: float = 0.0) -> MethodScores:
    """The scores of all posts with a vector, at its automatic threshold."""
    scores = vector.scores(draw.crisis.posts)
    threshold = profile_threshold(vector, draw.crisis.background, RATE)
    return MethodScores(scores, scores >= np.float32(threshold), beta)


RATES = (50, 200, 500)
MIDDLE = RATES.index(200)
SILENT = 0
# A row: the method, and the rate of posts on the event while it learns; None: the judged rate.
ROWS: dict[str, tuple[Method, int | None]] = {
    "maximum over the seeds": (highest, SILENT),
    "mean of the seeds": (seed_mean, SILENT),
    "less the background, no stream": (background_only, SILENT),
    "learned, no label": (without_labels, None),
    "learned, 10 labels": (with_labels, None),
    "learned, a burst seen": (with_history, None),
    "learned from 1 in 1,000": (without_labels, 1000),
    "the same, 10 labels": (with_labels, 1000),
    "the same, a burst seen": (with_history, 1000),
    "silent stream": (without_labels, SILENT),
    "the same, 10 labels off": (with_labels, SILENT),
    "the same, no burst seen": (with_history, SILENT),
    "silent, a flood by one author": (with_flood, SILENT),
}
REMARKS = (
    "Precision × 100 at 80 % recall, on posts that trained no profile; means of the draws.",
    "off topic: AUC × 100 against posts gathered with the event's, off it. At the automatic",
    "threshold (1 in 1,000 of the background): recall × 100, and how many of 1,000 news pass.",
)


class ProfileFigures(NamedTuple):
    """The figures of a row on an event: of one draw, or the mean of several."""

    precision: tuple[float, ...]  # at each of the rates
    off_topic: float
    recall: float
    passes: float
    beta: float


def measure_profiles(model: str, data: Path, draws: int, report: Report) -> list[ResultTable]:
    """Every row on every crisis."""
    figures: dict[str, dict[str, ProfileFigures]] = {}
    with encoder.load(model, device="cpu") as enc:
        for crisis in crises_among_news(enc, data):
            figures[crisis.name] = {row: mean_of(crisis, row, draws, report) for row in ROWS}
    events = [event.replace("_", " ") for event in figures]
    precision: list[list[Cell]] = []
    threshold: list[list[Cell]] = []
    for row in ROWS:
        own = [figures[event][row] for event in figures]
        mean = mean_figures(own)
        precision.append([
            row, *(100 * event.precision[MIDDLE] for event in own),
            *(100 * share for share in mean.precision), 100 * mean.off_topic, mean.beta,
        ])  # fmt: skip
        cells = ((100 * one.recall, 1000 * one.passes, 100 * one.off_topic) for one in own)
        threshold.append([row, *chain.from_iterable(cells)])
    names = [f"{event}, 1 in {RATES[MIDDLE]}" for event in events]
    means = [f"mean, 1 in {rate}" for rate in RATES]
    title = f"Precision at 80 % recall, means of {draws} draws"
    header = ("method", *names, *means, "off topic", "β")
    kinds = product(events, ("recall", "news in 1,000", "off topic"))
    named = ("method", *(f"{event}, {name}" for event, name in kinds))
    return [
        ResultTable("precision", title, header, precision, REMARKS),
        ResultTable("threshold", "At the automatic threshold", named, threshold),
    ]


def mean_of(crisis: CrisisPosts, row: str, draws: int, report: Report) -> ProfileFigures:
    """The mean figures of a row on an event."""
    method, learns = ROWS[row]
    figures = []
    for seed in range(draws):
        report(f"{crisis.name}: {row}, draw {seed + 1} of {draws}")
        if learns is None:
            several = [crisis.draw(rate, seed) for rate in RATES]
        else:
            several = [crisis.draw(learns, seed)] * len(RATES)
        figures.append(figures_of(several, list(map(cache(method), several))))
    return mean_figures(figures)


def figures_of(
    draws: Sequence[CrisisDraw], scores_by_rate: Sequence[MethodScores]
) -> ProfileFigures:
    """The figures of one draw for each rate; only the precision is of every rate."""
    rows = zip(draws, scores_by_rate, RATES, strict=True)
    precision = tuple(draw.precision(scores.scores, rate) for draw, scores, rate in rows)
    draw, scores = draws[MIDDLE], scores_by_rate[MIDDLE]
    recall, passes = (float(scores.reach[rows].mean()) for rows in (draw.on, draw.news))
    return ProfileFigures(precision, draw.off_topic(scores.scores), recall, passes, scores.beta)


def mean_figures(figures: Sequence[ProfileFigures]) -> ProfileFigures:
    precision = np.mean([draw.precision for draw in figures], axis=0)
    rest = np.mean([draw[1:] for draw in figures], axis=0)
    return ProfileFigures(tuple(precision.tolist()), *rest.tolist())
