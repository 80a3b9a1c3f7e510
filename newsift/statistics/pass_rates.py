"""Posts an hour that would pass each threshold of an event, from matches and near misses.

Matches are complete above the threshold of their time; below it there is a sample of near misses,
and below those nothing is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from newsift.statistics.promise import F64
from worker.match.near import NearAnswer, merge_strata
from worker.posts.times import HOUR_MS, MINUTE_MS

MIN_WINDOW_MS = MINUTE_MS
MIN_POSTS_SEEN = 500  # Fewer say nothing about rates below 1 %.


def hourly_rate(count: float, since: int, now: int) -> float | None:
    """The rate of a count in a window of milliseconds; None where the window is too short."""
    return count / (now - since) * HOUR_MS if now - since >= MIN_WINDOW_MS else None


def describe_window(since: int, now: int) -> str:
    """The window in words, such as "in the 6 minutes seen"."""
    minutes = max(now - since, 0) / MINUTE_MS
    if minutes >= 24 * 60 - 1:
        return "in the last 24 hours"
    count, unit = (minutes / 60, "hour") if minutes >= 90 else (max(minutes, 1), "minute")
    return f"in the {round(count)} {unit}s seen" if round(count) > 1 else f"in the {unit} seen"


@dataclass(frozen=True, slots=True)
class ScoredMatch:
    score: float
    at: int  # milliseconds
    posts: float = 1.0  # with its copies
    hidden_below: float = -inf  # posts below this score would match now, but did not then


@dataclass(frozen=True, slots=True, eq=False)
class NearMissSample:
    """Sampled near misses, each with the share of the stream that it represents.

    Above the floor the sample lacks none.
    """

    scores: F64
    shares: F64
    floor: float

    @classmethod
    def from_answers(cls, answers: Sequence[NearAnswer]) -> "NearMissSample":
        """The floor is the highest lower end of any seed's strata."""
        posts = sum(answer.seen for answer in answers)
        scores, shares = [np.zeros(0)], [np.zeros(0)]
        for parts in zip(*(answer.strata for answer in answers), strict=False):
            stratum = merge_strata(parts)
            near_scores = np.array([near.score for near in stratum.kept], np.float64)
            share = stratum.count / max(len(near_scores), 1) / max(posts, 1)
            scores.append(near_scores)
            shares.append(np.full(len(near_scores), share))
        ends = [edges[-1] for answer in answers for edges in answer.edges.values()]
        floor = max(ends) if ends and posts >= MIN_POSTS_SEEN else inf
        return cls(np.concatenate(scores), np.concatenate(shares), floor)


class MatchHistory(NamedTuple):
    """All matches of a time, in milliseconds."""

    matches: Sequence[ScoredMatch]
    since: int
    now: int
    matched_from: float  # the highest current threshold of any seed


def pass_rates(
    edges: Sequence[float], history: MatchHistory, near: NearMissSample, posts_an_hour: float
) -> list[float | None]:
    """Posts an hour that reach each edge; None where that is unknown."""
    result: list[float | None] = []
    for edge, rate in zip(edges, _match_rates(edges, history), strict=True):
        if edge < history.matched_from and rate is not None:
            near_share = float(near.shares[near.scores >= edge].sum())
            rate = None if edge < near.floor else rate + near_share * posts_an_hour
        result.append(rate)
    return result


def _match_rates(edges: Sequence[float], history: MatchHistory) -> list[float | None]:
    """Matches an hour that reach each edge, of the time in which all such posts matched."""
    rows = [(m.score, m.at, m.posts, m.hidden_below) for m in history.matches]
    scores, times, posts, hidden_below = np.array(rows, np.float64).reshape(-1, 4).T
    rates: list[float | None] = []
    for edge in edges:
        begin = max(history.since, times[hidden_below > edge].max(initial=-1) + 1)
        passes = float(posts[(scores >= edge) & (times >= begin)].sum())
        rates.append(hourly_rate(passes, int(begin), history.now))
    return rates
