from collections.abc import Mapping
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.statistics.pass_rates import (
    MatchHistory,
    NearMissSample,
    ScoredMatch,
    describe_window,
    hourly_rate,
    pass_rates,
)
from worker.match.near import NearAnswer, NearMiss, Stratum
from worker.posts.outcome import Post
from worker.posts.times import HOUR_MS

NOBODY = NearMissSample.from_answers([])
NOW = 100 * HOUR_MS
WINDOWS = {
    0: "in the minute seen", 1: "in the minute seen", 6: "in the 6 minutes seen",
    89: "in the 89 minutes seen", 90: "in the 2 hours seen", 1_200: "in the 20 hours seen",
    1_440: "in the last 24 hours",
}  # fmt: skip


def answer(
    seen: int, edges: Mapping[str, tuple[float, ...]], *strata: tuple[int, list[tuple[str, float]]]
) -> NearAnswer:
    stored = [
        Stratum(count, tuple(NearMiss(Post(name, "x", "t"), s) for name, s in own))
        for count, own in strata
    ]
    return NearAnswer("fire", "0" * 12, dict(edges), tuple(stored), seen)


def test_near_misses_stand_for_those_that_were_only_counted() -> None:
    edges = {"a": (0.5, 0.3, 0.2), "b": (0.4, 0.35, 0.25)}
    one = answer(1_000, edges, (8, [("1", 0.45), ("2", 0.31)]), (1, [("3", 0.22)]))
    other = answer(3_000, edges, (2, [("4", 0.33), ("5", 0.3)]), (5, [("6", 0.26)]))
    near = NearMissSample.from_answers([one, other])
    assert near.floor == 0.25
    # 10 of 4,000 posts are in the first stratum, of which four are kept; 6 and two in the second
    each, below = 2.5 / 4_000 * 2_000, 3 / 4_000 * 2_000
    questions = [0.5, 0.46, 0.45, 0.32, 0.3, 0.25, 0.24]
    result = pass_rates(
        questions,
        MatchHistory([ScoredMatch(0.6, NOW - 1)], NOW - 2 * HOUR_MS, NOW, 0.5),
        near,
        2_000,
    )
    assert result == pytest.approx(
        [0.5, 0.5, 0.5 + each, 0.5 + 2 * each, 0.5 + 4 * each, 0.5 + 4 * each + below, None]
    )


def test_without_workers_nothing_below_the_threshold_is_known() -> None:
    few = NearMissSample.from_answers(
        [answer(499, {"a": (0.5, 0.3, 0.2)}, (1, [("1", 0.4)]), (0, []))]
    )
    for near in (NOBODY, few):
        assert near.floor == inf
        result = pass_rates([0.6, 0.5, 0.4], MatchHistory([], NOW - HOUR_MS, NOW, 0.5), near, 100)
        assert result == [0, 0, None]


def test_a_rate_names_its_window() -> None:
    assert hourly_rate(640, NOW - 6 * 60_000, NOW) == 6_400
    assert hourly_rate(640, NOW - 59_999, NOW) is None
    output = {minutes: describe_window(NOW - minutes * 60_000, NOW) for minutes in WINDOWS}
    assert output == WINDOWS


@given(st.integers(1, 99), st.integers(0, 2**31))
def test_a_lowered_threshold_hides_nothing_above_the_old_one(moved_at: int, seed: int) -> None:
    """A post comes each hour; those that reach the threshold of their time have matched."""
    scores = np.random.default_rng(seed).random(100).round(2).tolist()
    scores[moved_at - 1] = 0.99  # the last one under the old threshold
    matches = [
        ScoredMatch(score, hour * HOUR_MS, 1.0, 0.7 if hour < moved_at else -inf)
        for hour, score in enumerate(scores)
        if score >= (0.7 if hour < moved_at else 0.5)
    ]
    high, low = pass_rates([0.7, 0.6], MatchHistory(matches, 0, NOW, 0.5), NOBODY, 0)
    assert high == pytest.approx(sum(score >= 0.7 for score in scores) / 100)
    since = sum(score >= 0.6 for score in scores[moved_at:])
    assert low == pytest.approx(since / (100 - moved_at + 1), rel=1e-6)


def test_a_rate_wants_a_minute_at_least() -> None:
    late = [ScoredMatch(0.6, NOW - 59_999)]
    assert pass_rates([0.5], MatchHistory(late, NOW - 59_999, NOW, 0.5), NOBODY, 0) == [None]
    assert pass_rates([0.5], MatchHistory(late, NOW - 60_000, NOW, 0.5), NOBODY, 0) == [60]
