"""`newsift bench estimate`: how often an interval of a count misses it, on posts with known labels.

A flat stream is the hardest: every stratum has the same small share on the event.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, pairwise, product
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.random import Generator

import encoder
from bench.crises import crises_among_news
from bench.measure import Report, ResultTable, TableRow
from encoder.encoder import Encoder
from newsift.statistics.count_draw import allocate
from newsift.statistics.counts import (
    CONFIDENCE,
    MAX_CHANCE,
    Tally,
    chance_of_constant_precision,
    count_in_period,
    count_posts,
)
from newsift.statistics.distributions import log_choose
from newsift.statistics.estimates import Estimate
from newsift.statistics.labels import StratumName
from newsift.statistics.promise import F64, Bools
from worker.config import MatchingConfig

Planned = Mapping[StratumName, int]

ODDS, LABELS = (10, 100, 1_000), (40, 100, 400)
FLAT_SIZES: Planned = {"upper": 1_000, "lower": 1_000, "near": 4_000}
FIRST_LOOK = 10
TEN = 10  # labels of each verdict
ROUNDING = 1e-9
PERIODS = 7
PERIOD_SHARES = np.arange(1, PERIODS + 1) / sum(range(1, PERIODS + 1))
DRIFT = 3.0
CRISIS_POSTS, CRISIS_ODDS = 20_000, (10, 100)
TENTHS = 10  # of the posts on the event: the exact reference divides them among strata by these


@dataclass(frozen=True, slots=True)
class LabelledStream:
    """The number of posts and of those on the event in each stratum."""

    name: str
    odds: str
    posts: Mapping[StratumName, int]
    on: Mapping[StratumName, int]

    @property
    def truth(self) -> int:
        return sum(self.on.values())


def flat(one_in: int) -> LabelledStream:
    on = {name: round(size / one_in) for name, size in FLAT_SIZES.items()}
    return LabelledStream("flat", f"1 in {one_in:,}", FLAT_SIZES, on)


def crises(enc: Encoder, data: Path, odds: Iterable[int]) -> Iterator[LabelledStream]:
    """Each labelled crisis among news: what a profile without a stream matches, and nearly does."""
    rate, factor = MatchingConfig().background_rate, MatchingConfig().read_factor
    for crisis in crises_among_news(enc, data):
        on, off, (floor, near) = crisis.profile_scores([rate, rate * factor])
        for one_in in odds:
            few = round(CRISIS_POSTS / one_in)
            random = np.random.default_rng(crc32(f"{crisis.name} {one_in}".encode()))
            drawn = (
                random.choice(on, few, replace=False),
                random.choice(off, CRISIS_POSTS - few, replace=False),
            )
            every = np.concatenate(drawn)
            cut = float(np.median(every[every >= floor]))
            bounds: Mapping[StratumName, tuple[float, float]] = {
                "upper": (cut, np.inf),
                "lower": (floor, cut),
                "near": (near, floor),
            }
            found = {
                name: [int(((low <= part) & (part < high)).sum()) for part in drawn]
                for name, (low, high) in bounds.items()
            }
            counts = {name: both for name, both in found.items() if sum(both)}
            yield LabelledStream(
                crisis.name.replace("_", " "), f"1 in {one_in:,}",
                {name: sum(both) for name, both in counts.items()},
                {name: both[0] for name, both in counts.items()},
            )  # fmt: skip


REMARKS = (
    "Covered: the interval for a fixed number of labels has the truth in it. Exact width: by",
    "test inversion, where ten labels of each verdict are expected. Always: the sequence has",
    "the truth in it after each label; wrong: so has the interval for a fixed number. Periods: of",
    f"seven, where precision is constant; drifting: where it is {DRIFT:g} times as high in the",
    "last; warned: of these repetitions, by the permutation test. Widths are medians.",
)


def measure_estimate(
    data: Path | None, model: str, repetitions: int, report: Report
) -> list[ResultTable]:
    """On flat streams, and on labelled crises where a folder of data is given."""
    streams = [flat(one_in) for one_in in ODDS]
    if data is not None:
        streams += crises(encoder.load(model, device="cpu"), data, CRISIS_ODDS)
    rows = []
    for stream, labels in product(streams, LABELS):
        report(f"{stream.name}, {stream.odds}: {labels} labels")
        rows.append(simulate(stream, labels, repetitions))
    title = f"Counts at {CONFIDENCE:g}, {repetitions:,} repetitions"
    return [ResultTable.of("estimate", title, rows, REMARKS)]


def simulate(stream: LabelledStream, labels: int, repetitions: int) -> TableRow:
    """Shares of all repetitions in per cent, and medians of widths."""
    planned = allocate(stream.posts, labels)
    random = np.random.default_rng(crc32(f"{stream.name} {stream.odds} {labels}".encode()))
    draws = [draw(stream, planned, random) for _ in range(repetitions)]
    fixed = [count_posts(tallies(stream, one), False) for one in draws]
    looks = [list(tallies_at_each_look(stream, one)) for one in draws]
    sequences = [[count_posts(look, True) for look in one] for one in looks]
    wrong = [[count_posts(look, False) for look in one] for one in looks]
    steady = [count_periods(stream, planned, 1.0, random) for _ in range(repetitions)]
    drifting = [count_periods(stream, planned, DRIFT, random) for _ in range(repetitions)]
    truth, exact = stream.truth, [exact_width(stream, planned, one) for one in draws]
    return {
        "stream": stream.name,
        "on topic": stream.odds,
        "labels": sum(planned.values()),
        "truth": truth,
        # Of an interval for a number of labels that was fixed beforehand.
        "covered %": percent(covers(count, truth) for count in fixed),
        "width": median(map(width_of, fixed)),
        # Where ten labels of each verdict are expected.
        "exact width": median(width for width in exact if width) if all(exact) else None,
        # By the sequence, after each label; its width is that after the last.
        "always %": percent(all(covers(look, truth) for look in one) for one in sequences),
        "its width": median(width_of(one[-1]) for one in sequences),
        # By the interval for a fixed number, after each label.
        "wrong: always %": percent(all(covers(look, truth) for look in one) for one in wrong),
        # Of all periods, where precision is constant, and where it is not.
        "periods %": percent(covered for one in steady for covered in one.covered),
        "drifting %": percent(covered for one in drifting for covered in one.covered),
        "warned %": percent(one.warned for one in drifting),
    }


def percent(outcomes: Iterable[bool]) -> float:
    return 100 * mean(outcomes)


def covers(estimate: Estimate, truth: float) -> bool:
    low, _, high = estimate
    return low - ROUNDING <= truth <= high + ROUNDING


def width_of(estimate: Estimate) -> float:
    return estimate[2] - estimate[0]


Draw = Mapping[StratumName, Bools]  # the verdicts in the order of the draw


def draw(stream: LabelledStream, planned: Planned, random: Generator) -> Draw:
    """Without replacement."""
    return {
        name: random.choice(stream.posts[name], count, replace=False) < stream.on[name]
        for name, count in planned.items()
    }


def tallies(stream: LabelledStream, verdicts: Draw) -> list[Tally]:
    return [
        Tally(stream.posts[name], int(on.sum()), int((~on).sum())) for name, on in verdicts.items()
    ]


def tallies_at_each_look(stream: LabelledStream, verdicts: Draw) -> Iterator[list[Tally]]:
    """After each label from the tenth on, asked for in all strata evenly."""
    every = sorted(
        ((n + 0.5) / len(on), name, int(verdict))
        for name, on in verdicts.items()
        for n, verdict in enumerate(on)
    )
    counts = {name: [0, 0] for name in verdicts}
    for look, (_, name, verdict) in enumerate(every, 1):
        counts[name][verdict] += 1
        if look >= FIRST_LOOK:
            yield [Tally(stream.posts[name], on, off) for name, (off, on) in counts.items()]


class PeriodOutcome(NamedTuple):
    covered: tuple[bool, ...]
    warned: bool


def count_periods(
    stream: LabelledStream, planned: Planned, drift: float, random: Generator
) -> PeriodOutcome:
    """Posts fall into periods of unequal length; in the last, matches are more often on."""
    truth = np.zeros(PERIODS, np.int64)
    strata: list[tuple[Tally, dict[int, Tally]]] = []
    for name, count in planned.items():
        size = stream.posts[name]
        period = np.sort(random.choice(PERIODS, size, p=PERIOD_SHARES))
        weights = np.where((period == PERIODS - 1) & (name != "near"), drift, 1.0)
        on = np.zeros(size, np.bool_)
        on[random.choice(size, stream.on[name], replace=False, p=weights / weights.sum())] = True
        labelled = np.zeros(size, np.bool_)
        labelled[random.choice(size, count, replace=False)] = True
        parts = {n: _tally(on[period == n], labelled[period == n]) for n in range(PERIODS)}
        truth += np.bincount(period[on], minlength=PERIODS)
        strata.append((_tally(on, labelled), parts))
    counts = [
        count_in_period([(whole, parts[n]) for whole, parts in strata], False)
        for n in range(PERIODS)
    ]
    chance = chance_of_constant_precision([parts for _, parts in strata])
    covered = tuple(map(covers, counts, truth.tolist()))
    return PeriodOutcome(covered, chance < MAX_CHANCE)


def _tally(on: Bools, labelled: Bools) -> Tally:
    return Tally(len(on), int(on[labelled].sum()), int((~on[labelled]).sum()))


def exact_width(stream: LabelledStream, planned: Planned, verdicts: Draw) -> float | None:
    """Of the interval by inversion of exact tests of the weighted number of labels on the event.

    None where fewer than ten labels of a verdict are expected, or where weights are not whole.
    """
    size, labels = sum(stream.posts.values()), sum(planned.values())
    weights = [stream.posts[name] / count for name, count in planned.items()]
    rare = min(stream.truth, size - stream.truth)
    if labels * rare < TEN * size or any(weight % weights[0] for weight in weights):
        return None
    strata = tuple(
        (stream.posts[name], count, round(weight / weights[0]))
        for (name, count), weight in zip(planned.items(), weights, strict=True)
    )
    statistic = sum(
        int(on.sum()) * part[2] for on, part in zip(verdicts.values(), strata, strict=True)
    )
    return _exact_width(strata, statistic)


Strata = tuple[tuple[int, int, int], ...]  # posts, labels, and the weight of a label


@cache
def _exact_width(strata: Strata, statistic: int) -> float:
    size = sum(posts for posts, _, _ in strata)
    alpha = (1 - CONFIDENCE) / 2

    def is_possible(total: int, upper: bool) -> bool:
        return _greatest_tail(strata, total, statistic, upper) > alpha

    low = bisect_left(range(size), True, key=lambda total: is_possible(total, True))
    high = bisect_left(range(size), True, key=lambda total: not is_possible(total, False))
    return high - 1 - low


@cache
def _greatest_tail(strata: Strata, total: int, statistic: int, upper: bool) -> float:
    """The greatest chance of such a statistic, or one beyond it, over divisions of the total."""
    greatest = 0.0
    for cuts in combinations_with_replacement(range(TENTHS + 1), len(strata) - 1):
        ends = [0, *(round(total * cut / TENTHS) for cut in cuts), total]
        counts = [end - start for start, end in pairwise(ends)]
        if any(not 0 <= on <= part[0] for on, part in zip(counts, strata, strict=True)):
            continue
        chances = np.ones(1)
        for on, (posts, labels, weight) in zip(counts, strata, strict=True):
            chances = np.convolve(chances, _chances(posts, labels, weight, on))
        tail = chances[statistic:] if upper else chances[: statistic + 1]
        greatest = max(greatest, float(tail.sum()))
    return greatest


@cache
def _chances(posts: int, labels: int, weight: int, on: int) -> F64:
    """Of each weighted number of labels on the event."""
    chances = np.zeros(labels * weight + 1)
    for count in range(max(0, labels - posts + on), min(labels, on) + 1):
        choices = log_choose(on, count) + log_choose(posts - on, labels - count)
        chances[count * weight] = math.exp(choices - log_choose(posts, labels))
    return chances
