import numpy as np
import pytest
from scipy import special, stats

from newsift.statistics.distributions import (
    Population,
    beta_below,
    beta_quantile,
    binomial_tail,
    chi_square_below,
    chi_square_quantile,
    clopper_pearson,
    hypergeometric_low,
    hypergeometric_quantile,
    hypergeometric_tail,
    log_beta,
    sequence_low,
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


def test_draws_without_replacement_are_scipys() -> None:
    random = np.random.default_rng(3)
    for size in (1, 2, 7, 300, 5_000, 1_000_000) * 40:
        positives, drawn = int(random.integers(size + 1)), int(random.integers(min(size, 500) + 1))
        population, count = Population(size, positives, drawn), int(random.integers(-1, drawn + 2))
        named = size, positives, drawn
        expected = stats.hypergeom.sf(count - 1, *named)
        assert hypergeometric_tail(population, count) == pytest.approx(expected, abs=CLOSE)
        share = float(random.uniform(0.01, 0.99))
        quantile = hypergeometric_quantile(share, population)
        assert quantile == int(stats.hypergeom.ppf(share, *named))


@pytest.mark.parametrize(
    ("positives", "n"), [(0, 20), (1, 20), (13, 20), (20, 20), (0, 0), (9, 60)]
)
def test_the_limit_of_a_number_is_the_least_that_an_exact_test_allows(
    positives: int, n: int
) -> None:
    tails = stats.hypergeom.sf(positives - 1, 60, np.arange(61), n)
    possible = (tails > 0.05) & (np.arange(61) <= 60 - n + positives)
    assert hypergeometric_low(positives, n, 60, 0.05) == np.flatnonzero(possible)[0]


@pytest.mark.parametrize("size", [1, 9, 40])
def test_a_sequence_excludes_the_truth_at_any_time_as_rarely_as_it_says(size: int) -> None:
    for positives in range(size + 1):
        paths = {0: 1.0}  # by the positives so far, of orders in which both limits held throughout
        for drawn in range(size):
            following = dict[int, float]()
            for count, chance in paths.items():
                hit = (positives - count) / (size - drawn)
                for step, share in ((1, hit), (0, 1 - hit)):
                    low = sequence_low(count + step, drawn + 1, size, 0.1)
                    rest = drawn + 1 - count - step
                    high = size - sequence_low(rest, drawn + 1, size, 0.1)
                    if share and low <= positives <= high:
                        following[count + step] = following.get(count + step, 0) + chance * share
            paths = following
        assert sum(paths.values()) >= 0.9 - CLOSE
        assert list(paths) == [positives]  # all are drawn: the number is known
