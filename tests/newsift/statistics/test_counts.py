import numpy as np
import pytest
from scipy import stats

from newsift.statistics.counts import (
    Tally,
    chance_of_constant_precision,
    count_in_period,
    count_posts,
    labels_missing,
)


def exact(on: int, n: int, size: int) -> tuple[int, int]:
    """The numbers of posts on the event that two one-sided tests at 5 % allow."""
    totals = np.arange(on, size - n + on + 1)
    above = stats.hypergeom.sf(on - 1, size, totals, n) > 0.05
    below = stats.hypergeom.cdf(on, size, totals, n) > 0.05
    possible = totals[above & below]
    return int(possible[0]), int(possible[-1])


def test_one_stratum_has_the_exact_interval() -> None:
    low, value, high = count_posts([Tally(500, 12, 28)], stopped=False)
    assert (low, high) == pytest.approx(exact(12, 40, 500))
    assert value == pytest.approx(150)


def test_strata_are_added_by_mover() -> None:
    first, second = Tally(500, 12, 28), Tally(3_000, 2, 38)
    values, ends = (150, 150), (exact(12, 40, 500), exact(2, 40, 3_000))
    below = sum((value - low) ** 2 for value, (low, _) in zip(values, ends, strict=True)) ** 0.5
    above = sum((high - value) ** 2 for value, (_, high) in zip(values, ends, strict=True)) ** 0.5
    assert count_posts([first, second], stopped=False) == pytest.approx(
        (300 - below, 300, 300 + above)
    )


@pytest.mark.parametrize("stopped", [False, True])
def test_an_unsure_label_is_off_for_the_lower_end_and_on_for_the_upper_one(stopped: bool) -> None:
    low, value, high = count_posts([Tally(500, 12, 20, 8), Tally(90, 3, 30, 1)], stopped)
    off, on = (
        count_posts([Tally(500, 12 + a, 28 - a), Tally(90, 3 + b, 31 - b)], stopped)
        for a, b in ((0, 0), (8, 1))
    )
    assert (low, high) == pytest.approx((off[0], on[2]))
    assert value == pytest.approx((off[1] + on[1]) / 2)


@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_all_labelled_is_known(stopped: bool) -> None:
    alone, known = [Tally(60, 7, 13)], Tally(9, 5, 3, 1)
    low, _, high = count_posts(alone, stopped)
    with_known = count_posts([*alone, known], stopped)
    assert (with_known[0], with_known[2]) == pytest.approx((low + 5, high + 6))
    assert count_posts([known], stopped) == (5, 5.5, 6)
    assert count_posts([], stopped) == (0, 0, 0)


def test_without_labels_everything_is_possible() -> None:
    assert count_posts([Tally(70)], stopped=False)[::2] == (0, 70)
    assert count_posts([Tally(70)], stopped=True)[::2] == (0, 70)
    assert labels_missing([Tally(70, 4, 2), Tally(3), Tally(90, 9, 9)]) == 4 + 3


def test_stopping_at_will_costs_width() -> None:
    strata = [Tally(500, 12, 28), Tally(3_000, 2, 38)]
    low, _, high = count_posts(strata, stopped=False)
    first, _, last = count_posts(strata, stopped=True)
    assert first < low < high < last


@pytest.mark.parametrize("stopped", [False, True])
def test_a_part_is_predicted_as_often_as_stated(stopped: bool) -> None:
    """Each part of a stratum of 200 posts, of which 60 are on the event and 40 are labelled."""
    random, on = np.random.default_rng(5), np.arange(200) < 60
    missed = 0
    for _ in range(2_000):
        verdicts = random.permutation(on)
        labels, part = verdicts[:40], np.r_[verdicts[:4], verdicts[40:66]]  # [40], [30]
        pair = (
            Tally(200, int(labels.sum()), int((~labels).sum())),
            Tally(30, int(labels[:4].sum()), int((~labels[:4]).sum())),
        )
        low, _, high = count_in_period([pair], stopped)
        missed += not low <= part.sum() <= high
    assert missed <= 200 if stopped else 100 < missed <= 200  # 10 %, less what is not whole


def test_a_period_with_labels_enough_is_counted_by_them_alone() -> None:
    whole, part = Tally(9_000, 10, 290), Tally(300, 25, 15)
    assert count_in_period([(whole, part)], False) == count_posts([part], False)
    few = Tally(300, 14, 15)
    assert count_in_period([(whole, few)], False) != count_posts([few], False)


def test_the_permutation_test_is_as_fishers_and_sees_a_change() -> None:
    table = {0: Tally(99, 3, 12), 1: Tally(99, 9, 8)}
    expected = stats.fisher_exact([[3, 12], [9, 8]]).pvalue
    assert chance_of_constant_precision([table]) == pytest.approx(expected, abs=0.03)
    changed = {0: Tally(99, 2, 28), 1: Tally(99, 15, 15)}
    assert chance_of_constant_precision([table, changed]) < 0.01
    assert chance_of_constant_precision([{0: Tally(9, 9), 1: Tally(9, 4)}, {0: Tally(5)}]) == 1
