"""The bootstrap: the same draws for all, whole clusters_of, and intervals that mean something."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from train.protocol.bootstrap import ap_figure, auc_figure, clusters_of, compared, draw_counts


def test_copies_of_a_text_are_one_cluster() -> None:
    texts = ["Flood in Calgary", "RT @x: flood in calgary! https://t.co/y", "Fire"]
    assert clusters_of(texts).tolist() == [0, 0, 1]


def test_a_cluster_is_drawn_whole() -> None:
    cluster = np.array([0, 0, 1, 2, 2, 2])
    for seed in range(20):
        counts = draw_counts(cluster, np.random.default_rng(seed))
        assert counts[0] == counts[1]
        assert counts[3] == counts[4] == counts[5]
        assert counts[0] + counts[2] + counts[3] == 3


@pytest.mark.parametrize("seed", range(5))
def test_weights_count_a_pair_so_many_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random((9, 6)) * 8).astype(np.float32)
    label = rng.random((9, 6)) < 0.3
    rows, columns = rng.integers(0, 4, 9), rng.integers(0, 4, 6)
    weight = np.outer(rows, columns).ravel()
    expected = average_precision_score(label.ravel(), score.ravel(), sample_weight=weight)
    assert ap_figure(score, label)(rows, columns) == pytest.approx(expected)
    on, other = score[:4].ravel(), score[4:].ravel()
    both = np.arange(54) < len(on)
    expected = roc_auc_score(both, np.concatenate([on, other]), sample_weight=weight)
    found = auc_figure(on, other)(weight[: len(on)], weight[len(on) :])
    assert found == pytest.approx(expected)


def test_a_scorer_does_not_differ_from_itself() -> None:
    rng = np.random.default_rng(3)
    label = np.eye(20, dtype=np.bool_)
    score = (rng.random((20, 20)) + label).astype(np.float32)
    worse = rng.random((20, 20)).astype(np.float32)
    each = np.arange(20)
    mine, other = ap_figure(score, label), ap_figure(worse, label)
    same, drawn = (compared([mine, one], each, each, 50) for one in (mine, other))
    own, apart = same[1]
    assert (apart.value, apart.low, apart.high) == (0, 0, 0)
    assert own.low <= own.value <= own.high + 0.1
    assert drawn[1][1].high < 0
    on, others = rng.random(300) + 0.2, rng.random(300)
    figure = auc_figure(on.astype(np.float32), others.astype(np.float32))
    (value, _), (_, none) = compared([figure] * 2, np.arange(300), np.arange(300), 200)
    assert value.low < value.value < value.high
    assert (none.low, none.high) == (0, 0)
    # the standard error of an AUC near 0.69 of 300 against 300 is about 0.021
    assert 0.04 < value.high - value.low < 0.13
