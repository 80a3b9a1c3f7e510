"""The index of the seeds: every score up to rounding, however the words are divided."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.match.test_matcher import rows
from worker.seeds import index as inverted
from worker.seeds.index import SeedIndex, most_common


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
        patch.setattr(inverted, "COMMON_SHARE", share)
        patch.setattr(inverted, "SHORT_LIST", 0)
        patch.setattr(inverted, "MAX_COLUMNS", columns)
        patch.setattr(inverted, "POSTS_AT_ONCE", 12)
        patch.setattr(inverted, "SEEDS_AT_ONCE", part)
        index = SeedIndex.of(seeds)
        chosen = rng.permutation(k)
        asked = index.asked(np.ones(k, np.float32), np.full(k, 9), 3, chosen)
        found = index.compared(posts, np.zeros(n, np.int64), asked).chosen
    assert found.shape == (n, k)
    error = np.abs(found - posts.similarity(seeds)[:, chosen]).max(initial=0)
    assert error <= index.slack < 5e-4
    assert (index.lists.column >= 0).sum() <= columns


def test_the_longest_lists_become_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([5, 900, 0, 300, 167, 166, 900], np.int32)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3, 4]
    monkeypatch.setattr(inverted, "MAX_COLUMNS", 3)
    assert most_common(lengths, 1000).tolist() == [1, 6, 3]
    assert most_common(lengths, 10).tolist() == [1, 6, 3], "short lists are walked in any case"
    monkeypatch.setattr(inverted, "MAX_COLUMNS", 9)
    assert most_common(np.array([64, 65], np.int32), 10).tolist() == [1]
