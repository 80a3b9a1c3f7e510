from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from encoder.embeddings import Embeddings, unit_rows
from encoder.score.lexical import SLOTS, SparseRows
from newsift.statistics.feedback import (
    MIN_SEED_COSINE,
    AuthoredPosts,
    is_burst,
    learn,
)
from worker.seeds.automatic import split_background
from worker.seeds.profile import EventVector

F64 = NDArray[np.float64]

AXES = 6
WORDS = np.arange(5, SLOTS, SLOTS // 40, dtype=np.int32)


def texts(
    rng: np.random.Generator,
    count: int,
    *,
    mix: float = 0.6,
    about: float = 0.0,
    empty: bool = False,
) -> Embeddings:
    """So many texts; what they have in common grows with `about`."""
    dense = rng.normal(size=(count, AXES)) + about * np.eye(AXES)[0]
    rows = []
    for _ in range(count):
        common = WORDS[:3][rng.random(3) < about]
        rows.append(np.unique([*common, *rng.choice(WORDS, rng.integers(0, 4))]).astype(np.int32))
    if empty:
        dense[::3], rows[::3] = 0, [WORDS[:0]] * len(rows[::3])
    ends = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    slots = np.concatenate([WORDS[:0], *rows])
    weights = rng.uniform(0.5, 2, len(slots)).astype(np.float32)
    words = SparseRows(ends, slots, weights).unit() if mix else SparseRows.empty(count)
    return Embeddings(unit_rows(dense.astype(np.float32)), words, mix, "a model")


def plain(posts: Embeddings) -> F64:
    whole = posts.as_vectors()
    return np.hstack([
        whole[:, :AXES].toarray(), whole[:, AXES + WORDS].toarray(),
    ]).astype(np.float64)  # fmt: skip


def plain_profile(vector: EventVector) -> F64:
    lexical = np.zeros(SLOTS)
    lexical[vector.slots] = vector.weights
    return np.concatenate([vector.dense.astype(np.float64), lexical[WORDS]])


def slow_best(
    direction: F64, posts: F64, authors: Sequence[object], count: int, taken: Sequence[F64] = ()
) -> list[int]:
    """The best posts, one after the other; of each author only the best may enter."""
    chosen: list[int] = []
    received: list[object] = []
    for row in sorted(range(len(posts)), key=lambda row: -(posts[row] @ direction)):
        if authors[row] is not None and authors[row] in received:
            continue
        received.append(authors[row])
        seen = [*taken, *(posts[c] for c in chosen)]
        copy = any(posts[row] @ other >= 0.7 for other in seen)
        if not copy and len(chosen) < count and posts[row] @ direction > 0:
            chosen.append(row)
    return chosen


def slow_agreement(posts: F64) -> list[float]:
    return [
        sum(one @ other for j, other in enumerate(posts) if j != i) / max(len(posts) - 1, 1)
        for i, one in enumerate(posts)
    ]


def slow_learn(
    seeds: F64, against: F64, posts: F64, authors: Sequence[object], on: F64, off: F64,
    burst: bool | None,
) -> tuple[F64, list[int]]:  # fmt: skip
    w0: F64 = np.mean(seeds, axis=0)
    w0 /= np.sqrt(w0 @ w0)
    nobody = [None] * max(len(against), len(on), len(off))
    base = w0 - 0.4 * np.mean(against[slow_best(w0, against, nobody, 30)], axis=0)
    liked, disliked = (slow_best(w0, labels, nobody, 500) for labels in (on, off))
    base += np.mean(on[liked], axis=0) if liked else 0
    base -= 0.25 * np.mean(off[disliked], axis=0) if disliked else 0
    labelled = [*on[liked], *off[disliked]]
    entered = slow_best(w0, posts, authors, 10, labelled)
    cohesion = np.mean(slow_agreement(posts[entered])) if len(entered) > 1 else 0.0
    if burst or len(liked) >= 3:
        beta = min((cohesion - 0.2) / 0.1, 1)
    else:
        beta = min((cohesion - 0.2) / 0.2, 0.3 if burst is False else 1)
    if beta <= 0:
        return base / np.sqrt(base @ base), []
    profile = base
    for _ in range(2):
        if profile is not base:
            entered = slow_best(profile, posts, authors, 20, labelled)
        shares = [min(max((c - 0.2) / 0.2, 0), 1) for c in slow_agreement(posts[entered])]
        added = np.array([s * post for s, post in zip(shares, posts[entered], strict=True)])
        profile = base + beta * added.sum(axis=0) / max(sum(shares), 1e-300)
    return profile / np.sqrt(profile @ profile), entered


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mix", [0.0, 0.6])
def test_a_profile_is_that_of_a_slow_loop(seed: int, mix: float) -> None:
    rng = np.random.default_rng(seed)
    seeds, background = texts(rng, 2, mix=mix, about=2), texts(rng, 150, mix=mix)
    posts = Embeddings.concat([texts(rng, 60, mix=mix), texts(rng, 25, mix=mix, about=1.5)])
    authors = [None if rng.random() < 0.5 else int(rng.integers(40)) for _ in range(len(posts))]
    on, off = texts(rng, 3 * (seed % 2), mix=mix, about=2), texts(rng, 2 * (seed % 3), mix=mix)
    burst = (None, False, True)[seed % 3]
    stream = AuthoredPosts(posts, authors)
    result = learn(
        seeds, background, stream, AuthoredPosts.anonymous(on), AuthoredPosts.anonymous(off), burst
    )  # fmt: skip
    rows = (plain(seeds), plain(split_background(background)[0]), plain(posts))
    expected, entered = slow_learn(*rows, authors, plain(on), plain(off), burst)
    expected = slow_drawn_back(expected, plain_start(seeds))
    np.testing.assert_allclose(plain_profile(result.vector), expected, atol=1e-5)
    assert result.posts.tolist() == entered


def slow_drawn_back(profile: F64, start: F64) -> F64:
    """The first vector on the way to the seeds' mean, in small steps, that is near it."""
    while profile @ start < MIN_SEED_COSINE:
        profile = profile + 1e-6 * start
        profile /= np.sqrt(profile @ profile)
    return profile


def plain_start(seeds: Embeddings) -> F64:
    start: F64 = plain(seeds).mean(axis=0)
    return start / np.sqrt(start @ start)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 30), st.integers(0, 6),
    st.sampled_from([0.0, 0.75]), st.sampled_from([None, False, True]), st.integers(1, 40),
)  # fmt: skip
def test_any_profile_is_finite_and_near_its_seeds(
    seed: int, seeds: int, posts: int, labels: int, mix: float, burst: bool | None, people: int
) -> None:
    rng = np.random.default_rng(seed)
    articles = texts(rng, seeds, mix=mix, about=2)
    received = texts(rng, posts, mix=mix, about=2 * rng.random(), empty=True)
    authors = rng.integers(people, size=posts).tolist()
    on, off = (
        AuthoredPosts.anonymous(texts(rng, labels, mix=mix, about=a, empty=True)) for a in (0, 2)
    )
    result = learn(
        articles, texts(rng, posts, mix=mix), AuthoredPosts(received, authors), on, off, burst
    )  # fmt: skip
    profile = plain_profile(result.vector)
    assert abs(np.sqrt(profile @ profile) - 1) < 1e-5
    assert profile @ plain_start(articles) >= MIN_SEED_COSINE - 1e-5
    confirmed = len(result.on) >= 3
    assert 0 <= result.beta <= (0.3 if burst is False and not confirmed else 1)
    entered = [authors[row] for row in result.posts]
    assert len(entered) == len(set(entered)) <= 20
    cosines = plain(received[result.posts]) @ plain(received[result.posts]).T
    assert (cosines[~np.eye(len(cosines), dtype=bool)] < 0.7 + 1e-5).all()


@pytest.mark.parametrize("attempts", [1, 48])
def test_a_burst_is_what_a_binomial_hardly_brings(attempts: int) -> None:
    for before, share in ((0, 0.5), (3, 0.1), (40, 0.02)):
        least = next(n for n in range(500) if is_burst(n, before, share, attempts))
        chances = [binom.sf(n - 1, n + before, share) for n in (least - 1, least)]
        assert chances[1] < 0.001 / attempts <= chances[0]
    assert not is_burst(0, 0, 0.5)
