"""The methods to compare posts with an event that the bench sets side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import encoder
from bench.crises import CrisisDraw, CrisisPosts, crises_among_news, profile_threshold
from bench.measure import Report, ResultTable
from encoder.model.weights import F32, I64
from encoder.thresholds import thresholds
from newsift.statistics.feedback import (
    AuthoredPosts,
    LearnedProfile,
    is_burst,
    learn,
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
    threshold = profile_threshold(vector, crisis.calibrating, RATE)
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
    threshold = profile_threshold(vector, draw.crisis.calibrating, RATE)
    matches = np.flatnonzero(scores >= threshold)
    sample = matches[: LABELS // 2]  # the stream is in random order
    near = np.setdiff1d(np.argsort(np.abs(scores - threshold))[:LABELS], sample, assume_unique=True)
    return np.concatenate([sample, near[: LABELS - len(sample)]])


def score_with(draw: CrisisDraw, vector: EventVector, beta: float = 0.0) -> MethodScores:
    """The scores of all posts with a vector, at its automatic threshold."""
    scores = vector.scores(draw.crisis.posts)
    threshold = profile_threshold(vector, draw.crisis.calibrating, RATE)
    return MethodScores(scores, scores >= np.float32(threshold), beta)


RATES = (50, 200, 500)
MIDDLE = 200
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
    "silent stream": (without_labels, SILENT),
    "the same, 10 labels off": (with_labels, SILENT),
    "the same, no burst seen": (with_history, SILENT),
    "silent, a flood by one author": (with_flood, SILENT),
}
HEADER = (
    "event", "method", *(f"1 in {rate}" for rate in RATES),
    "off topic", "recall", "news in 1,000", "β",
)  # fmt: skip
REMARKS = (
    "Precision × 100 at 80 % recall, on posts that trained no profile; means of the draws.",
    "off topic: AUC × 100 against posts gathered with the event's, off it. At the automatic",
    "threshold (1 in 1,000 of the background): recall × 100, and how many of 1,000 news pass.",
)

Figures = NDArray[np.float64]  # those of HEADER


def measure_profiles(model: str, data: Path, draws: int, report: Report) -> list[ResultTable]:
    """Every method on every crisis, and the means over the crises."""
    figures: dict[str, list[Figures]] = {}
    with encoder.load(model, device="cpu") as enc:
        for crisis in crises_among_news(enc, data):
            figures[crisis.name.replace("_", " ")] = [
                mean_figures(crisis, method, draws, report) for method in ROWS
            ]
    figures["mean"] = list(np.mean([*figures.values()], axis=0))
    rows = [
        (event, method, *values.tolist())
        for event, own in figures.items()
        for method, values in zip(ROWS, own, strict=True)
    ]
    title = f"Profiles, means of {draws} draws"
    return [ResultTable("profiles", title, HEADER, rows, REMARKS)]


def mean_figures(crisis: CrisisPosts, row: str, draws: int, report: Report) -> Figures:
    """The mean figures of a method on an event."""
    method, learns = ROWS[row]
    figures = []
    for seed in range(draws):
        report(f"{crisis.name}: {row}, draw {seed + 1} of {draws}")
        streams = RATES if learns is None else (learns,)
        by_stream = [(draw, method(draw)) for draw in (crisis.draw(x, seed) for x in streams)]
        by_rate = dict(zip(RATES, by_stream * (len(RATES) // len(streams)), strict=True))
        precision = [draw.precision(scores.scores, x) for x, (draw, scores) in by_rate.items()]
        draw, scores = by_rate[MIDDLE]
        recall, passes = (scores.reach[posts].mean() for posts in (draw.on, draw.news))
        shares = (*precision, draw.off_topic(scores.scores), recall)
        figures.append([*(100 * share for share in shares), 1000 * passes, scores.beta])
    mean: Figures = np.mean(figures, axis=0)
    return mean
