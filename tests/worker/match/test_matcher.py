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
from worker.match.matcher import Limits, Matcher, PartIndex, PostRows, SeedPairs, sweep
from worker.seeds.record import Seed
from worker.seeds.set import NEVER_EXPIRES, SeedSet, SeedVectors

DIM = 8
ROUNDING = 1e-5  # of scores in float32, at most


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
    ends = np.full(len(seeds), NEVER_EXPIRES) if expiry is None else expiry
    vectors = SeedVectors((seeds,), np.zeros(len(seeds), np.int32), np.arange(len(seeds)))
    return SeedSet(named, vectors, thresholds, "0" * 12, (), ends)


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
    result = []
    for i in range(len(posts)):
        here = []
        for k in range(len(seeds)):
            s = score(posts, i, seeds.embeddings, k)
            if s >= seeds.thresholds[k] and times[i] < seeds.expiry[k]:
                here.append((i, k, s))
        result += sorted(here, key=lambda match: (-match[2], match[1]))
    return result


def listed(result: SeedPairs) -> list[tuple[int, int, np.float32]]:
    return list(zip(result.posts.tolist(), result.seeds.tolist(), result.scores, strict=True))


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(0, 30), st.integers(0, 90),
    st.sampled_from([0.0, 0.3, 0.7, 0.99]), st.sampled_from([3, 40, 400]),
    st.sampled_from([0, 3, 128]), st.sampled_from([1, 13, 4096]), st.sampled_from([1, 3]),
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
    expiry = rng.choice([100, 200, NEVER_EXPIRES], k)
    times = rng.choice([-1, 99, 100, 101, 200, 500], n).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.match.matcher.MAX_COMMON_WORDS", columns)
        patch.setattr("worker.match.matcher.MIN_COMMON_SHARE", 0.0)
        patch.setattr("worker.match.matcher.MIN_COMMON_SEEDS", 2)
        patch.setattr("worker.match.matcher.SEEDS_AT_ONCE", 32)
        patch.setattr("worker.match.matcher.MAX_POSTS_AT_ONCE", block)
        patch.setattr("worker.match.matcher.MIN_THREAD_SCORES", 1)
        seeds = made_set(articles, thresholds, expiry)
        result = Matcher(seeds, threads).match(posts, times)
        few = {most: Matcher(seeds, threads, most).match(posts, times) for most in (1, 3)}
    every = slow(posts, times, seeds)
    assert listed(result) == every
    assert result.counts.tolist() == [sum(i == post for post, _, _ in every) for i in range(n)]
    assert result.hits.tolist() == [sum(j == seed for _, seed, _ in every) for j in range(k)]
    for most, limited in few.items():
        assert listed(limited) == [
            match for i in range(n) for match in [m for m in every if m[0] == i][:most]
        ]
        assert limited.counts.tolist() == result.counts.tolist()
        assert limited.hits.tolist() == result.hits.tolist()
    for i in range(n):
        alive = [score(posts, i, articles, j) for j in range(k) if times[i] < expiry[j]]
        assert result.best[i] == pytest.approx(max(alive, default=-2), abs=ROUNDING)


def test_another_models_posts_are_refused() -> None:
    rng = np.random.default_rng(7)
    matcher = Matcher(made_set(rows(rng, 2, 5, 0.5, 0), np.ones(2, np.float32)))
    with pytest.raises(MismatchError, match="one model"):
        matcher.match(rows(rng, 2, 5, 0.25, 0), np.zeros(2, np.int64))


def test_memory_does_not_grow_with_the_number_of_matches() -> None:
    """Each post reaches about half of the seeds; the best are kept, and memory for them alone."""
    rng = np.random.default_rng(8)
    posts, articles = rows(rng, 512, 400, 0.6, 0.0), rows(rng, 4000, 400, 0.6, 0.0)
    times = np.zeros(len(posts), np.int64)

    def held(threshold: float) -> tuple[int, SeedPairs]:
        matcher = Matcher(made_set(articles, np.full(4000, threshold, np.float32)), most=10)
        matcher.match(posts, times)
        tracemalloc.start()
        result = matcher.match(posts, times)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak, result

    usual_peak, _ = held(0.5)
    low_peak, result = held(1e-6)
    assert result.counts.sum() > 500_000
    assert np.bincount(result.posts).tolist() == [10] * 512
    assert low_peak < usual_peak + 4_000_000


def test_a_limit_beyond_the_number_of_seeds_takes_no_memory() -> None:
    """Without a limit the matches would take 8 GiB, which a small machine refuses."""
    rng = np.random.default_rng(9)
    texts = rows(rng, 3, 5, 0.5, 0)
    matcher = Matcher(made_set(texts, np.full(3, 0.4, np.float32)), most=2**45)
    assert matcher.match(texts, np.zeros(3, np.int64)).counts.min() >= 1


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(0, 20), st.integers(1, 70), st.sampled_from([0.0, 0.7]),
    st.sampled_from([0, 2, 1000]), st.sampled_from([32, 512]),
)  # fmt: skip
def test_watched_scores_are_the_most_that_those_of_the_embeddings_may_be(
    seed: int, n: int, k: int, mix: float, common: int, part: int
) -> None:
    rng = np.random.default_rng(seed)
    posts, seeds = rows(rng, n, 30, mix, 0.1), rows(rng, k, 30, mix, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.match.matcher.MIN_COMMON_SHARE", 0.0)
        patch.setattr("worker.match.matcher.MIN_COMMON_SEEDS", 0)
        patch.setattr("worker.match.matcher.MAX_COMMON_WORDS", common)
        patch.setattr("worker.match.matcher.SEEDS_AT_ONCE", part)
        never = np.full(k, NEVER_EXPIRES)
        index = PartIndex.build(seeds, np.arange(k), np.ones(k, np.float32), never)
        watched = rng.permutation(k)
        found = sweep(PostRows.of(posts, np.zeros(n, np.int64)), index, Limits(3, watched))
    assert found.watched.shape == (n, k)
    above = found.watched - posts.similarity(seeds)[:, watched]
    assert 0 <= above.min(initial=0) <= above.max(initial=0) < 2 * ROUNDING
    assert len(index.lists.table) <= common
