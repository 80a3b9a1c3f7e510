"""The ranking against scikit-learn and against sorting all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from encoder.model.weights import F32
from train.protocol import ranking
from train.protocol.ranking import Bool, ap_of, auc_of, pair_auc_of, r_precisions


def drawn(seed: int, posts: int, articles: int, steps: int) -> tuple[F32, Bool]:
    """Scores on a grid, so that many are equal, higher where a pair belongs together."""
    rng = np.random.default_rng(seed)
    label = rng.random((posts, articles)) < 0.1
    label[0, 0], label[0, -1] = True, False
    raw = rng.random((posts, articles)) + 0.3 * label
    return (np.round(raw * steps) / steps).astype(np.float32), label


@given(
    st.integers(0, 9999), st.integers(2, 30), st.integers(2, 30), st.sampled_from([3, 40, 10**6])
)
def test_ap_and_auc_equal_scikit_learn(seed: int, posts: int, articles: int, steps: int) -> None:
    score, label = drawn(seed, posts, articles, steps)
    expected = average_precision_score(label.ravel(), score.ravel())
    assert ap_of(score, label) == pytest.approx(expected)
    expected = roc_auc_score(label.ravel(), score.ravel())
    assert auc_of(score[label], score[~label]) == pytest.approx(expected)
    assert pair_auc_of(score, label) == auc_of(score[label], score[~label])


@pytest.mark.parametrize("steps", [40, 10**6])
def test_r_precision_is_the_share_of_the_highest_pairs(steps: int) -> None:
    score, label = drawn(1, 40, 50, steps)
    found = r_precisions(score, label)
    order = sorted(range(2000), key=lambda i: -score.ravel()[i])  # equal ones stay in their order
    ranked = label.ravel()[order]
    for r in (50, 100, 200, 500, 1000, 2000):
        assert found[r] == pytest.approx(sum(ranked[:r]) / r)
    assert np.isnan(found[3000])


def test_where_all_pairs_belong_together_there_is_no_auc() -> None:
    score, label = np.ones((1, 1), np.float32), np.ones((1, 1), np.bool_)
    assert np.isnan(auc_of(score[label], score[~label]))
    assert np.isnan(pair_auc_of(score, label))
    assert ap_of(score, label) == 1


@pytest.mark.parametrize("part", [1, 7, 1999, 2000])
def test_parts_change_nothing(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label = drawn(2, 40, 50, 40)
    whole = [ap_of(score, label), pair_auc_of(score, label), *r_precisions(score, label).values()]
    monkeypatch.setattr(ranking, "PART", part)
    parts = [ap_of(score, label), pair_auc_of(score, label), *r_precisions(score, label).values()]
    np.testing.assert_array_equal(whole, parts)
