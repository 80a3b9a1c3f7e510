from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from worker.match.bursts import (
    HISTORY_MINUTES,
    MAX_FALSE_ALARM,
    MAX_LATE_MINUTES,
    MIN_HISTORY_MINUTES,
    MIN_STORIES,
    Burst,
    Bursts,
    StoryCounts,
    beta_below,
    beta_quantile,
    binomial_tail,
    chi_square_below,
    chi_square_quantile,
    clopper_pearson,
    log_beta,
)

CLOSE = 1e-9


@pytest.mark.parametrize("n", [1, 2, 11, 60, 400, 20_000])
@pytest.mark.parametrize("p", [0.001, 0.5, 0.795, 0.999])
def test_the_binomial_tail_is_scipys(n: int, p: float) -> None:
    for least in {0, 1, n // 2, int(n * p), n - 1, n, n + 1}:
        expected = stats.binom.sf(least - 1, n, p)
        assert binomial_tail(n, p, least) == pytest.approx(expected, rel=1e-8, abs=1e-200)


def test_the_beta_distribution_is_scipys() -> None:
    random = np.random.default_rng(1)
    for a, b in np.exp(random.uniform(-1, 12, (300, 2))):
        x = stats.beta.ppf(random.uniform(), a, b)
        assert beta_below(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=CLOSE)
        assert log_beta(a, b) == pytest.approx(special.betaln(a, b), rel=1e-9, abs=CLOSE)


def test_the_chi_square_distribution_is_scipys() -> None:
    random = np.random.default_rng(2)
    for freedom in np.exp(random.uniform(-1, 11, 300)):
        x = stats.chi2.ppf(random.uniform(), freedom)
        assert chi_square_below(x, freedom) == pytest.approx(stats.chi2.cdf(x, freedom), abs=CLOSE)


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5, 0.95, 0.999])
def test_quantiles_are_scipys(share: float) -> None:
    for a, b in ((1, 1), (0.5, 40.0), (18, 2), (3.7, 2_000.0)):
        expected = stats.beta.ppf(share, a, b)
        assert beta_quantile(share, a, b) == pytest.approx(expected, rel=1e-8)
    for freedom in (1.0, 2.0, 7.3, 900.0):
        expected = stats.chi2.ppf(share, freedom)
        assert chi_square_quantile(share, freedom) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("positives", "n"), [(0, 20), (1, 20), (13, 20), (20, 20), (180, 200)])
def test_the_interval_of_a_share_is_scipys(positives: int, n: int) -> None:
    expected = stats.binomtest(positives, n).proportion_ci(0.9, "exact")
    assert clopper_pearson(positives, n, 0.1) == pytest.approx((expected.low, expected.high))


FIRST_START = 1_000_000


class Watch:
    """The bursts of an event, from its new stories by minute after the start."""

    def __init__(self, *starts: int) -> None:
        self.bursts = Bursts()
        self.partitions = {n: StoryCounts(FIRST_START + at) for n, at in enumerate(starts or [0])}

    def add(self, counts: dict[int, int], now: int, partition: int = 0) -> list[Burst]:
        stories = Counter({(partition, "e", FIRST_START + at): n for at, n in counts.items()})
        return self.bursts.add(self.partitions, stories, FIRST_START + now)


@pytest.mark.parametrize("rate", [0.02, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("minutes", [MIN_HISTORY_MINUTES, HISTORY_MINUTES])
def test_a_steady_rate_raises_no_more_false_alarms_than_stated(rate: float, minutes: int) -> None:
    """The probability over all pairs of a minute and its history, summed up."""
    total = 0.0
    for before in range(int(stats.poisson.isf(1e-12, rate * minutes)) + 1):
        least = MIN_STORIES
        while Burst("e", 0, least, before, minutes).chance >= MAX_FALSE_ALARM:
            least += 1
        alarm = stats.poisson.sf(least - 1, rate)
        total += stats.poisson.pmf(before, rate * minutes) * alarm
    assert total <= MAX_FALSE_ALARM


def test_five_stories_after_a_silent_hour_are_one_burst() -> None:
    watch = Watch()
    assert watch.add({61: 4}, 61) == []
    assert watch.add({61: 1}, 61) == [Burst("e", FIRST_START + 61, 5, 0, 60)]
    assert watch.add({61: 50}, 61) == []
    assert watch.add({62: 90}, 62) == []
    # The hour before was not silent.
    assert watch.add({61 + HISTORY_MINUTES: 5}, 61 + HISTORY_MINUTES) == []
    assert watch.add({62 + HISTORY_MINUTES: 990}, 62 + HISTORY_MINUTES) != []


def test_a_busy_event_needs_more() -> None:
    steady = dict.fromkeys(range(1, 61), 2)
    assert Watch().add(steady | {61: 9}, 61) == []
    assert [burst.stories for burst in Watch().add(steady | {61: 16}, 61)] == [16]


def test_a_short_history_raises_no_burst_and_the_first_minute_does_not_count() -> None:
    assert Watch().add({MIN_HISTORY_MINUTES: 1000}, MIN_HISTORY_MINUTES) == []
    result = Watch().add({MIN_HISTORY_MINUTES + 1: 1000, 0: 9}, MIN_HISTORY_MINUTES + 1)
    assert result == [Burst("e", FIRST_START + 11, 1000, 0, 10)]


def test_late_stories_are_history_and_early_ones_count_now() -> None:
    watch = Watch()
    assert watch.add({61: 100}, 62 + MAX_LATE_MINUTES) == []
    assert watch.add({62 + MAX_LATE_MINUTES: 5}, 62 + MAX_LATE_MINUTES) == []
    assert Watch().add({900: 5}, 61) == [
        Burst("e", FIRST_START + 61, 5, 0, 60)
    ]  # a clock that is wrong
    assert Watch().add({-5: 100}, 61) == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-200, 200), st.integers(1, 9))))
def test_memory_is_bounded_by_events_and_minutes(news: list[tuple[str, int, int]]) -> None:
    bursts, partition = Bursts(), StoryCounts(FIRST_START)
    for now, (event, minute, count) in enumerate(news, 100):
        bursts.add({0: partition}, {(0, event, FIRST_START + minute): count}, FIRST_START + now)
        minutes = [minute for counts in partition._counts.values() for minute in counts]
        assert len(partition._counts) <= 2
        assert all(
            now - HISTORY_MINUTES - MAX_LATE_MINUTES <= minute - FIRST_START <= now
            for minute in minutes
        )
    bursts.add({0: partition}, {}, FIRST_START + 10_000)
    assert (partition._counts, bursts._report_minutes) == ({}, {})


def test_each_event_is_tested_by_itself() -> None:
    rng = np.random.default_rng(1)
    news = Counter({(0, "calm", FIRST_START + m): int(rng.poisson(3)) for m in range(1, 62)})
    news[0, "loud", FIRST_START + 61] = 7
    result = Bursts().add({0: StoryCounts(FIRST_START)}, news, FIRST_START + 61)
    assert [burst.event for burst in result] == ["loud"]


def test_partitions_count_together_once_each_has_enough_history() -> None:
    watch = Watch(0, 20)  # the second was assigned twenty minutes later
    assert watch.add({30: 3}, 30, 0) == []
    assert watch.add({30: 3}, 30, 1) == []
    watch = Watch(0, 20)
    assert watch.add({31: 3}, 31, 0) == []
    assert watch.add({31: 3}, 31, 1) == [Burst("e", FIRST_START + 31, 6, 0, 10)]


def test_stories_of_a_partition_that_is_gone_do_not_count() -> None:
    assert Watch().add({61: 100}, 61, partition=1) == []
