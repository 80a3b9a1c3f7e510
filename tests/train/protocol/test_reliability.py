"""Precision by score against scipy's Wilson interval and a stream that is counted out."""

import numpy as np
import pytest
from scipy.stats import binomtest

from train.protocol.reliability import reliability, share_of


@pytest.mark.parametrize(("found", "count"), [(0, 7), (7, 7), (3, 10), (1, 4000), (250, 300)])
def test_the_interval_of_a_share_is_scipys(found: int, count: int) -> None:
    expected = binomtest(found, count).proportion_ci(0.95, method="wilson")
    made = share_of(found, count)
    assert made.value == pytest.approx(found / count)
    assert (made.low, made.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_nothing_seen_leaves_everything_possible() -> None:
    made = share_of(0, 0)
    assert np.isnan(made.value)
    assert (made.low, made.high) == (0, 1)


def test_a_bin_holds_its_scores_and_is_as_precise_as_a_stream() -> None:
    on = np.array([0.11, 0.12, 0.31, -0.01], np.float32)
    other = np.array([0.13, 0.01, 0.02, 0.03, -0.04, -0.01], np.float32)
    bins = {one.low: one for one in reliability(on, other)}
    counted = {low: (one.on, one.other) for low, one in bins.items()}
    assert counted == {-0.05: (1, 2), 0.0: (0, 3), 0.1: (2, 1), 0.3: (1, 0)}
    # 26 × 60 posts, 60 of them on topic: half of those and a sixth of the others lie in the bin
    hits, alarms = 60 * 2 / 4, 25 * 60 / 6
    assert bins[0.1].precision.value == pytest.approx(hits / (hits + alarms))
    assert (bins[0.0].precision.value, bins[0.3].precision.value) == (0, 1)
    for one in bins.values():
        assert one.precision.low <= one.precision.value <= one.precision.high


def test_a_score_on_the_edge_belongs_to_the_bin_above() -> None:
    edges = np.array([0.05, 0.1, 0.15, 0.3, 0.35], np.float32)
    assert [one.low for one in reliability(edges, edges)] == [0.05, 0.1, 0.15, 0.3, 0.35]
