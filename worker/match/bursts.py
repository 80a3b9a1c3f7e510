"""Bursts of new stories by an exact binomial test; the distributions that such tests need."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

RELATIVE_PRECISION = 1e-15
MAX_TERMS = 100_000  # A continued fraction needs about √a + √b terms.
MIN_DIVISOR = 1e-300
CACHE_SIZE = 2**14  # Each test of the labels repeats those before it.
MAX_HALVINGS = 200  # A float resolves fewer.


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


MAX_FALSE_ALARM = 1e-6  # the chance for one event in one minute
MIN_STORIES = 5
HISTORY_MINUTES = 60  # An event has at most one burst in this time.
MIN_HISTORY_MINUTES = 10
MAX_LATE_MINUTES = 5  # Later stories count as history.


@dataclass(frozen=True, slots=True)
class Burst:
    """New story groups of an event: in one minute, and in the minutes before it."""

    event: str
    minute: int  # since 1970
    stories: int
    before: int
    minutes: int

    @property
    def chance(self) -> float:
        """The probability of so many stories in this minute at a steady rate."""
        return binomial_tail(self.stories + self.before, 1 / (self.minutes + 1), self.stories)


class StoryCounts:
    """New story groups by event and minute, in one partition."""

    def __init__(self, start: int) -> None:
        """`start` is the minute of the assignment; earlier ones are unknown."""
        self.start = start
        self._counts: dict[str, Counter[int]] = {}

    def add(self, event: str, minute: int, count: int, now: int) -> None:
        """A minute in the future counts as the present one."""
        if minute > self.start and minute >= now - HISTORY_MINUTES - MAX_LATE_MINUTES:
            self._counts.setdefault(event, Counter())[min(minute, now)] += count

    def stories(self, event: str) -> Counter[int]:
        """Numbers of new stories by minute."""
        return self._counts.get(event, Counter())

    def drop_before(self, first: int) -> None:
        for event, counts in list(self._counts.items()):
            recent = Counter({minute: count for minute, count in counts.items() if minute >= first})
            self._counts[event] = recent
            if not recent:
                del self._counts[event]


class Bursts:
    """Finds bursts in the counts of several partitions, one an hour for each event.

    A partition takes part once it has enough history.
    """

    def __init__(self) -> None:
        self._now = 0
        self._report_minutes: dict[str, int] = {}

    def add(
        self,
        partitions: Mapping[int, StoryCounts],
        stories: Mapping[tuple[int, str, int], int],
        now: int,
    ) -> list[Burst]:
        """Counts stories by partition, event and minute; returns the bursts."""
        if now > self._now:
            self._now, first = now, now - HISTORY_MINUTES - MAX_LATE_MINUTES
            for counts in partitions.values():
                counts.drop_before(first)
            self._report_minutes = {
                e: minute for e, minute in self._report_minutes.items() if minute >= first
            }
        minutes = set()
        for (partition, event, minute), count in stories.items():
            if partition in partitions:
                partitions[partition].add(event, minute, count, now)
                minutes.add((event, min(minute, now)))
        bursts = [
            self._burst(partitions.values(), event, minute) for event, minute in sorted(minutes)
        ]
        return [burst for burst in bursts if burst is not None]

    def _burst(self, partitions: Collection[StoryCounts], event: str, minute: int) -> Burst | None:
        part = [counts for counts in partitions if minute - counts.start - 1 >= MIN_HISTORY_MINUTES]
        minutes = min([HISTORY_MINUTES, *(minute - counts.start - 1 for counts in part)])
        total: Counter[int] = Counter()
        for counts in part:
            total.update(counts.stories(event))
        stories = total[minute]
        if stories < MIN_STORIES or minute < self._now - MAX_LATE_MINUTES:
            return None
        if minute < self._report_minutes.get(event, minute - HISTORY_MINUTES) + HISTORY_MINUTES:
            return None
        before = sum(total[past] for past in range(minute - minutes, minute))
        burst = Burst(event, minute, stories, before, minutes)
        if burst.chance >= MAX_FALSE_ALARM:
            return None
        self._report_minutes[event] = minute
        return burst
