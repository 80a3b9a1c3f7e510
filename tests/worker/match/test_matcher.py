"""Matches against slow obvious loops: every pair, in Python floats, one after the other."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder import Embeddings
from encoder.embeddings import unit_rows
from encoder.errors import MismatchError
from encoder.model.weights import F32, I64
from encoder.score.lexical import SparseRows
from worker.match.matcher import Matcher, SeedIndex, SeedPairs, index_of, most_common
from worker.match.sweep import OUT_OF_REACH, SweepLimits, SweepTotals, hide_expired, look_at, survey
from worker.seeds.record import Seed
from worker.seeds.set import NEVER, SeedSet

DIM = 8


def rows(rng: np.random.Generator, count: int, words: int, mix: float, empty: float) -> Embeddings:
    """Random texts over few words, so that much is shared; some of them have no word."""
    dense = unit_rows(rng.standard_normal((count, DIM)).astype(np.float32))
    bare = rng.random(count) < empty
    dense[bare] = 0
    ends, slots, weights = [0], [], []
    for i in range(count):
        picked = rng.choice(words, rng.integers(0, min(words, 30) + 1), replace=False)
        held = np.sort(picked) * 997 % 262_144 if mix and not bare[i] else picked[:0]
        held = np.unique(held)
        slots.append(held)
        weights.append(rng.uniform(0.01, 3, len(held)))
        ends.append(ends[-1] + len(held))
    words_of = SparseRows(
        np.array(ends, np.int64),
        np.concatenate([*slots, []]).astype(np.int32),
        np.concatenate([*weights, []]).astype(np.float32),
    ).unit()
    return Embeddings(dense, words_of, mix, "ab" * 32)


def learned(rng: np.random.Generator, seeds: Embeddings) -> Embeddings:
    """The same rows, each third as of an event: of length one together, some words against it."""
    dense, ends = seeds.dense.copy(), seeds.lexical.indptr
    weights = seeds.lexical.weights.copy()
    for k in range(0, len(seeds), 3):
        words = weights[ends[k] : ends[k + 1]]
        whole = seeds.mix * float(words @ words) + (1 - seeds.mix) * float(dense[k] @ dense[k])
        if not whole:
            continue
        share = rng.uniform(0, 1) if len(words) and dense[k].any() else float(not len(words))
        dense[k] *= np.sqrt(share / (1 - seeds.mix))
        words *= rng.choice([-1, 1], len(words)) * np.sqrt((1 - share) / (seeds.mix or 1))
    lexical = SparseRows(ends, seeds.lexical.slots, weights)
    return Embeddings(dense, lexical, seeds.mix, seeds.digest)


def made_set(seeds: Embeddings, thresholds: F32, expiry: I64 | None = None) -> SeedSet:
    named = tuple(Seed(f"{i:05d}", "", f"text {i}", "e") for i in range(len(seeds)))
    never = np.full(len(seeds), NEVER)
    return SeedSet(named, seeds, thresholds, "0" * 12, (), never if expiry is None else expiry)


def score(posts: Embeddings, i: int, seeds: Embeddings, k: int) -> np.float32:
    """The score from its definition: both halves in order, in double precision, rounded once."""
    near = 0.0
    for x, y in zip(posts.dense[i].tolist(), seeds.dense[k].tolist(), strict=True):
        near += x * y
    left, right = posts.lexical[i : i + 1], seeds.lexical[k : k + 1]
    there = dict(zip(right.slots.tolist(), right.weights.tolist(), strict=True))
    same = 0.0
    for slot, weight in zip(left.slots.tolist(), left.weights.tolist(), strict=True):
        if slot in there:
            same += weight * there[slot]
    return np.float32(min(1.0, max(-1.0, (1 - posts.mix) * near + posts.mix * same)))


def slow(posts: Embeddings, times: I64, seeds: SeedSet) -> list[tuple[int, int, np.float32]]:
    """All matches, post by post, the highest score first."""
    found = []
    for i in range(len(posts)):
        here = []
        for k in range(len(seeds)):
            s = score(posts, i, seeds.embeddings, k)
            if s >= seeds.thresholds[k] and times[i] < seeds.expiry[k]:
                here.append((i, k, s))
        found += sorted(here, key=lambda match: (-match[2], match[1]))
    return found


def listed(found: SeedPairs) -> list[tuple[int, int, np.float32]]:
    return list(zip(found.posts.tolist(), found.seeds.tolist(), found.scores, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(0, 30), st.integers(0, 90),
    st.sampled_from([0.0, 0.3, 0.7, 0.99]), st.sampled_from([3, 40, 400]),
    st.sampled_from([0, 3, 128]), st.sampled_from([1, 64, 2**22]), st.sampled_from([1, 3]),
)  # fmt: skip
def test_matches_are_those_of_the_slow_loop(
    seed: int, n: int, k: int, mix: float, words: int, columns: int, block: int, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    posts = rows(rng, n, words, mix, 0.1)
    articles = learned(rng, rows(rng, k, words, mix, 0.1))
    assert articles.is_unit()
    thresholds = rng.choice([1e-6, 0.05, 0.2, 0.5, 1.0], k).astype(np.float32)
    # Thresholds that a score meets to the bit, and those that it misses by one.
    for at in range(0, k if n else 0, 3):
        exact = score(posts, int(rng.integers(n)), articles, at)
        above = np.nextafter(exact, np.float32(2), dtype=np.float32)
        thresholds[at] = max(np.float32(1e-6), exact if rng.random() < 0.5 else above)
    expiry = rng.choice([100, 200, NEVER], k)
    times = rng.choice([-1, 99, 100, 101, 200, 500], n).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.match.matcher.MAX_COLUMNS", columns)
        patch.setattr("worker.match.matcher.COMMON_SHARE", 0.0)
        patch.setattr("worker.match.matcher.SHORT_LIST", 2)
        patch.setattr("worker.match.matcher.POSTS_AT_ONCE", 12)
        patch.setattr("worker.match.matcher.SEEDS_AT_ONCE", 32)
        patch.setattr("worker.match.matcher.POSTS_AT_ONCE", 12)
        patch.setattr("worker.match.matcher.BLOCK_SCORES", block)
        seeds = made_set(articles, thresholds, expiry)
        found = Matcher(seeds, threads).match(posts, times)
        few = {most: Matcher(seeds, threads, most).match(posts, times) for most in (1, 3)}
    every = slow(posts, times, seeds)
    assert listed(found) == every
    assert found.counts.tolist() == [sum(i == post for post, _, _ in every) for i in range(n)]
    assert found.hits.tolist() == [sum(j == seed for _, seed, _ in every) for j in range(k)]
    for most, kept in few.items():
        assert listed(kept) == [
            match for i in range(n) for match in [m for m in every if m[0] == i][:most]
        ]
        assert kept.counts.tolist() == found.counts.tolist()
        assert kept.hits.tolist() == found.hits.tolist()
    for i in range(n):
        alive = [score(posts, i, articles, j) for j in range(k) if times[i] < expiry[j]]
        assert found.best[i] == pytest.approx(max(alive, default=-2), abs=index_of(seeds).slack)


@pytest.mark.parametrize("mix", [0.0, 0.7])
def test_many_seeds_by_column_and_by_list(mix: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.match.matcher.COMMON_SHARE", 0.05)
    rng = np.random.default_rng(3)
    posts, articles = rows(rng, 40, 300, mix, 0.0), rows(rng, 1500, 300, mix, 0.0)
    seeds = made_set(articles, np.full(1500, 0.3, np.float32))
    if mix:
        assert index_of(seeds).matrix.depth > DIM, "some words are columns"
        assert (index_of(seeds).lists.column < 0).any()
    found = Matcher(seeds).match(posts, np.zeros(40, np.int64))
    similar = posts.similarity(articles)
    sure = {tuple(pair) for pair in np.argwhere(similar >= 0.3 + 1e-5).tolist()}
    maybe = {tuple(pair) for pair in np.argwhere(similar >= 0.3 - 1e-5).tolist()}
    pairs = set(zip(found.posts.tolist(), found.seeds.tolist(), strict=True))
    assert sure <= pairs <= maybe
    assert len(sure) > 100
    np.testing.assert_allclose(found.scores, similar[found.posts, found.seeds], atol=1e-6)
    np.testing.assert_allclose(found.best, similar.max(axis=1), atol=index_of(seeds).slack)


def test_a_post_has_the_same_matches_alone_and_in_any_company() -> None:
    rng = np.random.default_rng(4)
    posts, articles = rows(rng, 50, 40, 0.6, 0.1), rows(rng, 300, 40, 0.6, 0.1)
    matcher = Matcher(made_set(articles, rng.uniform(0.2, 0.6, 300).astype(np.float32)))
    times = np.zeros(50, np.int64)
    order = rng.permutation(50)
    together = listed(matcher.match(posts[order], times))
    alone = [
        (at, k, s)
        for at, i in enumerate(order.tolist())
        for _, k, s in listed(matcher.match(posts[i : i + 1], times[:1]))
    ]
    assert together == alone
    assert len(alone) > 50


def test_a_post_without_words_matches_nothing_however_low_the_threshold() -> None:
    nothing = Embeddings(np.zeros((1, DIM), np.float32), SparseRows.empty(1), 0.5, "ab" * 32)
    articles = rows(np.random.default_rng(5), 9, 5, 0.5, 0.0)
    lowest = np.full(9, np.finfo(np.float32).tiny)
    found = Matcher(made_set(articles, lowest)).match(nothing, np.zeros(1, np.int64))
    assert len(found.posts) == 0


def test_no_seeds_and_no_posts() -> None:
    rng = np.random.default_rng(6)
    none = made_set(rows(rng, 0, 5, 0.5, 0), np.zeros(0, np.float32))
    found = Matcher(none).match(rows(rng, 3, 5, 0.5, 0), np.zeros(3, np.int64))
    assert (len(found.posts), found.best.tolist()) == (0, [-2, -2, -2])
    some = made_set(rows(rng, 2, 5, 0.5, 0), np.ones(2, np.float32))
    found = Matcher(some).match(rows(rng, 0, 5, 0.5, 0), np.zeros(0, np.int64))
    assert (len(found.posts), len(found.best)) == (0, 0)


def test_another_models_posts_are_refused() -> None:
    rng = np.random.default_rng(7)
    matcher = Matcher(made_set(rows(rng, 2, 5, 0.5, 0), np.ones(2, np.float32)))
    with pytest.raises(MismatchError, match="one model"):
        matcher.match(rows(rng, 2, 5, 0.25, 0), np.zeros(2, np.int64))


def test_the_decision_is_on_float32() -> None:
    """0.3 as float32 lies above 0.3: a score of exactly that float32 is a match."""
    dense = np.zeros((1, DIM), np.float32)
    dense[0, 0] = 1
    other = dense.copy()
    other[0, 0] = np.float32(0.3)
    other[0, 1] = np.sqrt(np.float32(1) - np.float32(0.3) ** 2)
    post = Embeddings(dense, SparseRows.empty(1), 0.0, "ab" * 32)
    article = Embeddings(other, SparseRows.empty(1), 0.0, "ab" * 32)
    at = np.zeros(1, np.int64)
    equal = made_set(article, np.array([0.3], np.float32))
    above = made_set(article, np.nextafter(np.array([0.3], np.float32), np.float32(1)))
    assert len(Matcher(equal).match(post, at).posts) == 1
    assert len(Matcher(above).match(post, at).posts) == 0


def test_low_thresholds_with_many_seeds_hold_no_more_than_high_ones() -> None:
    """Each post reaches about half of the seeds; the best are kept, and memory for them alone."""
    rng = np.random.default_rng(8)
    posts, articles = rows(rng, 512, 400, 0.6, 0.0), rows(rng, 4000, 400, 0.6, 0.0)
    times = np.zeros(len(posts), np.int64)

    def held(threshold: float) -> tuple[int, SeedPairs]:
        matcher = Matcher(made_set(articles, np.full(4000, threshold, np.float32)), most=10)
        matcher.match(posts, times)
        tracemalloc.start()
        found = matcher.match(posts, times)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak, found

    usual_peak, _ = held(0.5)
    low_peak, found = held(1e-6)
    assert found.counts.sum() > 500_000
    assert np.bincount(found.posts).tolist() == [10] * 512
    assert low_peak < usual_peak + 4_000_000


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(0, 20), st.integers(1, 70), st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0, 2, 1000]), st.sampled_from([32, 512]),
)  # fmt: skip
def test_scores_are_those_of_the_embeddings(
    seed: int, n: int, k: int, mix: float, share: float, columns: int, part: int
) -> None:
    rng = np.random.default_rng(seed)
    posts, seeds = rows(rng, n, 30, mix, 0.1), rows(rng, k, 30, mix, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.match.matcher.COMMON_SHARE", share)
        patch.setattr("worker.match.matcher.SHORT_LIST", 0)
        patch.setattr("worker.match.matcher.MAX_COLUMNS", columns)
        patch.setattr("worker.match.matcher.POSTS_AT_ONCE", 12)
        patch.setattr("worker.match.matcher.SEEDS_AT_ONCE", part)
        index = SeedIndex.of(seeds)
        chosen = rng.permutation(k)
        limits = index.sweep_limits(np.ones(k, np.float32), np.full(k, 9), 3, chosen)
        found = index.compared(posts, np.zeros(n, np.int64), limits).chosen
    assert found.shape == (n, k)
    error = np.abs(found - posts.similarity(seeds)[:, chosen]).max(initial=0)
    assert error <= index.slack < 5e-4
    assert (index.lists.column >= 0).sum() <= columns


def test_the_longest_lists_become_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([5, 900, 0, 300, 167, 166, 900], np.int32)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3, 4]
    monkeypatch.setattr("worker.match.matcher.MAX_COLUMNS", 3)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3]
    assert most_common(lengths, 10).tolist() == [1, 6, 3], "short lists are walked in any case"
    monkeypatch.setattr("worker.match.matcher.MAX_COLUMNS", 9)
    assert most_common(np.array([64, 65], np.int32), 10).tolist() == [1]


NONE = np.zeros(0, np.int64)
LOW = 64  # where the part begins


def nothing(n: int, k: int) -> SweepTotals:
    counts, hits = np.zeros(n, np.int64), np.zeros(k, np.int64)
    return SweepTotals(np.full(n, OUT_OF_REACH), counts, hits, np.zeros((n, 0), np.float32))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 70), st.integers(1, 5))
def test_what_a_part_is_looked_at_for(seed: int, n: int, k: int, kept: int) -> None:
    rng = np.random.default_rng(seed)
    room = -(-k // 32) * 32
    scores: F32 = np.zeros((n, room), np.float32)
    scores[:, :k] = rng.choice([-0.9, -0.2, 0.1, 0.5, 0.9], (n, k))
    cuts = np.full(LOW + room, np.inf, np.float32)
    own = cuts[LOW:]
    own[:k] = rng.choice([-0.5, 0.1, 0.5, 0.95], k, p=[0.05, 0.15, 0.3, 0.5])
    before = rng.choice([-2, 0.3], n).astype(np.float32)
    best, most = before.copy(), np.empty(n, np.float32)
    survey(scores, own, k, best, most)
    assert best.tolist() == [
        max(was, *row[:k].tolist()) for was, row in zip(before.tolist(), scores, strict=True)
    ]
    assert most.tolist() == [max((row[:k] - own[:k]).tolist()) for row in scores]
    sure = cuts + rng.choice([0, 0.3], LOW + room).astype(np.float32)
    limits = SweepLimits(cuts, sure, NONE, kept, 0.1, NONE)
    least, seen = rng.choice([-2, 0.3], n).astype(np.float32), nothing(n + 2, LOW + room)
    floors = least.tolist()
    triples, end = np.empty((1, 3), np.int64), 0
    triples, end = look_at(scores, limits, 2, LOW, most, least, seen, triples, end)
    certain = scores >= sure[LOW:]
    assert seen.counts.tolist() == [0, 0, *certain.sum(axis=1).tolist()]
    assert seen.hits.tolist() == [0] * LOW + certain.sum(axis=0).tolist()
    wanted = []
    for i in range(n):
        high = sorted(scores[i, certain[i]].tolist(), reverse=True)
        floor = max(floors[i], high[kept - 1] - 0.1) if len(high) > kept else floors[i]
        assert abs(least[i] - floor) < 1e-6
        wanted += [
            [2 + i, LOW + j, int(not certain[i, j])]
            for j in range(k)
            if scores[i, j] >= own[j] and (not certain[i, j] or scores[i, j] >= floor)
        ]
    assert triples[:end].tolist() == wanted


def test_expired_seeds_are_out_of_reach() -> None:
    scores = np.ones((2, 32), np.float32)
    hide_expired(scores, np.array([100, 101, 102]), np.array([100, 101]))
    hidden = np.argwhere(scores == OUT_OF_REACH).tolist()
    assert hidden == [[0, 0], [1, 0], [1, 1]]
