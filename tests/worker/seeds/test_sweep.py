"""The steps of a sweep against slow obvious loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.model.weights import F32
from worker.seeds.sweep import OUT_OF_REACH, Asked, Seen, hide_expired, look_at, survey

NONE = np.zeros(0, np.int64)
LOW = 64  # where the part begins


def nothing(n: int, k: int) -> Seen:
    counts, hits = np.zeros(n, np.int64), np.zeros(k, np.int64)
    return Seen(np.full(n, OUT_OF_REACH), counts, hits, np.zeros((n, 0), np.float32))


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
    asked = Asked(cuts, sure, NONE, kept, 0.1, NONE)
    least, seen = rng.choice([-2, 0.3], n).astype(np.float32), nothing(n + 2, LOW + room)
    floors = least.tolist()
    triples, end = np.empty((1, 3), np.int64), 0
    triples, end = look_at(scores, asked, 2, LOW, most, least, seen, triples, end)
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
