"""The ways to compare posts with an event that the bench sets side by side."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.crises import Draw
from encoder.embeddings import thresholds
from encoder.model.weights import F32, I64
from worker.judge.feedback import Learned, Voices, is_burst, learn, profile_threshold
from worker.seeds.vectors import EventVector

RATE = 0.001
LABELS = 10
FLOOD = 1000


class WayScores(NamedTuple):
    """The scores of all posts, and which reach the automatic threshold."""

    scores: F32
    reached: NDArray[np.bool_]
    beta: float = 0.0


Way = Callable[[Draw], WayScores]


def highest(draw: Draw) -> WayScores:
    """The maximum over the seeds, each with its own threshold: what there is without a profile."""
    scores = draw.scene.posts.similarity(draw.scene.seeds)  # [n, seeds]
    cuts = thresholds(draw.scene.background, draw.scene.seeds, RATE)
    return WayScores(scores.max(axis=1), np.any(scores >= cuts, axis=1))


def middle(draw: Draw) -> WayScores:
    """The mean of the seeds alone."""
    mean = np.asarray(draw.scene.seeds.as_vectors().mean(axis=0), np.float32).ravel()
    axes = draw.scene.seeds.dense.shape[1]
    slots = np.flatnonzero(mean[axes:]).astype(np.int32)
    return judged(draw, EventVector.of(mean[:axes], slots, mean[axes:][slots]))


def background_only(draw: Draw) -> WayScores:
    """The mean less the background's nearest: the profile that needs no stream."""
    return judged(draw, learn(draw.scene.seeds, draw.scene.background).vector)


def unlabelled(draw: Draw) -> WayScores:
    """The profile from the stream, without a label and without a history."""
    learned = learned_from(draw)
    return judged(draw, learned.vector, learned.beta)


def labelled(draw: Draw) -> WayScores:
    """The same, once ten posts are labelled."""
    rows = draw.stream[to_label(draw, learned_from(draw).vector)]
    said = draw.is_on(rows)
    posts = draw.scene.posts
    on, off = (Voices.nobodys(posts[rows[kind]]) for kind in (said, ~said))
    learned = learn(draw.scene.seeds, draw.scene.background, heard_in(draw), on, off)
    return judged(draw, learned.vector, learned.beta)


def watched(draw: Draw) -> WayScores:
    """From the second half of the stream, once the first has shown what is usual."""
    scene = draw.scene
    news = draw.stream[draw.stream < scene.news]
    before, now = news[::2], np.setdiff1d(draw.stream, news[::2])
    vector = learn(scene.seeds, scene.background).vector
    cut = profile_threshold(vector, scene.background, RATE)
    scores = vector.scores(scene.posts)
    counted, usual = (int((scores[rows] >= cut).sum()) for rows in (now, before))
    burst = is_burst(counted, usual, len(now) / (len(now) + len(before)))
    heard = Voices.nobodys(scene.posts[now])
    learned = learn(scene.seeds, scene.background, heard, burst=burst)
    return judged(draw, learned.vector, learned.beta)


def flooded(draw: Draw) -> WayScores:
    """One author writes the seeds' best silent post a thousand times, each a little differently."""
    news = draw.stream[draw.stream < draw.scene.news]
    best = learn(draw.scene.seeds, draw.scene.background).vector.scores(draw.scene.posts[news])
    copies = np.repeat(news[np.argsort(-best)[:20]], FLOOD // 20)
    rows = np.concatenate([draw.stream, copies])
    authors = [None] * len(draw.stream) + ["flood"] * len(copies)
    heard = Voices(draw.scene.posts[rows], authors)
    learned = learn(draw.scene.seeds, draw.scene.background, heard)
    return judged(draw, learned.vector, learned.beta)


def heard_in(draw: Draw) -> Voices:
    """The stream of a draw; the authors of the crises' posts are not known."""
    return Voices.nobodys(draw.scene.posts[draw.stream])


def learned_from(draw: Draw) -> Learned:
    """What the stream alone teaches."""
    return learn(draw.scene.seeds, draw.scene.background, heard_in(draw))


def to_label(draw: Draw, vector: EventVector) -> I64:
    """Ten posts of the stream: five drawn from the matches, five nearest to the threshold."""
    scores = vector.scores(draw.scene.posts[draw.stream])
    cut = profile_threshold(vector, draw.scene.background, RATE)
    matches = np.flatnonzero(scores >= cut)
    drawn = matches[: LABELS // 2]  # the stream stands in random order
    near = np.setdiff1d(np.argsort(np.abs(scores - cut))[:LABELS], drawn, assume_unique=True)
    return np.concatenate([drawn, near[: LABELS - len(drawn)]])


def judged(draw: Draw, vector: EventVector, beta: float = 0.0) -> WayScores:
    """All posts by a vector and its automatic threshold."""
    scores = vector.scores(draw.scene.posts)
    cut = profile_threshold(vector, draw.scene.background, RATE)
    return WayScores(scores, scores >= np.float32(cut), beta)
