"""The profile of an event: its seeds' mean, less the nearest background, plus the event's posts.

An event's posts resemble each other more than the news. Their weight depends on how much the best
by the seeds' mean agree, and on whether there are more than before.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings, refuse_wrong_lengths
from encoder.model.weights import I64
from encoder.score.lexical import SLOTS
from newsift.statistics.distributions import binomial_tail
from worker.seeds.automatic import split_background
from worker.seeds.profile import EventVector

F64 = NDArray[np.float64]

NEAREST_BACKGROUND_POSTS, BACKGROUND_WEIGHT = 30, 0.4
STREAM_POST_COUNTS = (10, 20)  # The profile is computed twice, from more posts.
MIN_COPY_COSINE = 0.7
MIN_COHESION, FULL_COHESION = 0.20, 0.40  # mean cosines from which posts count at all, and fully
FULL_COHESION_CONFIRMED = 0.30  # where a burst or labels confirm the event's posts
MIN_ON_LABELS = 3  # So many labelled posts confirm them.
MAX_UNCONFIRMED_WEIGHT = 0.3  # for posts that are no more than before
ON_WEIGHT, OFF_WEIGHT = 1.0, 0.25
MAX_LABELLED_POSTS = 500
MIN_SEED_COSINE = 0.75  # between a profile and its seeds' mean
BURST_ERROR_RATE = 0.001  # of all attempts of an event together
PAGE_POSTS = 256


@dataclass(frozen=True, slots=True, eq=False)
class AuthoredPosts:
    """Posts with their authors; one without an author counts as its own."""

    posts: Embeddings  # [n]
    authors: Sequence[Hashable | None]  # [n]

    def __post_init__(self) -> None:
        refuse_wrong_lengths(posts=self.posts)

    @classmethod
    def anonymous(cls, posts: Embeddings) -> Self:
        return cls(posts, [None] * len(posts))

    def best(self, vector: EventVector, count: int, others: "AuthoredPosts") -> I64:
        """The indices of the best posts by falling score, without `others` and their copies.

        One of each author; posts with a score of 0 or less are left out.
        """
        scores = vector.scores(self.posts)  # [n]
        order = np.argsort(-scores, kind="stable")
        authors = {author for author in others.authors if author is not None}
        first: list[int] = []
        for row in order[scores[order] > 0].tolist():
            author = self.authors[row]
            if author is None or author not in authors:
                first.append(row)
                authors.add(author)
        return drop_copies(self.posts, first, count, others.posts)

    def __getitem__(self, rows: I64) -> Self:
        return type(self)(self.posts[rows], [self.authors[row] for row in rows])

    def __add__(self, other: "AuthoredPosts") -> "AuthoredPosts":
        posts = Embeddings.concat([self.posts, other.posts])
        return AuthoredPosts(posts, [*self.authors, *other.authors])


@dataclass(frozen=True, slots=True, eq=False)
class LearnedProfile:
    vector: EventVector
    beta: float  # the weight of the stream's posts
    cohesion: float  # the mean cosine of the best by the seeds' mean
    posts: I64  # indices of the stream's posts that count
    on: I64  # and of the labelled ones
    off: I64


def learn(
    seeds: Embeddings,
    background: Embeddings,
    stream: AuthoredPosts | None = None,
    on: AuthoredPosts | None = None,
    off: AuthoredPosts | None = None,
    burst: bool | None = None,
) -> LearnedProfile:
    """`burst`: whether the event's posts are more than before, None if unknown.

    Labelled posts must be those that train, never those that certify a threshold.
    """
    refuse_wrong_lengths(seeds=seeds)
    no_posts = AuthoredPosts.anonymous(seeds[:0])
    stream, on, off = stream or no_posts, on or no_posts, off or no_posts
    seed_mean = mean_vector(seeds)
    seed_vector = event_vector(seed_mean, seeds)
    seed_mean /= np.linalg.norm(seed_mean)
    on_rows, off_rows = (x.best(seed_vector, MAX_LABELLED_POSTS, no_posts) for x in (on, off))
    negatives = AuthoredPosts.anonymous(split_background(background)[0])
    nearest = negatives.best(seed_vector, NEAREST_BACKGROUND_POSTS, no_posts)
    labelled_shift = ON_WEIGHT * mean_vector(on.posts[on_rows]) - OFF_WEIGHT * mean_vector(
        off.posts[off_rows]
    )
    base = seed_mean + labelled_shift - BACKGROUND_WEIGHT * mean_vector(negatives.posts[nearest])
    labels = on[on_rows] + off[off_rows]
    first = stream.best(seed_vector, STREAM_POST_COUNTS[0], labels)
    cohesion = float(mean_cosines(stream.posts[first]).mean()) if len(first) > 1 else 0.0
    certain = True if len(on_rows) >= MIN_ON_LABELS else burst
    beta, rows, profile = stream_weight(cohesion, certain), first[:0], base
    for count in STREAM_POST_COUNTS if beta else ():
        rows = stream.best(event_vector(profile, seeds), count, labels) if len(rows) else first
        profile = base + beta * cohesive_mean(stream.posts[rows])
    return LearnedProfile(
        event_vector(limit_angle(profile, seed_mean), seeds),
        beta,
        cohesion,
        rows,
        on_rows,
        off_rows,
    )


def stream_weight(cohesion: float, certain: bool | None) -> float:
    """β, the weight of the stream's posts, from 0 to 1."""
    most = MAX_UNCONFIRMED_WEIGHT if certain is False else 1.0
    enough = FULL_COHESION_CONFIRMED if certain else FULL_COHESION
    return min(max((cohesion - MIN_COHESION) / (enough - MIN_COHESION), 0.0), most)


def is_burst(now: int, before: int, share: float, attempts: int = 1) -> bool:
    """Whether `now` matches, in this share of the whole time, are more than chance."""
    return binomial_tail(now + before, share, now) < BURST_ERROR_RATE / attempts


def drop_copies(posts: Embeddings, order: Sequence[int], count: int, others: Embeddings) -> I64:
    """The first `count` posts that are not copies of each other or of `others`."""
    rows: list[int] = []
    for start in range(0, len(order), PAGE_POSTS):
        page = np.array(order[start : start + PAGE_POSTS])
        earlier = Embeddings.concat([others, posts[rows]])
        is_fresh = (posts[page].similarity(earlier) < MIN_COPY_COSINE).all(axis=1)  # [page]
        fresh = page[is_fresh]
        alike = posts[fresh].similarity(posts[fresh]) >= MIN_COPY_COSINE  # [fresh, fresh]
        distinct: list[int] = []
        for i in range(len(fresh)):
            if len(rows) + len(distinct) < count and not alike[i, distinct].any():
                distinct.append(i)
        rows += fresh[distinct].tolist()
        if len(rows) >= count:
            break
    return np.array(rows, np.int64)


def mean_vector(posts: Embeddings, shares: F64 | None = None) -> F64:
    """The mean of `as_vectors`, weighted by these shares if given: [d + slots]."""
    if shares is None:
        shares = np.full(len(posts), 1 / max(len(posts), 1))
    words = posts.lexical
    weights = np.repeat(shares, np.diff(words.indptr)) * words.weights
    lexical = np.bincount(words.slots, weights, SLOTS)  # [slots]
    dense = np.einsum("n,nd->d", shares, posts.dense)  # [d]
    return np.concatenate([np.sqrt(1 - posts.mix) * dense, np.sqrt(posts.mix) * lexical])


def mean_cosines(posts: Embeddings) -> F64:
    """The mean cosine of each post with the others: [n]."""
    cosines = posts.similarity(posts).astype(np.float64)  # [n, n]
    np.fill_diagonal(cosines, 0)
    means: F64 = cosines.sum(axis=1) / max(len(posts) - 1, 1)
    return means


def cohesive_mean(posts: Embeddings) -> F64:
    """The mean of posts weighted by their agreement: [d + slots]."""
    shares = np.clip((mean_cosines(posts) - MIN_COHESION) / (FULL_COHESION - MIN_COHESION), 0, 1)
    return mean_vector(posts, shares / max(shares.sum(), np.finfo(np.float64).tiny))


def limit_angle(profile: F64, seed_mean: F64) -> F64:
    """The profile, moved towards the seeds' mean until their cosine is the least allowed."""
    along = float(profile @ seed_mean)
    if along <= 0:
        return seed_mean
    across = profile - along * seed_mean
    room = along * np.sqrt(1 / MIN_SEED_COSINE**2 - 1)
    result: F64 = along * seed_mean + across * min(1.0, room / max(np.linalg.norm(across), room))
    return result


def event_vector(direction: F64, like: Embeddings) -> EventVector:
    """From a direction [d + slots]."""
    axes = like.dense.shape[1]
    slots = np.flatnonzero(direction[axes:])
    dense, weights = direction[:axes], direction[axes:][slots]
    return EventVector.normalised(
        dense.astype(np.float32), slots.astype(np.int32), weights.astype(np.float32)
    )
