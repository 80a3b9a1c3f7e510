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


@pytest.mark.parametrize(
    ("scores", "labels", "precision", "confidence", "named"),
    [
        ([1.0], [True, False], 0.8, 0.9, "labels"),
        ([float("nan")], [True], 0.8, 0.9, "scores"),
        ([1.0], [2], 0.8, 0.9, "labels"),
        ([1.0], [True], 1.0, 0.9, "precision"),
        ([1.0], [True], float("nan"), 0.9, "precision"),
        ([1.0], [True], 0.8, 1.0, "confidence"),
    ],
)
def test_nonsense_is_refused_by_name(
    scores: list[float], labels: list[bool], precision: Any, confidence: Any, named: str
) -> None:
    with pytest.raises(InputError, match=f"^{named}: "):
        precision_threshold(scores, labels, precision, confidence)


def test_the_promise_holds_where_the_precision_is_short_of_it_everywhere() -> None:
    """On a flat null each threshold that is given breaks the promise, so none may be given."""
    random, broken = np.random.default_rng(12), 0
    for _ in range(500):
        scores, labels = random.uniform(size=100), random.uniform(size=100) < 0.795
        broken += precision_threshold(scores, labels) is not None
    assert broken <= 0.1 * 500


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
