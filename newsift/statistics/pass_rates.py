"""Posts an hour that would pass each threshold of an event, from matches and near misses.

Matches are complete above the threshold of their time; below it there is a sample of near misses,
and below those nothing is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from newsift.statistics.promise import F64
from worker.match.reservoir import NearAnswer, merged

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000  # milliseconds
SHORTEST = MINUTE  # that tells a rate
ENOUGH_SEEN = 500  # posts; fewer tell nothing of what is one in hundreds


def an_hour(count: float, since: int, now: int) -> float | None:
    """The rate of a count in a window of milliseconds; None where the window is too short."""
    return count / (now - since) * HOUR if now - since >= SHORTEST else None


def window_words(since: int, now: int) -> str:
    """Such as: in the 6 minutes seen."""
    minutes = max(now - since, 0) / MINUTE
    if minutes >= 24 * 60 - 1:
        return "in the last 24 hours"
    count, unit = (minutes / 60, "hour") if minutes >= 90 else (max(minutes, 1), "minute")
    return f"in the {round(count)} {unit}s seen" if round(count) > 1 else f"in the {unit} seen"


@dataclass(frozen=True, slots=True)
class Passed:
    score: float
    at: int  # milliseconds
    posts: float = 1.0  # with its copies
    hid: float = -inf  # posts below this score would not have matched then, and would now


@dataclass(frozen=True, slots=True, eq=False)
class NearBy:
    """Sampled near misses, complete above the floor; each represents a share of the stream."""

    scores: F64
    shares: F64
    floor: float

    @classmethod
    def of(cls, answers: Sequence[NearAnswer]) -> "NearBy":
        """The floor is that of the seed whose strata end highest."""
        seen = sum(answer.seen for answer in answers)
        scores, shares = [np.zeros(0)], [np.zeros(0)]
        for parts in zip(*(answer.strata for answer in answers), strict=False):
            stratum = merged(parts)
            near_scores = np.array([near.score for near in stratum.kept], np.float64)
            each = stratum.count / max(len(near_scores), 1) / max(seen, 1)
            scores.append(near_scores)
            shares.append(np.full(len(near_scores), each))
        ends = [edges[-1] for answer in answers for edges in answer.edges.values()]
        floor = max(ends) if ends and seen >= ENOUGH_SEEN else inf
        return cls(np.concatenate(scores), np.concatenate(shares), floor)


def passing(
    edges: Sequence[float], matches: Sequence[Passed], since: int, now: int, matched_from: float,
    near: NearBy, posts_an_hour: float,
) -> list[float | None]:  # fmt: skip
    """Posts an hour that reach each edge; None where that is unknown.

    `matches` are all since `since`; posts match from `matched_from` on now, by any seed.
    """
    rates = _match_rates(edges, matches, since, now)
    result: list[float | None] = []
    for edge, rate in zip(edges, rates, strict=True):
        if edge < matched_from and (edge < near.floor or rate is None):
            rate = None
        elif edge < matched_from and rate is not None:
            rate += float(near.shares[near.scores >= edge].sum()) * posts_an_hour
        result.append(rate)
    return result


def _match_rates(
    edges: Sequence[float], matches: Sequence[Passed], since: int, now: int
) -> list[float | None]:
    """Matches an hour that reach each edge, of the time in which all such posts matched."""
    rows = [(m.score, m.at, m.posts, m.hid) for m in matches]
    scores, at, posts, hid = np.array(rows, np.float64).reshape(-1, 4).T
    rates: list[float | None] = []
    for edge in edges:
        begun = max(since, at[hid > edge].max(initial=-1) + 1)
        passed = float(posts[(scores >= edge) & (at >= begun)].sum())
        rates.append(an_hour(passed, int(begun), now))
    return rates
