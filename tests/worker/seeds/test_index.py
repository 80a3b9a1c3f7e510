"""The index of the seeds: every score up to rounding, however the words are divided."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.model.weights import F32
from tests.worker.match.test_matcher import rows
from worker.seeds import index as inverted
from worker.seeds.index import (
    OUT_OF_REACH,
    SeedIndex,
    hide_expired,
    most_common,
    survey,
    within_reach,
)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(0, 20), st.integers(1, 70), st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0, 2, 1000]),
)  # fmt: skip
def test_scores_are_those_of_the_embeddings(
    seed: int, n: int, k: int, mix: float, share: float, columns: int
) -> None:
    rng = np.random.default_rng(seed)
    posts, seeds = rows(rng, n, 30, mix, 0.1), rows(rng, k, 30, mix, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inverted, "COMMON_SHARE", share)
        patch.setattr(inverted, "SHORT_LIST", 0)
        patch.setattr(inverted, "MAX_COLUMNS", columns)
        index = SeedIndex.of(seeds)
    found = index.scores(posts)
    assert len(found) == n
    error = np.abs(found[:, :k] - posts.similarity(seeds)).max(initial=0)
    assert error <= index.slack < 5e-4
    assert (index.column >= 0).sum() <= columns


def test_the_longest_lists_become_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([5, 900, 0, 300, 251, 250, 900], np.int32)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3, 4]
    monkeypatch.setattr(inverted, "MAX_COLUMNS", 3)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3]
    assert most_common(lengths, 10).tolist() == [1, 6, 3], "short lists are walked in any case"
    monkeypatch.setattr(inverted, "MAX_COLUMNS", 9)
    assert most_common(np.array([64, 65], np.int32), 10).tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 70), st.integers(1, 5))
def test_survey_and_reached_against_loops(seed: int, n: int, k: int, kept: int) -> None:
    rng = np.random.default_rng(seed)
    room = -(-k // 32) * 32
    scores: F32 = np.zeros((n, room), np.float32)
    scores[:, :k] = rng.choice([-0.9, -0.2, 0.1, 0.5, 0.9], (n, k))
    cuts = np.full(room, np.inf, np.float32)
    cuts[:k] = rng.choice([-0.5, 0.1, 0.5, 0.95], k, p=[0.05, 0.15, 0.3, 0.5])
    best, most = np.empty((2, n), np.float32)
    survey(scores, cuts, k, best, most)
    assert best.tolist() == [max(row[:k].tolist()) for row in scores]
    assert most.tolist() == [max((row[:k] - cuts[:k]).tolist()) for row in scores]
    sure = cuts + rng.choice([0, 0.3], room).astype(np.float32)
    triples, counts, hits = within_reach(scores, cuts, sure, most, kept, 0.1)
    certain = scores >= sure
    assert counts.tolist() == certain.sum(axis=1).tolist()
    assert hits.tolist() == certain.sum(axis=0).tolist()
    wanted = []
    for i in range(n):
        high = sorted(scores[i, certain[i]].tolist(), reverse=True)
        least = high[kept - 1] - 0.1 if len(high) > kept else -2
        wanted += [
            [i, j, int(not certain[i, j])]
            for j in range(k)
            if scores[i, j] >= cuts[j] and (not certain[i, j] or scores[i, j] >= least)
        ]
    assert triples.tolist() == wanted


def test_more_than_fits_at_first() -> None:
    scores, cuts = np.ones((5, 96), np.float32), np.full(96, 0.5, np.float32)
    pairs, _, _ = within_reach(scores, cuts, cuts, np.ones(5, np.float32), 96, 0.0)
    assert pairs.tolist() == [[i, j, 0] for i in range(5) for j in range(96)]


def test_expired_seeds_are_out_of_reach() -> None:
    scores = np.ones((2, 32), np.float32)
    hide_expired(scores, np.array([100, 101, 102]), np.array([100, 101]))
    hidden = np.argwhere(scores == OUT_OF_REACH).tolist()
    assert hidden == [[0, 0], [1, 0], [1, 1]]
