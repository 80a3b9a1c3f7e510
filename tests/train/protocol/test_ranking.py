"""The ranking against scikit-learn and against sorting all pairs."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from encoder.errors import InputError
from encoder.model.weights import F32
from train.protocol.ranking import Block, Bool, ap_of, auc_of, rank_pairs


def blocks(score: F32, label: Bool, width: int) -> Iterator[Block]:
    for start in range(0, score.shape[1], width):
        yield score[:, start : start + width], label[:, start : start + width]


def drawn(seed: int, posts: int, articles: int, steps: int) -> tuple[F32, Bool]:
    """Scores on a grid, so that many are equal, higher where a pair belongs together."""
    rng = np.random.default_rng(seed)
    label = rng.random((posts, articles)) < 0.1
    label[0, 0], label[0, -1] = True, False
    raw = rng.random((posts, articles)) + 0.3 * label
    return (np.round(raw * steps) / steps).astype(np.float32), label


@given(
    st.integers(0, 9999), st.integers(2, 30), st.integers(2, 30), st.sampled_from([3, 40, 10**6]),
    st.integers(1, 9),
)  # fmt: skip
def test_the_ranking_equals_scikit_learn(
    seed: int, posts: int, articles: int, steps: int, width: int
) -> None:
    score, label = drawn(seed, posts, articles, steps)
    found = rank_pairs(lambda: blocks(score, label, width))
    assert found.average_precision == pytest.approx(
        average_precision_score(label.ravel(), score.ravel())
    )
    assert found.auc == pytest.approx(roc_auc_score(label.ravel(), score.ravel()))
    columns = [j for j in range(articles) if label[:, j].any()]
    macro = np.mean([average_precision_score(label[:, j], score[:, j]) for j in columns])
    assert found.macro_ap == pytest.approx(macro)


def test_r_precision_is_the_share_of_the_highest_pairs() -> None:
    score, label = drawn(1, 40, 50, 10**6)
    found = rank_pairs(lambda: blocks(score, label, 7))
    ranked = [own for _, own in sorted(zip(-score.ravel(), label.ravel(), strict=True))]
    assert found.r_precision(50) == pytest.approx(sum(ranked[:50]) / 50)
    assert found.r_precision(1000) == pytest.approx(sum(ranked[:1000]) / 1000)
    assert np.isnan(found.r_precision(3000))
    at = [sum(ranked[:r]) / r for r in (50, 100, 200, 500, 1000, 2000)]
    assert found.mean_r_precision == pytest.approx(np.mean(at))


def test_where_all_pairs_belong_together_there_is_no_auc() -> None:
    score, label = np.ones((1, 1), np.float32), np.ones((1, 1), np.bool_)
    found = rank_pairs(lambda: blocks(score, label, 1))
    assert np.isnan(found.auc)
    assert found.average_precision == 1


def test_a_set_without_a_pair_is_refused() -> None:
    score, label = drawn(1, 3, 3, 10)
    with pytest.raises(InputError, match="no post"):
        rank_pairs(lambda: blocks(score, label & False, 2))


@given(st.integers(0, 9999), st.integers(1, 20), st.integers(1, 20))
def test_ap_and_auc_of_one_ranking_equal_scikit_learn(seed: int, own: int, foreign: int) -> None:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random(own + foreign) * 5) / 5
    label = np.arange(own + foreign) < own
    assert ap_of(score, label) == pytest.approx(average_precision_score(label, score))
    assert auc_of(score[:own], score[own:]) == pytest.approx(roc_auc_score(label, score))
