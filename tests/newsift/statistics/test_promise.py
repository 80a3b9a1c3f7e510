import math
from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from encoder.errors import InputError
from newsift.statistics import precision_threshold
from newsift.statistics.promise import (
    CertifyProgress,
    FrozenCuts,
    LabelPlan,
    confidence_of_test,
    cut_ranks,
    cut_scores,
    labels_missing,
    labels_needed,
    log_evidence,
    promise_lapses,
    proof_chances,
)

LABELS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([True] * 9 + [False])), max_size=90)


@given(LABELS, st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([0.8, 0.9]))
def test_the_threshold_is_that_of_the_obvious_loop(
    drawn: list[tuple[int, bool]], precision: float, confidence: float
) -> None:
    scores, labels = [score for score, _ in drawn], [label for _, label in drawn]
    result = precision_threshold(scores, labels, precision, confidence)
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
    assert result == passed


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


def test_all_tests_of_an_event_share_one_error() -> None:
    spent = [1 - confidence_of_test(0.9, test) for test in range(1, 200_000)]
    assert spent[0] == pytest.approx(0.1 * 6 / np.pi**2)
    assert sum(spent) == pytest.approx(0.1, rel=1e-5)
    least = [labels_missing(0, 0, 0.8, confidence_of_test(0.9, test)) for test in (1, 2, 10)]
    assert least == [19, 27, 43]  # as docs/judging.md says


def test_a_promise_lapses_where_what_always_passes_is_too_large_a_part() -> None:
    """4 in 1,000 pass without the event: of 20 they are a fifth, of fewer they are more."""
    assert not promise_lapses(0.020001, 0.004, 0.8)
    assert promise_lapses(0.019999, 0.004, 0.8)


@pytest.mark.parametrize(("n", "precision"), [(1, 0.5), (7, 0.8), (40, 0.8), (90, 0.95)])
def test_the_evidence_is_an_even_bet_on_higher_precisions(n: int, precision: float) -> None:
    for x in {0, n // 2, n - 1, n}:
        won, _ = integrate.quad(
            lambda q, x=x: (q / precision) ** x * ((1 - q) / (1 - precision)) ** (n - x),
            precision,
            1,
        )
        assert log_evidence(x, n, precision) == pytest.approx(math.log(won / (1 - precision)))
    mean = sum(
        stats.binom.pmf(x, n, precision) * math.exp(log_evidence(x, n, precision))
        for x in range(n + 1)
    )
    assert mean == pytest.approx(1)  # a fair game at the precision itself


def test_cuts_lie_at_the_ranks_and_never_between_equal_scores() -> None:
    assert cut_ranks(300) == [25, 40, 64, 102, 164, 262, 419]
    scores = [float(score) for score in range(300)]
    assert cut_scores(scores) == [275, 260, 236, 198, 136, 38, 0]
    assert FrozenCuts(scores).cuts == [260, 236, 198, 136, 38, 0]  # of 25 none may be off
    assert FrozenCuts(scores[:25]).cuts == [0]
    assert FrozenCuts([1.0] * 99 + [0.5]).cuts == [1, 0.5]
    assert FrozenCuts([]).cuts == []
    assert FrozenCuts(scores, 0.9).cuts == [236, 198, 136, 38, 0]
    assert FrozenCuts(scores[:20], 0.9).cuts == [0]
    first_version = confidence_of_test(0.9, 1)
    assert FrozenCuts(scores, 0.8, first_version).cuts[0] == 260  # of 40 two may be off
    assert (
        log_evidence(38, 40, 0.8) >= math.log(1 / (1 - first_version)) > log_evidence(37, 40, 0.8)
    )
    assert FrozenCuts([]).progress(lambda _: None) == CertifyProgress(None, None, 0)


@given(st.integers(1, 300), st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from([0.8, 0.9, 0.99]))
def test_the_labels_that_it_takes_at_best_are_known_before(
    count: int, precision: float, confidence: float
) -> None:
    scores = [float(place * 7919 % 10_007) for place in range(count)]
    cuts = FrozenCuts(scores, precision, confidence)
    label_at, strictest = dict[int, bool](), 0
    while (place := cuts.progress(label_at.get).next_match) is not None:
        label_at[place] = True
        if not strictest and cuts.progress(label_at.get).threshold is not None:
            strictest = len(label_at)
    plan = cuts.plan()
    assert plan.for_all == len(label_at)
    assert strictest == (plan.at_best if plan.for_all else 0)


@pytest.mark.parametrize("precision", [0.5, 0.6, 0.7])
def test_the_chance_of_a_proof_is_counted_over_all_answers(precision: float) -> None:
    share, n = (1 + precision) / 2, 10

    def is_proven(answers: tuple[bool, ...]) -> bool:
        right = list(accumulate(answers))
        return any(
            log_evidence(x, k, precision) >= math.log(1 / 0.2) - 1e-9
            for k, x in enumerate(right, 1)
        )

    chance = sum(
        share ** sum(answers) * (1 - share) ** (n - sum(answers))
        for answers in product([True, False], repeat=n)
        if is_proven(answers)
    )
    assert proof_chances(n, precision, 0.8)[n] == pytest.approx(chance)


def test_what_labels_usually_take_is_enough_in_half_of_all_draws() -> None:
    scores, chances = [float(score) for score in range(500)], proof_chances(25, 0.6, 0.9)
    plan = FrozenCuts(scores, 0.6, 0.9).plan()
    assert (plan.at_best, plan.usual, plan.expected_share) == (7, 25, 0.8)
    assert chances[24] < 0.5 <= chances[25]
    assert FrozenCuts(scores[:24], 0.6, 0.9).plan().usual == 0  # too few for half of the draws
    assert FrozenCuts(scores[:6], 0.6, 0.9).plan() == LabelPlan(7, 0, 0, 0.8)


@given(st.lists(st.booleans(), min_size=1, max_size=120), st.sampled_from([0.5, 0.7, 0.9]))
def test_one_look_equals_a_look_after_each_label(right: list[bool], precision: float) -> None:
    order = sorted(range(len(right)), key=lambda place: place * 7919 % 10_007)
    scores = [float(place // 2) for place in order]
    cuts = FrozenCuts(scores, precision)
    label_of = dict[int, bool]()
    while (progress := cuts.progress(label_of.get)).next_match is not None:
        assert progress.next_match not in label_of
        label_of[progress.next_match] = right[progress.next_match]
    at_once = cuts.progress(right.__getitem__)
    assert at_once.threshold == progress.threshold
    assert len(label_of) <= len(right)


def test_the_promise_holds_where_people_look_after_every_label() -> None:
    """On a flat null; the form for a fixed number breaks it, looked at as often."""
    random, broken, peeked, tries = np.random.default_rng(3), 0, 0, 300
    scores = np.arange(400.0)[::-1]
    for _ in range(tries):
        right = random.uniform(size=400) < 0.795
        order = random.permutation(400)
        cuts = FrozenCuts(scores[order])
        broken += cuts.progress(right[order].tolist().__getitem__).threshold is not None
        drawn = random.permutation(400)[:100]
        peeked += any(
            precision_threshold(scores[drawn[:n]], right[drawn[:n]]) is not None
            for n in range(11, 101)
        )
    assert broken <= 0.1 * tries
    assert peeked > 0.2 * tries


def test_the_promise_holds_where_people_draw_again_and_again() -> None:
    """On a flat null, ten draws each; with one error rate for each of them they break it."""
    random, tries = np.random.default_rng(5), 300

    def is_found(test: int) -> bool:
        right = random.uniform(size=100) < 0.795
        cuts = FrozenCuts(random.uniform(size=100), 0.8, confidence_of_test(0.9, test))
        return cuts.progress(right.tolist().__getitem__).threshold is not None

    numbered = sum(any(is_found(test) for test in range(1, 11)) for _ in range(tries))
    alike = sum(any(is_found(1) for _ in range(10)) for _ in range(tries))
    assert numbered <= 0.1 * tries
    assert alike > 0.15 * tries
