"""The distributions that exact tests and intervals need."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

RELATIVE_PRECISION = 1e-15
MAX_TERMS = 100_000  # A continued fraction needs about √a + √b terms.
MIN_DIVISOR = 1e-300
CACHE_SIZE = 2**14  # Each test of the labels repeats those before it.
MAX_HALVINGS = 200  # A float resolves fewer.
ROUNDING = 1e-6  # of sums of log-gammas of a million: a limit may be too wide by that


@lru_cache(CACHE_SIZE)
def binomial_tail(n: int, p: float, least: int) -> float:
    """The probability of at least `least` successes in n trials."""
    if not 0 < least <= n:
        return float(least <= 0)
    return beta_below(p, least, n - least + 1)


def beta_below(x: float, a: float, b: float) -> float:
    """The probability that a beta variable is at most x."""
    if not 0 < x < 1:
        return float(x >= 1)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1 - front * _beta_fraction(1 - x, b, a) / b


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_quantile(share: float, a: float, b: float) -> float:
    """The value below which a beta variable lies with this probability."""
    return _bisect(lambda x: beta_below(x, a, b), share, 1.0)


def chi_square_below(x: float, freedom: float) -> float:
    """The probability that a chi-square variable is at most x; `freedom` need not be whole."""
    a, x = freedom / 2, x / 2
    if x <= 0:
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    return front * _gamma_series(a, x) if x < a + 1 else 1 - front * _gamma_fraction(a, x)


def chi_square_quantile(share: float, freedom: float) -> float:
    """The value below which a chi-square variable lies with this probability."""
    high = freedom + 1
    while chi_square_below(high, freedom) < share:
        high *= 2
    return _bisect(lambda x: chi_square_below(x, freedom), share, high)


def clopper_pearson(positives: float, n: float, alpha: float) -> tuple[float, float]:
    """The exact confidence interval of a share; each end misses with at most alpha / 2."""
    rest = n - positives
    low = beta_quantile(alpha / 2, positives, rest + 1) if positives > 0 else 0.0
    high = beta_quantile(1 - alpha / 2, positives + 1, rest) if rest > 0 else 1.0
    return low, high


class Population(NamedTuple):
    """Things of which some are positive, and the number of them that is drawn."""

    size: int
    positives: int
    drawn: int


@lru_cache(CACHE_SIZE)
def hypergeometric_tail(population: Population, least: int) -> float:
    """The probability of at least `least` positives in a draw without replacement."""
    size, positives, drawn = population
    lowest, highest = max(0, drawn + positives - size), min(positives, drawn)
    if not lowest < least <= highest:
        return float(least <= lowest)
    mode = (drawn + 1) * (positives + 1) // (size + 2)
    if least > mode:
        return min(1.0, _sum_falling(population, least, highest, 1))
    return max(0.0, 1 - _sum_falling(population, least - 1, lowest, -1))


def _sum_falling(population: Population, first: int, last: int, step: int) -> float:
    """The probabilities of the counts from `first` to `last`, away from the likeliest."""
    size, positives, drawn = population
    term = total = math.exp(
        log_choose(positives, first)
        + log_choose(size - positives, drawn - first)
        - log_choose(size, drawn)
    )
    for count in range(first, last, step):
        k = count if step > 0 else count - 1  # from k to k + 1, or back
        ratio = (positives - k) * (drawn - k) / ((k + 1) * (size - positives - drawn + k + 1))
        term *= ratio**step
        total += term
        if term <= RELATIVE_PRECISION * total:
            break
    return total


def log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def hypergeometric_quantile(share: float, population: Population) -> int:
    """The least count that a draw exceeds with probability 1 - share at most."""
    counts = range(min(population.positives, population.drawn))
    return bisect_left(
        counts, True, key=lambda count: 1 - hypergeometric_tail(population, count + 1) >= share
    )


@lru_cache(CACHE_SIZE)
def hypergeometric_low(positives: int, drawn: int, size: int, alpha: float) -> int:
    """The exact lower limit of the positives among `size`; it is too high with at most alpha."""
    return bisect_left(
        range(size - drawn + positives),
        True,
        positives,
        key=lambda all_positives: (
            hypergeometric_tail(Population(size, all_positives, drawn), positives) > alpha
        ),
    )


@lru_cache(CACHE_SIZE)
def sequence_low(positives: int, drawn: int, size: int, alpha: float) -> int:
    """A lower limit that holds after every draw without replacement at once.

    Numbers of positives whose likelihood is below alpha times that of a uniform prior are excluded
    (Waudby-Smith and Ramdas 2020): at any time the truth is, with probability at most alpha, for
    this limit and its mirror image together.
    """
    negatives = drawn - positives
    enough = math.log(alpha) - math.log(drawn + 1) - log_choose(drawn, positives)

    def is_likely(all_positives: int) -> bool:
        rest = log_choose(size - drawn, all_positives - positives) - log_choose(size, all_positives)
        return rest > enough - ROUNDING

    likeliest = size if not negatives else positives * (size + 1) // drawn if drawn else 0
    return bisect_left(range(likeliest), True, positives, key=is_likely)


def _bisect(rising: Callable[[float], float], value: float, high: float) -> float:
    """The argument from 0 to `high` at which a rising function reaches a value."""
    low = 0.0
    for _ in range(MAX_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rising(middle) < value:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d, c = 1 / _not_zero(1 + term * d), _not_zero(1 + term / c)
            value *= d * c
        if abs(value - before) <= RELATIVE_PRECISION * abs(value):
            break
    return value


def _gamma_series(a: float, x: float) -> float:
    """The sum of x^n / (a·(a + 1)…(a + n)), for x below a + 1."""
    term = total = 1 / a
    while term > RELATIVE_PRECISION * total:
        a += 1
        term *= x / a
        total += term
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """The continued fraction of the upper incomplete gamma function, for x above a."""
    b = x + 1 - a
    c, d = 1 / MIN_DIVISOR, 1 / _not_zero(b)
    value = d
    for n in range(1, MAX_TERMS):
        b += 2
        term = -n * (n - a)
        d, c = 1 / _not_zero(term * d + b), _not_zero(b + term / c)
        before = value
        value *= d * c
        if abs(value - before) <= RELATIVE_PRECISION * abs(value):
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > MIN_DIVISOR else MIN_DIVISOR
