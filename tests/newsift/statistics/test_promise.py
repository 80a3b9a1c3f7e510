"""The threshold with a promise is that of an obvious loop, and keeps its promise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from encoder.errors import InputError
from newsift.statistics import precision_threshold
from newsift.statistics.promise import confidence_of_version, labels_needed, lapses

LABELS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([True] * 9 + [False])), max_size=90)


def obvious(drawn: list[tuple[int, bool]], precision: float, confidence: float) -> float | None:
    """The same by counting, cut by cut, with scipy's test."""
    n, alpha = len(drawn), 1 - confidence
    errors = 1 if n >= 40 else 0
    start = next(
        k for k in range(1, 10_000) if stats.binom.sf(k - errors - 1, k, precision) <= alpha
    )
    passed = None
    for cut in sorted({score for score, _ in drawn}, reverse=True):
        top = [label for score, label in drawn if score >= cut]
        if len(top) < start:
            continue
        if stats.binom.sf(sum(top) - 1, len(top), precision) > alpha:
            break
        passed = float(cut)
    return passed


@given(LABELS, st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([0.8, 0.9]))
def test_the_threshold_is_that_of_the_obvious_loop(
    drawn: list[tuple[int, bool]], precision: float, confidence: float
) -> None:
    scores, labels = [score for score, _ in drawn], [label for _, label in drawn]
    result = precision_threshold(scores, labels, precision, confidence)
    assert result == obvious(drawn, precision, confidence)


@pytest.mark.parametrize(
    ("precision", "needed"), [(0.8, [11, 18, 25]), (0.9, [22, 38, 52]), (0.999999, [2302584])]
)
def test_labels_needed_are_those_of_the_table(precision: float, needed: list[int]) -> None:
    assert [labels_needed(precision, 0.9, errors) for errors in range(len(needed))] == needed


def test_a_test_that_the_numbers_meet_exactly_is_passed() -> None:
    assert labels_needed(0.5, 0.875) == 3  # 0.5³ = 0.125
    assert precision_threshold([3, 2, 1], [True] * 3, 0.5, 0.875) == 1


def test_too_few_labels_promise_nothing() -> None:
    assert precision_threshold([], [], 0.8, 0.9) is None
    assert precision_threshold(range(10), [True] * 10, 0.8, 0.9) is None
    assert precision_threshold(range(11), [True] * 11, 0.8, 0.9) == 0


def test_a_cut_never_parts_equal_scores() -> None:
    scores = [2.0] * 15 + [1.0] * 15
    labels = [True] * 15 + [True] * 5 + [False] * 10
    assert precision_threshold(scores, labels) == 2


def test_one_wrong_label_at_the_top_is_no_end_where_there_are_forty() -> None:
    labels = [False] + [True] * 39
    assert precision_threshold(range(40, 0, -1), labels) == 1
    assert precision_threshold(range(39, 0, -1), labels[:39]) is None


def test_from_forty_on_the_first_test_allows_one_error_or_there_is_none() -> None:
    right = [True] * 80
    assert precision_threshold(range(39), right[:39], 0.9) == 0  # ⌈ln 0.1 / ln 0.9⌉ = 22
    assert precision_threshold(range(60), right[:60], 0.95) is None  # 45 would do, 77 are wanted
    assert precision_threshold(range(76), right[:76], 0.95) is None
    assert precision_threshold(range(77), right[:77], 0.95) == 0


def test_a_later_cut_that_would_pass_is_not_reached_past_one_that_fails() -> None:
    labels = [True] * 11 + [False] * 3 + [True] * 25
    assert precision_threshold(range(39, 0, -1), labels) == 29
    assert stats.binom.sf(36 - 1, 39, 0.8) <= 0.1  # the loosest holds by itself


@pytest.mark.parametrize(
    ("scores", "labels", "precision", "confidence", "named"),
    [
        ([1.0], [True, False], 0.8, 0.9, "labels"),
        ([float("nan")], [True], 0.8, 0.9, "scores"),
        ([float("inf")], [True], 0.8, 0.9, "scores"),
        ([[1.0]], [[True]], 0.8, 0.9, "scores"),
        (["a"], [True], 0.8, 0.9, "scores"),
        ([1.0], [2], 0.8, 0.9, "labels"),
        ([1.0], ["on"], 0.8, 0.9, "labels"),
        ([1.0], [None], 0.8, 0.9, "labels"),
        ([1.0], [True], 0.0, 0.9, "precision"),
        ([1.0], [True], 1.0, 0.9, "precision"),
        ([1.0], [True], float("nan"), 0.9, "precision"),
        ([1.0], [True], 0.8, 1.0, "confidence"),
        ([1.0], [True], "0.8", 0.9, "precision"),
        ([1.0], [True], None, 0.9, "precision"),
        ([1.0], [True], 0.8, [0.9], "confidence"),
        ([1.0], [True], 0.8, 1j, "confidence"),
    ],
)
def test_nonsense_is_refused_by_name(
    scores: list[float], labels: list[bool], precision: Any, confidence: Any, named: str
) -> None:
    with pytest.raises(InputError, match=f"^{named}: "):
        precision_threshold(scores, labels, precision, confidence)


def loosest_interval(scores: np.ndarray, labels: np.ndarray, precision: float) -> float | None:
    """The cut that is invalid: the loosest whose own exact interval lies above the precision."""
    order = np.argsort(-scores)
    hits, ks = np.cumsum(labels[order]), np.arange(1, len(scores) + 1)
    passed = ks[stats.binom.sf(hits - 1, ks, precision) <= 0.1]
    return float(scores[order][passed[-1] - 1]) if len(passed) else None


def naive(scores: np.ndarray, labels: np.ndarray, precision: float) -> float | None:
    """The cut that is invalid: the loosest whose labels show the precision as they stand."""
    order = np.argsort(-scores)
    ks = np.arange(1, len(scores) + 1)
    passed = ks[np.cumsum(labels[order]) / ks >= precision]
    return float(scores[order][passed[-1] - 1]) if len(passed) else None


def test_the_promise_holds_where_the_precision_is_short_of_it_everywhere() -> None:
    """On a flat null each threshold that is given breaks the promise, so none may be given."""
    random, broken = np.random.default_rng(12), {"ours": 0, "loosest": 0, "naive": 0}
    for _ in range(500):
        scores, labels = random.uniform(size=100), random.uniform(size=100) < 0.795
        broken["ours"] += precision_threshold(scores, labels) is not None
        broken["loosest"] += loosest_interval(scores, labels, 0.8) is not None
        broken["naive"] += naive(scores, labels, 0.8) is not None
    assert broken["ours"] <= 0.1 * 500
    assert min(broken["loosest"], broken["naive"]) > 0.15 * 500


def test_all_versions_of_a_profile_share_one_error() -> None:
    spent = [1 - confidence_of_version(0.9, version) for version in range(1, 200_000)]
    assert spent[0] == pytest.approx(0.1 * 6 / np.pi**2)
    assert sum(spent) == pytest.approx(0.1, rel=1e-5)
    with pytest.raises(InputError, match=r"^version: 0"):
        confidence_of_version(0.9, 0)


def test_a_promise_lapses_where_what_always_passes_is_too_large_a_part() -> None:
    """4 in 1,000 pass without the event: of 20 they are a fifth, of fewer they are more."""
    assert not lapses(0.020001, 0.004, 0.8)
    assert lapses(0.019999, 0.004, 0.8)
    with pytest.raises(InputError, match=r"^pass rates: "):
        lapses(float("nan"), 0.004, 0.8)
